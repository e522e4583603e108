//! Why a simulation cannot be made, or came to no end.

use eciton_types::{StageId, TaskKey};

/// Error of [`crate::simulate`]. The same input fails again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting out of range.
    #[error("{what}: found {found}, expected {allowed}")]
    Setting {
        /// The setting, with its unit.
        what: &'static str,
        /// Its value.
        found: String,
        /// The values allowed.
        allowed: String,
    },
    /// A task that a function of this size cannot hold.
    #[error(
        "a task of stage {stage} takes {needs_mb} MB in a function, which has {memory_mb}: choose more intervals or memory"
    )]
    Memory {
        /// The stage.
        stage: StageId,
        /// Its rows and weights, in and out, and what runs them, MB.
        needs_mb: u64,
        /// The function's, MB.
        memory_mb: u32,
    },
    /// The run ended because a task could not be done.
    #[error(
        "the simulated run failed after {seconds:.1} s: {key} failed {attempts} times ({throttled} requests were throttled in total)"
    )]
    Failed {
        /// Simulated time, in seconds.
        seconds: f64,
        /// The attempt that decided it.
        key: TaskKey,
        /// Attempts at it.
        attempts: u32,
        /// Requests refused, of the whole run.
        throttled: u64,
    },
    /// Nothing is under way and the run is not over: a defect, or an answer lost without a deadline.
    #[error("the simulated run stalled after {seconds:.1} s; it waits for {waits_for}")]
    Stalled {
        /// Simulated time, in seconds.
        seconds: f64,
        /// The reason.
        waits_for: String,
    },
    /// Figures that do not come together.
    #[error(
        "the fit on {what} is still {percent:.2} % off after {steps} steps; check the price list's machines and functions",
        percent = .off * 100.0
    )]
    Fit {
        /// The limit.
        what: &'static str,
        /// The largest share by which a figure is off.
        off: f64,
        /// Steps of the search.
        steps: u32,
    },
    /// Refused settings, a model, profile or price list that is not valid, or a plan that does not
    /// fit.
    #[error(transparent)]
    Plan(#[from] eciton_planner::Error),
    /// The engine's settings.
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
