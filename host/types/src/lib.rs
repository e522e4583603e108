//! Types that tasks, frames and messages share: ids, tensor keys, locations, kernel signatures, and
//! the atoms of the fixed summation order.
//!
//! The crates that run kernels, transports and connections depend only on these types, not on the
//! program or the plan. The types use these terms:
//!
//! * A *stage* is one operation of a stage program, forward or backward.
//! * An *interval* is a range of consecutive rows (vertices) that is scheduled as one unit.
//! * A *round* is one optimiser step.
//! * A [`Step`] is one stage on one interval in one round. A [`Task`] is an attempt at a step.
//! * A *slot* is a row buffer that stages read and write. A [`TensorKey`] identifies the rows of a
//!   slot, or the values of a parameter.
//! * A *lane* is a worker's share of the pipeline: stages that run one after another on the same
//!   worker.
//! * A *pass* is one run of a scheduler, for training or for an evaluation.
//!
//! A [`Signature`] describes the inputs, outputs and parameters of a kernel. Rows are divided into
//! [`Atoms`], which depend on the graph alone, and sums over rows follow a fixed [`Tree`] over the
//! atoms. The result is therefore bit-identical for any number of [`Intervals`]. [`Atoms::nodes`]
//! returns the partial sums that an interval computes, and [`Combine`] adds them up.
//!
//! ```
//! use eciton_types::{IntervalId, Location, Round, StageId, Step};
//! let step = Step { round: Round(1), stage: StageId(2), interval: IntervalId(3) };
//! assert_eq!(Location::worker(0).to_string(), "worker 0");
//! # let _ = step;
//! ```

pub mod atoms;
pub mod combine;
mod error;
mod exchange;
pub mod ids;
pub mod location;
pub mod signature;
pub mod task;
pub mod tensor_key;

pub use atoms::{Atoms, FAN_OUT, Intervals, Node, Tree};
pub use combine::{Combine, Sum};
pub use error::{Error, Result};
pub use exchange::{End, Exchanged};
pub use ids::{
    Attempt, BufferId, DomainId, IntervalId, Layer, OperationId, ParameterId, RelationId, Round, SlotId,
    StageId, Version,
};
pub use location::Location;
pub use signature::{
    Attribute, AttributeSpec, BackwardNeeds, EdgeSignature, GROUP, Initialiser, Normalisation, On,
    ParameterSpec, RowsSpec, Signature, TargetKind, Value,
};
pub use task::{Step, Task, TaskKey};
pub use tensor_key::{TensorKey, Via};
