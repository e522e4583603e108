//! Where the tensor tasks of a run go, and how: `[executor]` and `[emulator]` of a recipe.

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::prices::{HostPlace, Processor};
use crate::workers::Workers;

/// Who runs tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorKind {
    /// Threads of this machine.
    #[default]
    Local,
    /// Functions of a stand-in for AWS on this machine: real worker processes behind the real APIs.
    Emulated,
    /// Functions of AWS Lambda.
    Lambda,
    /// Workers that dial this machine.
    Workers,
    /// This process, but every task goes through a frame and may be tried twice: for tests of what
    /// the other two rest on.
    Loopback,
}

impl ExecutorKind {
    /// Words for all.
    pub const ALL: [(&'static str, Self); 5] = [
        ("local", Self::Local),
        ("emulated", Self::Emulated),
        ("lambda", Self::Lambda),
        ("workers", Self::Workers),
        ("loopback", Self::Loopback),
    ];

    /// Returns whether all tasks run on threads of this process.
    #[must_use]
    pub fn is_here(self) -> bool {
        self == Self::Local
    }

    /// Returns whether workers do the tasks.
    #[must_use]
    pub fn has_workers(self) -> bool {
        self == Self::Workers
    }

    /// Returns whether functions of the stand-in for AWS do the tasks.
    #[must_use]
    pub fn is_emulated(self) -> bool {
        self == Self::Emulated
    }

    /// Returns whether the tasks have a bill.
    #[must_use]
    pub fn is_charged(self) -> bool {
        matches!(self, Self::Emulated | Self::Lambda)
    }

    /// Returns the least time of a task on a helper, in microseconds; of threads a quarter of an
    /// epoch that is too short for a second one. `None` if the number of helpers is not chosen.
    #[must_use]
    pub fn round_trip_us(self) -> Option<u64> {
        match self {
            Self::Local => Some(250),
            Self::Loopback => Some(500),
            Self::Emulated => Some(2_000),
            Self::Lambda => Some(10_000),
            Self::Workers => None,
        }
    }

    /// Name in recipes, for instance `local`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The executors whose runs read a key of a recipe, for instance `executor.functions`; `None`:
    /// all do.
    #[must_use]
    pub fn readers(key: &str) -> Option<&'static [Self]> {
        match key.split_once('.')? {
            // The host's price is for the tuner of threads, too; threads do spans as functions do.
            ("executor", "kind" | "host_hour_usd" | "spans") => None,
            ("executor", "deployment") => Some(&[Self::Lambda]),
            // Only these have a bill.
            ("executor", "host") => Some(&[Self::Emulated, Self::Lambda]),
            (
                "executor",
                "rows" | "edge_kernels" | "deadline_ms" | "deadline_ratio" | "audit" | "keep_doubtful",
            ) => Some(&[Self::Emulated, Self::Lambda, Self::Workers, Self::Loopback]),
            ("executor", _) => Some(&[Self::Emulated, Self::Lambda, Self::Loopback]),
            ("workers", _) => Some(&[Self::Workers]),
            ("emulator", _) => Some(&[Self::Emulated, Self::Loopback]),
            ("run", "tune_threads") => Some(&[Self::Local]),
            _ => None,
        }
    }
}

impl Config {
    /// Runs tasks on threads of this machine; see [`Config::run_on`].
    pub fn run_here(&mut self) {
        self.run_on(ExecutorKind::Local);
    }

    /// Runs tasks on workers; see [`Config::run_on`].
    pub fn run_on_workers(&mut self) {
        self.run_on(ExecutorKind::Workers);
    }

    /// Runs tasks on Lambda; see [`Config::run_on`].
    pub fn run_on_lambda(&mut self) {
        self.run_on(ExecutorKind::Lambda);
    }

