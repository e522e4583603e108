//! Result of the training of a seed: reports of its epochs, and its best model.

use eciton_runs::report::{EpochReport, Quality};

/// Result of [`super::Training::run`].
#[derive(Debug, Default)]
pub(crate) struct Trained {
    pub epochs: Vec<EpochReport>,
    /// Quality of the last evaluation, if its scores were folded into the metric and are not
    /// stored.
    pub quality: Option<Quality>,
    pub stopped: bool,
    /// Number of epochs without a better validation metric, if early stopping ended the training.
    pub stopped_early: Option<u32>,
    /// Epoch that reached `run.until`.
    pub reached: Option<u32>,
    /// Model of the best epoch, if `run.keep` selects models by validation.
    pub best: Option<Best>,
    /// Epoch whose validation metric reached `pipeline.synchronous_at`. Later epochs are
    /// synchronous.
    pub synchronised_after: Option<u32>,
    /// True if the row store still holds the scores of the last epoch's model.
    pub scored: bool,
}

impl Trained {
    /// Returns true if early stopping or the stop target ended the seed.
    pub(crate) fn is_over(&self) -> bool {
        self.stopped_early.is_some() || self.reached.is_some()
    }

    /// Returns true if the reports already contain an epoch.
    pub(super) fn tells(&self, epoch: u32) -> bool {
        self.epochs.last().is_some_and(|last| epoch <= last.epoch)
    }
}

/// Best model so far.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Best {
    pub epoch: u32,
    /// Values of each parameter, row-major without padding.
    pub values: Vec<Vec<f32>>,
}
