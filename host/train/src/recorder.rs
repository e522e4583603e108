//! The recorder of a run: writes down each epoch, and a checkpoint where one is due.

use crate::checkpoint::{Now, Place, Saver};
use crate::driver::{Counts, Trained};
use crate::error::Result;
use crate::report::SeedReport;
use crate::run_folder::RunFolder;
use crate::weights::Weights;

/// What of a run outlives its epochs.
// Fields are dropped in this order: checkpoints lie beside the run folder, in folders made for that.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub saver: Option<Saver>,
    /// Without a saver, the lock.
    pub place: Option<Place>,
    pub folder: Option<RunFolder>,
    /// The seeds that have finished.
    pub finished: Vec<SeedReport>,
}

impl Recorder {
    /// Hears that an epoch is over: the last of `trained`.
    pub(crate) fn epoch(
        &mut self,
        trained: &Trained,
        weights: &Weights,
        counts: &Counts,
        bill: Option<eciton_exec::Bill>,
    ) -> Result<()> {
        let Some(folder) = &mut self.folder else { return Ok(()) };
        if let Some(report) = trained.epochs.last() {
            folder.append_metrics(report)?;
        }
        if let Some(saver) = &mut self.saver {
            let now = Now { trained, weights, finished: &self.finished, tasks: counts.tasks, bill };
            saver.epoch(folder, &now)?;
        }
        Ok(())
    }

    /// Puts the run folder in its place, and then lets go of the checkpoints.
    pub(crate) fn finish(self) -> Result<Option<std::path::PathBuf>> {
        // With checkpoints the run is a long one, and they go: what takes their place must stay.
        let durable = self.saver.as_ref().is_some_and(Saver::has_written);
        let path = self.folder.map(|folder| folder.publish(durable)).transpose()?;
        if let Some(saver) = self.saver {
            saver.finish();
        }
        Ok(path)
    }
}
