//! Builder of a data set from Python arrays. The graph is set first, then features, labels, split
//! and vertex ids.

use std::mem::take;

use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::build;
use eciton_graph::corrections::{Collector, Number};
use eciton_graph::dataset::{
    Dataset, DenseRows, EdgeFeatures, Features, Labels, NO_LABEL, Names, Scaling, SparseRows, Split, Values,
    VertexIds,
};
use eciton_graph::edge_rule::{self, EdgeRule, Findings, Zeros};
use eciton_graph::edges::{EdgeSource, MAX_CHUNK_EDGES};
use eciton_graph::error::{Error, Place};
use eciton_graph::features::{SPARSE_COLUMNS, SPARSE_SHARE};
use eciton_graph::graphs::Graphs;
use eciton_graph::label_report;
use eciton_graph::labelled_edges::LabelledEdges;
use eciton_input::notes::{self, Level, Note};
use eciton_tensor::{Buffer, Slab};
use numpy::{
    PyArray1, PyArray2, PyArrayMethods as _, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods as _,
};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::arrays::{lend, refused};
use crate::data::{Counts, Data};

/// Builder of a data set from arrays, which the Python module `eciton._graph` uses.
#[pyclass(module = "eciton._eciton")]
pub(crate) struct Builder {
    name: String,
    vertices: u32,
    options: Options,
    graph: Option<Graph>,
    features: Option<Features>,
    /// Rounding errors of the features, which are the exact values minus their f32 values.
    corrections: Option<Collector>,
    edge_features: Option<EdgeFeatures>,
    /// Edges that the labels and the split belong to. `None` if they belong to vertices or graphs.
    labelled_edges: Option<LabelledEdges>,
    labels: Option<Labels>,
    /// Names of the classes, in the order of their numbers. Empty if classes have no names.
    classes: Vec<String>,
    split: Option<Split>,
    graphs: Option<Graphs>,
    ids: VertexIds,
    /// Column names of the features, of the edge features and of the labels, in this order.
    columns: [Vec<String>; 3],
    counts: Counts,
    report: Vec<Note>,
}

/// Edge features of shape [edges, columns], in the precision of the given array.
#[derive(FromPyObject)]
enum EdgeValues<'py> {
    Single(PyReadonlyArray2<'py, f32>),
    Double(PyReadonlyArray2<'py, f64>),
}

impl EdgeValues<'_> {
    fn columns(&self) -> u32 {
        let columns = match self {
            Self::Single(values) => values.as_array().ncols(),
            Self::Double(values) => values.as_array().ncols(),
        };
        u32::try_from(columns).unwrap_or(u32::MAX)
    }
}

/// Edge features as row-major slices, which can be read without the lock of the interpreter.
enum EdgeRows<'a> {
    Single(&'a [f32]),
    Double(&'a [f64]),
}

/// Returns the number of threads that build a graph, one per core.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Edges given as an array of sources and an array of targets.
struct Pairs<'a> {
    vertices: u32,
    sources: &'a [i64],
    targets: &'a [i64],
}

impl Pairs<'_> {
    /// Checks that the source and the target of every edge are vertices of the graph.
    ///
    /// # Errors
    /// Returns [`Error::UnknownVertex`] for the first edge whose source or target does not exist.
    fn check(&self) -> Result<(), Error> {
        let known = 0..i64::from(self.vertices);
        let fault =
            |(&source, &target): (&i64, &i64)| [source, target].into_iter().find(|end| !known.contains(end));
        for (row, pair) in (0..).zip(self.sources.iter().zip(self.targets)) {
            if let Some(vertex) = fault(pair) {
                return Err(unknown(Place::row("edges", row), vertex, self.vertices));
            }
        }
        Ok(())
    }

    /// Returns all edges as pairs of source and target. [`Pairs::check`] must have succeeded
    /// before.
    fn all(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        // Checked before.
        self.sources.iter().zip(self.targets).map(|(&source, &target)| (source as u32, target as u32))
    }
}

