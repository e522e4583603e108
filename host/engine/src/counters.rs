//! Counters of steps, attempts and events.

/// Numbers of steps, attempts and events since the engine was created. A restart does not reset
/// them.
///
/// Each attempt at a task is in exactly one of the counters below, or in flight: `attempts =
/// committed - recovered + failures + duplicates + late + cancelled + lost + in_flight`
/// ([`Counters::attempts`], [`Counters::in_flight`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of submitted steps of the host. Each has one attempt, which no other counter
    /// includes.
    pub host_steps: u64,
    /// Number of steps of other hosts whose rows were written here.
    pub received: u64,
    /// Number of first attempts at tasks (steps that functions or workers may run).
    pub tasks: u64,
    /// Number of attempts that were launched because another attempt at the task had failed.
    pub retries: u64,
    /// Number of attempts that were launched because another attempt had exceeded its deadline.
    pub relaunches: u64,
    /// Number of attempts that repeat a finished step of a lane (a worker's share of the pipeline),
    /// because its results were lost at its worker.
    pub again: u64,
    /// Number of attempts that repeat a finished step of a lane on a second worker, in case its own
    /// worker fails (redundant computation).
    pub redundant: u64,
    /// Number of times that the newest attempt at an unfinished step exceeded its deadline, whether
    /// or not the task was relaunched.
    pub overdue: u64,
    /// Number of committed answers, one for each finished task.
    pub committed: u64,
    /// Number of committed answers from attempts that had already been reported as failed. These
    /// attempts are also counted in `failures`.
    pub recovered: u64,
    /// Number of attempts that failed before their step was finished.
    pub failures: u64,
    /// Number of attempts that ended in their round after another attempt had finished the step.
    pub duplicates: u64,
    /// Number of attempts that ended after their round or the run had ended.
    pub late: u64,
    /// Number of attempts that were in flight when the run was cancelled.
    pub cancelled: u64,
    /// Number of attempts that the engine no longer tracks although they were never reported.
    /// Either the engine was restarted, or a later round of the step left attempts alive as well.
    pub lost: u64,
    /// Number of weight updates.
    pub updates: u64,
    /// Number of ignored events that repeat a report or no longer matter. An example is the
    /// deadline of a finished step.
    pub ignored: u64,
    /// Number of ignored events that no action asked for. If it is not 0, the driver has a defect.
    pub unexpected: u64,
}

impl Counters {
    /// Returns the number of launched attempts at tasks. It includes retries, relaunches, and
    /// attempts at finished steps.
    #[must_use]
    pub const fn attempts(&self) -> u64 {
        self.tasks + self.retries + self.relaunches + self.again + self.redundant
    }

    /// Returns the number of launched attempts at tasks that have not been reported.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        let answered = self.committed - self.recovered + self.failures + self.duplicates + self.late;
        self.attempts() - answered - self.cancelled - self.lost
    }
}
