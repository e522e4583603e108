//! What an engine has seen.

/// Counts since the engine was made; a restart keeps them.
///
/// Every attempt at a task ends in one of them, or is still under way:
/// `attempts = committed - recovered + failures + duplicates + late + cancelled + lost + in_flight`
/// ([`Counters::attempts`], [`Counters::in_flight`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Steps of the host asked for. They have one attempt each, which no other counter counts.
    pub host_steps: u64,
    /// Tasks submitted: first attempts.
    pub tasks: u64,
    /// Further attempts after a failure.
    pub retries: u64,
    /// Further attempts after a deadline.
    pub relaunches: u64,
    /// Steps of lanes done again because the worker that kept their rows failed.
    pub again: u64,
    /// Steps of lanes done a second time in advance, by redundant computation.
    pub redundant: u64,
    /// Deadlines that passed for the newest attempt at a step not yet done, relaunched or not.
    pub overdue: u64,
    /// Answers committed: one for each task that was not given up.
    pub committed: u64,
    /// Answers committed of attempts that had been reported failed before, and are in `failures` too.
    pub recovered: u64,
    /// Attempts that failed while their step was not done.
    pub failures: u64,
    /// Attempts answered or failed when another had done the step, in the same round.
    pub duplicates: u64,
    /// Attempts answered or failed when their round, or the run, was over.
    pub late: u64,
    /// Attempts under way when the run was cancelled.
    pub cancelled: u64,
    /// Attempts forgotten unanswered: their engine was restarted, or their step left others behind in
    /// a later round.
    pub lost: u64,
    /// Updates of the weights.
    pub updates: u64,
    /// Events dropped because what they tell was told before or no longer matters: an attempt or
    /// update reported again, a deadline of a step that is done.
    pub ignored: u64,
    /// Events dropped because nothing had been asked that they could answer. Above 0: the driver has
    /// a defect.
    pub unexpected: u64,
}

impl Counters {
    /// Returns the number of launched attempts: first ones, retries, relaunches, and those at steps
    /// that were done.
    #[must_use]
    pub const fn attempts(&self) -> u64 {
        self.tasks + self.retries + self.relaunches + self.again + self.redundant
    }

    /// Attempts launched that nothing is known of yet.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        let answered = self.committed - self.recovered + self.failures + self.duplicates + self.late;
        self.attempts() - answered - self.cancelled - self.lost
    }
}