/// Returns an error that reports an unknown vertex and the range of valid ones.
fn unknown(place: Place, vertex: i64, vertices: u32) -> Error {
    Error::UnknownVertex { place, vertex: vertex.to_string(), known: format!("vertices are 0..{vertices}") }
}

impl EdgeSource for Pairs<'_> {
    fn vertices(&self) -> u64 {
        self.vertices.into()
    }

    fn chunks(&self) -> u64 {
        self.sources.len().div_ceil(MAX_CHUNK_EDGES) as u64
    }

    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<(), Error> {
        let first = usize::try_from(chunk).unwrap_or(usize::MAX).saturating_mul(MAX_CHUNK_EDGES);
        edges.extend(self.all().skip(first).take(MAX_CHUNK_EDGES));
        Ok(())
    }
}

/// Converts the error that NumPy reports for a non-contiguous array. Callers pass only contiguous
/// arrays, so the exception reports an internal error.
fn contiguous<T>(found: Result<&[T], numpy::AsSliceError>) -> PyResult<&[T]> {
    found.map_err(|_| PyRuntimeError::new_err("internal error: an array is not contiguous"))
}

/// Returns the vertices of one part of a split, for instance `train`, in ascending order and
/// without duplicates. Raises `ValueError` for an unknown vertex.
fn part(members: &PyReadonlyArray1<'_, i64>, vertices: u32, name: &str) -> PyResult<Vec<u32>> {
    let mut part = Vec::new();
    for (row, &vertex) in (0..).zip(contiguous(members.as_slice())?) {
        match u32::try_from(vertex) {
            Ok(vertex) if vertex < vertices => part.push(vertex),
            _ => return Err(refused(unknown(Place::row(name, row), vertex, vertices))),
        }
    }
    part.sort_unstable();
    part.dedup();
    Ok(part)
}

#[pymethods]
impl Builder {
    #[new]
    fn new(name: String, vertices: u32, directed: bool, self_loops: bool) -> Self {
        Self {
            name,
            vertices,
            options: Options { symmetric: !directed, keep_self_loops: self_loops },
            graph: None,
            features: None,
            corrections: None,
            edge_features: None,
            labels: None,
            classes: Vec::new(),
            split: None,
            graphs: None,
            labelled_edges: None,
            ids: VertexIds::Dense,
            columns: Default::default(),
            counts: Counts { symmetric: !directed, ..Counts::default() },
            report: Vec::new(),
        }
    }

    /// Adds a line to the reading report, which describes how the data set was read. `level` is
    /// `fact`, `note` or `warning`.
    fn note(&mut self, level: &str, text: String) {
        let level = match level {
            "fact" => Level::Fact,
            "note" => Level::Note,
            _ => Level::Warning,
        };
        self.report.push(Note { level, text });
    }

    /// Sets the column names of the features, of the edge features and of the labels. A list may be
    /// empty.
    fn names(&mut self, features: Vec<String>, edge_features: Vec<String>, target: Vec<String>) {
        self.columns = [features, edge_features, target];
    }

