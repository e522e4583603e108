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

/// Options of a training or prediction call, which do not change its results.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of seeds. The run trains once with each of `run.seed` and the numbers after it.
    pub seeds: u32,
    /// Run folder to write. If `None`, no run folder is written.
    pub out: Option<PathBuf>,
    /// Folder from which built-in kernels are read, as `NAME.wasm` (`ECITON_KERNEL_DIR`). CI runs
    /// the test suites on kernels that it has just built.
    pub kernel_folder: Option<PathBuf>,
    /// Location of the cache of compiled kernels.
    pub cache: CachePolicy,
    /// Native code of kernels that another machine compiled. If `None`, this process compiles
    /// kernels.
    pub code: Option<Arc<dyn SignedCode>>,
    /// If true, every task gets a fresh kernel instance. Results have the same bits, and tasks take
    /// longer.
    pub fresh_instances: bool,
    /// If true, `predictions.npz` also gets the rows that the last layer reads. The option is
    /// ignored for link prediction, whose predictions are embeddings anyway.
    pub embeddings: bool,
    /// If true, `predictions.npz` also gets the scores of tokens, one for every token of the
    /// vocabulary. Other scores are always written. With `embeddings`, scores of tokens are written
    /// as well.
    pub scores: bool,
    /// Number of strips, side by side, into which predictions cut each image. If `None`, images are
    /// whole.
    pub strips: Option<u32>,
    /// Workers that share the tasks of a prediction. If `None`, threads of this machine run the
    /// tasks.
    pub workers: Option<Workers>,
    /// Events, traces and profiles to record or to replay.
    pub recording: Recording,
    /// If true, threads take the newest task first, so that intervals diverge by the maximum number
    /// of epochs. Tests of asynchronous training use this option.
    pub newest_first: bool,
    /// Request to end the run after its current epoch. Other threads can set it.
    pub stop: Arc<Stop>,
    /// Time limit of the function invocation that executes the run. Before the limit, the run
    /// writes a checkpoint and fails with [`Error::Paused`]. `None` means no time limit.
    pub budget: Option<Budget>,
    /// Epoch after which the run ends early, with results and a checkpoint, like a stopped run. A
    /// run that has already passed this epoch trains nothing. With `None`, or the last epoch of the
    /// run, the run ends normally.
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
