//! Jobs that predict with or evaluate the model of a run. The job contains a run folder, and its
//! answer contains scores or metrics.

use std::path::Path;

use eciton_graph::dataset::VertexIds;
use eciton_recipe::{Config, Data, TaskType};
use eciton_runs::decisions::Known;
use eciton_runs::run_folder::{self, Run, json, parse};
use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::{Files, Job, Part, Work, bundle};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::predict::{Evaluation, Predictions, evaluate, predict};

/// The predictions or the evaluation that a job makes with the model of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicting {
    /// Key in the job's files under which the run folder is found.
    pub run: String,
    /// True if the data set of the recipe is used instead of that of the run.
    pub other_data: bool,
    /// True if the embeddings (inputs of the last layer) are returned too.
    pub embeddings: bool,
    /// True if metrics are computed instead of scores.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub evaluation: bool,
}

const HEAD: &str = "predicted.json";
const EVALUATION: &str = "evaluated.json";
const SCORES: &str = "scores.f32";
const EMBEDDINGS: &str = "embeddings.f32";
const LABELS: &str = "labels.f32";
const PARTS: &str = "parts.u8";
/// Maximum total size in bytes of an unpacked answer.
const MAX_BYTES: u64 = 8 << 30;

/// Header of an answer with predictions. It describes the other files of the answer, which have
/// row-major, little-endian numbers.
#[derive(Serialize, Deserialize)]
struct Head {
    graphs: bool,
    task: TaskType,
    rows: usize,
    columns: usize,
    embedding: Option<usize>,
    #[serde(flatten)]
    ids: Ids,
    /// Ids of the sources and of the targets, if rows are edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends: Option<[Ids; 2]>,
    /// Names of the classes or label columns.
    names: Vec<String>,
}

/// Ids of rows. Both fields are `None` for the ids 0, 1, 2, ...
#[derive(Serialize, Deserialize)]
struct Ids {
    numbers: Option<Vec<u64>>,
    words: Option<Vec<String>>,
}

impl From<VertexIds> for Ids {
    fn from(ids: VertexIds) -> Self {
        let (numbers, words) = match ids {
            VertexIds::Dense => (None, None),
            VertexIds::Numbers(numbers) => (Some(numbers), None),
            VertexIds::Words(words) => (None, Some(words)),
        };
        Self { numbers, words }
    }
}

impl From<Ids> for VertexIds {
    fn from(ids: Ids) -> Self {
        match (ids.numbers, ids.words) {
            (Some(numbers), _) => Self::Numbers(numbers),
            (None, Some(words)) => Self::Words(words),
            (None, None) => Self::Dense,
        }
    }
}

impl Job {
    /// Creates the job that predicts with the run folder `run`. `data` is the data set to predict
    /// for, or `None` for that of the run. Also returns the configuration of the job, which names
    /// its kernels.
    ///
    /// # Errors
    /// Returns an error if the run or the data set does not exist.
    pub fn predict(
        run: &Path,
        (data, embeddings): (Option<&Data>, bool),
        numeric_class: Option<&str>,
        files: &mut Files,
    ) -> Result<(Self, Config)> {
        Self::with_run(run, data, (embeddings, false), numeric_class, files)
    }

    /// Creates the job that evaluates the run folder `run`. `data` is the data set to evaluate on,
    /// or `None` for that of the run. Also returns the configuration of the job, which names its
    /// kernels.
    ///
    /// # Errors
    /// Returns the errors of [`Job::predict`].
    pub fn evaluate(
        run: &Path,
        data: Option<&Data>,
        numeric_class: Option<&str>,
        files: &mut Files,
    ) -> Result<(Self, Config)> {
        Self::with_run(run, data, (false, true), numeric_class, files)
    }

    fn with_run(
        run: &Path,
        data: Option<&Data>,
        (embeddings, evaluation): (bool, bool),
        numeric_class: Option<&str>,
        files: &mut Files,
    ) -> Result<(Self, Config)> {
        let mut config = Run::open(run)?.config;
        if let Some(data) = data {
            config.data.clone_from(data);
        }
        // Initial weights and a pipeline profile only apply to training.
        (config.run.init, config.lanes.profile) = (None, None);
        let (run, other_data) = (run.display().to_string(), data.is_some());
        let predict = Predicting { run, other_data, embeddings, evaluation };
        let work = Work { seeds: 1, predict: Some(predict), part: Part::default() };
        let job = Self::named(&config, work, numeric_class, files)?;
        Ok((job, config))
    }
}

