//! A run's configuration: defaults, then a recipe, then overrides.
//!
//! ```
//! use eciton_plan::Config;
//! let mut config = Config::parse("[run]\nepochs = 50\n", "recipe.toml")?;
//! config.set("optimiser.lr=0.1")?;
//! assert_eq!((config.run.epochs, config.optimiser.lr), (50, 0.1));
//! let error = config.set("optimiser.learning_rate=0.1").unwrap_err();
//! assert!(error.to_string().contains("did you mean `optimiser.lr`?"));
//! # Ok::<(), eciton_plan::Error>(())
//! ```

mod choices;
mod commented;
mod normalise;

pub use choices::{Choice, Choices};
pub use commented::origins;
pub use normalise::NormaliseFeatures;

use crate::batch::{Batch, Sampler};
use crate::checkpoint::Checkpoint;
use crate::document;
use crate::error::{Error, Result};
use crate::executor::{Emulator, Executor, RowFormat, SpanChoice};
use crate::keys;
use crate::lanes::LaneSettings;
use crate::links::Links;
use crate::model::ModelSettings;
use crate::objective::{Metric, TaskType};
use crate::optimiser::Optimiser;
use crate::order::VertexOrder;
use crate::pipeline::{Mode, Pipeline};
use crate::savings::{GatherFeatures, LabelledGathers};
use crate::split_rule::SplitRule;
use crate::until::Until;
use crate::workers::Workers;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that decides what a run computes. Default: a two-layer GCN on Cora as Kipf and
/// Welling trained it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// What is learnt from.
    pub data: Data,
    /// What is trained.
    pub model: ModelSettings,
    /// How weights move.
    pub optimiser: Optimiser,
    /// How long and in what pieces.
    pub run: Run,
    /// What of the links is predicted.
    #[serde(default, skip_serializing_if = "Links::is_default")]
    pub links: Links,
    /// What an update is made from.
    #[serde(default, skip_serializing_if = "Batch::is_default")]
    pub batch: Batch,
    /// The lanes of a pipeline.
    #[serde(default, skip_serializing_if = "LaneSettings::is_default")]
    pub lanes: LaneSettings,
    /// How far intervals may run apart.
    #[serde(default, skip_serializing_if = "Pipeline::is_default")]
    pub pipeline: Pipeline,
    /// Components that take the place of built-in kernels: kernel name -> path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<String, String>,
    /// What a task may use.
    #[serde(default, skip_serializing_if = "Limits::is_default")]
    pub limits: Limits,
    /// When the run writes down how far it is.
    #[serde(default, skip_serializing_if = "Checkpoint::is_default")]
    pub checkpoint: Checkpoint,
    /// Where tasks run.
    #[serde(default, skip_serializing_if = "Executor::is_default")]
    pub executor: Executor,
    /// The stand-in for AWS.
    #[serde(default, skip_serializing_if = "Emulator::is_default")]
    pub emulator: Emulator,
    /// Workers that dial the run.
    #[serde(default, skip_serializing_if = "Workers::is_default")]
    pub workers: Workers,
    /// Keys that were asked for, and settings that the data decided.
    #[serde(skip)]
    pub choices: Choices,
}

/// `[data]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// A data set's name, or a path to one.
    pub source: String,
    /// Which set, where a folder holds several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The scale that features are brought to; `None`: rows, where they are a graph's counts, else
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalise_features: Option<NormaliseFeatures>,
    /// What is learnt, and of labels what they are; `None`: what they look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskType>,
    /// True if a model may gather from neighbours though no vertex has one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_edges: bool,
    /// How the split is drawn; `None`: the data set's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitRule>,
    /// What the split is drawn from, for all seeds of a run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub split_seed: u64,
    /// Rows of a sequence, which stay together and in order; `None`: each row stands for itself. Of
    /// a text: tokens of a sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// What the tokens of a text are.
    #[serde(default, skip_serializing_if = "Tokens::is_default")]
    pub tokens: Tokens,
    /// Treatment of edges from a vertex to itself. If `None`, they are dropped, and a store has
    /// those that it was written with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_loops: Option<SelfLoops>,
    /// Name of the column that holds the labels in a table. If `None`, names and positions of the
    /// columns decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Treatment of edges from a vertex to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SelfLoops {
    /// Self-loops are left out, with their edge features.
    Drop,
    /// Self-loops are edges like others.
    Keep,
}

