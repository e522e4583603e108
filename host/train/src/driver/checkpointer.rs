//! Interface through which the driver records epochs and writes checkpoints.

use eciton_exec::Bill;
use eciton_types::Round;

use super::counts::Counts;
use super::epochs::Epochs;
use super::trained::Trained;
use crate::error::Result;
use crate::weights::Weights;

/// Receiver of reports and writer of checkpoints. The driver calls it at the end of each round, and
/// the session implements it.
pub(crate) trait Checkpointer {
    /// Records the last report in `trained`, for instance in `metrics.jsonl`.
    fn epoch(&mut self, trained: &Trained) -> Result<()>;

    /// Returns true if the run can write checkpoints.
    fn can_save(&self) -> bool;

    /// Returns true if a checkpoint must be written after `round`, which has ended.
    fn is_due(&mut self, round: Round, epochs: Epochs) -> bool;

    /// Writes a checkpoint of the last step in `trained`, with the seed and the length of an epoch.
    /// The flag next to `trained` is true if the training was stopped. The checkpoint is then
    /// complete when the method returns, and a step that already has one is skipped. Otherwise it
    /// may be written while the training continues. If a checkpoint cannot be written, the run
    /// continues, and the first such failure returns a warning.
    fn save(
        &mut self,
        trained: (&Trained, bool),
        weights: (&mut Weights, (u64, Epochs)),
        counts: &Counts,
        bill: Option<Bill>,
    ) -> Result<Option<String>>;
}
