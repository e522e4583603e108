//! Flight: an invocation of a function, from the slot that it takes to its answer.

use eciton_types::TaskKey;

use crate::random::{Purpose, unit};
use crate::settings::Faults;

/// Phase of a flight (an invocation in flight), at a shared resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The request is created, or is in transit.
    Request,
    /// The function computes.
    Running,
    /// The function reads data from the host.
    Reading,
    /// The function writes data to the host.
    Writing,
    /// The answer is in transit, or the host decodes it.
    Answer,
}

/// Timer of a flight, which is an invocation in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The service receives the request.
    Request,
    /// The function starts.
    Start,
    /// The connection to the host is established.
    Connected,
    /// The function has computed, and answers the host.
    Computed,
    /// The function has ended.
    End,
    /// The function crashes.
    Die,
    /// The answer is ready to be read.
    Reply,
    /// The executor gives up the invocation.
    GiveUp,
}

/// Faults of an attempt. They do not depend on the time at which it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fate {
    pub straggles: bool,
    /// Share of its time at which the function crashes. `None` if it does not crash.
    pub crashes_at: Option<f64>,
    pub lost: bool,
    /// Time after the first answer at which a duplicate arrives, in microseconds.
    pub doubled_after_us: Option<u64>,
    /// Random share by which work takes longer, from 0 to 1, before it is multiplied by the
    /// setting.
    pub jitter: f64,
}

/// Returns the numbers of an attempt's key, as key of random numbers.
pub(crate) fn parts(key: TaskKey) -> [u64; 4] {
    [key.round.0.into(), key.stage.0.into(), key.interval.0.into(), key.attempt.0.into()]
}

impl Fate {
    pub(crate) fn draw(seed: u64, faults: &Faults, key: TaskKey) -> Self {
        let draw = |purpose| unit(seed, purpose, &parts(key));
        let crashes = draw(Purpose::Crash) < faults.crash;
        let doubled = draw(Purpose::Doubled) < faults.double;
        Self {
            straggles: draw(Purpose::Straggler) < faults.straggle,
            crashes_at: crashes.then(|| draw(Purpose::CrashTime)),
            lost: draw(Purpose::Lost) < faults.lose,
            doubled_after_us: doubled.then(|| 1 + (draw(Purpose::DoubledTime) * 50_000.0) as u64),
            jitter: draw(Purpose::Jitter),
        }
    }
}

/// Flight: an invocation of a function, from the slot that it takes to its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub key: TaskKey,
    pub host: u32,
    pub begun_us: u64,
    pub started_us: u64,
    pub phase: Phase,
    /// True if the flight's rows are sent through the object store.
    pub in_store: bool,
    pub out_store: bool,
    pub fate: Fate,
    /// Number of requests for this flight that were throttled.
    pub throttled: u32,
    pub cold: bool,
}
