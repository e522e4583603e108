//! The source of micro-batches, which makes each of them from the data set and the chosen rows.

mod learnt;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use eciton_gather::{inverse_degrees, symmetric_scale};
use eciton_graph::adjacency::Adjacency;
use eciton_graph::dataset::{Dataset, Labels};
use eciton_graph::part::PartGraph;
use eciton_graph::sample::normalise::Counts;
use eciton_graph::sample::{Room, SampleKey, Sampler, Subgraph};
use eciton_kernel::{RowNumbers, Targets};
use eciton_recipe::{Batch as Settings, Sampler as Drawn};
use eciton_runs::report::{Batches, Counted};
use eciton_tensor::{Buffer, Grid, Matrix};
use eciton_types::{Atoms, IntervalId, Node, Round};

pub(super) use self::learnt::ends_of;
use super::chooser::Chooser;
use super::part::{Learnt, Level, Part, PartLists};
use super::round_rows::RoundRows;
use super::rows::{RowBatches, RowCut};
use crate::data::{Inputs, Interval, grid, known, matrix};
use crate::edge_data::{EdgeData, EdgeWeights};
use crate::error::{Error, Result, at};
use crate::held_out_links::PredictedLinks;
use crate::relation::Readout;

/// Source of micro-batches. It has the immutable data and settings from which compute threads make
/// them.
#[derive(Debug)]
pub(crate) struct Source {
    pub settings: Settings,
    dataset: Arc<Dataset>,
    features: Matrix,
    /// True if micro-batches have the features of their rows, which only a training reads.
    has_features: bool,
    gathered: Option<Matrix>,
    edges: Arc<EdgeData>,
    /// Weight of each training row (or known value) in a loss over all training rows.
    weight: f32,
    class_weights: Option<Arc<[f32]>>,
    /// Factor of each row in symmetric normalisation, computed from the degrees in the whole graph.
    scale: Arc<Vec<f32>>,
    /// Vertex number of each row in the data set. If `None`, row v is vertex v.
    vertices: Option<Arc<[u32]>>,
    /// Labels that the model learns if they are values, of vertices, graphs or edges.
    values: Option<Matrix>,
    /// Labels of graphs or labelled edges, and lists of their vertices. `None` if the model learns the
    /// labels of vertices.
    read_out: Option<(Labels, Arc<Readout>)>,
    /// Number in the data set of each labelled edge. Otherwise empty.
    edge_numbers: Vec<u32>,
    /// Features of labelled edges, if the model reads them.
    edge_rows: Option<Matrix>,
    /// Links that the model learns to predict. `None` for other tasks.
    links: Option<Arc<PredictedLinks>>,
    in_training: Vec<bool>,
    chooser: Chooser,
    /// Counts of how often each row and edge occurred in trial samples, from which unbiased weights
    /// are computed. `None` if the method needs no such weights.
    counts: Option<Counts>,
    /// Time in which the samples were counted, in seconds.
    counting_seconds: f64,
    /// Division of the training rows into batches. Samplers start from the training rows of a
    /// batch.
    batches: RowBatches,
    /// Maximum number of rows per micro-batch.
    capacity: usize,
    /// Buffers for the features of micro-batches. A micro-batch leases a buffer, which is reused
    /// after its release.
    buffers: Mutex<Vec<Buffer>>,
}

