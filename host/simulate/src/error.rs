//! Errors of simulations.

use eciton_types::{StageId, TaskKey};

/// Error of [`crate::simulate`]. Errors are deterministic, so the same input fails again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is out of range.
    #[error("{what}: found {found}, expected {allowed}")]
    Setting {
        /// Name of the setting, with its unit.
        what: &'static str,
        /// The invalid value that was found.
        found: String,
        /// Description of the allowed values.
        allowed: String,
    },
    /// The memory of a function is too small for a task.
    #[error(
        "a task of stage {stage} takes {needs_mb} MB in a function, which has {memory_mb}: choose more intervals or memory"
    )]
    Memory {
        /// Stage that the task belongs to.
        stage: StageId,
        /// Memory that the task needs, in MB. It includes input and output rows, weights, and the
        /// runtime.
        needs_mb: u64,
        /// Memory size of the function, in MB.
        memory_mb: u32,
    },
    /// A task failed at every attempt, so the simulated run ended.
    #[error(
        "the simulated run failed after {seconds:.1} s: {key} failed {attempts} times ({throttled} requests were throttled in total)"
    )]
    Failed {
        /// Simulated time at which the run ended, in seconds.
        seconds: f64,
        /// Key of the task whose last attempt failed.
        key: TaskKey,
        /// Number of attempts at the task, all of which failed.
        attempts: u32,
        /// Number of throttled requests in the whole run.
        throttled: u64,
    },
    /// The run has not ended, but no event is in flight. Either the program has a bug, or an answer
    /// was lost and no deadline is set.
    #[error("the simulated run stalled after {seconds:.1} s; it waits for {waits_for}")]
    Stalled {
        /// Simulated time at which the run stalled, in seconds.
        seconds: f64,
        /// Description of the event that the run waits for.
        waits_for: String,
    },
    /// The planner or program rejects the settings, the model, the profile or the price list.
    #[error(transparent)]
    Plan(#[from] eciton_planner::Error),
    /// The engine rejects its settings.
    #[error(transparent)]
    Engine(#[from] eciton_engine::Error),
}

impl From<eciton_recipe::Error> for Error {
    fn from(error: eciton_recipe::Error) -> Self {
        Self::Plan(error.into())
    }
}

impl From<eciton_program::Error> for Error {
    fn from(error: eciton_program::Error) -> Self {
        Self::Plan(error.into())
    }
}
