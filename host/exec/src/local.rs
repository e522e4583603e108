//! The local pool: kernels and graph work on this machine's threads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use eciton_kernel::Instances;
use eciton_plan::Step;

use crate::{Answered, Completion, Compute, Executor, Order, Timing, Work};

/// How long an idle thread looks for work before it sleeps: a small graph's stages are shorter than
/// the time it takes to wake a thread.
const SPIN: Duration = Duration::from_micros(60);

/// How a pool is set up.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Compute threads, the driver's included; at least 1.
    pub threads: u32,
    /// A fresh instance for every task.
    pub fresh_instances: bool,
    /// Threads take what came last, not what came first.
    pub newest_first: bool,
}

enum Job {
    Task(Box<Order>),
    Work { pass: u32, step: Step, work: Work },
}

impl Job {
    /// Runs the job. A panic in it is a bug of ours; it ends the job, never the pool, which would
    /// leave the driver waiting for ever.
    fn run(self, instances: &mut Instances, thread: u32) -> Completion {
        let begun = Instant::now();
        let timing = || Timing::since(begun, Some(thread));
        let caught = |panic: Box<dyn std::any::Any + Send>| {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
        };
        match self {
            Job::Task(order) => {
                let (pass, key) = (order.pass, order.task.key());
                let run = AssertUnwindSafe(|| instances.run(&order.layer, order.call));
                let result = catch_unwind(run).unwrap_or_else(|panic| {
                    instances.clear();
                    Err(eciton_kernel::Error::Engine { doing: "running a task", reason: caught(panic) })
                });
                Completion::Task { pass, key, timing: timing(), result: result.map(Answered::InPlace) }
            }
            Job::Work { pass, step, work } => {
                let failure =
                    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(caught(panic))).err();
                Completion::Work { pass, step, timing: timing(), failure }
            }
        }
    }
}

#[derive(Default)]
struct Queues {
    waiting: VecDeque<Job>,
    done: Vec<Completion>,
    /// Jobs that a thread has taken and not finished.
    running: usize,
}

impl Queues {
    /// Whether anything is under way.
    fn busy(&self) -> bool {
        self.running > 0 || !self.waiting.is_empty()
    }
}

#[derive(Default)]
struct Shared {
    queues: Mutex<Queues>,
    /// Something is waiting, or the pool closes.
    work: Condvar,
    /// Something is done.
    done: Condvar,
    /// Hints for threads that look before they sleep.
    waiting_hint: AtomicUsize,
    done_hint: AtomicUsize,
    closing: AtomicBool,
    newest_first: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        // Jobs run outside the lock; the queues are whole whatever happened.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, queues: &mut Queues) -> Option<Job> {
        let waiting = &mut queues.waiting;
        let job = if self.newest_first { waiting.pop_back() } else { waiting.pop_front() }?;
        queues.running += 1;
        self.waiting_hint.store(queues.waiting.len(), Ordering::Release);
        Some(job)
    }

    fn note(&self, completion: Completion) {
        let mut queues = self.lock();
        queues.done.push(completion);
        self.done_hint.store(queues.done.len(), Ordering::Release);
        drop(queues);
        self.done.notify_one();
    }

    fn finish(&self, completion: Completion) {
        let mut queues = self.lock();
        queues.running -= 1;
        queues.done.push(completion);
        self.done_hint.store(queues.done.len(), Ordering::Release);
        drop(queues);
        self.done.notify_one();
    }

    /// A worker's life.
    fn serve(&self, thread: u32, fresh: bool) {
        let mut instances = Instances::new(fresh);
        loop {
            let until = Instant::now() + SPIN;
            while self.waiting_hint.load(Ordering::Acquire) == 0
                && !self.closing.load(Ordering::Acquire)
                && Instant::now() < until
            {
                std::hint::spin_loop();
            }
            let mut queues = self.lock();
            let job = loop {
                if let Some(job) = self.take(&mut queues) {
                    break job;
                }
                if self.closing.load(Ordering::Acquire) {
                    return;
                }
                queues = self.work.wait(queues).unwrap_or_else(PoisonError::into_inner);
            };
            drop(queues);
            let completion = job.run(&mut instances, thread);
            self.finish(completion);
        }
    }
}

