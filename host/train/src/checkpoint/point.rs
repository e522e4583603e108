//! A checkpoint file, which stores the state of a run at the end of a step (a weight update).
//!
//! The file is in safetensors format. For each parameter NAME, it has the weights as `values/NAME`,
//! and the two moments of the optimiser as `first/NAME` and `second/NAME`. With the pipeline
//! schedule `2bw`, `before/NAME` has the weights before the last step. If the run keeps the best
//! model, `best/NAME` has its weights. The metadata has the [`Mark`] as JSON, the digest of the
//! tensors, and a SHA-256 of both.
//!
//! Tensors are read one at a time, on demand, because weights that workers own may exceed this
//! machine's memory.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use eciton_exec::Bill;
use eciton_graph::mapping;
use eciton_recipe::{Config, origins};
use eciton_runs::durable::{self, Extent, sha256};
use eciton_runs::report::EpochReport;
use eciton_runs::run_folder::tensor::{Entry, MAX_MODEL_BYTES, Values};
use eciton_runs::run_folder::{Error as FileError, MAX_RECORD_BYTES, limit, malformed, model, read, writing};
use eciton_tensor::SlabOwner;
use eciton_types::Version;
use serde::{Deserialize, Serialize};

use super::place::Named;
use super::{CONFIG, FORMAT, FORMATS, Place};
use crate::driver::{Best, Sum, Trained};
use crate::error::Result;
use crate::owned::Owners;
#[cfg(test)]
use crate::weights::WeightState;
use crate::weights::{Frozen, Weights};

/// Maximum size of a checkpoint, in bytes. It is five times that of a model, because a checkpoint
/// has up to five tensors per parameter.
pub(super) const MAX_BYTES: u64 = 5 * MAX_MODEL_BYTES;

/// Progress of a run at a checkpoint. It is all content of the checkpoint except the tensors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub format: u64,
    pub eciton: String,
    /// SHA-256 of `config.toml`, `versions.json` and `run.json`, in hexadecimal.
    pub records: [String; 3],
    /// Seed that was being trained.
    pub seed: u64,
    /// Last finished epoch of this seed. The checkpoint may be of a later step, within the next
    /// epoch.
    pub epoch: u32,
    /// Position in that epoch. `None` in checkpoints of format 1, which are of the end of an epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<Inside>,
    /// Number of seeds that had finished before this one.
    pub finished: u32,
    /// Number of optimiser steps of this seed so far.
    pub steps: u32,
    /// Epoch of the best model, whose weights are in the `best/` tensors. `None` if there is no
    /// best model.
    pub best_epoch: Option<u32>,
    /// Step of the best model. `None` if there is none, and in checkpoints of format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_step: Option<u32>,
    pub(super) metrics: Extent,
    pub(super) seeds: Extent,
    /// Seconds that all processes of the run have spent on it so far. `tasks` is the number of
    /// tasks of all processes.
    pub seconds: f64,
    pub tasks: u64,
    /// Charged usage of the run so far. `None` if nothing is charged.
    pub bill: Option<Bill>,
}

/// State of the unfinished period at a checkpoint. A period is an epoch or a part of it that has one
/// report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inside {
    /// True if the checkpoint is within an epoch, and not at its end.
    pub within: bool,
    /// Number of reports of the seed.
    pub reports: u32,
    /// Loss sums of the unfinished period, and its training time and operations.
    sum: Sum,
    seconds: f64,
    flops: u64,
    /// Report whose evaluation was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending: Option<EpochReport>,
}

impl Inside {
    /// Returns the state of the period that `trained` has not finished.
    pub(super) fn new(trained: &Trained, within: bool) -> Self {
        Self {
            within,
            reports: u32::try_from(trained.epochs.len()).unwrap_or(u32::MAX),
            sum: trained.sum.clone(),
            seconds: trained.seconds,
            flops: trained.flops,
            pending: trained.pending.clone(),
        }
    }
}

impl Mark {
    /// Returns the number of reports of the seed.
    pub(crate) fn reports(&self) -> usize {
        self.inside.as_ref().map_or(self.epoch, |inside| inside.reports) as usize
    }

