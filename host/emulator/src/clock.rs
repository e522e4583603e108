//! Virtual time for whole runs: the time that an invocation takes in a cloud with given properties,
//! whatever else this machine does.
//!
//! A process of a function runs one invocation at a time. Its virtual time is its processor time,
//! divided by the function's share of a processor, plus modelled waits for the object store.
//! Nothing sleeps.
//!
//! Events are ordered by virtual time. An answer is held back until no invocation in flight can end
//! earlier. The client controls this. It announces each call before it sends the call, and
//! [`Clock::advance`] releases one answer, the earliest. So a client whose decisions depend on the
//! order of answers decides as it would in that cloud.
//!
//! A reference product, which is timed on the processor of an instance, corrects processor time for
//! load by other programs (see [`crate::reference`]).

use crate::instance::Instance;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Times and rates of the modelled cloud, for functions of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Network time between client and function, the sum of both directions. It is not billed.
    pub invoke: Duration,
    /// Time of a cold start before the program starts. It is not billed.
    pub cold_start: Duration,
    /// Time from a request to the object store to its first byte.
    pub first_byte: Duration,
    /// Network bandwidth of a function, in bytes per second.
    pub bytes_per_second: f64,
    /// Number of this machine's processors that a function computes with.
    pub cores: f64,
}

impl Times {
    /// Returns the waiting time for a request to the object store that transfers this number of
    /// bytes.
    pub(crate) fn request(&self, bytes: u64) -> Duration {
        self.first_byte + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second)
    }

    /// Converts processor time to time on a function.
    pub(crate) fn computing(&self, processor: Duration) -> Duration {
        Duration::from_secs_f64(processor.as_secs_f64() / self.cores)
    }
}

/// Outcome of [`Clock::advance`]: the event that virtual time has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// An answer was released to the client.
    Answer,
    /// The time that the client passed has been reached.
    Timer,
    /// An invocation ended whose answer the client does not get, because it was lost or belongs to
    /// the second run of an event.
    Other,
    /// No invocation is in flight.
    Idle,
}

/// Interval at which invocations in flight are checked, in real time.
const LOOK: Duration = Duration::from_millis(2);
/// Real time after which an announced call is considered not sent.
const ANNOUNCED: Duration = Duration::from_secs(5);

/// Virtual clock of an emulator, which the client advances.
#[derive(Debug)]
pub struct Clock {
    pub(crate) times: Times,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    now: Duration,
    /// Number of calls that the client has announced and that have not arrived, and time of the
    /// last announcement.
    announced: u32,
    announced_at: Option<Instant>,
    flights: BTreeMap<u64, Flight>,
    begun: u64,
}

#[derive(Debug)]
struct Flight {
    start: Duration,
    /// Instance that runs the invocation, once there is one. The time is that before its work: half
    /// of the network time, and a cold start.
    instance: Option<(Arc<Instance>, Duration)>,
    /// End of the invocation once its work is done, true if the client gets the answer, and the
    /// waiting task.
    held: Option<(Duration, bool, oneshot::Sender<()>)>,
}

impl Flight {
    /// Returns a lower bound of the invocation's end.
    fn earliest(&self, times: &Times) -> Duration {
        match (&self.held, &self.instance) {
            (Some((end, ..)), _) => *end,
            (None, Some((instance, before))) => self.start + *before + instance.least_elapsed(times),
            (None, None) => self.start,
        }
    }
}

