//! Settings of the executor that runs the tensor tasks. They are the sections `[executor]` and
//! `[emulator]` of a recipe.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::prices::{HostPlace, Processor};

/// Executor, which is the kind of threads, functions or workers that run the tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorKind {
    /// Threads of this machine.
    #[default]
    Local,
    /// Functions of an AWS emulator on this machine. They are real worker processes behind the real
    /// APIs.
    Emulated,
    /// Functions on AWS Lambda.
    Lambda,
    /// Worker processes that connect to this machine.
    Workers,
    /// This process, with every task encoded as a frame and possibly attempted twice. It exists for
    /// tests of the code that remote executors share.
    Loopback,
}

impl ExecutorKind {
    /// All kinds of executor, with their names in recipes.
    pub const ALL: [(&'static str, Self); 5] = [
        ("local", Self::Local),
        ("emulated", Self::Emulated),
        ("lambda", Self::Lambda),
        ("workers", Self::Workers),
        ("loopback", Self::Loopback),
    ];

    /// Returns true if all tasks run on threads of this process, without being encoded as frames.
    #[must_use]
    pub fn is_here(self) -> bool {
        self == Self::Local
    }

    /// Returns true if workers run the tasks.
    #[must_use]
    pub fn has_workers(self) -> bool {
        self == Self::Workers
    }

    /// Returns true if functions of the AWS emulator run the tasks.
    #[must_use]
    pub fn is_emulated(self) -> bool {
        self == Self::Emulated
    }

    /// Returns true if tasks run in functions that a cloud provider charges for. Charges of the
    /// emulator are simulated.
    #[must_use]
    pub fn is_charged(self) -> bool {
        matches!(self, Self::Emulated | Self::Lambda)
    }

    /// Returns the minimum worthwhile duration of a task in a thread or function, in microseconds.
    /// The autotuner uses it. Returns `None` for workers, whose number is fixed.
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

    /// Returns the name of this kind of executor in recipes, for instance `local`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Returns the executors that read a key, for instance `executor.functions`. Returns `None` if
    /// all executors read it.
    #[must_use]
    pub fn readers(key: &str) -> Option<&'static [Self]> {
        match key.split_once('.')? {
            // The tuner of threads also reads the host's price, and threads run fused stages too.
            ("executor", "kind" | "host_hour_usd" | "fuse") => None,
            ("executor", "deployment") => Some(&[Self::Lambda]),
            // Only these executors have a bill.
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

/// Returns the names of the executors that read a key, without the executor `loopback` for tests.
pub(crate) fn names_of_readers(key: &str) -> impl Iterator<Item = &'static str> {
    let readers = ExecutorKind::readers(key).unwrap_or_default().iter();
    readers.filter(|reader| **reader != ExecutorKind::Loopback).map(|reader| reader.name())
}

/// Way in which task data are sent between the host and functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Data are part of the request if they fit, and are sent through the object store otherwise.
    /// Data that are used several times, such as features, always use the object store.
    #[default]
    Auto,
    /// Data are part of requests and replies. Only kernels are read from an object store.
    Payload,
    /// Data are always sent through the object store.
    S3,
}

impl Transport {
    /// All transports of tensors, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("payload", Self::Payload), ("s3", Self::S3)];
}

/// Number format of rows that are sent between processes or stored between stages. Gradients of
/// parameters are always f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowFormat {
    /// 32-bit floats, so rows are unchanged.
    #[default]
    F32,
    /// bfloat16, which has 8 bits of precision. Rows take half the bytes, and results differ.
    Bf16,
    /// One sign bit per value and a scale, for rows that are sent to a layer which reads only signs
    /// and scales. Results are bit-identical. All other rows are unchanged.
    Bits,
}

impl RowFormat {
    /// All row formats, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("f32", Self::F32), ("bf16", Self::Bf16), ("bits", Self::Bits)];
    /// Formats that are available for storage, with their names in recipes.
    pub const STORED: [(&'static str, Self); 2] = [("f32", Self::F32), ("bf16", Self::Bf16)];

    /// Returns the number of bytes per value in memory.
    #[must_use]
    pub const fn value_bytes(self) -> u32 {
        match self {
            Self::F32 | Self::Bits => 4,
            Self::Bf16 => 2,
        }
    }
}

/// Placement of edge kernels in runs with functions. An edge kernel computes on lists of edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgePlace {
    /// The host's threads run edge kernels, because the host has all rows.
    #[default]
    Host,
    /// Functions run edge kernels like other tasks. Each step sends the edge lists of its interval
    /// and the rows that these lists refer to.
    Functions,
}

impl EdgePlace {
    /// All places where edges can be stored, with their names in recipes.
    pub const ALL: [(&'static str, Self); 2] = [("host", Self::Host), ("functions", Self::Functions)];
}

/// Rule that fuses consecutive stages of the program into one task (a fused stage).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "FusionText", into = "FusionText")]
pub enum FusionChoice {
    /// Each stage is a separate task.
    #[default]
    None,
    /// The fusion combines as many consecutive stages as possible.
    Auto,
    /// Fused stages begin at the stages with these numbers, from 0.
    Firsts(Vec<u32>),
}

/// Form of a [`FusionChoice`] in a recipe, which is `"none"`, `"auto"` or a list of stage numbers.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum FusionText {
    Word(String),
    Firsts(Vec<u32>),
}

impl TryFrom<FusionText> for FusionChoice {
    type Error = String;