    /// Builds the graph from compressed neighbour lists, where `offsets` marks the start of each
    /// vertex's list. The lists are not copied if they already have the layout that a run reads. If
    /// `outgoing` is true, a list has the targets of its vertex's edges, otherwise their sources.
    fn lists(
        &mut self,
        py: Python<'_>,
        offsets: PyReadonlyArray1<'_, i64>,
        neighbours: &Bound<'_, PyArray1<i32>>,
        outgoing: bool,
    ) -> PyResult<()> {
        let slab: Slab<u32> = lend(neighbours)?;
        let offsets = contiguous(offsets.as_slice())?;
        let (vertices, options) = (self.vertices, self.options);
        let built = py.detach(move || {
            if let Some(at) = slab.iter().position(|&neighbour| neighbour >= vertices) {
                let place = Place::row("neighbours", at as u64);
                return Err(unknown(place, i64::from(slab[at] as i32), vertices));
            }
            let negative = |&offset: &i64| u64::try_from(offset).unwrap_or(u64::MAX);
            let offsets: Vec<u64> = offsets.iter().map(negative).collect();
            let own = (0u32..).zip(offsets.windows(2)).map(|(v, span)| {
                let list = slab.get(span[0] as usize..span[1] as usize).unwrap_or_default();
                list.iter().filter(|&&neighbour| neighbour == v).count() as u64
            });
            // Offsets are checked below.
            let loops = own.sum();
            let listed = slab.len() as u64;
            let graph = build::of_lists((offsets, slab), outgoing, options, threads())?;
            Ok((graph, build::Listed { edges: listed, loops }))
        });
        let (graph, listed) = built.map_err(refused)?;
        let found = Findings::without_values(&graph, options, listed);
        self.found(found, listed.edges, &graph);
        self.graph = Some(graph);
        Ok(())
    }

    /// Builds the graph from edges in any order, where `values` has one row of edge features per
    /// edge. If `weight` is true, the only column is the edge weight, and edges of weight 0 are
    /// dropped. If `kept` is false, the values are used only to find such edges, and are not
    /// stored. If `labelled` is true, the labels and the split belong to these edges.
    fn edges(
        &mut self,
        py: Python<'_>,
        sources: PyReadonlyArray1<'_, i64>,
        targets: PyReadonlyArray1<'_, i64>,
        values: Option<EdgeValues<'_>>,
        weight: bool,
        kept_labelled: (bool, bool),
    ) -> PyResult<()> {
        let (kept, labelled) = kept_labelled;
        let (sources, targets) = (contiguous(sources.as_slice())?, contiguous(targets.as_slice())?);
        let pairs = Pairs { vertices: self.vertices, sources, targets };
        let columns = values.as_ref().map_or(0, EdgeValues::columns);
        let rows = match &values {
            None => None,
            Some(EdgeValues::Single(values)) => Some(EdgeRows::Single(contiguous(values.as_slice())?)),
            Some(EdgeValues::Double(values)) => Some(EdgeRows::Double(contiguous(values.as_slice())?)),
        };
        let (options, vertices) = (self.options, u64::from(self.vertices));
        if labelled {
            let values: Option<Vec<f32>> = rows.as_ref().filter(|_| kept).map(|rows| match rows {
                EdgeRows::Single(rows) => rows.to_vec(),
                EdgeRows::Double(rows) => rows.iter().map(|&value| value as f32).collect(),
            });
            let features = values.map(|values| Features::dense(columns, &values)).transpose();
            pairs.check().map_err(refused)?;
            let (ends, features) = (pairs.all().collect(), features.map_err(refused)?);
            self.labelled_edges = Some(LabelledEdges { ends, features, scaling: Scaling::None });
        }
        let zeros = if weight { Zeros::NoEdges } else { Zeros::by_names(&self.columns[1]) };
        let built = py.detach(|| {
            pairs.check()?;
            let rule = EdgeRule::new("edges", options).with_zeros(zeros);
            let Some(rows) = rows else {
                let (graph, found) = rule.merged(&pairs, threads())?;
                return Ok((graph, None, found));
            };
            let edges: Vec<_> = pairs.all().collect();
            let (graph, rows, found) = match rows {
                EdgeRows::Single(rows) => rule.valued(vertices, &edges, columns, rows, threads())?,
                EdgeRows::Double(rows) => rule.valued(vertices, &edges, columns, rows, threads())?,
            };
            let loops = match options.keep_self_loops {
                true => 0,
                false => edges.iter().filter(|(source, target)| source == target).count() as u64,
            };
            Ok((graph, kept.then_some(rows), Findings { loops, ..found }))
        });
        let (graph, placed, found) = built.map_err(refused)?;
        self.found(found, sources.len() as u64, &graph);
        (self.graph, self.edge_features) = (Some(graph), placed);
        Ok(())
    }

