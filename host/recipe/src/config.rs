//! Configuration of a run. A recipe replaces the defaults, and `--set` overrides replace settings
//! of the recipe.
//!
//! ```
//! use eciton_recipe::Config;
//! let mut config = Config::parse("[run]\nepochs = 50\n", "recipe.toml")?;
//! config.set("optimiser.lr=0.1")?;
//! assert_eq!((config.run.epochs, config.optimiser.lr), (50, 0.1));
//! let error = config.set("optimiser.learning_rate=0.1").unwrap_err();
//! assert!(error.to_string().contains("did you mean `optimiser.lr`?"));
//!
//! # Ok::<(), eciton_recipe::Error>(())
//! ```

mod choices;
mod commented;
mod executor;
mod normalise;
mod reading;

pub use choices::{Choice, Choices};
pub use commented::origins;
pub use normalise::NormaliseFeatures;

use crate::batch::{Batch, Sampler};
use crate::checkpoint::Checkpoint;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::evaluation::{Evaluation, EvaluationMethod};
use crate::every::Every;
use crate::executor::{Emulator, Executor, FusionChoice, RowFormat};
use crate::gather_choice::{GatherFeatures, LabelledGathers};
use crate::hosts::Hosts;
use crate::lanes::LaneSettings;
use crate::links::Links;
use crate::model::ModelSettings;
use crate::objective::{Metric, TaskType};
use crate::optimiser::Optimiser;
use crate::pipeline::{Mode, Pipeline};
use crate::split_rule::SplitRule;
use crate::until::{Part, Until};
use crate::vertex_order::VertexOrder;
use crate::workers::Workers;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All settings of a run. The default trains a two-layer GCN on Cora with the settings of Kipf and
/// Welling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Data set, and the treatment of its features, labels and split.
    pub data: Data,
    /// Model to train.
    pub model: ModelSettings,
    /// Optimiser and learning rate.
    pub optimiser: Optimiser,
    /// Length of the run, evaluations, and the division of work.
    pub run: Run,
    /// Settings of link prediction, namely the held-out links and the negative samples.
    #[serde(default, skip_serializing_if = "Links::is_default")]
    pub links: Links,
    /// Settings of mini-batches, which are the rows that one weight update reads.
    #[serde(default, skip_serializing_if = "Batch::is_default")]
    pub batch: Batch,
    /// Settings of evaluations.
    #[serde(default, skip_serializing_if = "Evaluation::is_default")]
    pub evaluation: Evaluation,
    /// Settings of lanes, which are workers' shares of a pipeline.
    #[serde(default, skip_serializing_if = "LaneSettings::is_default")]
    pub lanes: LaneSettings,
    /// Settings of the pipeline mode. They limit how far intervals (ranges of vertices) may run
    /// ahead of each other.
    #[serde(default, skip_serializing_if = "Pipeline::is_default")]
    pub pipeline: Pipeline,
    /// Paths of components that replace built-in kernels, by name of the kernel.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<String, String>,
    /// Resource limits per task.
    #[serde(default, skip_serializing_if = "Limits::is_default")]
    pub limits: Limits,
    /// Settings of checkpoints.
    #[serde(default, skip_serializing_if = "Checkpoint::is_default")]
    pub checkpoint: Checkpoint,
    /// Executor that runs the tasks, with its settings.
    #[serde(default, skip_serializing_if = "Executor::is_default")]
    pub executor: Executor,
    /// Settings of the AWS emulator and its simulated faults.
    #[serde(default, skip_serializing_if = "Emulator::is_default")]
    pub emulator: Emulator,
    /// Settings of workers that connect to the run.
    #[serde(default, skip_serializing_if = "Workers::is_default")]
    pub workers: Workers,
    /// Description of the workers' machines and their links, for plans.
    #[serde(default, skip_serializing_if = "Cluster::is_default")]
    pub cluster: Cluster,
    /// Settings of the connections between the hosts of a run.
    #[serde(default, skip_serializing_if = "Hosts::is_default")]
    pub hosts: Hosts,
    /// Record of the keys that the user set, and of the settings that were derived from the data.
    #[serde(skip)]
    pub choices: Choices,
}

