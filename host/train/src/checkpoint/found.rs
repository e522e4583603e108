//! A run that can be resumed, as found on disk: its newest undamaged checkpoint, and the files that
//! belong to this checkpoint.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eciton_recipe::{Config, origins};
use eciton_runs::durable::{read_extent, sha256};
use eciton_runs::provenance::DataDigest;
use eciton_runs::report::{EpochReport, SeedReport};
use eciton_runs::run_folder::model::{self, Model};
use eciton_runs::run_folder::{
    Error as FileError, MAX_MODEL_BYTES, MAX_RECORD_BYTES, Versions, malformed, parse, read,
};

use super::place::{Named, Place, folder};
use super::point::Point;
use super::saver::{Beginning, Saver, Written};
use super::{CONFIG, FORMAT, FORMATS, Fingerprint, METRICS, RUN, RunRecord, SEEDS, VERSIONS};
use crate::error::{Error, Result};
use crate::kernels::continues;
use eciton_types::Round;

/// Maximum number of seeds of a resumed run, which is also the limit of `eciton train`.
const MAX_SEEDS: u32 = 10_000;

/// A run that can be resumed, as found on disk by [`Found::open`]. It holds the lock of the
/// checkpoint folder.
#[derive(Debug)]
pub(crate) struct Found {
    place: Place,
    /// Path of the run folder, as given by the user.
    pub run: PathBuf,
    pub config: Config,
    /// Origin of each setting, such as the user or a default, keyed by the setting's key.
    pub origins: BTreeMap<String, String>,
    pub versions: Versions,
    pub record: RunRecord,
    pub point: Arc<Point>,
    /// Content of `metrics.jsonl` up to the checkpoint.
    pub metrics: Vec<u8>,
    /// Reports parsed from `metrics`.
    pub epochs: Vec<EpochReport>,
    seeds: Vec<u8>,
    /// Report and model of each seed that had finished before the checkpoint.
    pub finished: Vec<(SeedReport, Model)>,
    /// Checkpoints that are damaged and were skipped, each with the reason.
    pub damaged: Vec<String>,
    /// Names of files, such as `config.toml`, that were changed after the checkpoint was written.
    changed: Vec<String>,
    written: Vec<Written>,
}

/// A checkpoint with the epoch reports, seed reports and final models that belong to it.
struct Whole {
    point: Point,
    metrics: Vec<u8>,
    epochs: Vec<EpochReport>,
    seeds: Vec<u8>,
    finished: Vec<(SeedReport, Model)>,
}

impl Found {
    /// Locks the checkpoint folder of a run, and reads its newest undamaged checkpoint without
    /// changing any file. `run` is the path of the future run folder, and `shown` is this path as
    /// the user gave it.
    ///
    /// # Errors
    /// Returns [`Error::NoCheckpoint`] if there is no usable checkpoint, and [`Error::Busy`] if
    /// another process works on the run. Also returns errors for files that are missing, damaged or
    /// of another format.
    pub(crate) fn open(run: &Path, shown: &Path) -> Result<Self> {
        Self::in_place(Place::open(run, shown)?, shown)
    }

    /// Reads the newest undamaged checkpoint like [`Found::open`], without a lock. Host 0 of the run
    /// has the lock, and writes no checkpoint before all hosts train.
    ///
    /// # Errors
    /// Returns the errors of [`Found::open`].
    pub(crate) fn read_only(run: &Path, shown: &Path) -> Result<Self> {
        Self::in_place(Place::read_only(run)?, shown)
    }

