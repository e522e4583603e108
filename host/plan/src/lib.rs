//! The nouns that executors, engine and driver share, and the plans made of them. Pure functions:
//! no clock, thread, randomness, file or network (`clippy.toml` refuses them, with reasons).
//!
//! A run starts as a [`Config`]: a TOML recipe and `--set section.key=value` overrides, both checked
//! against one list of keys, so that a misspelt key is refused with the nearest known one and the
//! line shown. Its `[model]` section becomes a [`Model`]: a list of layers with widths and all
//! defaults filled in for one data set's features and classes.
//!
//! [`Program::build`] lowers a model to a *stage program*: an ordered list of tensor and gather
//! stages, forward, loss and backward, with the row buffers ([`SlotSpec`]) that they read and write
//! and the parameters that they train. It asks for each kernel's [`Signature`], which is plain data
//! here, because this crate knows nothing of WebAssembly. [`Program::evaluation`] is the forward part
//! on its own, and [`Buffers`] says which row buffers may share memory.
//!
//! Rows are cut into [`Atoms`], a grid that depends on the graph alone, and sums over rows follow a
//! fixed tree over it; [`Intervals`] are runs of atoms. So any number of intervals gives the same
//! bits: [`Atoms::nodes`] says which partial sums an interval delivers and [`Combine`] in which order
//! they are added.
//!
//! A [`Profile`] says how long stages take and how many bytes they move, [`Prices`] what machines and
//! functions cost: what the simulation and the planners count with. [`cost`] compares places that could do a job.
//!
//! A [`planner`] cuts operators over lanes: which lane does what, in which schedule, how fast. [`receptive`] cuts
//! images into strips of rows, and convolutions into blocks that need no other strip's rows.
//!
//! At run time a stage on an interval at a round is a [`Step`]; an attempt at it is a [`Task`].

/// Returns whether a test has planted this defect in the rules and planners of its thread.
macro_rules! planted {
    ($defect:ident) => {{
        #[cfg(test)]
        {
            crate::testing::is_planted(crate::testing::Planted::$defect)
        }
        #[cfg(not(test))]
        {
            false
        }
    }};
}

pub mod batch;
pub mod buffers;
pub mod checkpoint;
pub mod class_weights;
pub mod cloud;
pub mod config;
pub mod cost;
mod document;
mod error;
pub mod executor;
mod keys;
pub mod lanes;
pub mod links;
mod lower;
pub mod model;
mod network;
pub mod objective;
pub mod op;
pub mod optimiser;
pub mod order;
pub mod pipeline;
pub mod planner;
pub mod policy;
pub mod prices;
pub mod profile;
pub mod program;
pub mod receptive;
pub mod residents;
pub mod savings;
pub mod schedule;
pub mod span;
pub mod split_rule;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod until;
pub mod workers;

pub use batch::{Batch, Sampler};
pub use buffers::Buffers;
pub use checkpoint::Checkpoint;
pub use class_weights::ClassWeights;
pub use cloud::{Cloud, Preset};
pub use config::{
    Choice, Choices, Config, Data, Keep, Limits, MAX_SEQUENCE, NormaliseFeatures, Run, SelfLoops, Tokens,
    origins,
};
pub use eciton_types::*;
pub use error::{Error, Result, TextPlace};
pub use executor::{
    EdgePlace, Emulator, Executor, ExecutorKind, FunctionCount, RowFormat, SpanChoice, Transport,
};
pub use keys::{KeyInfo, keys};
pub use lanes::{LaneSettings, Lanes, Placement};
pub use links::Links;
pub use model::{
    Activation, Aggregator, Attention, Conv2d, DeepSettings, EdgeColumn, Embedding, FeatureGather, First,
    FirstKind, FirstWeights, Image, Init, Jumping, KindSettings, LEAKY_SLOPE, LayerKind, LayerSettings,
    Layers, Model, ModelKind, ModelLayer, ModelSettings, Norm, Pool2d, PoolBy, Readout, SelfAttention,
    SetKeys, Slice, Slope, Source, Tied, Transformer,
};
pub use objective::{Loss, Metric, TaskType};
pub use optimiser::{Algorithm, Optimiser, Schedule, WeightDecay};
pub use order::VertexOrder;
pub use pipeline::{Mode, Pipeline, WeightVersions};
pub use policy::{Order, Policy};
pub use prices::{HostPlace, Moved, Prices, Processor};
pub use profile::{Profile, StageProfile};
pub use program::{
    Along, Cost, DataShape, Domain, Hops, LossOf, Open, Operation, Over, Parameter, Phase, Place, Port,
    Program, Read, Relation, RowsOf, Scope, SlotOf, SlotSpec, Stage,
};
pub use residents::{Passed, Residents};
pub use savings::{GatherFeatures, LabelledGathers, Savings, Workload, loss_gathers};
pub use span::{Span, Spans};
pub use split_rule::SplitRule;
pub use sweep::Sweep;
pub use until::{Part, Until};
pub use workers::{Owner, Workers};