/// Section `[data]` of a recipe, with the data set and the treatment of its features, labels and
/// split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// Name of a known data set, or a path to data.
    pub source: String,
    /// Name of the data set within a folder that contains several data sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Normalisation of the features. If `None`, it is [`NormaliseFeatures::Rows`] for graphs whose
    /// features are counts, and [`NormaliseFeatures::None`] for other data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalise_features: Option<NormaliseFeatures>,
    /// Learning task. If `None`, it is inferred from the labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskType>,
    /// True if a model that gathers from neighbours may be trained on a data set without edges.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_edges: bool,
    /// Rule that divides the rows into training, validation and test rows. If `None`, the data
    /// set's own split is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitRule>,
    /// Random seed of the split. All runs with different `run.seed` share the split.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub split_seed: u64,
    /// Number of consecutive rows per sequence. Sequences are never divided or reordered. For text,
    /// it is the number of tokens. If `None`, rows are independent of each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// Unit of text that forms one token.
    #[serde(default, skip_serializing_if = "Tokens::is_default")]
    pub tokens: Tokens,
    /// Treatment of edges from a vertex to itself. If `None`, self-loops are dropped, except those
    /// of a store (a graph that `eciton data convert` wrote).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_loops: Option<SelfLoops>,
    /// Name of the label column of a table. If `None`, it is inferred from the names and positions
    /// of the columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Name of the column of an edge table with the labels of edges, which the model then learns. If
    /// `None`, it learns the labels of vertices or graphs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_label: Option<String>,
}

/// Treatment of self-loops, which are edges from a vertex to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SelfLoops {
    /// Self-loops are removed, together with their edge features.
    Drop,
    /// Self-loops are kept and treated like other edges.
    Keep,
}

