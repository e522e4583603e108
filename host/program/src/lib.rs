//! Stage programs: the computation of a model, as an ordered list of tensor and gather stages.
//!
//! [`Program::build`] lowers a model to a *stage program*, which has these parts:
//!
//! * A *stage* is one operation of the program: forward, loss or backward.
//! * A *slot* is a row buffer that stages read and write ([`SlotSpec`]).
//! * A *domain* is a kind of rows, for instance vertices or graphs.
//! * A *relation* has, for each row, the list of rows that a gather reads.
//! * A *parameter* is a matrix that stages train.
//!
//! A program is built from the [`Signature`](eciton_types::Signature) of each kernel. A signature
//! is plain data here, because this crate is independent of WebAssembly. [`Program::evaluation`]
//! returns the forward part as a program of its own.
//!
//! An *interval* is a run of rows that is scheduled as one unit, and a *round* is one optimiser
//! step. At run time, a stage on an interval in a round is a [`Step`](eciton_types::Step). A *lane*
//! is a worker's share of the pipeline: the stages that run one after another on that worker. A
//! *chunk* is one of several runs of stages on the same lane.
//!
//! [`Rewrites`] lists the optimisations of a program that save work in every epoch. [`FusedStages`]
//! fuses stages into one task. [`Buffers`] assigns slots that may share memory to buffers, and
//! [`Residents`] lists the rows that stay on a worker between two tasks. A [`Profile`] has the
//! times of stages and the bytes that they move. [`receptive`] divides images into strips of rows,
//! and convolutions into blocks that need no other strip's rows.
//!
//! All functions are pure: they use no clock, thread, randomness, file or network.

#[cfg(test)]
extern crate self as eciton_program;

pub mod buffers;
mod error;
pub mod fused_stages;
mod lower;
mod network;
pub mod op;
pub mod profile;
pub mod program;
pub mod receptive;
pub mod residents;
pub mod rewrites;
#[cfg(test)]
mod sample_programs;
#[cfg(test)]
#[path = "../../recipe/src/testing.rs"]
mod testing;

pub use buffers::Buffers;
pub use error::{Error, Result};
pub use fused_stages::{FusedStage, FusedStages};
pub use profile::{HostPace, LanesPace, Profile, StageProfile};
pub use program::{
    Along, Cost, DataShape, Domain, Hops, LossOf, Open, Operation, Over, Parameter, Phase, Place, Port,
    Program, Read, Relation, RowsOf, Scope, SlotOf, SlotSpec, Stage,
};
pub use residents::{Passed, Residents};
pub use rewrites::{Rewrites, Workload, loss_gathers};
