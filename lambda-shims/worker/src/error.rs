//! Errors of a worker: refused invocations, and failures that the kernel did not cause. An error of
//! a kernel is not an [`Error`] but an answer.

/// Result of an operation of the worker.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a worker, which the caller sees as a Lambda function error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An environment variable of the function is missing or invalid.
    #[error("environment variable {variable} of the function: {reason}")]
    Settings {
        /// Name of the variable.
        variable: &'static str,
        /// Value that was found, and the values that are allowed.
        reason: String,
    },
    /// The event is not a valid invocation.
    #[error("the event is not a valid invocation for this version of the worker: {0}")]
    Event(#[source] eciton_transport::Error),
    /// The request's frame, or a frame with shared tensors, is malformed.
    #[error("{place}: {source}")]
    Frame {
        /// Frame and part in which the defect was found.
        place: String,
        /// Error of the frame decoder.
        source: eciton_tensor::Error,
    },
    /// The frame is well-formed, but does not contain a valid task.
    #[error("the request is not valid: {0}")]
    Request(#[source] eciton_kernel::Error),
    /// The task must not access this object.
    #[error("object key `{key}`: {reason}")]
    Key {
        /// Key of the object.
        key: String,
        /// Reason why the key is refused.
        reason: String,
    },
    /// The request exceeds a limit of the worker.
    #[error("limit {limit}: {found} requested, {allowed} allowed")]
    Limit {
        /// Name of the limit.
        limit: &'static str,
        /// Amount that was requested.
        found: u64,
        /// Maximum amount.
        allowed: u64,
    },
    /// The code of the kernel does not exist, is not signed, or is not for this machine.
    #[error("kernel `{kernel}` is refused: {reason}")]
    Kernel {
        /// Name of the kernel.
        kernel: String,
        /// Reason for the refusal.
        reason: String,
    },
    /// An operation of the object store failed.
    #[error("{doing} object `{key}` failed: {source}")]
    Store {
        /// Operation, as a participle: `fetching`, `writing`, ...
        doing: &'static str,
        /// Key of the object.
        key: String,
        /// Error of the store.
        source: Box<eciton_transport::Error>,
    },
    /// An object differs from the description in the invocation, or changed while it was read.
    #[error("object `{key}`: {reason}")]
    Object {
        /// Key of the object.
        key: String,
        /// Expected and found values.
        reason: String,
    },
    /// An operation of the object store exceeded its time limit.
    #[error("{doing} object `{key}` took longer than {limit_ms} ms")]
    Slow {
        /// Operation, as a participle: `fetching`, `writing`, ...
        doing: &'static str,
        /// Key of the object.
        key: String,
        /// Time limit, in milliseconds.
        limit_ms: u64,
    },
    /// More tasks are waiting than the worker accepts.
    #[error("limit waiting tasks: {limit} tasks are already waiting")]
    Busy {
        /// Maximum number of waiting tasks.
        limit: usize,
    },
    /// The kernel host failed. The kernel is not the cause.
    #[error("the kernel host failed: {0}")]
    Host(#[source] eciton_kernel::Error),
    /// The answer cannot be encoded.
    #[error("the answer cannot be encoded: {0}")]
    Answer(#[source] eciton_kernel::Error),
    /// The worker panicked because of a bug. The process continues.
    #[error("the worker panicked while {doing}, which is a bug: {text}")]
    Panic {
        /// Operation that panicked.
        doing: &'static str,
        /// Message of the panic.
        text: String,
    },
}

impl Error {
    /// Returns the type of the function error that the caller sees. A name that starts with
    /// `Eciton.` means that the error would occur again. After a name that starts with `Worker.`, a
    /// retry may succeed ([`Error::is_retryable`]).
    #[must_use]
    pub fn name(&self) -> &'static str {
        let host = self.is_retryable();
        match self {
            Self::Settings { .. } => "Eciton.Settings",
            Self::Event(_) => "Eciton.Event",
            Self::Frame { .. } if host => "Worker.Frame",
            Self::Frame { .. } => "Eciton.Frame",
            Self::Request(_) if host => "Worker.Request",
            Self::Request(_) => "Eciton.Request",
            Self::Key { .. } => "Eciton.Key",
            Self::Limit { .. } => "Eciton.Limit",
            Self::Kernel { .. } => "Eciton.Kernel",
            Self::Answer(_) if host => "Worker.Answer",
            Self::Answer(_) => "Eciton.Answer",
            Self::Store { .. } if host => "Worker.Store",
            Self::Store { .. } => "Eciton.Store",
            Self::Object { .. } => "Eciton.Object",
            Self::Slow { .. } => "Worker.Slow",
            Self::Busy { .. } => "Worker.Busy",
            Self::Host(_) if host => "Worker.Kernel",
            Self::Host(_) => "Eciton.Host",
            Self::Panic { .. } => "Worker.Panic",
        }
    }

    /// Returns true if a retry of the same invocation may succeed, on this or on another instance.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Slow { .. } | Self::Busy { .. } | Self::Panic { .. } => true,
            Self::Store { source, .. } => source.is_retryable(),
            // Bytes that were lost or changed may arrive complete the next time.
            Self::Frame { source, .. } => {
                use eciton_tensor::Error::{Damaged, NotArrived};
                matches!(source, Damaged { .. } | NotArrived { .. })
            }
            Self::Host(source) | Self::Request(source) | Self::Answer(source) => source.is_retryable(),
            _ => false,
        }
    }
}
