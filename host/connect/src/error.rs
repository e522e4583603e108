//! Errors of connections between a run and its workers.

use std::path::PathBuf;
use std::time::Duration;

/// Result of an operation on a connection.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a connection between a run and a worker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("cannot {doing}: {source}")]
    System {
        /// Operation that failed, as an infinitive, and its address.
        doing: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The other end closed the connection.
    #[error("the other end closed the connection")]
    Closed,
    /// The other end has sent no byte for longer than the allowed silence, which is the value.
    #[error("the connection is silent: no byte arrived for {}", seconds(.0))]
    Silent(Duration),
    /// A step of the handshake took too long.
    #[error("{what} took longer than {}", seconds(.allowed))]
    Slow {
        /// Step of the handshake.
        what: &'static str,
        /// Maximum duration of the step.
        allowed: Duration,
    },
    /// A message is larger than its limit.
    #[error("{what} of {found} bytes is over the limit of {allowed} bytes")]
    TooLarge {
        /// Name of the message or of its part.
        what: &'static str,
        /// Size that was found or announced, in bytes.
        found: u64,
        /// Maximum size, in bytes.
        allowed: u64,
    },
    /// Bytes that are not a message, or a message that is not allowed at this point.
    #[error("{what}: {reason}")]
    Message {
        /// Name of the message, as far as it is known.
        what: String,
        /// Defect that was found.
        reason: String,
    },
    /// The host does not admit the worker.
    #[error("the host refuses this worker: {reason}")]
    Refused {
        /// Reason of the host.
        reason: String,
        /// True if a later attempt may be admitted.
        again: bool,
    },
    /// The run has ended while the worker waited for a place. The text is the reason of the host.
    #[error("{0}")]
    Ended(String),
    /// The host did not answer the worker's first message.
    #[error("no answer from the run at {address}: {source}; check that the run listens at this address")]
    NoWelcome {
        /// Address of the host.
        address: String,
        /// The error of the last attempt.
        source: Box<Error>,
    },
    /// The file of a token or of a certificate cannot be used.
    #[error("{path}: {reason}", path = path.display())]
    TokenFile {
        /// Path of the file.
        path: PathBuf,
        /// Defect, and what to do.
        reason: String,
    },
    /// Keys or certificates cannot be created or used.
    #[error("cannot {doing}: {reason}")]
    Tls {
        /// Operation that failed, as an infinitive.
        doing: &'static str,
        /// Error text of the TLS library.
        reason: String,
    },
}

fn seconds(time: &Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// Returns true if a stream error means that the other end closed the connection.
pub(crate) fn is_end(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

impl Error {
    /// Returns true if a later attempt to connect may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            // A name or number that is not a valid address will not become one.
            Self::System { source, .. } => source.kind() != std::io::ErrorKind::InvalidInput,
            Self::Refused { again, .. } => *again,
            Self::Closed | Self::Silent(_) | Self::Slow { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        |source| Self::System { doing, source }
    }

    /// Returns the error for a message that is not allowed at this point. `expected` is what is.
    #[must_use]
    pub fn unexpected(what: impl Into<String>, expected: &str) -> Self {
        Self::message(what, format!("expected {expected}"))
    }

    pub(crate) fn message(what: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Message { what: what.into(), reason: reason.to_string() }
    }
}
