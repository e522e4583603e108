//! A data set that Python holds: read or built once, used by any number of runs.

use eciton_graph::dataset::{Dataset, EdgeFeatures, Features, Labels, NO_LABEL, VertexIds};
use eciton_graph::edge_rule;
use eciton_graph::graphs::Graphs;
use eciton_input::notes::{self, Level, Note};
use eciton_recipe::{Data as Source, SelfLoops};
use numpy::{IntoPyArray as _, PyArray1, PyArray2, PyArrayMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::refused;
use crate::error;

/// A data set, as published: what a run makes of it is the run's.
#[pyclass(frozen, module = "eciton._eciton")]
pub(crate) struct Data {
    pub(crate) dataset: Dataset,
    /// Path or name that the data set was read from.
    source: Option<Origin>,
    /// Reading report.
    report: Vec<Note>,
    /// Counts of edges, if objects in memory were read.
    counts: Option<Counts>,
}

/// Place that a data set was read from, and the decision about self-loops.
#[derive(Clone)]
struct Origin {
    source: String,
    name: Option<String>,
    self_loops: Option<SelfLoops>,
}

/// Counts of edges of objects in memory: what became of them in the graph.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) listed: u64,
    pub(crate) repeats: u64,
    /// True if values of repeats were added up.
    pub(crate) summed: bool,
    pub(crate) zeros: u64,
    pub(crate) dropped_loops: u64,
    pub(crate) kept_loops: u64,
    /// True if the reverse of every edge was added.
    pub(crate) symmetric: bool,
}

impl Data {
    /// A data set of objects in memory.
    pub(crate) fn of_objects(dataset: Dataset, report: Vec<Note>, counts: Counts) -> Self {
        Self { dataset, source: None, report, counts: Some(counts) }
    }

    /// Another data set in the place of this one.
    fn with(&self, dataset: Dataset) -> Self {
        Self { dataset, source: self.source.clone(), report: self.report.clone(), counts: self.counts }
    }

    /// Sets the keys of a run on this data set that say where the data set is from.
    pub(crate) fn place(&self, data: &mut Source) {
        match &self.source {
            None => {
                (data.source, data.name) = (eciton_train::IN_MEMORY.to_owned(), None);
                data.self_loops = None;
            }
            Some(origin) => {
                (data.source, data.name) = (origin.source.clone(), origin.name.clone());
                data.self_loops = origin.self_loops;
            }
        }
    }
}

/// Reads a data set by name or path. If `run` is a run folder, columns are matched by the names of its training
/// data, and labels are optional.
#[pyfunction]
pub(crate) fn open(
    py: Python<'_>,
    source: String,
    name: Option<String>,
    self_loops: Option<bool>,
    run: Option<std::path::PathBuf>,
) -> PyResult<Data> {
    let self_loops = self_loops.map(|keep| if keep { SelfLoops::Keep } else { SelfLoops::Drop });
    let default = eciton_recipe::Config::default().data;
    let place = Source { source: source.clone(), name: name.clone(), self_loops, ..default };
    // Notes are this thread's.
    let (read, report) = py.detach(|| {
        drop(notes::take());
        let read = match &run {
            Some(run) => eciton_train::open_for(run, &place),
            None => eciton_train::open(&place),
        };
        (read, notes::take())
    });
    let dataset = read.map_err(|error| error::train(&error))?;
    // A run folder must find it from wherever it is asked.
    let absolute = std::path::Path::new(&source).canonicalize().ok();
    let builtin = eciton_formats::builtins().iter().any(|set| set.name.eq_ignore_ascii_case(&source));
    let source = match absolute.as_deref().and_then(std::path::Path::to_str).filter(|_| !builtin) {
        Some(absolute) => absolute.to_owned(),
        None => source,
    };
    Ok(Data { dataset, source: Some(Origin { source, name, self_loops }), report, counts: None })
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
        self.source.as_ref().map(|origin| &origin.source[..])
    }

    /// Lines of the reading report: level (`fact`, `note`, `warning`) and text.
    fn report(&self) -> Vec<(&'static str, &str)> {
        let level = |level| match level {
            Level::Fact => "fact",
            Level::Note => "note",
            Level::Warning => "warning",
        };
        self.report.iter().map(|note| (level(note.level), &note.text[..])).collect()
    }

    /// Counts of the edges that were given, or `None` if the data set was read from a path.
    fn edge_counts<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(counts) = self.counts else { return Ok(None) };
        let found = PyDict::new(py);
        let numbers = [
            ("listed", counts.listed),
            ("repeats", counts.repeats),
            ("zeros", counts.zeros),
            ("dropped_loops", counts.dropped_loops),
            ("kept_loops", counts.kept_loops),
        ];
        numbers.into_iter().try_for_each(|(key, count)| found.set_item(key, count))?;
        found.set_item("summed", counts.summed)?;
        found.set_item("symmetric", counts.symmetric)?;
        Ok(Some(found))
    }

    /// The number of edges from a node to itself.
    #[getter]
    fn num_self_loops(&self) -> u64 {
        edge_rule::loops(&self.dataset.graph)
    }

    /// [nodes, columns]: features as they were read, before any scaling.
    fn features<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let features = &self.dataset.features;
        let (rows, columns) = (features.rows(), features.columns() as usize);
        let cells =
            rows.checked_mul(columns).ok_or_else(|| PyValueError::new_err("the features are too large"))?;
        let mut all = vec![0.0f32; cells];
        for (row, into) in all.chunks_exact_mut(columns.max(1)).enumerate() {
            features.copy_row(row, into);
        }
        all.into_pyarray(py).reshape([rows, columns])
    }

    /// [edges, columns]: rows of the edges in the order of `edges`; `None` if there are none.
    fn edge_features<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f32>>>> {
        let Some(rows) = &self.dataset.edge_features else { return Ok(None) };
        let flat = rows.values().to_vec().into_pyarray(py);
        flat.reshape([rows.rows(), rows.columns() as usize]).map(Some)
    }

    /// Names of the columns of features, of edge features, and of the labels.
    fn column_names(&self) -> (Vec<String>, Vec<String>, Vec<String>) {
        let names = &self.dataset.names;
        (names.features.clone(), names.edge_features.clone(), names.target.clone())
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

    /// Returns the user's ids of the vertices or graphs, or `None` if they are 0, 1, 2, ...
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
        Ok(self.with(dataset))
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
