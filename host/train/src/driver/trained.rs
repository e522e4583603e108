//! Result of the training of a seed: reports of its epochs, and its best model.

use eciton_runs::report::{EpochReport, Quality};

/// State and result of the training of a seed ([`super::Training::run`]). A resumed run starts from
/// the state of the checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Trained {
    pub epochs: Vec<EpochReport>,
    /// Per-class results of the last evaluation. `None` if its scores are stored, so that they can
    /// still be computed.
    pub quality: Option<Quality>,
    pub stopped: bool,
    /// Number of epochs without a better validation metric, if early stopping ended the training.
    pub stopped_early: Option<u32>,
    /// First epoch whose metric reached the stop target `run.until`, if one has.
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
    /// Returns true if early stopping or the stop target (`run.until`) ended the training of the
    /// seed.
    pub(crate) fn is_over(&self) -> bool {
        self.stopped_early.is_some() || self.reached.is_some()
    }

    /// Returns true if `epochs` already contains the report of `epoch`, because a rollback repeats
    /// it.
    pub(super) fn tells(&self, epoch: u32) -> bool {
        self.epochs.last().is_some_and(|last| epoch <= last.epoch)
    }
}

/// Best model of a seed so far, by validation metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Best {
    pub epoch: u32,
    /// Values of each parameter, row-major without padding.
    pub values: Vec<Vec<f32>>,
}
