//! A graph as compressed adjacency: for each vertex the ascending list of its in-neighbours.
//!
//! Vertex ids are 32-bit and dense, offsets are 64-bit. No values are stored: normalisations are
//! functions of degrees.
//!
//! ```
//! use eciton_graph::adjacency::{Graph, Options};
//! let edges = [(0, 1), (1, 2)];
//! let graph = Graph::from_edges(3, edges.into_iter(), Options::default())?;
//! assert_eq!((graph.edges(), graph.in_neighbours(1)), (4, &[0, 2][..]));
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

use crate::error::{Error, Place, Result};

/// The most vertices of a graph: ids are u32 and the largest is kept for "none".
pub const MAX_VERTICES: u64 = u32::MAX as u64 - 1;

/// How [`Graph::from_edges`] reads its edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Adds the reverse of every edge. Default: true.
    pub symmetric: bool,
    /// Keeps edges from a vertex to itself. Default: false.
    pub keep_self_loops: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { symmetric: true, keep_self_loops: false }
    }
}

/// Lists of neighbours, one a vertex: `neighbours[offsets[v]..offsets[v + 1]]`, ascending, without
/// repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjacency {
    offsets: Vec<u64>,
    neighbours: Vec<u32>,
}

impl Adjacency {
    /// `[V + 1]`, from 0, never descending.
    #[inline]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// `[E]`, ascending within each vertex.
    #[inline]
    pub fn neighbours(&self) -> &[u32] {
        &self.neighbours
    }

    /// The neighbours of `vertex`; none for a vertex that does not exist.
    #[inline]
    pub fn of(&self, vertex: u32) -> &[u32] {
        let v = vertex as usize;
        match (self.offsets.get(v), self.offsets.get(v + 1)) {
            (Some(&from), Some(&to)) => &self.neighbours[from as usize..to as usize],
            _ => &[],
        }
    }

    /// Counting sort by `key`, then a sort and the removal of repeats within each list.
    /// `edges` yields (key, value), both below `vertices`.
    fn sorted(vertices: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut ends = vec![0u64; vertices + 1];
        for (key, _) in edges.clone() {
            ends[key as usize + 1] += 1;
        }
        for v in 0..vertices {
            ends[v + 1] += ends[v];
        }
        // `ends[v]` is where the next neighbour of v goes, and so becomes the end of v's list.
        let mut neighbours = vec![0u32; ends[vertices] as usize];
        for (key, value) in edges {
            let end = &mut ends[key as usize];
            if let Some(slot) = neighbours.get_mut(*end as usize) {
                *slot = value;
                *end += 1;
            }
        }
        let mut offsets = vec![0u64; vertices + 1];
        let (mut from, mut kept) = (0usize, 0usize);
        for v in 0..vertices {
            let to = (ends[v] as usize).clamp(from, neighbours.len());
            let list = &mut neighbours[from..to];
            if !list.is_sorted() {
                list.sort_unstable();
            }
            let mut last = None;
            for at in from..to {
                let value = neighbours[at];
                if last != Some(value) {
                    neighbours[kept] = value;
                    kept += 1;
                    last = Some(value);
                }
            }
            offsets[v + 1] = kept as u64;
            from = to;
        }
        neighbours.truncate(kept);
        neighbours.shrink_to_fit();
        Self { offsets, neighbours }
    }
}

/// A graph: in-neighbours of every vertex, and out-neighbours where they differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    incoming: Adjacency,
    /// None where every edge has its reverse.
    outgoing: Option<Adjacency>,
}

