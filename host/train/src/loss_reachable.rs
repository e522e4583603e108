//! Restriction of the gathers next to the loss to the edges that can affect the loss, during
//! training.
//!
//! The loss depends only on the rows of labelled vertices. Therefore the gather before the loss
//! needs to compute only these rows. Of all other rows, the gradient that the backward gather sums
//! is zero. Adding +0 does not change any bit of a sum that starts at +0, so these terms can be
//! left out. The gather before the loss reads only the graph's lists of labelled vertices, and the
//! backward gather reads shorter lists. Rows, factors and self terms are unchanged.

use eciton_graph::adjacency::{Adjacency, Graph};
use eciton_program::{Program, loss_gathers};
use eciton_recipe::{Config, LabelledGathers};
use eciton_types::StageId;

use crate::edge_data::EdgeWeights;

/// Plan to leave out the edges that cannot affect the loss, in the gathers next to the loss.
#[derive(Debug, Clone)]
pub(crate) struct LabelledPlan {
    /// The gathers next to the loss, as stages of the program.
    pub stages: Vec<StageId>,
    /// Number of edges that lead to labelled vertices and thus remain.
    pub edges: u64,
}

impl LabelledPlan {
    /// Decides whether edges are left out. Returns `None` if no gather is next to the loss, or if
    /// it would not reduce the cost. `edges` are those to labelled training vertices, of `all` edges.
    pub(crate) fn new(config: &Config, program: &Program, (edges, all): (u64, u64)) -> Option<Self> {
        let stages = loss_gathers(program, |kernel| config.kernels.contains_key(kernel));
        let pays = config.run.labelled_gathers.choose(edges, all);
        (pays && !stages.is_empty()).then_some(Self { stages, edges })
    }

    /// Returns the size in bytes of the additional lists for a graph with `vertices` vertices.
    pub(crate) fn bytes(&self, vertices: u64, weighted: bool) -> u64 {
        self.edges * if weighted { 8 } else { 4 } + (vertices + 1) * 8 + vertices
    }

    /// Returns true if these lists may be given up when memory is short.
    pub(crate) fn is_optional(config: &Config) -> bool {
        config.run.labelled_gathers == LabelledGathers::Auto
    }
}

/// Adjacency lists that are restricted to labelled vertices, for the gathers next to the loss.
#[derive(Debug)]
pub(crate) struct LabelledLists {
    /// Flag of each vertex, which is true for labelled vertices.
    labelled: Vec<bool>,
    /// Out-lists of all vertices, restricted to labelled neighbours.
    outgoing: Adjacency,
    /// Weights of the edges in `outgoing`. `None` if edges have no weights.
    weights: Option<Vec<f32>>,
}

impl LabelledLists {
    /// Creates the restricted lists of `graph`. `labelled` are the labelled vertices, and `weights`
    /// the edge weights if there are any.
    pub(crate) fn new(graph: &Graph, labelled: &[u32], weights: Option<&EdgeWeights>) -> Self {
        let mut counts = vec![false; graph.vertices() as usize];
        labelled.iter().for_each(|&v| counts[v as usize] = true);
        let outgoing = graph.outgoing().keeping(&counts);
        let weights = weights.map(|weights| {
            let all = graph.outgoing().neighbours().iter().zip(&**weights.along(true));
            let mut kept = Vec::with_capacity(outgoing.neighbours().len());
            kept.extend(all.filter(|(u, _)| counts[**u as usize]).map(|(_, &weight)| weight));
            kept
        });
        Self { labelled: counts, outgoing, weights }
    }

    /// Returns a flag for each vertex, which is true if the gather before the loss must compute its
    /// row.
    pub(crate) fn wanted(&self) -> &[bool] {
        &self.labelled
    }

    /// Returns the lists that the backward gather after the loss sums over, with their edge
    /// weights.
    pub(crate) fn reversed(&self) -> (&Adjacency, Option<&[f32]>) {
        (&self.outgoing, self.weights.as_deref())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_gather::{Gather, Positions, Reduce, symmetric_scale};
    use eciton_graph::adjacency::Options;
    use eciton_graph::random::SplitMix64;
    use eciton_tensor::{View, ViewMut};

    #[test]
    fn sums_are_those_of_all_edges_bit_for_bit() {
        let seed = 11;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for round in 0..40u64 {
            let vertices = 1 + random.below(if round % 8 == 0 { 3000 } else { 200 });
            let edges: Vec<(u32, u32)> = (0..random.below(20_000))
                .map(|_| (random.below(vertices) as u32, random.below(vertices) as u32))
                .collect();
            let options = Options { symmetric: round % 2 == 0, keep_self_loops: round % 3 == 0 };
            let graph = Graph::from_edges(vertices, edges.into_iter(), options).unwrap();
            let labelled: Vec<u32> = (0..vertices as u32).filter(|_| random.below(10) < round % 10).collect();
            // Edge weights have both signs, and differ between the two directions.
            let weights = (0..graph.edges()).map(|_| random.below(9) as f32 - 4.0).collect();
            let reverse = Positions::new(graph.outgoing(), graph.incoming()).unwrap();
            let weights = EdgeWeights::new(weights, &reverse);
            let weights = (round % 4 == 1).then_some(&weights);
            let edges: u64 = labelled.iter().map(|&v| u64::from(graph.in_degree(v))).sum();
            let lists = LabelledLists::new(&graph, &labelled, weights);
            assert_eq!(lists.reversed().0.neighbours().len() as u64, edges);
            let (rows, columns) = (vertices as usize, 1 + random.below(60) as usize);
            let scale = symmetric_scale(graph.offsets());
            let gather = |(by, weights): (&Adjacency, Option<&[f32]>), wanted: Option<&[bool]>, x: &[f32]| {
                let mut out = vec![f32::NAN; rows * columns];
                let mut to = ViewMut::new(&mut out, rows, columns);
                let mut sums = Gather::new(by, Reduce::Sum);
                sums = sums.weighted(eciton_gather::EdgeWeights::Symmetric(&scale)).with_self();
                if let Some(values) = weights {
                    sums = sums.weighted(eciton_gather::EdgeWeights::Values(values, None));
                }
                if let Some(wanted) = wanted {
                    sums = sums.of_rows(wanted);
                }
                sums.run(View::new(x, rows, columns), 0..rows, &mut to);
                out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let mut value = || (random.below(2001) as f32 - 1000.0) * 1e-3;
            let x: Vec<f32> = (0..rows * columns).map(|_| value()).collect();
            let along = |outgoing| weights.map(|weights| &weights.along(outgoing)[..]);
            let all = (graph.incoming(), along(false));
            let (all, few) = (gather(all, None, &x), gather(all, Some(lists.wanted()), &x));
            for &v in &labelled {
                let at = v as usize * columns..(v as usize + 1) * columns;
                assert_eq!(all[at.clone()], few[at], "seed {seed}, round {round}, row {v}");
            }
            // The gradient is zero in all other rows. In one row it is so small that its products
            // vanish.
            let mut gradient = vec![0.0; rows * columns];
            for (n, &v) in labelled.iter().enumerate() {
                for column in 0..columns {
                    gradient[v as usize * columns + column] = if n == 0 { -1e-45 } else { value() };
                }
            }
            let all = (graph.outgoing(), along(true));
            let (all, few) = (gather(all, None, &gradient), gather(lists.reversed(), None, &gradient));
            assert_eq!(all, few, "seed {seed}, round {round}");
        }
    }
}
