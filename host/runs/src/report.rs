//! Reports of a training run, during the run and at its end.

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
pub use epoch::{BestEpoch, EpochReport};
pub use memory::{MemoryItem, MemoryPlan, Phase, PhaseBytes};
pub use metrics::{Metrics, mean, spread};
pub use progress::{Activity, Progress};
pub use quality::{ClassQuality, Majority, Mistake, Quality};
pub use setting::ResolvedSetting;
pub use trial::{PipelineTrial, StalenessTrial};

use crate::provenance::Provenance;

/// Facts of a run that are known before the first epoch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Started {
    /// Name of the data set.
    pub dataset: String,
    /// Number of vertices.
    pub vertices: u64,
    /// Number of directed edges.
    pub edges: u64,
    /// Number of features of a vertex.
    pub features: u64,
    /// Learning task of the run, such as classification.
    #[serde(default)]
    pub task: TaskType,
    /// Metric by which the run evaluates its model.
    #[serde(default)]
    pub metric: Metric,
    /// Number of classes, labels or regression targets. For link prediction, number of columns of
    /// an embedding.
    pub classes: u64,
    /// Number of graphs, if the data set is not a single graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphs: Option<u32>,
    /// Number of training, validation and test links. `None` if the task is not link prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<[u64; 3]>,
    /// Description of the model, for instance `gcn 1433-16-7`.
    pub model: String,
    /// Number of trained parameter values.
    pub parameters: u64,
    /// Number of intervals (ranges of vertices that are scheduled as one unit).
    pub intervals: u32,
    /// Number of compute threads.
    pub threads: u32,
    /// Number of epochs of each seed.
    pub epochs: u32,
    /// Seeds with which the run trains, one after another.
    pub seeds: Vec<u64>,
    /// Seconds from the call to the start of training. They include reading and ordering the data,
    /// loading kernels and planning.
    pub setup_seconds: f64,
    /// Settings that follow from the data and the model.
    #[serde(default)]
    pub settings: Vec<ResolvedSetting>,
    /// Location of the host relative to the functions, and the limit that reduced the number of
    /// functions. `None` if nothing is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<Outlook>,
}

/// Facts of a resumed run that are known before its first further epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// Seed whose training resumes.
    pub seed: u64,
    /// Last finished epoch of that seed.
    pub epoch: u32,
    /// Number of finished epochs of all seeds.
    pub epochs_done: u64,
    /// Checkpoints that could not be used, with the reasons.
    pub damaged: Vec<String>,
    /// Differences from the original run that do not prevent it from resuming.
    pub differences: Vec<String>,
}

/// Progress of a seed towards `run.until`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Target of the run (`run.until`).
    pub until: Until,
    /// First evaluated epoch that reached the target. `None` if none did.
    pub epoch: Option<u32>,
    /// Seconds of training until the target was reached, without evaluations. If no epoch reached
    /// it, seconds of all epochs.
    pub seconds: f64,
    /// Best value among the evaluated epochs. `None` if no epoch was evaluated.
    pub best: Option<f64>,
}

impl Target {
    /// Creates the report from the epochs of a seed.
    pub fn of(until: Until, epoch: Option<u32>, epochs: &[EpochReport]) -> Self {
        let counted = |report: &&EpochReport| epoch.is_none_or(|epoch| report.epoch <= epoch);
        let better = |best: Metrics, found: Metrics| {
            let goodness = |of: &Metrics| of.goodness_on(until.part);
            if goodness(&found) > goodness(&best) { found } else { best }
        };
        let best = epochs.iter().filter_map(|report| report.metrics).reduce(better);
        let seconds = epochs.iter().filter(counted).map(|report| report.seconds).sum();
        Self { until, epoch, seconds, best: best.and_then(|best| best.of(until.part)) }
    }
}

/// Report of a finished seed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SeedReport {
    /// Random seed of the training.
    pub seed: u64,
    /// Number of the last epoch.
    pub epochs: u32,
    /// Loss of the last epoch, averaged over the training rows.
    pub loss: f64,
    /// Metrics after the last epoch.
    #[serde(alias = "accuracy")]
    pub metrics: Metrics,
    /// Epoch with the best validation metric. `None` if no evaluated epochs could be compared.
    pub best: Option<BestEpoch>,
    /// Epoch whose model is written, if it is not the last (`run.keep`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_epoch: Option<u32>,
    /// Number of epochs without a better validation metric at which early stopping (`run.patience`)
    /// ended the seed. `None` if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_early: Option<u32>,
    /// Progress towards `run.until`. `None` if the run has no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Epoch after which the validation metric had reached `pipeline.synchronous_at`. `None` if it
    /// did not, or if the setting is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronised_after: Option<u32>,
    /// SHA-256 of the written weights, in hexadecimal.
    pub model_digest: String,
    /// Quality of the written model, class by class. `None` for regression, and if there are no
    /// known labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
}

