//! `summary.json` and `versions.json`: the results of a run, and the versions that made it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::error::{Error, Result, limit, malformed, shown};
use super::layout::{CONTRACT, ECITON_VERSION, FORMAT, METRICS, OLDER_FORMAT, PREDICTIONS, seed_folder};
use crate::provenance::hex;
use crate::report::Summary;

/// Maximum size of `summary.json`, `versions.json` and `config.toml`, bytes. It suffices for some
/// hundred thousand seeds.
pub const MAX_RECORD_BYTES: u64 = 64 << 20;

/// Versions that made a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Version of this crate.
    pub eciton: String,
    /// Newest version of the kernel contract that this crate knows, for instance
    /// `eciton:kernel@0.1.2`.
    pub contract: String,
    /// Numeric class. Processors of one class compute the same bits.
    pub numeric_class: String,
    /// SHA-256 of each kernel's component by kernel name, hexadecimal.
    pub kernels: BTreeMap<String, String>,
}

impl Versions {
    /// Returns the versions of this program, with these kernels (name -> SHA-256) and numeric
    /// class.
    pub fn of(kernels: &BTreeMap<String, String>, numeric_class: &str) -> Self {
        Self {
            eciton: ECITON_VERSION.to_owned(),
            contract: CONTRACT.to_owned(),
            numeric_class: numeric_class.to_owned(),
            kernels: kernels.clone(),
        }
    }
}

/// `summary.json` as it is written.
#[derive(Serialize)]
struct Written<'a> {
    format: u64,
    eciton: &'a str,
    #[serde(flatten)]
    summary: &'a Summary,
    /// SHA-256 of the run folder's other records by name, hexadecimal.
    files: &'a BTreeMap<String, String>,
    /// SHA-256 of all other fields as compact JSON, hexadecimal. It is the last field.
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

/// Name of the field that holds the checksum of all others.
const CHECKSUM: &str = "checksum";

/// Returns a summary as JSON, with the folder that it is going to lie in, the SHA-256 of the folder's other
/// records, and a checksum of all that.
pub(super) fn summary_json(
    summary: &Summary,
    run_dir: &Path,
    files: &BTreeMap<String, String>,
    path: &Path,
) -> Result<Vec<u8>> {
    // JSON has no name for a path that is no text; whoever opens the run knows where it is.
    let run_dir = run_dir.to_str().map(PathBuf::from);
    let summary = Summary { run_dir, ..summary.clone() };
    let mut written =
        Written { format: FORMAT, eciton: ECITON_VERSION, summary: &summary, files, checksum: None };
    // The numbers count as they are read back.
    let value: Value = parse(&json(&written, path)?, path)?;
    written.checksum = Some(hex(&Sha256::digest(value.to_string())));
    json(&written, path)
}

/// Refuses a summary whose fields are not those that its checksum was made of. Summaries of Eciton 0.1.0 have
/// no checksum.
fn check(value: &mut Value, path: &Path) -> Result<()> {
    let Some(recorded) = value.as_object_mut().and_then(|fields| fields.remove(CHECKSUM)) else {
        return Ok(());
    };
    let found = hex(&Sha256::digest(value.to_string()));
    if recorded.as_str() == Some(&found) {
        return Ok(());
    }
    let recorded = shown(recorded.as_str().unwrap_or("no text"));
    let expected = format!("a summary with the SHA-256 that it records, {recorded}");
    Err(malformed(path, &expected, &format!("{found}: the file is damaged or was changed")))
}

/// Returns the SHA-256 of the records that a summary names, by file. Empty for a summary of Eciton 0.1.0.
pub(super) fn recorded_files(bytes: &[u8], path: &Path) -> Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Files {
        #[serde(default)]
        files: BTreeMap<String, String>,
    }
    Ok(parse::<Files>(bytes, path)?.files)
}

/// Returns the names of the metrics and predictions of a run folder with these seeds. They may be
/// large, so only commands that read them compare them with the SHA-256 that the summary holds.
pub(super) fn results(summary: &Summary) -> impl Iterator<Item = String> {
    let further = summary.seeds.iter().skip(1);
    let further = further.map(|seed| format!("{}/{PREDICTIONS}", seed_folder(seed.seed)));
    [METRICS, PREDICTIONS].into_iter().map(str::to_owned).chain(further)
}

/// Reads `summary.json`; `run_dir` is where it was found.
///
/// A loss that was not finite is null in JSON, and NaN again here.
pub(super) fn summary(bytes: &[u8], run_dir: &Path, path: &Path) -> Result<Summary> {
    let mut value: Value = parse(bytes, path)?;
    let format = value.get("format").and_then(Value::as_u64);
    match format {
        Some(FORMAT | OLDER_FORMAT) => {}
        Some(found) => {
            let eciton = value.get("eciton").and_then(Value::as_str).unwrap_or("of unknown version");
            let eciton = shown(eciton);
            return Err(Error::Version { path: path.to_owned(), found, eciton, known: FORMAT });
        }
        None => return Err(malformed(path, "a run's summary with a `format`", "none")),
    }
    check(&mut value, path)?;
    let mut not_finite = Vec::new();
    for (at, seed) in value.get_mut("seeds").and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
        if let Some(loss) = seed.get_mut("loss").filter(|loss| loss.is_null()) {
            *loss = 0.0.into();
            not_finite.push(at);
        }
    }
    let mut summary: Summary =
        serde_json::from_value(value).map_err(|e| malformed(path, "a run's summary", &e.to_string()))?;
    for at in not_finite {
        if let Some(seed) = summary.seeds.get_mut(at) {
            seed.loss = f64::NAN;
        }
    }
    if summary.seeds.is_empty() {
        return Err(malformed(path, "a summary of at least one seed", "none"));
    }
    summary.run_dir = Some(run_dir.to_owned());
    Ok(summary)
}

/// `value` as JSON for people to read.
pub fn json(value: &impl Serialize, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::Write { path: path.to_owned(), source: e.into() })?;
    bytes.push(b'\n');
    limit(path, "size", "bytes", MAX_RECORD_BYTES, bytes.len() as u64)?;
    Ok(bytes)
}

/// JSON as a value. Nesting is limited by crate serde_json, to 128.
pub fn parse<T: for<'a> Deserialize<'a>>(bytes: &[u8], path: &Path) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| malformed(path, "JSON", &e.to_string()))
}
