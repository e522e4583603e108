//! Functions of the Python module that train, resume, read and apply runs.

use std::ffi::{CString, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use eciton_cli::SharedRun;
use eciton_input::notes::{self, Level};
use eciton_train::run_folder::{self, Run};
use eciton_train::{Options, Summary, checkpoint};
use numpy::{IntoPyArray as _, PyArray2, PyArrayMethods as _};
use pyo3::exceptions::{PyRuntimeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::data::{Data, named};
use crate::error;
use crate::listener::Listener;
use crate::process;
use crate::settings::Settings;

/// Serialises a value as JSON text.
fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Calls `work` without the lock of the Python interpreter. Notes and warnings about the data
/// become Python warnings.
fn noted<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let (done, report) = py.detach(|| {
        drop(notes::take());
        (work(), notes::take())
    });
    for note in report.into_iter().filter(|note| note.level > Level::Fact) {
        let text = CString::new(note.text.replace('\0', " "))?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
    }
    Ok(done)
}

/// Returns the summary of a finished run as JSON.
///
/// # Errors
/// Raises the exception that the listener recorded, or otherwise the error of the run.
fn ended(done: eciton_train::Result<Summary>, listener: Listener) -> PyResult<String> {
    if let Some(raised) = listener.raised() {
        return Err(raised);
    }
    json(&done.map_err(|error| error::train(&error))?)
}

/// Trains a model on `data`, writes a run folder, and returns the summary of the run as JSON.
///
/// `what` consists of the run folder, the number of seeds, and a flag to write the activations of
/// the last hidden layer. `hosts` has the number of hosts that share the training, and the words of
/// a command line that runs `eciton`. `listener` receives every epoch if `each` is true, otherwise at most one
/// per 100 ms.
#[pyfunction]
pub(crate) fn train(
    py: Python<'_>,
    data: &Data,
    settings: &Settings,
    what: (PathBuf, u32, bool),
    hosts: Option<(u32, Vec<OsString>)>,
    listener: Py<PyAny>,
    each: bool,
) -> PyResult<String> {
    process::check()?;
    let (out, seeds, embeddings) = what;
    let mut options = Options { seeds, out: Some(out), embeddings, ..Options::default() };
    let mut listener = Listener::new(listener, each, options.stop.clone());
    let (done, listener) = noted(py, || {
        let Some((count, program)) = hosts else {
            let dataset = data.dataset.clone();
            return (Ok(eciton_train::train_on(dataset, &settings.0, &options, &mut listener)), listener);
        };
        let started = eciton_train::defaults::settle(&settings.0).map_err(|error| error::train(&error));
        let started = started.and_then(|config| {
            let shared = SharedRun::start(&config, count, program).map_err(PyRuntimeError::new_err)?;
            options.hosts = Some(shared.hosts(&config));
            Ok((config, shared))
        });
        let done = started.map(|(config, shared)| {
            // This host reads the data as the others do.
            let done = eciton_train::train(&config, &options, &mut listener);
            shared.end(&done);
            done
        });
        (done, listener)
    })?;
    ended(done?, listener)
}

/// Resumes the interrupted run in the folder `run`, and returns its summary as JSON. Without
/// `data`, the data set of the run is read again.
#[pyfunction]
pub(crate) fn resume(
    py: Python<'_>,
    run: PathBuf,
    data: Option<&Data>,
    force: bool,
    listener: Py<PyAny>,
    each: bool,
) -> PyResult<String> {
    process::check()?;
    let options = Options::default();
    let mut listener = Listener::new(listener, each, Arc::clone(&options.stop));
    let (done, listener) = noted(py, || {
        let done = match data {
            Some(data) => eciton_train::resume_on(data.dataset.clone(), &run, force, &options, &mut listener),
            None => eciton_train::resume(&run, force, &options, &mut listener),
        };
        (done, listener)
    })?;
    ended(done, listener)
}

/// Returns true if the folder `run` contains a run that can be resumed from a checkpoint.
#[pyfunction]
pub(crate) fn is_resumable(run: PathBuf) -> bool {
    checkpoint::is_resumable(&run)
}

/// Returns the summary, the configuration and the versions of a finished run, each as JSON. The
/// weights are checked against the digests in the run folder.
#[pyfunction]
pub(crate) fn open_run(py: Python<'_>, run: PathBuf) -> PyResult<(String, String, String)> {
    let opened = py.detach(|| Run::open(&run)).map_err(|error| error::train(&error.into()))?;
    Ok((json(&opened.summary)?, json(&opened.config)?, json(&opened.versions)?))
}

/// Checks the metrics and predictions in a run folder against the digests in its summary.
#[pyfunction]
pub(crate) fn check_results(py: Python<'_>, run: PathBuf) -> PyResult<()> {
    py.detach(|| run_folder::check_results(&run)).map_err(|error| error::train(&error.into()))
}

/// Returns the weights that a run trained with one seed, as a dictionary from names to arrays. The
/// order is that of the layers.
#[pyfunction]
pub(crate) fn weights<'py>(py: Python<'py>, run: PathBuf, seed: u64) -> PyResult<Bound<'py, PyDict>> {
    let model = py.detach(|| Run::open(&run)?.model(seed)).map_err(|error| error::train(&error.into()))?;
    let found = PyDict::new(py);
    for tensor in model.tensors {
        found.set_item(tensor.name, tensor.values.into_pyarray(py).reshape(tensor.shape)?)?;
    }
    Ok(found)
}

