//! The scheduler: an [`Event`] goes in, [`Action`]s come out. Pure: no clock, thread, randomness, file
//! or network (`clippy.toml` refuses them, with reasons), so that real executors and a seeded
//! simulation drive the same code, and a recorded list of events replays a run.
//!
//! An [`Engine`] is made from a [`Program`](eciton_plan::Program) and [`Settings`]. The driver sends
//! [`Event::Started`], carries out the actions that come back in any order and at its own pace, and
//! reports each one's end as an event, until [`Action::Finished`]. It never has to look into the
//! engine.
//!
//! A stage on an interval at an epoch is a step. A step starts when what it reads is there: a tensor
//! stage needs its own interval's rows, a gather those of all intervals, and that is the only barrier
//! within an epoch ([`Policy::Synchronous`]). When all steps of an epoch are done the weights are
//! updated, evaluated if it is time, and the next epoch starts with the next version.
//!
//! Tasks may be answered twice, late, or fail by the host's fault. The first answer to a step wins
//! and is told so by [`Action::Commit`]; every further one is counted ([`Counters`]) and dropped; a
//! host fault is tried again up to [`Settings::attempts`] times. Nothing that an event says can panic
//! the engine or make it do a step twice.
//!
//! An event costs tens of nanoseconds and allocates nothing: an epoch of two layers on one interval
//! is 11 events and well under a microsecond (`cargo bench -p eciton-engine`).

mod counters;
mod engine;
mod error;
mod event;
mod settings;
#[cfg(test)]
mod simulation;

pub use counters::Counters;
pub use engine::Engine;
pub use error::Error;
pub use event::{Action, Event, Reason};
pub use settings::{MAX_ATTEMPTS, MAX_INTERVALS, MAX_STEPS, Policy, Settings};