impl SelfLoops {
    /// All treatments of self-loops, with their names in recipes.
    pub const ALL: [(&'static str, Self); 2] = [("drop", Self::Drop), ("keep", Self::Keep)];
}

/// Unit of text that forms one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tokens {
    /// Each Unicode code point is a token.
    #[default]
    Characters,
    /// Each byte is a token.
    Bytes,
}

impl Tokens {
    /// All units of text, with their names in recipes.
    pub const ALL: [(&'static str, Self); 2] = [("characters", Self::Characters), ("bytes", Self::Bytes)];

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Maximum number of rows per sequence.
pub const MAX_SEQUENCE: u32 = 65_536;

impl Data {
    /// Returns the number of consecutive rows that must stay together. It is the length of a
    /// sequence, or 1 if there are no sequences.
    #[must_use]
    pub fn group(&self) -> u32 {
        self.sequence.unwrap_or(1).max(1)
    }
}

fn is_zero(seed: &u64) -> bool {
    *seed == 0
}

impl Default for Data {
    fn default() -> Self {
        Self {
            source: "cora".to_owned(),
            name: None,
            normalise_features: None,
            task: None,
            without_edges: false,
            split: None,
            split_seed: 0,
            sequence: None,
            tokens: Tokens::default(),
            self_loops: None,
            label: None,
            edge_label: None,
        }
    }
}

/// Rule that chooses the epoch from which the run writes the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The model of the last epoch.
    #[default]
    Last,
    /// The model with the best validation metric among the evaluated epochs. Of several equal
    /// epochs, the first is chosen.
    Best,
    /// The model with the best validation metric among the evaluated epochs. Of several equal
    /// epochs, the last is chosen. On a small validation set many epochs are equal, and the first
    /// of them are undertrained.
    #[serde(rename = "last-best")]
    LastBest,
}

impl Keep {
    /// All rules for the model that a run keeps, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("last", Self::Last), ("best", Self::Best), ("last-best", Self::LastBest)];

    /// Returns the rule's name in recipes, for instance `last-best`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, keep)| *keep == self).map_or("", |(name, _)| name)
    }

    /// Returns true if the rule compares models by the validation metric.
    #[must_use]
    pub fn is_by_validation(self) -> bool {
        self != Self::Last
    }
}

/// Section `[run]` of a recipe, with the length of the run, its evaluations, and the division of
/// its work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Random seed of the run, at most 2^63 - 1 (the largest integer of TOML).
    pub seed: u64,
    /// Number of passes over the training data, at least 1.
    pub epochs: u32,
    /// Number of steps (weight updates) after which training ends, in place of `epochs`. If `None`,
    /// `epochs` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Number of epochs or steps between evaluations. The last step is always evaluated. If 0, only
    /// the last step is evaluated.
    pub eval_every: Every,
    /// Part of the split on which evaluations during the training compute the metric. If `None`,
    /// they compute it on all parts. The evaluation of the final model is on all parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_split: Option<Part>,
    /// Maximum number of rows of each part on which evaluations during the training compute the
    /// metric. They are the first rows. If `None`, all rows count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_rows: Option<u32>,
    /// Time between reports, in epochs, steps or seconds. Each epoch and each evaluation also ends
    /// with a report. If `None`, only these do, and reports have no gradient norm unless
    /// `optimiser.clip_norm` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_every: Option<Every>,
    /// Metric by which models are compared. If `None`, it is the default metric of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Number of epochs without an improvement of the validation metric after which training stops.
    /// If `None`, there is no early stopping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
    /// Target value of a metric. Training stops after the first evaluated epoch that reaches the
    /// target. If `None`, there is no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Minimum improvement of the validation metric that counts for `patience`, in the unit of the
    /// metric, in [0, 1).
    #[serde(default)]
    pub min_delta: f64,
    /// Rule that chooses the epoch from which the run writes the model.
    #[serde(default)]
    pub keep: Keep,
    /// Path of a model file or run folder with the initial weights. If `None`, initial weights are
    /// drawn at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<String>,
    /// Indices of layers, from 0, whose initial weights are drawn at random even if `init` is set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_fresh: Vec<u32>,
    /// Expected SHA-256 digest of the weights in `init`, in hexadecimal. If `None`, the digest is
    /// not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_digest: Option<String>,
    /// Number of intervals, which are ranges of rows that are scheduled as one unit. If `None`, the
    /// size of the graph determines it ([`eciton_types::Intervals::default_count`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<u32>,
    /// Number of compute threads. If `None`, it is the number of cores of the machine. It does not
    /// affect results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// True if an autotuner chooses the number of active threads of the local executor. A thread
    /// that gains less than it costs is left to other processes. The setting does not affect
    /// results.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tune_threads: bool,
    /// Name of the numeric class, which is a group of processors with bit-identical results. If
    /// `None`, the deployment or the processor of this machine determines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numeric_class: Option<String>,
    /// Memory limit of the run, in bytes. A run that needs more is refused at its start. If `None`,
    /// the limit is the memory of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Rule that decides whether the gather of the first layer runs once or in every epoch. Results
    /// differ only by rounding.
    #[serde(default)]
    pub gather_features: GatherFeatures,
    /// Rule that decides whether the gathers next to the loss omit rows that the loss does not
    /// read. Results are bit-identical.
    #[serde(default)]
    pub labelled_gathers: LabelledGathers,
    /// Order of the vertices in memory. Results differ only by rounding, and are reported in the
    /// order of the data set.
    #[serde(default)]
    pub order: VertexOrder,
    /// Storage format of activations and gradients between stages. Kernels always compute in f32.
    #[serde(default)]
    pub row_storage: RowFormat,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            seed: 0,
            epochs: 200,
            steps: None,
            eval_every: Every::Epochs(1),
            eval_split: None,
            eval_rows: None,
            log_every: None,
            metric: None,
            patience: None,
            until: None,
            min_delta: 0.0,
            keep: Keep::Last,
            init: None,
            init_fresh: Vec::new(),
            init_digest: None,
            intervals: None,
            threads: None,
            tune_threads: false,
            numeric_class: None,
            memory_bytes: None,
            gather_features: GatherFeatures::Auto,
            labelled_gathers: LabelledGathers::Auto,
            order: VertexOrder::Natural,
            row_storage: RowFormat::F32,
        }
    }
}

/// Section `[limits]` of a recipe, with resource limits per task. If a limit is `None`, the default
/// of the executor applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum linear memory per kernel instance, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_memory_bytes: Option<u64>,
    /// Maximum total size of a task's matrices on the host, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix_bytes: Option<u64>,
    /// Maximum number of host resource handles per task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handles: Option<u32>,
    /// Maximum number of bytes that one host call may copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_bytes: Option<u64>,
    /// Maximum number of multiply-adds per host call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_work: Option<u64>,
    /// Time limit of a task, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_ms: Option<u64>,
    /// Maximum time that a task waits for its input rows, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// Maximum number of attempts at a task that fails because of the host or the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

