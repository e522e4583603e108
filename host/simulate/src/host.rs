//! Simulated host with its cores, waiting jobs, and invocations in flight.

use std::collections::BTreeSet;

use eciton_types::TaskKey;

use crate::link::Link;

/// Job for a core of the host. Jobs are ordered by epoch, stage (forward before backward) and
/// interval, which is the order of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    pub key: TaskKey,
    pub kind: JobKind,
    /// Index of the flight (invocation) that the job belongs to. Unused for jobs that run on the
    /// host only.
    pub flight: u32,
}

/// Kind of a core's job. The order of the variants decides between jobs of the same step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JobKind {
    /// Decodes the answer of a function.
    Receive,
    Gather,
    /// Runs a tensor step on the core instead of in a function.
    Tensor,
    /// Encodes a request to a function.
    Send,
}

/// Adaptive limit on invocations in flight, like in the remote pool of `eciton-exec`. Each
/// throttled invocation lowers the limit by one. The limit rises by one after as many unthrottled
/// invocations in a row as the limit itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Difference between the maximum and the current limit.
    less: u32,
    calm: u32,
}

impl Pace {
    pub(crate) fn allowed(self, most: u32) -> u32 {
        most.saturating_sub(self.less).max(most.min(1))
    }

    pub(crate) fn after(&mut self, throttled: bool, most: u32) {
        let now = self.allowed(most);
        if throttled {
            self.calm = 0;
            // Not below one; and a limit that fell took some of it already.
            self.less = most.saturating_sub(now.saturating_sub(1).max(1));
        } else if self.less > 0 {
            self.calm += 1;
            if self.calm >= now {
                self.calm = 0;
                self.less = most.saturating_sub(now + 1);
            }
        }
    }
}

/// State of one simulated host. The number of waiting jobs and tasks is bounded by the number of
/// attempts at all steps of an epoch.
#[derive(Debug)]
pub(crate) struct Host {
    pub free_cores: u32,
    /// Waiting jobs that only a core of this host can run.
    pub jobs: BTreeSet<Job>,
    /// Waiting tensor tasks, for a core or for a function.
    pub tasks: BTreeSet<TaskKey>,
    pub in_flight: u32,
    /// Maximum number of invocations in flight from this host.
    pub limit: u32,
    pub pace: Pace,
    pub link: Link,
    /// Time at which the network to the other hosts becomes free, in microseconds.
    pub network_free_us: u64,
    pub busy_us: u64,
}

impl Host {
    pub(crate) fn new(cores: u32, link: Link) -> Self {
        Self {
            free_cores: cores,
            jobs: BTreeSet::new(),
            tasks: BTreeSet::new(),
            in_flight: 0,
            limit: 0,
            pace: Pace::default(),
            link,
            network_free_us: 0,
            busy_us: 0,
        }
    }

    /// Removes and returns the next job for a free core. If there are functions, `shared` allows
    /// cores to run tensor tasks, but only when no other job waits.
    pub(crate) fn next_job(&mut self, shared: bool) -> Option<Job> {
        let local = self.limit == 0 || shared;
        let task = self.tasks.first().copied().filter(|_| local);
        let job = self.jobs.first().copied();
        match (job, task) {
            (Some(job), Some(task)) if self.limit == 0 && task < job.key => self.take(task),
            (Some(job), _) => {
                self.jobs.remove(&job);
                Some(job)
            }
            (None, Some(task)) => self.take(task),
            (None, None) => None,
        }
    }

    fn take(&mut self, key: TaskKey) -> Option<Job> {
        self.tasks.remove(&key);
        Some(Job { key, kind: JobKind::Tensor, flight: 0 })
    }

    /// Removes and returns the next task for a function, or `None` if the limit on invocations in
    /// flight is reached.
    pub(crate) fn next_task(&mut self) -> Option<TaskKey> {
        if self.in_flight >= self.pace.allowed(self.limit) {
            return None;
        }
        self.tasks.pop_first()
    }

    /// Returns the number of waiting jobs and tasks.
    pub(crate) fn waiting(&self) -> u64 {
        (self.jobs.len() + self.tasks.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Rates;
    use eciton_types::{Attempt, IntervalId, Round, StageId};

    fn key(round: u32, stage: u16, interval: u32) -> TaskKey {
        let (round, stage) = (Round(round), StageId(stage));
        TaskKey { round, stage, interval: IntervalId(interval), attempt: Attempt(0) }
    }

    #[test]
    fn lower_epochs_come_first_then_forward_stages_then_lower_intervals() {
        let mut host = Host::new(1, Link::new(Rates::new(800.0, 200.0, 1e4)));
        let gather = |key| Job { key, kind: JobKind::Gather, flight: 0 };
        host.jobs.extend([gather(key(2, 1, 0)), gather(key(1, 5, 0)), gather(key(1, 1, 7))]);
        host.tasks.extend([key(1, 0, 9), key(1, 4, 0)]);
        let order: Vec<_> = std::iter::from_fn(|| host.next_job(false)).map(|job| job.key).collect();
        assert_eq!(order, [key(1, 0, 9), key(1, 1, 7), key(1, 4, 0), key(1, 5, 0), key(2, 1, 0)]);
        // With functions the core leaves tasks to them, or takes them last.
        host.limit = 1;
        host.jobs.insert(gather(key(3, 1, 0)));
        host.tasks.insert(key(1, 0, 0));
        assert_eq!(host.next_job(false).map(|job| job.key), Some(key(3, 1, 0)));
        assert_eq!(host.next_job(false), None);
        assert_eq!(host.next_job(true).map(|job| job.kind), Some(JobKind::Tensor));
    }

    #[test]
    fn throttling_lowers_the_pace_to_one_at_most_and_calm_restores_it() {
        let mut pace = Pace::default();
        (0..20).for_each(|_| pace.after(true, 8));
        assert_eq!((pace.allowed(8), pace.allowed(0)), (1, 0));
        (0..100).for_each(|_| pace.after(false, 8));
        assert_eq!(pace.allowed(8), 8);
    }
}
