//! The scheduler of training runs. It is a state machine that receives [`Event`]s and returns
//! [`Action`]s.
//!
//! The engine is pure: it uses no clock, threads, random numbers, files or network (`clippy.toml`
//! forbids them). Real executors and a seeded simulation therefore drive the same code, and a
//! recorded list of events replays a run.
//!
//! An [`Engine`] is created from a [`Program`](eciton_program::Program) and [`Settings`]. The
//! driver sends [`Event::Started`] and carries out the returned actions in any order. It reports
//! the end of each action as an event, until it receives [`Action::Finished`].
//!
//! A *stage* is one operation of the program, forward or backward. An *interval* is a contiguous
//! range of rows that is scheduled as one unit, or a micro-batch. A *round* is one optimiser step,
//! and a *step* is one stage on one interval in one round. A step starts when the rows that it
//! reads are written. These are rows of its own interval or, for a gather, rows of all intervals.
//! The [`Pipeline`](eciton_recipe::Pipeline) determines how far intervals may be apart, and which
//! versions of rows and weights a step reads. When all steps of a round have ended, the engine
//! orders the update of the weights and, if one is due, an evaluation. Then the intervals that
//! waited for the round continue.
//!
//! In asynchronous rounds, a step reads the newest rows of each interval that are not from a later
//! round ([`Engine::ages`]). These rows are not overwritten until the step has ended.
//!
//! A *lane* is a worker's share of the pipeline. A *visit* consists of all steps of one interval in
//! one chunk of a lane's stages. [`Settings::lanes`] assigns stages to lanes. [`Residence`] is the
//! location of the rows that a lane stashes from forward steps for backward steps.
//!
//! A run on several hosts has an engine at each. Every host runs the steps of its own intervals
//! ([`Settings::own`]). Steps of other hosts arrive as received rows ([`Event::Received`]). Hosts send
//! each other the sums of their gradients ([`Action::Share`], [`Event::Shared`]), and all make the same
//! update. In rounds that read only rows of their own, the weights are those of one host, bit for bit.
//!
//! # Attempts
//!
//! The first attempt at a step is an [`Action::Submit`]. A step of the host
//! ([`eciton_program::Place::Host`]) has only one attempt. It writes its results in place, and its
//! failure ends the run. All other steps are tasks. A task is a pure function, so that all attempts
//! at it have the same answer. The engine may launch more attempts, up to [`Settings::attempts`]:
//!
//! * [`Action::Retry`] if the newest attempt failed and another may succeed;
//! * [`Action::Relaunch`] if the newest attempt is overdue. Earlier attempts continue. The driver
//!   has the timer, and the engine the deadlines ([`Deadlines`], [`Engine::deadline_us`]).
//!
//! The first answer to a step counts, from whichever attempt, and [`Action::Commit`] publishes it.
//! All other answers are counted ([`Counters`]) and discarded. Relaunching is therefore always
//! safe, each gradient counts once, and the result does not depend on failures. A failure does not
//! end the run while another attempt is in flight. After a permanent failure (an error of the
//! kernel, a trap), the engine launches no more attempts. If no attempt in flight completes the
//! step in time, the run ends and reports the first permanent failure.
//!
//! A [`Tuner`] chooses the number of functions of a run from the observations of the driver.
//!
//! # Limits
//!
//! No event can panic the engine or make it commit a step twice. No event allocates memory, except
//! for lists of row ages in asynchronous rounds, which are reused. An event takes tens of
//! nanoseconds for each action that follows from it. A round of two layers on one interval has 11
//! events and takes less than a microsecond (`cargo bench -p eciton-engine`). A step takes 20
//! bytes, including the state of its attempts. Attempts that are alive after their round are
//! tracked for one more round, and are then counted as lost.
//!
//! # Example
//!
//! ```
//! use eciton_engine::{Action, Engine, Event, Settings};
//! use eciton_program::{DataShape, Program};
//! use eciton_recipe::Model;
//! use eciton_types::{RowsSpec, Signature, Value};
//!
//! let model = Model::gcn(2, 16, 0.5, 1433, 7)?;
//! let shape = DataShape { rows: 2708, features: 1433, classes: 7, edge_features: 0, read_out: 0, group: 1 };
//! // The signature of each kernel, which `eciton-kernel` reads from components. Here it has as
//! // many output columns as its attribute states.
//! let program = Program::build(&model, shape, eciton_program::Rewrites::default(), &|kernel, inputs, attributes| {
//!     let columns = attributes.iter().find_map(|attribute| match attribute.value {
//!         Value::Integer(columns) => u32::try_from(columns).ok(),
//!         _ => None,
//!     });
//!     let rows = |width| vec![RowsSpec { name: "rows".into(), extents: vec![width] }];
//!     Ok::<_, String>(Signature {
//!         inputs: rows(inputs[0][0]),
//!         outputs: rows(columns.unwrap_or(inputs[0][0])),
//!         loss: (kernel == "head").then_some(eciton_types::signature::TargetKind::Classes),
//!         ..Signature::default()
//!     })
//! })?;
//!
//! // Three rounds on eight intervals, by a driver that carries out each action at once.
//! let mut engine = Engine::new(&program, Settings::new(8, 3))?;
//! let mut events = vec![Event::Started];
//! while let Some(event) = events.pop() {
//!     events.extend(engine.step(event).filter_map(|action| match action {
//!         Action::Submit(task) | Action::Retry(task) | Action::Relaunch(task) | Action::Again(task) => {
//!             Some(Event::Completed { key: task.key(), took_us: 250 })
//!         }
//!         Action::Update { round } => Some(Event::Updated { round }),
//!         Action::Evaluate { round } => Some(Event::Evaluated { round }),
//!         Action::Commit(_) | Action::Share { .. } | Action::RoundFinished { .. } | Action::Finished { .. } => None,
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
pub use eciton_planner::policy::Takeover;
pub use engine::{Engine, Parked, WaitsFor};
pub use error::Error;
pub use event::{Action, Event, Reason};
pub use settings::Residence;
pub use settings::{
    Deadlines, MAX_APART_INTERVALS, MAX_ATTEMPTS, MAX_DEADLINE_RATIO, MAX_DEADLINE_US, MAX_INTERVALS,
    MAX_STEPS, Settings,
};
pub use tuner::{Decision, Observation, Tuner, TunerSettings, Why};