impl Source {
    /// Creates the source of the micro-batches of `inputs`. If `chooser` needs sampling counts,
    /// subgraphs are sampled on `threads` threads until each row and edge has occurred often enough.
    ///
    /// # Errors
    /// Returns [`Error::Tensor`] if a second copy of the labels does not fit in memory.
    pub(crate) fn new(
        settings: &Settings,
        inputs: &Inputs,
        (chooser, threads): (Chooser, u32),
    ) -> Result<Self> {
        let dataset = inputs.dataset.clone();
        let mut in_training = vec![false; dataset.vertices() as usize];
        dataset.split.train.iter().for_each(|&row| in_training[row as usize] = true);
        let read_out = inputs.of_read_out.as_ref().zip(inputs.readout.as_ref());
        let read_out = read_out.map(|((labels, _), readout)| (labels.clone(), readout.clone()));
        let values = inputs.learnt().0.as_values().map(matrix).transpose()?;
        let begun = Instant::now();
        let counts = match &chooser {
            Chooser::Sampler(sampler) if chooser.weighs_rows(settings, inputs) => {
                let enough = (settings.coverage, dataset.vertices(), MOST_COUNTED);
                Some(Counts::from_sampler(sampler, &dataset.graph, DATA_SEED, enough, threads as usize))
            }
            _ => None,
        };
        let counting_seconds = begun.elapsed().as_secs_f64();
        Ok(Self {
            settings: settings.clone(),
            features: inputs.features.clone(),
            has_features: true,
            gathered: inputs.gathered.clone(),
            edges: inputs.edges.clone(),
            weight: inputs.weight,
            class_weights: inputs.class_weights.clone(),
            scale: inputs.scale.clone(),
            vertices: inputs.vertices.permutation().map(|order| order.old_of_new().into()),
            values,
            read_out,
            edge_numbers: inputs.vertices.edges().to_vec(),
            edge_rows: inputs.edge_rows.clone(),
            links: inputs.links.clone(),
            in_training,
            capacity: chooser.capacity(settings, inputs).0 as usize,
            batches: RowBatches::new(settings, inputs),
            buffers: Mutex::default(),
            chooser,
            counts,
            counting_seconds,
            dataset,
        })
    }

    /// Creates the source of the micro-batches of an evaluation. `sampler` draws the neighbourhoods of
    /// `targets`, in their order.
    ///
    /// # Errors
    /// Returns the errors of [`Source::new`].
    pub(crate) fn for_evaluation(
        settings: &Settings,
        inputs: &Inputs,
        (sampler, targets): (Sampler, Vec<u32>),
    ) -> Result<Self> {
        let batches = RowBatches::in_order(settings, targets);
        let chooser = match inputs.readout {
            None => Chooser::Sampler(sampler),
            Some(_) => Chooser::Ends(Some(sampler)),
        };
        Ok(Self { batches, ..Self::new(settings, inputs, (chooser, 1))? })
    }

    /// Changes the source so that micro-batches have no features.
    pub(crate) fn without_features(self) -> Self {
        Self { has_features: false, ..self }
    }

    /// Returns the number of rounds in a pass over the rows of the batches.
    pub(crate) fn rounds(&self) -> u32 {
        self.batches.count()
    }

    /// Returns the rows with which micro-batch `number` of a round begins.
    pub(crate) fn targets_of(&self, seed: u64, round: Round, number: IntervalId) -> Vec<u32> {
        self.batches.targets(seed, round, number)
    }

    /// Returns the facts about the micro-batches. The arguments are the numbers of updates per epoch,
    /// of micro-batches per update, and of hops from which the model reads neighbours.
    pub(crate) fn facts(&self, (updates, micro, hops): (u32, u32, u32)) -> Batches {
        let seconds = self.counting_seconds;
        let counted = self.counts.as_ref().map(|counts| Counted {
            samples: counts.subgraphs,
            seconds,
            effective_rows: counts.effective_rows(&self.dataset.split.train),
        });
        let (sampler, rows) = (self.settings.sampler.name().to_owned(), self.capacity as u32);
        Batches { sampler, updates, micro, rows, hops, counted }
    }

    /// Returns the number of rows in a pass over the training rows.
    pub(crate) fn training(&self) -> u32 {
        self.batches.rows()
    }

    /// Returns the time in which samples were counted before the training, in seconds.
    pub(crate) fn counting_seconds(&self) -> f64 {
        self.counting_seconds
    }

