//! Limits on the resources that a kernel uses.

use std::time::Duration;

/// Bounds on one instance and on one task. Names are those that errors quote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of an instance, bytes (`guest-memory`).
    pub guest_memory_bytes: u64,
    /// Time in guest code for one task (`task-time`); checked every [`Limits::TICK`].
    pub task_time: Duration,
    /// Scratch matrices that a task makes, bytes (`matrix-bytes`).
    pub matrix_bytes: u64,
    /// Handles alive in a task (`handles`).
    pub handles: u32,
    /// Bytes copied by one call of the host (`call-bytes`).
    pub call_bytes: u64,
    /// Multiply-adds of one call of the host (`call-work`).
    pub call_work: u64,
    /// Time that one call waits for rows to arrive (`arrival`).
    pub arrival: Duration,
    /// Bytes that a task may write to the log (`log-bytes`).
    pub log_bytes: u64,
}

impl Limits {
    /// Period of the clock that interrupts guests.
    pub const TICK: Duration = Duration::from_millis(10);
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            guest_memory_bytes: 256 << 20,
            task_time: Duration::from_secs(60),
            matrix_bytes: 4 << 30,
            handles: 4096,
            call_bytes: 64 << 20,
            call_work: 1 << 44,
            arrival: Duration::from_secs(60),
            log_bytes: 64 << 10,
        }
    }
}
