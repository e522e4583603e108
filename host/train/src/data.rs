//! Data sets of a run: how they are read and prepared ([`source`]), and the rows, intervals and
//! adjacency lists that are made of them.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use eciton_gather::{inverse_degrees, symmetric_scale};
use eciton_graph::dataset::{Dataset, EdgeFeatures, Features, Labels, NO_LABEL, Split, Values};
use eciton_kernel::{RowNumbers, Targets};
use eciton_program::{DataShape, Domain, Over, Program, Relation, Workload};
use eciton_recipe::{
    Config, FeatureGather, Layers, Links, Metric, Model, ModelSettings, Readout as Readouts, Run, TaskType,
};
use eciton_runs::schema::{Columns, Schema};
use eciton_runs::task_type::task;
use eciton_tensor::{Atom, Buffer, Grid, Matrix, Part, SparseRows};
use eciton_types::{Atoms, DomainId, FAN_OUT, IntervalId, Intervals, Node, Normalisation, SlotId};

use crate::edge_data::EdgeData;
use crate::error::{Error, Result, at};
use crate::held_out_links::{self, PredictedLinks};
use crate::hosts::HostPart;
use crate::loss_reachable::LabelledLists;
use crate::precomputed::{Sums, gather_features, stored_at_most};
use crate::relation::{Lists, Readout};
use crate::vertices::Vertices;

mod bucket;
mod interval;
mod source;

pub(crate) use interval::Interval;
pub use source::{IN_MEMORY, load, open, prepare};
pub(crate) use source::{
    checked, fitted, is_text, load_fitted, load_to_resume, load_to_train, located, may_read_own, open_as,
    read_to_train, vocabulary, with_labels,
};

/// Approximate default number of rows in an interval (a run of rows that is scheduled as one unit),
/// for data sets without edges. Intervals are larger if the data set has too few atoms, the
/// smallest units of a cut.
const ROWS_WITHOUT_EDGES: u32 = 4096;

/// Inputs of a run, made from a data set: rows in the order of the run, their intervals, adjacency
/// lists, constants and loss targets. They are immutable once they are complete.
///
/// They are built in three steps. [`Inputs::new`] orders the rows and divides them into intervals,
/// [`Inputs::with_edges`] adapts them to a model, and [`Inputs::complete`] to a program.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// Data set with its vertices in row order. `vertices` maps rows back to the user's vertex
    /// numbers.
    pub dataset: Arc<Dataset>,
    pub vertices: Vertices,
    pub shape: DataShape,
    pub task: TaskType,
    /// Metric by which models are evaluated.
    pub metric: Metric,
    /// Weight of each training vertex in the loss, which is 1 divided by their number or by the sum
    /// of their class weights. Multi-label and regression tasks count known values instead of
    /// vertices.
    pub weight: f32,
    pub features: Matrix,
    /// Features of labelled edges. `None` if the model does not read them.
    pub edge_rows: Option<Matrix>,
    /// Features that were summed over neighbours once before training, if the model reads them in
    /// addition to `features`.
    pub gathered: Option<Matrix>,
    /// Loss weight of each class. `None` if all classes have the same weight.
    pub class_weights: Option<Arc<[f32]>>,
    /// Factor of each row in symmetric normalisation, by which sums over neighbours are scaled
    /// before and after the sum.
    pub scale: Arc<Vec<f32>>,
    /// Inverse in-degree of each vertex, computed on first use.
    inverse: OnceLock<Arc<Vec<f32>>>,
    /// Inverse number of vertices of each graph, computed on first use.
    inverse_sizes: OnceLock<Arc<Vec<f32>>>,
    pub atoms: Atoms,
    /// Intervals (contiguous ranges) of vertex rows.
    pub intervals: Vec<Interval>,
    /// Intervals of the rows of graphs or labelled edges. Each has the rows whose standing vertices are
    /// in the vertex interval with the same index. Empty if the model learns the labels of vertices.
    pub read_out: Vec<Interval>,
    /// Atoms (blocks of consecutive rows) of each interval.
    pub of_atoms: Vec<Interval>,
    /// Labels and split of the graphs or labelled edges. `None` if the model learns the labels of
    /// vertices, which are in `dataset`.
    pub of_read_out: Option<(Labels, Split)>,
    /// Adjacency lists from graphs to their vertices, or from labelled edges to their ends. `None` if
    /// the model learns the labels of vertices.
    pub readout: Option<Arc<Readout>>,
    /// Edge features and weights that the model reads, prepared for its kernels.
    pub edges: Arc<EdgeData>,
    /// Adjacency lists without the edges that cannot affect the loss, for the gathers closest to
    /// the loss. `None` if these gathers use all edges.
    pub labelled: Option<Arc<LabelledLists>>,
    /// Links to predict. `None` unless the task is link prediction.
    pub links: Option<Arc<PredictedLinks>>,
    /// Schema of the data set, as the run folder records it.
    pub schema: Schema,
    /// Part of the data set that this host stores. `None` for a run on one host.
    pub host: Option<HostPart>,
}

