//! The driver of training runs, and the library API. Run folders and reports are in `eciton_runs`.
//!
//! [`train`] takes a [`Config`](eciton_recipe::Config). It loads the data, compiles the kernels,
//! and builds a stage program. Then it runs the engine until the training has finished, and reports
//! each epoch to an [`Observer`]. [`resume`] continues a run that was killed or [stopped](Stop),
//! from its last [`checkpoint`]. [`evaluate`] and [`predict`] apply the model of a run folder.
//! [`train_on`], [`resume_on`], [`evaluate_on`] and [`predict_on`] do the same with a data set in
//! memory. A [`Trainer`] trains without a run folder.
//!
//! ```no_run
//! let config = eciton_recipe::Config::default(); // Kipf and Welling's GCN on Cora
//! let summary = eciton_train::train(&config, &eciton_train::Options::default(), &mut eciton_train::Silent)?;
//! println!("{:?}", summary.test_metric);
//! # Ok::<(), eciton_train::Error>(())
//! ```

mod batch;
mod binary_layers;
mod budget;
pub mod checkpoint;
mod class_weights;
#[cfg(feature = "compiler")]
pub mod cost;
mod data;
mod dataset_cache;
pub mod defaults;
mod doubt;
mod driver;
mod edge_data;
mod error;
mod evaluation;
mod generate;
mod held_out_links;
mod hosts;
mod image_strips;
mod initial_weights;
#[doc(hidden)]
pub mod inspect;
pub mod job;
pub mod kernels;
mod known_labels;
mod logs;
mod loss_reachable;
mod memory;
mod nan_trace;
mod options;
mod owned;
mod parameter_shapes;
mod plan;
mod precomputed;
mod predict;
mod profile;
mod recorder;
mod relation;
mod resolved_settings;
mod resume;
mod sample;
mod session;
mod split;
mod staleness_trials;
mod stop;
pub mod sweep;
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
pub use dataset_cache::Published;
pub use eciton_exec::hosts::{Fabric, InProcess};
pub use eciton_exec::{Bill, Cost, TimeOrigin};
pub use eciton_runs::provenance::{DataDigest, Machine, Provenance};
pub use eciton_runs::report::{
    Activity, Attempts, AuditReport, Batches, BestEpoch, Chosen, ClassQuality, Counted, EpochReport,
    Excluded, Helpers, HelpersUsed, HostTraffic, Majority, MemoryItem, MemoryPlan, Metrics, Mistake,
    Observer, Ordered, Phase, PhaseBytes, PipelineTrial, Progress, Quality, ResolvedSetting, Resumed,
    RowsByAge, SeedReport, Silent, StalenessTrial, Started, Summary, Target, WorkersUsed,
};
pub use eciton_runs::task_type::task;
pub use eciton_runs::{decisions, metrics_format, npz_write, run_folder, schema};
pub use eciton_workers::Watch;
pub use eciton_workers::{ConnectError, Contact, Leave, Served, Snapshot, State, Status, Traffic};
pub use error::{Error, Result};
pub use generate::{Drawing, Writer};
pub use hosts::{Hosts, HostsPlan, PlannedHost, Wanted};
pub use image_strips::Split;
pub use kernels::{CachePolicy, SignedCode};
pub use logs::{MAX_EVENTS_BYTES, MAX_SPANS, Recording, read_profile};
pub use nan_trace::{NanTrace, Written};
pub use options::Options;
pub use plan::{
    FunctionsPlan, HostPlan, LanePlan, LanesPlan, LayerFirst, LayerPlan, PipelinePlan, Plan, PlannedPipeline,
    Protections, SpanPlan, StagePlan, plan, plan_on,
};
pub use predict::{Evaluation, Predictions, evaluate, evaluate_on, open_for, predict, predict_on};
pub use profile::profile;
pub use resume::{Shape, interrupted, is_finished, reshape, resume, resume_on};
pub use sample::{Sample, Samples};
pub use staleness_trials::settle_pipeline;
pub use stop::{Ask, Stop};
pub use train::{train, train_on};
pub use trainer::Trainer;
pub use worker::{Worker, work};
