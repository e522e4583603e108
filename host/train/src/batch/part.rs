//! A micro-batch: a part of a batch, with rows of the data set and adjacency lists among these
//! rows.

use std::sync::Arc;

use eciton_graph::adjacency::Graph;
use eciton_program::Program;
use eciton_tensor::Matrix;
use eciton_types::SlotId;

use crate::data::Interval;
use crate::edge_data::{EdgeData, EdgeWeights};

/// Micro-batch (`Part` of a batch) in the form that stages read. Its rows are numbered from 0.
#[derive(Debug)]
pub(crate) struct Part {
    /// Levels of rows. Level h has the rows that stages with h gathers between them and the loss
    /// compute. The last level also serves all larger numbers.
    pub levels: Vec<Level>,
    /// Vertex of each row, as a vertex number of the data set.
    pub vertices: Arc<[u32]>,
    /// Number of training rows, or of their known values in multi-label and regression tasks. With
    /// class weights, the sum of the class weights of the training rows.
    pub counted: f64,
    /// Sum of the weights of the training rows in the loss, including the weights from the sampler.
    pub weights: f64,
    features: Matrix,
    gathered: Option<Matrix>,
}

/// Level of a micro-batch: the rows within a number of hops of the training rows, and the adjacency
/// lists of the gathers that compute them.
#[derive(Debug)]
pub(crate) struct Level {
    pub interval: Interval,
    pub lists: Arc<PartLists>,
}

/// Adjacency lists among the rows of a micro-batch, with the factors of normalisations.
#[derive(Debug)]
pub(crate) struct PartLists {
    pub graph: Arc<Graph>,
    /// Factor of each row in the symmetric normalisation of sums over neighbours.
    pub scale: Arc<Vec<f32>>,
    /// 1 / in-degree of each row, the factor of means over neighbours.
    pub inverse: Arc<Vec<f32>>,
    pub edges: Arc<EdgeData>,
    /// Edge weights in a mean over neighbours. `None` if all edges of a mean have weight 1.
    pub of_means: Option<EdgeWeights>,
}

impl PartLists {
    /// Returns the edge weights of a sum or a mean, in the order of the in-lists or of the
    /// out-lists.
    pub(crate) fn weights(&self, of_means: bool, outgoing: bool) -> Option<&Arc<Vec<f32>>> {
        let weights = if of_means { self.of_means.as_ref() } else { self.edges.weights.as_ref() };
        weights.map(|weights| weights.along(outgoing))
    }
}

impl Part {
    /// Creates a micro-batch from its levels, its vertices, its counts and its features.
    pub(super) fn new(
        levels: Vec<Level>,
        vertices: Vec<u32>,
        (counted, weights): (f64, f64),
        (features, gathered): (Matrix, Option<Matrix>),
    ) -> Self {
        Self { levels, vertices: vertices.into(), counted, weights, features, gathered }
    }

    /// Returns the level of rows within `hops` gathers of the loss.
    pub(crate) fn level(&self, hops: usize) -> Option<&Level> {
        self.levels.get(hops).or_else(|| self.levels.last())
    }

    /// Returns the number of rows within `hops` gathers of the loss.
    pub(crate) fn rows(&self, hops: usize) -> usize {
        self.level(hops).map_or(0, |level| level.interval.rows.len())
    }

    /// Returns the rows of a slot of constants, such as the features. Returns `None` for a slot
    /// that stages write.
    pub(crate) fn constant(&self, program: &Program, slot: SlotId) -> Option<&Matrix> {
        match slot {
            _ if slot == program.features => Some(&self.features),
            _ if Some(slot) == program.gathered => self.gathered.as_ref(),
            _ => None,
        }
    }
}