impl Predicting {
    /// Predicts with or evaluates the run folder `run`, and writes the results to files in `out`.
    pub(super) fn perform(&self, run: &Path, config: &Config, options: Options, out: &Path) -> Result<()> {
        // Replaces the paths in the run folder by those of this machine.
        let summary = Run::open(run)?.summary;
        run_folder::readdress(run, run, config, &summary)?;
        let options = Options { out: None, embeddings: self.embeddings, ..options };
        let data = self.other_data.then_some(&config.data);
        let write = |name: &str, bytes: &[u8]| {
            let path = out.join(name);
            std::fs::write(&path, bytes).map_err(|source| Error::Read { path, source })
        };
        std::fs::create_dir_all(out).map_err(|source| Error::Read { path: out.to_owned(), source })?;
        if self.evaluation {
            let found = evaluate(run, data, &options)?;
            return write(EVALUATION, &json(&found, Path::new(EVALUATION))?);
        }
        let found = predict(run, data, &options)?;
        let (rows, columns) = found.scores.dim();
        let embedding = found.embeddings.as_ref().map(Array2::ncols);
        let Known { names, labels, parts, ends } = found.known;
        let (graphs, task) = (found.graphs, found.task);
        let (ids, ends) = (found.ids.into(), ends.map(|ends| ends.map(Ids::from)));
        let head = Head { graphs, task, rows, columns, embedding, ids, ends, names };
        write(HEAD, &json(&head, Path::new(HEAD))?)?;
        let little =
            |values: &Array2<f32>| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        write(SCORES, &little(&found.scores))?;
        write(LABELS, &labels.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())?;
        write(PARTS, &parts)?;
        found.embeddings.map_or(Ok(()), |values| write(EMBEDDINGS, &little(&values)))
    }
}

/// Reads the evaluation from the answer of a job.
///
/// # Errors
/// Returns an error if the bundle is damaged or the disk is full.
pub fn evaluation(bytes: &[u8]) -> Result<Evaluation> {
    let scratch = eciton_exec::Scratch::new();
    let unpacked = scratch.and_then(|scratch| Ok((scratch.path("job")?.join("evaluated"), scratch)));
    let (folder, _scratch) = unpacked.map_err(|source| Error::Read { path: std::env::temp_dir(), source })?;
    bundle::unpack(bytes, &folder, MAX_BYTES)?;
    let path = folder.join(EVALUATION);
    let bytes = eciton_input::file::read(&path, MAX_BYTES).map_err(|source| Error::Read { path, source })?;
    Ok(parse(&bytes, Path::new(EVALUATION))?)
}

/// Reads the predictions from the answer of a job.
///
/// # Errors
/// Returns an error if the bundle is damaged or the disk is full.
pub fn predictions(bytes: &[u8]) -> Result<Predictions> {
    let scratch = eciton_exec::Scratch::new();
    let unpacked = scratch.and_then(|scratch| Ok((scratch.path("job")?.join("predicted"), scratch)));
    let (folder, _scratch) = unpacked.map_err(|source| Error::Read { path: std::env::temp_dir(), source })?;
    bundle::unpack(bytes, &folder, MAX_BYTES)?;
    let read = |name: &str| {
        let path = folder.join(name);
        eciton_input::file::read(&path, MAX_BYTES).map_err(|source| Error::Read { path, source })
    };
    let head: Head = parse(&read(HEAD)?, Path::new(HEAD))?;
    let matrix = |name: &str, columns: usize| {
        let bytes = read(name)?;
        let (values, rest) = bytes.as_chunks::<4>();
        let values: Vec<f32> = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
        let found = Array2::from_shape_vec((head.rows, columns), values).ok().filter(|_| rest.is_empty());
        let wrong =
            || Error::Job(format!("{name} has {} bytes, not {} rows of {columns}", bytes.len(), head.rows));
        found.ok_or_else(wrong)
    };
    let scores = matrix(SCORES, head.columns)?;
    let embeddings = head.embedding.map(|width| matrix(EMBEDDINGS, width)).transpose()?;
    let labels = read(LABELS)?;
    let (values, rest) = labels.as_chunks::<4>();
    let labels: Vec<f32> = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
    let (parts, each) = (read(PARTS)?, if head.task == TaskType::Classification { 1 } else { head.columns });
    let fits = |found: usize, each: usize| found == 0 || Some(found) == head.rows.checked_mul(each);
    if !rest.is_empty() || !fits(labels.len(), each) || !fits(parts.len(), 1) {
        let text = format!("{} labels and {} parts do not fit {} rows", labels.len(), parts.len(), head.rows);
        return Err(Error::Job(text));
    }
    let ends = head.ends.map(|ends| ends.map(VertexIds::from));
    let known = Known { names: head.names, labels, parts, ends };
    Ok(Predictions {
        ids: head.ids.into(),
        graphs: head.graphs,
        task: head.task,
        scores,
        embeddings,
        known,
        split: None,
        workers: None,
    })
}
