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

use crate::checkpoint::Checkpoint;
use crate::document;
use crate::error::Error;
use crate::executor::{Emulator, Executor, ExecutorKind, RowFormat};
use crate::keys;
use crate::model::ModelSettings;
use crate::optimiser::Optimiser;
use crate::order::VertexOrder;
use crate::pipeline::Pipeline;
use crate::savings::{GatherFeatures, LabelledGathers};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that decides what a run computes. Default: a two-layer GCN on Cora as Kipf and Welling
/// trained it.
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
}

/// `[data]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// A data set's name, or a path to one.
    pub source: String,
    /// Which set, where a folder holds several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether each vertex's features are divided by their sum; `None`: where none is negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalise_features: Option<bool>,
}

impl Default for Data {
    fn default() -> Self {
        Self { source: "cora".to_owned(), name: None, normalise_features: None }
    }
}

/// Which model a run writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// That of the last epoch.
    #[default]
    Last,
    /// That of the highest validation accuracy among the epochs that were evaluated, the first of equals.
    Best,
}

impl Keep {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 2] = [("last", Self::Last), ("best", Self::Best)];
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
    /// Stop after so many epochs without a better validation accuracy; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
    /// By how much an accuracy must be higher to count as better for `patience`: a share, in [0, 1).
    #[serde(default)]
    pub min_delta: f64,
    /// Which model is written.
    #[serde(default)]
    pub keep: Keep,
    /// Vertex intervals; `None`: from the graph's size ([`crate::Intervals::default_count`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<u32>,
    /// Compute threads; `None`: as many as the machine has. Never changes a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Whether an autotuner says how many of the threads work, with the local executor: a thread that gains
    /// less than it costs is left to others. Never changes a result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tune_threads: bool,
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
            patience: None,
            min_delta: 0.0,
            keep: Keep::Last,
            intervals: None,
            threads: None,
            tune_threads: false,
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
    pub fn parse(text: &str, origin: &str) -> Result<Self, Error> {
        let mut config = Self::default();
        config.apply(text, origin)?;
        Ok(config)
    }

    /// Writes a recipe over what is there. On an error nothing changes.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn apply(&mut self, text: &str, origin: &str) -> Result<(), Error> {
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
    pub fn set(&mut self, argument: &str) -> Result<(), Error> {
        let mut changed = self.clone();
        keys::write_override(&mut changed, document::parse_override(argument)?)?;
        if changed.executor.kind != self.executor.kind {
            changed.run_on(changed.executor.kind);
        }
        *self = changed;
        Ok(())
    }

    /// Runs tasks elsewhere. Settings that only another executor reads are put back to their defaults: so a
    /// recipe for functions can be run on this machine.
    pub fn run_on(&mut self, kind: ExecutorKind) {
        let reads = |key| ExecutorKind::readers(key).is_none_or(|readers| readers.contains(&kind));
        let executor = std::mem::take(&mut self.executor);
        self.executor = match reads("executor.functions") {
            true => Executor { kind, ..executor },
            false => Executor { kind, host_hour_usd: executor.host_hour_usd, ..Executor::default() },
        };
        if !reads("executor.deployment") {
            self.executor.deployment = None;
        }
        if !reads("emulator.seed") {
            self.emulator = Emulator::default();
        }
        self.run.tune_threads &= reads("run.tune_threads");
    }

    /// Whether the run's executor reads a key. `found` is its value, for the message.
    ///
    /// # Errors
    /// [`Error::Unread`] if it does not.
    pub fn check_read(&self, key: &str, found: &str) -> Result<(), Error> {
        let kind = self.executor.kind;
        match ExecutorKind::readers(key) {
            Some(readers) if !readers.contains(&kind) => {
                Err(Error::Unread { key: key.to_owned(), found: found.to_owned(), kind: kind.name() })
            }
            _ => Ok(()),
        }
    }

    /// Whether what is not as by default is read by the run's executor.
    fn check_executor(&self) -> Result<(), Error> {
        let sections = [
            ("executor", changes(&self.executor, &Executor::default())?),
            ("emulator", changes(&self.emulator, &Emulator::default())?),
        ];
        for (section, changes) in sections {
            for (name, value) in changes {
                self.check_read(&format!("{section}.{name}"), &value.to_string())?;
            }
        }
        if self.run.tune_threads { self.check_read("run.tune_threads", "true") } else { Ok(()) }
    }

    /// Whether the settings fit together: what no key by itself can tell. Asked before a run begins.
    ///
    /// # Errors
    /// [`Error::Together`] for `run.patience`, `run.keep = "best"` or `pipeline.synchronous_at` without
    /// evaluations to go by; [`Error::Unread`] for a setting of functions where the executor has none, and
    /// for others that it does not read.
    pub fn check(&self) -> Result<(), Error> {
        let run = &self.run;
        let judged = match (run.patience, run.keep) {
            (Some(patience), _) => Some(("run.patience", patience.to_string())),
            (None, Keep::Best) => Some(("run.keep", "\"best\"".to_owned())),
            (None, Keep::Last) => {
                self.pipeline.synchronous_at.map(|at| ("pipeline.synchronous_at", at.to_string()))
            }
        };
        self.check_executor()?;
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

    /// The configuration as a recipe, defaults included. [`Config::parse`] reads it back.
    ///
    /// # Errors
    /// [`Error::Write`] for what no recipe can hold: a seed above 2^63 - 1.
    pub fn to_toml(&self) -> Result<String, Error> {
        toml::to_string(self).map_err(|error| Error::Write { message: error.to_string() })
    }
}

