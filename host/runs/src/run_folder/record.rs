//! The files `summary.json` and `versions.json`: the results of a run, and the versions that
//! produced them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::error::{Error, Result, limit, malformed, shown};
use super::layout::{CONTRACT, ECITON_VERSION, FORMAT, METRICS, OLDER_FORMAT, PREDICTIONS, seed_folder};
use crate::provenance::hex;
use crate::report::Summary;

/// Maximum size of `summary.json`, `versions.json` and `config.toml`, in bytes. It suffices for
/// several hundred thousand seeds.
pub const MAX_RECORD_BYTES: u64 = 64 << 20;

/// Versions of the software that produced a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Version of Eciton.
    pub eciton: String,
    /// Newest version of the kernel contract that this crate knows, for instance
    /// `eciton:kernel@0.1.2`.
    pub contract: String,
    /// Numeric class of the run, which is a set of processors whose arithmetic gives the same bits.
    pub numeric_class: String,
    /// SHA-256 of each kernel's component, in hexadecimal, by kernel name.
    pub kernels: BTreeMap<String, String>,
}

impl Versions {
    /// Returns the versions of this program, with these kernels (name to SHA-256) and this numeric
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

/// Fields of `summary.json` as they are written.
#[derive(Serialize)]
struct Written<'a> {
    format: u64,
    eciton: &'a str,
    #[serde(flatten)]
    summary: &'a Summary,
    /// SHA-256 of the other records of the run folder, in hexadecimal, by file name.
    files: &'a BTreeMap<String, String>,
    /// SHA-256 of all other fields as compact JSON, in hexadecimal. It is the last field.
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

/// Name of the field with the checksum of all other fields.
const CHECKSUM: &str = "checksum";

/// Returns a summary as JSON. It contains the final path of the run folder, the SHA-256 of the
/// folder's other records, and a checksum of all these.
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

/// Checks that the fields of a summary match its checksum. Summaries of Eciton 0.1.0 have no
/// checksum.
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

/// Returns the SHA-256 of the records that a summary lists, by file name. Empty for a summary of
/// Eciton 0.1.0.
pub(super) fn recorded_files(bytes: &[u8], path: &Path) -> Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Files {
        #[serde(default)]
        files: BTreeMap<String, String>,
    }
    Ok(parse::<Files>(bytes, path)?.files)
}

/// Returns the names of the files with metrics and predictions of a run with these seeds. They may
/// be large, so only commands that read them compare their SHA-256 with that in the summary.
pub(super) fn results(summary: &Summary) -> impl Iterator<Item = String> {
    let further = summary.seeds.iter().skip(1);
    let further = further.map(|seed| format!("{}/{PREDICTIONS}", seed_folder(seed.seed)));
    [METRICS, PREDICTIONS].into_iter().map(str::to_owned).chain(further)
}

/// Parses `summary.json`. `run_dir` is the path at which the folder was found.
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

/// Returns a value as indented JSON.
pub fn json(value: &impl Serialize, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::Write { path: path.to_owned(), source: e.into() })?;
    bytes.push(b'\n');
    limit(path, "size", "bytes", MAX_RECORD_BYTES, bytes.len() as u64)?;
    Ok(bytes)
}

/// Parses JSON. The crate serde_json limits nesting to a depth of 128.
pub fn parse<T: for<'a> Deserialize<'a>>(bytes: &[u8], path: &Path) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| malformed(path, "JSON", &e.to_string()))
}
