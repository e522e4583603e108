//! Flight, which is an invocation of a function from its request to the decoded answer.

use eciton_types::TaskKey;

use crate::random::{Purpose, unit};
use crate::settings::Faults;

/// Phase of a flight (an invocation). A phase ends when the shared resource that it uses is
/// released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The host creates the request, or the request is in transit.
    Request,
    /// The function computes.
    Running,
    /// The function reads its inputs from the host.
    Reading,
    /// The function writes its outputs to the host.
    Writing,
    /// The answer is in transit, or the host decodes the answer.
    Answer,
}

/// Kind of timer of a flight (an invocation), by the event that happens when the timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The service receives the request.
    Request,
    /// The function starts.
    Start,
    /// The function's connection to the host is established.
    Connected,
    /// The function has finished computing and starts to write its outputs.
    Computed,
    /// The function ends.
    End,
    /// The function crashes or exceeds its time limit.
    Die,
    /// The reply starts to arrive at the host.
    Reply,
    /// The executor stops waiting for the answer.
    GiveUp,
}

/// Random faults of one attempt. They depend on the seed and the attempt only, not on the simulated
/// time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fate {
    pub straggles: bool,
    /// Fraction of the run time after which the function crashes. `None` if it does not crash.
    pub crashes_at: Option<f64>,
    pub lost: bool,
    /// Delay between the first answer and its duplicate, in microseconds. `None` if there is no
    /// duplicate.
    pub doubled_after_us: Option<u64>,
    /// Random number from 0 to 1. Multiplied by the jitter setting, it is the share by which the
    /// work takes longer.
    pub jitter: f64,
}

/// Returns the fields of a task's key as numbers, for use as the key of a random number.
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

/// Flight, which is an invocation of a function from its request to the decoded answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub key: TaskKey,
    pub host: u32,
    pub begun_us: u64,
    pub started_us: u64,
    pub phase: Phase,
    /// True if the input rows are sent through the object store. `out_store` is the same for the
    /// output rows.
    pub in_store: bool,
    pub out_store: bool,
    pub fate: Fate,
    /// Number of throttled requests of this flight so far.
    pub throttled: u32,
    pub cold: bool,
}
