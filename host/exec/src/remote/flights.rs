//! Attempts in flight at cloud functions, called flights.
//!
//! [`Shared::dispatch`] starts the next flight whenever the limit allows another one or a task is
//! added. The driver's thread calls it after a submission, and an I/O thread calls it after an
//! answer. Functions therefore get new tasks even while the driver's thread computes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use eciton_cloud::Invoker;
use eciton_kernel::Error;
use eciton_kernel::wire::Answer;
use eciton_transport::Key;
use eciton_types::Location;
use tokio::sync::watch;

use super::attempt::{Attempt, Wire};
use super::lock::lock;
use super::objects::Objects;
use super::pace::Pace;
use crate::completion::{Answered, Completion};
use crate::job::Order;
use crate::local::Inbox;
use crate::pending::PendingJob;
use crate::process::Process;

/// Number of attempts in flight, their limit, and the attempts that wait to be sent.
#[derive(Default)]
pub(super) struct Flights {
    /// Maximum number of attempts in flight when requests are not throttled.
    pub(super) limit: u32,
    /// Reduction of `limit` while the service throttles requests.
    pub(super) pace: Pace,
    pub(super) in_flight: u32,
    /// Waiting attempts whose frames are written, so that only a function may run them. Their
    /// number is at most the number of steps in an epoch times the number of attempts at each.
    pub(super) written: VecDeque<(Attempt, PendingJob)>,
    /// True once the pool is cancelled, so that it sends no more attempts.
    pub(super) closed: bool,
    /// Index of each function process, by the random identity that the process drew when it
    /// started. Indexes are assigned in the order of first answers.
    pub(super) processes: BTreeMap<String, u32>,
}

impl Flights {
    /// Returns the process whose random identity is `id`, and assigns an index to a new one.
    fn process(&mut self, id: &str) -> Process {
        // Not larger than the number of answers.
        let next = self.processes.len() as u32;
        let number = *self.processes.entry(id.to_owned()).or_insert(next);
        Process { at: Location::function(number), connection: 0 }
    }
}

/// State that the owner of the pool shares with its I/O threads. A thread that takes several locks
/// must take them in the order of these fields.
pub(super) struct Shared<I> {
    pub(super) wire: Wire<I>,
    pub(super) flights: Mutex<Flights>,
    pub(super) objects: Mutex<Objects>,
    /// Inbox of the local pool, which receives reports. First attempts wait in it as offers.
    pub(super) inbox: Inbox,
    pub(super) runtime: tokio::runtime::Handle,
    /// Signals once that all flights must end.
    pub(super) cancelled: watch::Sender<bool>,
}

/// The attempt that is sent to a function next.
enum Next {
    Written(Attempt, PendingJob),
    Offer(Box<Order>, PendingJob),
}

impl<I> Shared<I> {
    /// Ends all flights and discards the waiting attempts. Returns the number of ended and
    /// discarded attempts.
    pub(super) fn cancel(&self) -> u64 {
        let mut flights = lock(&self.flights);
        flights.closed = true;
        let waiting = flights.written.drain(..).len() + self.inbox.withdraw();
        let count = u64::from(flights.in_flight) + waiting as u64;
        drop(flights);
        self.cancelled.send_replace(true);
        count
    }

    /// Returns true if another attempt may start, and counts it as in flight.
    pub(super) fn has_room(&self) -> bool {
        let mut flights = lock(&self.flights);
        let allowed = flights.pace.allowed(flights.limit);
        let room = !flights.closed && flights.written.is_empty() && flights.in_flight < allowed;
        flights.in_flight += u32::from(room);
        room
    }

    /// Removes and returns the next attempt to send, if there is one and the limit allows it.
    fn next(&self) -> Option<Next> {
        let mut flights = lock(&self.flights);
        if flights.closed {
            return None;
        }
        let allowed = flights.pace.allowed(flights.limit);
        // A written frame can only be sent: its leases have ended, so no thread can run it in
        // place. One flight is therefore allowed even when the limit has dropped to zero.
        let next = if flights.in_flight < allowed.max(1)
            && let Some((attempt, pending)) = flights.written.pop_front()
        {
            Next::Written(attempt, pending)
        } else if flights.in_flight < allowed {
            let order = self.inbox.take_offer()?;
            Next::Offer(order, PendingJob::new(&self.inbox))
        } else {
            return None;
        };
        flights.in_flight += 1;
        Some(next)
    }
}

