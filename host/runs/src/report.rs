//! Reports that a training run makes, during the run and at its end.

mod audit;
mod epoch;
mod memory;
mod metrics;
mod progress;
mod quality;
mod setting;
mod trial;

use std::collections::BTreeMap;
use std::path::PathBuf;

use eciton_exec::Traffic;
use eciton_exec::functions::Outlook;
use eciton_exec::{Bill, Cost, Cut};
use eciton_recipe::{Metric, TaskType, Until};
use serde::{Deserialize, Serialize};

pub use audit::{AuditReport, Excluded};
pub use epoch::{BestEpoch, EpochReport, Unit};
pub use memory::{MemoryItem, MemoryPlan, Phase, PhaseBytes};
pub use metrics::{Metrics, mean, spread};
pub use progress::{Activity, Progress};
pub use quality::{ClassQuality, Majority, Mistake, Quality};
pub use setting::ResolvedSetting;
pub use trial::{PipelineTrial, StalenessTrial};

use crate::provenance::Provenance;

/// Facts about a run that are known before its first epoch. [`Observer::started`] receives them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Started {
    /// Name of the data set.
    pub dataset: String,
    /// Number of vertices in the data set.
    pub vertices: u64,
    /// Number of directed edges in the data set.
    pub edges: u64,
    /// Number of features per vertex.
    pub features: u64,
    /// Learning task, for instance classification.
    #[serde(default)]
    pub task: TaskType,
    /// Metric by which the model is evaluated.
    #[serde(default)]
    pub metric: Metric,
    /// Number of classes, labels or regression targets. For link prediction, the number of
    /// embedding columns.
    pub classes: u64,
    /// Number of graphs. `None` if the data set is a single graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphs: Option<u32>,
    /// Number of labelled edges. `None` if the task is not on edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labelled_edges: Option<u32>,
    /// Number of training, validation and test links. `None` if the task is not link prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<[u64; 3]>,
    /// Description of the model, for instance `gcn 1433-16-7`.
    pub model: String,
    /// Number of trainable parameter values of the model.
    pub parameters: u64,
    /// Number of intervals. An interval is a contiguous range of vertices that is scheduled as one
    /// unit.
    pub intervals: u32,
    /// Number of compute threads on this machine.
    pub threads: u32,
    /// Number of epochs that are planned for each seed. The last one may be incomplete.
    pub epochs: u32,
    /// Number of steps (weight updates) that are planned for each seed, and of those per epoch.
    #[serde(default)]
    pub steps: (u32, u32),
    /// Mini-batches. `None` if each step is on all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<Batches>,
    /// Random seeds. The run trains one model per seed, one after another.
    pub seeds: Vec<u64>,
    /// Seconds from the call until the training starts. They include reading and ordering the data,
    /// loading kernels, and planning.
    pub setup_seconds: f64,
    /// Settings whose values follow from the data or the model.
    #[serde(default)]
    pub settings: Vec<ResolvedSetting>,
    /// Expected location of the host relative to the functions, and the limit that reduced their
    /// number. `None` if nothing is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<Outlook>,
}

/// Mini-batches of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batches {
    /// Name of the sampler, for instance `neighbours`. `none` if micro-batches consist of training
    /// rows without neighbours.
    pub sampler: String,
    /// Number of updates (optimiser steps) per epoch.
    pub updates: u32,
    /// Number of micro-batches per update.
    pub micro: u32,
    /// Maximum number of rows of a micro-batch, including those that the sampler adds.
    pub rows: u32,
    /// Number of hops from which the model reads neighbours in a micro-batch.
    pub hops: u32,
    /// Samples that were drawn before the training to weight rows and edges. `None` if the sampler
    /// needs no weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
}

/// Samples that were drawn before the training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Number of samples.
    pub samples: u32,
    /// Time in seconds. It is part of [`Started::setup_seconds`] and of the duration of the run.
    pub seconds: f64,
    /// Effective number of training rows of a micro-batch. It is 1 / CV^2, where CV is the coefficient
    /// of variation of their total loss weight.
    #[serde(default)]
    pub effective_rows: f64,
}

