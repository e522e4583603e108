//! Errors of deployments.

use std::path::PathBuf;

/// Result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a deployment. Its message says what to install or which option to change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file, a folder or a program cannot be accessed.
    #[error("{path}: cannot be {doing}: {source}", path = path.display())]
    File {
        /// Path of the file, folder or program.
        path: PathBuf,
        /// Failed operation, as a past participle for the message, for instance `read`.
        doing: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file has unexpected content.
    #[error("{path}: {reason}", path = path.display())]
    Content {
        /// Path of the file or folder.
        path: PathBuf,
        /// Description of the problem, and what the user can do about it.
        reason: String,
    },
    /// AWS Lambda cannot run the worker binary.
    #[error("{path}: not a worker for functions: {reason}", path = path.display())]
    Worker {
        /// Path of the binary.
        path: PathBuf,
        /// Description of the problem, and what the user can do about it.
        reason: String,
    },
    /// A tool that the deployment needs is not installed.
    #[error("`{tool}` is not installed: {remedy}")]
    NoTool {
        /// Name of the tool.
        tool: &'static str,
        /// Instruction for the user to install the tool.
        remedy: &'static str,
    },
    /// A tool, for instance `sam`, failed.
    #[error("`{command}` failed ({status}){hint}\n{tail}")]
    Tool {
        /// Command line of the tool.
        command: String,
        /// Exit status of the tool.
        status: String,
        /// Hint for the user. Empty if the cause is not known.
        hint: &'static str,
        /// Last lines of the tool's output.
        tail: String,
    },
    /// AWS refused a request, or could not be reached.
    #[error("{operation}: {message}{hint}")]
    Aws {
        /// Failed AWS operation, for instance `Lambda GetAccountSettings`.
        operation: String,
        /// Error code and message of the AWS service.
        message: String,
        /// Hint for the user. Empty if the cause is not known.
        hint: &'static str,
    },
    /// This build has no AWS clients.
    #[cfg(not(feature = "aws"))]
    #[error(transparent)]
    NoAws(#[from] eciton_cloud::NoAws),
    /// The operation is not possible with the given options. The text says why, and what the user
    /// can do.
    #[error("{0}")]
    Choice(String),
    /// Error of a deployment file, a worker binary or the price list.
    #[error(transparent)]
    Functions(#[from] eciton_cloud::Error),
    /// Error of a kernel, or of the key with which kernels are signed.
    #[error(transparent)]
    Kernel(#[from] eciton_kernel::Error),
    /// Error of the object store that holds the objects of runs.
    #[error(transparent)]
    Store(#[from] eciton_transport::Error),
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>, doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, doing, source }
    }
}
