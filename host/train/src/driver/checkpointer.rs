//! Checkpointer of a training, which a session supplies.

use eciton_exec::Bill;

use super::counts::Counts;
use super::epochs::Epochs;
use super::trained::Trained;
use crate::error::Result;
use crate::weights::Weights;

/// Recorder of epochs and writer of checkpoints.
pub(crate) trait Checkpointer {
    /// Records the last epoch of `trained`.
    fn epoch(&mut self, trained: &Trained) -> Result<()>;

    /// Returns true if a checkpoint is due.
    fn is_due(&self) -> bool;

    /// Writes a checkpoint of the last epoch of `trained`. If training was `stopped`, it is written
    /// only if that epoch has none. A checkpoint that cannot be written does not end the run. The
    /// first time, a warning is returned.
    fn save(
        &mut self,
        trained: (&Trained, bool),
        weights: (&Weights, Epochs),
        counts: &Counts,
        bill: Option<Bill>,
    ) -> Result<Option<String>>;
}
