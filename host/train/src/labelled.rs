//! Lists of the edges that reach a labelled vertex: what the gathers beside the loss sum in training.
//!
//! The loss counts labelled vertices only. The gather before it need not sum for other rows, and the
//! gradient that the gather after it sums is zero in them: terms of +0 change no bit of a sum that begins
//! at +0. Rows, their factors and their own terms stay, so every path of the gather can be used.

use eciton_graph::adjacency::{Adjacency, Graph, Repeats};
use eciton_plan::{Config, Program, StageId, has_own_loss, loss_gathers};

use crate::edge_data::EdgeWeights;
use crate::error::Result;

/// The lists of one graph and one set of labelled vertices.
#[derive(Debug)]
pub(crate) struct LabelledLists {
    /// The gathers that use them.
    stages: Vec<StageId>,
    /// In-neighbours of labelled vertices; other lists are empty.
    incoming: Adjacency,
    /// The labelled among the out-neighbours of every vertex.
    outgoing: Adjacency,
    /// The weights of both lists' edges, where edges have some.
    weights: Option<[Vec<f32>; 2]>,
}

impl LabelledLists {
    /// How many edges lead to the vertices of `labelled`.
    pub(crate) fn edges(graph: &Graph, labelled: &[u32]) -> u64 {
        labelled.iter().map(|&v| u64::from(graph.in_degree(v))).sum()
    }

    /// The gathers that may use such lists, and how many edges these have; `None` where there is none, or it
    /// does not pay.
    pub(crate) fn planned(
        config: &Config,
        program: &Program,
        graph: &Graph,
        labelled: &[u32],
    ) -> Option<(Vec<StageId>, u64)> {
        let stages = loss_gathers(program);
        let edges = Self::edges(graph, labelled);
        let pays = config.run.labelled_gathers.choose(edges, graph.edges());
        (pays && !stages.is_empty() && !has_own_loss(&config.kernels)).then_some((stages, edges))
    }

    /// Bytes of the lists of a graph of so many vertices, `edges` of whose edges lead to labelled ones.
    pub(crate) fn bytes(vertices: u64, edges: u64, weighted: bool) -> u64 {
        2 * (edges * if weighted { 8 } else { 4 } + (vertices + 1) * 8)
    }

    /// The lists. `labelled` ascends.
    pub(crate) fn new(
        graph: &Graph,
        labelled: &[u32],
        stages: Vec<StageId>,
        weights: Option<&EdgeWeights>,
    ) -> Result<Self> {
        let mut counts = vec![false; graph.vertices() as usize];
        labelled.iter().for_each(|&v| counts[v as usize] = true);
        let edges = Self::edges(graph, labelled) as usize;
        let lists = |of: &dyn Fn(u32, &mut Vec<u32>)| {
            let mut offsets = Vec::with_capacity(counts.len() + 1);
            let mut neighbours = Vec::with_capacity(edges);
            offsets.push(0u64);
            for v in 0..graph.vertices() {
                of(v, &mut neighbours);
                offsets.push(neighbours.len() as u64);
            }
            // Whatever the graph's lists may hold.
            Adjacency::from_parts_with(offsets, neighbours, Repeats::Allowed)
        };
        let incoming = lists(&|v, into| {
            if counts[v as usize] {
                into.extend_from_slice(graph.in_neighbours(v));
            }
        })?;
        let outgoing = lists(&|v, into| {
            into.extend(graph.out_neighbours(v).iter().copied().filter(|&u| counts[u as usize]));
        })?;
        let weights = weights.map(|weights| {
            let vertices = || 0..graph.vertices();
            let into = vertices().filter(|&v| counts[v as usize]);
            let incoming = into.flat_map(|v| weights.of(graph.incoming(), v, false).iter().copied());
            let out = |v: u32| graph.out_neighbours(v).iter().zip(weights.of(graph.outgoing(), v, true));
            let labelled = vertices().flat_map(out).filter(|(u, _)| counts[**u as usize]);
            [incoming.collect(), labelled.map(|(_, &weight)| weight).collect()]
        });
        Ok(Self { stages, incoming, outgoing, weights })
    }

    /// What a stage gathers by, where it uses these lists, and the weights of their edges.
    pub(crate) fn of(&self, stage: StageId, transposed: bool) -> Option<(&Adjacency, Option<&[f32]>)> {
        let lists = if transposed { &self.outgoing } else { &self.incoming };
        let weights = self.weights.as_ref().map(|both| &both[usize::from(transposed)][..]);
        self.stages.contains(&stage).then_some((lists, weights))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_graph::adjacency::Options;
    use eciton_graph::gather::{self, Gather, Positions, Reduce, symmetric_scale};
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
            // Of both signs, and another one back.
            let weights = (0..graph.edges()).map(|_| random.below(9) as f32 - 4.0).collect();
            let reverse = Positions::new(graph.outgoing(), graph.incoming()).unwrap();
            let weights = EdgeWeights::new(weights, &reverse);
            let weights = (round % 4 == 1).then_some(&weights);
            let stages = vec![StageId(1), StageId(2)];
            let lists = LabelledLists::new(&graph, &labelled, stages, weights).unwrap();
            assert!(lists.of(StageId(0), false).is_none());
            let (incoming, outgoing) =
                (lists.of(StageId(1), false).unwrap(), lists.of(StageId(2), true).unwrap());
            let count = LabelledLists::edges(&graph, &labelled) as usize;
            assert_eq!((incoming.0.neighbours().len(), outgoing.0.neighbours().len()), (count, count));
            let (rows, columns) = (vertices as usize, 1 + random.below(60) as usize);
            let scale = symmetric_scale(&graph);
            let gather = |(by, weights): (&Adjacency, Option<&[f32]>), x: &[f32]| {
                let mut out = vec![f32::NAN; rows * columns];
                let mut to = ViewMut::new(&mut out, rows, columns);
                let mut sums = Gather::new(by, Reduce::Sum);
                sums = sums.weighted(gather::EdgeWeights::Symmetric(&scale)).with_self();
                if let Some(values) = weights {
                    sums = sums.weighted(gather::EdgeWeights::Values(values, None));
                }
                sums.run(View::new(x, rows, columns), 0..rows, &mut to);
                out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let mut value = || (random.below(2001) as f32 - 1000.0) * 1e-3;
            let x: Vec<f32> = (0..rows * columns).map(|_| value()).collect();
            let along = |outgoing| weights.map(|weights| &weights.along(outgoing)[..]);
            let all = (graph.incoming(), along(false));
            let (all, few) = (gather(all, &x), gather(incoming, &x));
            for &v in &labelled {
                let at = v as usize * columns..(v as usize + 1) * columns;
                assert_eq!(all[at.clone()], few[at], "seed {seed}, round {round}, row {v}");
            }
            // A gradient is zero in all other rows; and so small in one that its products vanish.
            let mut gradient = vec![0.0; rows * columns];
            for (n, &v) in labelled.iter().enumerate() {
                for column in 0..columns {
                    gradient[v as usize * columns + column] = if n == 0 { -1e-45 } else { value() };
                }
            }
            let all = (graph.outgoing(), along(true));
            let (all, few) = (gather(all, &gradient), gather(outgoing, &gradient));
            assert_eq!(all, few, "seed {seed}, round {round}");
        }
    }
}