    /// Returns a warning if the losses of micro-batches vary so much that the accuracy may differ
    /// between seeds.
    pub(crate) fn warning(&self) -> Option<String> {
        let (sampler, training) = (self.settings.sampler, self.roots());
        if let Some(counts) = &self.counts {
            let rows = counts.effective_rows(&self.dataset.split.train);
            return (rows < FEW_ROWS).then(|| {
                format!(
                    "the losses of micro-batches vary by {:.0} %, because they have few training rows, or \
                     rare ones with large weights; set a larger batch.rows, or batch.normalise = \"none\"",
                    100.0 / rows.sqrt()
                )
            });
        }
        // Walks and frontiers begin at training rows.
        let begins_anywhere = matches!(sampler, Drawn::Vertex | Drawn::Edge);
        let rows = self.settings.training_rows(self.dataset.vertices(), training);
        (begins_anywhere && rows < FEW_ROWS).then(|| {
            format!(
                "a micro-batch has about {rows:.0} of the {training} training rows, so that the accuracy may \
                 differ between seeds; set batch.sampler = \"walk\", \"frontier\" or \"neighbours\", which \
                 begin at training rows, or a larger batch.rows",
            )
        })
    }

    /// Returns the division into batches of rows if micro-batches have no adjacency lists.
    /// Otherwise returns `None`.
    pub(crate) fn batches_of_rows(&self) -> Option<&RowBatches> {
        matches!(self.chooser, Chooser::Rows).then_some(&self.batches)
    }

    /// Returns the number of micro-batches per round.
    pub(crate) fn parts(&self) -> usize {
        match self.chooser {
            Chooser::Rows => self.batches.parts() as usize,
            Chooser::Graphs | Chooser::Ends(_) | Chooser::Sampler(_) | Chooser::Parts { .. } => {
                self.settings.micro as usize
            }
        }
    }

    /// Returns the weight of each training row (or known value) in the loss of a round with the
    /// micro-batches `parts`. Also returns the size of the set of rows over which this loss is a
    /// mean.
    pub(super) fn weight(&self, parts: &[Arc<Part>]) -> (f32, RoundRows) {
        let weights: f64 = parts.iter().map(|part| part.weights).sum();
        let fixed = |weight: f32| (weight, RoundRows { divisor: 1.0 / f64::from(weight), weights });
        if self.counts.is_some() {
            // With row weights, each micro-batch is an estimate of the loss of all rows.
            let of_part = f64::from(self.weight) * self.dataset.split.train.len() as f64;
            return fixed((of_part / parts.len().max(1) as f64) as f32);
        }
        if let Chooser::Parts { .. } = self.chooser {
            // The weights of a vertex add up to 1 over all parts of the cut.
            return fixed(self.weight);
        }
        let divisor = if weights > 0.0 { weights } else { 1.0 };
        ((1.0 / divisor) as f32, RoundRows { divisor, weights })
    }

    /// Makes micro-batch `number` of `round`. The result depends only on the arguments and on this
    /// source. `room` is working memory of the sampler.
    ///
    /// # Errors
    /// Returns [`Error::Tensor`] if the rows of the micro-batch do not fit in memory.
    pub(crate) fn part(
        &self,
        seed: u64,
        round: Round,
        number: IntervalId,
        room: &mut Room,
    ) -> Result<Arc<Part>> {
        // In evaluations, the sampled neighbours of a row do not depend on the division into batches.
        let key = match self.batches.is_shuffled() {
            true => SampleKey { seed, round: round.0, interval: number.0 },
            false => SampleKey { seed, round: 0, interval: 0 },
        };
        let graph = &self.dataset.graph;
        let targets = |wanted: bool| {
            if wanted { self.batches.targets(seed, round, number) } else { Vec::new() }
        };
        let sub = match &self.chooser {
            Chooser::Rows => {
                let cut = self.batches.part(seed, round, number);
                return self.made_of(&without_lists(cut.rows.clone())?, None, Some(&cut));
            }
            Chooser::Graphs => return self.part_of_graphs(&targets(true), room),
            Chooser::Ends(sampler) => {
                let (sampler, targets) = (sampler.as_ref(), targets(true));
                return match &self.links {
                    Some(links) => {
                        let epoch = self.batches.pass(round).0;
                        self.part_of_links((sampler, links), (key, epoch), &targets, room)
                    }
                    None => self.part_of_edges(sampler, key, &targets, room),
                };
            }
            Chooser::Sampler(sampler) => {
                let targets = targets(self.settings.sampler.has_targets());
                sampler.sample(graph, key, &targets, room)
            }
            Chooser::Parts { parts, made } => {
                let missing = || Error::Internal(format!("there is no micro-batch {number}"));
                let (part, made) =
                    parts.as_slice().get(number.index()).zip(made.get(number.index())).ok_or_else(missing)?;
                if part.masks() > 0 {
                    return self.made_of(&part.dropped(part.mask(key)), Some(&part.weights), None);
                }
                if let Some(made) = made.get() {
                    return Ok(made.clone());
                }
                let new = self.made_of(&part.subgraph, Some(&part.weights), None)?;
                return Ok(made.get_or_init(|| new).clone());
            }
        };
        self.made_of(&sub, None, None)
    }

