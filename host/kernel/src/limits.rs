//! Limits on the resources that a kernel uses.

use std::time::Duration;

/// Resource limits of one kernel instance and of one task. Error messages refer to a limit by the
/// name in parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum linear memory of an instance, in bytes (`guest-memory`).
    pub guest_memory_bytes: u64,
    /// Maximum time that one task spends in guest code (`task-time`). The deadline is checked every
    /// [`Limits::TICK`].
    pub task_time: Duration,
    /// Maximum size of the scratch matrices that a task allocates, in bytes (`matrix-bytes`).
    pub matrix_bytes: u64,
    /// Maximum number of handles that a task has at the same time (`handles`).
    pub handles: u32,
    /// Maximum number of bytes that one host call copies between host and guest (`call-bytes`).
    pub call_bytes: u64,
    /// Maximum number of multiply-add operations in one host call (`call-work`).
    pub call_work: u64,
    /// Maximum time that one host call waits for input rows to arrive (`arrival`).
    pub arrival: Duration,
    /// Maximum number of bytes that a task writes to the log (`log-bytes`). Further lines are
    /// dropped.
    pub log_bytes: u64,
}

impl Limits {
    /// Period of the clock that interrupts guests. It is the resolution of the time limits.
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
