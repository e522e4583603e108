//! Why an engine cannot be made.

use eciton_plan::StageId;

/// What [`crate::Engine::new`] refuses. Nothing here is worth a retry.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting out of range.
    #[error("{what}: found {found}, allowed are {least} to {most}")]
    Setting {
        /// Which.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The smallest allowed.
        least: u64,
        /// The largest allowed.
        most: u64,
    },
    /// A ratio of deadlines to the average time that is out of range, or not a number.
    #[error("deadlines of {found} times the average: allowed are more than 1 to {most}")]
    Ratio {
        /// Its value.
        found: f64,
        /// The largest allowed.
        most: f64,
    },
    /// Settings of the pipeline that do not go together.
    #[error("{message}")]
    Pipeline {
        /// Which, and what to do.
        message: String,
    },
    /// A stage that waits for one that does not come before it.
    #[error("stage {stage} of the program needs stage {needs}, which does not come before it")]
    Order {
        /// The stage.
        stage: StageId,
        /// What it reads from.
        needs: StageId,
    },
}
