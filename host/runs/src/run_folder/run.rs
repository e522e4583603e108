//! A finished run, read from its run folder.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use eciton_formats::sequence::Vocabulary;
use eciton_recipe::{Config, NormaliseFeatures, TaskType};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::error::{Error, Result, limit, malformed, reading, shown};
use super::layout::{
    CONFIG, METRICS, MODEL, OLDER_MOMENTS, OLDER_VOCABULARY, RECORDS, SCHEMA, SUMMARY, VERSIONS, file_digest,
    seed_folder,
};
use super::model::{self, Model};
use super::record::{self, MAX_RECORD_BYTES, Versions};
use super::tensor::{MAX_MODEL_BYTES, NamedTensor};
use crate::provenance::hex;
use crate::report::{EpochReport, Summary};
use crate::schema::{self, Column, Schema, Tokens};

/// Expected content of a schema with scaled features, for error messages.
const MOMENTS: &str = "a mean and a standard deviation above 0 for each feature column";

/// Maximum size of `metrics.jsonl` that is read, in bytes. It suffices for several million epochs.
pub const MAX_METRICS_BYTES: u64 = 256 << 20;

/// A finished run that was read from its run folder, with the weights of its first seed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Run {
    /// Path of the run folder, as the caller gave it.
    pub path: PathBuf,
    /// Resolved configuration of the run.
    pub config: Config,
    /// Summary of the run, with at least one seed. Its `run_dir` is the path at which the folder
    /// was found, which may differ from the one at which it was written.
    pub summary: Summary,
    /// Versions of the software that produced the run.
    pub versions: Versions,
    /// Columns, classes and tokens that the model was trained on.
    pub schema: Schema,
    /// Weights of the first seed, in the order of the program's parameters. The caller must check
    /// that they match the program.
    pub tensors: Vec<NamedTensor>,
    /// Metadata of the first seed's model file. The keys are `eciton`, `model`, `dataset`, `seed`
    /// and `digest`.
    pub metadata: BTreeMap<String, String>,
}

impl Run {
    /// Reads a run folder, and verifies its files and weights by the recorded digests.
    ///
    /// # Errors
    /// Returns an [`Error`] if the path is not a run folder, or if the summary has another format.
    /// Also returns one if a file is missing, damaged, or above its limit. The limits are
    /// [`MAX_MODEL_BYTES`], [`MAX_RECORD_BYTES`], and 1 MiB for `config.toml`.
    pub fn open(path: &Path) -> Result<Self> {
        let not_a_run = |found: &str| Error::NotARun { path: path.to_owned(), found: found.to_owned() };
        match path.metadata() {
            Ok(there) if there.is_dir() => {}
            Ok(_) => return Err(not_a_run("it is a file")),
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(not_a_run("it does not exist")),
            Err(e) => return Err(reading(path)(e)),
        }
        if [SUMMARY, CONFIG, MODEL].iter().all(|file| !path.join(file).exists()) {
            return Err(not_a_run("it has no summary.json"));
        }
        let file = path.join(SUMMARY);
        let bytes = read(&file, MAX_RECORD_BYTES)?;
        let summary = record::summary(&bytes, path, &file)?;
        check_records(path, &record::recorded_files(&bytes, &file)?)?;
        let file = path.join(VERSIONS);
        let versions = record::parse(&read(&file, MAX_RECORD_BYTES)?, &file)?;
        let file = path.join(CONFIG);
        let text = String::from_utf8(read(&file, MAX_RECORD_BYTES)?)
            .map_err(|e| malformed(&file, "UTF-8 text", &e.to_string()))?;
        let mut config =
            Config::parse(&text, CONFIG).map_err(|e| Error::Config { path: file, source: Box::new(e) })?;
        let schema = read_schema(path, &config, &summary)?;
        if schema.is_older() {
            config.model.set_slope_of_format_1();
        }
        let Model { tensors, metadata } = open_model(path, &summary.model_digest)?;
        Ok(Self { path: path.to_owned(), config, summary, versions, schema, tensors, metadata })
    }

    /// Returns the tokens that the model was trained on. Returns `None` if the training data is not
    /// a text or a list of tokens.
    ///
    /// # Errors
    /// Returns an [`Error`] if the recorded tokens are not in ascending order.
    pub fn vocabulary(&self) -> Result<Option<Vocabulary>> {
        let Some(tokens) = &self.schema.tokens else { return Ok(None) };
        let file = self.path.join(SCHEMA);
        let unordered = || malformed(&file, "symbols in ascending order", "other values");
        tokens.vocabulary().map(Some).ok_or_else(unordered)
    }

