//! Why an invocation is refused, or failed without being the kernel's fault. What a kernel does
//! wrong is not here: it is an answer.

/// The result of an invocation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the worker; in Lambda's terms a function error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting of the function is missing or wrong.
    #[error("the function's environment: {variable}: {reason}")]
    Settings {
        /// Which.
        variable: &'static str,
        /// What was found and what is needed.
        reason: String,
    },
    /// The event is not an invocation.
    #[error("the event is not an invocation of this version: {0}")]
    Event(#[source] eciton_transport::Error),
    /// The frame, or a constant frame that it names, is malformed.
    #[error("{place}: {source}")]
    Frame {
        /// Which frame, which part.
        place: String,
        /// What is wrong.
        source: eciton_tensor::Error,
    },
    /// The frame is well-formed, but what it asks for is not a task.
    #[error("the request: {0}")]
    Request(#[source] eciton_kernel::Error),
    /// A key that this task has no business with.
    #[error("object key `{key}`: {reason}")]
    Key {
        /// What was asked for.
        key: String,
        /// Why it is refused.
        reason: String,
    },
    /// A stated limit of the worker.
    #[error("limit {limit}: {found} asked for, {allowed} allowed")]
    Limit {
        /// Which.
        limit: &'static str,
        /// What was asked for.
        found: u64,
        /// What is allowed.
        allowed: u64,
    },
    /// The kernel's code is not there, not signed, or not for this machine.
    #[error("kernel `{kernel}` is refused: {reason}")]
    Kernel {
        /// Its name.
        kernel: String,
        /// Why.
        reason: String,
    },
    /// The object store.
    #[error("{doing} `{key}`: {source}")]
    Store {
        /// `fetching`, `writing`, ...
        doing: &'static str,
        /// Which object.
        key: String,
        /// Why.
        source: Box<eciton_transport::Error>,
    },
    /// An object is not what the invocation says, or changed while it was read.
    #[error("object `{key}`: {reason}")]
    Object {
        /// Which.
        key: String,
        /// Both sides of the mismatch.
        reason: String,
    },
    /// An operation of the store took too long.
    #[error("{doing} `{key}` was not done within {limit_ms} ms")]
    Slow {
        /// `fetching`, `writing`, ...
        doing: &'static str,
        /// Which object.
        key: String,
        /// The limit.
        limit_ms: u64,
    },
    /// More invocations at once than a worker takes.
    #[error("limit waiting tasks: {limit} wait already")]
    Busy {
        /// How many may wait.
        limit: usize,
    },
    /// The kernel host failed, not the kernel.
    #[error("the kernel host: {0}")]
    Host(#[source] eciton_kernel::Error),
    /// The answer cannot be written down.
    #[error("the answer: {0}")]
    Answer(#[source] eciton_kernel::Error),
    /// A panic: a bug of the worker. The process goes on.
    #[error("a bug of the worker, while {doing}: {text}")]
    Panic {
        /// What it was doing.
        doing: &'static str,
        /// The panic's text.
        text: String,
    },
}

impl Error {
    /// The error type that the caller of a function sees: `Eciton.*` for what will be refused again,
    /// `Worker.*` for what may pass when it is tried again ([`Error::is_retryable`]).
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

    /// Whether the same invocation may succeed if it is tried again, here or on another instance.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Slow { .. } | Self::Busy { .. } | Self::Panic { .. } => true,
            Self::Store { source, .. } => source.is_retryable(),
            // Bytes that were lost or changed may come whole the next time.
            Self::Frame { source, .. } => {
                use eciton_tensor::Error::{Damaged, NotArrived};
                matches!(source, Damaged { .. } | NotArrived { .. })
            }
            Self::Host(source) | Self::Request(source) | Self::Answer(source) => source.is_retryable(),
            _ => false,
        }
    }
}
