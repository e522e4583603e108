//! An invoker: one request to a function, one reply.

use std::future::Future;

use bytes::Bytes;

/// A reply.
#[derive(Debug, Clone)]
pub struct Invoked {
    /// The function's JSON.
    pub payload: Bytes,
    /// Charge of the service, if it reports one.
    pub charge: Option<Charge>,
    /// Requests that it took, retries of throttled and broken ones included; at least 1.
    pub requests: u64,
    /// Number of these attempts that were throttled.
    pub throttled: u64,
}

/// Charge of one invocation, from the REPORT line of its log.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Charge {
    /// Milliseconds charged, whole ones.
    pub billed_ms: u64,
    /// Milliseconds that the handler took.
    pub duration_ms: f64,
    /// Milliseconds that a cold start took; `None`: it was warm.
    pub init_ms: Option<f64>,
    /// The function's size, MiB.
    pub memory_mb: u32,
    /// The most that it used, MiB.
    pub used_mb: u32,
}

/// Why a request had no reply.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum InvokeError {
    /// The service refused it, or could not be reached, as often as it was tried.
    #[error("{operation}: {message} ({requests} requests)")]
    Service {
        /// For instance `Invoke eciton-worker-1769`.
        operation: String,
        /// Code and text.
        message: String,
        /// True if another attempt can end otherwise.
        retryable: bool,
        /// Requests made.
        requests: u64,
        /// Number of these attempts that were throttled.
        throttled: u64,
    },
    /// The function failed: it crashed, ran into its time limit, or refused the request.
    #[error("function {function}: {kind}: {message}")]
    Function {
        /// Its name.
        function: String,
        /// For instance `Runtime.ExitError`.
        kind: String,
        /// Message of the service.
        message: String,
        /// True if another attempt can end otherwise.
        retryable: bool,
        /// Charge in spite of the error, if it is known.
        charge: Option<Charge>,
        /// Requests made.
        requests: u64,
        /// Number of these attempts that were throttled.
        throttled: u64,
    },
}

impl InvokeError {
    /// Returns whether another attempt can end otherwise.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Service { retryable, .. } | Self::Function { retryable, .. } => *retryable,
        }
    }

    /// Returns the number of requests, and the number of these that were throttled.
    #[must_use]
    pub fn requests(&self) -> (u64, u64) {
        match self {
            Self::Service { requests, throttled, .. } | Self::Function { requests, throttled, .. } => {
                (*requests, *throttled)
            }
        }
    }

    /// Returns the charge, if the service reported one.
    #[must_use]
    pub fn charge(&self) -> Option<Charge> {
        match self {
            Self::Function { charge, .. } => *charge,
            Self::Service { .. } => None,
        }
    }
}

/// Sends requests to one function. Dropping the future gives a request up; the function may still
/// run to its end, and is charged.
pub trait Invoker: Send + Sync + 'static {
    /// One request. `payload` is JSON.
    fn invoke(&self, payload: Bytes) -> impl Future<Output = Result<Invoked, InvokeError>> + Send;
}
