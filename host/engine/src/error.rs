//! Errors when an engine is created.

use eciton_types::StageId;

/// Reason why [`crate::Engine::new`] fails. The same input fails again.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is out of range.
    #[error("{what}: found {found}, expected {least} to {most}")]
    Setting {
        /// Name of the setting, with its unit.
        what: &'static str,
        /// Value that was found.
        found: u64,
        /// Minimum value that is allowed.
        least: u64,
        /// Maximum value that is allowed.
        most: u64,
    },
    /// The ratio of deadlines to the average task time is out of range or not a number.
    #[error("deadline ratio: found {found}, expected more than 1 and at most {most}")]
    Ratio {
        /// Ratio that was found.
        found: f64,
        /// Maximum ratio that is allowed.
        most: f64,
    },
    /// Settings of the pipeline contradict each other.
    #[error("{message}")]
    Pipeline {
        /// Description of the settings, with advice to the user.
        message: String,
    },
    /// A stage reads a stage that does not precede it.
    #[error("stage {stage} of the program needs stage {needs}, which does not precede it")]
    Order {
        /// Stage that reads the later stage.
        stage: StageId,
        /// Stage that is read although it is later.
        needs: StageId,
    },
}
