//! The saver of a run, which decides when a checkpoint is due, writes it, and removes old ones.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::time::{Duration, Instant};

use eciton_exec::Bill;
use eciton_recipe::Checkpoint;
use eciton_runs::durable::{self, Extent, Journal, sha256};
use eciton_runs::report::SeedReport;
use eciton_runs::run_folder::{ECITON_VERSION, Error as FileError, RunFolder, read, reading, writing};

use super::place::{Named, Place};
use super::point::{self, Mark, Point};
use super::{CONFIG, FORMAT, METRICS, RUN, SEEDS, VERSIONS};
use crate::driver::{Epochs, Trained};
use crate::error::{Error, Result};
use crate::weights::Weights;

/// Size in bytes of the pieces in which `metrics.jsonl` is copied to the checkpoint folder.
const PIECE_BYTES: usize = 1 << 16;

/// Inputs of a [`Saver`] that are known when the run starts or resumes.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub settings: Checkpoint,
    /// Contents of `config.toml`, `versions.json` and `run.json`, in this order.
    pub records: [Vec<u8>; 3],
    /// Name and extents of each parameter, in the order of the program.
    pub parameters: Vec<(String, Vec<usize>)>,
    /// First seed of the run. Its checkpoints have no seed in their file names.
    pub first_seed: u64,
    /// Time at which this process started or resumed the run.
    pub begun: Instant,
}

/// Totals over all processes that worked on the run before this one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before {
    pub seconds: f64,
    pub tasks: u64,
    pub bill: Option<Bill>,
}

/// A checkpoint that exists on disk. `validation` is the validation metric of its epoch, if it has
/// one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub seed: u64,
    pub epoch: u32,
    pub validation: Option<f64>,
}

/// Writer of the checkpoints of one run. It also removes old checkpoints.
#[derive(Debug)]
pub(crate) struct Saver {
    place: Place,
    beginning: Beginning,
    before: Before,
    identity: [String; 3],
    journals: Option<(Journal, Journal)>,
    /// Checkpoints on disk, oldest first.
    written: Vec<Written>,
    /// Number of finished seeds whose final models are in the checkpoint folder.
    finals: usize,
    last: Instant,
    epochs: u32,
    /// True if the user was already warned that a checkpoint could not be written.
    warned: bool,
}

/// State of a run at the end of an epoch, as [`Saver::save`] writes it.
pub(crate) struct Now<'a> {
    pub trained: &'a Trained,
    pub weights: &'a Weights,
    pub finished: &'a [SeedReport],
    pub tasks: u64,
    pub bill: Option<Bill>,
    pub epochs: Epochs,
}

impl Saver {
    /// Creates the saver of a new run, which has no checkpoints.
    pub(crate) fn new(place: Place, beginning: Beginning) -> Self {
        let identity = [0, 1, 2].map(|at| sha256(beginning.records.get(at).map_or(&[], Vec::as_slice)));
        Self {
            place,
            before: Before::default(),
            identity,
            journals: None,
            written: Vec::new(),
            finals: 0,
            last: beginning.begun,
            epochs: 0,
            warned: false,
            beginning,
        }
    }

    /// Creates the saver of a resumed run. Checkpoints after the resumed one (`mark`) are removed,
    /// and the journals are truncated to `metrics` and `seeds`.
    pub(super) fn resume(
        place: Place,
        beginning: Beginning,
        mark: &Mark,
        metrics: &[u8],
        seeds: &[u8],
        written: Vec<Written>,
    ) -> Result<Self> {
        let mut saver = Self::new(place, beginning);
        for named in saver.place.points()? {
            let known = |w: &Written| saver.named(w.seed, Some(w.epoch)) == named;
            if named.epoch.is_some() && !written.iter().any(known) {
                saver.place.remove(named)?;
            }
        }
        // Removals must reach the disk before the journals are truncated. Otherwise a checkpoint
        // could refer to a journal that is longer than the one on disk.
        saver.place.sync()?;
        let cut = |name: &str, content| Journal::cut(saver.place.path().join(name), content);
        saver.journals = Some((cut(METRICS, metrics)?, cut(SEEDS, seeds)?));
        if mark.records != saver.identity {
            saver.write_records()?;
        }
        saver.written = written;
        saver.finals = mark.finished as usize;
        saver.before = Before { seconds: mark.seconds, tasks: mark.tasks, bill: mark.bill };
        Ok(saver)
    }

    /// Returns the totals over all processes that worked on the run before this one.
    pub(crate) fn before(&self) -> Before {
        self.before
    }

    /// Returns the file name of a checkpoint. If `epoch` is `None`, returns that of the seed's
    /// final model.
    fn named(&self, seed: u64, epoch: Option<u32>) -> Named {
        Named { seed: (seed != self.beginning.first_seed).then_some(seed), epoch }
    }

    /// Records that an epoch has finished, which counts towards the next checkpoint.
    pub(crate) fn count(&mut self) {
        self.epochs = self.epochs.saturating_add(1);
    }

