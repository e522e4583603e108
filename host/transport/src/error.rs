//! Errors of object stores and envelopes.

use std::ops::Range;
use std::path::PathBuf;

/// Result of an operation on an object store or an envelope.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of an object store or an envelope.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object does not exist.
    #[error("{operation}: object {key} does not exist")]
    NotFound {
        /// Operation of the store.
        operation: &'static str,
        /// Key of the object.
        key: String,
    },
    /// An object or a message exceeds its size limit.
    #[error("{what} of {found} bytes is over the limit of {allowed} bytes")]
    TooLarge {
        /// Name of the object or message that is too large.
        what: String,
        /// Size that was found or announced, in bytes.
        found: u64,
        /// Maximum size, in bytes.
        allowed: u64,
    },
    /// A text that is not an object key.
    #[error("object key {key:?}: {reason}")]
    Key {
        /// Text that was given, shortened if it is long.
        key: String,
        /// The value found, and the values allowed.
        reason: String,
    },
    /// A byte range that is inverted or starts beyond the end of the object.
    #[error("bytes {}..{} of object {key}: {reason}", .range.start, .range.end)]
    Range {
        /// Key of the object.
        key: String,
        /// Byte range that was requested.
        range: Range<u64>,
        /// Description of the defect.
        reason: String,
    },
    /// An event or answer of a function is malformed.
    #[error("{what}: {reason}")]
    Envelope {
        /// Name of the message: event or answer.
        what: &'static str,
        /// Defect that was found.
        reason: String,
    },
    /// The storage service refused a request, failed, or could not be reached.
    #[error("{operation} {key}: {code}: {message}")]
    Service {
        /// Operation of the store.
        operation: &'static str,
        /// Key of the object, or prefix of keys.
        key: String,
        /// Error code of the service, or a code of this crate if there is none.
        code: String,
        /// Message of the service.
        message: String,
        /// True if the same request may succeed later.
        retryable: bool,
    },
    /// The storage service did not answer in time.
    #[error("{operation} {key}: the service did not answer in time: {reason}")]
    Timeout {
        /// Operation of the store.
        operation: &'static str,
        /// Key of the object, or prefix of keys.
        key: String,
        /// Time limit that was exceeded.
        reason: String,
    },
    /// The file system of a folder store failed.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// Operation of the store.
        operation: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A setting has an invalid value.
    #[error("{name}: {reason}")]
    Settings {
        /// Name of the setting.
        name: &'static str,
        /// The value found, and the values allowed.
        reason: String,
    },
    /// The bytes of an object are not the tensor that was expected.
    #[error("object {key}: {source}")]
    Frame {
        /// Key of the object.
        key: String,
        /// Error of the frame decoder.
        source: eciton_tensor::Error,
    },
    /// The receiver of the bytes stopped the transfer.
    #[error("object {key}: {reason}")]
    Refused {
        /// Key of the object.
        key: String,
        /// Reason of the receiver.
        reason: String,
    },
}

impl Error {
    /// Returns true if the same operation may succeed later. The store has already retried it,
    /// within its limits. A caller decides with this whether to start another attempt at the task.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Service { retryable, .. } => *retryable,
            Self::Timeout { .. } => true,
            // Bytes that were changed in transit may arrive unchanged the next time.
            Self::Frame { source, .. } => matches!(source, eciton_tensor::Error::Damaged { .. }),
            _ => false,
        }
    }

    /// Returns true if the object may not exist. S3 returns `AccessDenied` for an object that does
    /// not exist if the role may not list the bucket.
    #[must_use]
    pub fn may_be_absent(&self) -> bool {
        match self {
            Self::Service { code, .. } => code == "AccessDenied",
            other => other.is_not_found(),
        }
    }

    /// Returns true if the object does not exist, according to the service.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// Returns `text`, truncated to 80 characters. Error messages use it for texts from outside.
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
