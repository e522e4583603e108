//! Errors of transports: names, sizes, envelopes and services.

use std::ops::Range;
use std::path::PathBuf;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such object.
    #[error("{operation}: there is no object {key}")]
    NotFound {
        /// The operation of the store.
        operation: &'static str,
        /// The object.
        key: String,
    },
    /// Something is larger than its stated limit.
    #[error("{what} of {found} bytes is over the limit of {allowed} bytes")]
    TooLarge {
        /// Name of the object or message that is too large.
        what: String,
        /// Bytes found, or claimed.
        found: u64,
        /// Bytes allowed.
        allowed: u64,
    },
    /// A text that is not a key.
    #[error("object key {key:?}: {reason}")]
    Key {
        /// The text, shortened if it is long.
        key: String,
        /// The value found, and the values allowed.
        reason: String,
    },
    /// A range that has no bytes.
    #[error("bytes {}..{} of object {key}: {reason}", .range.start, .range.end)]
    Range {
        /// The object.
        key: String,
        /// The bytes asked for.
        range: Range<u64>,
        /// Inverted, or behind the end.
        reason: String,
    },
    /// An event or answer of the function that is not one.
    #[error("{what}: {reason}")]
    Envelope {
        /// Invocation or reply.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// The service refused, failed, or could not be reached.
    #[error("{operation} {key}: {code}: {message}")]
    Service {
        /// The operation of the store.
        operation: &'static str,
        /// The object or prefix.
        key: String,
        /// The service's error code, or ours in its place.
        code: String,
        /// Message of the service.
        message: String,
        /// True if the same request may succeed later.
        retryable: bool,
    },
    /// The service did not answer in time.
    #[error("{operation} {key}: no answer in time: {reason}")]
    Timeout {
        /// The operation of the store.
        operation: &'static str,
        /// The object or prefix.
        key: String,
        /// The time limit that passed.
        reason: String,
    },
    /// A folder store's file system failed.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// The operation of the store.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A setting that cannot be.
    #[error("{name}: {reason}")]
    Settings {
        /// The setting.
        name: &'static str,
        /// The value found, and the values allowed.
        reason: String,
    },
    /// Bytes that came are not the tensor that was announced.
    #[error("object {key}: {source}")]
    Frame {
        /// The object.
        key: String,
        /// The frame's complaint.
        source: eciton_tensor::Error,
    },
    /// Whoever took the bytes wants no more of them.
    #[error("object {key}: {reason}")]
    Refused {
        /// The object.
        key: String,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// Returns whether the same operation may succeed later. The store has retried already, within
    /// its limits. A caller uses this to decide on another attempt at the task.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Service { retryable, .. } => *retryable,
            Self::Timeout { .. } => true,
            // Bytes that changed on the way may come unchanged the next time.
            Self::Frame { source, .. } => matches!(source, eciton_tensor::Error::Damaged { .. }),
            _ => false,
        }
    }

    /// Returns whether the object may be absent. S3 answers `AccessDenied` for an absent object if
    /// the role may not list the bucket.
    #[must_use]
    pub fn may_be_absent(&self) -> bool {
        match self {
            Self::Service { code, .. } => code == "AccessDenied",
            other => other.is_not_found(),
        }
    }

    /// Returns whether the service reports that the object does not exist.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// At most 80 characters of a text from outside, for a message.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}... ({} bytes)", &text[..at], text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_was_asked_and_whether_to_try_again() {
        let busy = Error::Service {
            operation: "put",
            key: "runs/a".into(),
            code: "SlowDown".into(),
            message: "reduce your rate".into(),
            retryable: true,
        };
        assert_eq!(busy.to_string(), "put runs/a: SlowDown: reduce your rate");
        assert!(busy.is_retryable());
        let gone = Error::NotFound { operation: "get", key: "runs/b".into() };
        assert!(!gone.is_retryable() && gone.is_not_found());
        let range = Error::Range { key: "k".into(), range: 3..5, reason: "the object has 2 bytes".into() };
        assert_eq!(range.to_string(), "bytes 3..5 of object k: the object has 2 bytes");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        let long = "\u{e9}".repeat(100);
        assert_eq!(shortened(&long), format!("{}... (200 bytes)", "\u{e9}".repeat(80)));
    }
}
