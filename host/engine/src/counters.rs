//! Counters of an engine.

/// Counts of steps, attempts and events since the engine was created. A restart does not reset
/// them.
///
/// Each attempt at a task is in exactly one of the counters below, or in flight: `attempts =
/// committed - recovered + failures + duplicates + late + cancelled + lost + in_flight`
/// ([`Counters::attempts`], [`Counters::in_flight`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of submitted steps that run on the host. Each has one attempt, which is in no other
    /// counter.
    pub host_steps: u64,
    /// Number of first attempts at tasks.
    pub tasks: u64,
    /// Number of further attempts that were ordered after a failure.
    pub retries: u64,
    /// Number of further attempts that were ordered after a deadline.
    pub relaunches: u64,
    /// Number of lane steps that were run again because the worker with their rows failed.
    pub again: u64,
    /// Number of lane steps that were run a second time in advance (redundant computation).
    pub redundant: u64,
    /// Number of deadlines that the newest attempt at an unfinished step exceeded, relaunched or
    /// not.
    pub overdue: u64,
    /// Number of committed answers, which is one per finished task.
    pub committed: u64,
    /// Number of committed answers of attempts that had been reported as failed. Such attempts are
    /// also counted in `failures`.
    pub recovered: u64,
    /// Number of attempts that failed before their step was finished.
    pub failures: u64,
    /// Number of attempts that ended in the same round after another attempt had finished the step.
    pub duplicates: u64,
    /// Number of attempts that ended after the end of their round or of the run.
    pub late: u64,
    /// Number of attempts that were in flight when the run was cancelled.
    pub cancelled: u64,
    /// Number of attempts that were never reported. Either the engine was restarted, or a later
    /// round of their step left other attempts alive.
    pub lost: u64,
    /// Number of updates of the weights.
    pub updates: u64,
    /// Number of ignored events that repeat a report or no longer matter, for instance the deadline
    /// of a finished step.
    pub ignored: u64,
    /// Number of ignored events that answer no action. If it is above 0, the driver has a defect.
    pub unexpected: u64,
}

impl Counters {
    /// Returns the number of launched attempts: first ones, retries, relaunches, and attempts at
    /// finished steps.
    #[must_use]
    pub const fn attempts(&self) -> u64 {
        self.tasks + self.retries + self.relaunches + self.again + self.redundant
    }

    /// Returns the number of launched attempts that have not been reported.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        let answered = self.committed - self.recovered + self.failures + self.duplicates + self.late;
        self.attempts() - answered - self.cancelled - self.lost
    }
}
