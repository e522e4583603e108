//! Steps, which are the units of work of a run, and tasks, which are attempts at steps.

use crate::ids::{Attempt, IntervalId, Round, StageId, Version};
use serde::{Deserialize, Serialize};

/// Unit of work of a run, which is one stage of the program on one interval in one round. The
/// engine commits each step exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Step {
    /// Round (optimiser step) that the work belongs to.
    pub round: Round,
    /// Stage of the program that is computed.
    pub stage: StageId,
    /// Interval (range of rows) whose rows the step writes.
    pub interval: IntervalId,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "round {} stage {} interval {}", self.round, self.stage, self.interval)
    }
}

/// Attempt at a [`Step`], as an executor receives it. Its answer depends only on the kernel,
/// inputs, attributes, seed and weights, so all attempts at a step have equal answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Task {
    /// Round (optimiser step) that the work belongs to.
    pub round: Round,
    /// Stage of the program that is computed.
    pub stage: StageId,
    /// Interval (range of rows) whose rows the task writes.
    pub interval: IntervalId,
    /// Number of this attempt at the step.
    pub attempt: Attempt,
    /// Version of the weights with which the task computes.
    pub weights: Version,
}

impl Task {
    /// Returns the step that this task attempts.
    #[must_use]
    pub const fn step(&self) -> Step {
        Step { round: self.round, stage: self.stage, interval: self.interval }
    }

    /// Returns the key that identifies the task's answer.
    #[must_use]
    pub const fn key(&self) -> TaskKey {
        TaskKey { round: self.round, stage: self.stage, interval: self.interval, attempt: self.attempt }
    }
}

/// Key that identifies the answer of a [`Task`]. The keys of two attempts at one step differ only
/// in `attempt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskKey {
    /// Round (optimiser step) that the work belongs to.
    pub round: Round,
    /// Stage of the program that is computed.
    pub stage: StageId,
    /// Interval (range of rows) whose rows the task writes.
    pub interval: IntervalId,
    /// Number of this attempt at the step.
    pub attempt: Attempt,
}

impl TaskKey {
    /// Returns the step that the task attempts.
    #[must_use]
    pub const fn step(&self) -> Step {
        Step { round: self.round, stage: self.stage, interval: self.interval }
    }
}

impl std::fmt::Display for TaskKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} attempt {}", self.step(), self.attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_share_a_step() {
        let task = Task {
            round: Round(3),
            stage: StageId(1),
            interval: IntervalId(2),
            attempt: Attempt(0),
            weights: Version(2),
        };
        let again = Task { attempt: Attempt(1), ..task };
        assert_ne!(task.key(), again.key());
        assert_eq!(task.key().step(), again.step());
        assert_eq!(again.key().to_string(), "round 3 stage 1 interval 2 attempt 1");
    }
}
