//! The names that tasks, frames and messages use: ids, keys of tensors, locations, signatures of
//! kernels, and the atoms that rows and their sums are cut into.
//!
//! Kernels, transports and connections need these and nothing else of a plan. A stage on an
//! interval in a round is a [`Step`], an attempt at it a [`Task`], and a tensor that it reads or
//! leaves has a [`TensorKey`]. What a kernel takes and gives is its [`Signature`]. Rows are cut
//! into [`Atoms`], a grid that depends on the graph alone, and sums over rows follow a fixed
//! [`Tree`] over it, so any number of [`Intervals`] gives the same bits: [`Atoms::nodes`] returns
//! the partial sums of an interval, and [`Combine`] adds them up.
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
pub mod ids;
pub mod location;
pub mod signature;
pub mod task;
pub mod tensor_key;

pub use atoms::{Atoms, FAN_OUT, Intervals, Node, Tree};
pub use combine::{Combine, Sum};
pub use error::{Error, Result};
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
