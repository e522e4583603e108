//! Edge features of a run. One column can be the edge weights of gathers, and edge kernels read all
//! columns.

use std::ops::Range;
use std::sync::Arc;

use eciton_gather::Positions;
use eciton_graph::adjacency::{Adjacency, Graph};
use eciton_graph::dataset::EdgeFeatures;
use eciton_recipe::{LayerKind, Model};

use crate::error::{Error, Result};

/// Edge weights and edge features that a model reads.
#[derive(Debug, Default)]
pub(crate) struct EdgeData {
    /// Edge weights. `None` if the gathers of the model are not weighted.
    pub weights: Option<EdgeWeights>,
    /// Edge features. `None` if no kernel of the model reads them.
    pub features: Option<KnownEdges>,
}

/// The weight of each edge, in the order of the in-lists and in that of the out-lists.
#[derive(Debug, Clone)]
pub(crate) struct EdgeWeights {
    /// Weights in the order of the in-lists (incoming edges by target vertex).
    incoming: Arc<Vec<f32>>,
    /// Weights in the order of the out-lists (outgoing edges by source vertex). Shares memory with
    /// `incoming` if both are equal.
    outgoing: Arc<Vec<f32>>,
}

impl EdgeWeights {
    /// Creates the weights from a column in the order of the in-lists. `reverse` maps each edge of
    /// the out-lists to its index in the in-lists.
    pub(crate) fn new(column: Vec<f32>, reverse: &Positions) -> Self {
        let outgoing: Vec<f32> = (0..column.len()).map(|edge| column[reverse.get(edge)]).collect();
        let incoming = Arc::new(column);
        let outgoing = if outgoing == *incoming { incoming.clone() } else { Arc::new(outgoing) };
        Self { incoming, outgoing }
    }

    /// Returns the weights in the order of the out-lists if `outgoing` is true, or else of the
    /// in-lists.
    pub(crate) fn along(&self, outgoing: bool) -> &Arc<Vec<f32>> {
        if outgoing { &self.outgoing } else { &self.incoming }
    }

    /// Returns the weights of the edges in the lists of a range of rows.
    pub(crate) fn of_rows(&self, graph: &Graph, rows: Range<usize>) -> Self {
        let part = |lists: &Adjacency, weights: &[f32]| {
            let offsets = lists.offsets();
            Arc::new(weights[offsets[rows.start] as usize..offsets[rows.end] as usize].to_vec())
        };
        let incoming = part(graph.incoming(), &self.incoming);
        let shared = Arc::ptr_eq(&self.incoming, &self.outgoing) && graph.symmetric();
        let outgoing = if shared { incoming.clone() } else { part(graph.outgoing(), &self.outgoing) };
        Self { incoming, outgoing }
    }

    /// Returns the weights of the given edges, which are indices in the in-lists.
    pub(crate) fn select(&self, edges: &[u64]) -> Vec<f32> {
        edges.iter().map(|&edge| self.incoming[edge as usize]).collect()
    }

    /// Returns the weights of the edges in one vertex's list of `lists`, which are out-lists if
    /// `outgoing`.
    pub(crate) fn for_vertex(&self, lists: &Adjacency, vertex: u32, outgoing: bool) -> &[f32] {
        let bounds = &lists.offsets()[vertex as usize..vertex as usize + 2];
        &self.along(outgoing)[bounds[0] as usize..bounds[1] as usize]
    }

    /// Returns the factor of each vertex in symmetric normalisation. It is (1 + w)^-1/2, where w is
    /// the total weight of the vertex's incoming edges.
    pub(crate) fn symmetric_scale(&self, graph: &Graph) -> Vec<f32> {
        let sum = |v: u32| -> f64 {
            self.for_vertex(graph.incoming(), v, false).iter().copied().map(f64::from).sum()
        };
        (0..graph.vertices()).map(|v| (1.0 / (1.0 + sum(v)).sqrt()) as f32).collect()
    }

    /// Returns the size of the weights in memory, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let lists = if Arc::ptr_eq(&self.incoming, &self.outgoing) { 1 } else { 2 };
        lists * self.incoming.len() as u64 * 4
    }
}

/// Feature rows of edges, which can be accessed from both ends of an edge.
#[derive(Debug)]
pub(crate) struct KnownEdges {
    rows: EdgeFeatures,
    /// Index in the in-lists of each edge in the out-lists.
    reverse: Positions,
    /// Features `[V, columns]` of the self-loops that the host adds. Each is the mean over the
    /// incoming edges of its vertex.
    own: Vec<f32>,
}

impl KnownEdges {
    fn new(graph: &Graph, rows: EdgeFeatures, reverse: Positions) -> Self {
        let columns = rows.columns() as usize;
        let mut own = vec![0.0; graph.vertices() as usize * columns];
        let mut sums = vec![0.0f64; columns];
        for (bounds, mean) in graph.offsets().windows(2).zip(own.chunks_exact_mut(columns.max(1))) {
            let of = &rows.values()[bounds[0] as usize * columns..bounds[1] as usize * columns];
            sums.fill(0.0);
            for row in of.chunks_exact(columns.max(1)) {
                sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
            }
            let count = (bounds[1] - bounds[0]).max(1) as f64;
            mean.iter_mut().zip(&sums).for_each(|(mean, sum)| *mean = (sum / count) as f32);
        }
        Self { rows, reverse, own }
    }

