//! Layout of a run folder: its format number, the names of its files, and the digests of its files.

use std::io::Read as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::provenance::hex;

/// Version of Eciton that this crate belongs to. Each run folder records it.
pub const ECITON_VERSION: &str = env!("CARGO_PKG_VERSION");
/// Newest version of the kernel contract (the interface of kernels) that this version of Eciton
/// supports.
pub const CONTRACT: &str = eciton_kernel::CONTRACT;
/// Format number of the run folders that this version writes. This version also reads format 1,
/// which has no `schema.json`, so that columns and classes are matched by position.
pub const FORMAT: u64 = 2;
/// Format number of the run folders of Eciton 0.1.0.
pub(super) const OLDER_FORMAT: u64 = 1;

/// Name of the file with the resolved configuration.
pub(super) const CONFIG: &str = "config.toml";
/// Name of the file with the schema of the model.
pub const SCHEMA: &str = "schema.json";
/// Name of the file with the mean and deviation of each feature column, in run folders of format 1.
pub(super) const OLDER_MOMENTS: &str = "moments.json";
/// Name of the file with the tokens of the training text, in run folders of format 1.
pub(super) const OLDER_VOCABULARY: &str = "vocabulary.json";
/// Name of the file with the versions of the software that produced the run.
pub(super) const VERSIONS: &str = "versions.json";
/// Name of the file with the reports of all epochs.
pub(super) const METRICS: &str = "metrics.jsonl";
/// Name of the file with the picture of the first seed's training.
pub(super) const CURVE: &str = "curve.svg";
/// Name of the file with the summary of the run.
pub(super) const SUMMARY: &str = "summary.json";
/// Name of the file with the weights of the first seed.
pub const MODEL: &str = "model.safetensors";
/// Name of the file with the predictions of one seed.
pub const PREDICTIONS: &str = "predictions.npz";

/// Returns the name of the folder that contains the model and predictions of a further seed.
pub(super) fn seed_folder(seed: u64) -> String {
    format!("seed-{seed}")
}

/// Names of the small files that every command reads. The summary contains their SHA-256.
pub(super) const RECORDS: [&str; 3] = [CONFIG, SCHEMA, VERSIONS];

/// Size in bytes of the pieces in which a file is read to compute its digest.
pub(super) const DIGEST_BYTES: usize = 1 << 16;

/// Computes the SHA-256 of a file, in hexadecimal.
pub(super) fn file_digest(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hasher) = (eciton_input::file::open(path)?, Sha256::new());
    let mut piece = vec![0; DIGEST_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(piece.get(..count).unwrap_or_default()),
        }
    }
}