/// Facts about a resumed run that are known before its next epoch. [`Observer::resumed`] receives
/// them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// Seed whose training is resumed.
    pub seed: u64,
    /// Last epoch of this seed that was finished.
    pub epoch: u32,
    /// Last step (weight update) of this seed that was finished.
    #[serde(default)]
    pub step: u32,
    /// Total number of finished epochs of all seeds. It has a fraction if the run resumes within an
    /// epoch.
    pub epochs_done: f64,
    /// Damaged checkpoints that were skipped, each with the reason.
    pub damaged: Vec<String>,
    /// Differences between the original and the resumed run that do not prevent resuming, one
    /// sentence each.
    pub differences: Vec<String>,
}

/// Result of one seed with respect to the target metric of the run (`run.until`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Target that the run trains for (`run.until`).
    pub until: Until,
    /// First evaluated epoch that reached the target. `None` if no epoch reached it.
    pub epoch: Option<u32>,
    /// Training time until the target was reached, in seconds and without evaluations. It includes the
    /// time in which samples were counted before the training. If no epoch reached the target, the time
    /// of all epochs.
    pub seconds: f64,
    /// Best value of the target's metric in any evaluated epoch. `None` if no epoch was evaluated.
    pub best: Option<f64>,
}

impl Target {
    /// Creates the report from the epochs of a seed. `counting` is the time in seconds in which samples
    /// were counted before the training.
    pub fn from_epochs(until: Until, epoch: Option<u32>, epochs: &[EpochReport], counting: f64) -> Self {
        let counted = |report: &&EpochReport| epoch.is_none_or(|epoch| report.epoch <= epoch);
        let better = |best: Metrics, found: Metrics| {
            let goodness = |of: &Metrics| of.goodness_on(until.part);
            if goodness(&found) > goodness(&best) { found } else { best }
        };
        let best = epochs.iter().filter_map(|report| report.metrics).reduce(better);
        let seconds = counting + epochs.iter().filter(counted).map(|report| report.seconds).sum::<f64>();
        Self { until, epoch, seconds, best: best.and_then(|best| best.value_on(until.part)) }
    }
}

/// Report of a finished training with one seed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SeedReport {
    /// Random seed of the training.
    pub seed: u64,
    /// Number of the last epoch that was trained.
    pub epochs: u32,
    /// Mean loss over the training rows in the last epoch.
    pub loss: f64,
    /// Metrics after the last epoch.
    #[serde(alias = "accuracy")]
    pub metrics: Metrics,
    /// Epoch with the best validation metric. `None` if there were no evaluated epochs to compare.
    pub best: Option<BestEpoch>,
    /// Epoch whose model is written (`run.keep`). `None` if this is the last epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_epoch: Option<u32>,
    /// Number of epochs without a better validation metric after which early stopping
    /// (`run.patience`) ended the training. `None` if the training was not stopped early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_early: Option<u32>,
    /// Result with respect to the target metric (`run.until`). `None` if the run has no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Epoch after which the training switched to synchronous rounds, because the validation metric
    /// had reached `pipeline.synchronous_at`. `None` if it did not switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronised_after: Option<u32>,
    /// SHA-256 of the written weights, in hexadecimal.
    pub model_digest: String,
    /// Quality of the written model, in total and per class. `None` for regression, and if no
    /// labels are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
}

impl SeedReport {
    /// Returns the metrics of the model that is written to the run folder.
    #[must_use]
    pub fn written(&self) -> Metrics {
        self.kept_epoch.and(self.best).map_or(self.metrics, |best| best.metrics)
    }
}

/// Message counts of a run's worker processes, and the work that was repeated after failures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkersUsed {
    /// Messages to and from each worker, in the order of the workers.
    pub places: Vec<Traffic>,
    /// Number of steps that were repeated because their results were stored on a worker that
    /// failed.
    pub again: u64,
    /// Number of steps that redundant computation (`workers.redundant`) computed twice as a
    /// precaution against worker failures.
    #[serde(default)]
    pub redundant: u64,
    /// Number of steps that were repeated because they were in flight on a worker when it failed.
    pub retries: u64,
    /// Number of rollbacks to a snapshot of the weights. `None` unless the workers own the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<u64>,
}

