//! Counters of an engine.

/// Counts since the engine was created. A restart does not reset them.
///
/// Each attempt at a task is in one of them, or in flight:
/// `attempts = committed - recovered + failures + duplicates + late + cancelled + lost + in_flight`
/// ([`Counters::attempts`], [`Counters::in_flight`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Steps of the host that were submitted. Each has one attempt, which is in no other counter.
    pub host_steps: u64,
    /// First attempts at tasks.
    pub tasks: u64,
    /// Further attempts after a failure.
    pub retries: u64,
    /// Further attempts after a deadline.
    pub relaunches: u64,
    /// Steps of lanes that ran again because the worker with their rows failed.
    pub again: u64,
    /// Steps of lanes that ran a second time in advance, by redundant computation.
    pub redundant: u64,
    /// Deadlines that passed for the newest attempt at an unfinished step, whether it was
    /// relaunched or not.
    pub overdue: u64,
    /// Committed answers: one per finished task.
    pub committed: u64,
    /// Committed answers of attempts that had been reported as failed, and so are in `failures` as
    /// well.
    pub recovered: u64,
    /// Attempts that failed before their step was done.
    pub failures: u64,
    /// Attempts that succeeded or failed after another attempt had done the step, in the same
    /// round.
    pub duplicates: u64,
    /// Attempts that succeeded or failed after the end of their round or of the run.
    pub late: u64,
    /// Attempts in flight when the run was cancelled.
    pub cancelled: u64,
    /// Attempts without a report: the engine was restarted, or a later round of their step left
    /// other attempts alive.
    pub lost: u64,
    /// Updates of the weights.
    pub updates: u64,
    /// Ignored events that repeat a report or no longer matter, such as the deadline of a finished
    /// step.
    pub ignored: u64,
    /// Ignored events that answer no action. If there is any, the driver has a defect.
    pub unexpected: u64,
}

impl Counters {
    /// Returns the number of launched attempts: first ones, retries, relaunches, and those at steps
    /// that were done.
    #[must_use]
    pub const fn attempts(&self) -> u64 {
        self.tasks + self.retries + self.relaunches + self.again + self.redundant
    }

    /// Returns the number of launched attempts without a report.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        let answered = self.committed - self.recovered + self.failures + self.duplicates + self.late;
        self.attempts() - answered - self.cancelled - self.lost
    }
}
