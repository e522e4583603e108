//! Counts of tasks, floating-point operations and unused answers.

/// Counts of the tasks, the floating-point operations and the unused answers of one run.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    /// Number of task attempts submitted so far, including repeated ones.
    pub tasks: u64,
    /// Number of floating-point operations of training steps since the last epoch report.
    pub(super) flops: u64,
    /// Number of passes started so far. A pass is one run of the engine. It uses this number to
    /// ignore answers to tasks of earlier passes.
    pub passes: u32,
    /// Number of answers that arrived after the end of the pass that had submitted their tasks.
    pub late: u64,
    /// Number of tasks in flight that were cancelled because the run stopped.
    pub cancelled: u64,
}
