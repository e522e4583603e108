//! Outcome of one trial of a sweep. A trial is a training with one choice of parameters.

use crate::report::Summary;

/// Outcome of one trial of a sweep. A trial is a training with one choice of parameters.
#[derive(Debug)]
pub enum Outcome {
    /// The trial was trained by this process, with this summary of its run.
    Trained(Box<Summary>),
    /// The trial was skipped because its run folder existed already. The value is the summary in
    /// that folder.
    Found(Box<Summary>),
    /// The trial failed. The text describes the error and its causes.
    Failed(String),
    /// The trial was not trained because the sweep was stopped before.
    Left,
}

impl Outcome {
    /// Returns the summary of the trial's run. Returns `None` if the trial failed or was not
    /// trained.
    #[must_use]
    pub fn summary(&self) -> Option<&Summary> {
        match self {
            Self::Trained(summary) | Self::Found(summary) => Some(summary),
            Self::Failed(_) | Self::Left => None,
        }
    }
}
