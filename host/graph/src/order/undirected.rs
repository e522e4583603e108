//! A graph seen without directions: the union of in- and out-neighbours, never stored.

use crate::adjacency::{Adjacency, Graph};

/// Neighbours in either direction, ascending, without repeats and without the vertex itself.
#[derive(Clone, Copy)]
pub(super) struct Undirected<'a> {
    incoming: &'a Adjacency,
    /// None where it holds the same lists.
    outgoing: Option<&'a Adjacency>,
}

impl<'a> Undirected<'a> {
    pub(super) fn new(graph: &'a Graph) -> Self {
        Self { incoming: graph.incoming(), outgoing: graph.transpose() }
    }

    pub(super) fn vertices(self) -> u32 {
        (self.incoming.offsets().len() - 1) as u32
    }

    /// Calls `visit` with each neighbour of `vertex`.
    #[inline]
    pub(super) fn for_each(self, vertex: u32, mut visit: impl FnMut(u32)) {
        // What was visited last; at first an id that no vertex has.
        let mut last = u32::MAX;
        let mut once = |u: u32| {
            if u != last && u != vertex {
                visit(u);
            }
            last = u;
        };
        let one = self.incoming.of(vertex);
        let Some(outgoing) = self.outgoing else {
            one.iter().for_each(|&u| once(u));
            return;
        };
        let (mut one, mut other) = (one, outgoing.of(vertex));
        while let (Some((&a, one_rest)), Some((&b, other_rest))) = (one.split_first(), other.split_first()) {
            once(a.min(b));
            if a <= b {
                one = one_rest;
            } else {
                other = other_rest;
            }
        }
        one.iter().chain(other).for_each(|&u| once(u));
    }

    /// `[V]`: how many neighbours each vertex has.
    pub(super) fn degrees(self) -> Vec<u32> {
        let degree = |v| {
            let mut count = 0;
            self.for_each(v, |_| count += 1);
            count
        };
        (0..self.vertices()).map(degree).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::adjacency::Options;

    #[test]
    fn both_directions_once_and_without_loops() {
        let edges = [(0, 1), (1, 0), (2, 0), (0, 3), (0, 0), (4, 4), (3, 2)];
        let options = Options { symmetric: false, keep_self_loops: true };
        let graph = Graph::from_edges(6, edges.into_iter(), options).unwrap();
        let view = Undirected::new(&graph);
        let mut found = Vec::new();
        view.for_each(0, |u| found.push(u));
        assert_eq!(found, [1, 2, 3]);
        assert_eq!(view.degrees(), [3, 1, 2, 2, 0, 0]);
    }
}
