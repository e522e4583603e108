//! Flights: attempts under way with functions, as many as there may be.
//!
//! Whoever makes room for one more, or brings one, hands out the next ([`Shared::dispatch`]): the
//! driver's thread at a submission, an I/O thread when an answer comes. So functions have work
//! while the driver's thread computes.

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

/// Counts of flights, and attempts that wait for one.
#[derive(Default)]
pub(super) struct Flights {
    /// Maximum number of attempts in flight, before throttling lowers it.
    pub(super) limit: u32,
    /// ...less what throttling takes.
    pub(super) pace: Pace,
    pub(super) in_flight: u32,
    /// Written, and no longer anybody else's to do; bounded by the steps of an epoch times the
    /// attempts.
    pub(super) written: VecDeque<(Attempt, PendingJob)>,
    /// Nothing is handed out any more.
    pub(super) closed: bool,
    /// Processes of functions, numbered as they answer for the first time, by the identity that
    /// each draws at its start.
    pub(super) processes: BTreeMap<String, u32>,
}

impl Flights {
    /// Returns the process of a function that has drawn an identity.
    fn process(&mut self, id: &str) -> Process {
        // At most as many as there are answers.
        let next = self.processes.len() as u32;
        let number = *self.processes.entry(id.to_owned()).or_insert(next);
        Process { at: Location::function(number), connection: 0 }
    }
}

/// State that the pool's owner and its I/O threads share. Locks are taken in the order of the
/// fields.
pub(super) struct Shared<I> {
    pub(super) wire: Wire<I>,
    pub(super) flights: Mutex<Flights>,
    pub(super) objects: Mutex<Objects>,
    /// Inbox for completions, in which first attempts wait.
    pub(super) inbox: Inbox,
    pub(super) runtime: tokio::runtime::Handle,
    /// Ends all flights, once.
    pub(super) cancelled: watch::Sender<bool>,
}

/// Next attempt for a function.
enum Next {
    Written(Attempt, PendingJob),
    Offer(Box<Order>, PendingJob),
}

impl<I> Shared<I> {
    /// Ends all flights; what waits for one is forgotten. Says how many there were.
    pub(super) fn cancel(&self) -> u64 {
        let mut flights = lock(&self.flights);
        flights.closed = true;
        let waiting = flights.written.drain(..).len() + self.inbox.withdraw();
        let count = u64::from(flights.in_flight) + waiting as u64;
        drop(flights);
        self.cancelled.send_replace(true);
        count
    }

    /// Returns whether one more may be under way; then it is counted.
    pub(super) fn has_room(&self) -> bool {
        let mut flights = lock(&self.flights);
        let allowed = flights.pace.allowed(flights.limit);
        let room = !flights.closed && flights.written.is_empty() && flights.in_flight < allowed;
        flights.in_flight += u32::from(room);
        room
    }

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
    /// Writes an attempt that only a function may do; its leases end here.
    pub(super) fn write(&self, order: &Order) {
        self.inbox.begin();
        let pending = PendingJob::new(&self.inbox);
        match self.attempt(order) {
            Ok(attempt) => lock(&self.flights).written.push_back((attempt, pending)),
            Err(error) => pending.fail(order, error),
        }
    }

    fn attempt(&self, order: &Order) -> Result<Attempt, Error> {
        let (attempt, gone) = lock(&self.objects).attempt(&self.wire, order)?;
        self.delete(gone);
        Ok(attempt)
    }

    /// Deletes objects that nobody reads any more.
    fn delete(&self, gone: Vec<Key>) {
        if let (Some(store), false) = (&self.wire.store, gone.is_empty()) {
            let store = store.clone();
            // What cannot be deleted now is at the end, or by the bucket's lifecycle.
            self.runtime.spawn(async move { drop(store.delete(&gone).await) });
        }
    }

    /// Begins a task for which there was room ([`Shared::has_room`]).
    pub(super) fn begin(self: &Arc<Self>, order: Order) {
        self.inbox.begin();
        self.fly(Box::new(order), PendingJob::new(&self.inbox));
    }

    fn fly(self: &Arc<Self>, order: Box<Order>, pending: PendingJob) {
        match self.attempt(&order) {
            Ok(attempt) => {
                // Its leases end here.
                drop(order);
                self.launch(attempt, pending);
            }
            Err(error) => {
                lock(&self.flights).in_flight -= 1;
                pending.fail(&order, error);
            }
        }
    }

    /// Hands out what waits, to as many functions as there may be.
    pub(super) fn dispatch(self: &Arc<Self>) {
        while let Some(next) = self.next() {
            match next {
                Next::Written(attempt, pending) => self.launch(attempt, pending),
                Next::Offer(order, pending) => self.fly(order, pending),
            }
        }
    }

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
                // The sender lives as long as what is shared.
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

    /// After the report of a flight's end, so that a stop counts it here or there.
    fn landed(self: &Arc<Self>, throttled: bool) {
        let mut flights = lock(&self.flights);
        flights.in_flight -= 1;
        let limit = flights.limit;
        flights.pace.after(throttled, limit);
        drop(flights);
        self.dispatch();
    }
}
