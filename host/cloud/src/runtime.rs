//! The Tokio runtime for requests to cloud services.

use crate::error::{Error, system};

/// Starts a Tokio runtime with `threads` threads, on which requests to services run. The threads do
/// no computation except encoding.
///
/// # Errors
/// Returns an [`Error`] if the operating system cannot start a thread.
pub fn runtime(threads: usize) -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("eciton-io")
        .enable_all()
        .build()
        .map_err(system("start I/O threads"))
}
