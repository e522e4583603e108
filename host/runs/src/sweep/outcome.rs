//! Outcome of a trial.

use crate::report::Summary;

/// Outcome of a trial.
#[derive(Debug)]
pub enum Outcome {
    /// The trial was trained now.
    Trained(Box<Summary>),
    /// The run folder of the trial existed.
    Found(Box<Summary>),
    /// The trial failed. The text has the causes. Other trials continue.
    Failed(String),
    /// The sweep was asked to stop before its end.
    Left,
}

impl Outcome {
    /// Returns the summary of the run, if it has one.
    #[must_use]
    pub fn summary(&self) -> Option<&Summary> {
        match self {
            Self::Trained(summary) | Self::Found(summary) => Some(summary),
            Self::Failed(_) | Self::Left => None,
        }
    }
}