    /// Sets dense features of shape [vertices, columns]. They are converted to sparse features if
    /// most values are zero.
    fn dense(&mut self, py: Python<'_>, values: &Bound<'_, PyArray2<f32>>) -> PyResult<()> {
        let width = values.shape().get(1).copied().unwrap_or(0);
        let columns = u32::try_from(width).unwrap_or(u32::MAX);
        let features = {
            let lent = values.try_readonly().map_err(|error| PyValueError::new_err(error.to_string()))?;
            let slice = contiguous(lent.as_slice())?;
            let filled = py.detach(|| slice.iter().filter(|value| **value != 0.0).count());
            let sparse = columns >= SPARSE_COLUMNS && (filled as f64) < SPARSE_SHARE * slice.len() as f64;
            let in_place = !sparse && width > 0 && Buffer::row_bytes(width) == width * 4;
            match in_place {
                true => None,
                false => Some(py.detach(|| Features::from_dense(columns, slice)).map_err(refused)?),
            }
        };
        self.features = Some(match features {
            Some(features) => features,
            None => {
                let slab: Slab<f32> = lend(values)?;
                let rows = slab.len().checked_div(width).unwrap_or(0);
                let memory = |error: eciton_tensor::Error| PyMemoryError::new_err(error.to_string());
                let buffer = Buffer::over(rows, width, slab).map_err(memory)?;
                Features::Dense(DenseRows::new(&buffer).map_err(refused)?)
            }
        });
        Ok(())
    }

