//! Data sets of a run: reading and preparing them ([`source`]), and the rows, intervals and
//! adjacency lists that a run makes of them.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use eciton_gather::{inverse_degrees, symmetric_scale};
use eciton_graph::dataset::{Dataset, EdgeFeatures, Features, Labels, Split, Values};
use eciton_graph::graphs::Graphs;
use eciton_kernel::{RowNumbers, Targets};
use eciton_program::{DataShape, Domain, Over, Program, Relation, Workload};
use eciton_recipe::{Config, FeatureGather, Links, Metric, Model, Run, TaskType};
use eciton_runs::schema::{Columns, Schema};
use eciton_runs::task_type::task;
use eciton_tensor::{Atom, Buffer, Grid, Matrix, Part, SparseRows};
use eciton_types::{Atoms, DomainId, FAN_OUT, IntervalId, Intervals, Node, Normalisation, SlotId};

use crate::edge_data::EdgeData;
use crate::error::{Error, Result, at};
use crate::held_out_links::{self, PredictedLinks};
use crate::loss_reachable::LabelledLists;
use crate::precomputed::{Sums, gather_features, stored_at_most};
use crate::relation::{Lists, Readout};
use crate::vertices::Vertices;

mod interval;
mod source;

pub(crate) use interval::Interval;
pub use source::{IN_MEMORY, load, open, prepare};
pub(crate) use source::{
    checked, fitted, is_text, load_fitted, load_to_train, located, open_as, read_to_train, vocabulary,
    with_labels,
};

/// Approximate default number of rows in an interval (a run of rows that is scheduled as one unit),
/// for data sets without edges. Intervals are larger if the data set has too few atoms, the
/// smallest units of a cut.
const ROWS_WITHOUT_EDGES: u32 = 4096;

/// Inputs of a run, made from a data set: rows in the run's order, their intervals, adjacency
/// lists, constants and targets. They are built once, in three steps, and are immutable afterwards.
///
/// [`Inputs::new`] orders and cuts rows, [`Inputs::with_edges`] fits them to a model, and
/// [`Inputs::complete`] to a program.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// Data set with its vertices in row order. `vertices` maps rows to the user's vertex numbers.
    pub dataset: Arc<Dataset>,
    pub vertices: Vertices,
    pub shape: DataShape,
    pub task: TaskType,
    /// Metric that measures the quality of a model.
    pub metric: Metric,
    /// Factor of each training vertex in the loss: 1 / number of training vertices, or 1 / sum of
    /// their weights. Multi-label and regression tasks count known values instead of vertices.
    pub weight: f32,
    pub features: Matrix,
    /// Features gathered once before training, if the model reads them in addition to `features`.
    pub gathered: Option<Matrix>,
    /// Weight of each class in the loss, or `None` if all classes weigh the same.
    pub class_weights: Option<Arc<[f32]>>,
    /// Factor of each row in the symmetric normalisation of sums over neighbours.
    pub scale: Arc<Vec<f32>>,
    /// 1 / in-degree of each vertex, computed on first use.
    inverse: OnceLock<Arc<Vec<f32>>>,
    /// 1 / number of vertices in the graph that a vertex represents, computed on first use.
    inverse_sizes: OnceLock<Arc<Vec<f32>>>,
    pub atoms: Atoms,
    /// Intervals of vertex rows.
    pub intervals: Vec<Interval>,
    /// Intervals of graph rows: the graphs represented in each interval of vertices. Empty for a
    /// data set of one graph.
    pub graphs: Vec<Interval>,
    /// Labels and split by graph row, for a data set of many graphs. If `None`, the model learns
    /// the labels of vertices in `dataset`.
    pub of_graphs: Option<(Labels, Split)>,
    /// Lists of the vertices of each graph, which a readout sums over. `None` for a data set of one
    /// graph.
    pub readout: Option<Arc<Readout>>,
    /// Edge features that the model reads, prepared for its kernels.
    pub edges: Arc<EdgeData>,
    /// Adjacency lists without edges that cannot affect the loss, for the gathers next to it.
    /// `None` if these gathers use the full lists.
    pub labelled: Option<Arc<LabelledLists>>,
    /// Links to predict, if the task is link prediction.
    pub links: Option<Arc<PredictedLinks>>,
    /// Columns and classes of the data set, as the run folder records them.
    pub schema: Schema,
}

