//! Limits on the resources that a kernel uses.

use std::time::Duration;

/// Bounds on one instance and on one task of a kernel. The name in parentheses is the one that
/// error messages quote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum linear memory of an instance, in bytes (`guest-memory`).
    pub guest_memory_bytes: u64,
    /// Maximum time in guest code for one task (`task-time`). It is checked every [`Limits::TICK`].
    pub task_time: Duration,
    /// Maximum memory for scratch matrices that a task allocates, in bytes (`matrix-bytes`).
    pub matrix_bytes: u64,
    /// Maximum number of live handles in a task (`handles`).
    pub handles: u32,
    /// Maximum number of bytes that one host call copies (`call-bytes`).
    pub call_bytes: u64,
    /// Maximum number of multiply-add operations in one host call (`call-work`).
    pub call_work: u64,
    /// Maximum time that one call waits for input rows to arrive (`arrival`).
    pub arrival: Duration,
    /// Maximum number of bytes that a task writes to the log (`log-bytes`). Further lines are
    /// dropped.
    pub log_bytes: u64,
}

impl Limits {
    /// Period of the clock that interrupts guests. Deadlines are checked with this resolution.
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