    /// Makes a micro-batch from a subgraph. `shares` has the loss weight of each row for a part of
    /// a vertex cut. `cut` has the summation grid for a micro-batch without adjacency lists.
    fn made_of(&self, sub: &Subgraph, shares: Option<&[f32]>, cut: Option<&RowCut>) -> Result<Arc<Part>> {
        self.made_with(sub, (shares, cut), None)
    }

    /// Makes a micro-batch from a subgraph like [`Source::made_of`]. `learnt` has graphs, edges or pairs
    /// that all are in the loss, and their loss weight. It is `None` if the model learns labels of vertices.
    fn made_with(
        &self,
        sub: &Subgraph,
        (shares, cut): (Option<&[f32]>, Option<&RowCut>),
        learnt: Option<(Learnt, f64)>,
    ) -> Result<Arc<Part>> {
        let read = if self.has_features { &sub.ids[..] } else { &[] };
        let features = self.select(&self.features, read)?;
        let gathered = self.gathered.as_ref().map(|all| self.select(all, read)).transpose()?;
        let mut levels = Vec::with_capacity(sub.hops.len());
        let row_weights = self.row_weights(sub, shares);
        for (hop, &rows) in sub.hops.iter().enumerate() {
            let sources = sub.hops.get(hop + 1).copied().unwrap_or(rows);
            // Rows of the last hop have no adjacency lists.
            let listed = if hop > 0 && hop + 1 == sub.hops.len() { sub.hops[hop - 1] } else { rows };
            let lists = self.lists(sub, listed as usize, sources as usize)?;
            let of = (rows as usize, &row_weights, hop == 0 && learnt.is_none());
            let interval = self.interval(
                sub,
                of,
                match cut {
                    Some(cut) => (cut.grid.clone(), cut.nodes.clone()),
                    None => one_sum(lists.graph.offsets(), rows as usize)?,
                },
            )?;
            let of_read_out = match &learnt {
                Some((Learnt::ReadOut(read_out), _)) => read_out.interval.atoms().len(),
                _ => 0,
            };
            let atoms = Interval::of_atoms(0..interval.atoms().len().max(of_read_out) as u32);
            levels.push(Level { interval, atoms, lists: Arc::new(lists) });
        }
        let training = levels.first().map_or(&[][..], |level| &level.interval.training);
        let training: Vec<u32> = training.iter().map(|&row| sub.ids[row as usize]).collect();
        let counted = match (&self.class_weights, self.dataset.labels.as_classes()) {
            (Some(weights), Some(classes)) => {
                training.iter().map(|&row| f64::from(of_class(weights, classes[row as usize]))).sum()
            }
            _ => known(&self.dataset.labels, &training) as f64,
        };
        let vertices = sub.ids.iter().map(|&row| self.vertex(row)).collect();
        let (learnt, weights) = match learnt {
            Some((learnt, weights)) => (Some(learnt), weights),
            None => (None, self.loss_weights(&levels, &sub.ids, counted)),
        };
        Ok(Arc::new(Part::new(levels, (vertices, learnt), weights, (features, gathered))))
    }

