//! Types that executors, engine and driver share, and the plans computed from them. All functions
//! are pure: they use no clock, thread, randomness, file or network (`clippy.toml` refuses these,
//! with reasons).
//!
//! A run starts as a [`Config`]: a TOML recipe and `--set section.key=value` overrides. Both are
//! checked against one list of keys. The error for a misspelt key shows the nearest known key and
//! the line. The `[model]` section becomes a [`Model`]: a list of layers with widths and all
//! defaults, resolved for the features and classes of one data set.
//!
//! [`Program::build`] lowers a model to a *stage program*: an ordered list of tensor and gather
//! stages for forward, loss and backward. The program also has the row buffers ([`SlotSpec`]) that
//! stages read and write, and the parameters that they train. It asks for each kernel's
//! [`Signature`]. A signature is plain data here, because this crate is independent of WebAssembly.
//! [`Program::evaluation`] is the forward part on its own. [`Buffers`] assigns row buffers that may
//! share memory.
//!
//! Rows are cut into [`Atoms`], a grid that depends only on the graph. Sums over rows follow a
//! fixed tree over the grid. [`Intervals`] are runs of atoms, so any number of intervals gives the
//! same bits. [`Atoms::nodes`] gives the partial sums of an interval, and [`Combine`] the order in
//! which they are added.
//!
//! A [`Profile`] has the times of stages and the bytes that they move. [`Prices`] has the prices of
//! machines and functions. The simulation and the planners use both. [`cost`] compares machines and
//! functions that could run the work.
//!
//! A [`planner`] assigns operators to lanes, chooses a schedule and predicts the time of a round.
//! [`receptive`] cuts images into strips of rows, and convolutions into blocks that need no other
//! strip's rows.
//!
//! At run time, a stage on an interval in a round is a [`Step`]. An attempt at a step is a
//! [`Task`].

/// Expands to true if a test has planted this defect in the rules and planners of its thread.
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