    /// Returns true if enough epochs or seconds have passed since the last checkpoint for the next
    /// one to be due.
    pub(crate) fn is_due(&self) -> bool {
        let settings = &self.beginning.settings;
        let by_epochs = settings.every > 0 && self.epochs >= settings.every;
        let patience = Duration::from_secs(u64::from(settings.seconds));
        by_epochs || settings.seconds > 0 && self.last.elapsed() >= patience
    }

    /// Writes a checkpoint of `now`. If the disk is full, the run continues, and a checkpoint is
    /// tried again when the next one is due. Returns a warning for the user at the first such
    /// failure.
    pub(crate) fn save(&mut self, folder: &mut RunFolder, now: &Now<'_>) -> Result<Option<String>> {
        let warned = self.try_write(folder, now)?;
        (self.last, self.epochs) = (Instant::now(), 0);
        Ok(warned)
    }

    /// Writes a checkpoint of the last epoch when the training was stopped, unless this epoch
    /// already has one. Returns a warning for the user if the first attempt to write a checkpoint
    /// fails.
    pub(crate) fn stopped(&mut self, folder: &mut RunFolder, now: &Now<'_>) -> Result<Option<String>> {
        let Some(last) = now.trained.epochs.last() else { return Ok(None) };
        let written = self.written.last().is_some_and(|w| (w.seed, w.epoch) == (last.seed, last.epoch));
        // If tasks were cancelled in the middle of an epoch, the weights may not belong to the end
        // of an epoch.
        if written || now.weights.steps() != now.epochs.last(last.epoch).0 {
            return Ok(None);
        }
        self.try_write(folder, now)
    }

