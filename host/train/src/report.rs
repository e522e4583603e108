//! What a run tells while it goes on and at its end.

mod epoch;
mod progress;
mod quality;

use std::collections::BTreeMap;
use std::path::PathBuf;

use eciton_exec::functions::Outlook;
use eciton_exec::workers::Traffic;
use eciton_exec::{Bill, Cost, Cut};
use eciton_plan::{Metric, Part, TaskType, Until};
use serde::{Deserialize, Serialize};

pub use epoch::{BestEpoch, EpochReport};
pub use progress::{Activity, Progress};
pub use quality::{ClassQuality, Majority, Mistake, Quality};

use crate::doubt::AuditReport;
use crate::provenance::Provenance;
use crate::said::Said;
use crate::trial::PipelineTrial;

/// Known before the first epoch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Started {
    /// The data set's name.
    pub dataset: String,
    /// Vertices.
    pub vertices: u64,
    /// Directed edges.
    pub edges: u64,
    /// Features of a vertex.
    pub features: u64,
    /// What is to be learnt.
    #[serde(default)]
    pub task: TaskType,
    /// How good a model is.
    #[serde(default)]
    pub metric: Metric,
    /// Classes, labels or numbers; of links the columns of an embedding.
    pub classes: u64,
    /// How many graphs there are, where it is not one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphs: Option<u32>,
    /// Links that are trained with, that choose between models, and that are reported; `None` where
    /// none are predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<[u64; 3]>,
    /// For instance `gcn 1433-16-7`.
    pub model: String,
    /// Values trained.
    pub parameters: u64,
    /// Vertex intervals.
    pub intervals: u32,
    /// Compute threads.
    pub threads: u32,
    /// Epochs a seed.
    pub epochs: u32,
    /// The seeds that will run.
    pub seeds: Vec<u64>,
    /// Seconds from the call to here: data and its order, kernels, plan.
    pub setup_seconds: f64,
    /// The settings that follow from data and model.
    #[serde(default)]
    pub settings: Vec<Said>,
    /// Where the host of functions is, and by what their number was cut; `None` where nothing is
    /// charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<Outlook>,
}

/// Known before the first further epoch of a run that goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// The seed that it goes on with.
    pub seed: u64,
    /// The last epoch of it that is done.
    pub epoch: u32,
    /// Epochs of all seeds that are done.
    pub epochs_done: u64,
    /// Checkpoints that could not be used, and why.
    pub damaged: Vec<String>,
    /// What is not as it was, where the run goes on all the same.
    pub differences: Vec<String>,
}

/// How good a model is. Shares are of 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// By which measure.
    #[serde(default)]
    pub metric: Metric,
    /// On the training vertices; `None` where there are none, or the measure has no value.
    pub train: Option<f64>,
    /// On the validation vertices.
    pub validation: Option<f64>,
    /// On the test vertices.
    pub test: Option<f64>,
}

impl Metrics {
    /// That of a part of the data.
    #[must_use]
    pub fn of(&self, part: Part) -> Option<f64> {
        match part {
            Part::Train => self.train,
            Part::Validation => self.validation,
            Part::Test => self.test,
        }
    }

    /// The validation metric, so that more is better; `None` if it has no value, or one that is not
    /// a number.
    #[must_use]
    pub fn goodness(&self) -> Option<f64> {
        self.goodness_on(Part::Validation)
    }

    /// The metric of a part of the data, so that more is better; `None` as for
    /// [`Metrics::goodness`].
    #[must_use]
    pub fn goodness_on(&self, part: Part) -> Option<f64> {
        self.of(part).filter(|found| !found.is_nan()).map(|found| self.metric.goodness(found))
    }
}

/// How far a seed came to `run.until`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The target.
    pub until: Until,
    /// The first evaluated epoch that reached it; `None`: none did.
    pub epoch: Option<u32>,
    /// Seconds of training until then, evaluations apart; of all epochs where none reached it.
    pub seconds: f64,
    /// The best value of an evaluated epoch; `None` where there was none.
    pub best: Option<f64>,
}

