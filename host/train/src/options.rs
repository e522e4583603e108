//! Options of a training or prediction that do not change its results.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eciton_recipe::Workers;

use crate::budget::Budget;
#[cfg(doc)]
use crate::error::Error;
use crate::hosts::Hosts;
use crate::kernels::{CachePolicy, SignedCode};
use crate::logs::Recording;
use crate::stop::Stop;

/// Options of a training or prediction that do not change its results.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of seeds. One model is trained for each seed, starting with `run.seed` and counting
    /// up.
    pub seeds: u32,
    /// Path of the run folder to write. If `None`, no run folder is written.
    pub out: Option<PathBuf>,
    /// Folder from which built-in kernels are read, as `NAME.wasm`. The default is the environment
    /// variable `ECITON_KERNEL_DIR`. CI uses it to run the test suites with new kernels.
    pub kernel_folder: Option<PathBuf>,
    /// Location of the cache of compiled kernels.
    pub cache: CachePolicy,
    /// Source of kernels that another machine has compiled. If `None`, this process compiles
    /// kernels.
    pub code: Option<Arc<dyn SignedCode>>,
    /// If true, each task gets a new kernel instance. The results are the same, but tasks take
    /// longer.
    pub fresh_instances: bool,
    /// If true, `predictions.npz` also contains the embeddings, which are the inputs of the last
    /// layer. Has no effect for link prediction, whose predictions are embeddings.
    pub embeddings: bool,
    /// If true, `predictions.npz` contains the scores even if the rows are tokens, in which case
    /// there is a score for each token of the vocabulary. The option `embeddings` has the same
    /// effect.
    pub scores: bool,
    /// Number of strips that predictions split each image into. If `None`, images are not split.
    pub strips: Option<u32>,
    /// Workers that run the tasks of a prediction. If `None`, threads of this machine run them.
    pub workers: Option<Workers>,
    /// Event logs, traces and profiles that the run writes, and the event log that it replays.
    pub recording: Recording,
    /// If true, threads run the newest task first, so that intervals get as far apart as the
    /// staleness bound allows. Used in tests of asynchronous training.
    pub newest_first: bool,
    /// Handle with which another thread can stop the run after its current epoch.
    pub stop: Arc<Stop>,
    /// Time budget of the cloud function in which the run executes. Before it is used up, the run
    /// writes a checkpoint and returns [`Error::Paused`]. `None` means that there is no time limit.
    pub budget: Option<Budget>,
    /// Epoch after which the run ends with results and a checkpoint, as if the user had stopped it.
    /// A resumed run that is past this epoch trains no further. `None` means that the run trains to
    /// its end.
    pub pause_after: Option<u32>,
    /// The hosts of the run, if there are several. `None` for a run on one host.
    pub hosts: Option<Hosts>,
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
            hosts: None,
            budget: None,
        }
    }
}

impl Options {
    /// Returns the folder for temporary files of a run. It is next to the run folder, whose disk must
    /// have room for a model anyway.
    pub(crate) fn beside(&self) -> PathBuf {
        match self.out.as_deref().and_then(Path::parent) {
            Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
            Some(folder) => folder.to_owned(),
            None => std::env::temp_dir(),
        }
    }
}