impl Limits {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Config {
    /// Checks that the executor of the configuration reads every setting that differs from its
    /// default.
    fn check_executor(&self) -> Result<()> {
        let sections = [
            ("executor", changes(&self.executor, &Executor::default())?),
            ("emulator", changes(&self.emulator, &Emulator::default())?),
            ("workers", changes(&self.workers, &Workers::default())?),
        ];
        for (section, changes) in sections {
            for (name, value) in changes {
                self.check_read(&format!("{section}.{name}"), &value.to_string())?;
            }
        }
        if self.run.tune_threads { self.check_read("run.tune_threads", "true") } else { Ok(()) }
    }

    /// Returns true if the task is link prediction.
    #[must_use]
    pub fn predicts_links(&self) -> bool {
        self.data.task == Some(TaskType::LinkPrediction)
    }

    fn check_split(&self) -> Result<()> {
        let together = |key, found, other, other_found: &str, remedy| {
            Err(Error::Together { key, found, other, other_found: other_found.to_owned(), remedy })
        };
        match self.data.split {
            Some(rule) if self.predicts_links() => together(
                "data.split",
                rule.to_string(),
                "data.task",
                "link-prediction",
                "set links.validation, links.test and links.seed, which determine the held-out links",
            ),
            None if self.data.split_seed != 0 => together(
                "data.split_seed",
                self.data.split_seed.to_string(),
                "data.split",
                "left out",
                "set the rule of the split, for instance data.split = \"random:0.6/0.2/0.2\"",
            ),
            _ => Ok(()),
        }
    }

    fn check_auto(&self) -> Result<()> {
        if !self.pipeline.auto {
            return Ok(());
        }
        self.pipeline.check()?;
        match self.executor.kind {
            kind if kind.is_here() => Ok(()),
            kind => Err(Error::Together {
                key: "pipeline.staleness",
                found: "\"auto\"".to_owned(),
                other: "executor.kind",
                other_found: format!("\"{}\"", kind.name()),
                remedy: "set pipeline.staleness to a number: only the local executor supports trials",
            }),
        }
    }

    fn check_init(&self) -> Result<()> {
        let Run { init, init_fresh, init_digest, .. } = &self.run;
        let (key, found) = match (init_digest, &init_fresh[..]) {
            _ if init.is_some() => return Ok(()),
            (Some(digest), _) => ("run.init_digest", digest.clone()),
            (None, []) => return Ok(()),
            (None, layers) => ("run.init_fresh", format!("{layers:?}")),
        };
        let (other, other_found) = ("run.init", "left out".to_owned());
        let remedy = "set run.init to the model file from which the run starts, or remove the key";
        Err(Error::Together { key, found, other, other_found, remedy })
    }

    fn check_links(&self) -> Result<()> {
        let links = &self.links;
        if !self.predicts_links() && !links.is_default() {
            return Err(Error::Together {
                key: "links",
                found: "given".to_owned(),
                other: "data.task",
                other_found: self.data.task.map_or("left out", TaskType::name).to_owned(),
                remedy: "set data.task = \"link-prediction\", or remove [links]",
            });
        }
        if links.validation + links.test >= 1.0 {
            return Err(Error::Together {
                key: "links.validation",
                found: links.validation.to_string(),
                other: "links.test",
                other_found: links.test.to_string(),
                remedy: "reduce the shares to a sum below 1, so that links for training remain",
            });
        }
        Ok(())
    }

    /// Checks that no other setting asks for labels of vertices or for links, if labels of edges are
    /// learnt.
    fn check_edge_labels(&self) -> Result<()> {
        let data = &self.data;
        let Some(label) = &data.edge_label else { return Ok(()) };
        let (other, other_found, remedy) = match (&data.label, data.sequence) {
            _ if self.predicts_links() => {
                ("data.task", "link-prediction".to_owned(), "remove one of them: links have no labels")
            }
            (Some(other), _) => {
                ("data.label", other.clone(), "remove one of them: a model learns one kind of labels")
            }
            (None, Some(rows)) => {
                ("data.sequence", rows.to_string(), "remove data.sequence: edges are no rows of a table")
            }
            (None, None) => return Ok(()),
        };
        let (key, found) = ("data.edge_label", label.clone());
        Err(Error::Together { key, found, other, other_found, remedy })
    }