impl SelfLoops {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 2] = [("drop", Self::Drop), ("keep", Self::Keep)];
}

/// What the tokens of a text are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tokens {
    /// Unicode's code points.
    #[default]
    Characters,
    /// Bytes, whatever they stand for.
    Bytes,
}

impl Tokens {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 2] = [("characters", Self::Characters), ("bytes", Self::Bytes)];

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Most rows of a sequence.
pub const MAX_SEQUENCE: u32 = 65_536;

impl Data {
    /// Rows that stay together: those of a sequence, else 1.
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
        }
    }
}

/// Which model a run writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// That of the last epoch.
    #[default]
    Last,
    /// That of the best validation metric among the epochs that were evaluated, the first of
    /// equals.
    Best,
    /// The same, the last of equals. A small validation part has many equals, and the first of them
    /// are trained too little.
    #[serde(rename = "last-best")]
    LastBest,
}

impl Keep {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("last", Self::Last), ("best", Self::Best), ("last-best", Self::LastBest)];

    /// Name in recipes.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, keep)| *keep == self).map_or("", |(name, _)| name)
    }

    /// Returns whether the validation metric chooses the model.
    #[must_use]
    pub fn is_by_validation(self) -> bool {
        self != Self::Last
    }
}

/// `[run]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What random numbers grow from, up to 2^63 - 1 (TOML's integers).
    pub seed: u64,
    /// Passes over the graph, at least 1.
    pub epochs: u32,
    /// Evaluate after every so many epochs, and after the last; 0: only after the last.
    pub eval_every: u32,
    /// How good a model is; `None`: by what is usual for the data's task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Stop after so many epochs without a better validation metric; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
    /// Stop after the first evaluated epoch that reaches this; `None`: no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// By how much a metric must be better to count as better for `patience`: a share, in [0, 1).
    #[serde(default)]
    pub min_delta: f64,
    /// Which model is written.
    #[serde(default)]
    pub keep: Keep,
    /// A model file, or a run folder, whose weights a run begins from; `None`: drawn ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<String>,
    /// Layers, from 0, that begin from drawn weights all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_fresh: Vec<u32>,
    /// SHA-256 of the weights of `init`, hexadecimal; `None`: whichever they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_digest: Option<String>,
    /// Vertex intervals; `None`: from the graph's size ([`crate::Intervals::default_count`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<u32>,
    /// Compute threads; `None`: as many as the machine has. Never changes a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// True if an autotuner says how many of the threads work, with the local executor: a thread
    /// that gains less than it costs is left to others. Never changes a result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tune_threads: bool,
    /// The numeric class of the run, by name; `None`: the best of the processor, or the
    /// deployment's. Within a class bits are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numeric_class: Option<String>,
    /// Bytes that the run may hold; `None`: what the machine has. More is refused before it is
    /// allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// When the first layer's gather is done. The same result to rounding.
    #[serde(default)]
    pub gather_features: GatherFeatures,
    /// When the gathers beside the loss leave out what it does not reach. The same bits.
    #[serde(default)]
    pub labelled_gathers: LabelledGathers,
    /// In which order vertices lie in memory while the run goes on. The same result to rounding, in
    /// the data set's own order.
    #[serde(default)]
    pub order: VertexOrder,
    /// What rows of activations and gradients are stored as between stages. Kernels compute in f32.
    #[serde(default)]
    pub row_storage: RowFormat,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            seed: 0,
            epochs: 200,
            eval_every: 1,
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

