//! Functions for a run: what must be in place before the first task, whoever runs them.

#[cfg(feature = "aws")]
mod store;

#[cfg(feature = "aws")]
pub(crate) use store::{Keys, at_store};

use std::path::PathBuf;
use std::sync::Arc;

use eciton_kernel::{Kernel, Limits};
use eciton_recipe::executor::ExecutorKind;
use eciton_recipe::{Executor, FunctionCount, RowFormat};
use eciton_tensor::frame::Encoding;
use eciton_tensor::signs::Planes;

use serde::{Deserialize, Serialize};

use crate::deployment::{DEFAULT_STACK, Deployment};
use crate::{Architecture, Host, LocalPool, RemoteSettings};

/// Requirements of a run on functions or workers.
#[derive(Debug)]
pub struct Wanted {
    /// Threads of this machine.
    pub local: LocalPool,
    /// Every kernel that tasks use, with its component.
    pub kernels: Vec<(Arc<Kernel>, Arc<[u8]>)>,
    /// `[executor]`
    pub executor: Executor,
    /// Limits of a task.
    pub limits: Limits,
    /// Number of intervals of the graph.
    pub intervals: u32,
    /// Versions of the weights that tasks read at once, at most.
    pub weight_versions: u32,
}

/// The most functions that may run at once, and what says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Most {
    pub(crate) count: u32,
    /// In words, with what changes it.
    pub(crate) limit: String,
}

/// A number of functions that was cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Number of functions requested.
    pub asked: u32,
    /// Number of functions granted.
    pub given: u32,
    /// The limit, and the way to change it.
    pub limit: String,
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} asked for, {} given: {}", self.asked, self.given, self.limit)
    }
}

impl Cut {
    /// Compares the number that is asked for with the limit.
    pub(crate) fn find(count: FunctionCount, intervals: u32, most: &Most) -> Option<Self> {
        let asked = match count {
            FunctionCount::Fixed(count) => count,
            // With an autotuner more than the intervals would have nothing to do.
            FunctionCount::Auto => intervals,
        };
        let limit = || most.limit.clone();
        (asked > most.count).then(|| Self { asked, given: most.count, limit: limit() })
    }
}

/// Facts of a run's functions that are known before its first task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outlook {
    /// This machine's place.
    pub host: Host,
    /// The limit that lowered their number, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

impl Outlook {
    /// Returns the outlook of a run on this number of intervals, or `None` if nothing is charged. A
    /// deployment that does not exist sets no limit.
    #[must_use]
    pub fn of(executor: &Executor, emulator: &eciton_recipe::Emulator, intervals: u32) -> Option<Self> {
        let cut = |most: &Most| Cut::find(executor.functions, intervals, most);
        match executor.kind {
            ExecutorKind::Emulated => {
                let most = Most::of_emulator(emulator);
                Some(Self { host: Host::of_emulated(executor.host), cut: cut(&most) })
            }
            ExecutorKind::Lambda => {
                let name = executor.deployment.as_deref().unwrap_or(DEFAULT_STACK);
                let deployment = Deployment::load(name).ok();
                let region = deployment.as_ref().map(|deployment| deployment.region.as_str());
                let zone = deployment.as_ref().and_then(|deployment| deployment.zone.as_deref());
                let host = Host::find(executor.host, region, zone);
                Some(Self { host, cut: deployment.and_then(|deployment| cut(&deployment.most())) })
            }
            _ => None,
        }
    }
}

impl Most {
    pub(crate) fn of_emulator(emulator: &eciton_recipe::Emulator) -> Self {
        let count = emulator.account_concurrency;
        Self { count, limit: format!("emulator.account_concurrency is {count}") }
    }
}

