//! A micro-batch, which consists of rows of the data set and of adjacency lists among these rows.

use std::sync::Arc;

use eciton_graph::adjacency::Graph;
use eciton_program::Program;
use eciton_tensor::Matrix;
use eciton_types::SlotId;

use crate::data::Interval;
use crate::edge_data::{EdgeData, EdgeWeights};

/// A micro-batch (part of a batch) in the form that stages read. Its rows are numbered from 0.
#[derive(Debug)]
pub(crate) struct Part {
    /// Levels of the micro-batch by number of hops. Level h has the rows that stages compute if h
    /// gathers follow between them and the loss. The last level also serves all larger numbers of
    /// hops.
    pub levels: Vec<Level>,
    /// Vertex number in the data set of each row.
    pub vertices: Arc<[u32]>,
    /// Number of training rows of the micro-batch. Multi-label and regression tasks count known
    /// values instead. With class weights, it is the sum of the class weights of the training rows.
    pub counted: f64,
    /// Total loss weight of the training rows, including the weights that correct for sampling.
    pub weights: f64,
    features: Matrix,
    gathered: Option<Matrix>,
}

/// A level of a micro-batch: the rows within some number of hops of the training rows, and the
/// adjacency lists of the gathers that compute these rows.
#[derive(Debug)]
pub(crate) struct Level {
    pub interval: Interval,
    pub lists: Arc<PartLists>,
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
    /// Creates a micro-batch. `counted` and `weights` are the values of the fields with these
    /// names.
    pub(super) fn new(
        levels: Vec<Level>,
        vertices: Vec<u32>,
        (counted, weights): (f64, f64),
        (features, gathered): (Matrix, Option<Matrix>),
    ) -> Self {
        Self { levels, vertices: vertices.into(), counted, weights, features, gathered }
    }

    /// Returns the level of the rows that are at most `hops` gathers away from the loss.
    pub(crate) fn level(&self, hops: usize) -> Option<&Level> {
        self.levels.get(hops).or_else(|| self.levels.last())
    }

    /// Returns the number of rows that are at most `hops` gathers away from the loss.
    pub(crate) fn rows(&self, hops: usize) -> usize {
        self.level(hops).map_or(0, |level| level.interval.rows.len())
    }

    /// Returns the rows of a constant slot, such as the features. Returns `None` for a slot that
    /// stages write.
    pub(crate) fn constant(&self, program: &Program, slot: SlotId) -> Option<&Matrix> {
        match slot {
            _ if slot == program.features => Some(&self.features),
            _ if Some(slot) == program.gathered => self.gathered.as_ref(),
            _ => None,
        }
    }
}