    fn in_place(place: Option<Place>, shown: &Path) -> Result<Self> {
        let nothing = |found: String| Error::NoCheckpoint { run: shown.to_owned(), found };
        let absent = || nothing(format!("no checkpoint found (expected {})", folder(shown).display()));
        let place = place.ok_or_else(absent)?;
        let mut points: Vec<Named> = place.points()?.into_iter().filter(|n| n.epoch.is_some()).collect();
        if points.is_empty() {
            let found =
                format!("{} has no checkpoint, because none was due before the end", folder(shown).display());
            return Err(nothing(found));
        }
        let bytes = |name: &str| read(&place.path().join(name), MAX_RECORD_BYTES);
        let texts = [bytes(CONFIG)?, bytes(VERSIONS)?, bytes(RUN)?];
        let [config, versions, record] = &texts;
        let path = place.path().join(CONFIG);
        let text = std::str::from_utf8(config).map_err(|e| malformed(&path, "UTF-8 text", &e.to_string()))?;
        let mut config = Config::parse(text, &path.display().to_string())?;
        let origins = origins(text);
        config.recall_choices(&origins)?;
        let versions: Versions = parse(versions, &place.path().join(VERSIONS))?;
        let path = place.path().join(RUN);
        let record: RunRecord = parse(record, &path)?;
        if !FORMATS.contains(&record.format) {
            let (found, eciton) = (record.format, versions.eciton);
            return Err(FileError::Version { path, found, eciton, known: FORMAT }.into());
        }
        if record.schema.is_none() {
            config.model.set_slope_of_format_1();
        }
        // Seeds are consecutive, starting at the seed of the configuration. Files of the first seed
        // have no seed number in their names.
        let place_in_run = |named: &Named| {
            let nth = named.seed.map_or(0, |seed| seed.wrapping_sub(config.run.seed));
            std::cmp::Reverse((nth, named.epoch, named.step))
        };
        points.sort_by_key(place_in_run);
        let mut damaged = Vec::new();
        let mut newest = None;
        let mut older = Vec::new();
        for named in points {
            if newest.is_some() {
                older.push(named);
                continue;
            }
            match Whole::read(&place, named, config.run.seed) {
                Ok(whole) => newest = Some(whole),
                Err(error) => {
                    let (file, text) = (named.file(), error.to_string());
                    damaged.push(if text.contains(&file) { text } else { format!("{file}: {text}") });
                }
            }
        }
        let Some(Whole { point, metrics, epochs, seeds, finished }) = newest else {
            let found =
                format!("all checkpoints in {} are damaged: {}", folder(shown).display(), damaged.join("; "));
            return Err(nothing(found));
        };
        let names = [CONFIG, VERSIONS, RUN].into_iter();
        let now = texts.iter().map(|text| sha256(text));
        let changed = names.zip(now).zip(&point.mark.records).filter(|((_, now), then)| now != *then);
        let changed = changed.map(|((name, _), _)| format!("{name} was changed")).collect();
        let mark = &point.mark;
        let own = Written { seed: mark.seed, epoch: mark.epoch, step: mark.step_within(), validation: None };
        let older = older.iter().rev().filter_map(|named| {
            let seed = named.seed.unwrap_or(config.run.seed);
            Some(Written { seed, epoch: named.epoch?, step: named.step, validation: None })
        });
        let mut written: Vec<Written> = older.chain([own]).collect();
        for w in &mut written {
            // The last report of an epoch is that of its end.
            let report = epochs.iter().rfind(|e| (e.seed, e.epoch) == (w.seed, w.epoch));
            w.validation = report.filter(|_| w.step.is_none()).and_then(|e| e.metrics?.goodness());
        }
        let run = shown.to_owned();
        Ok(Self {
            place,
            run,
            config,
            origins,
            versions,
            record,
            point: Arc::new(point),
            metrics,
            epochs,
            seeds,
            finished,
            damaged,
            changed,
            written,
        })
    }

    /// Compares the checkpointed run with the versions, data and model parameters of the resuming
    /// process, and with its last step. Returns the differences that do not prevent resuming, as
    /// sentences for the user.
    ///
    /// # Errors
    /// Returns [`Error::Changed`] for differences with which the run cannot resume. Unless `force`
    /// is true, any difference returns this error.
    pub(crate) fn check(
        &self,
        versions: &Versions,
        (data, digest): (&Fingerprint, Option<&DataDigest>),
        parameters: &[(String, Vec<usize>)],
        (last, force): (Round, bool),
    ) -> Result<Vec<String>> {
        let run = self.run.clone();
        let impossible =
            |differences| Err(Error::Changed { run: run.clone(), differences, forceable: false });
        let known = self.record.schema.as_ref().and_then(|schema| schema.data.as_ref());
        let parts = known.zip(digest).map(|(then, now)| then.differences(now, |_| true));
        let of_data = self.record.data.differences(data, parts);
        if self.point.parameters != parameters {
            let shape = |all: &[(String, Vec<usize>)]| {
                let each: Vec<String> =
                    all.iter().map(|(name, extents)| format!("{name} {extents:?}")).collect();
                each.join(", ")
            };
            let mut differences = of_data;
            differences.push(format!(
                "the checkpoint has the parameters {}, but the model on this data has the parameters {}",
                shape(&self.point.parameters),
                shape(parameters)
            ));
            return impossible(differences);
        }
        let (config, mark) = (&self.config, &self.point.mark);
        if last.0 < mark.steps {
            let (steps, epoch) = (mark.steps, mark.epoch);
            return impossible(vec![format!(
                "run.epochs or run.steps ends the run after step {last}, but the checkpoint is of step {steps} \
                 (epoch {epoch})"
            )]);
        }
        let seeds = u64::from(self.seeds());
        let nth = mark.seed.wrapping_sub(config.run.seed);
        if nth != u64::from(mark.finished) || nth >= seeds {
            let (first, seed) = (config.run.seed, mark.seed);
            return impossible(vec![format!(
                "the run has {seeds} seeds from {first} on, but the checkpoint is of seed {seed} \
                 after {} others",
                mark.finished
            )]);
        }
        let mut differences = self.changed.clone();
        differences.extend(of_data);
        let then = &self.versions;
        for (what, then, now) in [
            ("the version of eciton", &then.eciton, &versions.eciton),
            ("the kernel contract", &then.contract, &versions.contract),
            ("the numeric class", &then.numeric_class, &versions.numeric_class),
        ] {
            if then != now {
                differences.push(format!("{what} was {then} and is now {now}"));
            }
        }
        for (name, then) in &then.kernels {
            let now = versions.kernels.get(name);
            if !continues(name, then, now) {
                let short = |digest: &str| digest.chars().take(12).collect::<String>();
                let now = now.map_or("missing".to_owned(), |now| short(now));
                differences.push(format!("kernel {name} was {} and is now {now}", short(then)));
            }
        }
        if differences.is_empty() || force {
            return Ok(differences);
        }
        Err(Error::Changed { run, differences, forceable: true })
    }

