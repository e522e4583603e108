//! Stage programs: what a model computes, as an ordered list of tensor and gather stages.
//!
//! [`Program::build`] lowers a model to a *stage program*: stages for forward, loss and backward.
//! The program also has the row buffers ([`SlotSpec`]) that stages read and write, and the
//! parameters that they train. It asks for each kernel's [`Signature`](eciton_types::Signature). A
//! signature is plain data here, because this crate is independent of WebAssembly.
//! [`Program::evaluation`] is the forward part on its own.
//!
//! [`Rewrites`] has the rewrites of a program. [`FusedStages`] fuses stages into one task. [`Buffers`]
//! assigns row buffers that may share memory, and [`Residents`] the values that stay between two
//! tasks. A [`Profile`] has the times of stages and the bytes that they move. [`receptive`] cuts
//! images into strips of rows, and convolutions into blocks that need no other strip's rows.
//!
//! At run time, a stage on an interval in a round is a [`Step`](eciton_types::Step). All functions
//! are pure: they use no clock, thread, randomness, file or network.

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
pub use profile::{Profile, StageProfile};
pub use program::{
    Along, Cost, DataShape, Domain, Hops, LossOf, Open, Operation, Over, Parameter, Phase, Place, Port,
    Program, Read, Relation, RowsOf, Scope, SlotOf, SlotSpec, Stage,
};
pub use residents::{Passed, Residents};
pub use rewrites::{Rewrites, Workload, loss_gathers};
