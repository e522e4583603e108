//! Worker processes, which run tasks of a run over a network connection.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use eciton_exec::Clock;
use eciton_kernel::{Limits, Runtime, Settings};
use eciton_workers::{Contact, Leave, Served, Serving, Status, read_tokens, serve};

use crate::error::{Error, Result};
use crate::kernels::{CachePolicy, load_sent};
use crate::owned::Ledger;

/// Settings of a worker process.
#[derive(Debug)]
pub struct Worker<'a> {
    /// Network address of the run, `HOST:PORT`.
    pub address: &'a str,
    /// Path of the file with the worker's token, which the run has written, or of a folder of such
    /// files. From a folder, the worker uses a token that no other worker uses.
    pub tokens: &'a Path,
    /// Time for which the worker tries to connect to a run that does not answer.
    pub patience: Duration,
    /// True if the worker ends when its first connection ends.
    pub once: bool,
    /// Maximum size of the weights and rows that the worker caches, in bytes.
    pub cache_bytes: u64,
    /// Number of the task at which the worker exits without an answer, to test failures. `None` in
    /// normal use.
    pub fail_at: Option<u64>,
    /// Location of the cache of compiled kernels.
    pub cache: CachePolicy,
    /// Handle with which another thread asks the worker to disconnect after its current task.
    pub leave: &'a Leave,
    /// Status of the process, which the worker updates.
    pub status: &'a Arc<Status>,
}

/// Runs tasks of a run until the run ends or a disconnect is requested with `leave`. After the
/// connection is lost, and if the run will be resumed, the worker connects again. `told` is called
/// when the worker waits for a place, is admitted, and loses the connection.
///
/// # Errors
/// Returns [`Error::Connection`] if the run cannot be reached for [`Worker::patience`], or refuses
/// the worker.
pub fn work(worker: &Worker<'_>, mut told: impl FnMut(Contact<'_>)) -> Result<Served> {
    let mut tokens = read_tokens(worker.tokens)?;
    let limits = Limits::default();
    // A cache that cannot be opened only costs time.
    let cache = worker.cache.open().and_then(|cache| cache.ok());
    let runtime = Arc::new(Runtime::new(Settings { limits: limits.clone(), cache })?);
    let _clock = Clock::start(&runtime).map_err(Error::Threads)?;
    let (mut tasks, mut peak_cache_bytes) = (0, 0);
    let mut told = |contact: Contact<'_>| {
        worker.status.contact(&contact);
        told(contact);
    };
    loop {
        let runtime = runtime.clone();
        let serving = Serving {
            address: worker.address,
            tokens: &tokens,
            patience: worker.patience,
            cache_bytes: worker.cache_bytes,
            limits: limits.clone(),
            load: Box::new(move |name, component| load_sent(&runtime, name, component)),
            owned: Box::<Ledger>::default(),
            leave: worker.leave,
            status: worker.status,
            fail_at: worker.fail_at,
        };
        let served = serve(serving, &mut told)?;
        tasks += served.tasks;
        peak_cache_bytes = served.peak_cache_bytes.max(peak_cache_bytes);
        if !served.again || worker.once || worker.leave.is_asked() {
            return Ok(Served { tasks, peak_cache_bytes, ..served });
        }
        // The token now belongs to this machine, and with it the failures that the run counts.
        tokens.retain(|token| served.token.is_none_or(|used| token.number == used));
        told(Contact::Lost(&served.reason));
    }
}
