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
    /// Nothing came for too long.
    #[error("nothing came for {}", seconds(.0))]
    Silent(Duration),
    /// A message took too long.
    #[error("{what} took longer than {}", seconds(.allowed))]
    Slow {
        /// The message, or the file.
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
    /// The host does not let the worker in.
    #[error("the host refuses this worker: {0}")]
    Refused(String),
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

impl Error {
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        |source| Self::System { doing, source }
    }

    pub(crate) fn message(what: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Message { what: what.into(), reason: reason.to_string() }
    }
}
