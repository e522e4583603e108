//! Graph of a micro-batch, which is a part of a batch with its own rows. It has the lists of the
//! first rows, and the same edges by source.

use std::sync::Arc;

use crate::adjacency::{Adjacency, Graph};
use eciton_gather::Positions;

/// Graph of a micro-batch in local rows (numbered within the micro-batch), with an index between
/// its in-lists and out-lists.
#[derive(Debug, Clone)]
pub struct PartGraph {
    /// Adjacency lists, in which vertices are local rows.
    pub graph: Arc<Graph>,
    /// Index in the in-lists of each edge of the out-lists.
    pub reverse: Positions,
}

impl PartGraph {
    /// Creates a graph of `rows` local rows with the lists of the first `targets` rows of
    /// `incoming`. The lists of all other rows are empty. The caller guarantees that all sources in
    /// these lists are below `rows`.
    ///
    /// # Panics
    /// Panics if `incoming` has fewer rows, or if a source is not below `rows`.
    #[must_use]
    pub fn of_first(incoming: &Adjacency, targets: usize, rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.extend_from_slice(&incoming.offsets()[..=targets]);
        let edges = offsets[targets];
        offsets.resize(rows + 1, edges);
        let neighbours = incoming.neighbours()[..edges as usize].to_vec();
        // Sorts edges by source, in the order of targets: counts first, then positions.
        let mut starts = vec![0u64; rows + 1];
        neighbours.iter().for_each(|&source| starts[source as usize + 1] += 1);
        (0..rows).for_each(|row| starts[row + 1] += starts[row]);
        let mut cursors = starts.clone();
        let mut sorted = vec![0u32; neighbours.len()];
        let mut reverse = vec![0u32; neighbours.len()];
        for target in 0..targets {
            for edge in offsets[target] as usize..offsets[target + 1] as usize {
                let cursor = &mut cursors[neighbours[edge] as usize];
                sorted[*cursor as usize] = target as u32;
                // A micro-batch has fewer than 2^32 edges, which the sampler guarantees.
                reverse[*cursor as usize] = edge as u32;
                *cursor += 1;
            }
        }
        let symmetric = sorted == neighbours && starts == offsets;
        let outgoing = (!symmetric).then(|| crate::build::trusted(starts, sorted));
        let graph = Graph::from_pair(crate::build::trusted(offsets, neighbours), outgoing);
        Self { graph: Arc::new(graph), reverse: Positions::Short(reverse) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::adjacency::Options;
    use crate::random::SplitMix64;

    #[test]
    fn a_part_of_all_rows_is_the_graph() {
        let seed = 5;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for round in 0..30u64 {
            let vertices = 1 + random.below(60);
            let edges: Vec<(u32, u32)> = (0..random.below(300))
                .map(|_| (random.below(vertices) as u32, random.below(vertices) as u32))
                .collect();
            let options = Options { symmetric: round % 2 == 0, keep_self_loops: true };
            let graph = Graph::from_edges(vertices, edges.into_iter(), options).unwrap();
            let all = vertices as usize;
            let part = PartGraph::of_first(graph.incoming(), all, all);
            assert_eq!(*part.graph, graph);
            assert_eq!(part.reverse, Positions::new(graph.outgoing(), graph.incoming()).unwrap());
            // Without the lists of some, the same edges both ways.
            let targets = random.below(vertices + 1) as usize;
            let part = PartGraph::of_first(graph.incoming(), targets, all);
            let wanted: Vec<(u32, u32)> = graph.edge_list().filter(|e| (e.1 as usize) < targets).collect();
            assert_eq!(part.graph.edge_list().collect::<Vec<_>>(), wanted);
            let mut back: Vec<(u32, u32)> = (0..vertices as u32)
                .flat_map(|s| part.graph.out_neighbours(s).iter().map(move |&t| (s, t)))
                .collect();
            back.sort_by_key(|&(source, target)| (target, source));
            assert_eq!(back, wanted);
        }
    }
}