    /// Returns the features of the edges of a micro-batch with the graph `graph`. `edges` are their
    /// indices in the in-lists of the whole graph.
    ///
    /// # Errors
    /// Returns the errors of [`EdgeFeatures::new`].
    pub(crate) fn of_part(&self, graph: &Graph, edges: &[u64], reverse: Positions) -> Result<Self> {
        let columns = self.columns();
        let row = |&edge: &u64| &self.rows.values()[edge as usize * columns..][..columns];
        let values: Vec<f32> = edges.iter().flat_map(row).copied().collect();
        let rows = EdgeFeatures::new(self.rows.columns(), values)?;
        Ok(Self::new(graph, rows, reverse))
    }

    /// Returns the number of features per edge.
    pub(crate) fn columns(&self) -> usize {
        self.rows.columns() as usize
    }

    /// Returns the feature matrix `[E, columns]`, with edges in the order of the in-lists.
    pub(crate) fn values(&self) -> &[f32] {
        self.rows.values()
    }

    /// Returns the features of edge `place` in the neighbour list of `vertex`. The index after the
    /// last edge stands for the self-loop that the host adds.
    pub(crate) fn row(&self, lists: &Adjacency, vertex: u32, place: usize, outgoing: bool) -> &[f32] {
        let (columns, bounds) = (self.columns(), &lists.offsets()[vertex as usize..vertex as usize + 2]);
        let edge = bounds[0] as usize + place;
        if edge >= bounds[1] as usize {
            return &self.own[vertex as usize * columns..][..columns];
        }
        let edge = if outgoing { self.reverse.get(edge) } else { edge };
        &self.rows.values()[edge * columns..][..columns]
    }

    /// Returns the size in memory of the features and their indices, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let positions = if self.reverse.len() as u64 > u64::from(u32::MAX) { 8 } else { 4 };
        self.rows.values().len() as u64 * 4
            + self.reverse.len() as u64 * positions
            + self.own.len() as u64 * 4
    }
}

impl EdgeData {
    /// Returns true if the model reads neither edge weights nor edge features.
    pub(crate) fn is_empty(&self) -> bool {
        self.weights.is_none() && self.features.is_none()
    }

    /// Prepares the edge data that `model` uses. `name` returns the user's name of a row's vertex.
    ///
    /// # Errors
    /// Returns [`Error::Plan`] if the model reads edge features that the data does not have.
    /// Returns [`Error::NegativeWeight`] for a negative weight in a model with symmetric
    /// normalisation.
    pub(crate) fn for_model(
        model: &Model,
        graph: &Graph,
        features: Option<EdgeFeatures>,
        name: &dyn Fn(u32) -> String,
    ) -> Result<Self> {
        model.check_edges(features.as_ref().map_or(0, EdgeFeatures::columns))?;
        let mut made = Self::default();
        let told = model.reads_edges();
        let asked = told || model.edge_weights.is_some();
        let Some(features) = features.filter(|_| asked) else { return Ok(made) };
        let reverse = Positions::new(graph.outgoing(), graph.incoming())?;
        if let Some(weights) = model.edge_weights.and_then(|column| features.column(column)) {
            let normalised = |kind: &LayerKind| {
                matches!(kind, LayerKind::Gcn | LayerKind::Sgc { .. } | LayerKind::Appnp { .. })
            };
            let layer = model.layers.iter().map(|layer| &layer.kind).find(|kind| normalised(kind));
            let negative = weights.iter().position(|&weight| weight < 0.0);
            if let (Some(layer), Some(edge)) = (layer, negative) {
                let target = graph.offsets().partition_point(|&offset| offset <= edge as u64) - 1;
                return Err(Error::NegativeWeight {
                    layer: layer.name().to_owned(),
                    origin: name(graph.neighbours()[edge]),
                    target: name(target as u32),
                    weight: weights[edge],
                });
            }
            made.weights = Some(EdgeWeights::new(weights, &reverse));
        }
        if told {
            made.features = Some(KnownEdges::new(graph, features, reverse));
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_graph::adjacency::Options;

    #[test]
    fn an_edge_has_its_row_from_both_ends() {
        let options = Options { symmetric: false, keep_self_loops: true };
        let edges = [(0, 1), (2, 1), (1, 0), (2, 0), (0, 2)];
        let graph = Graph::from_edges(4, edges.into_iter(), options).unwrap();
        // In-lists: 0 from 1 and 2, 1 from 0 and 2, 2 from 0.
        let rows = EdgeFeatures::new(2, vec![1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0, 5.0, -5.0]).unwrap();
        let reverse = || Positions::new(graph.outgoing(), graph.incoming()).unwrap();
        let known = KnownEdges::new(&graph, rows.clone(), reverse());
        assert_eq!(known.row(graph.incoming(), 1, 1, false), [4.0, -4.0]);
        assert_eq!(known.row(graph.incoming(), 1, 2, false), [3.5, -3.5]);
        assert_eq!(known.row(graph.incoming(), 3, 0, false), [0.0, 0.0]);
        // Out-lists: 0 to 1 and 2, 1 to 0, 2 to 0 and 1.
        assert_eq!(known.row(graph.outgoing(), 0, 1, true), [5.0, -5.0]);
        assert_eq!(known.row(graph.outgoing(), 2, 1, true), [4.0, -4.0]);
        assert_eq!(known.row(graph.outgoing(), 2, 2, true), [5.0, -5.0]);
        let weights = EdgeWeights::new(rows.column(0).unwrap(), &reverse());
        assert_eq!(weights.along(true)[..], [3.0, 5.0, 1.0, 2.0, 4.0]);
        assert_eq!(weights.for_vertex(graph.incoming(), 1, false), [3.0, 4.0]);
        assert_eq!(weights.symmetric_scale(&graph)[1], 1.0 / 8f32.sqrt());
    }
}
