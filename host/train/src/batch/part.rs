//! A micro-batch: rows of the data set with adjacency lists of their own.

use std::sync::Arc;

use eciton_graph::adjacency::Graph;
use eciton_program::Program;
use eciton_tensor::Matrix;
use eciton_types::SlotId;

use crate::data::Interval;
use crate::edge_data::{EdgeData, EdgeWeights};

/// A micro-batch as its stages read it. Its rows are numbered from 0.
#[derive(Debug)]
pub(crate) struct Part {
    /// Levels, indexed by the number of gathers between rows and the loss. The last level is used
    /// for all larger numbers.
    pub levels: Vec<Level>,
    /// Vertices of the rows, in the order of the data set.
    pub vertices: Arc<[u32]>,
    /// Number of training rows, or of their known values. With class weights, the sum of the class
    /// weights of the training rows.
    pub counted: f64,
    /// Sum of the weights of the training rows in the loss, including the weights from the sampler.
    pub weights: f64,
    features: Matrix,
    gathered: Option<Matrix>,
}

/// Rows within a number of hops, and the lists of a gather that computes them.
#[derive(Debug)]
pub(crate) struct Level {
    pub interval: Interval,
    pub lists: Arc<PartLists>,
}

/// Adjacency lists of the rows of a micro-batch.
#[derive(Debug)]
pub(crate) struct PartLists {
    pub graph: Arc<Graph>,
    /// Factor of each row in the symmetric normalisation.
    pub scale: Arc<Vec<f32>>,
    /// 1 / in-degree.
    pub inverse: Arc<Vec<f32>>,
    pub edges: Arc<EdgeData>,
    /// Edge weights in a mean. `None` if all edges of a mean have weight 1.
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
    pub(super) fn new(
        levels: Vec<Level>,
        vertices: Vec<u32>,
        (counted, weights): (f64, f64),
        (features, gathered): (Matrix, Option<Matrix>),
    ) -> Self {
        Self { levels, vertices: vertices.into(), counted, weights, features, gathered }
    }

    /// Returns the rows within a number of hops.
    pub(crate) fn level(&self, hops: usize) -> Option<&Level> {
        self.levels.get(hops).or_else(|| self.levels.last())
    }

    /// Returns the number of rows within a number of hops.
    pub(crate) fn rows(&self, hops: usize) -> usize {
        self.level(hops).map_or(0, |level| level.interval.rows.len())
    }

    /// Returns the rows of a slot that no stage writes, or `None` for other slots.
    pub(crate) fn constant(&self, program: &Program, slot: SlotId) -> Option<&Matrix> {
        match slot {
            _ if slot == program.features => Some(&self.features),
            _ if Some(slot) == program.gathered => self.gathered.as_ref(),
            _ => None,
        }
    }
}