impl Inputs {
    /// Orders the rows of a data set and cuts them into intervals. `group` is the number of
    /// consecutive rows that no cut separates, such as the tokens of a sequence. `links` has the
    /// settings of link prediction, and the maximum number of epochs in flight.
    pub(crate) fn new(
        mut dataset: Dataset,
        (run, group): (&Run, u32),
        links: Option<(&Links, u32)>,
    ) -> Result<Self> {
        let (task, classes) = match links {
            Some((links, _)) => (TaskType::LinkPrediction, links.embedding),
            None => (task(&dataset.labels), dataset.labels.width()),
        };
        if classes == 0 {
            return Err(Error::NoLabels { dataset: dataset.name });
        }
        let metric = Metric::choose(run.metric, task, classes)?;
        let schema = Schema::of(&dataset, task);
        // The schema has the encoders, and the run reads only the features.
        dataset.encoded = None;
        let held =
            links.map(|(links, _)| held_out_links::hold_out(&mut dataset, links, metric)).transpose()?;
        let (mut dataset, vertices) = Vertices::order(dataset, run.order)?;
        let rows = dataset.vertices();
        let columns = dataset.features.columns();
        let stored = dataset.features.stored();
        // From here on the run's matrix owns the features, so that it can release them.
        let features = match std::mem::replace(&mut dataset.features, Features::identity(0)) {
            Features::Dense(dense) => {
                Matrix::from(dense.buffer().read(0..rows as usize).map_err(at("features"))?)
            }
            Features::Sparse(s) => {
                let sparse =
                    SparseRows::new(s.columns, s.offsets, s.indices, s.values).map_err(at("features"))?;
                Matrix::from(Arc::new(sparse))
            }
        };
        let scale = Arc::new(symmetric_scale(&dataset.graph));
        let atoms = Atoms::of_groups(dataset.graph.offsets(), group)?;
        let usual = Intervals::default_count(&atoms, stored);
        // Rows without neighbours are computed interval by interval. Small intervals limit the
        // memory.
        let alone = match dataset.graph.edges() {
            0 => (rows / ROWS_WITHOUT_EDGES).min(atoms.count()),
            _ => 0,
        };
        let count = run.intervals.unwrap_or(usual.max(alone));
        let cut = Intervals::new(&atoms, count)?;
        let mut in_training = vec![false; rows as usize];
        for &v in &dataset.split.train {
            in_training[v as usize] = true;
        }
        let values = dataset.labels.as_values().map(matrix).transpose()?;
        let targets = |rows: Range<usize>| targets(&dataset.labels, values.as_ref(), rows);
        let one = |id| interval(&targets, &vertices, &atoms, &cut, id, &in_training);
        let intervals: Vec<Interval> = cut.ids().map(one).collect::<Result<_>>()?;
        let edge_features = dataset.edge_features.as_ref().map_or(0, EdgeFeatures::columns);
        let readout = dataset.graphs.as_ref().map(Readout::of).transpose()?;
        let standing = readout.as_ref().map_or(&[][..], |readout| &readout.standing);
        let of_graphs = readout.as_ref().map(|_| graph_labels(&dataset, standing));
        let graphs = match &of_graphs {
            None => Vec::new(),
            Some((labels, _)) => graph_intervals(&intervals, labels, standing, &vertices, &in_training)?,
        };
        let count = standing.len() as u32;
        let shape = DataShape { rows, features: columns, classes, edge_features, graphs: count, group };
        let weight = 1.0 / known(&dataset.labels, &dataset.split.train).max(1) as f32;
        let links = held.zip(links).map(|(held, settings)| {
            Arc::new(PredictedLinks::new(&dataset, held, settings, vertices.permutation()))
        });
        let (dataset, labelled, inverse) = (Arc::new(dataset), None, OnceLock::new());
        Ok(Self {
            dataset,
            vertices,
            shape,
            task,
            metric,
            weight,
            class_weights: None,
            features,
            gathered: None,
            scale,
            inverse,
            inverse_sizes: OnceLock::new(),
            atoms,
            intervals,
            graphs,
            of_graphs,
            readout: readout.map(Arc::new),
            edges: Arc::default(),
            labelled,
            links,
            schema,
        })
    }
}

