//! The recorder of a run. It records each epoch, and writes a checkpoint when one is due.

use std::sync::Arc;

use eciton_runs::report::{EpochReport, SeedReport};
use eciton_runs::run_folder::{self, Error as FileError, RunFolder};

use crate::checkpoint::{self, Now, Place, Point, Saver};
use crate::driver::{Checkpointer, Counts, Epochs, Trained};
use crate::error::{Error, Result};
use crate::tensorboard::Events;
use crate::weights::Weights;

/// State of a run's records, which outlives its epochs.
// Fields are dropped in this order: checkpoints lie beside the run folder, in folders made for
// that.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub saver: Option<Saver>,
    /// Checkpoint folder that holds the lock of a run without a saver.
    pub place: Option<Place>,
    pub folder: Option<RunFolder>,
    /// Seeds that have finished.
    pub finished: Vec<SeedReport>,
    /// Events for TensorBoard.
    pub events: Option<Events>,
    /// First error that prevented predictions from being written after the model itself was.
    pub unwritten: Option<FileError>,
}

impl Recorder {
    /// Forgets everything that is of an epoch of a seed or later; `n` is the index of the seed.
    /// Returns the newest checkpoint of the seed from before that epoch, if there is one, with the
    /// reports of the epochs until then.
    pub(crate) fn rewind(
        &mut self,
        n: usize,
        (seed, epoch): (u64, u32),
    ) -> Result<Option<(Arc<Point>, Vec<EpochReport>)>> {
        self.finished.truncate(n);
        let Some(folder) = &mut self.folder else { return Ok(None) };
        let earlier: Vec<u64> = self.finished.iter().map(|report| report.seed).collect();
        let point = match &mut self.saver {
            Some(saver) => saver.newest_before(&earlier, (seed, epoch))?,
            None => None,
        };
        let of_earlier: usize = self.finished.iter().map(|report| report.epochs as usize).sum();
        let done = point.as_ref().map_or(0, |point| point.mark.epoch as usize);
        let lines = folder.rewind_metrics(of_earlier + done)?;
        if let Some(saver) = &mut self.saver {
            saver.rewind(n, &lines)?;
        }
        let epochs = checkpoint::epochs(&lines)?.into_iter().filter(|report| report.seed == seed);
        Ok(point.map(|point| (Arc::new(point), epochs.collect())))
    }

    /// Seed and epoch of the newest checkpoint.
    pub(crate) fn newest_checkpoint(&self) -> Option<(u64, u32)> {
        self.saver.as_ref().and_then(Saver::newest)
    }

    /// Keeps the model of a run that could not be written whole, unless a checkpoint lets the run
    /// go on.
    pub(crate) fn salvage(mut self, error: Error) -> Error {
        let full = matches!(&error, Error::RunFolder(FileError::Write { .. }));
        let worth = full
            && self.newest_checkpoint().is_none()
            && self.folder.as_ref().is_some_and(RunFolder::has_model);
        // Else all is dropped as it is, in its order.
        match self.folder.take_if(|_| worth).map(RunFolder::salvage) {
            Some((run, files)) => Error::Kept { source: Box::new(error), run, files, finished: false },
            None => error,
        }
    }

    /// Puts the run folder in its place, and then lets go of the checkpoints, unless the run was
    /// `stopped` and can go on.
    ///
    /// # Errors
    /// [`Error::Kept`] where predictions could not be written and all else is in its place.
    pub(crate) fn finish(mut self, stopped: bool) -> Result<Option<std::path::PathBuf>> {
        // With checkpoints the run is a long one, and they go: what takes their place must stay.
        let durable = self.saver.as_ref().is_some_and(Saver::has_written);
        let path = match self.folder.take().map(|folder| folder.publish(durable)).transpose() {
            Ok(path) => path,
            Err((folder, error)) => {
                self.folder = folder.map(|folder| *folder);
                return Err(self.salvage(error.into()));
            }
        };
        if let Some(saver) = self.saver {
            saver.finish(stopped);
        }
        match (self.unwritten, path) {
            (Some(error), Some(run)) => {
                let files = run_folder::files(&run);
                let source = Box::new(error.into());
                Err(Error::Kept { source, run, files, finished: true })
            }
            (_, path) => Ok(path),
        }
    }
}

impl Checkpointer for Recorder {
    fn epoch(&mut self, trained: &Trained) -> Result<()> {
        if let (Some(events), Some(report)) = (&mut self.events, trained.epochs.last()) {
            events.epoch(report)?;
        }
        if let (Some(folder), Some(report)) = (&mut self.folder, trained.epochs.last()) {
            folder.append_metrics(report)?;
        }
        self.saver.iter_mut().for_each(Saver::count);
        Ok(())
    }

    fn is_due(&self) -> bool {
        self.folder.is_some() && self.saver.as_ref().is_some_and(Saver::is_due)
    }

    fn save(
        &mut self,
        (trained, stopped): (&Trained, bool),
        (weights, epochs): (&Weights, Epochs),
        counts: &Counts,
        bill: Option<eciton_exec::Bill>,
    ) -> Result<Option<String>> {
        let (Some(folder), Some(saver)) = (&mut self.folder, &mut self.saver) else { return Ok(None) };
        let now = Now { trained, weights, finished: &self.finished, tasks: counts.tasks, bill, epochs };
        if stopped { saver.stopped(folder, &now) } else { saver.save(folder, &now) }
    }
}
