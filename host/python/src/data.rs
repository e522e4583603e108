//! Data set of the Python package. It is read or built once, and can be used by any number of runs.

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

/// A data set that runs do not change. A run scales features and adds edges in its own copy.
#[pyclass(frozen, module = "eciton._eciton")]
pub(crate) struct Data {
    pub(crate) dataset: Dataset,
    /// Name or path from which the data set was read, with the settings of reading. `None` if it was
    /// built from objects in memory.
    source: Option<Source>,
    /// Reading report, which describes how the data set was read.
    report: Vec<Note>,
    /// Numbers of edges by treatment. `None` if the data set was read by name or path.
    counts: Option<Counts>,
}

/// Numbers of edges that were given in memory, by their treatment in the graph.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Number of edges that were given.
    pub(crate) listed: u64,
    /// Number of duplicate edges that were merged.
    pub(crate) repeats: u64,
    /// True if the values of duplicate edges were added up.
    pub(crate) summed: bool,
    /// Number of edges that were dropped because their weight is 0.
    pub(crate) zeros: u64,
    /// Number of self-loops that were dropped.
    pub(crate) dropped_loops: u64,
    /// Number of self-loops in the resulting graph.
    pub(crate) kept_loops: u64,
    /// True if the graph is undirected, so that the reverse of every edge was added.
    pub(crate) symmetric: bool,
}

impl Data {
    /// Creates a data set from objects in memory, with its reading report and its numbers of edges.
    pub(crate) fn from_objects(dataset: Dataset, report: Vec<Note>, counts: Counts) -> Self {
        Self { dataset, source: None, report, counts: Some(counts) }
    }

    /// Returns a copy of this value with another `dataset`. Source, report and counts stay the
    /// same.
    fn with(&self, dataset: Dataset) -> Self {
        Self { dataset, source: self.source.clone(), report: self.report.clone(), counts: self.counts }
    }

    /// Sets the keys of a run's configuration that identify the source of this data set.
    pub(crate) fn place(&self, data: &mut Source) {
        let in_memory = || Source { source: eciton_train::IN_MEMORY.to_owned(), ..Source::default() };
        let read = self.source.clone().unwrap_or_else(in_memory);
        (data.source, data.name, data.self_loops) = (read.source, read.name, read.self_loops);
        (data.label, data.edge_label) = (read.label, read.edge_label);
    }
}

/// Reads a data set by name or path. `label` and `edge_label` name the column of the labels of
/// vertices or of edges. If `run` is a run folder, table columns are matched by name
/// with the training data of that run, and labels are optional.
#[pyfunction]
pub(crate) fn open(
    py: Python<'_>,
    source: String,
    name: Option<String>,
    self_loops: Option<bool>,
    run: Option<std::path::PathBuf>,
    label: Option<String>,
    edge_label: Option<String>,
) -> PyResult<Data> {
    let self_loops = self_loops.map(|keep| if keep { SelfLoops::Keep } else { SelfLoops::Drop });
    let place = Source { source, name, self_loops, label, edge_label, ..Source::default() };
    // Notes are stored per thread.
    let (read, report) = py.detach(|| {
        drop(notes::take());
        let read = match &run {
            Some(run) => eciton_train::open_for(run, &place),
            None => eciton_train::open(&place),
        };
        (read, notes::take())
    });
    let dataset = read.map_err(|error| error::train(&error))?;
    // The path must be valid from any working directory.
    let absolute = std::path::Path::new(&place.source).canonicalize().ok();
    let builtin = eciton_formats::builtins().iter().any(|set| set.name.eq_ignore_ascii_case(&place.source));
    let source = match absolute.as_deref().and_then(std::path::Path::to_str).filter(|_| !builtin) {
        Some(absolute) => absolute.to_owned(),
        None => place.source.clone(),
    };
    Ok(Data { dataset, source: Some(Source { source, ..place }), report, counts: None })
}