/// The result of what a run's functions need.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why functions cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder.
    #[error("{path}: cannot be {doing}: {source}", path = path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// `read`, `written` and so on.
        doing: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is there and says something else than expected.
    #[error("{path}: {reason}", path = path.display())]
    Content {
        /// The file or folder.
        path: PathBuf,
        /// The value found, and the remedy.
        reason: String,
    },
    /// No deployment file of this name.
    #[error("there is no deployment `{name}` ({path} does not exist){known}; `eciton deploy --stack {name}` makes one", path = path.display())]
    NoDeployment {
        /// The name requested.
        name: String,
        /// Path that the file would have.
        path: PathBuf,
        /// `; there are: a, b`, or nothing.
        known: String,
    },
    /// A worker binary that cannot be found.
    #[error(
        "no {program} binary: {tried}; build it in Eciton's repository with `cargo build --locked --profile worker -p eciton-{program}`, or name the file with {names}"
    )]
    NoWorker {
        /// `worker` or `trainer`.
        program: &'static str,
        /// The settings that may name the file.
        names: &'static str,
        /// The paths that were tried.
        tried: String,
    },
    /// A choice that cannot be.
    #[error("{0}")]
    Choice(String),
    /// This build has no clients of AWS.
    #[cfg(not(feature = "aws"))]
    #[error(transparent)]
    NoAws(#[from] crate::without::NoAws),
    /// The stand-in for AWS does not start.
    #[cfg(feature = "aws")]
    #[error("the emulated cloud: {0}")]
    Emulator(Box<eciton_emulator::Error>),
    /// A kernel cannot be compiled or signed.
    #[error(transparent)]
    Kernel(Box<eciton_kernel::Error>),
    /// The object store.
    #[error("{doing}: {source}")]
    Store {
        /// The operation.
        doing: String,
        /// Why it was not.
        source: Box<eciton_transport::Error>,
    },
    /// A kernel that functions cannot have, because nobody here can sign it.
    #[error(
        "kernel `{kernel}` cannot be given to the functions of stack `{stack}`: {found}, and {key}; \
         its deployer puts it there with `eciton deploy --kernel {kernel}=FILE.wasm`"
    )]
    Unsigned {
        /// Its name.
        kernel: String,
        /// The deployment's.
        stack: String,
        /// The object found in the bucket.
        found: String,
        /// Why it cannot be signed here.
        key: String,
    },
    /// No kernel can be compiled ahead of time for this processor.
    #[error(
        "functions run code compiled for x86-64-v3 (AVX2 and FMA) or neoverse-n1, and this processor is below both; use --executor local"
    )]
    Processor,
    /// A folder or thread that the system refuses.
    #[error("{doing}: {source}")]
    System {
        /// The operation.
        doing: &'static str,
        /// Why it was not.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>, doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, doing, source }
    }
}

#[cfg(feature = "aws")]
impl From<eciton_emulator::Error> for Error {
    fn from(error: eciton_emulator::Error) -> Self {
        Self::Emulator(Box::new(error))
    }
}

impl From<eciton_kernel::Error> for Error {
    fn from(error: eciton_kernel::Error) -> Self {
        Self::Kernel(Box::new(error))
    }
}

pub(crate) fn system(doing: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::System { doing, source }
}

/// Refuses an executor that this build leaves out.
///
/// # Errors
/// AWS's functions, or their stand-in, in a build without the feature `aws`.
pub fn check(kind: ExecutorKind) -> Result<(), Error> {
    match kind {
        #[cfg(not(feature = "aws"))]
        ExecutorKind::Emulated => Err(crate::without::NoAws("--executor emulated").into()),
        #[cfg(not(feature = "aws"))]
        ExecutorKind::Lambda => Err(crate::without::NoAws("--executor lambda").into()),
        _ => Ok(()),
    }
}

/// Refuses AWS Lambda in a build without it.
///
/// # Errors
/// A build without the feature `aws`.
pub fn check_lambda() -> Result<(), Error> {
    check(ExecutorKind::Lambda)
}

/// The numeric class that a deployment's functions are pinned to; `None` where nothing says so.
#[must_use]
pub fn numeric_class(executor: &Executor) -> Option<String> {
    if executor.kind != ExecutorKind::Lambda {
        return None;
    }
    Deployment::load(executor.deployment.as_deref().unwrap_or(DEFAULT_STACK)).ok()?.numeric_class
}

