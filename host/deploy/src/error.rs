//! Errors of deployments.

use std::path::PathBuf;

/// The result of deploying and of what is around it.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of deploying; it says what to install or to set.
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
    /// A worker binary that functions cannot run.
    #[error("{path}: not a worker for functions: {reason}", path = path.display())]
    Worker {
        /// The file.
        path: PathBuf,
        /// The value found, and the remedy.
        reason: String,
    },
    /// A tool that is not installed.
    #[error("`{tool}` is not installed: {remedy}")]
    NoTool {
        /// Its name.
        tool: &'static str,
        /// The way to install it.
        remedy: &'static str,
    },
    /// A tool that failed.
    #[error("`{command}` failed ({status}){hint}\n{tail}")]
    Tool {
        /// The command line.
        command: String,
        /// Its exit status.
        status: String,
        /// The remedy, if it is known.
        hint: &'static str,
        /// The end of what it said.
        tail: String,
    },
    /// AWS refused a request, or could not be reached.
    #[error("{operation}: {message}{hint}")]
    Aws {
        /// For instance `Lambda GetAccountSettings`.
        operation: String,
        /// Code and text of the service.
        message: String,
        /// The remedy, if it is known.
        hint: &'static str,
    },
    /// This build has no clients of AWS.
    #[cfg(not(feature = "aws"))]
    #[error(transparent)]
    NoAws(#[from] eciton_exec::NoAws),
    /// A choice that cannot be.
    #[error("{0}")]
    Choice(String),
    /// An error of the parts that runs need as well: a deployment's file, the worker's program, or
    /// the price list.
    #[error(transparent)]
    Functions(#[from] eciton_exec::functions::Error),
    /// A kernel, or the key that signs it.
    #[error(transparent)]
    Kernel(#[from] eciton_kernel::Error),
    /// The object store.
    #[error(transparent)]
    Store(#[from] eciton_transport::Error),
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>, doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, doing, source }
    }
}
