//! A data set that Python holds: read or built once, used by any number of runs.

use eciton_graph::dataset::{Dataset, EdgeFeatures, Features, Labels, NO_LABEL, Values, VertexIds};
use eciton_graph::graphs::Graphs;
use eciton_plan::Data as Source;
use numpy::{IntoPyArray as _, PyArray1, PyArrayMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::refused;
use crate::error;

/// A data set, as published: what a run makes of it is the run's.
#[pyclass(frozen, module = "eciton._eciton")]
pub(crate) struct Data {
    pub(crate) dataset: Dataset,
    /// Where it was read.
    source: Option<(String, Option<String>)>,
}

impl Data {
    pub(crate) fn new(dataset: Dataset, source: Option<(String, Option<String>)>) -> Self {
        Self { dataset, source }
    }

    /// `data.source` and `data.name` of a run on it.
    pub(crate) fn place(&self) -> (String, Option<String>) {
        self.source.clone().unwrap_or_else(|| (eciton_train::IN_MEMORY.to_owned(), None))
    }
}

/// Reads a data set by name or path.
#[pyfunction]
pub(crate) fn open(py: Python<'_>, source: String, name: Option<String>) -> PyResult<(Data, Vec<String>)> {
    let place = Source { source: source.clone(), name: name.clone(), ..eciton_plan::Config::default().data };
    // Notes are this thread's.
    let (read, notes) = py.detach(|| {
        let read = eciton_train::open(&place);
        (read, eciton_input::notes::take().into_iter().map(|note| note.text).collect())
    });
    let dataset = read.map_err(|error| error::train(&error))?;
    // A run folder must find it from wherever it is asked.
    let absolute = std::path::Path::new(&source).canonicalize().ok();
    let builtin = eciton_formats::builtins().iter().any(|set| set.name.eq_ignore_ascii_case(&source));
    let source = match absolute.as_deref().and_then(std::path::Path::to_str).filter(|_| !builtin) {
        Some(absolute) => absolute.to_owned(),
        None => source,
    };
    Ok((Data::new(dataset, Some((source, name))), notes))
}

/// Names of data sets: those that are built in, and those that can be fetched.
#[pyfunction]
pub(crate) fn names() -> (Vec<&'static str>, Vec<&'static str>) {
    let builtin = eciton_formats::builtins().iter().map(|set| set.name);
    let fetched = eciton_fetch::catalogue::sets().iter().map(|set| set.name);
    (builtin.collect(), fetched.collect())
}

#[pymethods]
impl Data {
    #[getter]
    fn name(&self) -> &str {
        &self.dataset.name
    }

    #[getter]
    fn num_nodes(&self) -> u32 {
        self.dataset.vertices()
    }

    #[getter]
    fn num_edges(&self) -> u64 {
        self.dataset.graph.edges()
    }

    #[getter]
    fn num_features(&self) -> u32 {
        self.dataset.features.columns()
    }

    #[getter]
    fn num_edge_features(&self) -> u32 {
        self.dataset.edge_features.as_ref().map_or(0, EdgeFeatures::columns)
    }

    #[getter]
    fn num_graphs(&self) -> u32 {
        self.dataset.graphs.as_ref().map_or(1, Graphs::count)
    }

    /// Columns of a row's scores.
    #[getter]
    fn num_outputs(&self) -> u32 {
        self.dataset.labels.width()
    }

    #[getter]
    fn many_graphs(&self) -> bool {
        self.dataset.graphs.is_some()
    }

    #[getter]
    fn task(&self) -> &'static str {
        eciton_train::task(&self.dataset.labels).name()
    }

    #[getter]
    fn directed(&self) -> bool {
        !self.dataset.graph.symmetric()
    }

    #[getter]
    fn sparse_features(&self) -> bool {
        matches!(self.dataset.features, Features::Sparse(_))
    }

    /// Names of classes, in order; empty where they are numbers.
    #[getter]
    fn classes(&self) -> Vec<String> {
        match self.dataset.labels {
            Labels::Classes { .. } => self.dataset.names.labels.clone(),
            _ => Vec::new(),
        }
    }

    #[getter]
    fn source(&self) -> Option<&str> {
        self.source.as_ref().map(|(source, _)| &source[..])
    }

    /// Classes [rows] with -1 for none, or values [rows, columns] with NaN for what is unknown; by vertex, or by graph.
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let standing = self.dataset.graphs.as_ref().map(Graphs::standing);
        let labels = match &standing {
            Some(standing) => self.dataset.labels.reordered(standing),
            None => self.dataset.labels.clone(),
        };
        match labels {
            Labels::Classes { of, .. } => {
                let class = |class: u32| if class == NO_LABEL { -1 } else { i64::from(class) };
                let of: Vec<i64> = of.into_iter().map(class).collect();
                Ok(of.into_pyarray(py).into_any())
            }
            Labels::Flags(values) | Labels::Numbers(values) => {
                let (rows, columns) = (values.rows(), values.columns() as usize);
                let flat = values.as_slice().to_vec().into_pyarray(py);
                Ok(flat.reshape([rows, columns])?.into_any())
            }
        }
    }

    /// The parts that train, validate and test.
    #[expect(clippy::type_complexity, reason = "three arrays")]
    fn split<'py>(
        &self,
        py: Python<'py>,
    ) -> (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>) {
        let standing = self.dataset.graphs.as_ref().map(Graphs::standing);
        let part = |part: &[u32]| {
            let row = |&vertex: &u32| match &standing {
                Some(standing) => standing.binary_search(&vertex).map_or(-1, |at| at as i64),
                None => i64::from(vertex),
            };
            part.iter().map(row).collect::<Vec<i64>>().into_pyarray(py)
        };
        let split = &self.dataset.split;
        (part(&split.train), part(&split.validation), part(&split.test))
    }

    /// What the user calls the vertices, or the graphs: `None` where that is 0, 1, 2, ...
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let ids = self.dataset.graphs.as_ref().map_or(&self.dataset.ids, |graphs| graphs.ids());
        named(py, ids)
    }

    /// All edges by target, as two arrays: sources and targets.
    fn edges<'py>(&self, py: Python<'py>) -> (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>) {
        let (sources, targets): (Vec<i64>, Vec<i64>) =
            py.detach(|| self.dataset.graph.edge_list().map(|(s, t)| (i64::from(s), i64::from(t))).unzip());
        (sources.into_pyarray(py), targets.into_pyarray(py))
    }

    /// The same data set with names for its classes.
    fn with_classes(&self, classes: Vec<String>) -> PyResult<Self> {
        let (named, count) = (classes.len(), self.dataset.labels.width() as usize);
        if named != count || self.dataset.labels.as_classes().is_none() {
            let text = format!("classes: {named} names for {count} classes; name every class, in order");
            return Err(PyValueError::new_err(text));
        }
        let mut dataset = self.dataset.clone();
        dataset.names.labels = classes;
        Ok(Self::new(dataset, self.source.clone()))
    }

    /// The same data set for a model of `columns` outputs: of nodes without labels, or with fewer classes.
    fn fitted(&self, columns: u32, task: &str) -> PyResult<Self> {
        let labels = &self.dataset.labels;
        let rows = labels.rows();
        let labels = match labels {
            Labels::Classes { of, count } if task == "classification" && *count < columns => {
                Labels::classes(of.clone(), columns)
            }
            Labels::Classes { count: 0, .. } => {
                let unknown = vec![f32::NAN; rows.saturating_mul(columns as usize)];
                let unknown = Values::new(columns, unknown).map_err(refused)?;
                if task == "regression" { Labels::Numbers(unknown) } else { Labels::Flags(unknown) }
            }
            labels => labels.clone(),
        };
        let mut dataset = self.dataset.clone();
        dataset.set_labels(labels);
        Ok(Self::new(dataset, self.source.clone()))
    }

    /// Writes a store at `path`, where nothing may lie yet; what comes back is the data set there.
    fn save(&self, py: Python<'_>, path: std::path::PathBuf) -> PyResult<()> {
        py.detach(|| eciton_graph::store::write(&path, &self.dataset)).map_err(refused)
    }
}

/// Ids as an array, or a list of words.
pub(crate) fn named<'py>(py: Python<'py>, ids: &VertexIds) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(match ids {
        VertexIds::Dense => None,
        VertexIds::Numbers(numbers) => Some(numbers.clone().into_pyarray(py).into_any()),
        VertexIds::Words(words) => Some(words.into_pyobject(py)?),
    })
}
