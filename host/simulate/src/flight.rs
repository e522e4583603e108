//! An invocation under way, from the slot that it takes to the answer.

use eciton_types::TaskKey;

use crate::random::{Purpose, unit};
use crate::settings::Faults;

/// Phase of a flight at a shared resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its request is being made, or is on the way.
    Request,
    /// Runs in the function.
    Running,
    /// The function reads from the host.
    Reading,
    /// The function writes to the host.
    Writing,
    /// Its answer is on the way, or being taken apart.
    Answer,
}

/// A timer of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The service hears of it.
    Request,
    /// The function starts.
    Start,
    /// A connection to the host is there.
    Connected,
    /// The function has computed, and answers the host.
    Computed,
    /// The function is done.
    End,
    /// The function dies.
    Die,
    /// The answer is ready to be read.
    Reply,
    /// The executor gives up.
    GiveUp,
}

/// Faults of an attempt, which do not depend on when it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fate {
    pub straggles: bool,
    /// At this share of its time.
    pub crashes_at: Option<f64>,
    pub lost: bool,
    /// Time after the first answer at which a duplicate arrives, in microseconds.
    pub doubled_after_us: Option<u64>,
    /// From 0 to 1.
    pub jitter: f64,
}

/// An attempt's key as numbers.
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

/// The flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub key: TaskKey,
    pub host: u32,
    pub begun_us: u64,
    pub started_us: u64,
    pub phase: Phase,
    /// True if its rows go, or come, through the object store.
    pub in_store: bool,
    pub out_store: bool,
    pub fate: Fate,
    /// Requests that were throttled.
    pub throttled: u32,
    pub cold: bool,
}
