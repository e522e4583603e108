//! The error of deployments, stand-ins and functions.

use std::path::PathBuf;

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
    #[error(transparent)]
    NoAws(#[from] crate::no_aws::NoAws),
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
    /// Wraps an error of a file with its path and the operation that failed.
    pub fn file(path: impl Into<PathBuf>, doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
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

/// Wraps an error of the operating system with the operation that failed.
pub fn system(doing: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::System { doing, source }
}

/// Wraps an error of the object store with the operation that failed.
#[cfg(feature = "aws")]
pub fn at_store(doing: impl Into<String>) -> impl FnOnce(eciton_transport::Error) -> Error {
    let doing = doing.into();
    move |source| Error::Store { doing, source: Box::new(source) }
}