impl Inputs {
    /// Prepares the edge features that `model` reads, and releases the others. If the model reads
    /// none, its schema requires none of the data of later predictions.
    ///
    /// # Errors
    /// Returns the errors of [`EdgeData::of`] if the edge features do not suit the model.
    pub(crate) fn with_edges(mut self, model: &Model) -> Result<Self> {
        let features = match Arc::get_mut(&mut self.dataset) {
            Some(dataset) => dataset.edge_features.take(),
            None => self.dataset.edge_features.clone(),
        };
        let edges = EdgeData::of(model, &self.dataset.graph, features, &|row| self.vertices.name(row))?;
        if let Some(weights) = &edges.weights {
            self.scale = Arc::new(weights.symmetric_scale(&self.dataset.graph));
        }
        if edges.is_empty() {
            self.schema.edge_features = Columns::default();
        }
        self.edges = Arc::new(edges);
        Ok(self)
    }

    /// Returns the factor of each vertex in a normalisation of sums over neighbours, or over
    /// graphs. For a plain sum the result has no meaning.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] for a mean over graphs if the data set is one graph.
    pub(crate) fn factors(&self, normalisation: Normalisation, over: Over) -> Result<Arc<Vec<f32>>> {
        let inverse = match (normalisation, over) {
            (Normalisation::Mean, Over::Neighbours) => &self.inverse,
            (Normalisation::Mean, Over::Graphs) => &self.inverse_sizes,
            (Normalisation::Symmetric | Normalisation::Sum, _) => return Ok(self.scale.clone()),
        };
        let lists = match over {
            Over::Neighbours => Some(&self.dataset.graph),
            Over::Graphs => self.readout.as_ref().map(|readout| &readout.lists),
        };
        let lists = lists.ok_or_else(|| Error::Internal("the data set is one graph".to_owned()))?;
        Ok(inverse.get_or_init(|| Arc::new(inverse_degrees(lists.incoming(), false))).clone())
    }

    /// Returns the intervals of a domain: those of vertex rows or of graph rows.
    pub(crate) fn intervals_of(&self, domain: DomainId) -> &[Interval] {
        if domain == Domain::GRAPHS { &self.graphs } else { &self.intervals }
    }

    /// Returns the labels that the model learns, and the split. Both are by graph row if the data
    /// set has many graphs, otherwise by vertex row.
    pub(crate) fn learnt(&self) -> (&Labels, &Split) {
        match &self.of_graphs {
            Some((labels, split)) => (labels, split),
            None => (&self.dataset.labels, &self.dataset.split),
        }
    }

    /// Returns the adjacency lists of a relation, which its gathers sum over.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the data set has no such lists.
    pub(crate) fn lists(&self, relation: Relation) -> Result<Lists> {
        let data = (self.dataset.clone(), self.readout.clone());
        let lists = Lists::new(relation, data, self.edges.clone(), self.labelled.clone());
        lists.ok_or_else(|| Error::Internal(format!("the data set has no lists of {relation:?}")))
    }

    /// Refuses a model without readout for a data set of many graphs, and a model with readout for
    /// a single graph.
    ///
    /// # Errors
    /// Returns [`Error::Readout`] if model and data set do not fit each other.
    pub(crate) fn check_readout(&self, model: &Model) -> Result<()> {
        let graphs = self.dataset.graphs.as_ref().map(Graphs::count);
        if graphs.is_some() == model.reads_out() {
            return Ok(());
        }
        Err(Error::Readout { dataset: self.dataset.name.clone(), graphs })
    }

    /// Refuses a program that gathers from neighbours if no vertex has one, unless the
    /// configuration allows it.
    ///
    /// # Errors
    /// Returns [`Error::NoGraph`] if the program gathers from neighbours and the data set has no
    /// edges.
    pub(crate) fn check_neighbours(&self, config: &Config, program: &Program) -> Result<()> {
        let follows = program.model.constant_gather().is_some()
            || program.relations.iter().any(|relation| relation.over == Over::Neighbours);
        match follows && self.dataset.graph.edges() == 0 && !config.data.without_edges {
            true => Err(Error::NoGraph { dataset: self.dataset.name.clone(), model: program.model.name() }),
            false => Ok(()),
        }
    }

