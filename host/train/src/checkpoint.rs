//! Checkpoints: how far a run is, written down so that a process that is killed loses little.
//!
//! They lie in `NAME.checkpoint/` beside the run folder NAME that is to be:
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
//! A checkpoint says how many bytes of the two `.jsonl` files belong to it and what their SHA-256 is,
//! and has one of all its own content: what is damaged is found, and the one before is taken. Every
//! file is written under a temporary name, forced to disk and renamed, and its folder is forced to
//! disk; the `.jsonl` files only grow. So the process may be killed at any moment, and the machine may
//! lose power.
//!
//! No generator's state is there: every random number is a function of (seed, purpose, epoch, layer,
//! stream, row, column). A run that goes on is therefore bit for bit the unbroken one.

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

/// The format of checkpoints that this version writes and reads.
pub(crate) const FORMAT: u64 = 1;

const CONFIG: &str = "config.toml";
const VERSIONS: &str = "versions.json";
const RUN: &str = "run.json";
const METRICS: &str = "metrics.jsonl";
const SEEDS: &str = "seeds.jsonl";

/// Content of `run.json`: facts about a run that are neither in its configuration nor in the
/// versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub format: u64,
    pub seeds: u32,
    pub embeddings: bool,
    #[serde(default)]
    pub scores: bool,
    pub data: Fingerprint,
    /// Number of [`CHANGES`] that the writer knew. 0 in checkpoints of Eciton 0.1.0.
    #[serde(default)]
    pub changes: usize,
    /// Schema of the model. `None` in checkpoints of Eciton 0.1.0, which match data by position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// SHA-256 of the settings that the run was asked for. Empty in checkpoints of Eciton 0.1.0.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recipe: String,
}