/// Division of rows into atoms (the smallest units of a cut) and intervals.
pub(crate) struct Division {
    pub atoms: Atoms,
    pub intervals: Intervals,
}

impl Division {
    /// Divides the rows whose lists of in-neighbours start at `offsets`, with `stored` feature values
    /// altogether. The other arguments are those of [`Inputs::new`].
    pub(crate) fn new(
        (offsets, stored): (&[u64], u64),
        (run, group, least): (&Run, u32, u32),
    ) -> Result<Self> {
        let atoms = Atoms::of_groups(offsets, group)?;
        let usual = Intervals::default_count(&atoms, stored);
        // Rows without neighbours are computed interval by interval. Small intervals limit the
        // memory.
        let alone = match offsets.last() {
            Some(0) => (atoms.rows() / ROWS_WITHOUT_EDGES).min(atoms.count()),
            _ => 0,
        };
        let count = run.intervals.unwrap_or(usual.max(alone).max(least.min(atoms.count())));
        let intervals = Intervals::new(&atoms, count)?;
        Ok(Self { atoms, intervals })
    }

    /// Returns the first atom and the first row of each interval, followed by their numbers.
    pub(crate) fn starts(&self) -> Vec<[u32; 2]> {
        let of = |id| [self.intervals.atoms(id).start, self.intervals.rows(id).start];
        self.intervals.ids().map(of).chain([[self.atoms.count(), self.atoms.rows()]]).collect()
    }
}