/// `[limits]`: `None` is the executor's own default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// A kernel's own memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_memory_bytes: Option<u64>,
    /// A task's matrices on the host, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix_bytes: Option<u64>,
    /// A task's handles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handles: Option<u32>,
    /// What one host call may copy, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_bytes: Option<u64>,
    /// What one host call may compute, in multiply-adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_work: Option<u64>,
    /// How long a task may run, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_ms: Option<u64>,
    /// How long a task may wait for rows, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// Tries of a task that fails by the host's fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

impl Limits {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Config {
    /// The defaults with a recipe written over them. `origin` is the recipe's name, for messages.
    ///
    /// # Errors
    /// [`Error::Syntax`] for what is not TOML, [`Error::UnknownKey`] for a key that nothing reads,
    /// [`Error::Value`] for a value out of range, [`Error::TooMany`] past 1 MiB of text; all with
    /// the line.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let mut config = Self::default();
        config.apply(text, origin)?;
        Ok(config)
    }

    /// Writes a recipe over what is there. On an error nothing changes.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn apply(&mut self, text: &str, origin: &str) -> Result<()> {
        let fields = document::parse(text, origin)?;
        let mut changed = self.clone();
        keys::write_config(&mut changed, &fields)?;
        *self = changed;
        Ok(())
    }

    /// Writes one `section.key=value`. The value is TOML; what is not is taken as text. On an error
    /// nothing changes.
    ///
    /// # Errors
    /// As [`Config::parse`]; [`Error::Override`] for what is not `section.key=value`.
    pub fn set(&mut self, argument: &str) -> Result<()> {
        let mut changed = self.clone();
        let field = document::parse_override(argument)?;
        let key = field.path.clone();
        keys::write_override(&mut changed, field)?;
        changed.choices.ask(&key);
        if let Some(key) = key.strip_prefix("model.") {
            changed.model.note_set(key);
        }
        if changed.executor.kind != self.executor.kind {
            changed.run_on(changed.executor.kind);
        }
        *self = changed;
        Ok(())
    }

    /// Whether what is not as by default is read by the run's executor.
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

    /// Returns whether it is links that are learnt.
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
                "say with links.validation, links.test and links.seed which links are held out",
            ),
            None if self.data.split_seed != 0 => together(
                "data.split_seed",
                self.data.split_seed.to_string(),
                "data.split",
                "left out",
                "say how the split is drawn, for instance data.split = \"random:0.6/0.2/0.2\"",
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
                remedy: "trials are of the local executor alone: set the staleness to a number",
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
        let remedy = "name the model file that the run begins from, or leave the key out";
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
                remedy: "say data.task = \"link-prediction\", or leave [links] out",
            });
        }
        if links.validation + links.test >= 1.0 {
            return Err(Error::Together {
                key: "links.validation",
                found: links.validation.to_string(),
                other: "links.test",
                other_found: links.test.to_string(),
                remedy: "leave links to train with: together less than 1",
            });
        }
        Ok(())
    }

    /// Whether rows within spans are those that functions would get.
    fn check_spans(&self) -> Result<()> {
        let executor = &self.executor;
        let rounds = !executor.kind.is_here() && executor.rows == RowFormat::Bf16;
        if rounds && executor.spans != SpanChoice::None {
            return Err(Error::Together {
                key: "executor.spans",
                found: "given".to_owned(),
                other: "executor.rows",
                other_found: "bf16".to_owned(),
                remedy: "say run.row_storage = \"bf16\": rows within a span are not on their way, and not rounded",
            });
        }
        Ok(())
    }

    /// Whether sequences stay whole.
    fn check_sequences(&self) -> Result<()> {
        let together = |key, found: String, other, other_found: String, remedy| {
            Err(Error::Together { key, found, other, other_found, remedy })
        };
        let Some(length) = self.data.sequence else { return Ok(()) };
        let found = length.to_string();
        if self.predicts_links() {
            let remedy = "leave data.sequence out: links are between vertices of a graph";
            return together("data.sequence", found, "data.task", "link-prediction".to_owned(), remedy);
        }
        if self.run.order != VertexOrder::Natural {
            let remedy = "leave run.order out: rows of a sequence stay in order";
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
            let remedy = "leave the sampler out: a batch has whole sequences";
            return together("data.sequence", found, "batch.sampler", sampler, remedy);
        }
        if let Some(rows) = self.batch.rows.filter(|rows| !rows.is_multiple_of(length)) {
            let remedy = "have whole sequences in a batch: a multiple of data.sequence rows";
            return together("batch.rows", rows.to_string(), "data.sequence", found, remedy);
        }
        let keeps = |rule: &SplitRule| {
            matches!(
                rule,
                SplitRule::Shares { stratified: false, .. } | SplitRule::Folds { stratified: false, .. }
            )
        };
        if let Some(rule) = self.data.split.filter(|rule| !keeps(rule)) {
            let remedy = "draw whole sequences: \"random:...\" or \"folds:...\"";
            return together("data.split", rule.to_string(), "data.sequence", found, remedy);
        }
        Ok(())
    }

    /// Whether what is asked of batches goes with the rest.
    fn check_batch(&self) -> Result<()> {
        self.batch.check()?;
        let together = |key, found: String, other, other_found: String, remedy| {
            Err(Error::Together { key, found, other, other_found, remedy })
        };
        let batches = "given".to_owned();
        if !self.batch.is_on() {
            return Ok(());
        }
        if self.predicts_links() {
            let remedy = "leave [batch] out: links are trained on all rows";
            return together("batch", batches, "data.task", "link-prediction".to_owned(), remedy);
        }
        if self.pipeline.mode == Mode::Async {
            let remedy =
                "leave [batch] out, or say pipeline.mode = \"pipe\": parts of a round read no rows of others";
            return together("batch", batches, "pipeline.mode", "async".to_owned(), remedy);
        }
        Ok(())
    }

    /// Whether the settings fit together: what no key by itself can tell. Asked before a run
    /// begins.
    ///
    /// # Errors
    /// [`Error::Together`] for a split of links' data or a seed of none, for settings of `run.init`
    /// without it, for settings of links without link prediction, or no link to train with; for
    /// `run.patience`, `run.until`, `run.keep = "best"` or `pipeline.synchronous_at` without
    /// evaluations to go by; [`Error::Unread`] for a setting of functions where the executor has
    /// none, and for others that it does not read.
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
        self.check_batch()?;
        self.check_sequences()?;
        self.check_spans()?;
        self.check_lanes()?;
        self.check_workers()?;
        self.check_split()?;
        self.check_init()?;
        self.check_auto()?;
        match judged {
            Some((key, found)) if run.eval_every == 0 => Err(Error::Together {
                key,
                found,
                other: "run.eval_every",
                other_found: "0, evaluated after the last epoch only".to_owned(),
                remedy: "evaluate every so many epochs, for instance run.eval_every = 1",
            }),
            _ => Ok(()),
        }
    }

    /// Every path that is set, but for the data set's: components, a model's weights, a profile.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let (init, profile) = (self.run.init.as_mut(), self.lanes.profile.as_mut());
        let own = self.model.own_kernels_mut();
        let profile = profile.into_iter().chain(self.workers.tokens.as_mut());
        init.into_iter().chain(profile).chain(self.kernels.values_mut()).chain(own)
    }

    /// The configuration as a recipe, defaults included. [`Config::parse`] reads it back.
    ///
    /// # Errors
    /// [`Error::Write`] for what no recipe can hold: a seed above 2^63 - 1.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::Write { message: error.to_string() })
    }
}

/// The settings of a section that are not as by default, in the order of their names.
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