impl<I: Invoker> Shared<I> {
    /// Writes the frame of an attempt that only a function may run, and queues the attempt. The
    /// leases of the order (rights to use rows of a buffer) may end when this returns.
    pub(super) fn write(&self, order: &Order) {
        self.inbox.begin();
        let pending = PendingJob::new(&self.inbox);
        match self.attempt(order) {
            Ok(attempt) => lock(&self.flights).written.push_back((attempt, pending)),
            Err(error) => pending.fail(order, error),
        }
    }

    /// Writes the frame of `order`, and deletes the objects that no attempt reads any more.
    fn attempt(&self, order: &Order) -> Result<Attempt, Error> {
        let (attempt, gone) = lock(&self.objects).attempt(&self.wire, order)?;
        self.delete(gone);
        Ok(attempt)
    }

    /// Deletes objects that no attempt reads any more, in the background.
    fn delete(&self, gone: Vec<Key>) {
        if let (Some(store), false) = (&self.wire.store, gone.is_empty()) {
            let store = store.clone();
            // Objects that cannot be deleted now are deleted at the end of the run, or by the
            // lifecycle rule of the bucket.
            self.runtime.spawn(async move { drop(store.delete(&gone).await) });
        }
    }

    /// Sends a task that [`Shared::has_room`] has already counted as in flight.
    pub(super) fn begin(self: &Arc<Self>, order: Order) {
        self.inbox.begin();
        self.fly(Box::new(order), PendingJob::new(&self.inbox));
    }

    /// Writes the frame of an order that counts as in flight, and sends it to a function.
    fn fly(self: &Arc<Self>, order: Box<Order>, pending: PendingJob) {
        match self.attempt(&order) {
            Ok(attempt) => {
                // The leases of the order end here.
                drop(order);
                self.launch(attempt, pending);
            }
            Err(error) => {
                lock(&self.flights).in_flight -= 1;
                pending.fail(&order, error);
            }
        }
    }

    /// Sends waiting attempts to functions until the limit is reached or none waits.
    pub(super) fn dispatch(self: &Arc<Self>) {
        while let Some(next) = self.next() {
            match next {
                Next::Written(attempt, pending) => self.launch(attempt, pending),
                Next::Offer(order, pending) => self.fly(order, pending),
            }
        }
    }

    /// Sends an attempt to a function. An I/O thread reports its end.
    fn launch(self: &Arc<Self>, attempt: Attempt, pending: PendingJob) {
        let shared = self.clone();
        let mut cancelled = self.cancelled.subscribe();
        self.runtime.spawn(async move {
            let (pass, key) = (attempt.pass, attempt.key);
            let throttled = AtomicBool::new(false);
            let begun = Instant::now();
            let answered = async {
                let run = shared.wire.run(&attempt, &throttled);
                let Some(deadline) = attempt.deadline else { return run.await };
                let mut run = std::pin::pin!(run);
                tokio::select! {
                    result = &mut run => result,
                    () = tokio::time::sleep(deadline) => {
                        shared.inbox.note(Completion::Overdue { pass, key });
                        run.await
                    }
                }
            };
            let result = tokio::select! {
                biased;
                // The sender lives as long as the shared state.
                _ = cancelled.wait_for(|cancelled| *cancelled) => None,
                result = answered => Some(result),
            };
            lock(&shared.objects).spent.end((pass, key.round.0));
            match result {
                None => drop(pending),
                Some(result) => {
                    let id = |answer: &Answer| lock(&shared.flights).process(&answer.meta().worker.id);
                    let by = result.as_ref().map_or(Process::HOST, id);
                    pending.end(pass, key, begun, by, result.map(|answer| Answered::Apart(Box::new(answer))));
                }
            }
            shared.landed(throttled.load(Ordering::Relaxed));
        });
    }

    /// Removes an ended flight from the count, and sends the next attempts. The caller must report
    /// the end of the flight first, so that the pool never appears idle in between.
    fn landed(self: &Arc<Self>, throttled: bool) {
        let mut flights = lock(&self.flights);
        flights.in_flight -= 1;
        let limit = flights.limit;
        flights.pace.after(throttled, limit);
        drop(flights);
        self.dispatch();
    }
}