impl Inputs {
    /// Orders the rows of a data set and divides them into intervals. `group` is the number of
    /// consecutive rows that must stay together, for instance the tokens of a sequence. Without
    /// `run.intervals`, there are at least `least` intervals, or as many as there are atoms. `links`
    /// has the settings of link prediction and the maximum number of epochs in flight.
    pub(crate) fn new(
        mut dataset: Dataset,
        (run, group, least): (&Run, u32, u32),
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
        let schema = Schema::from_dataset(&dataset, task);
        // The schema has the encoders, and the run reads only the features.
        dataset.encoded = None;
        let held =
            links.map(|(links, _)| held_out_links::hold_out(&mut dataset, links, metric)).transpose()?;
        let mut edge_rows = None;
        let of_edges = dataset.labelled_edges.take().map(|mut edges| {
            edge_rows = edges.features.take();
            let unknown = Labels::classes(vec![NO_LABEL; dataset.vertices() as usize], classes);
            let labels = std::mem::replace(&mut dataset.labels, unknown);
            dataset.graphs = None;
            (edges, labels, std::mem::take(&mut dataset.split))
        });
        let (mut dataset, mut vertices) = Vertices::order(dataset, run.order)?;
        let of_edges = of_edges.map(|(edges, labels, split)| vertices.order_edges(edges, &labels, &split));
        let rows = dataset.vertices();
        let columns = dataset.features.columns();
        let stored = match dataset.held {
            Some(_) => u64::from(rows) * u64::from(columns),
            None => dataset.features.stored(),
        };
        // From here on the run's matrix owns the features, so that it can release them.
        let features = features_of(std::mem::replace(&mut dataset.features, Features::identity(0)))?;
        let ordered = |rows: Features| features_of(rows)?.select(vertices.edges()).map_err(at("features"));
        let edge_rows = edge_rows.map(ordered).transpose()?;
        let scale = Arc::new(symmetric_scale(dataset.offsets()));
        let Division { atoms, intervals: cut } =
            Division::new((dataset.offsets(), stored), (run, group, least))?;
        let mut in_training = vec![false; rows as usize];
        for &v in &dataset.split.train {
            in_training[v as usize] = true;
        }
        let values = dataset.labels.as_values().map(matrix).transpose()?;
        let targets = |rows: Range<usize>| targets(&dataset.labels, values.as_ref(), rows);
        let one = |id| interval(&targets, &vertices, &atoms, &cut, id, &in_training);
        let intervals: Vec<Interval> = cut.ids().map(one).collect::<Result<_>>()?;
        let edge_features = dataset.edge_features.as_ref().map_or(0, EdgeFeatures::columns);
        let (readout, of_read_out) = match (&dataset.graphs, of_edges) {
            (_, Some(([sources, targets], learnt))) => {
                (Some(Readout::from_edges(sources, &targets, rows as usize)?), Some(learnt))
            }
            (Some(graphs), None) => {
                let readout = Readout::from_graphs(graphs)?;
                let learnt = graph_labels(&dataset, &readout.standing);
                (Some(readout), Some(learnt))
            }
            (None, None) => (None, None),
        };
        let read_out = match readout.as_ref().zip(of_read_out.as_ref()) {
            None => Vec::new(),
            Some((readout, learnt)) => read_out_intervals(&intervals, learnt, readout, &vertices)?,
        };
        let standing = readout.as_ref().map_or(&[][..], |readout| &readout.standing);
        let of_atoms = cut.ids().map(|id| Interval::of_atoms(cut.atoms(id))).collect();
        let count = standing.len() as u32;
        let shape = DataShape { rows, features: columns, classes, edge_features, read_out: count, group };
        let (labels, split) =
            of_read_out.as_ref().map_or((&dataset.labels, &dataset.split), |(labels, split)| (labels, split));
        let weight = 1.0 / known(labels, &split.train).max(1) as f32;
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
            edge_rows,
            gathered: None,
            scale,
            inverse,
            inverse_sizes: OnceLock::new(),
            atoms,
            intervals,
            read_out,
            of_atoms,
            of_read_out,
            readout: readout.map(Arc::new),
            edges: Arc::default(),
            labelled,
            links,
            schema,
            host: None,
        })
    }
}

impl Inputs {
    /// Prepares the edge features that `model` reads, and releases the others. If the model reads
    /// none, they are also removed from the schema, so that later predictions do not require them.
    ///
    /// # Errors
    /// Returns the errors of [`EdgeData::for_model`] if the edge features do not suit the model.
    pub(crate) fn with_edges(mut self, model: &Model) -> Result<Self> {
        let features = match Arc::get_mut(&mut self.dataset) {
            Some(dataset) => dataset.edge_features.take(),
            None => self.dataset.edge_features.clone(),
        };
        let edges =
            EdgeData::for_model(model, &self.dataset.graph, features, &|row| self.vertices.name(row))?;
        if let Some(weights) = &edges.weights {
            self.scale = Arc::new(weights.symmetric_scale(&self.dataset.graph));
        }
        if !model.reads_edge_rows() {
            self.edge_rows = None;
        } else if self.edge_rows.is_none() {
            let name = self.dataset.name.clone();
            return Err(Error::Internal(format!("the labelled edges of `{name}` have no features")));
        }
        if edges.is_empty() && self.edge_rows.is_none() {
            self.schema.edge_features = Columns::default();
        }
        self.edges = Arc::new(edges);
        Ok(self)
    }

    /// Returns the normalisation factor of each row for sums over neighbours or in a readout. A plain
    /// sum uses no factors, so its result has no meaning.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] for a mean over graphs if the data set is one graph.
    pub(crate) fn factors(&self, normalisation: Normalisation, over: Over) -> Result<Arc<Vec<f32>>> {
        let inverse = match (normalisation, over) {
            (Normalisation::Mean, Over::Neighbours) => &self.inverse,
            (Normalisation::Mean, _) => &self.inverse_sizes,
            (Normalisation::Symmetric | Normalisation::Sum, _) => return Ok(self.scale.clone()),
        };
        let lists = match over {
            Over::Neighbours => Some(&self.dataset.graph),
            over => self.readout.as_ref().and_then(|readout| readout.lists(over)),
        };
        let lists = lists.ok_or_else(|| Error::Internal("the data set is a single graph".to_owned()))?;
        Ok(inverse.get_or_init(|| Arc::new(inverse_degrees(lists.offsets(), false))).clone())
    }

