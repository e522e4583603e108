//! Sampler of micro-batches for Python.

use eciton_train::{Options, Sample};
use numpy::{Element, IntoPyArray as _, PyArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::data::Data;
use crate::error;
use crate::process;
use crate::settings::Settings;

/// Sampler of the micro-batches that a training with the same settings reads.
#[pyclass(frozen, module = "eciton._eciton")]
pub(crate) struct Samples(eciton_train::Samples);

/// Creates a sampler for `data`. Samples are counted here if the sampler needs it.
#[pyfunction]
pub(crate) fn samples(py: Python<'_>, data: &Data, settings: &Settings) -> PyResult<Samples> {
    process::check()?;
    let dataset = Some(data.dataset.clone());
    let opened = py.detach(|| eciton_train::Samples::new(&settings.0, dataset, &Options::default()));
    Ok(Samples(opened.map_err(|error| error::train(&error))?))
}

#[pymethods]
impl Samples {
    /// Returns the numbers of updates per epoch, of micro-batches per update, and of threads.
    fn sizes(&self) -> (u32, u32, u32) {
        (self.0.facts().updates, self.0.facts().micro, self.0.threads())
    }

    /// Draws the micro-batches of the updates from `first` (counted from 1) to `end` (excluded) on all
    /// threads. Returns a dictionary of arrays for each.
    fn draw<'py>(&self, py: Python<'py>, first: u32, end: u32) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let drawn = py.detach(|| self.0.draw(first..end));
        drawn.map_err(|error| error::train(&error))?.into_iter().map(|sample| arrays(py, sample)).collect()
    }
}

/// Converts a micro-batch into arrays. Row numbers are int64, as PyTorch expects them.
fn arrays(py: Python<'_>, sample: Sample) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(py);
    let Sample { round, micro, vertices, hops, targets, sources, ends, graphs, .. } = sample;
    let edges = sources.len();
    let both = sources.into_iter().chain(ends).collect();
    found.set_item("round", round)?;
    found.set_item("micro", micro)?;
    found.set_item("edge_index", whole(both).into_pyarray(py).reshape([2, edges])?)?;
    for (name, values) in
        [("vertices", Some(vertices)), ("hops", Some(hops)), ("targets", Some(targets)), ("batch", graphs)]
    {
        found.set_item(name, optional(py, values.map(whole)))?;
    }
    if let Some([links, negatives]) = sample.pairs {
        let (linked, pairs) = (links.len(), [links, negatives].concat());
        let ends = pairs.iter().map(|pair| pair.0).chain(pairs.iter().map(|pair| pair.1)).collect();
        found.set_item("edge_label_index", whole(ends).into_pyarray(py).reshape([2, pairs.len()])?)?;
        if let Some(edges) = sample.labelled_edges {
            found.set_item("labelled", whole(edges).into_pyarray(py))?;
        } else {
            let labels: Vec<f32> = (0..pairs.len()).map(|at| f32::from(u8::from(at < linked))).collect();
            found.set_item("edge_label", labels.into_pyarray(py))?;
        }
    }
    found.set_item("edge_weight", optional(py, sample.edge_weights))?;
    found.set_item("loss_weight", optional(py, sample.loss_weights))?;
    Ok(found)
}

fn whole(values: Vec<u32>) -> Vec<i64> {
    values.into_iter().map(i64::from).collect()
}

fn optional<T: Element>(py: Python<'_>, values: Option<Vec<T>>) -> Option<Bound<'_, numpy::PyArray1<T>>> {
    values.map(|values| values.into_pyarray(py))
}