    /// Returns the sizes of the data set, from which the program builder estimates the benefit of
    /// its rewrites. `gather` is the gather that the first layer applies to the features.
    pub(crate) fn workload(&self, gather: Option<FeatureGather>) -> Workload {
        let graph = &self.dataset.graph;
        let stored = match &self.features {
            Matrix::Dense(_) => self.features.rows() * self.features.columns(),
            Matrix::Sparse(sparse) => sparse.data.stored(),
        };
        Workload {
            rows: u64::from(graph.vertices()),
            edges: graph.edges(),
            stored: stored as u64,
            stored_gathered: gather
                .map_or(stored as u64, |gather| stored_at_most(graph, &self.features, gather)),
        }
    }

    /// Adds the inputs that depend on the program: lists without edges that cannot affect the loss,
    /// and features that are gathered once before training.
    ///
    /// # Errors
    /// Returns the errors of [`gather_features`] if the sums cannot be computed or stored.
    pub(crate) fn complete(mut self, program: &Program, threads: u32) -> Result<Self> {
        if let Some(gather) = program.model.constant_gather().filter(|_| program.rewrites.gathered_features) {
            self.gather_features(gather, threads)?;
        }
        if program.relations.iter().any(|relation| relation.reached) {
            let (dataset, weights) = (&self.dataset, self.edges.weights.as_ref());
            let lists = LabelledLists::new(&dataset.graph, &dataset.split.train, weights);
            self.labelled = Some(Arc::new(lists));
        }
        Ok(self)
    }

    /// Gathers the features once, so that epochs do not repeat this work. If `gather` replaces the
    /// original features, releases them.
    ///
    /// # Errors
    /// Returns the errors of [`gather_features`] if the sums cannot be computed or stored.
    fn gather_features(&mut self, gather: FeatureGather, threads: u32) -> Result<()> {
        let weights = self.edges.weights.as_ref().map(|weights| &weights.along(false)[..]);
        let graph = &self.dataset.graph;
        let of = |sums: Sums<'_>, features: &Matrix| {
            gather_features(graph, weights, sums, features, &self.atoms, threads)
        };
        match gather {
            FeatureGather::Hops(hops) => {
                for _ in 0..hops {
                    self.features = of(Sums::Symmetric(&self.scale), &self.features)?;
                }
            }
            FeatureGather::WithOwn(factor) => {
                self.features = of(Sums::WithOwn(factor as f32), &self.features)?
            }
            FeatureGather::Beside => {
                let inverse = self.factors(Normalisation::Mean, Over::Neighbours)?;
                self.gathered = Some(of(Sums::Mean(&inverse), &self.features)?);
            }
        }
        Ok(())
    }

    /// Returns the stored share of all feature values, from 0 to 1. It is below 1 for sparse
    /// features.
    pub(crate) fn stored(&self) -> f64 {
        let values = f64::from(self.shape.rows) * f64::from(self.shape.features);
        match &self.features {
            Matrix::Sparse(sparse) => (sparse.data.stored() as f64 / values).clamp(f64::MIN_POSITIVE, 1.0),
            _ => 1.0,
        }
    }

    /// Returns all rows of a slot of constants, such as the features. Returns `None` for a slot
    /// that stages write, and for gathered features that are not computed yet.
    pub(crate) fn constant(&self, program: &Program, slot: SlotId) -> Option<&Matrix> {
        match slot {
            _ if slot == program.features => Some(&self.features),
            _ if Some(slot) == program.gathered => self.gathered.as_ref(),
            _ => None,
        }
    }
}

/// Copies values into a dense matrix, the form in which tasks read them.
pub(crate) fn matrix(values: &Values) -> Result<Matrix> {
    let (rows, columns) = (values.rows(), values.columns() as usize);
    let all = Buffer::from_rows(rows, columns, values.as_slice()).map_err(at("labels"))?;
    Ok(Matrix::from(all.read(0..rows).map_err(at("labels"))?))
}

/// Returns the loss targets of the rows `rows`. `values` is the label matrix if the labels are
/// values and not classes.
fn targets(labels: &Labels, values: Option<&Matrix>, rows: Range<usize>) -> Result<Targets> {
    match (labels.as_classes(), values) {
        (Some(classes), _) => Ok(Targets::Classes(classes[rows].into())),
        (None, Some(all)) => {
            Ok(Targets::Values(all.slice_rows(rows.start, rows.len()).map_err(at("labels"))?))
        }
        (None, None) => Err(Error::Internal("labels that are neither classes nor values".to_owned())),
    }
}

