//! The saver of a run, which decides when a checkpoint is due, writes it, and removes old ones.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use eciton_exec::Bill;
use eciton_recipe::Checkpoint;
use eciton_runs::durable::{self, Extent, Journal, sha256};
use eciton_runs::report::SeedReport;
use eciton_runs::run_folder::{ECITON_VERSION, Error as FileError, RunFolder, read, reading, writing};
use eciton_types::Round;

use super::place::{Named, Place};
use super::point::{self, Inside, Mark, Point};
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

/// A checkpoint that exists on disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub seed: u64,
    /// Last finished epoch.
    pub epoch: u32,
    /// Step of a checkpoint within an epoch. `None` stands for the end of the epoch.
    pub step: Option<u32>,
    /// Validation metric of the step. `None` if it was not evaluated.
    pub validation: Option<f64>,
}

impl Written {
    /// Returns the seed and the position of the checkpoint.
    fn position(&self) -> (u64, u32, Option<u32>) {
        (self.seed, self.epoch, self.step)
    }
}

/// A checkpoint that a thread writes while the training continues.
#[derive(Debug)]
struct Writing {
    /// Thread that writes the file. `None` once it was joined.
    thread: Option<JoinHandle<Result<()>>>,
    written: Written,
}

impl Writing {
    /// Waits until the checkpoint is written. Returns its position.
    fn join(mut self) -> Result<Written> {
        let failed = || Err(Error::Internal("the thread that writes a checkpoint has panicked".to_owned()));
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| failed()))?;
        Ok(self.written)
    }
}

impl Drop for Writing {
    /// Waits for the thread, so that it does not write to a folder that is no longer locked.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writer of the checkpoints of one run. It also removes old checkpoints.
// The thread that writes is joined before the folder is unlocked, because fields are dropped in this
// order.
#[derive(Debug)]
pub(crate) struct Saver {
    /// Checkpoint that is being written. `None` if there is none.
    writing: Option<Writing>,
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
    /// True if the user was already warned that a checkpoint could not be written.
    warned: bool,
}

/// State of a run at the end of a step, as [`Saver::save`] writes it.
pub(crate) struct Now<'a> {
    pub seed: u64,
    pub trained: &'a Trained,
    pub weights: &'a mut Weights,
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
            writing: None,
            place,
            before: Before::default(),
            identity,
            journals: None,
            written: Vec::new(),
            finals: 0,
            last: beginning.begun,
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
            let known = |w: &Written| saver.named(w) == named;
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

    /// Returns the file name of a checkpoint.
    fn named(&self, of: &Written) -> Named {
        Named { epoch: Some(of.epoch), step: of.step, ..self.named_final(of.seed) }
    }

    /// Returns the file name of the final model of `seed`.
    fn named_final(&self, seed: u64) -> Named {
        Named { seed: (seed != self.beginning.first_seed).then_some(seed), epoch: None, step: None }
    }

    /// Returns true if a checkpoint is due after `round`, by the number of epochs or steps, or
    /// because enough time has passed since the last one.
    pub(crate) fn is_due(&self, round: Round, epochs: Epochs) -> bool {
        let settings = &self.beginning.settings;
        let every = settings.every.steps(epochs.rounds());
        let patience = Duration::from_secs(u64::from(settings.seconds));
        every.is_some_and(|every| round.0.is_multiple_of(every))
            || settings.seconds > 0 && self.last.elapsed() >= patience
    }

    /// Writes a checkpoint of `now`. If it was `stopped`, the checkpoint is complete when this
    /// method returns. Otherwise it may be written while the training continues, so that errors
    /// appear at the next call.
    ///
    /// If the disk is full, the run continues, and a checkpoint is tried again when the next one is
    /// due. Returns a warning for the user at the first such failure.
    pub(crate) fn save(
        &mut self,
        folder: &mut RunFolder,
        now: &mut Now<'_>,
        stopped: bool,
    ) -> Result<Option<String>> {
        let earlier = self.complete();
        let mut warned = self.tolerate(earlier)?;
        let steps = now.trained.steps;
        let is_whole = now.epochs.ends(Round(steps));
        let epoch = now.epochs.done(Round(steps));
        let report = now.trained.epochs.last().filter(|report| report.step == steps);
        let validation = report.and_then(|report| report.metrics?.goodness());
        let of = Written { seed: now.seed, epoch, step: (!is_whole).then_some(steps), validation };
        let is_written = self.written.last().is_some_and(|w| w.position() == of.position());
        // If tasks were cancelled in the middle of a round, the weights may not belong to the end
        // of a round.
        if steps == 0 || stopped && (is_written || now.weights.steps() != steps) {
            return Ok(warned);
        }
        let written = self.write(folder, now, of);
        warned = warned.or(self.tolerate(written)?);
        if stopped {
            let last = self.complete();
            warned = warned.or(self.tolerate(last)?);
        }
        self.last = Instant::now();
        Ok(warned)
    }