    /// Returns a [`Saver`] that continues after this checkpoint. Later checkpoints on disk are
    /// removed.
    pub(crate) fn saver(self, beginning: Beginning) -> Result<Saver> {
        Saver::resume(self.place, beginning, &self.point.mark, &self.metrics, &self.seeds, self.written)
    }

    /// Returns the number of seeds of the run, at most [`MAX_SEEDS`].
    pub(crate) fn seeds(&self) -> u32 {
        self.record.seeds.clamp(1, MAX_SEEDS)
    }

    /// Returns the locked checkpoint folder.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the number of finished epochs of all seeds, including the share of the epoch that the
    /// checkpoint is within. `per_epoch` is the number of steps per epoch.
    pub(crate) fn epochs_done(&self, per_epoch: u32) -> f64 {
        let finished: u64 = self.finished.iter().map(|(report, _)| u64::from(report.epochs)).sum();
        finished as f64 + f64::from(self.point.mark.steps) / f64::from(per_epoch.max(1))
    }

    /// Returns the reports of `seed` up to the checkpoint.
    pub(crate) fn epochs_of(&self, seed: u64) -> Vec<EpochReport> {
        self.epochs.iter().filter(|epoch| epoch.seed == seed).cloned().collect()
    }
}

impl Whole {
    /// Reads a checkpoint, and the journal lines and final models that belong to it. Fails if any
    /// of them is missing or damaged.
    fn read(place: &Place, named: Named, first_seed: u64) -> Result<Self> {
        let path = place.path().join(named.file());
        let point = Point::read(&path)?;
        let mark = &point.mark;
        let position = (named.seed.unwrap_or(first_seed), named.epoch, named.step);
        let belongs = (mark.seed, Some(mark.epoch), mark.step_within()) == position;
        if !belongs {
            let found = format!("seed {}, epoch {}", mark.seed, mark.epoch);
            return Err(malformed(&path, "the seed and epoch of its name", &found).into());
        }
        let journal = |name: &str, extent| -> Result<Vec<u8>> {
            let path = place.path().join(name);
            let wanted = "the lines that were written with the checkpoint";
            Ok(read_extent(&path, extent)?.ok_or_else(|| malformed(&path, wanted, "other lines"))?)
        };
        let metrics = journal(METRICS, &mark.metrics)?;
        let epochs: Vec<EpochReport> = lines(&metrics, &place.path().join(METRICS))?;
        let seeds = journal(SEEDS, &mark.seeds)?;
        let reports: Vec<SeedReport> = lines(&seeds, &place.path().join(SEEDS))?;
        let (count, wanted) = (epochs.iter().filter(|e| e.seed == mark.seed).count(), mark.reports());
        let of_seed = wanted == 0 || epochs.last().is_some_and(|e| e.seed == mark.seed);
        if count != wanted || !of_seed || reports.len() as u64 != u64::from(mark.finished) {
            let found =
                format!("{count} of {wanted} reports and {} of {} seeds", reports.len(), mark.finished);
            return Err(malformed(&path, "records of all reports and seeds", &found).into());
        }
        let final_model = |report: SeedReport| -> Result<(SeedReport, Model)> {
            let seed = (report.seed != first_seed).then_some(report.seed);
            let path = place.path().join(Named { seed, epoch: None, step: None }.file());
            let model = model::decode(&read(&path, MAX_MODEL_BYTES)?, &path)?;
            if model.digest() != report.model_digest {
                let (expected, found) = (report.model_digest, model.digest().to_owned());
                return Err(FileError::Digest { path, place: SEEDS, expected, found }.into());
            }
            Ok((report, model))
        };
        let finished = reports.into_iter().map(final_model).collect::<Result<_>>()?;
        Ok(Self { point, metrics, epochs, seeds, finished })
    }
}

/// Parses the content of `metrics.jsonl`, which has one epoch report per line.
pub(crate) fn epochs(metrics: &[u8]) -> Result<Vec<EpochReport>> {
    lines(metrics, Path::new(METRICS))
}

/// Parses a text with one JSON value per line. `path` is used in errors only.
fn lines<T: for<'a> serde::Deserialize<'a>>(bytes: &[u8], path: &Path) -> Result<Vec<T>> {
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(|line| parse(line, path)).collect::<std::result::Result<_, _>>()?)
}
