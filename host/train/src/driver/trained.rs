//! Result of the training of one seed, with its epoch reports and its best model.

use std::sync::Arc;

use eciton_runs::report::{EpochReport, Quality};
use eciton_types::Round;

use super::epochs::Sum;

/// State and result of the training of one seed ([`super::Training::run`]). A resumed run starts
/// with the state in its checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Trained {
    /// Reports of all periods that have ended. A period is an epoch or a part of it.
    pub epochs: Vec<EpochReport>,
    /// Number of steps (weight updates) so far.
    pub steps: u32,
    /// Loss sums of the unfinished period, and its training time and operations.
    pub sum: Sum,
    pub seconds: f64,
    pub flops: u64,
    /// Report whose evaluation was skipped, because the run left with only a checkpoint. The
    /// evaluation precedes the next step.
    pub pending: Option<EpochReport>,
    /// Quality of the model in the last evaluation, including results per class. `None` if the
    /// scores are stored, so that it can be computed later.
    pub quality: Option<Quality>,
    pub stopped: bool,
    /// Number of epochs without a better validation metric after which early stopping ended the
    /// training. `None` if it did not.
    pub stopped_early: Option<u32>,
    /// First epoch that reached the target `run.until`. `None` if none did.
    pub reached: Option<u32>,
    /// Weights of the best epoch. `None` if `run.keep` does not select a model by validation.
    pub best: Option<Best>,
    /// Epoch whose validation metric reached `pipeline.synchronous_at`. Later epochs train
    /// synchronously.
    pub synchronised_after: Option<u32>,
    /// True if the row store still has the scores of the model after the last epoch.
    pub scored: bool,
}

impl Trained {
    /// Returns true if early stopping or the target `run.until` has ended the training.
    pub(crate) fn is_over(&self) -> bool {
        self.stopped_early.is_some() || self.reached.is_some()
    }

    /// Returns true if `epochs` already has the report of the period with `round`, which happens if
    /// a rollback repeats the round.
    pub(super) fn tells(&self, round: Round) -> bool {
        self.epochs.last().is_some_and(|last| round.0 <= last.step)
    }
}

/// Weights of the model with the best validation metric so far.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Best {
    pub epoch: u32,
    /// Step after which the model was evaluated.
    pub step: u32,
    /// Values of each parameter in the order of the program, row-major without padding.
    pub values: Arc<Vec<Vec<f32>>>,
}