    /// Returns the intervals of the rows of `domain`, which are vertices, rows of a readout, or atoms.
    pub(crate) fn intervals_of(&self, domain: DomainId) -> &[Interval] {
        match domain {
            Domain::READ_OUT => &self.read_out,
            Domain::ATOMS => &self.of_atoms,
            _ => &self.intervals,
        }
    }

    /// Returns the row ranges of all intervals by domain, given those of the vertices.
    pub(crate) fn cut(&self, vertices: &[Interval]) -> Vec<Vec<Range<usize>>> {
        let rows = |intervals: &[Interval]| intervals.iter().map(|interval| interval.rows.clone()).collect();
        vec![rows(vertices), rows(&self.read_out), rows(&self.of_atoms)]
    }

    /// Returns the labels that the model learns, and the split into training, validation and test
    /// rows. Both refer to rows of graphs or labelled edges, or else to rows of vertices.
    pub(crate) fn learnt(&self) -> (&Labels, &Split) {
        match &self.of_read_out {
            Some((labels, split)) => (labels, split),
            None => (&self.dataset.labels, &self.dataset.split),
        }
    }

    /// Returns the adjacency lists of `relation`, which gathers sum over.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the data set has no such lists.
    pub(crate) fn lists(&self, relation: Relation) -> Result<Lists> {
        let data = (self.dataset.clone(), self.readout.clone());
        let lists = Lists::new(relation, data, self.edges.clone(), self.labelled.clone());
        lists.ok_or_else(|| Error::Internal(format!("the data set has no adjacency lists of {relation:?}")))
    }

    /// Checks that a model has a readout of graphs for a data set of many graphs, one of edges for
    /// labelled edges, and none for labels of vertices.
    ///
    /// # Errors
    /// Returns [`Error::Readout`] if the model and the data set do not fit each other.
    pub(crate) fn check_readout(&self, model: &Model) -> Result<()> {
        let needed = self.readout.as_ref().map(|readout| readout.is_of_edges());
        if needed == model.readout().map(Readouts::is_of_edges) {
            return Ok(());
        }
        let rows = self.readout.as_ref().map(|of| (of.standing.len(), of.is_of_edges()));
        Err(Error::Readout { dataset: self.dataset.name.clone(), rows })
    }

    /// Sets the readout of a model with a number of layers, if it is not set. It suits the rows with
    /// labels, and reads their features if they are edges with features.
    pub(crate) fn complete_settings(&self, settings: &mut ModelSettings) {
        let Some(readout) = self.readout.as_ref().filter(|_| matches!(settings.layers, Layers::Count(_)))
        else {
            return;
        };
        let (is_of_edges, has_features) = (readout.is_of_edges(), self.schema.edge_features.count.is_some());
        let default = if is_of_edges { Readouts::Ends } else { Readouts::Mean };
        let readout = *settings.own.readout.get_or_insert(default);
        if readout == Readouts::Ends && has_features {
            settings.own.edge_features.get_or_insert(true);
        }
    }

    /// Checks that the graph has edges if the program gathers from neighbours. The setting
    /// `data.without_edges` disables this check.
    ///
    /// # Errors
    /// Returns [`Error::NoGraph`] if the program gathers from neighbours and the data set has no
    /// edges.
    pub(crate) fn check_neighbours(&self, config: &Config, program: &Program) -> Result<()> {
        let follows = program.model.constant_gather().is_some()
            || program.relations.iter().any(|relation| relation.over == Over::Neighbours);
        match follows && self.edges_of_all() == 0 && !config.data.without_edges {
            true => Err(Error::NoGraph { dataset: self.dataset.name.clone(), model: program.model.name() }),
            false => Ok(()),
        }
    }

    /// Returns the number of edges of the data set, including those that other hosts store.
    pub(crate) fn edges_of_all(&self) -> u64 {
        self.host.as_ref().map_or(self.dataset.edges(), |host| host.edges.0)
    }

