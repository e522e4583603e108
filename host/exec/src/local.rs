//! The local pool, an executor that runs jobs on threads of this machine.

mod queues;
mod waiting;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use eciton_kernel::Instances;
use eciton_tensor::parallel;

use self::queues::{SPIN, Shared};
use self::waiting::Waiting;
use crate::completion::Completion;
use crate::executor::{Capabilities, Executor, Load, Usage};
use crate::framed::{Framed, Framing};
use crate::job::{Job, Order};
use crate::pending::PendingJob;

pub use queues::Inbox;
pub use waiting::run_guarded;

/// Settings of a [`LocalPool`].
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Number of compute threads, at least 1. The driver's thread is one of them.
    pub threads: u32,
    /// True if every task gets a new kernel instance. If false, each thread reuses its instances.
    pub fresh_instances: bool,
    /// True if a thread takes the most recently submitted job first. If false, it takes the oldest
    /// job first.
    pub newest_first: bool,
    /// Number of lanes (shares of the pipeline), each with its own thread. The driver's thread has
    /// no lane, so `threads` must be larger than `lanes`.
    pub lanes: u32,
}

/// Executor that runs jobs on threads of this machine. The driver's thread also runs jobs while it
/// waits in [`Executor::drain`].
pub struct LocalPool {
    shared: Arc<Shared>,
    own: Instances,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for LocalPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LocalPool({} threads)", self.threads.len() + 1)
    }
}

impl LocalPool {
    /// Creates a pool and starts `settings.threads - 1` threads. The driver's thread is the
    /// remaining one. A caller that runs kernels must also start a [`crate::Clock`], which stops
    /// kernels that run for too long.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot start a thread.
    pub fn new(settings: Settings) -> std::io::Result<Self> {
        let limit = AtomicU32::new(settings.threads.saturating_sub(1));
        let shared = Shared { newest_first: settings.newest_first, limit, ..Shared::default() };
        let shared = Arc::new(shared);
        shared.lock().lanes.resize_with(settings.lanes as usize, VecDeque::new);
        let own = Instances::new(settings.fresh_instances);
        let mut pool = Self { shared, own, threads: Vec::new() };
        for n in 1..settings.threads {
            let (shared, fresh) = (pool.shared.clone(), settings.fresh_instances);
            let thread = std::thread::Builder::new().name(format!("eciton-{n}"));
            pool.threads.push(thread.spawn(move || shared.serve(n, fresh))?);
        }
        Ok(pool)
    }

    /// Returns the inbox through which other executors report the ends of their jobs.
    /// [`Executor::drain`] then waits for the jobs of this pool and of those executors.
    pub fn inbox(&self) -> Inbox {
        Inbox(self.shared.clone())
    }

    /// Makes the threads round the rows of all later tasks as a frame with `framing` would. Results
    /// then equal those of a function or a worker. Only the first call has an effect.
    pub fn round(&self, framing: Framing) {
        // The first call wins, and the pool has only one owner.
        let _ = self.shared.rounding.set(framing);
    }

    /// Queues a task that is stored as a frame. Its answer is [`crate::Answered::Apart`], because
    /// other attempts at the task may be in flight.
    pub(crate) fn submit_framed(&mut self, framed: Arc<Framed>) {
        self.push(Waiting::Framed(framed));
    }

    /// Writes the task of `order` as a frame and queues it, so that other attempts at the task may
    /// be in flight. If the frame cannot be written, this reports the failure to the inbox.
    pub fn submit_written(&mut self, framing: &Framing, order: &Order) {
        match framing.write(order) {
            Ok(framed) => self.submit_framed(Arc::new(framed)),
            Err(error) => PendingJob::refuse(&self.inbox(), order, error),
        }
    }

    fn push(&mut self, waiting: Waiting) {
        let mut queues = self.shared.lock();
        queues.waiting.push_back(waiting);
        self.shared.wake(queues);
    }
}

