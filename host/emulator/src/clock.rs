//! Virtual time: the time that invocations would take in a cloud with given properties, independent
//! of the load of this machine.
//!
//! A function process runs one invocation at a time. Its virtual time is its processor time divided
//! by the function's share of a processor, plus modelled waits for the object store. Nothing
//! sleeps.
//!
//! Events are ordered by virtual time. An answer is held back until no invocation in flight can end
//! earlier. The client controls this. It announces each call before it sends the call, and
//! [`Clock::advance`] releases the earliest answer. A client whose decisions depend on the order of
//! answers therefore decides as it would in the modelled cloud.
//!
//! Load by other programs affects processor time. The emulator corrects this with a reference
//! product, which it times on the processors of the instances (see [`crate::reference`]).

use crate::instance::Instance;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Times and rates of the modelled cloud, for functions of one memory size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Network time of an invocation, the sum for both directions. It is not billed.
    pub invoke: Duration,
    /// Time of a cold start until the program starts. It is not billed.
    pub cold_start: Duration,
    /// Time from a request to the object store to the first byte of its response.
    pub first_byte: Duration,
    /// Network bandwidth of a function, in bytes per second.
    pub bytes_per_second: f64,
    /// Computing speed of a function, as a multiple of one processor of this machine.
    pub cores: f64,
}

impl Times {
    /// Returns the modelled time of a request to the object store that transfers `bytes` bytes.
    pub(crate) fn request(&self, bytes: u64) -> Duration {
        self.first_byte + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second)
    }

    /// Converts processor time on this machine to computing time on a function.
    pub(crate) fn computing(&self, processor: Duration) -> Duration {
        Duration::from_secs_f64(processor.as_secs_f64() / self.cores)
    }
}

/// Event that [`Clock::advance`] has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// An answer was released to the client.
    Answer,
    /// The clock has reached the time that the client passed.
    Timer,
    /// An invocation ended whose answer the client does not get. The answer was lost, or no client
    /// waits for it.
    Other,
    /// No invocation is in flight.
    Idle,
}

/// Real time between two checks of the invocations in flight.
const LOOK: Duration = Duration::from_millis(2);
/// Real time after which an announced call is considered failed before it was sent.
const ANNOUNCED: Duration = Duration::from_secs(5);

/// Virtual clock of an emulator. The client that drives the emulator advances it.
#[derive(Debug)]
pub struct Clock {
    pub(crate) times: Times,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    now: Duration,
    /// Number of calls that the client has announced and that have not arrived. `announced_at` is
    /// the time of the last announcement.
    announced: u32,
    announced_at: Option<Instant>,
    flights: BTreeMap<u64, Flight>,
    begun: u64,
}

#[derive(Debug)]
struct Flight {
    start: Duration,
    /// Instance that runs the invocation, once it is chosen. The time precedes its work: half of
    /// the network time, plus a cold start if necessary.
    instance: Option<(Arc<Instance>, Duration)>,
    /// The end of the invocation once its work is done. The flag is true if the client gets the
    /// answer. The sender releases the task that waits.
    held: Option<(Duration, bool, oneshot::Sender<()>)>,
}

impl Flight {
    /// Returns a lower bound of the virtual time at which the invocation ends.
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

    /// Returns the computing speed of a function, as a multiple of one processor of this machine.
    pub fn cores(&self) -> f64 {
        self.times.cores
    }

    /// Returns the time from a request to the object store to the first byte of its response.
    pub fn first_byte(&self) -> Duration {
        self.times.first_byte
    }

    /// Returns the virtual time since the start of the emulator.
    pub fn now(&self) -> Duration {
        self.state().now
    }

    /// Announces a call that the client is about to send. The clock releases no answer before the
    /// call has arrived.
    pub fn announce(&self) {
        let mut state = self.state();
        state.announced += 1;
        state.announced_at = Some(Instant::now());
    }

    /// Releases the answer with the earliest virtual time. If `until` is earlier, advances the
    /// clock to `until` instead. The future is cancellation safe.
    pub async fn advance(&self, until: Option<Duration>) -> Advanced {
        loop {
            if let Some(advanced) = self.step(until) {
                return advanced;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Makes one attempt to advance the clock. Returns `None` if an announced call or an invocation
    /// in flight may still end earlier.
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

    /// Registers a call that has arrived. `announced` is true if the client announced this call.
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

/// Registration of an invocation in flight. The clock waits for the invocation until this value is
/// dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) clock: Arc<Clock>,
    id: u64,
    start: Duration,
}

impl Ticket {
    /// Sets the instance that runs the invocation. `cold` is true if the instance was started for
    /// it.
    pub(crate) fn works(&self, instance: &Arc<Instance>, cold: bool) {
        let times = &self.clock.times;
        let before = times.invoke / 2 + if cold { times.cold_start } else { Duration::ZERO };
        if let Some(flight) = self.clock.state().flights.get_mut(&self.id) {
            flight.instance = Some((instance.clone(), before));
        }
    }

    /// Waits until the virtual time reaches the end of this invocation. `took` is the time of its
    /// cold start and its work. `heard` is true if the client gets the answer.
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