    /// Returns the step of the checkpoint if it is within an epoch.
    pub(super) fn step_within(&self) -> Option<u32> {
        self.inside.as_ref().filter(|inside| inside.within).map(|_| self.steps)
    }
}

/// Name and extents of each parameter, in the order of the program.
pub(super) type Parameters = [(String, Vec<usize>)];

/// Kinds of tensors in a checkpoint. A tensor is named `KIND/NAME` after its parameter. The first
/// three kinds are in every checkpoint.
const KINDS: [&str; 5] = ["values", "first", "second", "before", "best"];

/// A checkpoint that was read from a file and verified. Its tensors are read on demand.
pub(crate) struct Point {
    pub mark: Mark,
    /// Name and extents of each parameter, in the order of the program.
    pub parameters: Vec<(String, Vec<usize>)>,
    file: Arc<dyn SlabOwner>,
    /// Byte range of each parameter's tensor in the file, keyed by kind of tensor.
    places: BTreeMap<&'static str, Vec<Range<usize>>>,
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Point").field("mark", &self.mark).finish_non_exhaustive()
    }
}

/// Returns the tensors of a checkpoint for a run whose weights are on this machine. All tensors of a
/// parameter are together, so that its optimiser step can continue after they are written. `best`
/// has the weights of the best model, if the run keeps them.
pub(super) fn entries<'a>(
    parameters: &'a Parameters,
    frozen: &'a Frozen,
    best: Option<&'a Best>,
) -> Vec<Entry<'a>> {
    let kinds = frozen.kinds();
    let of_parameter = |(at, (name, shape)): (usize, &'a (String, Vec<usize>))| {
        let kind = move |(kind, of): (usize, &str)| {
            Entry::new(format!("{of}/{name}"), shape, Values::Pieces(frozen, at * kinds + kind))
        };
        KINDS.into_iter().take(kinds).enumerate().map(kind)
    };
    let best = parameters.iter().zip(best.iter().flat_map(|best| best.values.iter()));
    let best = best
        .map(|((name, shape), values)| Entry::new(format!("best/{name}"), shape, Values::F32(values.into())));
    parameters.iter().enumerate().flat_map(of_parameter).chain(best).collect()
}

/// Returns the tensors of a checkpoint for a run whose weights are on workers. Their values come
/// from the newest snapshot of the weights.
pub(super) fn owned<'a>(parameters: &'a Parameters, owners: &'a Owners) -> Vec<Entry<'a>> {
    let of_kind = |(matrix, kind): (Option<usize>, &'static str)| {
        let entry = move |(at, (name, shape)): (usize, &'a (String, Vec<usize>))| {
            Entry::new(format!("{kind}/{name}"), shape, owners.pieces_of(at, matrix))
        };
        parameters.iter().enumerate().map(entry)
    };
    let always = (0..3).map(|at| Some(at).filter(|at| *at < owners.matrices()));
    let all = always.zip(KINDS).chain(owners.before().map(|before| (Some(before), "before")));
    all.flat_map(of_kind).collect()
}

