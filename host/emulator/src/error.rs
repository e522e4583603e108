//! Errors of starting and controlling the emulator. Errors of the emulated services go to their
//! clients, in AWS's format.

use std::path::PathBuf;

/// A failure of the emulator itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting that cannot be used.
    #[error("setting `{setting}`: found {found}; allowed: {allowed}")]
    Setting {
        /// The setting's name, as in [`Settings`](crate::Settings).
        setting: &'static str,
        /// The value found.
        found: String,
        /// The values allowed.
        allowed: String,
    },
    /// A function's program is not there or cannot be run.
    #[error("function `{function}`: program {}: {reason}; build the worker first, or name another file", program.display())]
    Program {
        /// The function.
        function: String,
        /// The file that was looked at.
        program: PathBuf,
        /// Why it cannot be used.
        reason: String,
    },
    /// The operating system refused a socket, a thread or a process.
    #[error("{operation}: {source}")]
    System {
        /// The operation.
        operation: &'static str,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The emulator has been stopped.
    #[error("the emulator has stopped; start another")]
    Stopped,
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
