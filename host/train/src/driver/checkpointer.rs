//! The interface through which the driver records epochs and writes checkpoints. The session
//! implements it.

use eciton_exec::Bill;

use super::counts::Counts;
use super::epochs::Epochs;
use super::trained::Trained;
use crate::error::Result;
use crate::weights::Weights;

/// Recorder of epochs and writer of checkpoints, which the driver calls at the end of each epoch.
pub(crate) trait Checkpointer {
    /// Records the report of the last epoch of `trained`, for instance in `metrics.jsonl`.
    fn epoch(&mut self, trained: &Trained) -> Result<()>;

    /// Returns true if the checkpoint settings require a checkpoint at the end of this epoch.
    fn is_due(&self) -> bool;

    /// Writes a checkpoint of the last epoch of `trained`, which is paired with a flag: true if
    /// training was stopped. After a stop, a checkpoint is written only if that epoch has none. A
    /// checkpoint that cannot be written does not end the run; the first such failure returns a
    /// warning.
    fn save(
        &mut self,
        trained: (&Trained, bool),
        weights: (&Weights, Epochs),
        counts: &Counts,
        bill: Option<Bill>,
    ) -> Result<Option<String>>;
}