/// Result of [`predict`]: scores, activations of the last hidden layer, ids of the rows, and name
/// of the task.
type Scores<'py> =
    (Bound<'py, PyArray2<f32>>, Option<Bound<'py, PyArray2<f32>>>, Option<Bound<'py, PyAny>>, &'static str);

/// Predicts with the model of a run on `data`, or on the data set of the run if `data` is `None`.
/// Returns the scores of shape [rows, columns], the ids of the rows, and the name of the task. If
/// `embeddings` is true, the result includes the activations of the last hidden layer.
#[pyfunction]
pub(crate) fn predict<'py>(
    py: Python<'py>,
    run: PathBuf,
    data: Option<&Data>,
    embeddings: bool,
) -> PyResult<Scores<'py>> {
    process::check()?;
    let options = Options { embeddings, ..Options::default() };
    let found = noted(py, || match data {
        Some(data) => eciton_train::predict_on(&run, data.dataset.clone(), &options),
        None => eciton_train::predict(&run, None, &options),
    })?;
    let found = found.map_err(|error| error::train(&error))?;
    let embeddings = found.embeddings.map(|rows| rows.into_pyarray(py));
    Ok((found.scores.into_pyarray(py), embeddings, named(py, &found.ids)?, found.task.name()))
}

/// Evaluates the model of a run on `data`, or on the data set of the run if `data` is `None`.
/// Returns the metrics as JSON.
#[pyfunction]
pub(crate) fn evaluate(py: Python<'_>, run: PathBuf, data: Option<&Data>) -> PyResult<String> {
    process::check()?;
    let options = Options::default();
    let found = noted(py, || match data {
        Some(data) => eciton_train::evaluate_on(&run, data.dataset.clone(), &options),
        None => eciton_train::evaluate(&run, None, &options),
    })?;
    json(&found.map_err(|error| error::train(&error))?.metrics)
}

/// Returns the planned work and memory of a training on `data` as JSON. Nothing is trained.
#[pyfunction]
pub(crate) fn plan(py: Python<'_>, data: &Data, settings: &Settings) -> PyResult<String> {
    process::check()?;
    let options = Options::default();
    let plan = py.detach(|| eciton_train::plan_on(data.dataset.clone(), &settings.0, &options));
    json(&plan.map_err(|error| error::train(&error))?)
}