    /// Runs tasks elsewhere. Settings that only another executor reads are put back to their
    /// defaults, so that a recipe for functions can be run on this machine.
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
        if !reads("executor.host") {
            self.executor.host = None;
        }
        if !reads("emulator.seed") {
            self.emulator = Emulator::default();
        }
        if !reads("workers.count") {
            self.workers = Workers::default();
        }
        self.run.tune_threads &= reads("run.tune_threads");
    }

    /// Checks that the run's executor reads a key. `found` is its value, for the message.
    ///
    /// # Errors
    /// [`Error::Unread`] if it does not.
    pub fn check_read(&self, key: &str, found: &str) -> Result<()> {
        let kind = self.executor.kind;
        match ExecutorKind::readers(key) {
            Some(readers) if !readers.contains(&kind) => {
                Err(Error::Unread { key: key.to_owned(), found: found.to_owned(), kind: kind.name() })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the names of the executors that read a key, without the one for tests.
pub(crate) fn names_of_readers(key: &str) -> impl Iterator<Item = &'static str> {
    let readers = ExecutorKind::readers(key).unwrap_or_default().iter();
    readers.filter(|reader| **reader != ExecutorKind::Loopback).map(|reader| reader.name())
}

/// How frames travel between host and functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Inside the request while they fit, by the object store where they do not; what is used more
    /// than once (features, weights read by several intervals) by the object store.
    #[default]
    Auto,
    /// Inside requests and replies only: no object store is needed, but for kernels.
    Payload,
    /// By the object store only.
    S3,
}

impl Transport {
    /// Words for all.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("payload", Self::Payload), ("s3", Self::S3)];
}

/// What rows are written as on their way. Gradients of parameters are always f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowFormat {
    /// As they are.
    #[default]
    F32,
    /// Rounded to bfloat16: half the bytes, 8 bits of precision, other results.
    Bf16,
    /// Signs and scales, for rows on their way to a layer that reads no more: a bit a value, the
    /// same results. All other rows as they are.
    Bits,
}

