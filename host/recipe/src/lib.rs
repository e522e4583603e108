//! Recipes, which are the settings of a run, and the models that they describe for a data set.
//!
//! The settings of a run are a [`Config`], which is parsed from a TOML recipe and
//! `--set section.key=value` overrides. Both are checked against one list of keys. The error for a
//! misspelt key shows the line and the most similar key. The `[model]` section is resolved to a
//! [`Model`] for the features and classes of one data set. A model is a list of layers with all
//! widths and defaults filled in.
//!
//! [`Prices`] has the prices of machines and functions, and [`Cloud`] also has the limits of a
//! provider. A [`Sweep`] lists the trials of a search over recipes. All functions are pure, without
//! clocks, threads, randomness, files or networks. `clippy.toml` forbids these.
//!
//! ```
//! use eciton_recipe::Config;
//! let config = Config::parse("[optimiser]\nlr = 0.05", "my.toml")?;
//! assert_eq!(config.optimiser.lr, 0.05);
//! # Ok::<(), eciton_recipe::Error>(())
//! ```

pub mod batch;
pub mod checkpoint;
pub mod class_weights;
pub mod cloud;
pub mod cluster;
pub mod config;
mod document;
mod error;
pub mod evaluation;
pub mod every;
pub mod executor;
pub mod gather_choice;
pub mod hosts;
pub mod keys;
pub mod lanes;
pub mod links;
pub mod model;
pub mod objective;
pub mod optimiser;
pub mod pipeline;
pub mod pipeline_schedule;
pub mod prices;
pub mod split_rule;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod until;
pub mod vertex_order;
pub mod workers;

pub use batch::{Batch, Correction, Sampler, VertexWeight};
pub use checkpoint::Checkpoint;
pub use class_weights::ClassWeights;
pub use cloud::{Cloud, Preset};
pub use cluster::Cluster;
pub use config::{
    Choice, Choices, Config, Data, Keep, Limits, MAX_SEQUENCE, NormaliseFeatures, Run, SelfLoops, Tokens,
    origins,
};
pub use error::{Error, Result, TextPlace};
pub use evaluation::{Evaluation, EvaluationMemory, EvaluationMethod};
pub use every::Every;
pub use executor::{EdgePlace, Emulator, Executor, FunctionCount, FusionChoice, RowFormat, Transport};
pub use gather_choice::{GatherFeatures, LabelledGathers};
pub use hosts::{Hosts, MAX_HOSTS};
pub use keys::{KeyInfo, keys, layer_keys};
pub use lanes::{LaneSettings, Lanes, Order};
pub use links::{Links, NegativeSampler};
pub use model::{
    Activation, Aggregator, Attention, Conv2d, DeepSettings, EdgeColumn, Embedding, FeatureGather, First,
    FirstKind, FirstWeights, Image, Init, Jumping, KindSettings, LEAKY_SLOPE, LayerKind, LayerSettings,
    Layers, Model, ModelKind, ModelLayer, ModelSettings, Norm, Pool2d, PoolBy, Readout, SelfAttention,
    SetKeys, Slice, Slope, Source, Tied, Transformer,
};
pub use objective::{Loss, Metric, TaskType};
pub use optimiser::{Algorithm, Optimiser, Schedule, ScheduleUnit, WeightDecay};
pub use pipeline::{Mode, Pipeline, WeightVersions};
pub use prices::{HostPlace, Moved, Prices, Processor};
pub use split_rule::SplitRule;
pub use sweep::Sweep;
pub use until::{Part, Until};
pub use vertex_order::VertexOrder;
pub use workers::{Owner, Workers};
