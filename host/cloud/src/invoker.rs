//! Invokers, which send a request to a function and wait for its reply.

use std::future::Future;

use bytes::Bytes;

/// Reply of a function, and the requests that it took.
#[derive(Debug, Clone)]
pub struct Invoked {
    /// JSON document that the function returned.
    pub payload: Bytes,
    /// Charge of the invocation, if the service reports one.
    pub charge: Option<Charge>,
    /// Number of requests, including retries after throttling and broken connections; at least 1.
    pub requests: u64,
    /// Number of these requests that were throttled.
    pub throttled: u64,
}

/// Charge of one invocation, from the REPORT line of its log.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Charge {
    /// Time charged, in whole milliseconds.
    pub billed_ms: u64,
    /// Time that the handler took, in milliseconds.
    pub duration_ms: f64,
    /// Time that the cold start took, in milliseconds. `None` if a running process took the
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
    /// Returns whether another attempt may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Service { retryable, .. } | Self::Function { retryable, .. } => *retryable,
        }
    }

    /// Returns the number of requests, and the number of them that were throttled.
    #[must_use]
    pub fn requests(&self) -> (u64, u64) {
        match self {
            Self::Service { requests, throttled, .. } | Self::Function { requests, throttled, .. } => {
                (*requests, *throttled)
            }
        }
    }

    /// Returns the charge of the failed invocation, if the service reported one.
    #[must_use]
    pub fn charge(&self) -> Option<Charge> {
        match self {
            Self::Function { charge, .. } => *charge,
            Self::Service { .. } => None,
        }
    }
}

/// Client that sends requests to one function. If the caller drops the future, the request is
/// abandoned. The function may still run to its end, and is charged.
pub trait Invoker: Send + Sync + 'static {
    /// Sends one request, whose payload is JSON, and waits for the reply.
    fn invoke(&self, payload: Bytes) -> impl Future<Output = Result<Invoked, InvokeError>> + Send;
}
