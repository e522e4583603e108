//! Errors of deployments, emulated accounts and functions.

use std::path::PathBuf;

/// Result of an operation on the functions of a run.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a deployment, an emulated account, or a function.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be used.
    #[error("{path}: cannot be {doing}: {source}", path = path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// The operation that failed: `read`, `written` and so on.
        doing: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file exists, but its content is not valid.
    #[error("{path}: {reason}", path = path.display())]
    Content {
        /// Path of the file or folder.
        path: PathBuf,
        /// The content found, and the remedy.
        reason: String,
    },
    /// There is no deployment file of this name.
    #[error("there is no deployment `{name}` ({path} does not exist){known}; create it with `eciton deploy --stack {name}`", path = path.display())]
    NoDeployment {
        /// The name requested.
        name: String,
        /// Path that the file would have.
        path: PathBuf,
        /// List of existing deployments, `; existing deployments: a, b`, or empty.
        known: String,
    },
    /// The binary of a worker or trainer cannot be found.
    #[error(
        "no {program} binary found ({tried}): build it in the repository of Eciton with `cargo build --locked --profile worker -p eciton-{program}`, or set its path with {names}"
    )]
    NoWorker {
        /// `worker` or `trainer`.
        program: &'static str,
        /// Settings that may name the file.
        names: &'static str,
        /// The paths that were tried.
        tried: String,
    },
    /// A setting or a choice of the user is not valid. The text says why.
    #[error("{0}")]
    Choice(String),
    /// This build has no clients of AWS.
    #[error(transparent)]
    NoAws(#[from] crate::no_aws::NoAws),
    /// The stand-in for AWS cannot be started.
    #[cfg(feature = "aws")]
    #[error("the emulator of AWS cannot be used: {0}")]
    Emulator(Box<eciton_emulator::Error>),
    /// A kernel cannot be compiled or signed.
    #[error(transparent)]
    Kernel(Box<eciton_kernel::Error>),
    /// A request to the object store failed.
    #[error("cannot {doing}: {source}")]
    Store {
        /// The operation that failed, as an infinitive.
        doing: String,
        /// Error of the object store.
        source: Box<eciton_transport::Error>,
    },
    /// Functions lack a kernel, and nobody on this machine can sign it.
    #[error(
        "the functions of stack `{stack}` cannot run kernel `{kernel}`: {found}, and {key}; the person who \
         deployed the stack can add the kernel with `eciton deploy --kernel {kernel}=FILE.wasm`"
    )]
    Unsigned {
        /// Name of the kernel.
        kernel: String,
        /// Name of the deployment's stack.
        stack: String,
        /// Description of what the bucket contains in its place.
        found: String,
        /// Reason why the kernel cannot be signed here.
        key: String,
    },
    /// No kernel can be compiled ahead of time for this processor.
    #[error(
        "functions run code compiled for x86-64-v3 (AVX2 and FMA) or neoverse-n1, but this processor supports neither; use --executor local"
    )]
    Processor,
    /// The operating system refuses a folder or thread.
    #[error("cannot {doing}: {source}")]
    System {
        /// The operation that failed, as an infinitive.
        doing: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns a function that converts an I/O error, with the path and the operation that failed.
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

/// Returns a function that converts an error of the operating system, with the operation that
/// failed.
pub fn system(doing: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::System { doing, source }
}

/// Returns a function that converts an error of the object store, with the operation that failed.
#[cfg(feature = "aws")]
pub fn at_store(doing: impl Into<String>) -> impl FnOnce(eciton_transport::Error) -> Error {
    let doing = doing.into();
    move |source| Error::Store { doing, source: Box::new(source) }
}
