//! Step, task and outcome: what is done, how it is asked for, how it ends.

use crate::ids::{Attempt, IntervalId, Round, StageId, Version};
use serde::{Deserialize, Serialize};

/// A stage on an interval at an round. Each step is committed exactly once.
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

/// A tensor step handed to an executor. It is a pure function of kernel, inputs, parameters at
/// `weights`, attributes and seed, so that any attempt gives the same answer.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// How a task ended. Rows, gradients and loss travel beside it, never through the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// All outputs are written.
    Done,
    /// It failed; nothing of its output may be used.
    Failed(Failure),
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Whose fault it is.
    pub kind: FailureKind,
    /// Kernel, shapes and remedy, in words for the user.
    pub message: String,
}

/// The three ways to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The kernel answered with a typed error.
    Guest,
    /// The kernel trapped: a limit was passed, or it has a bug.
    Trap,
    /// The network, a worker or a deadline: not the kernel's doing.
    Host,
}

impl FailureKind {
    /// Whether another attempt can end otherwise. A task is a pure function, so that only a host
    /// fault can.
    #[must_use]
    pub const fn retryable(self) -> bool {
        matches!(self, Self::Host)
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
        assert!(FailureKind::Host.retryable() && !FailureKind::Trap.retryable());
    }
}
