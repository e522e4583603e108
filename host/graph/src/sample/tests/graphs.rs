//! Graphs for tests of samplers, and checks of every subgraph.

use crate::adjacency::{Adjacency, Graph, Options, Repeats};
use crate::random::SplitMix64;
use crate::sample::Subgraph;

/// Returns a graph of random edges with self-loops, and with parallel edges on request.
pub(in crate::sample) fn random_graph(
    random: &mut SplitMix64,
    vertices: u64,
    edges: u64,
    symmetric: bool,
    parallel: bool,
) -> Graph {
    let mut pairs = Vec::new();
    for _ in 0..edges {
        let (s, t) = (random.below(vertices) as u32, random.below(vertices) as u32);
        pairs.push((s, t));
        if symmetric && s != t {
            pairs.push((t, s));
        }
    }
    if !parallel {
        let options = Options { symmetric, keep_self_loops: true };
        return Graph::from_edges(vertices, pairs.into_iter(), options).unwrap();
    }
    let lists = |by: fn(&(u32, u32)) -> (u32, u32)| {
        let mut keyed: Vec<_> = pairs.iter().map(by).collect();
        keyed.sort_unstable();
        let offsets = (0..=vertices).map(|v| keyed.partition_point(|p| u64::from(p.0) < v) as u64);
        let others: Vec<u32> = keyed.iter().map(|p| p.1).collect();
        Adjacency::from_parts_with(offsets.collect::<Vec<_>>(), others, Repeats::Allowed).unwrap()
    };
    let outgoing = (!symmetric).then(|| lists(|&(s, t)| (s, t)));
    Graph::from_parts(lists(|&(s, t)| (t, s)), outgoing).unwrap()
}

/// Returns a graph without self-loops whose degrees are skewed. The last vertex has no edge.
pub(in crate::sample) fn skewed(vertices: u32, edges: u64, symmetric: bool, seed: u64) -> Graph {
    let mut random = SplitMix64::new(seed);
    let mut low = || {
        let most = 1 + random.below(u64::from(vertices - 1));
        random.below(most) as u32
    };
    let pairs: Vec<_> = (0..edges).map(|_| (low(), low())).collect();
    let options = Options { symmetric, keep_self_loops: false };
    Graph::from_edges(u64::from(vertices), pairs.into_iter(), options).unwrap()
}

/// Asserts the invariants of every subgraph that has each edge at most once: lists are sorted, and
/// each entry is an entry of the graph.
pub(in crate::sample) fn check(graph: &Graph, subgraph: &Subgraph) {
    let mut edges = subgraph.edges.clone();
    edges.sort_unstable();
    let is_new = |pair: &[u64]| pair[0] < pair[1];
    // Rows of several targets may repeat, with their edges.
    let rows: std::collections::BTreeSet<_> = subgraph.ids.iter().collect();
    assert!(rows.len() < subgraph.ids.len() || edges.windows(2).all(is_new));
    check_lists(graph, subgraph);
}

/// Asserts that lists are sorted, and that each entry is an entry of the graph.
pub(in crate::sample) fn check_lists(graph: &Graph, subgraph: &Subgraph) {
    let Subgraph { ids, hops, incoming, edges, targets } = subgraph;
    assert_eq!(incoming.offsets().len(), ids.len() + 1);
    assert_eq!(incoming.neighbours().len(), edges.len());
    assert_eq!(hops.last(), Some(&(ids.len() as u32)));
    assert!(hops.is_sorted() && targets.iter().flatten().all(|&local| (local as usize) < ids.len()));
    for (row, local) in ids.iter().zip(0..) {
        let (from, list) = (incoming.offsets()[local as usize] as usize, incoming.neighbours_of(local));
        assert!(list.is_sorted());
        let own = &edges[from..from + list.len()];
        for (&source, &edge) in list.iter().zip(own) {
            let entries = graph.offsets()[*row as usize]..graph.offsets()[*row as usize + 1];
            assert!(entries.contains(&edge), "an entry of the row's list");
            assert_eq!(graph.neighbours()[edge as usize], ids[source as usize]);
        }
    }
}