/// Counts of task attempts, by outcome. A task may be attempted more than once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// Number of answers whose results were used. This is one per finished task.
    pub committed: u64,
    /// Number of attempts that were started after an earlier attempt had failed.
    pub retries: u64,
    /// Number of attempts that were started in addition to a slow one.
    pub relaunches: u64,
    /// Number of answers that were dropped because another attempt had already finished the task.
    pub duplicates: u64,
    /// Number of answers that arrived after the end of their epoch or evaluation and were dropped.
    pub late: u64,
    /// Number of attempts in flight that were cancelled because the run stopped.
    pub cancelled: u64,
}

/// The order of the vertices in memory, if the run uses another one than the data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ordered {
    /// Name of the order, as in the setting `run.order`.
    pub name: String,
    /// Seconds that were spent on computing the order and rearranging the data set.
    pub seconds: f64,
}

/// Ages of the rows that gathers read from other intervals (contiguous ranges of vertices). Only
/// asynchronous epochs read rows of an earlier epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowsByAge {
    /// Total number of rows that gathers read.
    pub rows: u64,
    /// Share of the rows by age, from 0 to 1. Index i is for rows that are i epochs older than the
    /// epoch that reads them.
    pub shares: Vec<f64>,
}

/// Kind of helpers, which compute tasks in parallel with the driver's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Helpers {
    /// Cloud functions (`executor.functions`).
    Functions,
    /// Compute threads of this machine (`run.threads`).
    Threads,
}

/// Helpers (functions or threads) of a finished run: their number over time, and the tasks that
/// they computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HelpersUsed {
    /// Kind of the helpers.
    pub what: Helpers,
    /// True if the autotuner chose the number of helpers.
    pub auto: bool,
    /// Smallest limit on concurrent helpers during the run.
    pub least: u32,
    /// Limit on concurrent helpers at the end of the run.
    pub last: u32,
    /// Largest limit on concurrent helpers during the run.
    pub most: u32,
    /// Number of times that the limit changed.
    pub changes: u64,
    /// Reason for the last value of the limit, as text for the user.
    pub why: String,
    /// Limit of the cloud account that reduced the requested number of helpers. `None` if no limit
    /// did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Number of task attempts that helpers finished.
    pub tasks: u64,
    /// Number of task attempts that the driver's thread or the host finished.
    pub own_tasks: u64,
}

/// A decision of the autotuner about the number of helpers (functions or threads).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// Kind of the helpers.
    pub what: Helpers,
    /// Time of the decision, in seconds since the first epoch of the run began.
    pub seconds: f64,
    /// Number of helpers before the decision.
    pub from: u32,
    /// Number of helpers after the decision.
    pub to: u32,
    /// Reason for the decision, as text for the user.
    pub why: String,
}

/// Bytes that a host has exchanged with another host, without the headers of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTraffic {
    /// Index of the other host.
    pub host: u32,
    /// Bytes that were sent to it.
    pub sent_bytes: u64,
    /// Bytes that were received from it.
    pub received_bytes: u64,
}