/// The functions of a run: a deployment's, emulated ones, or this process.
///
/// # Errors
/// As [`check`]; whatever keeps the functions from starting.
pub fn start(wanted: Wanted, emulator: &eciton_recipe::Emulator) -> Result<Box<dyn crate::Executor>, Error> {
    check(wanted.executor.kind)?;
    Ok(match wanted.executor.kind {
        #[cfg(feature = "aws")]
        ExecutorKind::Emulated => Box::new(crate::emulated::Emulated::start(wanted, emulator)?),
        #[cfg(feature = "aws")]
        ExecutorKind::Lambda => Box::new(crate::lambda::start(wanted)?),
        _ => Box::new(crate::loopback::start(wanted, emulator)?),
    })
}

impl Wanted {
    /// Returns the storage format of rows.
    pub(crate) fn rows(&self) -> Encoding {
        match self.executor.rows {
            RowFormat::F32 => Encoding::F32,
            RowFormat::Bf16 => Encoding::Bf16,
            RowFormat::Bits => Encoding::Bits(Planes::default()),
        }
    }

    /// `most`: functions that may run at once; `host`: where this machine is, if anything is
    /// charged.
    pub(crate) fn settings(
        &self,
        run: String,
        architecture: Option<Architecture>,
        most: &Most,
        host: Option<Host>,
    ) -> RemoteSettings {
        RemoteSettings {
            run,
            transport: self.executor.transport,
            rows: self.rows(),
            stream: self.executor.stream,
            most: match self.executor.functions {
                FunctionCount::Fixed(count) => count.min(most.count),
                FunctionCount::Auto => self.intervals.min(most.count),
            },
            weight_versions: self.weight_versions,
            limits: self.limits.clone(),
            intervals: self.intervals,
            architecture,
            host,
            cut: Cut::find(self.executor.functions, self.intervals, most),
            audit: self.executor.audit,
        }
    }
}

/// A name for a run that no other has: time, process, and 64 random bits.
pub(crate) fn run_name() -> String {
    use std::hash::{BuildHasher as _, Hasher as _};
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let seconds = std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs());
    format!("{seconds:x}-{:x}-{random:016x}", std::process::id())
}

/// Threads for waiting on requests; they compute nothing but encodings.
pub(crate) fn runtime(threads: usize) -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("eciton-io")
        .enable_all()
        .build()
        .map_err(system("starting I/O threads"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_hundred_functions_became_a_hundred_without_a_word() {
        let most = Most { count: 100, limit: "stack `eciton` reserves 100".to_owned() };
        let cut = Cut::find(FunctionCount::Fixed(500), 32, &most);
        let said = cut.map(|cut| cut.to_string());
        assert_eq!(said.as_deref(), Some("500 asked for, 100 given: stack `eciton` reserves 100"));
        assert_eq!(Cut::find(FunctionCount::Fixed(100), 500, &most), None);
        // An autotuner asks for as many as there are intervals.
        assert_eq!(Cut::find(FunctionCount::Auto, 32, &most), None);
        assert_eq!(Cut::find(FunctionCount::Auto, 101, &most).map(|cut| cut.asked), Some(101));
    }

    #[test]
    fn what_is_known_before_a_run_is_told() {
        let mut executor = Executor { functions: FunctionCount::Fixed(9), ..Executor::default() };
        let emulator = eciton_recipe::Emulator { account_concurrency: 4, ..Default::default() };
        assert_eq!(Outlook::of(&executor, &emulator, 2), None, "nothing is charged");
        executor.kind = ExecutorKind::Emulated;
        let outlook = Outlook::of(&executor, &emulator, 2);
        let cut = outlook.and_then(|outlook| outlook.cut).map(|cut| cut.to_string());
        assert_eq!(cut.as_deref(), Some("9 asked for, 4 given: emulator.account_concurrency is 4"));
    }
}