    /// Returns the total loss weight of the training rows `ids` of a micro-batch. Returns `counted`
    /// if the method gives all rows the same weight.
    fn loss_weights(&self, levels: &[Level], ids: &[u32], counted: f64) -> f64 {
        let weighs = self.counts.is_some() || matches!(self.chooser, Chooser::Parts { .. });
        let interval = levels.first().map(|level| &level.interval).filter(|_| weighs);
        let Some((interval, weights)) = interval.and_then(|own| own.row_weights.as_ref().map(|w| (own, w)))
        else {
            return counted;
        };
        let of = |&row: &u32| {
            let values = known(&self.dataset.labels, &[ids[row as usize]]) as f64;
            f64::from(weights[row as usize]) * values
        };
        interval.training.iter().map(of).sum()
    }

    /// Copies the given rows of `all` into a new matrix. The matrix reuses a buffer that an earlier
    /// micro-batch has released, if there is one.
    fn select(&self, all: &Matrix, rows: &[u32]) -> Result<Matrix> {
        let Matrix::Dense(dense) = all else {
            return all.select(rows).map_err(at("features of a micro-batch"));
        };
        let columns = all.columns();
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |buffer: &&Buffer| buffer.columns() == columns && buffer.rows() >= rows.len();
        let free = buffers.iter().filter(fits).find_map(|buffer| buffer.write(0..rows.len()).ok());
        let lease = match free {
            Some(lease) => lease,
            None => {
                let most = self.capacity.max(rows.len());
                let made = Buffer::zeroed(most, columns).map_err(at("features of a micro-batch"))?;
                buffers.push(made.clone());
                made.write(0..rows.len()).map_err(at("features of a micro-batch"))?
            }
        };
        drop(buffers);
        dense.select_into(rows, lease).map_err(at("features of a micro-batch"))
    }

    /// Returns the number of training rows of the data set, from which samplers start.
    fn roots(&self) -> u32 {
        self.dataset.split.train.len() as u32
    }

    /// Returns the vertex number in the data set of `row`.
    fn vertex(&self, row: u32) -> u32 {
        let order = self.vertices.as_ref().and_then(|order| order.get(row as usize).copied());
        order.unwrap_or(row)
    }

    /// Returns the loss weight of each row of a subgraph. Returns `None` if all weights are 1.
    /// `shares` has the weights of a part of a vertex cut.
    fn row_weights(&self, sub: &Subgraph, shares: Option<&[f32]>) -> Option<Arc<[f32]>> {
        let sampled = match (&self.counts, shares) {
            (_, Some(shares)) => Some(shares.to_vec()),
            (Some(counts), None) => Some(counts.loss_weights(sub, self.roots())),
            (None, None) => None,
        };
        let (Some(weights), Some(classes)) = (&self.class_weights, self.dataset.labels.as_classes()) else {
            return sampled.map(Into::into);
        };
        let mut rows = sampled.unwrap_or_else(|| vec![1.0; sub.ids.len()]);
        for (weight, &row) in rows.iter_mut().zip(&sub.ids) {
            // A row without a label has weight 0, because no loss counts it.
            *weight *= of_class(weights, classes[row as usize]);
        }
        Some(rows.into())
    }

    /// Returns the loss targets of the given rows. `labels` are the labels that the model learns.
    fn targets(&self, labels: &Labels, rows: &[u32]) -> Result<Targets> {
        match (labels.as_classes(), &self.values) {
            (Some(classes), _) => {
                Ok(Targets::Classes(rows.iter().map(|&row| classes[row as usize]).collect()))
            }
            (None, Some(values)) => {
                Ok(Targets::Values(values.select(rows).map_err(at("labels of a micro-batch"))?))
            }
            (None, None) => Err(Error::Internal("the labels are neither classes nor values".to_owned())),
        }
    }

