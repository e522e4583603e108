//! The recorder of a run, which stores epoch reports and writes checkpoints.

use std::sync::Arc;

use eciton_runs::report::{EpochReport, SeedReport};
use eciton_runs::run_folder::{self, Error as FileError, RunFolder};

use crate::checkpoint::{self, Now, Place, Point, Saver};
use crate::driver::{Checkpointer, Counts, Epochs, Trained};
use crate::error::{Error, Result};
use crate::tensorboard::Events;
use crate::weights::Weights;
use eciton_types::Round;

/// The recorder of a run. It has the run folder, the checkpoints and the TensorBoard files.
// Fields are dropped in this order, because checkpoints are next to the run folder, in a parent
// folder that may have been created for them.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub saver: Option<Saver>,
    /// Lock on the name of the run folder, for a run without checkpoints. It prevents other
    /// processes from writing the same run folder.
    pub place: Option<Place>,
    pub folder: Option<RunFolder>,
    /// Reports of the seeds whose training has finished.
    pub finished: Vec<SeedReport>,
    /// Number of reports in `metrics.jsonl` of each finished seed.
    pub reports: Vec<usize>,
    /// Writer of event files for TensorBoard. `None` if they are not requested.
    pub events: Option<Events>,
    /// First error that occurred while predictions were written. `None` if all predictions were
    /// written.
    pub unwritten: Option<FileError>,
}

impl Recorder {
    /// Removes all records of `seed` from `epoch` on, and those of later seeds. `n` is the index of
    /// the seed. Returns the seed's newest checkpoint before `epoch`, with the reports of the
    /// epochs up to it. Returns `None` if there is no such checkpoint.
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
        self.reports.truncate(n);
        let of_earlier: usize = self.reports.iter().sum();
        let done = point.as_ref().map_or(0, |point| point.mark.reports());
        let lines = folder.rewind_metrics(of_earlier + done)?;
        if let Some(saver) = &mut self.saver {
            saver.rewind(n, &lines)?;
        }
        let epochs = checkpoint::epochs(&lines)?.into_iter().filter(|report| report.seed == seed);
        Ok(point.map(|point| (Arc::new(point), epochs.collect())))
    }

    /// Returns the seed, the last finished epoch, and the step within the next epoch of the newest
    /// checkpoint. Returns `None` if there is no checkpoint.
    pub(crate) fn newest_checkpoint(&self) -> Option<(u64, u32, Option<u32>)> {
        self.saver.as_ref().and_then(Saver::newest)
    }

    /// Tries to save the model of a run that failed because its folder could not be written, for
    /// instance on a full disk. A run with a checkpoint is not saved, because it can be resumed.
    /// Returns the error to report.
    pub(crate) fn salvage(mut self, error: Error) -> Error {
        let full = matches!(&error, Error::RunFolder(FileError::Write { .. }));
        let worth = full
            && self.newest_checkpoint().is_none()
            && self.folder.as_ref().is_some_and(RunFolder::has_model);
        // Otherwise all fields are dropped in their order.
        match self.folder.take_if(|_| worth).map(RunFolder::salvage) {
            Some((run, files)) => Error::Kept { source: Box::new(error), run, files, finished: false },
            None => error,
        }
    }

    /// Moves the run folder to its final path, and then removes the checkpoints. If the run was
    /// `stopped`, the checkpoints stay, so that it can be resumed. Returns the path of the run
    /// folder.
    ///
    /// # Errors
    /// Returns [`Error::Kept`] if predictions could not be written, but all other files were.
    pub(crate) fn finish(mut self, stopped: bool) -> Result<Option<std::path::PathBuf>> {
        // The results replace the checkpoints, so they are written durably (synchronised to disk)
        // before checkpoints are removed.
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
        Ok(())
    }

    fn can_save(&self) -> bool {
        self.folder.is_some() && self.saver.is_some()
    }

    fn is_due(&mut self, round: Round, epochs: Epochs) -> bool {
        self.folder.is_some() && self.saver.as_ref().is_some_and(|saver| saver.is_due(round, epochs))
    }

    fn save(
        &mut self,
        (trained, stopped): (&Trained, bool),
        (weights, (seed, epochs)): (&mut Weights, (u64, Epochs)),
        counts: &Counts,
        bill: Option<eciton_exec::Bill>,
    ) -> Result<Option<String>> {
        let (Some(folder), Some(saver)) = (&mut self.folder, &mut self.saver) else { return Ok(None) };
        let (finished, tasks) = (&self.finished[..], counts.tasks);
        let mut now = Now { seed, trained, weights, finished, tasks, bill, epochs };
        saver.save(folder, &mut now, stopped)
    }
}