impl SeedReport {
    /// Returns the metrics of the written model.
    #[must_use]
    pub fn written(&self) -> Metrics {
        self.kept_epoch.and(self.best).map_or(self.metrics, |best| best.metrics)
    }
}

/// Traffic of a run's worker processes, and the cost of their failures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkersUsed {
    /// Message counts of each worker.
    pub places: Vec<Traffic>,
    /// Number of steps that were repeated because a failed worker had stored their rows.
    pub again: u64,
    /// Number of steps that redundant computation (`workers.redundant`) computed a second time in
    /// advance, in case a worker fails.
    #[serde(default)]
    pub redundant: u64,
    /// Number of steps that were in flight at a worker when it failed, and were repeated.
    pub retries: u64,
    /// Number of rollbacks to a snapshot of the weights. `None` unless workers own the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<u64>,
}

/// Counts of attempts at tasks, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// Number of answers whose results were used, one per task.
    pub committed: u64,
    /// Number of attempts made after a failure of an earlier one.
    pub retries: u64,
    /// Number of attempts made in addition to one that took too long.
    pub relaunches: u64,
    /// Number of answers dropped because another attempt at the task had already been used.
    pub duplicates: u64,
    /// Number of answers dropped because their epoch or evaluation was over.
    pub late: u64,
    /// Number of attempts in flight that a stop cancelled.
    pub cancelled: u64,
}

/// Order of the vertices in memory, if it differs from that of the data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ordered {
    /// Name of the order, as in `run.order`.
    pub name: String,
    /// Seconds to compute the order and to move the data set into it.
    pub seconds: f64,
}

/// Ages of the rows that gathers read from other intervals (ranges of vertices), in asynchronous
/// epochs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowsByAge {
    /// Number of rows read, over all gathers.
    pub rows: u64,
    /// Share of the rows by age. Entry i is for rows that are i epochs older than the epoch that
    /// reads them.
    pub shares: Vec<f64>,
}

/// Kind of the helpers, which compute tasks in addition to the driver's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Helpers {
    /// Functions (`executor.functions`).
    Functions,
    /// Compute threads in addition to the driver's (`run.threads`).
    Threads,
}

/// Number of helpers of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HelpersUsed {
    /// Kind of the helpers.
    pub what: Helpers,
    /// True if an autotuner chose the number.
    pub auto: bool,
    /// Smallest value that the limit on concurrent helpers had.
    pub least: u32,
    /// Last value of the limit on concurrent helpers.
    pub last: u32,
    /// Largest value that the limit on concurrent helpers had.
    pub most: u32,
    /// Number of changes of the limit.
    pub changes: u64,
    /// Reason for the last value of the limit, as text.
    pub why: String,
    /// Limit of the account that reduced the requested number of helpers. `None` if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Number of task attempts that helpers finished.
    pub tasks: u64,
    /// Number of task attempts that the host or the driver's thread finished.
    pub own_tasks: u64,
}

/// Decision of the autotuner about the number of helpers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// Kind of the helpers.
    pub what: Helpers,
    /// Seconds since the run's first epoch began.
    pub seconds: f64,
    /// Number of helpers before the decision.
    pub from: u32,
    /// Number of helpers after the decision.
    pub to: u32,
    /// Reason for the decision, as text.
    pub why: String,
}

