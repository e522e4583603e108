//! Counts of tasks and operations of a run.

/// Counters of one run: tasks, operations, and answers that the run did not use.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    /// Number of tasks submitted, including repeated attempts.
    pub tasks: u64,
    /// Floating-point operations of training steps since the last epoch report.
    pub(super) flops: u64,
    /// Number of passes (runs of the engine) started. It numbers the passes, so that a pass ignores
    /// answers to tasks of earlier passes.
    pub(super) passes: u32,
    /// Number of answers that arrived after the pass that submitted their tasks was over.
    pub late: u64,
    /// Number of tasks in flight that a stop cancelled.
    pub cancelled: u64,
}