impl Target {
    /// Of a seed's epochs.
    pub(crate) fn of(until: Until, epoch: Option<u32>, epochs: &[EpochReport]) -> Self {
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

/// One seed, finished.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// The last epoch.
    pub epochs: u32,
    /// The last epoch's loss.
    pub loss: f64,
    /// After the last epoch.
    #[serde(alias = "accuracy")]
    pub metrics: Metrics,
    /// The epoch with the best validation metric; `None` where none was chosen among evaluated
    /// epochs.
    pub best: Option<BestEpoch>,
    /// The epoch whose model is written, where it is not the last (`run.keep`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_epoch: Option<u32>,
    /// After how many epochs without a better validation metric it was stopped (`run.patience`);
    /// `None`: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_early: Option<u32>,
    /// How far it came to `run.until`; `None` where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// After which epoch the validation metric had come to `pipeline.synchronous_at`; `None`: it
    /// did not, or none was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronised_after: Option<u32>,
    /// SHA-256 of the weights that are written, hexadecimal.
    pub model_digest: String,
    /// The quality of the written model, class by class; `None` for numbers, and where nothing is
    /// known to compare with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
}

impl SeedReport {
    /// The metrics of the model that is written.
    #[must_use]
    pub fn written(&self) -> Metrics {
        self.kept_epoch.and(self.best).map_or(self.metrics, |best| best.metrics)
    }
}

/// Workers of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkersUsed {
    /// Each place.
    pub places: Vec<Traffic>,
    /// Steps that were done again for the rows that a failed worker had kept.
    pub again: u64,
    /// Steps that redundant computation (`workers.shadows`) did a second time in advance.
    #[serde(default)]
    pub redundant: u64,
    /// Steps that were in flight at a worker when it failed.
    pub retries: u64,
    /// Times that the run went back to its log of the weights, where workers own these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<u64>,
}

/// Attempts at tasks beyond the one each that was committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// Answers committed: one a task.
    pub committed: u64,
    /// New attempts after a failure.
    pub retries: u64,
    /// New attempts beside one that took too long.
    pub relaunches: u64,
    /// Answers dropped because another attempt had been committed.
    pub duplicates: u64,
    /// Answers dropped because their epoch or evaluation was over.
    pub late: u64,
    /// Attempts under way that a stop ended.
    pub cancelled: u64,
}

/// The vertices' order, where it is not the data set's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ordered {
    /// As `run.order` has it.
    pub name: String,
    /// Finding it and moving the data set into it.
    pub seconds: f64,
}

/// How old the rows were that gathers read of other intervals, in asynchronous epochs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowsByAge {
    /// Rows read, over all gathers.
    pub rows: u64,
    /// The share of those so many epochs older than the gather's own, from 0.
    pub shares: Vec<f64>,
}

/// Who helps the driver's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Helpers {
    /// Functions (`executor.functions`).
    Functions,
    /// Compute threads besides the driver's (`run.threads`).
    Threads,
}

/// How many helpers a run had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HelpersUsed {
    /// Which.
    pub what: Helpers,
    /// True if an autotuner said how many.
    pub auto: bool,
    /// The fewest that might work at once.
    pub least: u32,
    /// As many as might work at last.
    pub last: u32,
    /// The most.
    pub most: u32,
    /// How often the number changed.
    pub changes: u64,
    /// Why it was the last one.
    pub why: String,
    /// By what the number that was asked for was cut, where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Attempts at tasks that helpers ended.
    pub tasks: u64,
    /// Others: the host's, or the driver's thread's.
    pub own_tasks: u64,
}

/// An autotuner's decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// Of what.
    pub what: Helpers,
    /// Seconds since the run's first epoch began.
    pub seconds: f64,
    /// How many until then.
    pub from: u32,
    /// How many from then on.
    pub to: u32,
    /// Why.
    pub why: String,
}