/// Summary of a whole training run, as written to `summary.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the data set.
    pub dataset: String,
    /// Description of the model, for instance `gcn 1433-16-7`.
    pub model: String,
    /// Reports of the seeds, in the order of training.
    pub seeds: Vec<SeedReport>,
    /// Metric of the fields that follow.
    #[serde(default)]
    pub metric: Metric,
    /// Mean over seeds of the test metric after the last epoch.
    #[serde(alias = "test_accuracy")]
    pub test_metric: Option<f64>,
    /// Standard deviation of `test_metric` over seeds (n - 1; 0 for one seed).
    #[serde(alias = "test_accuracy_std")]
    pub test_metric_std: Option<f64>,
    /// Mean over seeds of the test metric after the epoch with the best validation metric.
    #[serde(alias = "test_accuracy_at_best_validation")]
    pub test_metric_at_best_validation: Option<f64>,
    /// Reasons why the metric is undefined, by part of the data. Empty if it has a value on each
    /// part with rows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub undefined_metrics: BTreeMap<String, String>,
    /// Median seconds of an epoch, over all epochs of all seeds.
    pub epoch_seconds_median: f64,
    /// Seconds from the call to the summary. For a resumed run, the time until its checkpoint is
    /// included.
    pub total_seconds: f64,
    /// Peak resident memory of the process, in bytes.
    pub peak_memory_bytes: u64,
    /// Settings that follow from data and model, with the origin of each.
    #[serde(default)]
    pub settings: Vec<ResolvedSetting>,
    /// SHA-256 of the weights of the first seed, in hexadecimal.
    pub model_digest: String,
    /// Numeric class of the processors (a set of processors whose arithmetic gives the same bits).
    /// If functions of other classes took part, all classes, joined by ` + `.
    pub numeric_class: String,
    /// Number of intervals (ranges of vertices that are scheduled as one unit).
    pub intervals: u32,
    /// Number of compute threads.
    pub threads: u32,
    /// Order of the vertices in memory. `None` if it is that of the data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Ordered>,
    /// Name of the executor.
    pub executor: String,
    /// Number of tasks run, including repeated attempts.
    pub tasks: u64,
    /// Ages of the gathered rows. `None` if no row could be older than the epoch that read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_by_age: Option<RowsByAge>,
    /// Trials that chose the pipeline's settings. If the run was resumed in another folder, only
    /// the settings are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<PipelineTrial>,
    /// Number of functions, or of threads that an autotuner chose. `None` for a fixed number of
    /// threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helpers: Option<HelpersUsed>,
    /// Counts of task attempts in this process, by outcome. `None` for the local executor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Attempts>,
    /// Message counts of workers and the cost of their failures, in this process. `None` without
    /// workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersUsed>,
    /// Result of the audit, in this process. `None` if nothing was audited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditReport>,
    /// Bill of the charged usage, as the service measured it. `None` if nothing is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bill: Option<Bill>,
    /// Cost of the bill in US dollars. `None` if nothing is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// True if there is no `predictions.npz` because rows are tokens and the caller did not request
    /// their scores.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_predictions: bool,
    /// True if there is no `predictions.npz` because a function trained the run and the caller did
    /// not request predictions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub predictions_left_out: bool,
    /// True if the run was asked to stop before its last epoch. Early stops are reported for each
    /// seed.
    pub stopped: bool,
    /// Data, settings, kernels, version and machine of the run. `None` in the summaries of Eciton
    /// 0.1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Path of the run folder. `None` if nothing was written.
    pub run_dir: Option<PathBuf>,
}

/// Receiver of the reports of a run. All methods have an empty default, so an observer implements
/// only the reports that it needs.
pub trait Observer {
    /// Reports that everything is loaded and planned.
    fn started(&mut self, _: &Started) {}
    /// Reports that the run resumes where an earlier process ended. Called after
    /// [`Observer::started`].
    fn resumed(&mut self, _: &Resumed) {}
    /// Reports the end of an epoch.
    fn epoch(&mut self, _: &EpochReport) {}
    /// Reports the progress of an epoch or an evaluation that takes longer than a second, twice a
    /// second.
    fn progress(&mut self, _: &Progress) {}
    /// Reports that trials have chosen the pipeline's settings. Called before
    /// [`Observer::started`].
    fn tried(&mut self, _: &PipelineTrial) {}
    /// Reports the end of a seed.
    fn seed(&mut self, _: &SeedReport) {}
    /// Reports a decision of the autotuner, even if the number of helpers does not change.
    fn chosen(&mut self, _: &Chosen) {}
    /// Reports that no task in flight has ended for `_seconds`, with the conditions that the run
    /// waits for.
    fn stalled(&mut self, _seconds: u64, _waits_for: &[String]) {}
    /// Reports that the run waits for workers. The text is one line with the address to which they
    /// connect.
    fn waiting(&mut self, _text: &str) {}
    /// Reports a problem that does not end the run. The text is one line.
    fn warning(&mut self, _text: &str) {}
    /// Reports a line that a kernel wrote to its log.
    fn log(&mut self, _kernel: &str, _line: &str) {}
}

/// Observer that ignores all reports.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}