impl Clock {
    pub(crate) fn new(times: Times) -> Arc<Clock> {
        Arc::new(Clock { times, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of this machine's processors that a function computes with.
    pub fn cores(&self) -> f64 {
        self.times.cores
    }

    /// Returns the time to the first byte of a request to the object store.
    pub fn first_byte(&self) -> Duration {
        self.times.first_byte
    }

    /// Returns the virtual time since the start of the emulator.
    pub fn now(&self) -> Duration {
        self.state().now
    }

    /// Announces a call that the client is about to send. No answer is released before the call has
    /// arrived.
    pub fn announce(&self) {
        let mut state = self.state();
        state.announced += 1;
        state.announced_at = Some(Instant::now());
    }

    /// Releases the earliest answer, or advances the clock to `until` if that is earlier. The
    /// future can be dropped safely.
    pub async fn advance(&self, until: Option<Duration>) -> Advanced {
        loop {
            if let Some(advanced) = self.step(until) {
                return advanced;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Releases the earliest answer if no invocation in flight can end earlier.
    fn step(&self, until: Option<Duration>) -> Option<Advanced> {
        let mut state = self.state();
        let late = state.announced_at.is_none_or(|at| at.elapsed() > ANNOUNCED);
        if state.announced > 0 {
            if !late {
                return None;
            }
            // These calls failed before they were sent.
            state.announced = 0;
        }
        let earliest = state.flights.iter().map(|(id, flight)| (flight.earliest(&self.times), *id)).min();
        match (earliest, until) {
            (Some((time, _)), Some(until)) if until <= time => {
                state.now = state.now.max(until);
                Some(Advanced::Timer)
            }
            (None, Some(until)) => {
                state.now = state.now.max(until);
                Some(Advanced::Timer)
            }
            (None, None) => Some(Advanced::Idle),
            (Some((time, id)), _) => {
                state.flights.get(&id)?.held.as_ref()?;
                let (_, heard, release) = state.flights.remove(&id)?.held?;
                state.now = state.now.max(time);
                let _ = release.send(());
                Some(if heard { Advanced::Answer } else { Advanced::Other })
            }
        }
    }

    /// Registers a call that has arrived. `announced` is true if the client announced it.
    pub(crate) fn arrive(self: &Arc<Self>, announced: bool) -> Ticket {
        let mut state = self.state();
        if announced {
            state.announced = state.announced.saturating_sub(1);
        }
        state.begun += 1;
        let (id, start) = (state.begun, state.now);
        state.flights.insert(id, Flight { start, instance: None, held: None });
        drop(state);
        Ticket { clock: self.clone(), id, start }
    }
}

/// Invocation in flight. After it is dropped, the clock no longer waits for it.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) clock: Arc<Clock>,
    id: u64,
    start: Duration,
}

impl Ticket {
    /// Sets the instance that runs the invocation, and whether it was started for this invocation.
    pub(crate) fn works(&self, instance: &Arc<Instance>, cold: bool) {
        let times = &self.clock.times;
        let before = times.invoke / 2 + if cold { times.cold_start } else { Duration::ZERO };
        if let Some(flight) = self.clock.state().flights.get_mut(&self.id) {
            flight.instance = Some((instance.clone(), before));
        }
    }

    /// Waits until virtual time has reached the end of this invocation. `took` is the sum of
    /// initialisation and duration.
    pub(crate) async fn end(self, cold: bool, took: Duration, heard: bool) {
        let times = &self.clock.times;
        let before = times.invoke + if cold { times.cold_start } else { Duration::ZERO };
        let (release, released) = oneshot::channel();
        {
            let mut state = self.clock.state();
            let Some(flight) = state.flights.get_mut(&self.id) else { return };
            flight.held = Some((self.start + before + took, heard, release));
        }
        let _ = released.await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.clock.state().flights.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn times() -> Times {
        Times {
            invoke: 10 * MS,
            cold_start: 150 * MS,
            first_byte: 20 * MS,
            bytes_per_second: 75e6,
            cores: 0.5,
        }
    }

    #[test]
    fn waits_and_processor_time_by_hand() {
        assert_eq!(times().request(0), 20 * MS);
        assert_eq!(times().request(7_500_000), 120 * MS);
        assert_eq!(times().computing(30 * MS), 60 * MS);
    }

    #[tokio::test]
    async fn answers_are_released_in_the_order_of_virtual_time() {
        let clock = Clock::new(times());
        let (order, mut released) = tokio::sync::mpsc::unbounded_channel();
        // The invocations finish in another order than that of their virtual ends.
        for took in [300, 100, 200] {
            let (ticket, order) = (clock.arrive(false), order.clone());
            tokio::spawn(async move {
                ticket.end(false, took * MS, true).await;
                let _ = order.send(took);
            });
        }
        tokio::task::yield_now().await;
        for (took, now) in [(100, 110), (200, 210), (300, 310)] {
            assert_eq!(clock.advance(None).await, Advanced::Answer);
            assert_eq!((released.recv().await, clock.now()), (Some(took), now * MS));
        }
        assert_eq!(clock.advance(None).await, Advanced::Idle);
    }

    #[tokio::test]
    async fn a_timer_comes_before_later_answers_and_an_announced_call_before_all() {
        let clock = Clock::new(times());
        let ticket = clock.arrive(false);
        let ended = tokio::spawn(ticket.end(true, 40 * MS, true));
        tokio::task::yield_now().await;
        assert_eq!(clock.advance(Some(50 * MS)).await, Advanced::Timer);
        assert_eq!(clock.now(), 50 * MS);
        clock.announce();
        let waiting = tokio::time::timeout(20 * MS, clock.advance(None)).await;
        assert!(waiting.is_err(), "the announced call has not arrived");
        // The second call arrives now, and ends before the other one.
        let second = tokio::spawn(clock.arrive(true).end(false, 40 * MS, false));
        tokio::task::yield_now().await;
        assert_eq!((clock.advance(None).await, clock.now()), (Advanced::Other, 100 * MS));
        assert_eq!((clock.advance(None).await, clock.now()), (Advanced::Answer, 200 * MS));
        ended.await.unwrap();
        second.await.unwrap();
    }

    #[tokio::test]
    async fn an_invocation_that_is_given_up_holds_nothing() {
        let clock = Clock::new(times());
        let ticket = clock.arrive(false);
        let waiting = tokio::time::timeout(20 * MS, clock.advance(None)).await;
        assert!(waiting.is_err(), "it may end at any time");
        drop(ticket);
        assert_eq!(clock.advance(None).await, Advanced::Idle);
    }
}
