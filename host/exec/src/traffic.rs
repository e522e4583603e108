//! Message counts of a worker process.

use serde::{Deserialize, Serialize};

/// Counts of the tasks and bytes exchanged between the host and one worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Index of the worker.
    pub place: u32,
    /// Number of tasks that the worker has answered.
    pub tasks: u64,
    /// Total size of the messages from the host to the worker, in bytes.
    pub bytes_out: u64,
    /// Total size of the messages from the worker to the host, in bytes.
    pub bytes_in: u64,
    /// Bytes of weights and other shared objects, which are included in `bytes_out`.
    pub object_bytes: u64,
    /// Bytes of the rows and weights of tasks, which are included in `bytes_out`.
    pub values_out: u64,
    /// Bytes of the rows, gradients and losses in answers, which are included in `bytes_in`.
    pub values_in: u64,
    /// Bytes of rows, and of gradients for replicas, that the worker has sent directly to other
    /// workers.
    pub values_passed: u64,
    /// Number of times that a worker with this index failed.
    pub lost: u32,
}
