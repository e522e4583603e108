//! Errors of simulations: settings that are refused, and runs that fail.

use eciton_types::{StageId, TaskKey};

/// Error of [`crate::simulate`]. The same input fails again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is out of range.
    #[error("{what}: found {found}, expected {allowed}")]
    Setting {
        /// Name of the setting, with its unit.
        what: &'static str,
        /// Value that was found.
        found: String,
        /// Description of the allowed values.
        allowed: String,
    },
    /// A task does not fit into the memory of a function.
    #[error(
        "a task of stage {stage} takes {needs_mb} MB in a function, which has {memory_mb}: choose more intervals or memory"
    )]
    Memory {
        /// Stage of the task.
        stage: StageId,
        /// Memory that the task needs, in MB: its input and output rows, its weights, and the
        /// runtime.
        needs_mb: u64,
        /// Memory of the function, in MB.
        memory_mb: u32,
    },
    /// The simulated run ended because a task failed.
    #[error(
        "the simulated run failed after {seconds:.1} s: {key} failed {attempts} times ({throttled} requests were throttled in total)"
    )]
    Failed {
        /// Simulated time, in seconds.
        seconds: f64,
        /// Key of the attempt whose failure ended the run.
        key: TaskKey,
        /// Number of attempts at the task.
        attempts: u32,
        /// Number of requests that were throttled in the whole run.
        throttled: u64,
    },
    /// Nothing is in flight and the run has not ended. The cause is a defect, or an answer that was
    /// lost without a deadline.
    #[error("the simulated run stalled after {seconds:.1} s; it waits for {waits_for}")]
    Stalled {
        /// Simulated time, in seconds.
        seconds: f64,
        /// Description of the events that the run waits for.
        waits_for: String,
    },
    /// Settings were refused, a model, profile or price list is not valid, or no plan fits.
    #[error(transparent)]
    Plan(#[from] eciton_planner::Error),
    /// The engine refused its settings.
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
