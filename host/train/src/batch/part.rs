//! A part of a batch: rows of the data set with lists of their own.

use std::sync::Arc;

use eciton_graph::adjacency::Graph;
use eciton_plan::{Program, SlotId};
use eciton_tensor::Matrix;

use crate::data::Interval;
use crate::edge_data::{EdgeData, EdgeWeights};

/// What a part's stages read. Its rows are numbered from 0.
#[derive(Debug)]
pub(crate) struct Part {
    /// By gathers that lie between rows and the loss; the last counts for all further ones.
    pub levels: Vec<Level>,
    /// The vertices of its rows, in the data set's order.
    pub vertices: Arc<[u32]>,
    /// Training rows by what their classes count, or the known values of these.
    pub counted: f64,
    /// Sum of the weights of its training rows in the loss, those of the sampler included.
    pub weights: f64,
    features: Matrix,
    gathered: Option<Matrix>,
}

/// The rows within so many hops, and the lists of a gather that computes them.
#[derive(Debug)]
pub(crate) struct Level {
    pub interval: Interval,
    pub lists: Arc<PartLists>,
}

/// The lists of a part's rows.
#[derive(Debug)]
pub(crate) struct PartLists {
    pub graph: Arc<Graph>,
    /// Of the symmetric normalisation.
    pub scale: Arc<Vec<f32>>,
    /// 1 / in-degree.
    pub inverse: Arc<Vec<f32>>,
    pub edges: Arc<EdgeData>,
    /// Weights of edges in a mean, where they are others.
    pub of_means: Option<EdgeWeights>,
}

impl PartLists {
    /// Weights of edges, in the order of in-lists or of out-lists.
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

    /// The rows within so many hops.
    pub(crate) fn level(&self, hops: usize) -> Option<&Level> {
        self.levels.get(hops).or_else(|| self.levels.last())
    }

    /// How many they are.
    pub(crate) fn rows(&self, hops: usize) -> usize {
        self.level(hops).map_or(0, |level| level.interval.rows.len())
    }

    /// The rows of a slot that no stage writes; `None` for others.
    pub(crate) fn constant(&self, program: &Program, slot: SlotId) -> Option<&Matrix> {
        match slot {
            _ if slot == program.features => Some(&self.features),
            _ if Some(slot) == program.gathered => self.gathered.as_ref(),
            _ => None,
        }
    }
}
