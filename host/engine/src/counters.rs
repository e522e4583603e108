//! What an engine has seen.

/// Counts since the engine was made; a restart keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Gathers asked for.
    pub gathers: u64,
    /// Tasks submitted, without retries.
    pub tasks: u64,
    /// Further attempts at a task.
    pub retries: u64,
    /// Answers committed: one for each task that was not given up.
    pub committed: u64,
    /// Updates of the weights.
    pub updates: u64,
    /// Failures reported of the newest attempt at a step.
    pub failures: u64,
    /// Answers and failures dropped because the step, of this epoch, was done already or another
    /// attempt had taken over.
    pub duplicates: u64,
    /// Answers and failures dropped because their epoch, or the run, was over.
    pub late: u64,
    /// Events dropped because nothing had been asked that they could answer. Above 0: the driver has
    /// a defect.
    pub unexpected: u64,
}
