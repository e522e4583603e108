//! The process that the library works in: one that was forked off it has the memory, and not the threads.

use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The process that loaded the first kernel.
static OF: OnceLock<u32> = OnceLock::new();

/// Refuses work in a process that was forked off one that has trained.
pub(crate) fn check() -> PyResult<()> {
    let here = std::process::id();
    let of = *OF.get_or_init(|| here);
    if of == here {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!(
        "process {here} was forked off process {of}, which had used eciton: a fork has no threads, and would wait \
         for ever; start processes with multiprocessing.get_context(\"spawn\"), or use eciton in the child alone"
    )))
}