impl RowFormat {
    /// Words for all.
    pub const ALL: [(&'static str, Self); 3] =
        [("f32", Self::F32), ("bf16", Self::Bf16), ("bits", Self::Bits)];
    /// Words for those that rows may be stored as.
    pub const STORED: [(&'static str, Self); 2] = [("f32", Self::F32), ("bf16", Self::Bf16)];

    /// Bytes of a value that is stored.
    #[must_use]
    pub const fn value_bytes(self) -> u32 {
        match self {
            Self::F32 | Self::Bits => 4,
            Self::Bf16 => 2,
        }
    }
}

/// Where edge kernels run when there are functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgePlace {
    /// On the host's threads, where the rows are.
    #[default]
    Host,
    /// On functions as tasks do: an interval's lists and the rows that they name travel with each
    /// step.
    Functions,
}

impl EdgePlace {
    /// Words for all.
    pub const ALL: [(&'static str, Self); 2] = [("host", Self::Host), ("functions", Self::Functions)];
}

/// Which consecutive stages are done as one task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SpanForm", into = "SpanForm")]
pub enum SpanChoice {
    /// None: a task is a stage.
    #[default]
    None,
    /// As many as may be.
    Auto,
    /// The first stages of runs, from 0.
    Firsts(Vec<u32>),
}

/// `"none"`, `"auto"` or a list.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SpanForm {
    Word(String),
    Firsts(Vec<u32>),
}

impl TryFrom<SpanForm> for SpanChoice {
    type Error = String;

    fn try_from(form: SpanForm) -> Result<Self, String> {
        match form {
            SpanForm::Word(word) if word == "none" => Ok(Self::None),
            SpanForm::Word(word) if word == "auto" => Ok(Self::Auto),
            SpanForm::Word(word) => Err(format!("`{word}` where `none`, `auto` or a list is needed")),
            SpanForm::Firsts(firsts) => Ok(Self::Firsts(firsts)),
        }
    }
}

impl From<SpanChoice> for SpanForm {
    fn from(choice: SpanChoice) -> Self {
        match choice {
            SpanChoice::None => Self::Word("none".to_owned()),
            SpanChoice::Auto => Self::Word("auto".to_owned()),
            SpanChoice::Firsts(firsts) => Self::Firsts(firsts),
        }
    }
}

impl SpanChoice {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// An hour of a core: of a c5, whose two vCPUs `infra/cloud.toml` has at this price.
pub const CORE_HOUR_USD: f64 = 0.085;
/// Most functions of a run.
pub const MAX_FUNCTIONS: u32 = 10_000;

/// How many functions a run may have at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CountForm", into = "CountForm")]
pub enum FunctionCount {
    /// So many at most, 0 to [`MAX_FUNCTIONS`]; 0: the host does all.
    Fixed(u32),
    /// As an autotuner says while the run goes on.
    Auto,
}

/// A number, or `"auto"`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum CountForm {
    Number(u32),
    Word(String),
}

impl TryFrom<CountForm> for FunctionCount {
    type Error = String;

    fn try_from(form: CountForm) -> Result<Self, String> {
        match form {
            CountForm::Number(count) => Ok(Self::Fixed(count)),
            CountForm::Word(word) if word == "auto" => Ok(Self::Auto),
            CountForm::Word(word) => Err(format!("`{word}` where a number or `auto` is needed")),
        }
    }
}

impl From<FunctionCount> for CountForm {
    fn from(count: FunctionCount) -> Self {
        match count {
            FunctionCount::Fixed(count) => Self::Number(count),
            FunctionCount::Auto => Self::Word("auto".to_owned()),
        }
    }
}

/// `[executor]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Executor {
    /// Who runs tasks.
    pub kind: ExecutorKind,
    /// How frames travel.
    pub transport: Transport,
    /// What rows are written as on their way.
    pub rows: RowFormat,
    /// True if a function computes on the first rows while the next are on their way (by the object
    /// store only).
    pub stream: bool,
    /// Tasks under way with functions at once, at most; the host's threads do the others. Never
    /// changes a result.
    pub functions: FunctionCount,
    /// Where edge kernels run. Never changes a result.
    #[serde(default)]
    pub edge_kernels: EdgePlace,
    /// Which consecutive stages are done as one task. Never changes a result.
    #[serde(default, skip_serializing_if = "SpanChoice::is_none")]
    pub spans: SpanChoice,
    /// Where the host is, which decides what its bytes cost; `None`: as its metadata says
    /// (`lambda`), else at home. Never changes a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostPlace>,
    /// What an hour of the host costs, in dollars, for [`FunctionCount::Auto`] to weigh functions
    /// against; `None`: [`CORE_HOUR_USD`] for each compute thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_hour_usd: Option<f64>,
    /// The function's size in MiB: 1,769 are one processor. With `lambda`: the deployed function of
    /// that size.
    pub memory_mb: u32,
    /// A function's time limit, in seconds (`emulated`; a deployed one has its own).
    pub timeout_s: u32,
    /// A task is launched a second time when it takes longer than this, in milliseconds, and ...
    pub deadline_ms: u64,
    /// ... longer than so many times its stage's average.
    pub deadline_ratio: f64,
    /// Share of the tasks of workers and functions that the host computes as well, from 0 to 1: an
    /// answer counts if both are equal bit for bit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub audit: f64,
    /// True if a run goes on with the answers that a process gave before one of its answers was
    /// found to be wrong. Its result is then unverified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_doubtful: bool,
    /// A deployment's file (`eciton deploy` writes it); `None`: the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<String>,
}

impl Default for Executor {
    fn default() -> Self {
        Self {
            kind: ExecutorKind::Local,
            transport: Transport::Auto,
            rows: RowFormat::F32,
            stream: true,
            functions: FunctionCount::Fixed(16),
            edge_kernels: EdgePlace::Host,
            spans: SpanChoice::None,
            host: None,
            host_hour_usd: None,
            memory_mb: 1769,
            timeout_s: 60,
            deadline_ms: 2000,
            deadline_ratio: 4.0,
            audit: 0.0,
            keep_doubtful: false,
            deployment: None,
        }
    }
}

impl Executor {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `[emulator]`: the stand-in for AWS, and what goes wrong in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Emulator {
    /// What faults are drawn from.
    pub seed: u64,
    /// Functions that may run at once; more requests are throttled.
    pub account_concurrency: u32,
    /// Network of each function, Mbit/s each way. If 0, whole runs have that of [`Self::cloud`],
    /// and layer tasks have no limit.
    pub mbit_s: f64,
    /// Added to a cold start, in milliseconds.
    pub cold_start_ms: u64,
    /// Preset of the cloud file whose times hold for whole runs. Layer tasks take real time.
    #[serde(default = "default_preset", skip_serializing_if = "is_default_preset")]
    pub cloud: String,
    /// Share of invocations whose process dies, a third each before, during and after its work.
    pub crash: f64,
    /// Share of answers that are lost, the work done.
    pub lose: f64,
    /// Share of answers of functions, other than trainers, that arrive with one changed byte.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corrupt: f64,
    /// Share of requests that are run twice.
    pub double: f64,
    /// Share of invocations that are held up ...
    pub straggle: f64,
    /// ... by so many milliseconds.
    pub straggle_ms: u64,
    /// Share of requests that are throttled.
    pub throttle: f64,
    /// The worker program; `None`: `ECITON_WORKER`, or `bootstrap` beside `eciton`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The processors that the programs were built for; `None`: this machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Processor>,
}

fn default_preset() -> String {
    crate::cloud::DEFAULT_PRESET.to_owned()
}

fn is_default_preset(name: &str) -> bool {
    name == crate::cloud::DEFAULT_PRESET
}

impl Default for Emulator {
    fn default() -> Self {
        Self {
            seed: 0,
            account_concurrency: 1000,
            mbit_s: 0.0,
            cold_start_ms: 0,
            cloud: default_preset(),
            crash: 0.0,
            lose: 0.0,
            corrupt: 0.0,
            double: 0.0,
            straggle: 0.0,
            straggle_ms: 1000,
            throttle: 0.0,
            worker: None,
            architecture: None,
        }
    }
}

/// Returns whether a share is 0.
fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

impl Emulator {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
