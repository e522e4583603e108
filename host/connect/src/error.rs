//! Errors of a connection.

use std::path::PathBuf;
use std::time::Duration;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused something.
    #[error("{doing}: {source}")]
    System {
        /// The operation, and its address.
        doing: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The other end closed the connection.
    #[error("the other end closed the connection")]
    Closed,
    /// No byte arrived for too long.
    #[error("the connection is silent: no byte arrived for {}", seconds(.0))]
    Silent(Duration),
    /// A handshake took too long.
    #[error("{what} took longer than {}", seconds(.allowed))]
    Slow {
        /// The step of the handshake.
        what: &'static str,
        /// The time that it may take.
        allowed: Duration,
    },
    /// A message is larger than its limit.
    #[error("{what} of {found} bytes is over the limit of {allowed} bytes")]
    TooLarge {
        /// A message, or its head.
        what: &'static str,
        /// Bytes claimed.
        found: u64,
        /// Bytes allowed.
        allowed: u64,
    },
    /// Bytes that are no message, or none that belongs here.
    #[error("{what}: {reason}")]
    Message {
        /// The message, as far as it is known.
        what: String,
        /// The fault in it.
        reason: String,
    },
    /// The host does not admit the worker.
    #[error("the host refuses this worker: {reason}")]
    Refused {
        /// The reason.
        reason: String,
        /// A later attempt may be admitted.
        again: bool,
    },
    /// The host did not answer the hello.
    #[error("no welcome from {address}: {source}; check that the run listens there")]
    NoWelcome {
        /// The host's address.
        address: String,
        /// The error of the last attempt.
        source: Box<Error>,
    },
    /// A token's file.
    #[error("{path}: {reason}", path = path.display())]
    TokenFile {
        /// The message, or the file.
        path: PathBuf,
        /// The fault, and the remedy.
        reason: String,
    },
    /// Keys or certificates that cannot be made or used.
    #[error("{doing}: {reason}")]
    Tls {
        /// The operation.
        doing: &'static str,
        /// The reason.
        reason: String,
    },
}

fn seconds(time: &Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// Returns whether an error of a stream means that the other end closed it.
pub(crate) fn is_end(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

impl Error {
    /// Returns whether a later attempt to dial may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            // A name or number that cannot be an address will not be one later.
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

    pub(crate) fn message(what: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Message { what: what.into(), reason: reason.to_string() }
    }
}
