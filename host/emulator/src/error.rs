//! Errors when the emulator is started or controlled. The emulated services report their own errors
//! to clients in the format of AWS.

use std::path::PathBuf;

/// Error of the emulator itself, not of an emulated service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting has an invalid value.
    #[error("setting `{setting}`: found {found}, expected {allowed}")]
    Setting {
        /// Name of the setting, as in [`Settings`](crate::Settings).
        setting: &'static str,
        /// Value that was found.
        found: String,
        /// Values that are allowed.
        allowed: String,
    },
    /// The program of a function does not exist or cannot be run.
    #[error("function `{function}`: cannot run the program {}: {reason}; build the worker first, or set the path of another program", program.display())]
    Program {
        /// Name of the function.
        function: String,
        /// Path of the program.
        program: PathBuf,
        /// Reason why the program cannot be used.
        reason: String,
    },
    /// The operating system refused a socket, a thread or a process.
    #[error("cannot {operation}: {source}")]
    System {
        /// Operation that failed, as an infinitive.
        operation: &'static str,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The emulator has been stopped.
    #[error("the emulator has stopped; start a new one")]
    Stopped,
}

/// Result of an operation on the emulator.
pub type Result<T, E = Error> = std::result::Result<T, E>;