impl Executor for LocalPool {
    fn submit(&mut self, job: Job) {
        let lane = job.affinity.worker();
        let waiting = Waiting::Job(Box::new(job));
        let mut queues = self.shared.lock();
        match queues.lanes.get_mut(lane) {
            Some(own) => own.push_back(waiting),
            None => queues.waiting.push_back(waiting),
        }
        self.shared.wake(queues);
    }

    fn set_limit(&mut self, count: u32) {
        self.shared.limit.store(count.min(self.capabilities().most), Ordering::Release);
        // The lock is taken so that no thread is between its check for work and its sleep.
        drop(self.shared.lock());
        self.shared.more.notify_all();
        self.shared.work.notify_all();
    }

    fn capabilities(&self) -> Capabilities<'_> {
        // Not larger than `Settings::threads`.
        Capabilities { most: self.threads.len() as u32, ..Capabilities::default() }
    }

    fn usage(&self) -> Usage {
        let waiting = self.shared.lock().waits() as u64;
        let in_flight = self.shared.helping.load(Ordering::Relaxed);
        Usage { load: Load { waiting, in_flight }, ..Usage::default() }
    }

    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> bool {
        let end = timeout.map(|t| Instant::now() + t);
        parallel::join(self.shared.clone());
        loop {
            let mut queues = self.shared.lock();
            if !queues.done.is_empty() {
                done.append(&mut queues.done);
                self.shared.done_hint.store(0, Ordering::Release);
                return queues.busy();
            }
            if let Some(job) = self.shared.take(&mut queues, 0) {
                drop(queues);
                let completion = job.run(&mut self.own, 0, self.shared.rounding.get());
                let mut queues = self.shared.lock();
                queues.running -= 1;
                done.append(&mut queues.done);
                self.shared.done_hint.store(0, Ordering::Release);
                done.push(completion);
                return queues.busy();
            }
            if !queues.busy() {
                return false;
            }
            let operation = self.shared.operation(&queues);
            drop(queues);
            if let Some(pieces) = operation {
                self.shared.help(&pieces);
                continue;
            }
            let until = Instant::now() + SPIN;
            while self.shared.done_hint.load(Ordering::Acquire) == 0
                && self.shared.operations_hint.load(Ordering::Acquire) == 0
                && Instant::now() < until
            {
                std::hint::spin_loop();
            }
            let mut queues = self.shared.lock();
            if queues.done.is_empty() && queues.busy() && self.shared.operation(&queues).is_none() {
                let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                if left.is_some_and(|left| left.is_zero()) {
                    return true;
                }
                queues.driver_sleeps = true;
                let done = &self.shared.done;
                let mut queues = match left {
                    None => done.wait(queues).unwrap_or_else(PoisonError::into_inner),
                    Some(left) => done.wait_timeout(queues, left).unwrap_or_else(PoisonError::into_inner).0,
                };
                queues.driver_sleeps = false;
            }
        }
    }
}