/// Writes a checkpoint file atomically. After a crash, the file is complete or absent. `written` is
/// called with the number of tensors that are written so far.
pub(super) fn write(
    folder: &Path,
    named: Named,
    mark: &Mark,
    entries: &[Entry<'_>],
    written: &dyn Fn(usize),
) -> Result<()> {
    let name = named.file();
    let path = folder.join(&name);
    let mark = serde_json::to_string(mark).map_err(|e| writing(&path)(e.into()))?;
    let header = |digest: String| {
        let sum = sha256(format!("{digest}\n{mark}").as_bytes());
        let metadata = [("digest", digest), ("mark", mark.clone()), ("sum", sum)];
        let metadata: BTreeMap<String, String> = metadata.map(|(key, value)| (key.to_owned(), value)).into();
        model::header(entries, &metadata, MAX_BYTES, &path)
    };
    // The digest is known after the tensors are written. Until then, a text of its length takes its
    // place.
    let unknown = header(sha256(&[]))?;
    durable::write(folder, &name, |file| {
        let digest = model::write(&mut *file, &unknown, entries, written)?;
        let header = header(digest).map_err(io::Error::other)?;
        model::rewrite(file, &header)
    })?;
    Ok(())
}

/// Changes the configuration that the checkpoints of `run` record, for instance after files were
/// moved. `change` edits the configuration in place.
pub(crate) fn readdress(run: &Path, change: impl FnOnce(&mut Config)) -> Result<()> {
    let Some(place) = Place::open(run, run)? else { return Ok(()) };
    let path = place.path().join(CONFIG);
    let text = read(&path, MAX_RECORD_BYTES)?;
    let text = std::str::from_utf8(&text).map_err(|e| malformed(&path, "UTF-8 text", &e.to_string()))?;
    let mut config = Config::parse(text, &path.display().to_string())?;
    change(&mut config);
    let said = origins(text);
    let text = config.to_commented_toml(&|key: &str| said.get(key).cloned())?;
    for named in place.points()?.into_iter().filter(|named| named.epoch.is_some()) {
        let mut point = Point::read(&place.path().join(named.file()))?;
        let [own, _, _] = &mut point.mark.records;
        *own = sha256(text.as_bytes());
        write(place.path(), named, &point.mark, &point.entries(), &|_| {})?;
    }
    durable::write(place.path(), CONFIG, |file| std::io::Write::write_all(file, text.as_bytes()))?;
    Ok(())
}

impl Point {
    /// Reads a checkpoint file, and verifies its content by its digests.
    pub(super) fn read(path: &Path) -> Result<Self> {
        Ok(Self::decode(mapping::map(path)?, path)?)
    }

    /// Decodes and verifies a checkpoint from its bytes. `path` is used only in errors.
    pub(super) fn decode(file: Arc<dyn SlabOwner>, path: &Path) -> std::result::Result<Self, FileError> {
        let wrong = |expected: &str, found: &str| malformed(path, expected, found);
        let bytes = file.bytes();
        limit(path, "size of a checkpoint", "bytes", MAX_BYTES, bytes.len() as u64)?;
        let (tensors, metadata) = model::cells(bytes, path)?;
        let of = |key: &str| metadata.get(key).map_or("", String::as_str);
        let found = sha256(format!("{}\n{}", of("digest"), of("mark")).as_bytes());
        if found != of("sum") {
            return Err(wrong("the SHA-256 of its `digest` and `mark`", of("sum")));
        }
        #[derive(Deserialize)]
        struct Format {
            format: u64,
            eciton: String,
        }
        let json = |e: serde_json::Error| wrong("the `mark` of a checkpoint", &e.to_string());
        let Format { format, eciton } = serde_json::from_str(of("mark")).map_err(json)?;
        if !FORMATS.contains(&format) {
            return Err(FileError::Version { path: path.to_owned(), found: format, eciton, known: FORMAT });
        }
        let mark: Mark = serde_json::from_str(of("mark")).map_err(json)?;
        let mut entries = Vec::with_capacity(tensors.len());
        let mut parameters: Vec<(String, Vec<usize>)> = Vec::new();
        let mut places: BTreeMap<&'static str, Vec<Range<usize>>> = BTreeMap::new();
        for tensor in &tensors {
            let values = tensor.values(bytes).ok_or_else(|| tensor.wrong(path))?;
            entries.push(Entry::new(&tensor.name[..], &tensor.info.shape, Values::Bytes(values)));
            let (kind, name) = tensor.name.split_once('/').unwrap_or_default();
            let Some(kind) = KINDS.into_iter().find(|known| *known == kind) else {
                return Err(wrong("only tensors of a checkpoint", &tensor.name));
            };
            let of_kind = places.entry(kind).or_default();
            let parameter = (name.to_owned(), tensor.info.shape.clone());
            if kind == "values" {
                parameters.push(parameter);
            } else if parameters.get(of_kind.len()) != Some(&parameter) {
                return Err(wrong("the tensors of a single model", &tensor.name));
            }
            of_kind.push(tensor.place.clone());
        }
        let found = model::digest_of(&entries).unwrap_or_default();
        if found != of("digest") {
            let (expected, place) = (of("digest").to_owned(), "its own header");
            return Err(FileError::Digest { path: path.to_owned(), place, expected, found });
        }
        let has = |kind| places.get(kind).map_or(0, Vec::len);
        let best = mark.best_epoch.map(|_| "best");
        let whole = ["first", "second"].into_iter().chain(best).all(|kind| has(kind) == parameters.len())
            && [0, parameters.len()].contains(&has("before"));
        if !whole {
            return Err(wrong("the values and moments of every parameter", "fewer tensors"));
        }
        Ok(Self { mark, parameters, file, places })
    }

    /// Returns the tensor of one kind, for instance `best`, for the parameter with index
    /// `parameter`.
    fn values(&self, kind: &str, parameter: usize) -> Vec<f32> {
        let place = self.places.get(kind).and_then(|places| places.get(parameter)).cloned();
        model::values_of(place.and_then(|place| self.file.bytes().get(place)).unwrap_or_default())
    }

    /// Returns the tensors of one kind for all parameters. Returns `None` if the checkpoint has no
    /// tensors of that kind.
    fn all(&self, kind: &str) -> Option<Vec<Vec<f32>>> {
        let count = self.places.get(kind)?.len();
        Some((0..count).map(|parameter| self.values(kind, parameter)).collect())
    }

    /// Returns the weights and the optimiser's moments.
    #[cfg(test)]
    pub(super) fn state(&self) -> WeightState {
        let [values, first, second] =
            ["values", "first", "second"].map(|kind| self.all(kind).unwrap_or_default());
        WeightState { steps: self.mark.steps, values, before: self.all("before"), first, second }
    }

    /// Returns the best model of the seed so far. Returns `None` if the checkpoint has none.
    /// `per_epoch` is the number of steps per epoch.
    fn best(&self, per_epoch: u32) -> Option<Best> {
        let epoch = self.mark.best_epoch?;
        let step = self.mark.best_step.unwrap_or(epoch.saturating_mul(per_epoch));
        Some(Best { epoch, step, values: self.all("best")?.into() })
    }

    /// Returns the state of the training at the checkpoint. `epochs` are the reports of its seed.
    pub(crate) fn trained(&self, mut epochs: Vec<EpochReport>, per_epoch: u32) -> Trained {
        // Reports of older versions are of whole epochs.
        for report in epochs.iter_mut().filter(|report| report.step == 0) {
            report.step = report.epoch.saturating_mul(per_epoch);
        }
        let (best, steps) = (self.best(per_epoch), self.mark.steps);
        let trained = Trained { epochs, best, steps, ..Trained::default() };
        match self.mark.inside.clone() {
            Some(Inside { sum, seconds, flops, pending, .. }) => {
                Trained { sum, seconds, flops, pending, ..trained }
            }
            None => trained,
        }
    }

    /// Returns all tensors of the checkpoint in the form that [`write()`] takes.
    fn entries(&self) -> Vec<Entry<'_>> {
        let mut entries = Vec::new();
        for kind in KINDS {
            let places = self.places.get(kind).into_iter().flatten();
            for ((name, shape), place) in self.parameters.iter().zip(places) {
                let values = self.file.bytes().get(place.clone()).unwrap_or_default();
                entries.push(Entry::new(format!("{kind}/{name}"), shape, Values::Bytes(values)));
            }
        }
        entries
    }

    /// Sets `weights` to the weights and moments in the checkpoint. Fails if the parameters do not
    /// match.
    pub(crate) fn restore(&self, weights: &mut Weights) -> Result<()> {
        let Some(owners) = weights.owning_workers() else {
            let of = (self.mark.steps, self.places.contains_key("before"));
            let values = |kind: usize, parameter| {
                KINDS.get(kind).map_or_else(Vec::new, |kind| self.values(kind, parameter)).into()
            };
            return weights.restore_each(of, &values);
        };
        for parameter in 0..self.parameters.len() {
            for (matrix, kind) in KINDS.into_iter().enumerate().take(owners.matrices()) {
                owners.put(parameter, matrix, &self.values(kind, parameter))?;
            }
            if self.places.contains_key("before") {
                owners.put(parameter, owners.matrices(), &self.values("before", parameter))?;
            }
        }
        weights.returned_to(Version(self.mark.steps.into()))
    }
}
