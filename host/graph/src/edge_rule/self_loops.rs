//! Treatment of self-loops, which are edges from a vertex to itself, and their number in a graph.

use std::ops::Range;

use eciton_input::threads::{on_threads, shares, threads_for};

use crate::adjacency::Graph;

/// Rule that decides whether self-loops are kept. A self-loop is an edge from a vertex to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SelfLoops {
    /// Self-loops are dropped together with their edge features.
    #[default]
    Drop,
    /// Self-loops are kept like other edges.
    Keep,
}

/// Returns the number of self-loops in `graph`.
#[must_use]
pub fn loops(graph: &Graph) -> u64 {
    if graph.edges() == 0 {
        return 0;
    }
    let vertices = graph.vertices() as usize;
    let work = shares(vertices, threads_for(vertices as u64));
    let own = |own: Range<usize>| {
        own.filter(|&v| graph.in_neighbours(v as u32).binary_search(&(v as u32)).is_ok()).count() as u64
    };
    on_threads(work, own).into_iter().sum()
}
