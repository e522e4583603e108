//! Worker processes, which run tasks of a run over a network connection.

use std::path::Path;
use std::time::Duration;

use eciton_exec::Clock;
use eciton_kernel::{Limits, Runtime, Settings};
use eciton_workers::{Leave, Served, Serving, Token, serve};

use crate::error::{Error, Result};
use crate::kernels::{CachePolicy, load_sent};
use crate::owned::Ledger;

/// Settings of a worker process.
#[derive(Debug)]
pub struct Worker<'a> {
    /// Network address of the run, `HOST:PORT`.
    pub address: &'a str,
    /// Path of the file with the worker's token, which the run has written.
    pub token: &'a Path,
    /// Time for which the worker tries to connect to a run that does not answer yet.
    pub patience: Duration,
    /// Maximum size of the weights and rows that the worker caches, in bytes.
    pub cache_bytes: u64,
    /// Number of the task at which the worker exits without an answer, to test failures. `None` in
    /// normal use.
    pub fail_at: Option<u64>,
    /// Location of the cache of compiled kernels.
    pub cache: CachePolicy,
    /// Handle with which another thread asks the worker to disconnect after its current task.
    pub leave: &'a Leave,
}

/// Runs tasks of a run until the run ends or a disconnect is requested with `leave`. When the run
/// has accepted the worker, `welcomed` is called with the name of the run and the index of the
/// worker.
///
/// # Errors
/// Returns [`Error::Connection`] if the run cannot be reached, refuses the token, or closes the
/// connection unexpectedly.
pub fn work(worker: &Worker<'_>, welcomed: impl FnOnce(&str, u32)) -> Result<Served> {
    let token = Token::read(worker.token)?;
    let limits = Limits::default();
    // A cache that cannot be opened only costs time.
    let cache = worker.cache.open().and_then(|cache| cache.ok());
    let runtime = Runtime::new(Settings { limits: limits.clone(), cache })?;
    let _clock = Clock::start(&runtime).map_err(Error::Threads)?;
    let serving = Serving {
        address: worker.address,
        token: &token,
        patience: worker.patience,
        cache_bytes: worker.cache_bytes,
        limits,
        load: Box::new(move |name, component| load_sent(&runtime, name, component)),
        owned: Box::<Ledger>::default(),
        leave: worker.leave,
        fail_at: worker.fail_at,
    };
    Ok(serve(serving, |run| welcomed(run, token.place))?)
}