    /// Checks that fused stages are not combined with bf16 rows in transit. Rows within a fused
    /// stage are never sent, so they would not be rounded.
    fn check_fusion(&self) -> Result<()> {
        let executor = &self.executor;
        let rounds = !executor.kind.is_here() && executor.rows == RowFormat::Bf16;
        if rounds && executor.fuse != FusionChoice::None {
            return Err(Error::Together {
                key: "executor.fuse",
                found: "given".to_owned(),
                other: "executor.rows",
                other_found: "bf16".to_owned(),
                remedy: "set run.row_storage = \"bf16\" instead of executor.rows: rows within a fused stage are not sent, and so not rounded",
            });
        }
        Ok(())
    }

    /// Checks that no other setting divides or reorders the sequences of `data.sequence`.
    fn check_sequences(&self) -> Result<()> {
        let together = |key, found: String, other, other_found: String, remedy| {
            Err(Error::Together { key, found, other, other_found, remedy })
        };
        let Some(length) = self.data.sequence else { return Ok(()) };
        let found = length.to_string();
        if self.predicts_links() {
            let remedy = "remove data.sequence: link prediction requires the vertices of a graph";
            return together("data.sequence", found, "data.task", "link-prediction".to_owned(), remedy);
        }
        if self.run.order != VertexOrder::Natural {
            let remedy = "remove run.order: the rows of a sequence must stay in order";
            return together(
                "data.sequence",
                found,
                "run.order",
                format!("{:?}", self.run.order).to_lowercase(),
                remedy,
            );
        }
        if self.batch.sampler != Sampler::None {
            let sampler = self.batch.sampler.name().to_owned();
            let remedy = "remove batch.sampler: a batch consists of whole sequences";
            return together("data.sequence", found, "batch.sampler", sampler, remedy);
        }
        if let Some(rows) = self.batch.rows.filter(|rows| !rows.is_multiple_of(length)) {
            let remedy = "set batch.rows to a multiple of data.sequence, so that a batch has whole sequences";
            return together("batch.rows", rows.to_string(), "data.sequence", found, remedy);
        }
        let keeps = |rule: &SplitRule| {
            matches!(
                rule,
                SplitRule::Shares { stratified: false, .. } | SplitRule::Folds { stratified: false, .. }
            )
        };
        if let Some(rule) = self.data.split.filter(|rule| !keeps(rule)) {
            let remedy = "set a rule that draws whole sequences: \"random:...\" or \"folds:...\"";
            return together("data.split", rule.to_string(), "data.sequence", found, remedy);
        }
        Ok(())
    }

    /// Checks that the batch settings are compatible with each other and with the other sections.
    fn check_batch(&self) -> Result<()> {
        self.batch.check()?;
        let together = |key, found: String, other, other_found: String, remedy| {
            Err(Error::Together { key, found, other, other_found, remedy })
        };
        let batches = "given".to_owned();
        if !self.batch.is_on() {
            return Ok(());
        }
        if self.predicts_links() && !self.batch.sampler.has_targets() {
            let (key, found) = ("batch.sampler", format!("\"{}\"", self.batch.sampler.name()));
            let remedy = "set batch.sampler = \"neighbours\" or \"shadow-khop\": a batch has links, and samples begin at their vertices";
            return together(key, found, "data.task", "link-prediction".to_owned(), remedy);
        }
        if self.pipeline.mode == Mode::Async {
            let remedy =
                "remove [batch], or set pipeline.mode = \"pipe\": micro-batches read no rows of each other";
            return together("batch", batches, "pipeline.mode", "async".to_owned(), remedy);
        }
        Ok(())
    }

