//! The private module `eciton._eciton` of the Python package: data sets of arrays, training, run folders.
//!
//! The package's own layer (`host/python/eciton`) is what users import; it finds out what an object is, and hands
//! arrays and words over. Here they become a [`Dataset`](eciton_graph::dataset::Dataset) and a
//! [`Config`](eciton_recipe::Config). Python's lock is released while a graph is built and while a run trains.

mod arrays;
mod builder;
mod data;
mod error;
mod kernel;
mod listener;
mod process;
mod run;
mod settings;

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

/// The command `eciton`: its exit code.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| eciton_cli::run(words))
}

/// Names the folder in which this package carries the functions' programs.
#[pyfunction]
fn carried_in(folder: PathBuf) {
    eciton_exec::worker::carried_in(folder);
}

/// The module.
#[pymodule]
fn _eciton(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("NUMERIC_CLASS", eciton_tensor::simd::usual_class())?;
    module.add("IN_MEMORY", eciton_train::IN_MEMORY)?;
    module.add_class::<builder::Builder>()?;
    module.add_class::<data::Data>()?;
    module.add_class::<settings::Settings>()?;
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
    module.add_function(wrap_pyfunction!(kernel::inspect, module)?)?;
    Ok(())
}
