//! Detection of forked processes. A forked process has a copy of the memory, but none of the
//! threads, so this library cannot work in it.

use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Id of the process in which the library was first used.
static FIRST: OnceLock<u32> = OnceLock::new();

/// Checks that the library is not used in a forked process. The first call records the current
/// process.
///
/// # Errors
/// Raises `RuntimeError` in a process that was forked after the library was first used.
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