    /// Checks that the batches suit the method of evaluations. `judged` is the key of a setting that
    /// requires metrics, if there is one.
    fn check_evaluation(&self, judged: Option<&'static str>) -> Result<()> {
        let together = |found: &str, other, other_found: String, remedy| {
            let (key, found) = ("evaluation.method", format!("\"{found}\""));
            Err(Error::Together { key, found, other, other_found, remedy })
        };
        match (self.evaluation.method, judged) {
            (EvaluationMethod::None, Some(key)) => {
                together("none", key, "given".to_owned(), "remove the latter, which requires evaluations")
            }
            (EvaluationMethod::Sampled, _)
                if !matches!(self.batch.sampler, Sampler::Neighbours | Sampler::ShadowKhop) =>
            {
                let sampler = format!("\"{}\"", self.batch.sampler.name());
                let remedy = "set batch.sampler = \"neighbours\" or \"shadow-khop\", which draw the neighbourhoods of given rows";
                together("sampled", "batch.sampler", sampler, remedy)
            }
            (EvaluationMethod::Sampled, _) if self.workers.own() => {
                let remedy = "leave it out: with weights on workers, evaluations read all rows";
                together("sampled", "workers.owner", "\"worker\"".to_owned(), remedy)
            }
            _ => Ok(()),
        }
    }

    /// Checks conditions that involve several settings. Every run calls this function before it
    /// starts.
    ///
    /// # Errors
    /// Returns [`Error::Together`] in these cases:
    ///
    /// * a split rule for link prediction, or a split seed without a split rule;
    /// * `run.init_fresh` or `run.init_digest` without `run.init`;
    /// * settings of links for another task than link prediction, or no links left for training;
    /// * `run.patience`, `run.until`, `run.keep = "best"` or `pipeline.synchronous_at` without
    ///   evaluations;
    /// * other settings that exclude each other.
    ///
    /// Returns [`Error::Unread`] if the executor does not read a setting.
    pub fn check(&self) -> Result<()> {
        let run = &self.run;
        let judged = match (run.patience, run.keep) {
            (Some(patience), _) => Some(("run.patience", patience.to_string())),
            (None, keep) if keep.is_by_validation() => Some(("run.keep", format!("{:?}", keep.name()))),
            (None, _) => {
                let until = run.until.map(|until| ("run.until", until.to_string()));
                let at =
                    || self.pipeline.synchronous_at.map(|at| ("pipeline.synchronous_at", at.to_string()));
                until.or_else(at)
            }
        };
        self.check_executor()?;
        self.check_links()?;
        self.check_edge_labels()?;
        self.check_batch()?;
        self.check_sequences()?;
        self.check_fusion()?;
        self.check_evaluation(judged.as_ref().map(|(key, _)| *key))?;
        self.check_lanes()?;
        self.check_workers()?;
        self.check_split()?;
        self.check_init()?;
        self.check_auto()?;
        match judged {
            Some((key, found)) if run.eval_every.is_never() => Err(Error::Together {
                key,
                found,
                other: "run.eval_every",
                other_found: "0, which evaluates only after the last epoch".to_owned(),
                remedy: "set the number of epochs between evaluations, for instance run.eval_every = 1",
            }),
            _ => self.optimiser.check_unit(),
        }
    }

    /// Returns every file path among the settings, except the path of the data set. These are
    /// components, initial weights, a profile, the folder of tokens, and that of addresses of hosts.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let (init, profile) = (self.run.init.as_mut(), self.lanes.profile.as_mut());
        let own = self.model.own_kernels_mut();
        let folders = self.workers.tokens.as_mut().into_iter().chain(self.hosts.rendezvous.as_mut());
        let profile = profile.into_iter().chain(folders);
        init.into_iter().chain(profile).chain(self.kernels.values_mut()).chain(own)
    }

    /// Returns the configuration as the text of a recipe, including defaults. [`Config::parse`]
    /// restores it.
    ///
    /// # Errors
    /// Returns [`Error::Write`] if TOML cannot express a value, which is the case for seeds above
    /// 2^63 - 1.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::Write { message: error.to_string() })
    }
}

/// Returns the settings of a section that differ from their defaults, as pairs of name and value.
fn changes<T: Serialize>(section: &T, default: &T) -> Result<Vec<(String, toml::Value)>> {
    let table = |settings: &T| {
        toml::Table::try_from(settings).map_err(|error| Error::Write { message: error.to_string() })
    };
    let default = table(default)?;
    let all = table(section)?.into_iter();
    Ok(all.filter(|(name, value)| default.get(name) != Some(value)).collect())
}

mod lanes;
#[cfg(test)]
mod tests;