    /// Builds the interval of a level from the first `rows` rows of a subgraph: its summation grid,
    /// its loss targets and its training rows. Only the level next to the loss has training rows
    /// (`learns`).
    fn interval(
        &self,
        sub: &Subgraph,
        (rows, row_weights, learns): (usize, &Option<Arc<[f32]>>, bool),
        (grid, nodes): (Grid, Vec<Node>),
    ) -> Result<Interval> {
        let ids = &sub.ids[..rows];
        let training = match &sub.targets {
            _ if !learns => Vec::new(),
            Some(targets) => targets.clone(),
            None => {
                (0..).zip(ids).filter(|(_, row)| self.in_training[**row as usize]).map(|(at, _)| at).collect()
            }
        };
        let targets = match self.read_out {
            // The rows with labels are those of graphs or edges.
            Some(_) => Targets::Classes(Arc::default()),
            None => self.targets(&self.dataset.labels, ids)?,
        };
        let whole = self.vertices.is_none() && ids.iter().zip(0..).all(|(&row, at)| row == at);
        let numbers = match whole {
            true => RowNumbers::From(0),
            false => RowNumbers::List(ids.iter().map(|&row| u64::from(self.vertex(row))).collect()),
        };
        Ok(Interval {
            rows: 0..rows,
            numbers,
            grid: Arc::new(grid),
            nodes,
            targets,
            training: training.into(),
            row_weights: row_weights.as_ref().map(|weights| weights[..rows].into()),
        })
    }

    /// Returns the adjacency lists of the first `targets` rows of a subgraph. They refer to the
    /// first `rows` rows only.
    fn lists(&self, sub: &Subgraph, targets: usize, rows: usize) -> Result<PartLists> {
        let vertices = sub.incoming.vertices() as usize;
        let (targets, rows) = match rows {
            0 => (vertices.min(1), vertices.min(1)),
            rows => (targets, rows),
        };
        let PartGraph { graph, reverse } = PartGraph::of_first(&sub.incoming, targets, rows);
        let edges = &sub.edges[..graph.edges() as usize];
        let known = self.edges.features.as_ref();
        let known = known.map(|known| known.of_part(&graph, edges, reverse.clone())).transpose()?;
        let given = self.edges.weights.as_ref().map(|weights| weights.select(edges));
        let lists = graph.incoming();
        let times = |factors: Option<Vec<f32>>| match (&given, factors) {
            (None, factors) => factors,
            (Some(given), None) => Some(given.clone()),
            (Some(given), Some(factors)) => Some(given.iter().zip(factors).map(|(w, f)| w * f).collect()),
        };
        let (of_sums, of_means) = self.factors(sub, lists);
        let weighed = |column: Option<Vec<f32>>| column.map(|column| EdgeWeights::new(column, &reverse));
        let (weights, of_means) = (weighed(times(of_sums)), weighed(times(of_means)));
        let scale = match (&weights, self.is_estimate()) {
            // The scale is that of the whole graph, because the sums are estimates of sums over the
            // whole graph. A micro-batch without rows has one vertex, whose scale is 1.
            (_, true) => {
                let known = sub.ids.iter().map(|&row| self.scale[row as usize]);
                known.chain(std::iter::repeat(1.0)).take(rows).collect()
            }
            (Some(weights), false) => weights.symmetric_scale(&graph),
            (None, false) => symmetric_scale(graph.offsets()),
        };
        let inverse = Arc::new(inverse_degrees(graph.offsets(), false));
        let edges = Arc::new(EdgeData { weights, features: known });
        Ok(PartLists { graph, scale: Arc::new(scale), inverse, edges, of_means })
    }

    /// Returns true if sums over neighbours in a micro-batch are estimates of the sums in the whole
    /// graph.
    fn is_estimate(&self) -> bool {
        self.counts.is_some() || self.settings.sampler == Drawn::Neighbours
    }

