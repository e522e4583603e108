//! A worker of somebody's run: this process serves it over one connection.

use std::path::Path;
use std::time::Duration;

use eciton_exec::Clock;
use eciton_kernel::{Limits, Runtime, Settings};
use eciton_workers::{Leave, Served, Serving, Token, serve};

use crate::error::{Error, Result};
use crate::kernels::{CachePolicy, load_sent};
use crate::owned::Ledger;

/// Settings of a worker.
#[derive(Debug)]
pub struct Worker<'a> {
    /// The run: `HOST:PORT`.
    pub address: &'a str,
    /// The file of its token.
    pub token: &'a Path,
    /// The time for which a run that does not answer yet is tried.
    pub patience: Duration,
    /// Bytes that it keeps of weights and rows, at most.
    pub cache_bytes: u64,
    /// The task at which it vanishes without a word, to try out losses.
    pub fail_at: Option<u64>,
    /// The cache of compiled kernels.
    pub cache: CachePolicy,
    /// The switch by which it is asked to go.
    pub leave: &'a Leave,
}

/// Serves a run until it ends. `welcomed` hears the run's name once it has let this worker in.
///
/// # Errors
/// [`Error::Connection`] where the run cannot be reached, refuses the token, or is gone without a farewell.
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
        keeps_bytes: worker.cache_bytes,
        limits,
        load: Box::new(move |name, component| load_sent(&runtime, name, component)),
        owned: Box::<Ledger>::default(),
        leave: worker.leave,
        vanishes_at: worker.fail_at,
    };
    Ok(serve(serving, |run| welcomed(run, token.place))?)
}