/// Returns the names of the built-in data sets, and the names of those that can be downloaded.
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

    /// Number of columns of the model's scores, which is the number of classes, labels or target
    /// values.
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

    /// Names of the classes, in the order of their numbers. Empty if classes have no names.
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

    /// Returns the lines of the reading report as pairs of level (`fact`, `note` or `warning`) and
    /// text.
    fn report(&self) -> Vec<(&'static str, &str)> {
        let level = |level| match level {
            Level::Fact => "fact",
            Level::Note => "note",
            Level::Warning => "warning",
        };
        self.report.iter().map(|note| (level(note.level), &note.text[..])).collect()
    }

    /// Returns the numbers of given edges by treatment as a dictionary, or `None` if the data set
    /// was read by name or path.
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

    /// Number of self-loops in the graph.
    #[getter]
    fn num_self_loops(&self) -> u64 {
        edge_rule::loops(&self.dataset.graph)
    }

    /// Returns the features of shape [nodes, columns] as they were read, before any scaling.
    fn features<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let features = &self.dataset.features;
        let (rows, columns) = (features.rows(), features.columns() as usize);
        let cells = rows
            .checked_mul(columns)
            .ok_or_else(|| PyValueError::new_err("the feature matrix is too large for the address space"))?;
        let mut all = vec![0.0f32; cells];
        for (row, into) in all.chunks_exact_mut(columns.max(1)).enumerate() {
            features.copy_row(row, into);
        }
        all.into_pyarray(py).reshape([rows, columns])
    }

    /// Returns the edge features of shape [edges, columns] in the order of `edges`. Returns `None`
    /// if the data set has none.
    fn edge_features<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f32>>>> {
        let Some(rows) = &self.dataset.edge_features else { return Ok(None) };
        let flat = rows.values().to_vec().into_pyarray(py);
        flat.reshape([rows.rows(), rows.columns() as usize]).map(Some)
    }

    /// Returns the column names of the features, of the edge features and of the labels, as three
    /// lists.
    fn column_names(&self) -> (Vec<String>, Vec<String>, Vec<String>) {
        let names = &self.dataset.names;
        (names.features.clone(), names.edge_features.clone(), names.target.clone())
    }

    /// Returns the label of each vertex or graph. Classes have shape [rows], with -1 for unlabelled
    /// rows. Other labels have shape [rows, columns], with NaN for unknown values.
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

    /// Returns the numbers of the training, validation and test vertices. In a data set of many
    /// graphs, they are the numbers of graphs.
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

    /// Returns the user's ids of the vertices or graphs. Returns `None` if the ids are 0, 1, 2 and
    /// so on.
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let ids = self.dataset.graphs.as_ref().map_or(&self.dataset.ids, |graphs| graphs.ids());
        named(py, ids)
    }

    /// Returns the sources and the targets of all edges as two arrays, sorted by target.
    fn edges<'py>(&self, py: Python<'py>) -> (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>) {
        let (sources, targets): (Vec<i64>, Vec<i64>) =
            py.detach(|| self.dataset.graph.edge_list().map(|(s, t)| (i64::from(s), i64::from(t))).unzip());
        (sources.into_pyarray(py), targets.into_pyarray(py))
    }

    /// Returns the sources and the targets of the edges with labels as two arrays, in the order of
    /// `labels`. Returns `None` if the labels are those of vertices or graphs.
    fn labelled_edges<'py>(&self, py: Python<'py>) -> Option<[Bound<'py, PyArray1<i64>>; 2]> {
        let ends = &self.dataset.labelled_edges.as_ref()?.ends;
        let (sources, targets): (Vec<i64>, Vec<i64>) =
            ends.iter().map(|&(source, target)| (i64::from(source), i64::from(target))).unzip();
        Some([sources.into_pyarray(py), targets.into_pyarray(py)])
    }

    /// Returns a copy of the data set in which the classes have the given names.
    ///
    /// # Errors
    /// Raises `ValueError` if the number of names differs from the number of classes.
    fn with_classes(&self, classes: Vec<String>) -> PyResult<Self> {
        let (named, count) = (classes.len(), self.dataset.labels.width() as usize);
        if named != count || self.dataset.labels.as_classes().is_none() {
            let text = format!(
                "classes: found {named} names for {count} classes; expected one name per class, in order"
            );
            return Err(PyValueError::new_err(text));
        }
        let mut dataset = self.dataset.clone();
        dataset.names.labels = classes;
        Ok(self.with(dataset))
    }

    /// Writes the data set to the new folder `path` as a store, the format that runs memory-map.
    fn save(&self, py: Python<'_>, path: std::path::PathBuf) -> PyResult<()> {
        py.detach(|| eciton_graph::store::write(&path, &self.dataset)).map_err(refused)
    }
}

/// Returns vertex ids as an array of numbers or as a list of texts. Returns `None` if the ids are
/// 0, 1, 2 and so on.
pub(crate) fn named<'py>(py: Python<'py>, ids: &VertexIds) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(match ids {
        VertexIds::Dense => None,
        VertexIds::Numbers(numbers) => Some(numbers.clone().into_pyarray(py).into_any()),
        VertexIds::Words(words) => Some(words.into_pyobject(py)?),
    })
}