impl Drop for LocalPool {
    fn drop(&mut self) {
        parallel::leave();
        self.shared.closing.store(true, Ordering::Release);
        {
            // The lock is taken so that no thread is between its check for work and its sleep.
            let mut queues = self.shared.lock();
            queues.waiting.clear();
            queues.lanes.clear();
            queues.offers.clear();
        }
        self.shared.work.notify_all();
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed the panic itself.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::completion::{Timing, WorkError};
    use crate::job::{Affinity, Work};
    use crate::process::Process;
    use eciton_types::{Attempt, IntervalId, Round, StageId, Task, Version};

    fn job(n: u32, work: impl FnOnce() -> Result<(), String> + Send + 'static) -> Job {
        let (round, stage, interval) = (Round(1), StageId(0), IntervalId(n));
        let task = Task { round, stage, interval, attempt: Attempt(0), weights: Version(0) };
        Job { pass: 1, task, work: Work::Host(Box::new(work)), deadline: None, affinity: Affinity::HOST }
    }

    #[test]
    fn all_work_is_done_once_and_a_panic_ends_its_own_job_only() {
        for threads in [1, 2, 3] {
            let mut pool =
                LocalPool::new(Settings { threads, fresh_instances: false, newest_first: false, lanes: 0 })
                    .unwrap();
            let counter = Arc::new(AtomicUsize::new(0));
            for n in 0..100 {
                let counter = counter.clone();
                pool.submit(job(n, move || {
                    assert!(n != 50, "planted");
                    counter.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                }));
            }
            let mut done = Vec::new();
            while done.len() < 100 {
                pool.drain(&mut done, None);
            }
            assert_eq!(counter.load(Ordering::Relaxed), 99);
            let failed = done.iter().filter(|c| match c {
                Completion::Ended { result: Err(WorkError::Host(text)), key, .. } => {
                    text == "planted" && key.interval.0 == 50
                }
                _ => false,
            });
            assert_eq!(failed.count(), 1);
            let before = done.len();
            pool.drain(&mut done, None);
            assert_eq!(done.len(), before, "an idle pool does not wait");
            let inbox = pool.inbox();
            inbox.begin();
            pool.drain(&mut done, Some(Duration::from_millis(5)));
            assert_eq!(done.len(), before, "the time-out ends the wait");
            let (timing, result) = (Timing::since(Instant::now(), None), Err(WorkError::Host(String::new())));
            let key = job(7, || Ok(())).task.key();
            let (affinity, by) = (Affinity::Any, Process::HOST);
            inbox.end(Completion::Ended { pass: 1, key, affinity, timing, by, result });
            pool.drain(&mut done, None);
            assert_eq!(done.len(), before + 1);
        }
    }

    #[test]
    fn threads_without_a_job_help_with_the_job_of_another() {
        let settings = Settings { threads: 2, fresh_instances: false, newest_first: false, lanes: 0 };
        let mut pool = LocalPool::new(settings).unwrap();
        for (limit, rounds) in [(0, 3), (1, 100), (0, 3)] {
            pool.set_limit(limit);
            for _ in 0..rounds {
                let both = std::sync::Barrier::new(1 + limit as usize);
                pool.submit(job(0, move || {
                    assert_eq!(parallel::threads(), 1 + limit as usize);
                    // Each piece waits until another thread computes the other one.
                    parallel::for_each(2, usize::MAX, &|_| {
                        both.wait();
                    });
                    Ok(())
                }));
                let mut done = Vec::new();
                while done.is_empty() {
                    pool.drain(&mut done, None);
                }
                assert!(matches!(&done[..], [Completion::Ended { result: Ok(_), .. }]), "{done:?}");
            }
        }
    }

    #[test]
    fn no_more_threads_work_than_may_and_none_is_lost() {
        let mut pool =
            LocalPool::new(Settings { threads: 4, fresh_instances: false, newest_first: false, lanes: 0 })
                .unwrap();
        assert_eq!(pool.capabilities().most, 3);
        for limit in [3, 0, 1, 0, 9, 2] {
            pool.set_limit(limit);
            // A job that a thread began before the change may still be running.
            let mut done = Vec::new();
            while pool.drain(&mut done, None) {}
            done.clear();
            for n in 0..200 {
                let work = || {
                    for n in 0..2000 {
                        std::hint::black_box(n);
                    }
                    Ok(())
                };
                pool.submit(job(n, work));
            }
            let load = pool.usage().load;
            assert!(load.waiting <= 200 && load.in_flight <= limit.min(3));
            while done.len() < 200 {
                pool.drain(&mut done, None);
            }
            let thread = |c: &Completion| match c {
                Completion::Ended { timing, .. } => timing.thread.unwrap(),
                _ => panic!("{c:?}"),
            };
            assert!(done.iter().map(thread).all(|thread| thread <= limit), "at most {limit}");
            assert_eq!(pool.usage().load, Load::default());
        }
    }
}