    /// Returns the number of vertices of the data set, including those that other hosts store.
    pub(crate) fn rows_of_all(&self) -> u32 {
        self.host.as_ref().and_then(|host| host.starts.last().copied()).unwrap_or(self.shape.rows)
    }

    /// Returns the rows whose steps run at this host. Returns `None` in a run on one host.
    pub(crate) fn own_rows(&self) -> Option<Range<usize>> {
        let host = self.host.as_ref()?;
        let run = host.cut.of(host.me);
        let bound = |interval: u32| self.intervals.get(interval as usize).map(|of| of.rows.clone());
        Some(bound(run.start)?.start..bound(run.end.checked_sub(1)?)?.end)
    }

    /// Returns true if this host has read only its own rows.
    pub(crate) fn reads_own(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.reads_own)
    }

    /// Returns the row of the first stored row of features, once the inputs are complete.
    pub(crate) fn first_feature(&self) -> usize {
        self.own_rows().map_or(0, |own| own.start)
    }

    /// Returns the share of the rows whose steps run at this host, from 0 to 1.
    pub(crate) fn own_share(&self) -> f64 {
        let own = self.own_rows().map(|own| own.len() as f64);
        own.map_or(1.0, |own| own / f64::from(self.rows_of_all().max(1)))
    }

    /// Returns the number of edges to labelled training vertices, and that of all edges.
    pub(crate) fn labelled_edges(&self) -> (u64, u64) {
        let (graph, train) = (&self.dataset.graph, &self.dataset.split.train);
        let labelled = || (train.iter().map(|&row| u64::from(graph.in_degree(row))).sum(), graph.edges());
        self.host.as_ref().map_or_else(labelled, |host| (host.edges.1, host.edges.0))
    }

    /// Sets the inverse in-degree of each vertex, which otherwise follows from the lists.
    pub(crate) fn set_inverse(&mut self, inverse: Arc<Vec<f32>>) {
        self.inverse = OnceLock::from(inverse);
    }

    /// Returns the vertex number in the data set of each row, if other hosts store some of the rows.
    pub(crate) fn numbers(&self) -> Option<Arc<[u32]>> {
        self.host.as_ref().and_then(|host| host.numbers.clone())
    }

    /// Returns the first atom and the first row of each interval, followed by their numbers.
    pub(crate) fn starts(&self) -> Vec<[u32; 2]> {
        let tree = self.atoms.tree();
        let atom = |of: &Interval| of.nodes.first().map_or(tree.atoms(), |node| tree.span(*node).start);
        let starts = self.intervals.iter().map(|of| [atom(of), of.rows.start as u32]);
        starts.chain([[tree.atoms(), self.shape.rows]]).collect()
    }

    /// Returns the sizes of the data set, from which the program builder estimates the benefit of
    /// its rewrites. `gather` is the first layer's gather of features, if it has one.
    pub(crate) fn workload(&self, gather: Option<FeatureGather>) -> Workload {
        let whole = self.host.as_ref().and_then(|host| host.whole.as_ref());
        let graph = whole.map_or(&self.dataset.graph, |whole| &whole.graph);
        let (rows, edges) = (u64::from(self.rows_of_all()), self.edges_of_all());
        let (stored, stored_gathered) = match (&self.features, gather) {
            (Matrix::Dense(_), _) => (rows * u64::from(self.shape.features), None),
            (Matrix::Sparse(sparse), gather) => {
                let gathered = gather.map(|gather| stored_at_most(graph, &sparse.data, gather));
                (sparse.data.stored() as u64, gathered)
            }
        };
        Workload { rows, edges, stored, stored_gathered: stored_gathered.unwrap_or(stored) }
    }

    /// Adds the inputs that depend on the program: adjacency lists without edges that cannot affect
    /// the loss, and features that are gathered once before training.
    ///
    /// # Errors
    /// Returns the errors of [`gather_features`] if the sums cannot be computed or stored.
    pub(crate) fn complete(mut self, program: &Program, threads: u32) -> Result<Self> {
        if let Some(gather) = program.model.constant_gather().filter(|_| program.rewrites.gathered_features) {
            self.gather_features(gather, threads)?;
        }
        let local = self.own_rows();
        if let Some((host, local)) = self.host.as_mut().zip(local) {
            // Steps of this host read only features of its own rows.
            let own = if host.reads_own || host.whole.is_none() { local } else { host.own() };
            let stays = !program.rewrites.gathered_features || self.gathered.is_some();
            if stays && self.features.rows() != own.len() {
                self.features = crate::hosts::copied(&self.features, own)?;
            }
            host.whole = None;
        }
        Ok(self.with_labelled_lists(program))
    }

    /// Adds the adjacency lists without edges that cannot affect the loss, if `program` reads them.
    pub(crate) fn with_labelled_lists(mut self, program: &Program) -> Self {
        if program.relations.iter().any(|relation| relation.reached) {
            let (dataset, weights) = (&self.dataset, self.edges.weights.as_ref());
            let stored = self.host.as_ref().map(|host| host.stored(&dataset.split.train));
            let train = stored.as_ref().unwrap_or(&dataset.split.train);
            let lists = LabelledLists::new(&dataset.graph, train, weights);
            self.labelled = Some(Arc::new(lists));
        }
        self
    }

    /// Sums the features over neighbours once, so that epochs do not repeat this work. The original
    /// features are released if the model does not read them.
    ///
    /// # Errors
    /// Returns the errors of [`gather_features`] if the sums cannot be computed or stored.
    fn gather_features(&mut self, gather: FeatureGather, threads: u32) -> Result<()> {
        let whole = self.host.as_ref().and_then(|host| host.whole.as_ref());
        let (graph, edges, scale) = match whole {
            Some(whole) => (&whole.graph, &whole.edges, &whole.scale),
            None => (&self.dataset.graph, &self.edges, &self.scale),
        };
        let weights = edges.weights.as_ref().map(|weights| &weights.along(false)[..]);
        let rows = |run: Range<u32>| run.start as usize..run.end as usize;
        let ranges: Vec<Range<usize>> = match &self.host {
            None => (0..self.atoms.count()).map(|atom| rows(self.atoms.row_range(atom..atom + 1))).collect(),
            Some(host) if host.reads_own => {
                self.intervals[rows(host.cut.of(host.me))].iter().map(|of| of.rows.clone()).collect()
            }
            Some(host) => {
                let of = &host.starts[rows(host.cut.of(host.me))];
                let ends = of.iter().skip(1).copied().chain([host.own().end as u32]);
                of.iter().zip(ends).map(|(&start, end)| rows(start..end)).collect()
            }
        };
        let of = |sums: Sums<'_>, features: &Matrix| {
            gather_features(graph, weights, sums, features, (&ranges, threads))
        };
        match gather {
            FeatureGather::Hops(hops) => {
                for _ in 0..hops {
                    self.features = of(Sums::Symmetric(scale), &self.features)?;
                }
            }
            FeatureGather::WithOwn(factor) => {
                self.features = of(Sums::WithOwn(factor as f32), &self.features)?
            }
            FeatureGather::Beside => {
                let inverse = match whole {
                    Some(whole) => Arc::new(inverse_degrees(whole.graph.offsets(), false)),
                    None => self.factors(Normalisation::Mean, Over::Neighbours)?,
                };
                self.gathered = Some(of(Sums::Mean(&inverse), &self.features)?);
            }
        }
        Ok(())
    }

    /// Returns the share of feature values that are stored, from 0 to 1. It is below 1 for sparse
    /// features only.
    pub(crate) fn stored(&self) -> f64 {
        let values = f64::from(self.shape.rows) * f64::from(self.shape.features);
        match &self.features {
            Matrix::Sparse(sparse) => (sparse.data.stored() as f64 / values).clamp(f64::MIN_POSITIVE, 1.0),
            _ => 1.0,
        }
    }

    /// Returns all rows of a constant slot, such as the features. Returns `None` for a slot that
    /// stages write, and for gathered features that are not computed yet.
    pub(crate) fn constant(&self, program: &Program, slot: SlotId) -> Option<&Matrix> {
        match slot {
            _ if slot == program.features => Some(&self.features),
            _ if Some(slot) == program.gathered => self.gathered.as_ref(),
            _ if Some(slot) == program.edge_rows => self.edge_rows.as_ref(),
            _ => None,
        }
    }
}

