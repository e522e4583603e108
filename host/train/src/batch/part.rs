//! A micro-batch, which consists of rows of the data set and of adjacency lists among these rows.

use std::sync::Arc;

use eciton_graph::adjacency::Graph;
use eciton_graph::links::{Negatives, Pair};
use eciton_program::{Domain, Program};
use eciton_tensor::Matrix;
use eciton_types::{DomainId, SlotId};

use crate::data::Interval;
use crate::edge_data::{EdgeData, EdgeWeights};
use crate::relation::Readout;

/// A micro-batch (part of a batch) in the form that stages read. Its rows are numbered from 0.
#[derive(Debug)]
pub(crate) struct Part {
    /// Levels of the micro-batch by number of hops. Level h has the rows that stages compute if h
    /// gathers follow between them and the loss. The last level also serves all larger numbers of
    /// hops.
    pub levels: Vec<Level>,
    /// Vertex number in the data set of each row.
    pub vertices: Arc<[u32]>,
    /// Graphs or labelled edges of the micro-batch. `None` if the model learns labels of vertices.
    pub read_out: Option<PartReadOut>,
    /// Pairs of rows in the loss of link prediction. `None` for other tasks.
    pub pairs: Option<PartPairs>,
    /// Total loss weight of the training rows, from class weights and from the weights that correct for
    /// sampling. Multi-label and regression tasks count each known value of a row.
    pub weights: f64,
    features: Matrix,
    gathered: Option<Matrix>,
}

/// A level of a micro-batch: the rows within some number of hops of the training rows, and the
/// adjacency lists of the gathers that compute these rows.
#[derive(Debug)]
pub(crate) struct Level {
    pub interval: Interval,
    /// Atoms (blocks of consecutive rows) of the interval, or of the readout if these are more.
    pub atoms: Interval,
    pub lists: Arc<PartLists>,
}

/// Graphs or labelled edges of a micro-batch. Each has a row of its own.
#[derive(Debug)]
pub(crate) struct PartReadOut {
    pub interval: Interval,
    /// Lists of the vertices of each graph or edge, in the rows of the micro-batch.
    pub readout: Arc<Readout>,
    /// Features of the edges, if the model reads them.
    pub rows: Option<Matrix>,
    /// Factor of each graph in means over its vertices, which is 1 / number of vertices. Empty for
    /// edges.
    pub inverse: Arc<Vec<f32>>,
}

/// Pairs of rows in the loss of a micro-batch, for link prediction.
#[derive(Debug)]
pub(crate) struct PartPairs {
    /// Graph whose links are the training links of the micro-batch.
    pub links: Graph,
    /// Pairs without a link.
    pub negatives: Negatives,
}

impl PartPairs {
    /// Returns the links and the negative pairs, each once.
    pub(crate) fn listed(&self) -> [Vec<Pair>; 2] {
        let rows = 0..self.links.vertices();
        let links = rows.clone().flat_map(|a| self.links.in_neighbours(a).iter().map(move |&b| (a, b)));
        let negatives = rows.flat_map(|a| self.negatives.partners(a).iter().map(move |&b| (a, b)));
        [links.filter(|(a, b)| a < b).collect(), negatives.filter(|(a, b)| a < b).collect()]
    }
}

/// Rows of a micro-batch whose losses are not those of training vertices.
#[derive(Debug)]
pub(super) enum Learnt {
    ReadOut(PartReadOut),
    Pairs(PartPairs),
}

/// Adjacency lists among the rows of a micro-batch, with the normalisation factors of their sums.
#[derive(Debug)]
pub(crate) struct PartLists {
    pub graph: Arc<Graph>,
    /// Factor of each row in symmetric normalisation, by which sums over neighbours are scaled
    /// before and after the sum.
    pub scale: Arc<Vec<f32>>,
    /// Factor of each row in means over neighbours, which is 1 / in-degree.
    pub inverse: Arc<Vec<f32>>,
    pub edges: Arc<EdgeData>,
    /// Edge weights for means over neighbours. `None` if all edges have weight 1 in a mean.
    pub of_means: Option<EdgeWeights>,
}

impl PartLists {
    /// Returns the edge weights for means if `of_means` is true, or else for sums. They are in the
    /// order of the out-lists if `outgoing` is true, or else of the in-lists.
    pub(crate) fn weights(&self, of_means: bool, outgoing: bool) -> Option<&Arc<Vec<f32>>> {
        let weights = if of_means { self.of_means.as_ref() } else { self.edges.weights.as_ref() };
        weights.map(|weights| weights.along(outgoing))
    }
}

impl Part {
    /// Creates a micro-batch. `weights` is the value of the field of that name. `learnt` is `None` if the
    /// model learns labels of vertices.
    pub(super) fn new(
        levels: Vec<Level>,
        (vertices, learnt): (Vec<u32>, Option<Learnt>),
        weights: f64,
        (features, gathered): (Matrix, Option<Matrix>),
    ) -> Self {
        let (read_out, pairs) = match learnt {
            Some(Learnt::ReadOut(read_out)) => (Some(read_out), None),
            Some(Learnt::Pairs(pairs)) => (None, Some(pairs)),
            None => (None, None),
        };
        Self { levels, vertices: vertices.into(), read_out, pairs, weights, features, gathered }
    }

    /// Returns the level of the rows that are at most `hops` gathers away from the loss.
    pub(crate) fn level(&self, hops: usize) -> Option<&Level> {
        self.levels.get(hops).or_else(|| self.levels.last())
    }

    /// Returns the rows of a domain (vertices, rows of a readout, or atoms) that are at most `hops`
    /// gathers away from the loss.
    pub(crate) fn interval(&self, domain: DomainId, hops: usize) -> Option<&Interval> {
        match domain {
            Domain::READ_OUT => self.read_out.as_ref().map(|read_out| &read_out.interval),
            Domain::ATOMS => self.level(hops).map(|level| &level.atoms),
            _ => self.level(hops).map(|level| &level.interval),
        }
    }

    /// Returns the number of rows of a domain that are at most `hops` gathers away from the loss.
    pub(crate) fn rows(&self, domain: DomainId, hops: usize) -> usize {
        self.interval(domain, hops).map_or(0, |interval| interval.rows.len())
    }

    /// Returns the rows of a constant slot, such as the features. Returns `None` for a slot that
    /// stages write.
    pub(crate) fn constant(&self, program: &Program, slot: SlotId) -> Option<&Matrix> {
        match slot {
            _ if slot == program.features => Some(&self.features),
            _ if Some(slot) == program.gathered => self.gathered.as_ref(),
            _ if Some(slot) == program.edge_rows => self.read_out.as_ref()?.rows.as_ref(),
            _ => None,
        }
    }
}