/// Returns the number of known labels of `vertices`: known classes, or known values if each vertex
/// has several.
pub(crate) fn known(labels: &Labels, vertices: &[u32]) -> u64 {
    match labels.as_values() {
        None => vertices.len() as u64,
        Some(values) => {
            let of = |&v: &u32| values.row(v as usize).iter().filter(|value| !value.is_nan()).count() as u64;
            vertices.iter().map(of).sum()
        }
    }
}

/// Builds one interval: the grid of its sums, its targets, and its training rows.
fn interval(
    targets: &dyn Fn(Range<usize>) -> Result<Targets>,
    vertices: &Vertices,
    atoms: &Atoms,
    cut: &Intervals,
    id: IntervalId,
    in_training: &[bool],
) -> Result<Interval> {
    let rows = cut.rows(id).start as usize..cut.rows(id).end as usize;
    let nodes = atoms.nodes(cut.atoms(id));
    let targets = targets(rows.clone())?;
    let training = rows.clone().filter(|&v| in_training[v]).map(|v| (v - rows.start) as u32).collect();
    Ok(Interval {
        numbers: vertices.numbers(rows.clone()),
        grid: Arc::new(grid(atoms, &nodes, rows.start as u32)),
        nodes,
        targets,
        training,
        row_weights: None,
        rows,
    })
}

/// Returns the labels and the split of a data set of many graphs, by graph row. `standing` has the
/// vertex that represents each graph.
fn graph_labels(dataset: &Dataset, standing: &[u32]) -> (Labels, Split) {
    let number = |vertex: &u32| standing.binary_search(vertex).ok().map(|number| number as u32);
    let part = |vertices: &[u32]| vertices.iter().filter_map(number).collect();
    let Split { train, validation, test } = &dataset.split;
    let split = Split { train: part(train), validation: part(validation), test: part(test) };
    (dataset.labels.reordered(standing), split)
}

/// Returns one interval of graph rows for each interval of vertices: the graphs whose representing
/// vertices it contains. Both have the same partial sums, so that one tree combines the gradients.
fn graph_intervals(
    intervals: &[Interval],
    labels: &Labels,
    standing: &[u32],
    vertices: &Vertices,
    in_training: &[bool],
) -> Result<Vec<Interval>> {
    let values = labels.as_values().map(matrix).transpose()?;
    let before = |row: usize| standing.partition_point(|&vertex| (vertex as usize) < row);
    let one = |of: &Interval| {
        let rows = before(of.rows.start)..before(of.rows.end);
        let number = |local: u32| (before(of.rows.start + local as usize) - rows.start) as u32;
        let atom = |atom: &Atom| Atom { rows: number(atom.rows.start)..number(atom.rows.end), ..*atom };
        let part = |part: &Part| Part { level: part.level, atoms: part.atoms.iter().map(atom).collect() };
        let stands = &standing[rows.clone()];
        let training = (0..).zip(stands).filter(|(_, v)| in_training[**v as usize]).map(|(local, _)| local);
        Ok(Interval {
            numbers: RowNumbers::List(stands.iter().map(|&row| u64::from(vertices.number(row))).collect()),
            grid: Arc::new(Grid::new(of.grid.parts().iter().map(part).collect())),
            nodes: of.nodes.clone(),
            targets: targets(labels, values.as_ref(), rows.clone())?,
            training: training.collect(),
            row_weights: None,
            rows,
        })
    };
    intervals.iter().map(one).collect()
}

/// Returns the summation grid of an interval whose first row is `first_row`. `nodes` are the
/// interval's nodes of the summation tree.
pub(crate) fn grid(atoms: &Atoms, nodes: &[Node], first_row: u32) -> Grid {
    let tree = atoms.tree();
    let part = |node: &Node| {
        let span = tree.span(*node);
        let atom = |a: u32| {
            let rows = atoms.row_range(a..a + 1);
            // Counts the levels of the summation tree at which a node ends with this atom.
            let ends = |l: &u8| (a + 1).is_multiple_of(FAN_OUT.pow(u32::from(*l))) || a + 1 == span.end;
            let closes = (1..node.level).take_while(ends).count();
            Atom { rows: rows.start - first_row..rows.end - first_row, closes: closes as u8 }
        };
        Part { level: node.level, atoms: span.clone().map(atom).collect() }
    };
    Grid::new(nodes.iter().map(part).collect())
}