impl Graph {
    /// Builds a graph of `vertices` vertices from edges (source, target), in any order and with any
    /// repeats. The iterator is read twice, so that nothing is collected; a second reading that
    /// differs from the first gives an unspecified graph.
    ///
    /// # Errors
    /// [`Error::EmptyGraph`], [`Error::Limit`] above [`MAX_VERTICES`], and
    /// [`Error::UnknownVertex`] with the edge's position for an id that is not below `vertices`.
    pub fn from_edges(
        vertices: u64,
        edges: impl Iterator<Item = (u32, u32)> + Clone,
        options: Options,
    ) -> Result<Self> {
        check_vertices(vertices, || Place::whole("graph"))?;
        for (position, (source, target)) in edges.clone().enumerate() {
            for vertex in [source, target] {
                if u64::from(vertex) >= vertices {
                    return Err(Error::UnknownVertex {
                        place: Place::row("edges", position as u64),
                        vertex: vertex.to_string(),
                        known: format!("vertices are 0..{vertices}"),
                    });
                }
            }
        }
        // An id checked above may differ in a second reading; those are dropped, not trusted.
        let kept = edges.filter(move |&(s, t)| {
            (options.keep_self_loops || s != t) && u64::from(s) < vertices && u64::from(t) < vertices
        });
        let vertices = vertices as usize;
        if options.symmetric {
            let both = kept.flat_map(|(s, t)| std::iter::once((t, s)).chain((s != t).then_some((s, t))));
            return Ok(Self { incoming: Adjacency::sorted(vertices, both), outgoing: None });
        }
        let incoming = Adjacency::sorted(vertices, kept.clone().map(|(s, t)| (t, s)));
        let outgoing = Adjacency::sorted(vertices, kept);
        let outgoing = (outgoing != incoming).then_some(outgoing);
        Ok(Self { incoming, outgoing })
    }

    /// The number of vertices; never 0.
    pub fn vertices(&self) -> u32 {
        (self.incoming.offsets.len() - 1) as u32
    }

    /// The number of directed edges: an undirected edge counts twice.
    pub fn edges(&self) -> u64 {
        self.incoming.neighbours.len() as u64
    }

    /// Whether every edge has its reverse.
    pub fn symmetric(&self) -> bool {
        self.outgoing.is_none()
    }

    /// The sources of the edges into `vertex`, ascending; none for a vertex that does not exist.
    pub fn in_neighbours(&self, vertex: u32) -> &[u32] {
        self.incoming.of(vertex)
    }

    /// The number of edges into `vertex`.
    #[inline]
    pub fn in_degree(&self, vertex: u32) -> u32 {
        self.in_neighbours(vertex).len() as u32
    }

    /// The targets of the edges out of `vertex`, ascending.
    pub fn out_neighbours(&self, vertex: u32) -> &[u32] {
        self.outgoing().of(vertex)
    }

    /// All in-neighbours: `offsets [V + 1]`, `neighbours [E]`.
    #[inline]
    pub fn incoming(&self) -> &Adjacency {
        &self.incoming
    }

    /// All out-neighbours; the same lists as [`Graph::incoming`] where the graph is symmetric.
    #[inline]
    pub fn outgoing(&self) -> &Adjacency {
        self.outgoing.as_ref().unwrap_or(&self.incoming)
    }

    /// `[V + 1]`: where each vertex's in-neighbours begin.
    #[inline]
    pub fn offsets(&self) -> &[u64] {
        &self.incoming.offsets
    }

    /// `[E]`: all in-neighbours, vertex after vertex.
    #[inline]
    pub fn neighbours(&self) -> &[u32] {
        &self.incoming.neighbours
    }

    /// The stored out-neighbours; none where the graph is symmetric and is its own transpose.
    pub fn transpose(&self) -> Option<&Adjacency> {
        self.outgoing.as_ref()
    }

    /// All directed edges (source, target), by target.
    pub fn edge_list(&self) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        (0..self.vertices()).flat_map(|t| self.in_neighbours(t).iter().map(move |&s| (s, t)))
    }
}

