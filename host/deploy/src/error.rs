//! Errors of deployments.

use std::path::PathBuf;

/// Result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a deployment, which says what to install or to set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read or written.
    #[error("{path}: cannot be {doing}: {source}", path = path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Operation that failed, as a participle: `read`, `written`, ...
        doing: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file has unexpected content.
    #[error("{path}: {reason}", path = path.display())]
    Content {
        /// Path of the file or folder.
        path: PathBuf,
        /// Problem that was found, and what to do.
        reason: String,
    },
    /// Functions cannot run the worker binary.
    #[error("{path}: not a worker for functions: {reason}", path = path.display())]
    Worker {
        /// Path of the binary.
        path: PathBuf,
        /// Problem that was found, and what to do.
        reason: String,
    },
    /// A tool is not installed.
    #[error("`{tool}` is not installed: {remedy}")]
    NoTool {
        /// Name of the tool.
        tool: &'static str,
        /// Instruction to install it.
        remedy: &'static str,
    },
    /// A tool failed.
    #[error("`{command}` failed ({status}){hint}\n{tail}")]
    Tool {
        /// Command line.
        command: String,
        /// Exit status of the tool.
        status: String,
        /// Hint for the user. Empty if the cause is not known.
        hint: &'static str,
        /// Last lines that the tool printed.
        tail: String,
    },
    /// AWS refused a request, or could not be reached.
    #[error("{operation}: {message}{hint}")]
    Aws {
        /// Operation, for instance `Lambda GetAccountSettings`.
        operation: String,
        /// Error code and message of the service.
        message: String,
        /// Hint for the user. Empty if the cause is not known.
        hint: &'static str,
    },
    /// This build has no AWS clients.
    #[cfg(not(feature = "aws"))]
    #[error(transparent)]
    NoAws(#[from] eciton_cloud::NoAws),
    /// An option has an invalid value. The text names the option.
    #[error("{0}")]
    Choice(String),
    /// Error in a deployment file, the worker's program, or the price list, which runs use as well.
    #[error(transparent)]
    Functions(#[from] eciton_cloud::Error),
    /// Error of a kernel, or of the key that signs kernels.
    #[error(transparent)]
    Kernel(#[from] eciton_kernel::Error),
    /// Error of the object store.
    #[error(transparent)]
    Store(#[from] eciton_transport::Error),
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>, doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, doing, source }
    }
}
