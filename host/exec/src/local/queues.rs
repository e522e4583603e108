//! Queues of the local pool, shared by its threads and its owner.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use eciton_kernel::Instances;
use eciton_tensor::parallel::{self, Helpers, Pieces};

use super::waiting::Waiting;
use crate::completion::Completion;
use crate::framed::Framing;
use crate::job::Order;

/// Time for which an idle thread polls for work before it sleeps. The stages of a small graph take
/// less time than waking a thread.
pub(super) const SPIN: Duration = Duration::from_micros(60);

/// Queues of a local pool. Threads hold the lock on these queues only while they add or take jobs.
#[derive(Default)]
pub(super) struct Queues {
    pub(super) waiting: VecDeque<Waiting>,
    /// One queue per lane (a worker's share of the pipeline). Only thread `l + 1` takes jobs from
    /// the queue of lane `l`.
    pub(super) lanes: Vec<VecDeque<Waiting>>,
    /// Jobs that cloud functions may also take. Threads take jobs from the other queues first.
    pub(super) offers: VecDeque<Box<Order>>,
    pub(super) done: Vec<Completion>,
    /// Number of jobs that a thread has taken, or that another executor runs, and that have not
    /// ended.
    pub(super) running: usize,
    /// Operations of running jobs, with pieces that a thread without a job can compute.
    operations: Vec<Arc<Pieces>>,
    /// Number of threads that sleep until there is work. The driver's thread is not counted.
    asleep: usize,
    /// True if the driver's thread sleeps.
    pub(super) driver_sleeps: bool,
}

impl Queues {
    /// Returns true if any job is waiting or running.
    pub(super) fn busy(&self) -> bool {
        self.running > 0 || self.waits() > 0
    }

    /// Returns the total number of waiting jobs in all queues.
    pub(super) fn waits(&self) -> usize {
        self.waiting.len() + self.offers.len() + self.lanes.iter().map(VecDeque::len).sum::<usize>()
    }
}

/// State that the threads of a local pool share with its owner.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) queues: Mutex<Queues>,
    /// Wakes a thread because a job is waiting or the pool closes.
    pub(super) work: Condvar,
    /// Wakes the driver because a report is available.
    pub(super) done: Condvar,
    /// Number of waiting jobs. Idle threads poll it without the lock before they sleep.
    pub(super) waiting_hint: AtomicUsize,
    pub(super) done_hint: AtomicUsize,
    /// Number of operations with pieces.
    pub(super) operations_hint: AtomicUsize,
    pub(super) closing: AtomicBool,
    pub(super) newest_first: bool,
    /// Maximum number of threads that may work at once, in addition to the driver's thread.
    pub(super) limit: AtomicU32,
    /// Wakes the threads above the limit, which block until they may work or the pool closes.
    pub(super) more: Condvar,
    /// Number of jobs that are running on threads other than the driver's.
    pub(super) helping: AtomicU32,
    /// Frame settings with which threads round the rows of their tasks. If unset, rows are not
    /// rounded.
    pub(super) rounding: OnceLock<Framing>,
}