    /// Reads the model of `seed` from the run folder, and verifies its weights by their digests.
    ///
    /// # Errors
    /// Returns [`Error::UnknownSeed`] if the run has no such seed. Returns another [`Error`] if the
    /// model file is missing, damaged, or above [`MAX_MODEL_BYTES`].
    pub fn model(&self, seed: u64) -> Result<Model> {
        let seeds = &self.summary.seeds;
        let Some(at) = seeds.iter().position(|s| s.seed == seed) else {
            let known: Vec<String> = seeds.iter().take(20).map(|s| s.seed.to_string()).collect();
            let more = if seeds.len() > 20 { ", ..." } else { "" };
            let known = format!("{}{more}", known.join(", "));
            return Err(Error::UnknownSeed { path: self.path.clone(), seed, known });
        };
        let dir = if at == 0 { self.path.clone() } else { self.path.join(seed_folder(seed)) };
        open_model(&dir, seeds.get(at).map_or("", |s| &s.model_digest))
    }
}

/// Verifies the small files of a run folder by the SHA-256 in its summary. A changed `config.toml`
/// only adds a warning, because users may edit it.
///
/// # Errors
/// Returns [`Error::Digest`] if another file was changed or damaged.
fn check_records(path: &Path, files: &BTreeMap<String, String>) -> Result<()> {
    for (name, expected) in files {
        let file = path.join(name);
        if !RECORDS.contains(&name.as_str()) {
            continue;
        }
        let found = hex(&Sha256::digest(read(&file, MAX_RECORD_BYTES)?));
        if found == *expected {
            continue;
        }
        if name == CONFIG {
            eciton_input::notes::warn(format!(
                "{}: the file was changed after the run had written it; new results may differ from those in \
                 {SUMMARY}",
                file.display()
            ));
            continue;
        }
        return Err(Error::Digest { path: file, place: SUMMARY, expected: shown(expected), found });
    }
    Ok(())
}

/// Verifies the metrics and predictions of a run folder by the SHA-256 in its summary. Files that
/// the user removed and files without a recorded SHA-256 are skipped.
///
/// # Errors
/// Returns [`Error::Digest`] if a file was changed or damaged. Returns another [`Error`] if the
/// summary is damaged, or a file cannot be read.
pub fn check_results(path: &Path) -> Result<()> {
    let file = path.join(SUMMARY);
    let bytes = read(&file, MAX_RECORD_BYTES)?;
    let summary = record::summary(&bytes, path, &file)?;
    let recorded = record::recorded_files(&bytes, &file)?;
    for name in record::results(&summary) {
        let (Some(expected), file) = (recorded.get(&name), path.join(&name)) else { continue };
        let found = match file_digest(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            found => found.map_err(reading(&file))?,
        };
        if found != *expected {
            return Err(Error::Digest { path: file, place: SUMMARY, expected: shown(expected), found });
        }
    }
    Ok(())
}

/// Reads the schema of a run folder. For a folder of format 1, the schema is derived from other
/// files, and a note reports that columns and classes are matched by position.
fn read_schema(path: &Path, config: &Config, summary: &Summary) -> Result<Schema> {
    let file = path.join(SCHEMA);
    if file.exists() {
        return parse_schema(&read(&file, MAX_RECORD_BYTES)?, &file);
    }
    let task = match (config.predicts_links(), config.data.task) {
        (true, _) => TaskType::LinkPrediction,
        (false, Some(task)) => task,
        (false, None) => config.model.loss.map_or(TaskType::Classification, crate::task_type::task_of_loss),
    };
    let mut schema = Schema::of_older(&summary.model, task);
    if config.data.normalise_features == Some(NormaliseFeatures::Columns) {
        let file = path.join(OLDER_MOMENTS);
        let found: OlderMoments = record::parse(&read(&file, MAX_RECORD_BYTES)?, &file)?;
        schema.features.count = u32::try_from(found.mean.len()).ok();
        let column = |(mean, deviation): (&f64, &f64)| Column {
            // The file has the shortest decimal form of an f32.
            mean: Some(f64::from(*mean as f32)),
            deviation: Some(f64::from(*deviation as f32)),
            ..Column::default()
        };
        schema.features.columns = found.mean.iter().zip(&found.deviation).map(column).collect();
        schema.features.scaling = Some(NormaliseFeatures::Columns);
        if found.mean.len() != found.deviation.len() || schema.features.moments().is_none() {
            return Err(malformed(&file, MOMENTS, "other values"));
        }
    }
    let file = path.join(OLDER_VOCABULARY);
    if file.exists() {
        let tokens: Tokens = record::parse(&read(&file, MAX_RECORD_BYTES)?, &file)?;
        tokens.vocabulary().ok_or_else(|| malformed(&file, "symbols in ascending order", "other values"))?;
        schema.tokens = Some(tokens);
    }
    eciton_input::notes::add(format!(
        "{}: an earlier version wrote this run without schema.json, so columns and classes of data are \
         matched by position, and leaky-relu has the slope 0.2",
        path.display()
    ));
    Ok(schema)
}

