//! Links, which are pairs of vertices that an edge joins in either direction. This module draws the
//! training pairs of link models, holds out links for evaluation, and draws pairs without a link.
//!
//! ```
//! use eciton_graph::generate::ManyGraphs;
//! use eciton_graph::links::{self, Draw, Shares};
//! let shape = ManyGraphs { graphs: 30, ..ManyGraphs::default() };
//! let mut made = shape.generate()?.dataset("made", 1)?;
//! made.graphs = None;
//! let all = links::count(&made.graph);
//! let shares = Shares { validation: 0.05, test: 0.1, seed: 1, each: 1, draw: Draw::Pairs };
//! let held = links::hold_out(&mut made, &shares)?;
//! assert_eq!(held.validation.links.len() as u64, all / 20);
//! assert_eq!(held.test.links.len() as u64, all / 10);
//! assert_eq!(links::count(&made.graph), all - all / 20 - all / 10);
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

mod held_out;
pub mod metrics;
mod negatives;
mod numbered;
mod search;

pub use held_out::{Candidates, Draw, HeldOut, MAX_OTHERS, Shares, hold_out};
pub use negatives::{Ends, Negatives};
pub use numbered::Numbered;

use crate::adjacency::{Adjacency, Graph};
use eciton_input::threads::{on_threads, shares, threads_for};

/// Pair of two different vertices that an edge joins in one or both directions. In lists of links,
/// the smaller vertex of each pair comes first.
pub type Pair = (u32, u32);

/// View of a graph without edge directions. The union of in-neighbours and out-neighbours is
/// computed when it is accessed.
#[derive(Debug, Clone, Copy)]
pub struct Links<'a> {
    incoming: &'a Adjacency,
    /// Lists of out-neighbours. `None` if they equal `incoming`.
    outgoing: Option<&'a Adjacency>,
}

impl<'a> Links<'a> {
    /// Creates the view of the links of `graph`.
    pub fn new(graph: &'a Graph) -> Self {
        Self { incoming: graph.incoming(), outgoing: graph.transpose() }
    }

    /// Returns the number of vertices.
    pub fn vertices(self) -> u32 {
        self.incoming.vertices()
    }

    /// Returns an iterator over the vertices to which `vertex` is linked. They ascend, and neither
    /// repeat nor include the vertex itself.
    #[inline(always)]
    pub fn partners(self, vertex: u32) -> Partners<'a> {
        let other = self.outgoing.map_or(&[][..], |lists| lists.neighbours_of(vertex));
        Partners { one: self.incoming.neighbours_of(vertex), other, vertex, last: u32::MAX }
    }

    /// Returns the number of links of each vertex.
    pub fn degrees(self) -> Vec<u32> {
        (0..self.vertices()).map(|v| self.partners(v).count() as u32).collect()
    }
}

/// Iterator over the vertices to which one vertex is linked.
#[derive(Debug, Clone)]
pub struct Partners<'a> {
    /// Remaining in-neighbours in ascending order. The next field has the remaining out-neighbours.
    one: &'a [u32],
    other: &'a [u32],
    vertex: u32,
    /// Vertex that was returned last. Its initial value is an id that no vertex has.
    last: u32,
}

impl Iterator for Partners<'_> {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        loop {
            let list = match (self.one.first(), self.other.first()) {
                (Some(a), Some(b)) if b < a => &mut self.other,
                (None, _) => &mut self.other,
                _ => &mut self.one,
            };
            let (&next, rest) = list.split_first()?;
            *list = rest;
            if next != self.last && next != self.vertex {
                self.last = next;
                return Some(next);
            }
        }
    }
}

/// Returns true if an edge joins two vertices in either direction. A self-loop links a vertex to
/// itself. Returns false for vertices that do not exist.
#[inline]
pub fn linked(graph: &Graph, a: u32, b: u32) -> bool {
    let (of_a, of_b) = (graph.in_neighbours(a), graph.in_neighbours(b));
    if graph.symmetric() {
        let (list, other) = if of_a.len() < of_b.len() { (of_a, b) } else { (of_b, a) };
        return list.binary_search(&other).is_ok();
    }
    of_a.binary_search(&b).is_ok() || of_b.binary_search(&a).is_ok()
}

/// Returns the number of links in a graph. Each pair of linked vertices counts once.
pub fn count(graph: &Graph) -> u64 {
    count_with(graph, threads_for(graph.edges()))
}

