//! Outcome of one trial of a sweep.

use crate::report::Summary;

/// Outcome of one trial of a sweep.
#[derive(Debug)]
pub enum Outcome {
    /// The trial was trained by this process. The value is the summary of its run.
    Trained(Box<Summary>),
    /// The run folder of the trial existed already. The value is its summary.
    Found(Box<Summary>),
    /// The trial failed. The text has the causes. Other trials continue.
    Failed(String),
    /// The trial was not trained, because the sweep was asked to stop.
    Left,
}

impl Outcome {
    /// Returns the summary of the trial's run. Returns `None` if there is none.
    #[must_use]
    pub fn summary(&self) -> Option<&Summary> {
        match self {
            Self::Trained(summary) | Self::Found(summary) => Some(summary),
            Self::Failed(_) | Self::Left => None,
        }
    }
}
