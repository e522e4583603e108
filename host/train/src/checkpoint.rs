//! Checkpoints, which store the state of a run on disk. A run can resume from its newest checkpoint
//! after its process was killed.
//!
//! The checkpoints of a run are in the folder `NAME.checkpoint/`, next to the future run folder
//! NAME:
//!
//! | file | content |
//! | --- | --- |
//! | `lock` | locked while a process works on the run, with checkpoints or without |
//! | `config.toml`, `versions.json` | as they will be in the run folder |
//! | `run.json` | number of seeds, requested outputs, schema and fingerprint of the data |
//! | `metrics.jsonl`, `seeds.jsonl` | epoch and seed reports up to the newest checkpoint |
//! | `epoch-NNNNNN.safetensors` | a checkpoint of the first seed: weights, moments, best model, mark |
//! | `epoch-NNNNNN-step-NNNNNNNN.safetensors` | a checkpoint within the epoch after epoch NNNNNN |
//! | `seed-S-epoch-...` | a checkpoint of a further seed |
//! | `final.safetensors`, `seed-S-final.safetensors` | models of seeds that have finished |
//!
//! A checkpoint records the length and the SHA-256 of the two `.jsonl` files at its time, and a
//! SHA-256 of its own content. If these do not match on resume, an earlier checkpoint is used.
//! Every file is written under a temporary name, synced to disk and renamed, and then its folder is
//! synced. The `.jsonl` files only grow. Therefore the process may be killed at any time, and the
//! machine may lose power.
//!
//! Checkpoints contain no random-generator state, because every random number is a function of
//! (seed, purpose, epoch, layer, stream, row, column). Therefore a resumed run has bit for bit the
//! results of an uninterrupted one.
//!
//! A checkpoint is written in the background, from the buffers of the training
//! ([`crate::weights::Frozen`]).

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

/// Version number of the format of new checkpoints.
pub(crate) const FORMAT: u64 = 2;
/// Version numbers of the formats that can be read. Format 1 has only checkpoints of whole epochs.
const FORMATS: [u64; 2] = [1, FORMAT];

const CONFIG: &str = "config.toml";
const VERSIONS: &str = "versions.json";
const RUN: &str = "run.json";
const METRICS: &str = "metrics.jsonl";
const SEEDS: &str = "seeds.jsonl";

/// Content of `run.json`: facts about a run that are not in `config.toml` or `versions.json`. A
/// resumed run is checked against them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub format: u64,
    pub seeds: u32,
    pub embeddings: bool,
    #[serde(default)]
    pub scores: bool,
    pub data: Fingerprint,
    /// Length of [`CHANGES`] in the version of Eciton that wrote the file. 0 in checkpoints of
    /// Eciton 0.1.0.
    #[serde(default)]
    pub changes: usize,
    /// Schema of the model. `None` in checkpoints of Eciton 0.1.0, for which columns are matched by
    /// position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// SHA-256 of the settings that the user requested, in hexadecimal. Empty in checkpoints of
    /// Eciton 0.1.0.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recipe: String,
}
