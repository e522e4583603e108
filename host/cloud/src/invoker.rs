//! Invokers, which send requests to a cloud function and wait for its replies.

use std::future::Future;

use bytes::Bytes;

/// Reply of a function, and the number of requests that were necessary.
#[derive(Debug, Clone)]
pub struct Invoked {
    /// JSON document that the function returned.
    pub payload: Bytes,
    /// Charge for the invocation, if the service reported one.
    pub charge: Option<Charge>,
    /// Number of requests, at least 1. More were sent after throttling or broken connections.
    pub requests: u64,
    /// Number of these requests that were throttled.
    pub throttled: u64,
}

/// Charge for one invocation, from the `REPORT` line of the function's log.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Charge {
    /// Time charged, in whole milliseconds.
    pub billed_ms: u64,
    /// Time that the handler of the function took, in milliseconds.
    pub duration_ms: f64,
    /// Duration of the cold start, in milliseconds. `None` if a running process handled the
    /// request.
    pub init_ms: Option<f64>,
    /// Memory of the function, in MiB.
    pub memory_mb: u32,
    /// Maximum memory that the function used, in MiB.
    pub used_mb: u32,
}

/// Reason why an invocation has no reply.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum InvokeError {
    /// The service refused the request or could not be reached, in all attempts.
    #[error("{operation}: {message} ({requests} requests)")]
    Service {
        /// The operation, for instance `Invoke eciton-worker-1769`.
        operation: String,
        /// Error code and text of the service.
        message: String,
        /// True if another attempt may succeed.
        retryable: bool,
        /// Number of requests made.
        requests: u64,
        /// Number of these requests that were throttled.
        throttled: u64,
    },
    /// The function failed: it crashed, reached its time limit, or refused the request.
    #[error("function {function}: {kind}: {message}")]
    Function {
        /// Name of the function.
        function: String,
        /// Type of the error, for instance `Runtime.ExitError`.
        kind: String,
        /// Error text of the service.
        message: String,
        /// True if another attempt may succeed.
        retryable: bool,
        /// Charge in spite of the error, if it is known.
        charge: Option<Charge>,
        /// Number of requests made.
        requests: u64,
        /// Number of these requests that were throttled.
        throttled: u64,
    },
}

impl InvokeError {
    /// Returns true if another attempt may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Service { retryable, .. } | Self::Function { retryable, .. } => *retryable,
        }
    }

    /// Returns the number of requests, and how many of them were throttled.
    #[must_use]
    pub fn requests(&self) -> (u64, u64) {
        match self {
            Self::Service { requests, throttled, .. } | Self::Function { requests, throttled, .. } => {
                (*requests, *throttled)
            }
        }
    }

    /// Returns the charge for the failed invocation, if the service reported one.
    #[must_use]
    pub fn charge(&self) -> Option<Charge> {
        match self {
            Self::Function { charge, .. } => *charge,
            Self::Service { .. } => None,
        }
    }
}

/// Client that sends requests to one function. If the caller drops a future, it no longer gets the
/// reply, but the function may run to its end and is charged.
pub trait Invoker: Send + Sync + 'static {
    /// Sends a request with the JSON document `payload`, and waits for the reply.
    fn invoke(&self, payload: Bytes) -> impl Future<Output = Result<Invoked, InvokeError>> + Send;
}
