//! Mapping of one adjacency's edges to another adjacency's edges, by which backward steps read edge
//! values.

use crate::adjacency::Adjacency;
use crate::error::{Error, Place, Result};

/// Index of each edge of an adjacency in the adjacency of the reversed edges. An index takes 4
/// bytes, or 8 bytes in a graph with 2^32 edges or more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Positions {
    /// 32-bit indices, for fewer than 2^32 edges.
    Short(Vec<u32>),
    /// 64-bit indices, for 2^32 edges or more.
    Long(Vec<u64>),
}

impl Positions {
    /// Computes the index in `within` of each edge of `of`. The edge (u, v) in u's list of `of`
    /// corresponds to the edge (v, u) in v's list of `within`. Parallel edges are paired in their
    /// order. If the graph is symmetric, `of` and `within` are the same lists, and an edge is
    /// paired with its reverse.
    /// # Errors
    /// Returns [`Error::Mismatch`] if `of` and `within` do not have the same edges.
    pub fn new(of: &Adjacency, within: &Adjacency) -> Result<Self> {
        let edges = within.neighbours().len();
        if u32::try_from(edges).is_ok() {
            Ok(Self::Short(places(of, within, |place| place as u32)?))
        } else {
            Ok(Self::Long(places(of, within, |place| place as u64)?))
        }
    }

    /// Returns the number of edges.
    pub fn len(&self) -> usize {
        match self {
            Self::Short(all) => all.len(),
            Self::Long(all) => all.len(),
        }
    }

    /// Returns true if there are no edges.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the index of the edge `edge` in the other adjacency.
    ///
    /// # Panics
    /// Panics if the edge does not exist.
    #[inline]
    pub fn get(&self, edge: usize) -> usize {
        match self {
            Self::Short(all) => all[edge] as usize,
            Self::Long(all) => all[edge] as usize,
        }
    }
}

/// Computes the index in `within` of each edge of `of`. The lists of `within` are visited in the
/// order of their vertices v. So each list of `of` meets its neighbours v in order, and one cursor
/// per list is enough.
fn places<T: Copy + Default>(
    of: &Adjacency,
    within: &Adjacency,
    place: impl Fn(usize) -> T,
) -> Result<Vec<T>> {
    let mismatch = |what, found: usize, expected: usize| Error::Mismatch {
        place: Place::whole("reverse adjacency"),
        what,
        found: found as u64,
        expected: expected as u64,
        other: "the adjacency".to_owned(),
    };
    let (starts, ends) = (of.offsets(), within.offsets());
    if starts.len() != ends.len() {
        return Err(mismatch("vertices", starts.len() - 1, ends.len() - 1));
    }
    let (own, other) = (of.neighbours(), within.neighbours());
    if own.len() != other.len() {
        return Err(mismatch("edges", own.len(), other.len()));
    }
    let mut cursors = starts[..starts.len() - 1].to_vec();
    let mut places = vec![T::default(); own.len()];
    for v in 0..cursors.len() {
        for at in ends[v] as usize..ends[v + 1] as usize {
            let cursor = &mut cursors[other[at] as usize];
            if own.get(*cursor as usize) != Some(&(v as u32)) {
                return Err(mismatch("edges paired", at, own.len()));
            }
            places[*cursor as usize] = place(at);
            *cursor += 1;
        }
    }
    // Each edge was met once: the number of steps equals the number of edges, and no cursor had the
    // same value twice. A cursor that left its list would have paired an edge of another vertex
    // twice.
    if cursors.iter().zip(&starts[1..]).any(|(cursor, end)| cursor != end) {
        return Err(mismatch("edges paired", 0, own.len()));
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::adjacency::{Graph, Options, Repeats};
    use crate::random::SplitMix64;

    #[test]
    fn each_edge_finds_itself() {
        let seed = 3;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for round in 0..40 {
            let vertices = 1 + random.below(30);
            let edges: Vec<(u32, u32)> = (0..random.below(100))
                .map(|_| (random.below(vertices) as u32, random.below(vertices) as u32))
                .collect();
            let options = Options { symmetric: round % 2 == 0, keep_self_loops: true };
            let graph = Graph::from_edges(vertices, edges.iter().copied(), options).unwrap();
            let (incoming, outgoing) = (graph.incoming(), graph.outgoing());
            let positions = Positions::new(outgoing, incoming).unwrap();
            let targets: Vec<u32> = graph.edge_list().map(|(_, target)| target).collect();
            let mut edge = 0;
            for u in 0..graph.vertices() {
                for &v in graph.out_neighbours(u) {
                    let place = positions.get(edge);
                    assert_eq!((incoming.neighbours()[place], targets[place]), (u, v));
                    edge += 1;
                }
            }
            assert_eq!(positions.len(), edge);
        }
    }

    #[test]
    fn parallel_edges_keep_their_order_and_others_are_refused() {
        let lists = |offsets: Vec<u64>, neighbours: Vec<u32>| {
            Adjacency::from_parts_with(offsets, neighbours, Repeats::Allowed).unwrap()
        };
        // 0 -> 1 three times, 1 -> 1 twice.
        let (incoming, outgoing) =
            (lists(vec![0, 0, 5], vec![0, 0, 0, 1, 1]), lists(vec![0, 3, 5], vec![1; 5]));
        assert_eq!(Positions::new(&outgoing, &incoming).unwrap(), Positions::Short(vec![0, 1, 2, 3, 4]));
        let wrong = [
            lists(vec![0, 2, 5], vec![1; 5]),
            lists(vec![0, 3, 5], vec![0, 1, 1, 1, 1]),
            lists(vec![0, 3, 4], vec![1; 4]),
            lists(vec![0, 3, 5, 5], vec![1; 5]),
        ];
        for wrong in wrong {
            assert!(matches!(Positions::new(&wrong, &incoming), Err(Error::Mismatch { .. })), "{wrong:?}");
        }
    }
}