    /// Returns the edge factors for sums and those for means. With the former, a sum in the
    /// micro-batch is an unbiased estimate of the sum in the whole graph. A mean divides by the
    /// length of the list in the micro-batch.
    fn factors(&self, sub: &Subgraph, lists: &Adjacency) -> (Option<Vec<f32>>, Option<Vec<f32>>) {
        let mut shares = Vec::with_capacity(lists.neighbours().len());
        if !self.is_estimate() {
            return (None, None);
        }
        if let Some(weights) = self.edges.weights.as_ref().filter(|_| self.settings.by_weight) {
            return self.factors_by_weight(sub, lists, weights);
        }
        // For each row, the ratio of its edges in the whole graph to its edges in the micro-batch.
        for (&row, ends) in sub.ids.iter().zip(lists.offsets().windows(2)) {
            let count = (ends[1] - ends[0]) as usize;
            let share = self.dataset.graph.in_degree(row) as f32 / count.max(1) as f32;
            shares.resize(shares.len() + count, share);
        }
        let Some(counts) = &self.counts else { return (Some(shares), None) };
        let of_sums = counts.edge_factors(sub);
        let of_means = of_sums.iter().zip(shares).map(|(factor, share)| factor / share).collect();
        (Some(of_sums), Some(of_means))
    }
}

impl Source {
    /// Returns the factors like [`Source::factors`] if edges are drawn in proportion to their weights.
    /// Of n edges drawn from a list with the sum W of weights, each counts W / n in a sum, whatever its
    /// own weight.
    fn factors_by_weight(
        &self,
        sub: &Subgraph,
        lists: &Adjacency,
        weights: &EdgeWeights,
    ) -> (Option<Vec<f32>>, Option<Vec<f32>>) {
        let (mut of_sums, mut of_means) = (Vec::new(), Vec::new());
        for (&row, ends) in sub.ids.iter().zip(lists.offsets().windows(2)) {
            let range = ends[0] as usize..ends[1] as usize;
            let all = weights.for_vertex(self.dataset.graph.incoming(), row, false);
            let sum: f64 = all.iter().map(|&weight| f64::from(weight)).sum();
            let positive = all.iter().filter(|&&weight| weight > 0.0).count();
            // If all edges of the list are drawn, they have their own weights.
            let is_whole = !self.settings.replace && range.len() == positive;
            for &edge in &sub.edges[range.clone()] {
                let own = f64::from(weights.along(false)[edge as usize]);
                let share = if is_whole { 1.0 } else { sum / (range.len() as f64 * own) };
                of_sums.push(share as f32);
                of_means.push((share * range.len() as f64 / all.len() as f64) as f32);
            }
        }
        (Some(of_sums), Some(of_means))
    }
}

/// Returns the weight of `class`. Returns 0 if the class has no weight.
fn of_class(weights: &[f32], class: u32) -> f32 {
    weights.get(class as usize).copied().unwrap_or(0.0)
}

/// Returns the summation grid and tree nodes of a micro-batch whose sums are its own, so that no
/// other micro-batch contributes to them.
fn one_sum(offsets: &[u64], rows: usize) -> Result<(Grid, Vec<Node>)> {
    if rows == 0 {
        return Ok((Grid::single(0), Vec::new()));
    }
    let atoms = Atoms::new(&offsets[..=rows])?;
    let nodes = vec![atoms.tree().root()];
    Ok((grid(&atoms, &nodes, 0), nodes))
}

/// Returns a subgraph that has the rows `ids` and no edges.
fn without_lists(ids: Vec<u32>) -> Result<Subgraph> {
    // No graph may be empty, so a micro-batch without rows gets one vertex that no stage reads.
    let incoming = Adjacency::from_parts(vec![0; ids.len().max(1) + 1], Vec::new())?;
    Ok(Subgraph { hops: vec![ids.len() as u32], ids, incoming, edges: Vec::new(), targets: None })
}

/// Seed of the random numbers for sampling counts and vertex cuts. It is fixed, so that each seed
/// of a run trains as in a run of that seed alone.
pub(super) const DATA_SEED: u64 = 0;

/// Number of training rows of a micro-batch below which a run warns of the sampler.
const FEW_ROWS: f64 = 100.0;

/// Maximum number of subgraphs that are sampled to count the occurrences of rows and edges.
const MOST_COUNTED: u32 = 10_000;