/// Summary of a whole training run, as written to `summary.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the data set.
    pub dataset: String,
    /// Description of the model, for instance `gcn 1433-16-7`.
    pub model: String,
    /// Report of each seed, in the order of training.
    pub seeds: Vec<SeedReport>,
    /// Metric by which the model was evaluated, for the fields below.
    #[serde(default)]
    pub metric: Metric,
    /// Mean over seeds of the test metric after the last epoch.
    #[serde(alias = "test_accuracy")]
    pub test_metric: Option<f64>,
    /// Sample standard deviation of `test_metric` over seeds. It is 0 for one seed.
    #[serde(alias = "test_accuracy_std")]
    pub test_metric_std: Option<f64>,
    /// Mean over seeds of the test metric in the epoch with the best validation metric.
    #[serde(alias = "test_accuracy_at_best_validation")]
    pub test_metric_at_best_validation: Option<f64>,
    /// Reasons why the metric is undefined, keyed by part of the data, for instance `validation`.
    /// Empty if the metric has a value on each part that has rows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub undefined_metrics: BTreeMap<String, String>,
    /// Median duration of an epoch in seconds, over all epochs of all seeds.
    pub epoch_seconds_median: f64,
    /// Total duration of the run in seconds. For a resumed run, it includes the time until the
    /// checkpoint.
    pub total_seconds: f64,
    /// Peak resident memory of the process, in bytes.
    pub peak_memory_bytes: u64,
    /// Settings whose values follow from the data or the model, each with the origin of its value.
    #[serde(default)]
    pub settings: Vec<ResolvedSetting>,
    /// SHA-256 of the weights of the first seed, in hexadecimal.
    pub model_digest: String,
    /// Numeric class of the processors. Processors of the same numeric class compute the same bits.
    /// If functions of other classes took part, all classes are listed, joined by ` + `.
    pub numeric_class: String,
    /// Number of intervals. An interval is a contiguous range of vertices that is scheduled as one
    /// unit.
    pub intervals: u32,
    /// Number of compute threads on this machine.
    pub threads: u32,
    /// Order of the vertices in memory. `None` if it is the order of the data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Ordered>,
    /// Name of the executor.
    pub executor: String,
    /// Number of task attempts that were run, including repeated ones.
    pub tasks: u64,
    /// Ages of the rows that gathers read. `None` if no epoch could read rows of an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_by_age: Option<RowsByAge>,
    /// Trials that selected the settings of the pipeline. `None` if no trials ran, for instance
    /// because the run was resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<PipelineTrial>,
    /// Number of helpers (functions or threads) over the run. `None` for a fixed number of threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helpers: Option<HelpersUsed>,
    /// Counts of task attempts in this process, by outcome. `None` for the local executor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Attempts>,
    /// Message counts of the workers and the cost of their failures, in this process. `None` if the
    /// run used no workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersUsed>,
    /// Bytes that this host has exchanged with each other host of the run. Empty for a run on one
    /// host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostTraffic>,
    /// Mini-batches. `None` if each step was on all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<Batches>,
    /// Result of the audit of remote answers, in this process. `None` if nothing was audited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditReport>,
    /// Usage of charged services, as the services measured it. `None` if nothing is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bill: Option<Bill>,
    /// Cost of the usage in `bill`, in US dollars. `None` if nothing is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// True if `predictions.npz` was not written, because the rows are tokens of a text and the
    /// caller did not request their scores.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_predictions: bool,
    /// True if `predictions.npz` was not written, because a cloud function trained the run and the
    /// caller did not request predictions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub predictions_left_out: bool,
    /// True if the user stopped the run before its last epoch. Early stopping is reported per seed
    /// in [`SeedReport::stopped_early`].
    pub stopped: bool,
    /// Data, settings, kernels, version and machine that the results depend on. `None` in summaries
    /// of Eciton 0.1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Path of the run folder. `None` if no folder was written.
    pub run_dir: Option<PathBuf>,
}

/// Receiver of the reports of a run. All methods have an empty default, so an implementation
/// overrides only the ones that it needs.
pub trait Observer {
    /// Called when everything is loaded and planned, before the first epoch.
    fn started(&mut self, _: &Started) {}
    /// Called after [`Observer::started`] if the run resumes where an earlier process ended.
    fn resumed(&mut self, _: &Resumed) {}
    /// Called at the end of each epoch.
    fn epoch(&mut self, _: &EpochReport) {}
    /// Called twice per second during an epoch or an evaluation that takes longer than one second.
    fn progress(&mut self, _: &Progress) {}
    /// Called before [`Observer::started`] if trials have selected the settings of the pipeline.
    fn tried(&mut self, _: &PipelineTrial) {}
    /// Called at the end of the training with each seed.
    fn seed(&mut self, _: &SeedReport) {}
    /// Called when the autotuner has decided on the number of helpers, even if it stays the same.
    fn chosen(&mut self, _: &Chosen) {}
    /// Called when no task has ended for `_seconds`. `_waits_for` lists the conditions that the run
    /// is waiting for.
    fn stalled(&mut self, _seconds: u64, _waits_for: &[String]) {}
    /// Called when the run waits for workers to connect. The text is one line with the address that
    /// workers connect to.
    fn waiting(&mut self, _text: &str) {}
    /// Called for each problem that does not end the run. The text is one line.
    fn warning(&mut self, _text: &str) {}
    /// Called for each line that the kernel `_kernel` writes to its log.
    fn log(&mut self, _kernel: &str, _line: &str) {}
}

/// An [`Observer`] that ignores all reports.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}
