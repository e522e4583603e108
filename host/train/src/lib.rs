//! The driver of training runs, run folders, and the library API.
//!
//! [`train`] takes a [`Config`](eciton_recipe::Config): it loads the data, compiles the kernels while
//! that goes on, makes a stage program, and drives the engine on the local pool until it has
//! finished, telling an [`Observer`] of each epoch. [`resume`] goes on with a run that was killed or
//! [stopped](Stop), from its last [`checkpoint`]. [`evaluate`] and [`predict`] work from a run folder alone.
//! [`train_on`], [`resume_on`], [`evaluate_on`] and [`predict_on`] do the same with a data set in memory; a
//! [`Trainer`] does it without a folder.
//!
//! ```no_run
//! let config = eciton_recipe::Config::default(); // Kipf and Welling's GCN on Cora
//! let summary = eciton_train::train(&config, &eciton_train::Options::default(), &mut eciton_train::Silent)?;
//! println!("{:?}", summary.test_metric);
//! # Ok::<(), eciton_train::Error>(())
//! ```

mod batch;
mod budget;
pub mod checkpoint;
mod class_weights;
#[cfg(feature = "compiler")]
pub mod cost;
mod data;
pub mod decisions;
pub mod defaults;
mod doubt;
mod driver;
mod edge_data;
mod error;
mod evaluation;
pub mod figures;
mod gathered;
mod generate;
mod initial;
#[doc(hidden)]
pub mod inspect;
pub mod job;
pub mod kernels;
mod known_labels;
mod labelled;
mod logs;
mod memory;
mod nan_trace;
mod npz_write;
mod options;
mod owned;
mod parameter_shapes;
mod picture;
mod plan;
mod predict;
mod predicted;
mod profile;
mod provenance;
mod published;
mod recorder;
mod relation;
mod report;
mod resolved_settings;
mod resume;
pub mod run_folder;
pub mod schema;
mod session;
mod signs;
mod split;
mod staleness_trials;
mod stop;
mod strips;
pub mod sweep;
mod task_type;
mod tensorboard;
mod train;
mod trainer;
mod training_checks;
mod undefined;
mod vertices;
pub mod web;
mod weights;
mod worker;

pub use budget::{Budget, Clock};
pub use data::{IN_MEMORY, load, open, prepare};
pub use doubt::{AuditReport, Excluded};
pub use eciton_exec::{Bill, Cost, TimeOrigin};
pub use eciton_workers::{Leave, Served, Traffic};
pub use error::{Error, Result};
pub use generate::{Drawing, Writer};
pub use kernels::{CachePolicy, SignedCode};
pub use logs::{MAX_EVENTS_BYTES, MAX_SPANS, Recording, read_profile};
pub use memory::{MemoryItem, MemoryPlan, Phase, PhaseBytes};
pub use nan_trace::{NanTrace, Written};
pub use options::Options;
pub use plan::{
    FunctionsPlan, HostPlan, LanePlan, LanesPlan, LayerFirst, LayerPlan, PipelinePlan, Plan, PlannedPipeline,
    SpanPlan, StagePlan, plan, plan_on,
};
pub use predict::{Evaluation, Predictions, evaluate, evaluate_on, open_for, predict, predict_on};
pub use profile::profile;
pub use provenance::{DataDigest, Machine, Provenance};
pub use published::Published;
pub use report::{
    Activity, Attempts, BestEpoch, Chosen, ClassQuality, EpochReport, Helpers, HelpersUsed, Majority,
    Metrics, Mistake, Observer, Ordered, PipelineTrial, Progress, Quality, ResolvedSetting, Resumed,
    RowsByAge, SeedReport, Silent, StalenessTrial, Started, Summary, Target, WorkersUsed,
};
pub use resume::{is_finished, resume, resume_on};
pub use staleness_trials::settle_pipeline;
pub use stop::{Ask, Stop};
pub use strips::Split;
pub use task_type::task;
pub use train::{train, train_on};
pub use trainer::Trainer;
pub use worker::{Worker, work};
