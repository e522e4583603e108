//! Message counts of a worker process.

use serde::{Deserialize, Serialize};

/// Counts of the messages between the host and one worker, in tasks and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Index of the worker.
    pub place: u32,
    /// Number of tasks that the worker has answered.
    pub tasks: u64,
    /// Bytes of all messages from the host to the worker.
    pub bytes_out: u64,
    /// Bytes of all messages from the worker to the host.
    pub bytes_in: u64,
    /// Bytes of weights and other shared objects, which `bytes_out` includes.
    pub object_bytes: u64,
    /// Bytes of the rows and weights of tasks, which `bytes_out` includes.
    pub values_out: u64,
    /// Bytes of rows, gradients and losses in answers, which `bytes_in` includes.
    pub values_in: u64,
    /// Bytes of rows, and of gradients for replicas, that the worker has sent to other workers.
    pub values_passed: u64,
    /// Number of times that the worker failed.
    pub lost: u32,
}
