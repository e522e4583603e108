//! Counts of tasks and operations of a run.

/// Counts of one run.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    /// Number of tasks submitted, including repeated attempts.
    pub tasks: u64,
    /// Floating-point operations of training steps since the last epoch report.
    pub(super) flops: u64,
    /// Number of passes started. It numbers the passes, so that answers of one pass do not count in
    /// the next.
    pub(super) passes: u32,
    /// Number of answers that arrived after their pass was over.
    pub late: u64,
    /// Number of tasks in flight that a stop cancelled.
    pub cancelled: u64,
}
