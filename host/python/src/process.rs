//! Check against forks: a forked process has a copy of the memory, but none of the threads.

use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Id of the process that first used the library.
static FIRST: OnceLock<u32> = OnceLock::new();

/// Checks that this process is the one that first used the library.
///
/// # Errors
/// Raises `RuntimeError` in a process that was forked after the library was used.
pub(crate) fn check() -> PyResult<()> {
    let here = std::process::id();
    let first = *FIRST.get_or_init(|| here);
    if first == here {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!(
        "process {here} was forked from process {first} after it had used eciton, and a forked process lacks the \
         threads of eciton; start processes with multiprocessing.get_context(\"spawn\"), or use eciton only in the \
         child process"
    )))
}
