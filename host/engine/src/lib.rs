//! The scheduler: an [`Event`] goes in, [`Action`]s come out. Pure: no clock, thread, randomness, file
//! or network (`clippy.toml` refuses them, with reasons), so that real executors and a seeded
//! simulation drive the same code, and a recorded list of events replays a run.
//!
//! An [`Engine`] is made from a [`Program`](eciton_plan::Program) and [`Settings`]. The driver sends
//! [`Event::Started`], carries out the actions that come back in any order and at its own pace, and
//! reports each one's end as an event, until [`Action::Finished`]. It never has to look into the
//! engine.
//!
//! A stage on an interval at a round is a step. A step starts when what it reads is there: rows of its
//! own interval, and of some values (what a gather reads) those of all intervals. The
//! [`Pipeline`](eciton_plan::Pipeline) has the rules: how long a step waits for other intervals' rows,
//! how far intervals may run apart, and which versions of rows and weights steps then read. When all
//! steps of a round are done the weights are updated and evaluated if it is time, and the intervals
//! that waited for that go on.
//!
//! In asynchronous rounds a step reads of each interval the newest rows that are not after its own
//! round ([`Engine::ages`]); they are not written over until it is done.
//!
//! # Attempts
//!
//! The first attempt at a step is an [`Action::Submit`]. A step of the host
//! ([`eciton_plan::Place::Host`]) has no other: it writes in place, and its failure ends the run. A
//! step that may be done anywhere is a task, and a task is a pure function: any attempt at it gives
//! the same answer. A further attempt follows, up to [`Settings::attempts`],
//!
//! * when the newest failed by the host's fault: [`Action::Retry`];
//! * when the newest is overdue: [`Action::Relaunch`], while the earlier ones go on beside it. The
//!   driver keeps the time, the engine the deadlines ([`Deadlines`], [`Engine::deadline_us`]).
//!
//! The first answer to a step wins, of whichever attempt, and is told so by [`Action::Commit`]; every
//! further one is counted ([`Counters`]) and dropped. So relaunching is always safe, each gradient
//! counts once, and the result does not depend on what went wrong on the way. A failure is not the end
//! while another attempt is under way. Where one fails for good (a guest's error, a trap) no further
//! attempt is made: one that is still in time may answer, and then the run ends and names the first
//! such failure.
//!
//! A [`Tuner`] says how many functions a run should use, from what its driver observes.
//!
//! # Limits
//!
//! Nothing that an event says can panic the engine or make it do a step twice, and no event allocates
//! but for the lists of ages of asynchronous steps, which are used again.
//! An event costs tens of nanoseconds for each action that follows from it: a round of two layers on
//! one interval is 11 events and, on a quiet machine, well under a microsecond
//! (`cargo bench -p eciton-engine`). A step takes 20 bytes, its attempts' fates included; of attempts
//! left behind it remembers those of one earlier round, and counts older ones as lost.
//!
//! # Example
//!
//! ```
//! use eciton_engine::{Action, Engine, Event, Settings};
//! use eciton_plan::{DataShape, Model, Program, RowsSpec, Signature, Value};
//!
//! let model = Model::gcn(2, 16, 0.5, 1433, 7)?;
//! let shape = DataShape { rows: 2708, features: 1433, classes: 7, edge_features: 0, graphs: 0, group: 1 };
//! // What `kernel` would tell of each kernel: here, as many columns out as its attribute says.
//! let program = Program::build(&model, shape, eciton_plan::Savings::default(), &|kernel, inputs, attributes| {
//!     let columns = attributes.iter().find_map(|attribute| match attribute.value {
//!         Value::Integer(columns) => u32::try_from(columns).ok(),
//!         _ => None,
//!     });
//!     let rows = |width| vec![RowsSpec { name: "rows".into(), extents: vec![width] }];
//!     Ok::<_, String>(Signature {
//!         inputs: rows(inputs[0][0]),
//!         outputs: rows(columns.unwrap_or(inputs[0][0])),
//!         loss: (kernel == "head").then_some(eciton_plan::signature::TargetKind::Classes),
//!         ..Signature::default()
//!     })
//! })?;
//!
//! // Three rounds on eight intervals, by a driver that does everything at once.
//! let mut engine = Engine::new(&program, Settings::new(8, 3))?;
//! let mut events = vec![Event::Started];
//! while let Some(event) = events.pop() {
//!     events.extend(engine.step(event).filter_map(|action| match action {
//!         Action::Submit(task) | Action::Retry(task) | Action::Relaunch(task) | Action::Again(task) => {
//!             Some(Event::Completed { key: task.key(), took_us: 250 })
//!         }
//!         Action::Update { round } => Some(Event::Updated { round }),
//!         Action::Evaluate { round } => Some(Event::Evaluated { round }),
//!         Action::Commit(_) | Action::RoundFinished { .. } | Action::Finished { .. } => None,
//!     }));
//! }
//! assert!(engine.is_finished());
//! assert_eq!(engine.counters().committed, engine.counters().tasks);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attempts;
mod counters;
mod engine;
mod error;
mod event;
mod pace;
mod settings;
#[cfg(test)]
mod simulation;
pub mod tuner;

pub use counters::Counters;
pub use engine::{Engine, Parked, WaitsFor};
pub use error::Error;
pub use event::{Action, Event, Reason};
pub use settings::Residence;
pub use settings::{
    Deadlines, MAX_APART_INTERVALS, MAX_ATTEMPTS, MAX_DEADLINE_RATIO, MAX_DEADLINE_US, MAX_INTERVALS,
    MAX_STEPS, Settings,
};
pub use tuner::{Decision, Observation, Tuner, TunerSettings, Why};
