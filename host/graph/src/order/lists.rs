//! Reordering of adjacency lists by a vertex order.

use std::ops::Range;

use eciton_input::threads::{on_threads, threads_for};

use super::Permutation;
use crate::adjacency::{Adjacency, Graph, Repeats};
use crate::error::Result;

/// Returns the graph with new vertex ids. The lists are sorted again, and a symmetric graph stays
/// symmetric. The peak memory is that of both graphs.
///
/// # Errors
/// Returns [`Error::Mismatch`](crate::error::Error::Mismatch) if the permutation has another number
/// of vertices.
pub fn permute_graph(graph: &Graph, permutation: &Permutation) -> Result<Graph> {
    permute_graph_with(graph, permutation, threads_for(graph.edges()))
}

fn permute_graph_with(graph: &Graph, permutation: &Permutation, threads: usize) -> Result<Graph> {
    permutation.check(graph.vertices() as usize, "vertices", "graph")?;
    let whole = 0..graph.vertices() as usize;
    let one = |lists| permute_lists(lists, permutation, std::slice::from_ref(&whole), threads);
    Ok(Graph::from_parts(one(graph.incoming())?, graph.transpose().map(one).transpose()?)?)
}

/// Returns the lists of the new vertices in `ranges`, with new ids. The ranges must ascend and be
/// disjoint. All other lists are empty.
pub(super) fn permute_lists(
    lists: &Adjacency,
    permutation: &Permutation,
    ranges: &[Range<usize>],
    threads: usize,
) -> Result<Adjacency> {
    let (old, new) = (permutation.old_of_new(), permutation.new_of_old());
    let mut offsets = vec![0u64; old.len() + 1];
    for range in ranges {
        for v in range.clone() {
            offsets[v + 1] = lists.neighbours_of(old[v]).len() as u64;
        }
    }
    for v in 0..old.len() {
        offsets[v + 1] += offsets[v];
    }
    let mut neighbours = vec![0u32; offsets[old.len()] as usize];
    let mut rest = neighbours.as_mut_slice();
    let mut parts = Vec::new();
    for rows in shares(&offsets, 0..old.len(), threads) {
        let (part, after) = rest.split_at_mut((offsets[rows.end] - offsets[rows.start]) as usize);
        rest = after;
        parts.push((rows, part));
    }
    let fill = |(rows, part): (Range<usize>, &mut [u32])| {
        let base = offsets[rows.start];
        for v in rows {
            let list = &mut part[(offsets[v] - base) as usize..(offsets[v + 1] - base) as usize];
            // Vertices outside the ranges have an empty list here, so no entry is written.
            for (to, &u) in list.iter_mut().zip(lists.neighbours_of(old[v])) {
                *to = new[u as usize];
            }
            list.sort_unstable();
        }
    };
    on_threads(parts, fill);
    Ok(Adjacency::from_parts_with(offsets, neighbours, Repeats::Allowed)?)
}

/// Divides `rows` into at most `count` ranges with about the same number of edges.
pub(super) fn shares(offsets: &[u64], rows: Range<usize>, count: usize) -> Vec<Range<usize>> {
    let (from, to) = (offsets[rows.start], offsets[rows.end]);
    let count = count.max(1) as u64;
    let mut start = rows.start;
    let mut pieces = Vec::with_capacity(count as usize);
    for share in 1..=count {
        let reached = from + ((u128::from(to - from) * u128::from(share)) / u128::from(count)) as u64;
        let end =
            if share == count { rows.end } else { offsets.partition_point(|&o| o < reached).min(rows.end) };
        if end > start {
            pieces.push(start..end);
            start = end;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::adjacency::Options;
    use crate::random::SplitMix64;

    #[test]
    fn threads_do_not_matter() {
        let seed = 11;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let edges: Vec<(u32, u32)> = (0..900)
            .map(|_| (random.below(100) as u32, random.below(1 + random.clone().below(100)) as u32))
            .collect();
        for symmetric in [true, false] {
            let options = Options { symmetric, keep_self_loops: true };
            let graph = Graph::from_edges(100, edges.iter().copied(), options).unwrap();
            let mut order: Vec<u32> = (0..100).collect();
            random.shuffle(&mut order);
            let order = Permutation::from_old_of_new(order).unwrap();
            let one = permute_graph_with(&graph, &order, 1).unwrap();
            for threads in [2, 3, 7, 200] {
                assert_eq!(one, permute_graph_with(&graph, &order, threads).unwrap());
            }
            assert_eq!(graph, permute_graph_with(&one, &order.inverse(), 2).unwrap());
        }
    }

    #[test]
    fn shares_cover_all_rows_once() {
        let offsets = [0, 0, 10, 10, 11, 12, 12];
        for count in 0..9 {
            let pieces = shares(&offsets, 0..6, count);
            assert!(pieces.len() <= count.max(1));
            assert_eq!(pieces.iter().cloned().flatten().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        }
        assert!(shares(&offsets, 2..2, 3).is_empty());
    }
}