/// Threads that run kernels and graph work.
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
    /// Starts `settings.threads - 1` workers; the driver's thread is the other one. Kernels need a
    /// [`crate::Clock`] besides.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(settings: Settings) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { newest_first: settings.newest_first, ..Shared::default() });
        let own = Instances::new(settings.fresh_instances);
        let mut pool = Self { shared, own, threads: Vec::new() };
        for n in 1..settings.threads {
            let (shared, fresh) = (pool.shared.clone(), settings.fresh_instances);
            let thread = std::thread::Builder::new().name(format!("eciton-{n}"));
            pool.threads.push(thread.spawn(move || shared.serve(n, fresh))?);
        }
        Ok(pool)
    }

    /// Where work that is under way elsewhere reports its end, so that one [`Executor::drain`] waits
    /// for both.
    pub(crate) fn inbox(&self) -> Inbox {
        Inbox(self.shared.clone())
    }

    fn push(&mut self, job: Job) {
        let mut queues = self.shared.lock();
        queues.waiting.push_back(job);
        let waiting = queues.waiting.len();
        self.shared.waiting_hint.store(waiting, Ordering::Release);
        drop(queues);
        // One job is the driver's own; only more than that wake somebody.
        if waiting > 1 && !self.threads.is_empty() {
            self.shared.work.notify_one();
        }
    }
}

/// Completions that come from elsewhere.
#[derive(Clone)]
pub struct Inbox(Arc<Shared>);

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inbox")
    }
}

impl Inbox {
    /// Something is under way: [`Inbox::end`] is called once for it, or [`Inbox::forget`].
    pub(crate) fn begin(&self) {
        self.0.lock().running += 1;
    }

    pub(crate) fn end(&self, completion: Completion) {
        self.0.finish(completion);
    }

    /// Something that ends nothing.
    pub(crate) fn note(&self, completion: Completion) {
        self.0.note(completion);
    }

    /// It will never report.
    pub(crate) fn forget(&self) {
        self.0.lock().running -= 1;
        self.0.done.notify_one();
    }
}

impl Executor for LocalPool {
    fn submit(&mut self, order: Order) {
        self.push(Job::Task(Box::new(order)));
    }

    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> bool {
        let end = timeout.map(|t| Instant::now() + t);
        loop {
            let mut queues = self.shared.lock();
            if !queues.done.is_empty() {
                done.append(&mut queues.done);
                self.shared.done_hint.store(0, Ordering::Release);
                return queues.busy();
            }
            if let Some(job) = self.shared.take(&mut queues) {
                drop(queues);
                let completion = job.run(&mut self.own, 0);
                let mut queues = self.shared.lock();
                queues.running -= 1;
                done.append(&mut queues.done);
                self.shared.done_hint.store(0, Ordering::Release);
                done.push(completion);
                return queues.busy();
            }
            if queues.running == 0 {
                return false;
            }
            drop(queues);
            let until = Instant::now() + SPIN;
            while self.shared.done_hint.load(Ordering::Acquire) == 0 && Instant::now() < until {
                std::hint::spin_loop();
            }
            let queues = self.shared.lock();
            if queues.done.is_empty() && queues.running > 0 {
                let Some(end) = end else {
                    drop(self.shared.done.wait(queues).unwrap_or_else(PoisonError::into_inner));
                    continue;
                };
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return true;
                }
                let waited = self.shared.done.wait_timeout(queues, left);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }
}

impl Compute for LocalPool {
    fn work(&mut self, pass: u32, step: Step, work: Work) {
        self.push(Job::Work { pass, step, work });
    }
}

impl Drop for LocalPool {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        {
            // Taken so that no worker is between looking and sleeping.
            let mut queues = self.shared.lock();
            queues.waiting.clear();
        }
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use eciton_plan::{Epoch, IntervalId, StageId};

    fn step(n: u32) -> Step {
        Step { epoch: Epoch(1), stage: StageId(0), interval: IntervalId(n) }
    }

    #[test]
    fn all_work_is_done_once_and_a_panic_ends_its_own_job_only() {
        for threads in [1, 2, 3] {
            let mut pool =
                LocalPool::new(Settings { threads, fresh_instances: false, newest_first: false }).unwrap();
            let counter = Arc::new(AtomicUsize::new(0));
            for n in 0..100 {
                let counter = counter.clone();
                pool.work(
                    1,
                    step(n),
                    Box::new(move || {
                        assert!(n != 50, "planted");
                        counter.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    }),
                );
            }
            let mut done = Vec::new();
            while done.len() < 100 {
                pool.drain(&mut done, None);
            }
            assert_eq!(counter.load(Ordering::Relaxed), 99);
            let failed = done.iter().filter(|c| match c {
                Completion::Work { failure: Some(text), step, .. } => {
                    text == "planted" && step.interval.0 == 50
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
            let timing = Timing::since(Instant::now(), None);
            inbox.end(Completion::Work { pass: 1, step: step(7), timing, failure: None });
            pool.drain(&mut done, None);
            assert_eq!(done.len(), before + 1);
        }
    }
}
