//! The local pool: jobs on this machine's threads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use eciton_kernel::{Finished, Instances};

use crate::framed::{Framed, Framing};
use crate::ticket::Ticket;
use crate::{
    Affinity, Answered, Capabilities, Completion, Executor, Job, Load, Order, Process, Timing, Usage, Work,
    WorkError,
};

/// Time for which an idle thread looks for work before it sleeps. The stages of a small graph are
/// shorter than the time to wake a thread.
const SPIN: Duration = Duration::from_micros(60);

/// Settings of a local pool.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Compute threads, the driver's included; at least 1.
    pub threads: u32,
    /// A fresh instance for every task.
    pub fresh_instances: bool,
    /// Threads take what came last, not what came first.
    pub newest_first: bool,
    /// Lanes, which have a thread each besides the driver's: `threads` is more than that.
    pub lanes: u32,
}

/// A job on its way to a thread.
enum Waiting {
    Job(Box<Job>),
    /// To be answered apart.
    Framed(Arc<Framed>),
}

impl Waiting {
    /// Does the job. A panic in it is a bug of ours; it ends the job, never the pool, which would
    /// leave the driver waiting for ever.
    fn run(self, instances: &mut Instances, thread: u32, rounding: Option<&Framing>) -> Completion {
        let begun = Instant::now();
        let (pass, key, affinity) = match &self {
            Self::Job(job) => (job.pass, job.task.key(), job.affinity),
            Self::Framed(framed) => (framed.pass, framed.key, Affinity::Any),
        };
        let apart = |answer| Answered::Apart(Box::new(answer));
        let result = match self {
            Self::Framed(framed) => guarded(instances, |instances| framed.run(instances).map(apart)),
            Self::Job(job) => {
                let Job { pass, task, work, deadline, affinity } = *job;
                match work {
                    Work::Host(work) => catch_unwind(AssertUnwindSafe(work))
                        .unwrap_or_else(|panic| Err(caught(panic)))
                        .map(|()| Answered::InPlace(Finished::default()))
                        .map_err(WorkError::Host),
                    Work::Instruction(_) => {
                        Err(WorkError::Host("an instruction is for a worker of lanes".to_owned()))
                    }
                    Work::Kernel(work) => guarded(instances, |instances| match rounding {
                        // Rows of edge kernels are never rounded.
                        Some(rounding) if work.call.only_vertex().is_some() => {
                            let job = Job { pass, task, work, deadline, affinity };
                            rounding.write(&job)?.run(instances).map(apart)
                        }
                        _ => instances.run(*work.call).map(Answered::InPlace),
                    }),
                }
            }
        };
        let timing = Timing::since(begun, Some(thread));
        Completion::Ended { pass, key, affinity, timing, by: Process::HOST, result }
    }
}

/// Runs a task; a panic in it throws the instances away.
pub(crate) fn guarded<T>(
    instances: &mut Instances,
    run: impl FnOnce(&mut Instances) -> Result<T, eciton_kernel::Error>,
) -> Result<T, WorkError> {
    let result = catch_unwind(AssertUnwindSafe(|| run(instances))).unwrap_or_else(|panic| {
        instances.clear();
        Err(eciton_kernel::Error::Engine { doing: "running a task", reason: caught(panic) })
    });
    result.map_err(WorkError::from)
}

/// The text of a panic.
fn caught(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}

#[derive(Default)]
struct Queues {
    waiting: VecDeque<Waiting>,
    /// Jobs that only the thread of a lane may take. Lane l has thread l + 1.
    lanes: Vec<VecDeque<Waiting>>,
    /// Jobs that functions may take as well. A thread takes other jobs first.
    offers: VecDeque<Box<Order>>,
    done: Vec<Completion>,
    /// Jobs that a thread has taken and not finished.
    running: usize,
}

impl Queues {
    /// Returns whether anything is under way.
    fn busy(&self) -> bool {
        self.running > 0 || self.waits() > 0
    }

    fn waits(&self) -> usize {
        self.waiting.len() + self.offers.len() + self.lanes.iter().map(VecDeque::len).sum::<usize>()
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
    /// Threads that may work besides the driver's...
    limit: AtomicU32,
    /// ...and where those wait that may not.
    more: Condvar,
    /// Jobs on threads besides the driver's.
    helping: AtomicU32,
    /// Format of the rows of tasks that threads run, if these are rounded as on the way to a
    /// function.
    rounding: OnceLock<Framing>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        // Jobs run outside the lock; the queues are whole whatever happened.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, queues: &mut Queues, thread: u32) -> Option<Waiting> {
        fn pop<T>(queue: &mut VecDeque<T>, newest_first: bool) -> Option<T> {
            if newest_first { queue.pop_back() } else { queue.pop_front() }
        }
        let newest = self.newest_first;
        let job = |order: Box<Order>| Waiting::Job(Box::new((*order).into()));
        let offer = |queues: &mut Queues| pop(&mut queues.offers, newest).map(job);
        let lane = (thread as usize).checked_sub(1).and_then(|lane| queues.lanes.get_mut(lane));
        let own = lane.and_then(VecDeque::pop_front);
        let job = own.or_else(|| pop(&mut queues.waiting, newest)).or_else(|| offer(queues))?;
        queues.running += 1;
        self.waiting_hint.store(queues.waits(), Ordering::Release);
        Some(job)
    }