/// Converts features to a matrix that tasks can read.
fn features_of(features: Features) -> Result<Matrix> {
    Ok(match features {
        Features::Dense(dense) => {
            Matrix::from(dense.buffer().read(0..dense.buffer().rows()).map_err(at("features"))?)
        }
        Features::Sparse(s) => {
            let sparse =
                SparseRows::new(s.columns, s.offsets, s.indices, s.values).map_err(at("features"))?;
            Matrix::from(Arc::new(sparse))
        }
    })
}

/// Copies values into a dense matrix, which tasks can read.
pub(crate) fn matrix(values: &Values) -> Result<Matrix> {
    let (rows, columns) = (values.rows(), values.columns() as usize);
    let all = Buffer::from_rows(rows, columns, values.as_slice()).map_err(at("labels"))?;
    Ok(Matrix::from(all.read(0..rows).map_err(at("labels"))?))
}

/// Returns the loss targets of a range of rows. `values` is the label matrix for labels that are
/// values instead of classes.
fn targets(labels: &Labels, values: Option<&Matrix>, rows: Range<usize>) -> Result<Targets> {
    match (labels.as_classes(), values) {
        (Some(classes), _) => Ok(Targets::Classes(classes[rows].into())),
        (None, Some(all)) => {
            Ok(Targets::Values(all.slice_rows(rows.start, rows.len()).map_err(at("labels"))?))
        }
        (None, None) => Err(Error::Internal("the labels are neither classes nor values".to_owned())),
    }
}