fn count_with(graph: &Graph, threads: usize) -> u64 {
    let links = Links::new(graph);
    let work = shares(graph.vertices() as usize, threads);
    let own = |v| links.partners(v).filter(|&u| u > v).count() as u64;
    on_threads(work, |range| (range.start as u32..range.end as u32).map(own).sum::<u64>()).into_iter().sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;
    use crate::adjacency::{Options, Repeats};
    use crate::random::SplitMix64;

    /// Returns a graph of random edges with self-loops, and with parallel edges on request.
    pub(super) fn random_graph(
        random: &mut SplitMix64,
        vertices: u64,
        edges: u64,
        symmetric: bool,
        parallel: bool,
    ) -> Graph {
        let mut list: Vec<Pair> = (0..edges)
            .map(|_| (random.below(vertices) as u32, random.below(vertices) as u32))
            .flat_map(|(s, t)| [(s, t), (t, s)].into_iter().take(1 + usize::from(symmetric && s != t)))
            .collect();
        if !parallel {
            let options = Options { symmetric, keep_self_loops: true };
            return Graph::from_edges(vertices, list.into_iter(), options).unwrap();
        }
        // Lists by the first of two numbers.
        let lists = |pairs: &mut Vec<Pair>| {
            pairs.sort_unstable();
            let offsets = (0..=vertices).map(|v| pairs.partition_point(|p| u64::from(p.0) < v) as u64);
            let neighbours: Vec<u32> = pairs.iter().map(|p| p.1).collect();
            Adjacency::from_parts_with(offsets.collect::<Vec<_>>(), neighbours, Repeats::Allowed).unwrap()
        };
        let outgoing = lists(&mut list);
        let mut list: Vec<Pair> = list.into_iter().map(|(s, t)| (t, s)).collect();
        Graph::from_parts(lists(&mut list), (!symmetric).then_some(outgoing)).unwrap()
    }

    /// Returns all links by their definition.
    pub(super) fn all_links(graph: &Graph) -> BTreeSet<Pair> {
        graph.edge_list().filter(|(s, t)| s != t).map(|(s, t)| (s.min(t), s.max(t))).collect()
    }

    /// Returns the complete graph.
    pub(super) fn complete(vertices: u32) -> Graph {
        let edges = (0..vertices).flat_map(|a| (0..a).map(move |b| (a, b)));
        Graph::from_edges(u64::from(vertices), edges, Options::default()).unwrap()
    }

    #[test]
    fn both_directions_once_and_without_loops() {
        let edges = [(0, 1), (1, 0), (2, 0), (0, 3), (0, 0), (4, 4), (3, 2)];
        let options = Options { symmetric: false, keep_self_loops: true };
        let graph = Graph::from_edges(6, edges.into_iter(), options).unwrap();
        assert!(Links::new(&graph).partners(0).eq([1, 2, 3]));
        assert_eq!(Links::new(&graph).partners(99).next(), None);
        assert_eq!(Links::new(&graph).degrees(), [3, 1, 2, 2, 0, 0]);
        assert_eq!(count(&graph), 4);
        assert!(linked(&graph, 2, 3) && linked(&graph, 3, 2) && !linked(&graph, 1, 2));
        assert!(!linked(&graph, 0, 99) && !linked(&graph, 99, 98));
    }

    #[test]
    fn links_are_a_set_of_pairs() {
        let seed = 3;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for case in 0..80 {
            let (vertices, edges) = (1 + random.below(30), random.below(200));
            let graph = random_graph(&mut random, vertices, edges, case & 1 == 0, case & 2 == 0);
            let expected = all_links(&graph);
            for threads in [1, 2, 5] {
                assert_eq!(count_with(&graph, threads), expected.len() as u64, "case {case}");
            }
            let view = Links::new(&graph);
            let found = (0..graph.vertices()).flat_map(|a| view.partners(a).map(move |b| (a, b)));
            assert!(found.filter(|(a, b)| a < b).eq(expected.iter().copied()), "case {case}");
            for a in 0..graph.vertices() {
                assert!(view.partners(a).is_sorted_by(|a, b| a < b));
                for b in (0..graph.vertices()).filter(|&b| b != a) {
                    assert_eq!(linked(&graph, a, b), expected.contains(&(a.min(b), a.max(b))));
                    assert_eq!(view.partners(a).any(|u| u == b), linked(&graph, a, b));
                }
            }
        }
    }
}