    fn try_from(form: FusionText) -> Result<Self, String> {
        match form {
            FusionText::Word(word) if word == "none" => Ok(Self::None),
            FusionText::Word(word) if word == "auto" => Ok(Self::Auto),
            FusionText::Word(word) => Err(format!("found `{word}`, expected `none`, `auto` or a list")),
            FusionText::Firsts(firsts) => Ok(Self::Firsts(firsts)),
        }
    }
}

impl From<FusionChoice> for FusionText {
    fn from(choice: FusionChoice) -> Self {
        match choice {
            FusionChoice::None => Self::Word("none".to_owned()),
            FusionChoice::Auto => Self::Word("auto".to_owned()),
            FusionChoice::Firsts(firsts) => Self::Firsts(firsts),
        }
    }
}

impl FusionChoice {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// Price of a core (two vCPUs) of a c5 machine, in USD per hour, as in `infra/cloud.toml`.
pub const CORE_HOUR_USD: f64 = 0.085;
/// Maximum number of functions per run.
pub const MAX_FUNCTIONS: u32 = 10_000;

/// Maximum number of functions that a run uses at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CountForm", into = "CountForm")]
pub enum FunctionCount {
    /// A fixed number of functions, from 0 to [`MAX_FUNCTIONS`]. If 0, the host runs all tasks.
    Fixed(u32),
    /// A number that an autotuner chooses and adjusts during the run.
    Auto,
}

/// Form of a [`FunctionCount`] in a recipe, which is a number or `"auto"`.
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
            CountForm::Word(word) => Err(format!("found `{word}`, expected a number or `auto`")),
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

/// Section `[executor]` of a recipe, with the executor that runs the tasks and the transport of
/// their data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Executor {
    /// Executor that runs the tasks.
    pub kind: ExecutorKind,
    /// Way in which task data are sent between the host and functions.
    pub transport: Transport,
    /// Number format of rows that are sent between the host and functions or workers.
    pub rows: RowFormat,
    /// True if a function starts to compute on the first rows while it still receives others. This
    /// requires the object store.
    pub stream: bool,
    /// Maximum number of tasks in flight in functions. The host's threads run the other tasks. It
    /// does not affect results.
    pub functions: FunctionCount,
    /// Placement of edge kernels, on the host or in functions. It does not affect results.
    #[serde(default)]
    pub edge_kernels: EdgePlace,
    /// Rule that fuses consecutive stages into one task. It does not affect results.
    #[serde(default, skip_serializing_if = "FusionChoice::is_none")]
    pub fuse: FusionChoice,
    /// Location of the host relative to the functions, which determines the price of traffic
    /// between them. If `None`, `lambda` reads it from the host's metadata, and other executors
    /// assume a host outside the cloud. It does not affect results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostPlace>,
    /// Price of the host in USD per hour, to which [`FunctionCount::Auto`] compares the price of
    /// functions. If `None`, it is [`CORE_HOUR_USD`] per compute thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_hour_usd: Option<f64>,
    /// Memory size per function, in MiB. One vCPU corresponds to 1,769 MiB. The executor `lambda`
    /// uses the deployed function of this size.
    pub memory_mb: u32,
    /// Time limit of an emulated function, in seconds. Only `emulated` reads it, because a deployed
    /// function has its own limit.
    pub timeout_s: u32,
    /// Minimum time before a task is relaunched, in milliseconds. The task must also exceed
    /// `deadline_ratio`.
    pub deadline_ms: u64,
    /// Multiple of a stage's average task time after which a task of the stage is relaunched.
    pub deadline_ratio: f64,
    /// Share of the workers' and functions' tasks that the host recomputes, from 0 to 1. An answer
    /// is accepted if both results are bit-identical.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub audit: f64,
    /// True if earlier answers of a process remain in use after one of its answers was found to be
    /// wrong. The result of the run is then not verified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_doubtful: bool,
    /// Path of the deployment file that `eciton deploy` wrote. If `None`, the default path is used.
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
            fuse: FusionChoice::None,
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

/// Section `[emulator]` of a recipe, with the settings of the AWS emulator and its simulated
/// faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Emulator {
    /// Random seed of the simulated faults.
    pub seed: u64,
    /// Maximum number of concurrent functions in the emulated account. Further requests are
    /// throttled.
    pub account_concurrency: u32,
    /// Network bandwidth per function and direction, in Mbit/s. If 0, functions that run whole
    /// trainings have the bandwidth of the preset [`Self::cloud`], and functions that run tasks are
    /// unlimited.
    pub mbit_s: f64,
    /// Additional duration of a cold start, in milliseconds.
    pub cold_start_ms: u64,
    /// Name of the preset whose times apply to functions that run whole trainings. The times of
    /// functions that run tasks are measured.
    #[serde(default = "default_preset", skip_serializing_if = "is_default_preset")]
    pub cloud: String,
    /// Share of invocations whose process crashes. One third each crash before, during and after
    /// their work.
    pub crash: f64,
    /// Share of answers that are lost after the function has finished its work.
    pub lose: f64,
    /// Share of answers in which one byte is corrupted. Answers of functions that run whole
    /// trainings are never corrupted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corrupt: f64,
    /// Share of requests that the emulator runs twice.
    pub double: f64,
    /// Share of invocations that are delayed by `straggle_ms`.
    pub straggle: f64,
    /// Duration of the delay that `straggle` causes, in milliseconds.
    pub straggle_ms: u64,
    /// Share of requests that are throttled as if the account had reached its limit.
    pub throttle: f64,
    /// Path of the worker program. If `None`, it is the value of the environment variable
    /// `ECITON_WORKER`, or the file `bootstrap` next to `eciton`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Processor architecture that the worker program was built for. If `None`, it is that of this
    /// machine.
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

/// Returns true if a share is 0.
fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

impl Emulator {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
