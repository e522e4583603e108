//! Step and task: what is done, and how it is asked for.

use crate::ids::{Attempt, IntervalId, Round, StageId, Version};
use serde::{Deserialize, Serialize};

/// A stage on an interval at a round. Each step is committed exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Step {
    /// When.
    pub round: Round,
    /// What.
    pub stage: StageId,
    /// On which rows.
    pub interval: IntervalId,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "round {} stage {} interval {}", self.round, self.stage, self.interval)
    }
}

/// A step handed to an executor. It is a pure function of kernel, inputs, parameters at `weights`,
/// attributes and seed, so that any attempt gives the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Task {
    /// When.
    pub round: Round,
    /// What.
    pub stage: StageId,
    /// On which rows.
    pub interval: IntervalId,
    /// Which try.
    pub attempt: Attempt,
    /// The version of the weights to read.
    pub weights: Version,
}

impl Task {
    /// The step that it does.
    #[must_use]
    pub const fn step(&self) -> Step {
        Step { round: self.round, stage: self.stage, interval: self.interval }
    }

    /// What its answer is filed under.
    #[must_use]
    pub const fn key(&self) -> TaskKey {
        TaskKey { round: self.round, stage: self.stage, interval: self.interval, attempt: self.attempt }
    }
}

/// What a task's answer is filed under. Attempts at one step differ in the last part only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskKey {
    /// When.
    pub round: Round,
    /// What.
    pub stage: StageId,
    /// On which rows.
    pub interval: IntervalId,
    /// Which try.
    pub attempt: Attempt,
}

impl TaskKey {
    /// The step that the task does.
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