/// The whole run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// The data set's name.
    pub dataset: String,
    /// For instance `gcn 1433-16-7`.
    pub model: String,
    /// Each seed, in order.
    pub seeds: Vec<SeedReport>,
    /// By which measure the following are.
    #[serde(default)]
    pub metric: Metric,
    /// Mean over seeds of the test metric after the last epoch.
    #[serde(alias = "test_accuracy")]
    pub test_metric: Option<f64>,
    /// Its standard deviation over seeds (n - 1; 0 for one).
    #[serde(alias = "test_accuracy_std")]
    pub test_metric_std: Option<f64>,
    /// Mean over seeds of the test metric at the best validation metric.
    #[serde(alias = "test_accuracy_at_best_validation")]
    pub test_metric_at_best_validation: Option<f64>,
    /// The reasons why the metric is undefined, by part of the data; empty if it has a value on
    /// each part with rows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub undefined_metrics: BTreeMap<String, String>,
    /// Median over all epochs of all seeds.
    pub epoch_seconds_median: f64,
    /// From the call to the summary; of a run that went on, the time until its checkpoint besides.
    pub total_seconds: f64,
    /// The process's peak resident memory.
    pub peak_memory_bytes: u64,
    /// The settings that follow from data and model, and where each is from.
    #[serde(default)]
    pub settings: Vec<Said>,
    /// The first seed's weights, SHA-256, hexadecimal.
    pub model_digest: String,
    /// Which processors give the same bits; where functions of another class took part, all that
    /// did, joined by ` + `.
    pub numeric_class: String,
    /// Vertex intervals.
    pub intervals: u32,
    /// Compute threads.
    pub threads: u32,
    /// In which order the vertices lay in memory; `None`: the data set's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Ordered>,
    /// Who ran tasks.
    pub executor: String,
    /// Tasks run, attempts included.
    pub tasks: u64,
    /// How old gathered rows were; `None` where none could be older than their epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_by_age: Option<RowsByAge>,
    /// How the pipeline's settings were chosen, where trials did; a run that went on elsewhere has
    /// its settings alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<PipelineTrial>,
    /// How many functions, or threads of an autotuner's, were at work; `None` for a fixed number of
    /// threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helpers: Option<HelpersUsed>,
    /// How attempts at tasks ended that did not count, in this process; `None` with the local
    /// executor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Attempts>,
    /// Messages of workers and the cost of losses, in this process; `None` without workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersUsed>,
    /// Result of the audit, in this process. `None` if nothing was audited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditReport>,
    /// What the run used of what is charged for, as the service saw it; `None` where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bill: Option<Bill>,
    /// What that costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// True if there is no `predictions.npz`: rows are tokens, whose scores were not asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_predictions: bool,
    /// True if the run folder has no `predictions.npz` because a function trained the run and
    /// nobody asked for its predictions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub predictions_left_out: bool,
    /// True if the run was asked to stop before its last epoch. (Early stops are told seed by
    /// seed.)
    pub stopped: bool,
    /// Data, settings, kernels, version and machine of the run. `None` in the summaries of Eciton
    /// 0.1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Where everything was written; `None` if nothing was.
    pub run_dir: Option<PathBuf>,
}

/// Hears of a run while it goes on.
pub trait Observer {
    /// Everything is loaded and planned.
    fn started(&mut self, _: &Started) {}
    /// The run goes on where a process before this one was; after [`Observer::started`].
    fn resumed(&mut self, _: &Resumed) {}
    /// An epoch is over.
    fn epoch(&mut self, _: &EpochReport) {}
    /// An epoch or an evaluation takes longer than a second: its progress, twice a second.
    fn progress(&mut self, _: &Progress) {}
    /// Trials of the pipeline have chosen its settings; before [`Observer::started`].
    fn tried(&mut self, _: &PipelineTrial) {}
    /// A seed is over.
    fn seed(&mut self, _: &SeedReport) {}
    /// The autotuner has decided; also that a number stays.
    fn chosen(&mut self, _: &Chosen) {}
    /// For so many seconds nothing has ended that is under way: what the run waits for.
    fn stalled(&mut self, _seconds: u64, _waits_for: &[String]) {}
    /// The run waits for workers: where they dial. One line.
    fn waiting(&mut self, _text: &str) {}
    /// Something is not as it should be, and the run goes on all the same. One line.
    fn warning(&mut self, _text: &str) {}
    /// A kernel wrote a line to its log.
    fn log(&mut self, _kernel: &str, _line: &str) {}
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}