    /// Waits until the checkpoint that is being written is complete, and removes old ones.
    fn complete(&mut self) -> Result<()> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        let written = writing.join()?;
        let Written { seed, epoch, .. } = written;
        self.written.retain(|w| w.position() != written.position());
        self.written.push(written);
        tracing::info!(seed, epoch, step = written.step, folder = %self.place.path().display(), "checkpoint written");
        self.retire(seed)
    }

    /// Turns the failure to write a checkpoint into a warning for the user, if it is the first one.
    fn tolerate(&mut self, written: Result<()>) -> Result<Option<String>> {
        match written {
            Ok(()) => Ok(None),
            Err(Error::RunFolder(error @ FileError::Write { .. })) => {
                let told = (!std::mem::replace(&mut self.warned, true)).then(|| {
                    let an = if self.written.is_empty() { "no" } else { "an" };
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

    /// Begins to write a checkpoint, after the files that it refers to.
    fn write(&mut self, folder: &mut RunFolder, now: &mut Now<'_>, of: Written) -> Result<()> {
        if self.journals.is_none() {
            self.write_records()?;
            let create = |name: &str| Journal::create(self.place.path().join(name));
            self.journals = Some((create(METRICS)?, create(SEEDS)?));
        }
        let (metrics, seeds) = self.write_journals(folder, now.finished)?;
        let best = now.trained.best.clone();
        let mark = Mark {
            format: FORMAT,
            eciton: ECITON_VERSION.to_owned(),
            records: self.identity.clone(),
            seed: of.seed,
            epoch: of.epoch,
            inside: Some(Inside::new(now.trained, of.step.is_some())),
            finished: u32::try_from(now.finished.len()).unwrap_or(u32::MAX),
            steps: now.weights.steps(),
            best_epoch: best.as_ref().map(|best| best.epoch),
            best_step: best.as_ref().map(|best| best.step),
            metrics,
            seeds,
            seconds: self.before.seconds + self.beginning.begun.elapsed().as_secs_f64(),
            tasks: self.before.tasks + now.tasks,
            bill: match (now.bill, self.before.bill) {
                (Some(now), Some(before)) => Some(before.and(&now)),
                (now, before) => now.or(before),
            },
        };
        let (path, named) = (self.place.path().to_owned(), self.named(&of));
        let parameters = self.beginning.parameters.clone();
        self.place.keep();
        let mut writing = Writing { thread: None, written: of };
        if let Some(owners) = now.weights.owning_workers() {
            // The snapshot of the workers' weights may be replaced while the training continues.
            point::write(&path, named, &mark, &point::owned(&parameters, owners), &|_| {})?;
        } else {
            let frozen = now.weights.freeze()?;
            let write = move || {
                let kinds = frozen.kinds().max(1);
                let entries = point::entries(&parameters, &frozen, best.as_ref());
                point::write(&path, named, &mark, &entries, &|tensors| frozen.let_pass(tensors / kinds))
            };
            let thread = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(write);
            writing.thread = Some(thread.map_err(Error::Threads)?);
        }
        self.writing = Some(writing);
        Ok(())
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
            finished.iter().skip(self.finals).map(|s| (s, self.named_final(s.seed))).collect();
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
            let is_best = best.is_some_and(|best| best.position() == w.position());
            let stays = at > newest || is_best;
            if !stays {
                retired.push(*w);
            }
            stays
        });
        for old in retired {
            self.place.remove(self.named(&old))?;
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
        self.complete()?;
        let before = |w: &Written| w.epoch + u32::from(w.step.is_some()) < epoch;
        let stays = |w: &Written| earlier.contains(&w.seed) || w.seed == seed && before(w);
        let gone: Vec<Written> = self.written.extract_if(.., |w| !stays(w)).collect();
        for w in gone {
            self.place.remove(self.named(&w))?;
        }
        while let Some(last) = self.written.last().filter(|last| last.seed == seed).copied() {
            let named = self.named(&last);
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
        (self.finals, self.last) = (self.finals.min(n), Instant::now());
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

    /// Returns the seed, the last finished epoch, and the step within the next epoch of the newest
    /// complete checkpoint. Returns `None` if there is no checkpoint.
    pub(crate) fn newest(&self) -> Option<(u64, u32, Option<u32>)> {
        self.written.last().map(Written::position)
    }

    /// Returns true if there is a checkpoint on disk, or if one is being written.
    pub(crate) fn has_written(&self) -> bool {
        self.writing.is_some() || !self.written.is_empty()
    }

    /// Ends the use of the checkpoint folder when the run folder is complete. The folder is
    /// removed, unless the settings keep it or the run was `stopped` and can resume from it.
    pub(crate) fn finish(mut self, stopped: bool) {
        // The results are complete, so a checkpoint that cannot be written is not missed.
        let _ = self.complete();
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
