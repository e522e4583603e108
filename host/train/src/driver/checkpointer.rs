//! Interface through which the driver records epochs and writes checkpoints.

use eciton_exec::Bill;

use super::counts::Counts;
use super::epochs::Epochs;
use super::trained::Trained;
use crate::error::Result;
use crate::weights::Weights;

/// Receiver of epoch reports and writer of checkpoints. The driver calls it at the end of each
/// epoch, and the session implements it.
pub(crate) trait Checkpointer {
    /// Records the report of the last epoch in `trained`, for instance in `metrics.jsonl`.
    fn epoch(&mut self, trained: &Trained) -> Result<()>;

    /// Returns true if a checkpoint must be written at the end of the current epoch.
    fn is_due(&self) -> bool;

    /// Writes a checkpoint of the last epoch in `trained`. The flag next to it is true if the
    /// training was stopped, in which case an epoch that already has a checkpoint is skipped. If
    /// the checkpoint cannot be written, the run continues, and the first such failure returns a
    /// warning.
    fn save(
        &mut self,
        trained: (&Trained, bool),
        weights: (&Weights, Epochs),
        counts: &Counts,
        bill: Option<Bill>,
    ) -> Result<Option<String>>;
}
