//! A checkpoint file: one moment of a run.
//!
//! A safetensors file. Each parameter is there as `values/NAME`, `first/NAME` and `second/NAME` (the
//! optimiser's moments), and as `best/NAME` where the best model is to be kept. The metadata has the
//! [`Mark`] as JSON, the tensors' digest, and a SHA-256 of both.

use std::collections::BTreeMap;
use std::path::Path;

use eciton_exec::Bill;
use eciton_plan::{Config, origins};
use serde::{Deserialize, Serialize};

use super::durable::{self, Extent, sha256};
use super::place::Named;
use super::{CONFIG, FORMAT, Place};
use crate::driver::Best;
use crate::error::Result;
use crate::run_folder::model::{self, Model, NamedTensor};
use crate::run_folder::{Error as FileError, MAX_RECORD_BYTES, malformed, model_digest, read};
use crate::weights::WeightState;

/// The most bytes of a checkpoint: four times those of a model.
pub(super) const MAX_BYTES: u64 = 4 * model::MAX_MODEL_BYTES;

/// Where a run stands: all of a checkpoint that is not tensors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub format: u64,
    pub eciton: String,
    /// SHA-256 of `config.toml`, `versions.json` and `run.json`.
    pub records: [String; 3],
    /// The seed that is being trained.
    pub seed: u64,
    /// The last epoch that is over.
    pub epoch: u32,
    /// Seeds that have finished before this one.
    pub finished: u32,
    /// Optimiser steps taken.
    pub steps: u32,
    /// The epoch of the `best/` tensors.
    pub best_epoch: Option<u32>,
    pub(super) metrics: Extent,
    pub(super) seeds: Extent,
    /// Seconds and tasks of the run until now, over all its processes.
    pub seconds: f64,
    pub tasks: u64,
    /// What was charged for until now.
    pub bill: Option<Bill>,
}

/// A checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub mark: Mark,
    pub weights: WeightState,
    pub best: Option<Best>,
    /// Name and extents of each parameter, in the program's order.
    pub parameters: Vec<(String, Vec<usize>)>,
}

/// Writes anew what the checkpoints beside `run` say of places: `change` gets their configuration, and returns the one
/// that they have from now on.
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
        point.write(&place, named)?;
    }
    durable::write(place.path(), CONFIG, |file| std::io::Write::write_all(file, text.as_bytes()))?;
    Ok(())
}

impl Point {
    /// Writes it, whole or not at all.
    pub(super) fn write(&self, place: &Place, named: Named) -> Result<()> {
        let name = named.file();
        let path = place.path().join(&name);
        let tensors = self.tensors();
        let digest = model_digest(&tensors);
        let mark = serde_json::to_string(&self.mark)
            .map_err(|e| FileError::Write { path: path.clone(), source: e.into() })?;
        let sum = sha256(format!("{digest}\n{mark}").as_bytes());
        let metadata = [("digest", digest), ("mark", mark), ("sum", sum)];
        let metadata: BTreeMap<String, String> = metadata.map(|(key, value)| (key.to_owned(), value)).into();
        let header = model::header(&tensors, &metadata, MAX_BYTES, &path)?;
        durable::write(place.path(), &name, |file| model::write(file, &header, &tensors))?;
        Ok(())
    }

    fn tensors(&self) -> Vec<NamedTensor> {
        let state = &self.weights;
        let kinds = [("values", &state.values), ("first", &state.first), ("second", &state.second)];
        let best = self.best.as_ref().map(|best| ("best", &best.values));
        let mut tensors = Vec::new();
        for (kind, all) in kinds.into_iter().chain(best) {
            for ((name, shape), values) in self.parameters.iter().zip(all) {
                let (name, shape, values) = (format!("{kind}/{name}"), shape.clone(), values.clone());
                tensors.push(NamedTensor { name, shape, values });
            }
        }
        tensors
    }

    /// Reads one, and checks all of it against its digests.
    pub(super) fn read(path: &Path) -> Result<Self> {
        Ok(Self::decode(&read(path, MAX_BYTES)?, path)?)
    }

    /// Reads one from its bytes; `path` is named in errors.
    pub(super) fn decode(bytes: &[u8], path: &Path) -> std::result::Result<Self, FileError> {
        let wrong = |expected: &str, found: &str| malformed(path, expected, found);
        let Model { tensors, metadata } = model::decode(bytes, path)?;
        let of = |key: &str| metadata.get(key).map_or("", String::as_str);
        let found = sha256(format!("{}\n{}", of("digest"), of("mark")).as_bytes());
        if found != of("sum") {
            return Err(wrong("a checkpoint with the SHA-256 of its mark", of("sum")));
        }
        #[derive(Deserialize)]
        struct Format {
            format: u64,
            eciton: String,
        }
        let json = |e: serde_json::Error| wrong("a checkpoint's mark", &e.to_string());
        let Format { format, eciton } = serde_json::from_str(of("mark")).map_err(json)?;
        if format != FORMAT {
            return Err(FileError::Version { path: path.to_owned(), found: format, eciton, known: FORMAT });
        }
        let mark: Mark = serde_json::from_str(of("mark")).map_err(json)?;
        let mut parameters: Vec<(String, Vec<usize>)> = Vec::new();
        let mut all: BTreeMap<&str, Vec<Vec<f32>>> = BTreeMap::new();
        for tensor in tensors {
            let (kind, name) = tensor.name.split_once('/').unwrap_or_default();
            let Some(kind) = ["values", "first", "second", "best"].into_iter().find(|known| *known == kind)
            else {
                return Err(wrong("tensors of a checkpoint", &tensor.name));
            };
            let of_kind = all.entry(kind).or_default();
            let parameter = (name.to_owned(), tensor.shape);
            if kind == "values" {
                parameters.push(parameter);
            } else if parameters.get(of_kind.len()) != Some(&parameter) {
                return Err(wrong("the tensors of one model", &tensor.name));
            }
            of_kind.push(tensor.values);
        }
        let mut take = |kind: &str| all.remove(kind).unwrap_or_default();
        let (values, first, second, best) = (take("values"), take("first"), take("second"), take("best"));
        let count = parameters.len();
        let best = mark.best_epoch.map(|epoch| Best { epoch, values: best });
        let whole = first.len() == count
            && second.len() == count
            && best.as_ref().is_none_or(|best| best.values.len() == count);
        if !whole {
            return Err(wrong("the moments of every parameter", "fewer"));
        }
        let weights = WeightState { steps: mark.steps, values, first, second };
        Ok(Self { mark, weights, best, parameters })
    }
}