/// Refuses a graph without vertices, and one with more than [`MAX_VERTICES`].
pub(crate) fn check_vertices(vertices: u64, place: impl Fn() -> Place) -> Result<()> {
    if vertices == 0 {
        return Err(Error::EmptyGraph { place: place() });
    }
    if vertices > MAX_VERTICES {
        return Err(Error::Limit {
            place: place(),
            limit: "vertices",
            unit: "vertices",
            allowed: MAX_VERTICES,
            found: vertices,
            remedy: "cut the graph into parts",
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::random::SplitMix64;
    use std::collections::BTreeSet;

    #[test]
    fn symmetric_without_loops_or_repeats() {
        let edges = [(0, 1), (1, 0), (0, 1), (2, 2), (3, 1)];
        let graph = Graph::from_edges(5, edges.into_iter(), Options::default()).unwrap();
        assert!(graph.symmetric() && graph.transpose().is_none());
        assert_eq!(graph.edges(), 4);
        assert_eq!(graph.in_neighbours(1), [0, 3]);
        assert_eq!(graph.in_neighbours(2), [] as [u32; 0]);
        assert_eq!(graph.in_neighbours(99), [] as [u32; 0]);
        assert_eq!(graph.offsets(), [0, 1, 3, 3, 4, 4]);
    }

    #[test]
    fn directed_keeps_its_transpose() {
        let options = Options { symmetric: false, keep_self_loops: true };
        let graph = Graph::from_edges(3, [(0, 1), (2, 2), (2, 1)].into_iter(), options).unwrap();
        assert_eq!(graph.in_neighbours(1), [0, 2]);
        assert_eq!(graph.out_neighbours(2), [1, 2]);
        assert_eq!(graph.transpose().unwrap().of(0), [1]);
    }

    #[test]
    fn loops_are_kept_once_when_asked() {
        let options = Options { keep_self_loops: true, ..Options::default() };
        let graph = Graph::from_edges(2, [(1, 1), (0, 1)].into_iter(), options).unwrap();
        assert_eq!(graph.in_neighbours(1), [0, 1]);
        assert_eq!(graph.edges(), 3);
    }

    #[test]
    fn refusals_name_the_place() {
        let none = std::iter::empty();
        assert!(matches!(
            Graph::from_edges(0, none.clone(), Options::default()),
            Err(Error::EmptyGraph { .. })
        ));
        assert!(matches!(
            Graph::from_edges(MAX_VERTICES + 1, none, Options::default()),
            Err(Error::Limit { .. })
        ));
        let text =
            Graph::from_edges(3, [(0, 1), (1, 3)].into_iter(), Options::default()).unwrap_err().to_string();
        assert!(text.contains("row 1") && text.contains("vertex 3") && text.contains("0..3"), "{text}");
    }

    #[test]
    fn equals_a_set_of_pairs() {
        let seed = 7;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for _ in 0..50 {
            let vertices = 1 + random.below(40);
            let edges: Vec<(u32, u32)> = (0..random.below(300))
                .map(|_| (random.below(vertices) as u32, random.below(vertices) as u32))
                .collect();
            for symmetric in [true, false] {
                for keep_self_loops in [true, false] {
                    let options = Options { symmetric, keep_self_loops };
                    let graph = Graph::from_edges(vertices, edges.iter().copied(), options).unwrap();
                    let mut expected = BTreeSet::new();
                    for &(s, t) in &edges {
                        if s != t || keep_self_loops {
                            expected.insert((t, s));
                            if symmetric {
                                expected.insert((s, t));
                            }
                        }
                    }
                    let found: Vec<_> = graph.edge_list().map(|(s, t)| (t, s)).collect();
                    assert_eq!(found, expected.iter().copied().collect::<Vec<_>>());
                    let mut out: Vec<_> = expected.iter().map(|&(t, s)| (s, t)).collect();
                    out.sort_unstable();
                    let found: Vec<_> = (0..graph.vertices())
                        .flat_map(|s| graph.out_neighbours(s).iter().map(move |&t| (s, t)))
                        .collect();
                    assert_eq!(found, out);
                }
            }
        }
    }
}
