//! Steps, the units of work of a run, and tasks, the attempts at them.

use crate::ids::{Attempt, IntervalId, Round, StageId, Version};
use serde::{Deserialize, Serialize};

/// One stage on one interval in one round. The engine commits each step exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Step {
    /// The round.
    pub round: Round,
    /// The stage.
    pub stage: StageId,
    /// The interval, whose rows the step writes.
    pub interval: IntervalId,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "round {} stage {} interval {}", self.round, self.stage, self.interval)
    }
}

/// An attempt at a step, as an executor gets it. The answer is a pure function of kernel, inputs,
/// parameters of version `weights`, attributes and seed, so all attempts have equal answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Task {
    /// The round.
    pub round: Round,
    /// The stage.
    pub stage: StageId,
    /// The interval, whose rows the step writes.
    pub interval: IntervalId,
    /// The attempt.
    pub attempt: Attempt,
    /// The version of the weights that the task reads.
    pub weights: Version,
}

impl Task {
    /// Returns the step of this attempt.
    #[must_use]
    pub const fn step(&self) -> Step {
        Step { round: self.round, stage: self.stage, interval: self.interval }
    }

    /// Returns the key of the task's answer.
    #[must_use]
    pub const fn key(&self) -> TaskKey {
        TaskKey { round: self.round, stage: self.stage, interval: self.interval, attempt: self.attempt }
    }
}

/// Key of a task's answer. The keys of two attempts at one step differ in `attempt` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskKey {
    /// The round.
    pub round: Round,
    /// The stage.
    pub stage: StageId,
    /// The interval, whose rows the step writes.
    pub interval: IntervalId,
    /// The attempt.
    pub attempt: Attempt,
}

impl TaskKey {
    /// Returns the step of the task.
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
