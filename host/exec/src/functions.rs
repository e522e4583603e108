//! Functions for a run: what must be in place before the first task, whoever runs them.

#[cfg(feature = "aws")]
mod store;

#[cfg(feature = "aws")]
pub(crate) use store::at_store;

use std::sync::Arc;
use std::time::Duration;

use eciton_kernel::{Kernel, Limits};
use eciton_plan::{EdgePlace, Executor, ExecutorKind, FunctionCount, RowFormat};
use eciton_tensor::frame::Encoding;

use crate::deploy::Architecture;
use crate::{LocalPool, Machine, RemoteSettings};

/// What a run asks of functions.
#[derive(Debug)]
pub struct Wanted {
    /// Threads of this machine, for graph work.
    pub local: LocalPool,
    /// Every kernel that tasks use, with its component.
    pub kernels: Vec<(Arc<Kernel>, Arc<[u8]>)>,
    /// `[executor]`
    pub executor: Executor,
    /// What a task may use.
    pub limits: Limits,
    /// How many intervals the graph has.
    pub intervals: u32,
    /// Versions of the weights that tasks read at once, at most.
    pub weight_versions: u32,
}

/// Why functions cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The worker program is not there.
    #[error(transparent)]
    Deploy(Box<crate::deploy::Error>),
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
        /// What was to be done.
        doing: String,
        /// Why it was not.
        source: Box<eciton_transport::Error>,
    },
    /// No kernel can be compiled ahead of time for this processor.
    #[error(
        "functions run code compiled for x86-64-v3 (AVX2 and FMA) or neoverse-n1, and this processor is below both; use --executor local"
    )]
    Processor,
    /// A folder or thread that the system refuses.
    #[error("{doing}: {source}")]
    System {
        /// What was to be done.
        doing: &'static str,
        /// Why it was not.
        source: std::io::Error,
    },
}

impl From<crate::deploy::Error> for Error {
    fn from(error: crate::deploy::Error) -> Self {
        Self::Deploy(Box::new(error))
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

/// The functions of a run: a deployment's, emulated ones, or this process.
///
/// # Errors
/// As [`check`]; whatever keeps the functions from starting.
pub fn start(wanted: Wanted, emulator: &eciton_plan::Emulator) -> Result<Box<dyn Machine>, Error> {
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
    /// `account`: functions that may run at once.
    pub(crate) fn settings(
        &self,
        run: String,
        architecture: Option<Architecture>,
        account: u32,
    ) -> RemoteSettings {
        let rows = match self.executor.rows {
            RowFormat::F32 => Encoding::F32,
            RowFormat::Bf16 => Encoding::Bf16,
        };
        RemoteSettings {
            run,
            transport: self.executor.transport,
            rows,
            stream: self.executor.stream,
            edges: self.executor.edge_kernels == EdgePlace::Functions,
            edges_within: Duration::from_secs(self.executor.timeout_s.into()),
            // With an autotuner more than the intervals would have nothing to do.
            most: match self.executor.functions {
                FunctionCount::Fixed(count) => count.min(account),
                FunctionCount::Auto => self.intervals.min(account),
            },
            weight_versions: self.weight_versions,
            limits: self.limits.clone(),
            intervals: self.intervals,
            architecture,
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
