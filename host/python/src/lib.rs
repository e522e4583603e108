//! Private module `eciton._eciton` of the Python package. It builds data sets from arrays, trains
//! models, and reads run folders.
//!
//! Users import the Python layer (`host/python/eciton`), which recognises objects of other
//! libraries and passes arrays and text to this module. This module converts them into a
//! [`Dataset`](eciton_graph::dataset::Dataset) and a [`Config`](eciton_recipe::Config). The lock of
//! the Python interpreter is released during graph construction and training.

mod arrays;
mod builder;
mod data;
mod error;
mod kernel;
mod listener;
mod process;
mod run;
mod sample;
mod settings;

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

/// Runs the command-line program `eciton` with the arguments `words`, and returns its exit code.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| eciton_cli::run(words))
}

/// Sets the folder of the Python package that contains the binaries that run on functions.
#[pyfunction]
fn carried_in(folder: PathBuf) {
    eciton_exec::worker::carried_in(folder);
}

/// Adds all classes and functions to the Python module `eciton._eciton`.
#[pymodule]
fn _eciton(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("NUMERIC_CLASS", eciton_tensor::simd::usual_class())?;
    module.add("IN_MEMORY", eciton_train::IN_MEMORY)?;
    module.add_class::<builder::Builder>()?;
    module.add_class::<data::Data>()?;
    module.add_class::<settings::Settings>()?;
    module.add_class::<sample::Samples>()?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(carried_in, module)?)?;
    module.add_function(wrap_pyfunction!(data::open, module)?)?;
    module.add_function(wrap_pyfunction!(data::names, module)?)?;
    module.add_function(wrap_pyfunction!(run::train, module)?)?;
    module.add_function(wrap_pyfunction!(run::resume, module)?)?;
    module.add_function(wrap_pyfunction!(run::open_run, module)?)?;
    module.add_function(wrap_pyfunction!(run::check_results, module)?)?;
    module.add_function(wrap_pyfunction!(run::is_resumable, module)?)?;
    module.add_function(wrap_pyfunction!(run::predict, module)?)?;
    module.add_function(wrap_pyfunction!(run::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(run::weights, module)?)?;
    module.add_function(wrap_pyfunction!(run::plan, module)?)?;
    module.add_function(wrap_pyfunction!(sample::samples, module)?)?;
    module.add_function(wrap_pyfunction!(kernel::inspect, module)?)?;
    Ok(())
}
