//! Queues of the local pool, which its threads and its owner share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use eciton_kernel::Instances;

use super::waiting::Waiting;
use crate::completion::Completion;
use crate::framed::Framing;
use crate::job::Order;

/// Time for which an idle thread looks for work before it sleeps. The stages of a small graph are
/// shorter than the time to wake a thread.
pub(super) const SPIN: Duration = Duration::from_micros(60);

#[derive(Default)]
pub(super) struct Queues {
    pub(super) waiting: VecDeque<Waiting>,
    /// Jobs that only the thread of a lane may take. Lane l has thread l + 1.
    pub(super) lanes: Vec<VecDeque<Waiting>>,
    /// Jobs that functions may take as well. A thread takes other jobs first.
    pub(super) offers: VecDeque<Box<Order>>,
    pub(super) done: Vec<Completion>,
    /// Jobs that a thread has taken and not finished.
    pub(super) running: usize,
}

impl Queues {
    /// Returns whether anything is under way.
    pub(super) fn busy(&self) -> bool {
        self.running > 0 || self.waits() > 0
    }

    pub(super) fn waits(&self) -> usize {
        self.waiting.len() + self.offers.len() + self.lanes.iter().map(VecDeque::len).sum::<usize>()
    }
}

#[derive(Default)]
pub(super) struct Shared {
    pub(super) queues: Mutex<Queues>,
    /// Something is waiting, or the pool closes.
    pub(super) work: Condvar,
    /// Something is done.
    pub(super) done: Condvar,
    /// Hints for threads that look before they sleep.
    pub(super) waiting_hint: AtomicUsize,
    pub(super) done_hint: AtomicUsize,
    pub(super) closing: AtomicBool,
    pub(super) newest_first: bool,
    /// Threads that may work besides the driver's...
    pub(super) limit: AtomicU32,
    /// ...and where those wait that may not.
    pub(super) more: Condvar,
    /// Jobs on threads besides the driver's.
    pub(super) helping: AtomicU32,
    /// Format of the rows of tasks that threads run, if these are rounded as on the way to a
    /// function.
    pub(super) rounding: OnceLock<Framing>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Queues> {
        // Jobs run outside the lock; the queues are whole whatever happened.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

    /// Something came to wait.
    pub(super) fn wake(&self, queues: MutexGuard<'_, Queues>) {
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
    pub(super) fn serve(&self, thread: u32, fresh: bool) {
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

/// Inbox of a local pool, in which other executors report completions.
#[derive(Clone)]
pub struct Inbox(pub(super) Arc<Shared>);

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inbox")
    }
}

impl Inbox {
    /// Counts a job in flight. [`Inbox::end`] or [`Inbox::forget`] must follow once.
    pub fn begin(&self) {
        self.0.lock().running += 1;
    }

    /// Reports the end of a job in flight.
    pub fn end(&self, completion: Completion) {
        self.0.finish(completion);
    }

    /// Offers a job to threads without other work. [`Inbox::take_offer`] may take it first.
    pub fn offer(&self, order: Box<Order>) {
        let mut queues = self.0.lock();
        queues.offers.push_back(order);
        self.0.wake(queues);
    }

    /// Takes an offered job that no thread has begun. It is in flight from now on, as after
    /// [`Inbox::begin`].
    pub fn take_offer(&self) -> Option<Box<Order>> {
        let mut queues = self.0.lock();
        let offer = queues.offers.pop_front()?;
        queues.running += 1;
        self.0.waiting_hint.store(queues.waits(), Ordering::Release);
        Some(offer)
    }

    /// Removes all offers. Returns their number.
    pub fn withdraw(&self) -> usize {
        let mut queues = self.0.lock();
        let offers = std::mem::take(&mut queues.offers);
        self.0.waiting_hint.store(queues.waits(), Ordering::Release);
        drop(queues);
        offers.len()
    }

    /// Reports a completion that ends no job.
    pub fn note(&self, completion: Completion) {
        self.0.note(completion);
    }

    /// No longer counts a job in flight, which will not be reported.
    pub fn forget(&self) {
        self.0.lock().running -= 1;
        self.0.done.notify_one();
    }
}