impl Shared {
    /// Locks the queues, even if a thread panicked while it held the lock.
    pub(super) fn lock(&self) -> MutexGuard<'_, Queues> {
        // Jobs run outside the lock, so the queues are consistent even after a panic.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next job for the thread with index `thread`. It comes from the queue of the
    /// thread's lane, then from the common queue, then from the offers.
    pub(super) fn take(&self, queues: &mut Queues, thread: u32) -> Option<Waiting> {
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

    /// Wakes the threads that may take a job after one was added to `queues`, and releases the
    /// lock.
    pub(super) fn wake(&self, queues: MutexGuard<'_, Queues>) {
        let waiting = queues.waits();
        self.waiting_hint.store(waiting, Ordering::Release);
        let of_lanes = !queues.lanes.is_empty();
        drop(queues);
        // Only one of several threads may be able to take the job, so all are woken.
        if of_lanes {
            self.work.notify_all();
        }
        // The driver takes one job itself. Further jobs wake a thread.
        if waiting > 1 {
            self.work.notify_one();
        }
    }

    /// Returns an operation with pieces that no thread has taken.
    pub(super) fn operation(&self, queues: &Queues) -> Option<Arc<Pieces>> {
        queues.operations.iter().find(|pieces| pieces.are_left()).cloned()
    }

    /// Computes pieces of an operation, until none is left.
    pub(super) fn help(&self, pieces: &Arc<Pieces>) {
        pieces.help();
        self.withdraw(pieces);
    }

    /// Returns true if the index `thread` is above the limit, so that the thread must not work.
    fn is_parked(&self, thread: u32) -> bool {
        thread > self.limit.load(Ordering::Acquire)
    }

    /// Blocks the thread with index `thread` until the limit allows it to work or the pool closes.
    fn park(&self, thread: u32) {
        let mut queues = self.lock();
        while self.is_parked(thread) && !self.closing.load(Ordering::Acquire) {
            queues = self.more.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds a report that is not the end of a job, such as a warning.
    fn note(&self, completion: Completion) {
        let mut queues = self.lock();
        queues.done.push(completion);
        self.done_hint.store(queues.done.len(), Ordering::Release);
        drop(queues);
        self.done.notify_one();
    }

    /// Adds the report of the end of a job, which then no longer counts as running.
    fn finish(&self, completion: Completion) {
        let mut queues = self.lock();
        queues.running -= 1;
        queues.done.push(completion);
        self.done_hint.store(queues.done.len(), Ordering::Release);
        drop(queues);
        self.done.notify_one();
    }

    /// Runs jobs until the pool closes. This is the main loop of the thread with index `thread`. If
    /// `fresh`, every task gets a new kernel instance.
    pub(super) fn serve(self: &Arc<Self>, thread: u32, fresh: bool) {
        let mut instances = Instances::new(fresh);
        parallel::join(self.clone());
        'serve: loop {
            if self.is_parked(thread) && !self.closing.load(Ordering::Acquire) {
                self.park(thread);
            }
            let until = Instant::now() + SPIN;
            while self.waiting_hint.load(Ordering::Acquire) == 0
                && self.operations_hint.load(Ordering::Acquire) == 0
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
                    // Whoever woke this thread meant a thread that may work.
                    self.work.notify_one();
                    continue 'serve;
                }
                if let Some(job) = self.take(&mut queues, thread) {
                    break job;
                }
                if let Some(pieces) = self.operation(&queues) {
                    drop(queues);
                    self.help(&pieces);
                    continue 'serve;
                }
                queues.asleep += 1;
                queues = self.work.wait(queues).unwrap_or_else(PoisonError::into_inner);
                queues.asleep -= 1;
            };
            drop(queues);
            self.helping.fetch_add(1, Ordering::Relaxed);
            let completion = job.run(&mut instances, thread, self.rounding.get());
            self.helping.fetch_sub(1, Ordering::Relaxed);
            self.finish(completion);
        }
    }
}

impl Helpers for Shared {
    fn threads(&self) -> usize {
        self.limit.load(Ordering::Relaxed) as usize + 1
    }

    fn offer(&self, pieces: &Arc<Pieces>) {
        let mut queues = self.lock();
        queues.operations.push(pieces.clone());
        self.operations_hint.store(queues.operations.len(), Ordering::Release);
        let (asleep, driver_sleeps) = (queues.asleep, queues.driver_sleeps);
        drop(queues);
        (0..asleep).for_each(|_| self.work.notify_one());
        if driver_sleeps {
            self.done.notify_one();
        }
    }

    fn withdraw(&self, pieces: &Arc<Pieces>) {
        let mut queues = self.lock();
        queues.operations.retain(|other| !Arc::ptr_eq(other, pieces));
        self.operations_hint.store(queues.operations.len(), Ordering::Release);
    }
}

/// Inbox of a local pool, through which other executors report completions.
#[derive(Clone)]
pub struct Inbox(pub(super) Arc<Shared>);

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inbox")
    }
}

impl Inbox {
    /// Counts a job of another executor as in flight. The executor must call [`Inbox::end`] or
    /// [`Inbox::forget`] exactly once afterwards.
    pub fn begin(&self) {
        self.0.lock().running += 1;
    }

    /// Reports the end of a job that [`Inbox::begin`] has counted.
    pub fn end(&self, completion: Completion) {
        self.0.finish(completion);
    }

    /// Offers a job to the threads of the pool, which take it when they have no other work.
    /// [`Inbox::take_offer`] may take it back first.
    pub fn offer(&self, order: Box<Order>) {
        let mut queues = self.0.lock();
        queues.offers.push_back(order);
        self.0.wake(queues);
    }

    /// Takes back an offered job that no thread has started. The job then counts as in flight, as
    /// after [`Inbox::begin`].
    pub fn take_offer(&self) -> Option<Box<Order>> {
        let mut queues = self.0.lock();
        let offer = queues.offers.pop_front()?;
        queues.running += 1;
        self.0.waiting_hint.store(queues.waits(), Ordering::Release);
        Some(offer)
    }

    /// Removes all offered jobs that no thread has started, and returns their number.
    pub fn withdraw(&self) -> usize {
        let mut queues = self.0.lock();
        let offers = std::mem::take(&mut queues.offers);
        self.0.waiting_hint.store(queues.waits(), Ordering::Release);
        drop(queues);
        offers.len()
    }

    /// Adds a report that is not the end of a job, such as a warning about a worker.
    pub fn note(&self, completion: Completion) {
        self.0.note(completion);
    }

    /// Stops counting a job as in flight if its end will not be reported.
    pub fn forget(&self) {
        self.0.lock().running -= 1;
        self.0.done.notify_one();
    }
}
