//! Message counts of a worker.

use serde::{Deserialize, Serialize};

/// Messages of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Its index.
    pub place: u32,
    /// Tasks that it has answered.
    pub tasks: u64,
    /// Bytes of all messages to it.
    pub bytes_out: u64,
    /// Bytes of all messages from it.
    pub bytes_in: u64,
    /// The part of `bytes_out` that is weights and other objects.
    pub object_bytes: u64,
    /// The part of `bytes_out` that is values of tasks: rows and weights.
    pub values_out: u64,
    /// The part of `bytes_in` that is values of tasks: rows, gradients and losses.
    pub values_in: u64,
    /// Bytes of values that it has sent to other workers: rows, and gradients for replicas.
    pub values_passed: u64,
    /// Times that it was lost.
    pub lost: u32,
}