/// Returns the number of known labels of `vertices`. For tasks with several values per vertex, it
/// is the number of known values.
pub(crate) fn known(labels: &Labels, vertices: &[u32]) -> u64 {
    match labels.as_values() {
        None => vertices.len() as u64,
        Some(values) => {
            let of = |&v: &u32| values.row(v as usize).iter().filter(|value| !value.is_nan()).count() as u64;
            vertices.iter().map(of).sum()
        }
    }
}

/// Builds one interval with its summation grid, its loss targets and its training rows.
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

/// Returns the labels and the split of the graphs in a data set of many graphs. `standing` has the
/// vertex that represents each graph, in ascending order.
fn graph_labels(dataset: &Dataset, standing: &[u32]) -> (Labels, Split) {
    let number = |vertex: &u32| standing.binary_search(vertex).ok().map(|number| number as u32);
    let part = |vertices: &[u32]| vertices.iter().filter_map(number).collect();
    let Split { train, validation, test } = &dataset.split;
    let split = Split { train: part(train), validation: part(validation), test: part(test) };
    (dataset.labels.reordered(standing), split)
}

/// Returns one interval of rows of graphs or labelled edges for each interval of vertex rows. It has
/// the rows whose standing vertices are in the vertex interval. Both use the same summation tree for
/// gradients.
fn read_out_intervals(
    intervals: &[Interval],
    (labels, split): &(Labels, Split),
    readout: &Readout,
    vertices: &Vertices,
) -> Result<Vec<Interval>> {
    let standing = &readout.standing;
    let mut in_training = vec![false; standing.len()];
    split.train.iter().for_each(|&row| in_training[row as usize] = true);
    // The keys of random numbers contain these numbers.
    let number_of = |row: usize| match readout.is_of_edges() {
        true => vertices.edges()[row],
        false => vertices.number(standing[row]),
    };
    let values = labels.as_values().map(matrix).transpose()?;
    let before = |row: usize| standing.partition_point(|&vertex| (vertex as usize) < row);
    let one = |of: &Interval| {
        let rows = before(of.rows.start)..before(of.rows.end);
        let number = |local: u32| (before(of.rows.start + local as usize) - rows.start) as u32;
        let atom = |atom: &Atom| Atom { rows: number(atom.rows.start)..number(atom.rows.end), ..*atom };
        let part = |part: &Part| Part { level: part.level, atoms: part.atoms.iter().map(atom).collect() };
        let training = (0..).zip(rows.clone()).filter(|(_, row)| in_training[*row]).map(|(local, _)| local);
        Ok(Interval {
            numbers: RowNumbers::List(rows.clone().map(|row| u64::from(number_of(row))).collect()),
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

/// Returns the summation grid of an interval that starts at `first_row`. `nodes` are the nodes of
/// the summation tree that the interval computes.
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