    /// Adds the rounding errors of a block of dense features, which are the exact values minus
    /// their f32 values. The block starts at `first_row` and `first_column`.
    fn residuals(
        &mut self,
        first_row: u32,
        first_column: u32,
        residuals: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<()> {
        let Some(features) = &self.features else {
            return Err(PyRuntimeError::new_err("internal error: residuals without features"));
        };
        let all = residuals.as_array();
        let collector = self.corrections.get_or_insert_with(|| Collector::dense("x"));
        let mut values = vec![0.0f32; features.columns() as usize];
        for (row, residuals) in (first_row..).zip(all.rows()) {
            features.copy_row(row as usize, &mut values);
            for (column, &residual) in (first_column..).zip(residuals) {
                let rounded = values.get(column as usize).copied().unwrap_or(f32::NAN);
                if rounded.is_finite() && residual.is_finite() {
                    collector.push(row, column, Number { rounded, residual });
                }
            }
        }
        Ok(())
    }

    /// Sets sparse features in compressed sparse row format. They are converted to dense features
    /// if too few values are zero. `residuals` contains the rounding errors, which are the exact
    /// values minus their f32 values.
    #[pyo3(signature = (columns, offsets, indices, values, residuals = None))]
    fn sparse(
        &mut self,
        py: Python<'_>,
        columns: u32,
        offsets: PyReadonlyArray1<'_, i64>,
        indices: PyReadonlyArray1<'_, i64>,
        values: PyReadonlyArray1<'_, f32>,
        residuals: Option<PyReadonlyArray1<'_, f64>>,
    ) -> PyResult<()> {
        let (offsets, indices) = (contiguous(offsets.as_slice())?, contiguous(indices.as_slice())?);
        let values = contiguous(values.as_slice())?;
        let residuals = residuals.as_ref().map(|all| contiguous(all.as_slice())).transpose()?;
        let made = py.detach(|| {
            let wrong = |expected: String, found: String| Error::Malformed {
                place: Place::whole("features"),
                expected,
                found,
                remedy: "correct the matrix",
            };
            let ends = (offsets.first().copied(), offsets.last().copied());
            if !offsets.is_sorted()
                || ends != (Some(0), Some(indices.len() as i64))
                || indices.len() != values.len()
            {
                let expected = format!(
                    "ascending row offsets from 0 to {}, and one value per column index",
                    indices.len()
                );
                return Err(wrong(expected, format!("offsets {ends:?}, {} values", values.len())));
            }
            if let Some(column) = indices.iter().find(|column| !(0..i64::from(columns)).contains(column)) {
                return Err(wrong(format!("columns below {columns}"), column.to_string()));
            }
            let offsets: Vec<u64> = offsets.iter().map(|&offset| offset as u64).collect();
            let indices: Vec<u32> = indices.iter().map(|&column| column as u32).collect();
            Features::from_sparse(match residuals {
                None => SparseRows::from_unsorted(columns, &offsets, &indices, values),
                Some(residuals) => {
                    SparseRows::from_unsorted_exact(columns, &offsets, &indices, (values, residuals), "x")
                }
            })
        });
        self.features = Some(made.map_err(refused)?);
        Ok(())
    }

    /// Sets the class of each vertex or graph, where -1 means unlabelled. `count` is the number of
    /// classes, and `names` has their names or is empty.
    fn classes(&mut self, of: PyReadonlyArray1<'_, i64>, count: u32, names: Vec<String>) -> PyResult<()> {
        let class = |(row, &class): (u64, &i64)| match u32::try_from(class) {
            Ok(class) if class < count => Ok(class),
            _ if class == -1 => Ok(NO_LABEL),
            _ => {
                let place = Place::row("labels", row);
                Err(Error::LabelRange { place, label: class, classes: u64::from(count) })
            }
        };
        let of: Result<Vec<u32>, _> = (0..).zip(contiguous(of.as_slice())?).map(class).collect();
        let labels = Labels::classes(of.map_err(refused)?, count);
        drop(notes::take());
        label_report::report(&labels);
        label_report::doubt(&labels, !names.is_empty(), "give task=\"regression\" to eciton.train");
        self.report.extend(notes::take());
        self.labels = Some(labels);
        self.classes = names;
        Ok(())
    }

    /// Sets the labels of each vertex or graph, with one column per label or target value. Several
    /// columns with only the values 0, 1 and NaN are binary labels. Otherwise, the columns are
    /// numeric targets.
    fn values(&mut self, values: PyReadonlyArray2<'_, f32>) -> PyResult<()> {
        let columns = u32::try_from(values.as_array().ncols()).unwrap_or(u32::MAX);
        let values = Values::new(columns, contiguous(values.as_slice())?.to_vec()).map_err(refused)?;
        self.labels = Some(match columns {
            1 => Labels::Numbers(values),
            _ => Labels::of_values(values),
        });
        Ok(())
    }

    /// Sets the training, validation and test vertices. In a data set of many graphs, the numbers
    /// are those of graphs.
    fn split(
        &mut self,
        train: PyReadonlyArray1<'_, i64>,
        validation: PyReadonlyArray1<'_, i64>,
        test: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<()> {
        let rows = self.labelled_edges.as_ref().map_or(self.vertices, |edges| edges.ends.len() as u32);
        let part = |of: &PyReadonlyArray1<'_, i64>, name| part(of, rows, name);
        let (train, validation, test) =
            (part(&train, "train")?, part(&validation, "val")?, part(&test, "test")?);
        self.split = Some(Split { train, validation, test });
        Ok(())
    }

    /// Sets the number of the graph that each vertex belongs to, for a data set of many graphs.
    fn graphs(&mut self, of: PyReadonlyArray1<'_, u64>) -> PyResult<()> {
        self.graphs = Some(Graphs::new(contiguous(of.as_slice())?).map_err(refused)?);
        Ok(())
    }

    /// Sets the user's vertex ids, as numbers.
    fn numbers(&mut self, ids: PyReadonlyArray1<'_, u64>) -> PyResult<()> {
        self.ids = VertexIds::Numbers(contiguous(ids.as_slice())?.to_vec());
        Ok(())
    }

    /// Sets the user's vertex ids, as text.
    fn words(&mut self, ids: Vec<String>) {
        self.ids = VertexIds::Words(ids);
    }

    /// Checks all parts and returns the data set. The builder is empty afterwards.
    fn finish(&mut self, py: Python<'_>) -> PyResult<Data> {
        let graph = self
            .graph
            .take()
            .ok_or_else(|| PyRuntimeError::new_err("internal error: a data set without a graph"))?;
        let vertices = graph.vertices();
        let features = match (self.features.take(), &self.graphs) {
            (Some(features), _) => match self.corrections.take() {
                Some(collector) => features.with_corrections(collector.finish()),
                None => features,
            },
            (None, Some(_)) => Features::constant(u64::from(vertices)).map_err(refused)?,
            (None, None) => Features::identity(vertices),
        };
        let mut labels = self.labels.take().unwrap_or_else(|| match &self.graphs {
            Some(graphs) => Labels::none(graphs.count()),
            None => Labels::none(vertices),
        });
        let standing = self.graphs.as_ref().map(Graphs::standing);
        if let Some(standing) = &standing {
            labels = labels.at_vertices(standing, vertices, "labels").map_err(refused)?;
        }
        let split = match (self.split.take(), &standing) {
            (None, _) => Split::random(&labels, [0.6, 0.2], 0),
            (Some(split), None) => split,
            (Some(split), Some(standing)) => {
                let of =
                    |part: Vec<u32>| part.iter().filter_map(|&g| standing.get(g as usize).copied()).collect();
                Split { train: of(split.train), validation: of(split.validation), test: of(split.test) }
            }
        };
        let mut dataset = Dataset {
            edge_features: self.edge_features.take(),
            graphs: self.graphs.take(),
            labelled_edges: self.labelled_edges.take(),
            ids: std::mem::replace(&mut self.ids, VertexIds::Dense),
            ..Dataset::new(take(&mut self.name), graph, features, labels, split)
        };
        let [features, edge_features, target] = take(&mut self.columns);
        let fit = |names: Vec<String>, columns: u32| {
            if names.len() == columns as usize { names } else { Vec::new() }
        };
        let of_edges = dataset.edge_features.as_ref().map_or(0, EdgeFeatures::columns);
        dataset.names = Names {
            labels: take(&mut self.classes),
            features: fit(features, dataset.features.columns()),
            edge_features: fit(edge_features, of_edges),
            target,
            ..Names::default()
        };
        py.detach(|| dataset.validate()).map_err(refused)?;
        Ok(Data::from_objects(dataset, take(&mut self.report), self.counts))
    }
}

impl Builder {
    /// Adds the number of edges, and of those that were merged or dropped, to the reading report.
    /// `listed` is the number of edges that were given.
    fn found(&mut self, found: Findings, listed: u64, graph: &Graph) {
        self.counts = Counts {
            listed,
            repeats: found.repeats,
            summed: found.valued,
            zeros: found.zeros,
            dropped_loops: found.loops,
            kept_loops: edge_rule::loops(graph),
            ..self.counts
        };
        // Notes are stored per thread. Earlier notes do not belong to this graph.
        drop(notes::take());
        notes::fact(format!("edges: {listed} entries, {} directed edges", graph.edges()));
        Findings { loops: 0, ..found }.report("edges", false);
        let loops =
            |count: u64| if count == 1 { "1 self-loop".to_owned() } else { format!("{count} self-loops") };
        if found.loops > 0 {
            notes::add(format!("edges: {} dropped; to keep them, pass self_loops=True", loops(found.loops)));
        } else if self.counts.kept_loops > 0 {
            notes::fact(format!("edges: {} kept (self_loops=True)", loops(self.counts.kept_loops)));
        }
        self.report.extend(notes::take());
    }
}
