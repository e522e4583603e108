//! Errors of creating an engine.

use eciton_types::StageId;

/// Reason why [`crate::Engine::new`] fails. A retry does not help.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is out of range.
    #[error("{what}: found {found}, expected {least} to {most}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// Its value.
        found: u64,
        /// Minimum.
        least: u64,
        /// Maximum.
        most: u64,
    },
    /// The ratio of deadlines to the average time is out of range or not a number.
    #[error("deadline ratio: found {found}, expected more than 1 and at most {most}")]
    Ratio {
        /// Its value.
        found: f64,
        /// Maximum.
        most: f64,
    },
    /// Settings of the pipeline contradict each other.
    #[error("{message}")]
    Pipeline {
        /// The settings, and the remedy.
        message: String,
    },
    /// A stage reads a stage that does not precede it.
    #[error("stage {stage} of the program needs stage {needs}, which does not precede it")]
    Order {
        /// The stage.
        stage: StageId,
        /// The stage that it reads.
        needs: StageId,
    },
}