    /// Something came to wait.
    fn wake(&self, queues: MutexGuard<'_, Queues>) {
        let waiting = queues.waits();
        self.waiting_hint.store(waiting, Ordering::Release);
        let of_lanes = !queues.lanes.is_empty();
        drop(queues);
        // Of many threads one may be the one that is meant.
        if of_lanes {
            self.work.notify_all();
        }
        // One job is the driver's own; only more than that wake somebody.
        if waiting > 1 {
            self.work.notify_one();
        }
    }

    fn is_parked(&self, thread: u32) -> bool {
        thread > self.limit.load(Ordering::Acquire)
    }

    /// Holds a thread up that may not work.
    fn park(&self, thread: u32) {
        let mut queues = self.lock();
        while self.is_parked(thread) && !self.closing.load(Ordering::Acquire) {
            queues = self.more.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
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
        'serve: loop {
            if self.is_parked(thread) && !self.closing.load(Ordering::Acquire) {
                self.park(thread);
            }
            let until = Instant::now() + SPIN;
            while self.waiting_hint.load(Ordering::Acquire) == 0
                && !self.closing.load(Ordering::Acquire)
                && Instant::now() < until
            {
                std::hint::spin_loop();
            }
            let mut queues = self.lock();
            let job = loop {
                if self.closing.load(Ordering::Acquire) && queues.waits() == 0 {
                    return;
                }
                if self.is_parked(thread) {
                    // Whoever woke it meant somebody who may work.
                    self.work.notify_one();
                    continue 'serve;
                }
                if let Some(job) = self.take(&mut queues, thread) {
                    break job;
                }
                queues = self.work.wait(queues).unwrap_or_else(PoisonError::into_inner);
            };
            drop(queues);
            self.helping.fetch_add(1, Ordering::Relaxed);
            let completion = job.run(&mut instances, thread, self.rounding.get());
            self.helping.fetch_sub(1, Ordering::Relaxed);
            self.finish(completion);
        }
    }
}

/// Threads that do jobs.
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

    /// Returns the inbox in which other executors report ends of their work, so that one
    /// [`Executor::drain`] waits for both.
    pub(crate) fn inbox(&self) -> Inbox {
        Inbox(self.shared.clone())
    }

    /// From now on tasks go through frames, which round their rows.
    pub(crate) fn round(&self, framing: Framing) {
        // Once: the pool has one owner.
        let _ = self.shared.rounding.set(framing);
    }

    /// Takes a task that has been written down, to answer it apart: other attempts may be under
    /// way.
    pub(crate) fn submit_framed(&mut self, framed: Arc<Framed>) {
        self.push(Waiting::Framed(framed));
    }

    /// Writes a task down and takes it, or reports that it cannot be written.
    pub(crate) fn submit_written(&mut self, framing: &Framing, order: &Order) {
        match framing.write(order) {
            Ok(framed) => self.submit_framed(Arc::new(framed)),
            Err(error) => Ticket::refuse(&self.inbox(), order, error),
        }
    }

    fn push(&mut self, waiting: Waiting) {
        let mut queues = self.shared.lock();
        queues.waiting.push_back(waiting);
        self.shared.wake(queues);
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

    /// Something for a thread that has nothing else to do, unless [`Inbox::take_offer`] comes
    /// first.
    pub(crate) fn offer(&self, order: Box<Order>) {
        let mut queues = self.0.lock();
        queues.offers.push_back(order);
        self.0.wake(queues);
    }

    /// Takes an offered job that no thread has begun. It is in flight from now on, as after
    /// [`Inbox::begin`].
    pub(crate) fn take_offer(&self) -> Option<Box<Order>> {
        let mut queues = self.0.lock();
        let offer = queues.offers.pop_front()?;
        queues.running += 1;
        self.0.waiting_hint.store(queues.waits(), Ordering::Release);
        Some(offer)
    }

    /// Takes all offers back; says how many there were.
    pub(crate) fn withdraw(&self) -> usize {
        let mut queues = self.0.lock();
        let offers = std::mem::take(&mut queues.offers);
        self.0.waiting_hint.store(queues.waits(), Ordering::Release);
        drop(queues);
        offers.len()
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
        // Taken so that no thread is between looking and sleeping.
        drop(self.shared.lock());
        self.shared.more.notify_all();
        self.shared.work.notify_all();
    }

    fn capabilities(&self) -> Capabilities<'_> {
        // At most as many as `Settings::threads`.
        Capabilities { most: self.threads.len() as u32, ..Capabilities::default() }
    }

    fn usage(&self) -> Usage {
        let waiting = self.shared.lock().waits() as u64;
        let in_flight = self.shared.helping.load(Ordering::Relaxed);
        Usage { load: Load { waiting, in_flight }, ..Usage::default() }
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
            drop(queues);
            let until = Instant::now() + SPIN;
            while self.shared.done_hint.load(Ordering::Acquire) == 0 && Instant::now() < until {
                std::hint::spin_loop();
            }
            let queues = self.shared.lock();
            if queues.done.is_empty() && queues.busy() {
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

impl Drop for LocalPool {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        {
            // Taken so that no worker is between looking and sleeping.
            let mut queues = self.shared.lock();
            queues.waiting.clear();
            queues.lanes.clear();
            queues.offers.clear();
        }
        self.shared.work.notify_all();
        self.shared.more.notify_all();
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
    fn no_more_threads_work_than_may_and_none_is_lost() {
        let mut pool =
            LocalPool::new(Settings { threads: 4, fresh_instances: false, newest_first: false, lanes: 0 })
                .unwrap();
        assert_eq!(pool.capabilities().most, 3);
        for limit in [3, 0, 1, 0, 9, 2] {
            pool.set_limit(limit);
            // What a thread has begun before the change may still be under way.
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