    /// Writes a checkpoint. Returns a warning for the user if it cannot be written for the first
    /// time.
    fn try_write(&mut self, folder: &mut RunFolder, now: &Now<'_>) -> Result<Option<String>> {
        match self.write(folder, now) {
            Ok(()) => Ok(None),
            Err(Error::RunFolder(error @ FileError::Write { .. })) => {
                let told = (!std::mem::replace(&mut self.warned, true)).then(|| {
                    let an = if self.has_written() { "an" } else { "no" };
                    format!(
                        "no checkpoint was written: {error}; the run continues ({an} earlier checkpoint \
                         exists), and tries again when the next checkpoint is due"
                    )
                });
                Ok(told)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a checkpoint, after the files that it refers to.
    fn write(&mut self, folder: &mut RunFolder, now: &Now<'_>) -> Result<()> {
        let Some(last) = now.trained.epochs.last() else { return Ok(()) };
        if self.journals.is_none() {
            self.write_records()?;
            let create = |name: &str| Journal::create(self.place.path().join(name));
            self.journals = Some((create(METRICS)?, create(SEEDS)?));
        }
        let (metrics, seeds) = self.write_journals(folder, now.finished)?;
        let mark = Mark {
            format: FORMAT,
            eciton: ECITON_VERSION.to_owned(),
            records: self.identity.clone(),
            seed: last.seed,
            epoch: last.epoch,
            finished: u32::try_from(now.finished.len()).unwrap_or(u32::MAX),
            steps: now.weights.steps(),
            best_epoch: now.trained.best.as_ref().map(|best| best.epoch),
            metrics,
            seeds,
            seconds: self.before.seconds + self.beginning.begun.elapsed().as_secs_f64(),
            tasks: self.before.tasks + now.tasks,
            bill: match (now.bill, self.before.bill) {
                (Some(now), Some(before)) => Some(before.and(&now)),
                (now, before) => now.or(before),
            },
        };
        let (parameters, state) = (&self.beginning.parameters, now.weights.state()?);
        let entries = match now.weights.owning_workers() {
            Some(owners) => point::owned(parameters, owners),
            None => point::entries(parameters, &state, now.trained.best.as_ref()),
        };
        point::write(&self.place, self.named(last.seed, Some(last.epoch)), &mark, &entries)?;
        self.place.keep();
        tracing::info!(seed = last.seed, epoch = last.epoch, folder = %self.place.path().display(), "checkpoint written");
        let validation = last.metrics.and_then(|metrics| metrics.goodness());
        self.written.push(Written { seed: last.seed, epoch: last.epoch, validation });
        self.retire(last.seed)
    }

    /// Writes `config.toml`, `versions.json` and `run.json` to the checkpoint folder.
    fn write_records(&self) -> Result<()> {
        for (name, content) in [CONFIG, VERSIONS, RUN].into_iter().zip(&self.beginning.records) {
            durable::write(self.place.path(), name, |file| io::Write::write_all(file, content))?;
        }
        Ok(())
    }

    /// Appends new epoch reports and seed reports to the two journals, and writes the final models
    /// of newly finished seeds. Returns the extents of the journals for metrics and seeds.
    fn write_journals(
        &mut self,
        folder: &mut RunFolder,
        finished: &[SeedReport],
    ) -> Result<(Extent, Extent)> {
        let lines = folder.flush_metrics()?;
        let finals: Vec<_> =
            finished.iter().skip(self.finals).map(|s| (s, self.named(s.seed, None))).collect();
        let Some((metrics, seeds)) = &mut self.journals else {
            return Err(Error::Internal("the checkpointer has no journals".to_owned()));
        };
        copy_tail(&lines, metrics)?;
        for (report, named) in finals {
            let model = folder.model_of(named.seed);
            let copy = |file: &mut io::BufWriter<File>| {
                io::copy(&mut eciton_input::file::open(&model)?, file).map(drop)
            };
            durable::write(self.place.path(), &named.file(), copy)?;
            let mut line =
                serde_json::to_vec(report).map_err(|e| writing(&self.place.path().join(SEEDS))(e.into()))?;
            line.push(b'\n');
            seeds.append(&line)?;
            self.finals += 1;
        }
        Ok((metrics.sync()?, seeds.sync()?))
    }

    /// Removes old checkpoints of `seed`. The configured number of newest checkpoints stays, and so
    /// does the one with the best validation metric.
    fn retire(&mut self, seed: u64) -> Result<()> {
        let keep = self.beginning.settings.keep.max(1) as usize;
        let of_seed = self.written.iter().filter(|w| w.seed == seed && w.validation.is_some());
        let better = |best: &Written, w: &Written| w.validation > best.validation;
        let best = of_seed.copied().reduce(|best, w| if better(&best, &w) { w } else { best });
        let (mut at, newest) = (0, self.written.len().saturating_sub(keep));
        let mut retired = Vec::new();
        self.written.retain(|w| {
            at += 1;
            let is_best = best.is_some_and(|best| (best.seed, best.epoch) == (w.seed, w.epoch));
            let stays = at > newest || is_best;
            if !stays {
                retired.push(*w);
            }
            stays
        });
        for old in retired {
            self.place.remove(self.named(old.seed, Some(old.epoch)))?;
        }
        Ok(())
    }

    /// Removes the checkpoints of `seed` from `epoch` on, and those of all seeds that are not in
    /// `earlier`. Returns the newest remaining checkpoint of `seed` that is not damaged.
    pub(crate) fn newest_before(
        &mut self,
        earlier: &[u64],
        (seed, epoch): (u64, u32),
    ) -> Result<Option<Point>> {
        let stays = |w: &Written| earlier.contains(&w.seed) || w.seed == seed && w.epoch < epoch;
        let gone: Vec<Written> = self.written.extract_if(.., |w| !stays(w)).collect();
        for w in gone {
            self.place.remove(self.named(w.seed, Some(w.epoch)))?;
        }
        while let Some(last) = self.written.last().filter(|last| last.seed == seed).copied() {
            let named = self.named(last.seed, Some(last.epoch));
            if let Ok(point) = Point::read(&self.place.path().join(named.file())) {
                return Ok(Some(point));
            }
            self.place.remove(named)?;
            self.written.pop();
        }
        Ok(None)
    }

    /// Truncates the journals to the reports of the first `n` finished seeds and to the epoch
    /// reports in `metrics`.
    pub(crate) fn rewind(&mut self, n: usize, metrics: &[u8]) -> Result<()> {
        (self.finals, self.epochs, self.last) = (self.finals.min(n), 0, Instant::now());
        let Some((journal, _)) = &self.journals else { return Ok(()) };
        // Removals must reach the disk before the journals are truncated. Otherwise a checkpoint
        // could refer to a journal that is longer than the one on disk.
        self.place.sync()?;
        let path = |name: &str| self.place.path().join(name);
        let written = usize::try_from(journal.bytes()).unwrap_or(usize::MAX);
        let metrics = metrics.get(..written).unwrap_or(metrics);
        let seeds = read(&path(SEEDS), u64::MAX)?;
        let end = seeds.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(n.wrapping_sub(1));
        let end = end.filter(|_| n > 0).map_or(0, |(at, _)| at + 1);
        let seeds = seeds.get(..end).unwrap_or_default();
        self.journals = Some((Journal::cut(path(METRICS), metrics)?, Journal::cut(path(SEEDS), seeds)?));
        Ok(())
    }

    /// Returns the seed and epoch of the newest checkpoint. Returns `None` if there is no
    /// checkpoint.
    pub(crate) fn newest(&self) -> Option<(u64, u32)> {
        self.written.last().map(|w| (w.seed, w.epoch))
    }

    /// Returns true if there is a checkpoint on disk.
    pub(crate) fn has_written(&self) -> bool {
        !self.written.is_empty()
    }

    /// Ends the use of the checkpoint folder when the run folder is complete. The folder is
    /// removed, unless the settings keep it or the run was `stopped` and can resume from it.
    pub(crate) fn finish(self, stopped: bool) {
        let keep_after = (stopped || self.beginning.settings.keep_after) && self.has_written();
        self.place.finish(keep_after);
    }
}

/// Appends to `journal` all bytes of the file `path` after the journal's current length.
fn copy_tail(path: &Path, journal: &mut Journal) -> Result<()> {
    let mut file = eciton_input::file::open(path).map_err(reading(path))?;
    file.seek(io::SeekFrom::Start(journal.bytes())).map_err(reading(path))?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece).map_err(reading(path))? {
            0 => return Ok(()),
            n => journal.append(piece.get(..n).unwrap_or_default())?,
        }
    }
}
