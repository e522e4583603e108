//! The runtime whose threads wait for requests to services.

use crate::error::{Error, system};

/// Starts threads that wait for requests. They compute nothing except encodings.
///
/// # Errors
/// If the system refuses a thread.
pub fn runtime(threads: usize) -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("eciton-io")
        .enable_all()
        .build()
        .map_err(system("starting I/O threads"))
}
