//! Checkpoints: the state of a run on disk, from which a run can resume after its process was
//! killed.
//!
//! The checkpoints of a run are in the folder `NAME.checkpoint/`, next to the future run folder
//! NAME:
//!
//! | file | content |
//! | --- | --- |
//! | `lock` | locked while a process works on the run, with checkpoints or without |
//! | `config.toml`, `versions.json` | as they will be in the run folder |
//! | `run.json` | seeds, whether embeddings are kept, a fingerprint of the data |
//! | `metrics.jsonl`, `seeds.jsonl` | epochs and finished seeds up to the newest checkpoint |
//! | `epoch-NNNNNN.safetensors` | a checkpoint of the first seed: weights, moments, the best model, a mark |
//! | `seed-S-epoch-NNNNNN.safetensors` | one of a further seed |
//! | `final.safetensors`, `seed-S-final.safetensors` | the models of seeds that have finished |
//!
//! A checkpoint records the length and the SHA-256 of the two `.jsonl` files at its time, and a
//! SHA-256 of its own content. If these do not match on resume, an earlier checkpoint is used.
//! Every file is written under a temporary name, synced to disk and renamed, and then its folder is
//! synced. The `.jsonl` files only grow. Therefore the process may be killed at any time, and the
//! machine may lose power.
//!
//! Checkpoints contain no random-generator state: every random number is a function of (seed,
//! purpose, epoch, layer, stream, row, column). Therefore a resumed run has bit for bit the results
//! of an uninterrupted one.

mod changes;
mod fingerprint;
mod found;
mod place;
mod point;
mod saver;
#[cfg(test)]
mod tests;

pub(crate) use changes::{CHANGES, crossed};
pub(crate) use fingerprint::Fingerprint;
pub(crate) use found::{Found, epochs};
pub(crate) use place::{Place, keep_one, numeric_class, settings};
pub use place::{discard_empty, folder, is_resumable};
pub(crate) use point::{Point, readdress};
pub(crate) use saver::{Beginning, Now, Saver};

use serde::{Deserialize, Serialize};

use eciton_runs::schema::Schema;

/// Version of the checkpoint format that this version of Eciton writes and reads.
pub(crate) const FORMAT: u64 = 1;

const CONFIG: &str = "config.toml";
const VERSIONS: &str = "versions.json";
const RUN: &str = "run.json";
const METRICS: &str = "metrics.jsonl";
const SEEDS: &str = "seeds.jsonl";

/// Content of `run.json`: facts about a run that are neither in `config.toml` nor in
/// `versions.json`. A resumed run checks them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub format: u64,
    pub seeds: u32,
    pub embeddings: bool,
    #[serde(default)]
    pub scores: bool,
    pub data: Fingerprint,
    /// Number of entries of [`CHANGES`] in the version of Eciton that wrote the file. 0 in
    /// checkpoints of Eciton 0.1.0.
    #[serde(default)]
    pub changes: usize,
    /// Schema of the model. `None` in checkpoints of Eciton 0.1.0, which match data by position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// SHA-256 of the settings that the user requested. Empty in checkpoints of Eciton 0.1.0.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recipe: String,
}