/// The settings of a section that are not as by default, in the order of their names.
fn changes<T: Serialize>(section: &T, default: &T) -> Result<Vec<(String, toml::Value)>, Error> {
    let table = |settings: &T| {
        toml::Table::try_from(settings).map_err(|error| Error::Write { message: error.to_string() })
    };
    let default = table(default)?;
    let all = table(section)?.into_iter();
    Ok(all.filter(|(name, value)| default.get(name) != Some(value)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::testing::Random;
    use crate::{Algorithm, FunctionCount, Layers, Schedule, WeightDecay};

    fn refused(text: &str) -> String {
        Config::parse(text, "r.toml").unwrap_err().to_string()
    }

    #[test]
    fn defaults_write_and_read_back() {
        let config = Config::default();
        let text = config.to_toml().unwrap();
        assert!(text.contains("lr = 0.01") && text.contains("weight_decay = [0.0005, 0.0]"), "{text}");
        assert_eq!(Config::parse(&text, "run").unwrap(), config);
        assert_eq!(Config::parse("", "empty").unwrap(), config);
    }

    #[test]
    fn a_full_recipe_writes_and_reads_back() {
        let text = r#"
            [run]
            seed = 7
            epochs = 0x10
            intervals = 4
            threads = 2
            eval_every = 0
            [data]
            source = "../data/planetoid"
            name = "pubmed"
            normalise_features = false
            [optimiser]
            momentum = 0.9
            nesterov = true
            weight_decay = 1e-3
            lr = 1
            kind = "sgd"
            [model]
            dropout = 0
            [[model.layers]]
            kernel = "gcn"
            width = 32
            [[model.layers]]
            kernel = "gcn"
            bias = false
            [kernels]
            linear = "./mine.wasm"
            "odd name" = "x.wasm"
            [limits]
            attempts = 2
            task_ms = 500
        "#;
        let config = Config::parse(text, "r.toml").unwrap();
        assert_eq!(
            config.run,
            Run {
                seed: 7,
                epochs: 16,
                eval_every: 0,
                intervals: Some(4),
                threads: Some(2),
                ..Run::default()
            }
        );
        assert_eq!(config.optimiser.algorithm, Algorithm::Sgd { momentum: 0.9, nesterov: true });
        assert_eq!(config.optimiser.weight_decay, WeightDecay::All(1e-3));
        assert!(matches!(&config.model.layers, Layers::List(list) if list.len() == 2));
        assert_eq!(config.kernels["linear"], "./mine.wasm");
        assert_eq!(config.limits.attempts, Some(2));
        assert_eq!(Config::parse(&config.to_toml().unwrap(), "again").unwrap(), config);
    }

    #[test]
    fn unknown_keys_name_the_nearest_and_show_the_line() {
        let found = refused("[run]\nepochs = 5\n\n[optimiser]\nlearning_rate = 0.1\n");
        let wanted = "unknown key `optimiser.learning_rate`; did you mean `optimiser.lr`?\n  \
                      at r.toml:5:1\n  5 | learning_rate = 0.1\n    | ^^^^^^^^^^^^^";
        assert_eq!(found, wanted);
        let nearest = [
            ("[run]\nepoch = 5", "run.epochs"),
            ("[run]\neval-every = 5", "run.eval_every"),
            ("[optimiser]\nepochs = 5", "run.epochs"),
            ("[optimizer]\nlr = 5", "optimiser"),
            ("[modle]\nlayers = 5", "model"),
            ("lr = 0.1", "optimiser.lr"),
            ("optimizer.lr = 0.1", "optimiser"),
            ("[model]\nhidden_channels = 5", "model.hidden"),
            ("[model]\nlr = 5", "optimiser.lr"),
            ("[[model.layers]]\nkernel = \"gcn\"\nwidht = 5", "width"),
        ];
        for (text, key) in nearest {
            let found = refused(text);
            assert!(found.contains(&format!("did you mean `{key}`?")), "{text}: {found}");
        }
        let found = refused("[run]\nzzzzzzzz = 1");
        assert!(
            found.contains(
                "known here: seed, epochs, eval_every, patience, min_delta, keep, intervals, threads, tune_threads, memory_bytes, gather_features, labelled_gathers, order, row_storage"
            ),
            "{found}"
        );
    }

    #[test]
    fn ranges_are_checked_at_their_ends() {
        let good = [
            "model.dropout=0",
            "model.dropout=0.999",
            "model.layers=1",
            "model.layers=64",
            "model.hidden=1",
            "model.hidden=65536",
            "run.epochs=1",
            "run.intervals=1",
            "run.seed=9223372036854775807",
            "run.order=natural",
            "run.order=degree",
            "run.order=rcm",
            "run.order=rabbit",
            "optimiser.lr=1e-30",
            "optimiser.weight_decay=0",
            "optimiser.weight_decay=[0.1, 0, 3]",
            "model.activation=tanh",
            "data.source=../a b/c",
            "kernels.linear=./a.wasm",
            "model.layers=[{kernel=\"gcn\", width=3}, {}]",
            "optimiser.beta1=0",
            "data.name=\"quoted\"",
            "run.patience=1",
            "run.patience=1000000000",
            "run.min_delta=0",
            "run.min_delta=0.999",
            "run.keep=best",
            "checkpoint.every=0",
            "checkpoint.every=1000000000",
            "checkpoint.seconds=0",
            "checkpoint.seconds=1000000",
            "checkpoint.keep=1",
            "checkpoint.keep=1000",
            "checkpoint.keep_after=true",
            "run.keep=last",
            "optimiser.clip_norm=1e-30",
            "optimiser.clip_value=3e38",
            "optimiser.warmup=0",
            "optimiser.warmup=1000000000",
            "optimiser.schedule=constant",
            "optimiser.schedule=linear",
            "optimiser.schedule=cosine",
            "optimiser.schedule=step",
            "optimiser.schedule=exponential",
        ];
        for argument in good {
            let mut config = Config::default();
            config.set(argument).unwrap_or_else(|error| panic!("{argument}: {error}"));
            assert_eq!(Config::parse(&config.to_toml().unwrap(), "x").unwrap(), config);
        }
        let bad = [
            "model.dropout=1",
            "model.dropout=-0.1",
            "model.dropout=nan",
            "model.dropout=0.99999999999",
            "model.dropout=half",
            "model.layers=0",
            "model.layers=65",
            "model.layers=2.0",
            "model.layers=[]",
            "model.layers=[1]",
            "model.hidden=0",
            "model.hidden=65537",
            "run.epochs=0",
            "run.epochs=-1",
            "run.epochs=99999999999999999999",
            "run.intervals=0",
            "run.seed=-1",
            "run.threads=0",
            "run.order=rabit",
            "run.order=3",
            "optimiser.lr=0",
            "optimiser.lr=inf",
            "optimiser.lr=1e-60",
            "optimiser.lr=-1",
            "optimiser.weight_decay=-1",
            "optimiser.weight_decay=[]",
            "optimiser.weight_decay=[1, true]",
            "optimiser.kind=lamb",
            "optimiser.momentum=0.9",
            "run.patience=0",
            "run.patience=1000000001",
            "run.patience=\"never\"",
            "run.min_delta=1",
            "run.min_delta=-0.1",
            "run.keep=first",
            "checkpoint.every=1000000001",
            "checkpoint.every=-1",
            "checkpoint.seconds=1000001",
            "checkpoint.seconds=0.5",
            "checkpoint.keep=0",
            "checkpoint.keep=1001",
            "checkpoint.keep_after=1",
            "run.keep=true",
            "optimiser.clip_norm=0",
            "optimiser.clip_norm=inf",
            "optimiser.clip_norm=1e-60",
            "optimiser.clip_value=-1",
            "optimiser.clip_value=nan",
            "optimiser.warmup=-1",
            "optimiser.warmup=1000000001",
            "optimiser.warmup=0.5",
            "optimiser.schedule=triangle",
            "optimiser.final_lr=0.1",
            "optimiser.step_every=10",
            "optimiser.gamma=0.5",
            "model.activation=gelu",
            "model.bias=1",
            "data.source=",
            "data.source=3",
            "run.epochs=2024-01-01",
            "limits.attempts=0",
            "kernels.linear=7",
            "model.layers=[{kernel=\"mpn\"}]",
        ];
        for argument in bad {
            let mut config = Config::default();
            let error = config.set(argument).unwrap_err();
            assert!(matches!(error, Error::Value { .. }), "{argument}: {error}");
            assert!(error.to_string().contains(argument), "{argument}: {error}");
            assert_eq!(config, Config::default());
        }
        let found = refused("[run]\norder = \"RCM\"");
        assert!(found.contains(r#"must be one of "natural", "degree", "rcm", "rabbit""#), "{found}");
        let found = refused("[model]\ndropout = 1.5");
        let wanted = "`model.dropout` is 1.5, but must be a number with 0 <= dropout < 1\n  \
                      at r.toml:2:11\n  2 | dropout = 1.5\n    |           ^^^";
        assert_eq!(found, wanted);
    }

    #[test]
    fn overrides_that_are_none_are_refused() {
        for argument in ["", "=", "lr", "optimiser.=1", "a b=1", " =3"] {
            let error = Config::default().set(argument).unwrap_err();
            assert!(matches!(error, Error::Override { .. }), "{argument}: {error}");
        }
        for argument in ["lr=1", "optimiser=1", "optimiser.lr.x=1", "optimizer.lr=1", ".=1."] {
            let error = Config::default().set(argument).unwrap_err();
            let typed = matches!(error, Error::UnknownKey { .. } | Error::Override { .. });
            assert!(typed, "{argument}: {error}");
        }
        let error = Config::default().set("run.epochs=1\nseed = 4").unwrap_err();
        assert!(matches!(error, Error::Value { .. }), "{error}");
    }

    #[test]
    fn kind_first_then_its_own_keys() {
        let mut config = Config::default();
        config.set("optimiser.beta1=0.8").unwrap();
        config.set("optimiser.kind=adam").unwrap();
        assert_eq!(config.optimiser.algorithm, Algorithm::Adam { beta1: 0.8, beta2: 0.999, epsilon: 1e-8 });
        config.set("optimiser.kind=sgd").unwrap();
        config.set("optimiser.momentum=0.9").unwrap();
        let error = config.set("optimiser.beta1=0.8").unwrap_err().to_string();
        assert!(error.contains("belongs to adam and adamw"), "{error}");
    }

    #[test]
    fn schedule_first_then_its_own_keys() {
        let text =
            "[optimiser]\ngamma = 0.5\nstep_every = 30\nwarmup = 5\nschedule = \"step\"\nclip_norm = 1\n";
        let mut config = Config::parse(text, "r.toml").unwrap();
        assert_eq!(config.optimiser.schedule, Schedule::Step { step_every: 30, gamma: 0.5 });
        assert_eq!((config.optimiser.warmup, config.optimiser.clip_norm), (5, Some(1.0)));
        assert_eq!(Config::parse(&config.to_toml().unwrap(), "again").unwrap(), config);
        let error = config.set("optimiser.final_lr=0.1").unwrap_err().to_string();
        assert!(error.contains("linear and cosine, and optimiser.schedule is step"), "{error}");
        // The same schedule again keeps what was set.
        config.set("optimiser.schedule=step").unwrap();
        assert_eq!(config.optimiser.schedule, Schedule::Step { step_every: 30, gamma: 0.5 });
        config.set("optimiser.schedule=cosine").unwrap();
        for (good, bad) in [("final_lr=0", "final_lr=-1"), ("final_lr=1e3", "final_lr=nan")] {
            config.set(&format!("optimiser.{good}")).unwrap();
            assert_eq!(Config::parse(&config.to_toml().unwrap(), "again").unwrap(), config);
            assert!(matches!(config.set(&format!("optimiser.{bad}")), Err(Error::Value { .. })));
        }
        config.set("optimiser.schedule=exponential").unwrap();
        for (good, bad) in
            [("gamma=1", "gamma=1.0001"), ("gamma=1e-30", "gamma=0"), ("gamma=0.5", "step_every=1")]
        {
            config.set(&format!("optimiser.{good}")).unwrap();
            assert!(matches!(config.set(&format!("optimiser.{bad}")), Err(Error::Value { .. })));
        }
        config.set("optimiser.schedule=step").unwrap();
        for (good, bad) in
            [("step_every=1", "step_every=0"), ("step_every=1000000000", "step_every=1000000001")]
        {
            config.set(&format!("optimiser.{good}")).unwrap();
            assert!(matches!(config.set(&format!("optimiser.{bad}")), Err(Error::Value { .. })));
        }
    }

    #[test]
    fn patience_needs_evaluations() {
        for (argument, found) in
            [("run.patience=20", "`run.patience` is 20"), ("run.keep=best", "`run.keep` is \"best\"")]
        {
            let mut config = Config::default();
            config.set(argument).unwrap();
            config.check().unwrap();
            config.set("run.eval_every=0").unwrap();
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(found) && error.contains("`run.eval_every` is 0"), "{error}");
            assert!(error.contains("run.eval_every = 1"), "{error}");
        }
    }

    #[test]
    fn functions_are_a_number_or_auto() {
        for (text, count) in [
            ("0", FunctionCount::Fixed(0)),
            ("10000", FunctionCount::Fixed(10_000)),
            ("auto", FunctionCount::Auto),
            ("\"auto\"", FunctionCount::Auto),
        ] {
            let mut config = Config::default();
            config.set(&format!("executor.functions={text}")).unwrap();
            assert_eq!(config.executor.functions, count);
            assert_eq!(Config::parse(&config.to_toml().unwrap(), "again").unwrap(), config);
        }
        for text in ["-1", "10001", "many", "1.5", "true"] {
            let error = Config::default().set(&format!("executor.functions={text}")).unwrap_err();
            assert!(matches!(error, Error::Value { .. }), "{text}: {error}");
        }
        let error = Config::default().set("executor.concurrency=3").unwrap_err().to_string();
        assert!(error.contains("did you mean `executor.functions`?"), "{error}");
    }

    #[test]
    fn settings_of_another_executor_are_refused() {
        let both = "set executor.kind = \"emulated\" or \"lambda\", or leave it out";
        let cases = [
            ("local", "executor.functions=3", "`executor.functions` is 3, which the local executor", both),
            ("local", "executor.functions=auto", "is \"auto\"", "it has no functions"),
            ("local", "executor.transport=s3", "`executor.transport` is \"s3\"", both),
            ("local", "executor.rows=bf16", "`executor.rows` is \"bf16\"", both),
            ("local", "executor.stream=false", "`executor.stream` is false", both),
            ("local", "executor.memory_mb=512", "`executor.memory_mb` is 512", both),
            ("local", "executor.timeout_s=5", "`executor.timeout_s` is 5", both),
            ("local", "executor.deadline_ms=5", "`executor.deadline_ms` is 5", both),
            ("local", "executor.deadline_ratio=2", "`executor.deadline_ratio` is 2", both),
            (
                "local",
                "executor.deployment=x",
                "`executor.deployment` is \"x\"",
                "set executor.kind = \"lambda\",",
            ),
            ("emulated", "executor.deployment=x", "the emulated executor", "set executor.kind = \"lambda\","),
            ("local", "emulator.crash=0.5", "`emulator.crash` is 0.5", "set executor.kind = \"emulated\","),
            ("lambda", "emulator.worker=w", "the lambda executor", "set executor.kind = \"emulated\","),
            (
                "emulated",
                "run.tune_threads=true",
                "`run.tune_threads` is true",
                "set executor.kind = \"local\",",
            ),
        ];
        for (kind, setting, found, remedy) in cases {
            let mut config = Config::default();
            config.set(&format!("executor.kind={kind}")).unwrap();
            config.set(setting).unwrap();
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(found) && error.contains(remedy), "{kind}, {setting}: {error}");
        }
        for setting in ["executor.host_hour_usd=2", "run.tune_threads=true", "executor.functions=16"] {
            let mut config = Config::default();
            config.set(setting).unwrap();
            config.check().unwrap();
        }
        assert!(Config::default().check_read("executor.functions", "16").is_err(), "whatever its value");
    }

    #[test]
    fn a_recipe_for_functions_runs_on_this_machine() {
        let text = "[executor]\nkind = \"emulated\"\nfunctions = 3\nrows = \"bf16\"\nhost_hour_usd = 2\n[emulator]\ncrash = 0.5\n";
        let recipe = Config::parse(text, "r.toml").unwrap();
        recipe.check().unwrap();
        for (kind, functions, crash) in [("local", 16, 0.0), ("lambda", 3, 0.0), ("loopback", 3, 0.5)] {
            let mut config = recipe.clone();
            config.set(&format!("executor.kind={kind}")).unwrap();
            config.check().unwrap();
            assert_eq!(config.executor.functions, FunctionCount::Fixed(functions), "{kind}");
            assert_eq!((config.emulator.crash, config.executor.host_hour_usd), (crash, Some(2.0)), "{kind}");
        }
        // Where nothing changes nothing is forgotten, so that order does not matter.
        let mut config = Config::default();
        for setting in ["executor.functions=3", "executor.kind=emulated", "executor.kind=emulated"] {
            config.set(setting).unwrap();
        }
        assert_eq!(config.executor.functions, FunctionCount::Fixed(3));
    }

    #[test]
    fn hostile_texts_end_in_errors() {
        let deep = format!("a = {}{}", "[".repeat(20_000), "]".repeat(20_000));
        let many = "[".repeat(document::MAX_BYTES + 1);
        for text in ["[run", "run = 3", "[run]\nepochs = 1\nepochs = 2", "\u{0}", "[[run]]", &deep, &many] {
            assert!(Config::parse(text, "r.toml").is_err(), "{:.40}", text);
        }
        let long = format!("[run]\n{} = 1", "k".repeat(500_000));
        assert!(refused(&long).contains("unknown key"));
        let text = Config::default().to_toml().unwrap();
        for seed in 0..3000 {
            let random = &mut Random::new(seed);
            let mut bytes = text.clone().into_bytes();
            bytes.push(b'\n');
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 if bytes.len() > 1 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            // Any answer is right but a panic.
            if let Err(error) = Config::parse(&String::from_utf8_lossy(&bytes), "r.toml") {
                assert!(error.to_string().contains("r.toml"), "seed {seed}: {error}");
            }
        }
    }

    #[test]
    fn every_key_can_be_described() {
        let keys = crate::keys();
        assert!(keys.len() > 25);
        assert!(keys.iter().any(|info| info.key == "run.eval_every" && !info.meaning.is_empty()));
    }
}
