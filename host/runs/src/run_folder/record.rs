//! The files `summary.json` (the results of a run) and `versions.json` (the software that produced
//! them).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::error::{Error, Result, limit, malformed, shown};
use super::layout::{CONTRACT, ECITON_VERSION, FORMAT, METRICS, OLDER_FORMAT, PREDICTIONS, seed_folder};
use crate::provenance::hex;
use crate::report::Summary;

/// Maximum size in bytes of each of `summary.json`, `versions.json` and `config.toml`. It suffices
/// for several hundred thousand seeds.
pub const MAX_RECORD_BYTES: u64 = 64 << 20;

/// Content of `versions.json`: the versions of the software that produced a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Version of Eciton that trained the run.
    pub eciton: String,
    /// Version of the kernel contract that this Eciton supports, for instance
    /// `eciton:kernel@0.1.2`. The contract is the interface between Eciton and its kernels.
    pub contract: String,
    /// Numeric class of the run. Processors of the same numeric class compute the same bits.
    pub numeric_class: String,
    /// SHA-256 of each kernel component in hexadecimal, keyed by kernel name.
    pub kernels: BTreeMap<String, String>,
}

impl Versions {
    /// Returns the versions of this program, with these kernels (name to SHA-256) and this numeric
    /// class.
    pub fn current(kernels: &BTreeMap<String, String>, numeric_class: &str) -> Self {
        Self {
            eciton: ECITON_VERSION.to_owned(),
            contract: CONTRACT.to_owned(),
            numeric_class: numeric_class.to_owned(),
            kernels: kernels.clone(),
        }
    }
}

/// Fields of `summary.json` in the order in which they are written.
#[derive(Serialize)]
struct Written<'a> {
    format: u64,
    eciton: &'a str,
    #[serde(flatten)]
    summary: &'a Summary,
    /// SHA-256 of the other files of the run folder in hexadecimal, keyed by file name.
    files: &'a BTreeMap<String, String>,
    /// SHA-256 over all fields above as compact JSON, in hexadecimal. It must be the last field.
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

/// Name of the field of `summary.json` that has the checksum of all other fields.
const CHECKSUM: &str = "checksum";

/// Returns the content of `summary.json`. `run_dir` is the final path of the run folder, `files`
/// has the SHA-256 of its other files, and `path` is used in errors only.
pub(super) fn summary_json(
    summary: &Summary,
    run_dir: &Path,
    files: &BTreeMap<String, String>,
    path: &Path,
) -> Result<Vec<u8>> {
    // JSON cannot represent a path that is not Unicode, and a reader of the folder knows its path.
    let run_dir = run_dir.to_str().map(PathBuf::from);
    let summary = Summary { run_dir, ..summary.clone() };
    let mut written =
        Written { format: FORMAT, eciton: ECITON_VERSION, summary: &summary, files, checksum: None };
    // The checksum is over the numbers as a reader will parse them.
    let value: Value = parse(&json(&written, path)?, path)?;
    written.checksum = Some(hex(&Sha256::digest(value.to_string())));
    json(&written, path)
}

/// Removes the checksum of a summary from `value` and verifies it. Summaries of Eciton 0.1.0 have
/// no checksum, and are accepted.
fn check(value: &mut Value, path: &Path) -> Result<()> {
    let Some(recorded) = value.as_object_mut().and_then(|fields| fields.remove(CHECKSUM)) else {
        return Ok(());
    };
    let found = hex(&Sha256::digest(value.to_string()));
    if recorded.as_str() == Some(&found) {
        return Ok(());
    }
    let recorded = shown(recorded.as_str().unwrap_or("no text"));
    let expected = format!("a summary with the recorded SHA-256, {recorded}");
    Err(malformed(path, &expected, &format!("one with the SHA-256 {found}")))
}

/// Returns the SHA-256 of the other files that a summary records, keyed by file name. The map is
/// empty for a summary of Eciton 0.1.0.
pub(super) fn recorded_files(bytes: &[u8], path: &Path) -> Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Files {
        #[serde(default)]
        files: BTreeMap<String, String>,
    }
    Ok(parse::<Files>(bytes, path)?.files)
}

/// Returns the names of the files with the metrics and predictions of a run. These files may be
/// large, so only the commands that read them verify their SHA-256.
pub(super) fn results(summary: &Summary) -> impl Iterator<Item = String> {
    let further = summary.seeds.iter().skip(1);
    let further = further.map(|seed| format!("{}/{PREDICTIONS}", seed_folder(seed.seed)));
    [METRICS, PREDICTIONS].into_iter().map(str::to_owned).chain(further)
}

/// Parses and verifies `summary.json`. `run_dir` is the path at which the folder was found, which
/// replaces the recorded one.
///
/// A loss that was not finite is null in JSON, and becomes NaN.
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

/// Serialises a value as indented JSON. `path` is used in errors only.
pub fn json(value: &impl Serialize, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::Write { path: path.to_owned(), source: e.into() })?;
    bytes.push(b'\n');
    limit(path, "size", "bytes", MAX_RECORD_BYTES, bytes.len() as u64)?;
    Ok(bytes)
}

/// Parses a value from JSON. `path` is used in errors only. The crate serde_json limits nesting to
/// a depth of 128.
pub fn parse<T: for<'a> Deserialize<'a>>(bytes: &[u8], path: &Path) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| malformed(path, "JSON", &e.to_string()))
}
