//! Simulated host: its cores, the jobs that wait for them, and its invocations in flight.

use std::collections::BTreeSet;

use eciton_types::TaskKey;

use crate::link::Link;

/// Job of a core. Jobs are ordered like steps: by epoch, then by stage (forward before backward),
/// then by interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    pub key: TaskKey,
    pub kind: JobKind,
    /// Index of the flight (invocation) that the job belongs to.
    pub flight: u32,
}

/// Kinds of jobs. For one step, the job that ends the step comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JobKind {
    /// Decodes an answer of a function.
    Receive,
    Gather,
    /// Runs a tensor step.
    Tensor,
    /// Creates a request to a function.
    Send,
}

/// Limit of invocations in flight. It decreases by one after each throttled invocation. After a
/// number of unthrottled invocations that equals the limit, it increases by one (like in
/// `eciton-exec`'s remote pool).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Number by which the limit is currently lowered.
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

/// Simulated host. The number of waiting jobs and tasks is at most the steps of an epoch times the
/// attempts at each.
#[derive(Debug)]
pub(crate) struct Host {
    pub free_cores: u32,
    /// Jobs that only cores of this host can run.
    pub jobs: BTreeSet<Job>,
    /// Tensor tasks that wait for a core or a function, whichever is free first.
    pub tasks: BTreeSet<TaskKey>,
    pub in_flight: u32,
    /// Maximum number of invocations in flight.
    pub limit: u32,
    pub pace: Pace,
    pub link: Link,
    /// Time at which the network to other hosts is free again, in microseconds.
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

    /// Returns the next job of a free core. If there are functions (`shared`), jobs that only the
    /// core can run come first.
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

    /// Returns the next task for a function, if one more invocation may be in flight.
    pub(crate) fn next_task(&mut self) -> Option<TaskKey> {
        if self.in_flight >= self.pace.allowed(self.limit) {
            return None;
        }
        self.tasks.pop_first()
    }

    /// Returns the number of jobs and tasks that wait.
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