/// Parses `schema.json`. `file` is its path, for error messages.
///
/// # Errors
/// Returns an [`Error`] if the JSON is damaged or its layout has a newer version. Also returns one
/// if features are scaled and a column lacks its mean or deviation.
pub fn parse_schema(bytes: &[u8], file: &Path) -> Result<Schema> {
    let schema: Schema = record::parse(bytes, file)?;
    if schema.version == 0 || schema.version > schema::VERSION {
        let found = format!("version {}", schema.version);
        return Err(malformed(file, &format!("a schema of version 1 to {}", schema::VERSION), &found));
    }
    let columns = &schema.features;
    let whole =
        columns.columns.is_empty() || columns.count.is_none_or(|n| n as usize == columns.columns.len());
    if !whole {
        let found = format!("{} entries", columns.columns.len());
        return Err(malformed(file, "one entry for each feature column", &found));
    }
    if columns.scaling == Some(NormaliseFeatures::Columns) && columns.moments().is_none() {
        return Err(malformed(file, MOMENTS, "other values"));
    }
    Ok(schema)
}

/// Content of `moments.json` in run folders of format 1: mean and deviation of each feature column.
#[derive(Deserialize)]
struct OlderMoments {
    mean: Vec<f64>,
    deviation: Vec<f64>,
}

/// Reads the epoch reports of all seeds from the run folder `path`. An incomplete last line is
/// ignored.
///
/// # Errors
/// Returns an [`Error`] if the file is missing, damaged, or above [`MAX_METRICS_BYTES`].
pub fn epochs(path: &Path) -> Result<Vec<EpochReport>> {
    let file = path.join(METRICS);
    let bytes = read(&file, MAX_METRICS_BYTES)?;
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let lines = bytes.get(..whole).unwrap_or_default().split(|&byte| byte == b'\n');
    lines.filter(|line| !line.is_empty()).map(|line| record::parse(line, &file)).collect()
}

/// Reads and verifies the summary of the run folder `path`, without reading its weights.
///
/// # Errors
/// Returns an [`Error`] if the summary is missing, damaged, too large, or of another format.
pub fn summary(path: &Path) -> Result<Summary> {
    let file = path.join(SUMMARY);
    record::summary(&read(&file, MAX_RECORD_BYTES)?, path, &file)
}

/// Reads `config.toml` of the run folder `path` as text.
///
/// # Errors
/// Returns an [`Error`] if the file is missing, too large, or not UTF-8.
pub fn recipe(path: &Path) -> Result<String> {
    let file = path.join(CONFIG);
    String::from_utf8(read(&file, MAX_RECORD_BYTES)?)
        .map_err(|e| malformed(&file, "UTF-8 text", &e.to_string()))
}

/// Reads the model file in the folder `dir`. Fails unless its digest is `digest`, which the summary
/// records.
fn open_model(dir: &Path, digest: &str) -> Result<Model> {
    let file = dir.join(MODEL);
    let model = model::decode(&read(&file, MAX_MODEL_BYTES)?, &file)?;
    if model.digest() != digest {
        let (expected, found) = (shown(digest), shown(model.digest()));
        return Err(Error::Digest { path: file, place: SUMMARY, expected, found });
    }
    Ok(model)
}

/// Reads a whole file of at most `allowed` bytes. A pipe or device is an error and is not opened,
/// because reading it may never end.
pub fn read(path: &Path, allowed: u64) -> Result<Vec<u8>> {
    let there = match path.metadata() {
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(Error::Missing { path: path.to_owned() }),
        there => there.map_err(reading(path))?,
    };
    if !there.is_file() {
        let found = if there.is_dir() { "a folder" } else { "a pipe or a device" };
        return Err(malformed(path, "a file", found));
    }
    limit(path, "size", "bytes", allowed, there.len())?;
    let mut bytes = Vec::new();
    let mut file = eciton_input::file::open(path).map_err(reading(path))?.take(allowed.saturating_add(1));
    file.read_to_end(&mut bytes).map_err(reading(path))?;
    limit(path, "size", "bytes", allowed, bytes.len() as u64)?;
    Ok(bytes)
}
