//! Options of a call that do not change its results.

use std::path::PathBuf;
use std::sync::Arc;

use eciton_recipe::Workers;

use crate::budget::Budget;
#[cfg(doc)]
use crate::error::Error;
use crate::kernels::{CachePolicy, SignedCode};
use crate::logs::Recording;
use crate::stop::Stop;

/// Options of a call that do not change its results.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of seeds: `run.seed` and the numbers after it.
    pub seeds: u32,
    /// Run folder. If `None`, nothing is written.
    pub out: Option<PathBuf>,
    /// Folder from which built-in kernels are read, as `NAME.wasm` (`ECITON_KERNEL_DIR`). CI runs
    /// the test suites on kernels that it has just built.
    pub kernel_folder: Option<PathBuf>,
    /// Cache of compiled kernels.
    pub cache: CachePolicy,
    /// Native code of kernels that was compiled elsewhere. If `None`, kernels are compiled here.
    pub code: Option<Arc<dyn SignedCode>>,
    /// Creates a fresh instance for every task. The result is the same.
    pub fresh_instances: bool,
    /// Also writes the rows before the last layer into `predictions.npz`. Ignored for links, whose
    /// predictions are embeddings anyway.
    pub embeddings: bool,
    /// Also writes the scores of tokens into `predictions.npz`. A token has a score for every token
    /// of the vocabulary. Other scores are always written. `embeddings` writes those of tokens as
    /// well.
    pub scores: bool,
    /// Number of strips, side by side, into which predictions cut each image. If `None`, images are
    /// whole.
    pub strips: Option<u32>,
    /// Workers that share the tasks of a prediction. If `None`, threads of this machine run the
    /// tasks.
    pub workers: Option<Workers>,
    /// Events, traces and profiles to record or to replay.
    pub recording: Recording,
    /// Makes the threads of a pool take the newest task first, so that intervals run as far apart
    /// as they may. Tests use it to check asynchronous training.
    pub newest_first: bool,
    /// Request to end the run after its epoch, which other threads can set.
    pub stop: Arc<Stop>,
    /// Time limit of a function's invocation. Before it is over, the run pauses with a checkpoint
    /// and fails with [`Error::Paused`]. `None` for a run without a time limit.
    pub budget: Option<Budget>,
    /// Epoch after which a run ends like a stopped one, with its results and a checkpoint. A run
    /// past this epoch trains nothing. If `None`, or the run's last epoch, the run ends by itself.
    pub pause_after: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seeds: 1,
            out: None,
            kernel_folder: std::env::var_os("ECITON_KERNEL_DIR").filter(|v| !v.is_empty()).map(PathBuf::from),
            cache: CachePolicy::default(),
            code: None,
            fresh_instances: false,
            embeddings: false,
            scores: false,
            strips: None,
            workers: None,
            recording: Recording::default(),
            newest_first: false,
            stop: Arc::default(),
            pause_after: None,
            budget: None,
        }
    }
}
