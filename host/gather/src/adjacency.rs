//! Graphs as compressed adjacency lists. Each vertex has an ascending list of its in-neighbours.
//!
//! Vertex ids are 32-bit and dense, offsets are 64-bit. No edge values are stored, because
//! normalisations are functions of vertex degrees.
//!
//! ```
//! use eciton_gather::adjacency::{Graph, Options};
//! let edges = [(0, 1), (1, 2)];
//! let graph = Graph::from_edges(3, edges.into_iter(), Options::default())?;
//! assert_eq!((graph.edges(), graph.in_neighbours(1)), (4, &[0, 2][..]));
//! # Ok::<(), eciton_gather::error::Error>(())
//! ```

use eciton_input::threads::{on_threads, shares, threads_for};
use eciton_tensor::Slab;

use crate::error::{Error, Place, Result};

/// Maximum number of vertices of a graph. Vertex ids are u32, of which the largest value is
/// reserved for "none".
pub const MAX_VERTICES: u64 = u32::MAX as u64 - 1;

/// Options of [`Graph::from_edges`], which say how edges become adjacency lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// If true, the reverse of every edge is added. The default is true.
    pub symmetric: bool,
    /// If true, edges from a vertex to itself are kept. The default is false.
    pub keep_self_loops: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { symmetric: true, keep_self_loops: false }
    }
}

/// Rule for adjacency lists in which the same neighbour occurs more than once (parallel edges).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// A repeated neighbour is an error.
    Refused,
    /// Repeated neighbours are allowed. Lists ascend, so equal neighbours are adjacent.
    Allowed,
}

/// Adjacency lists in compressed form (CSR). The neighbours of vertex `v` are
/// `neighbours[offsets[v]..offsets[v + 1]]`, in ascending order. A list contains each neighbour
/// once, unless it was checked with [`Repeats::Allowed`]. Every neighbour is a valid vertex.
/// Gathers rely on this, because they read rows at these indices without a further check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjacency {
    offsets: Slab<u64>,
    neighbours: Slab<u32>,
}

impl Adjacency {
    /// Creates adjacency lists and checks them. `offsets` has `V + 1` values that ascend from 0 to
    /// E, and `neighbours` has E values.
    ///
    /// # Errors
    /// Returns [`Error::EmptyGraph`] if there is no vertex, and [`Error::Limit`] for more than
    /// [`MAX_VERTICES`] vertices. Returns [`Error::Malformed`] if the offsets do not ascend to E,
    /// or if a list does not ascend or has repeats. Returns [`Error::UnknownVertex`] if a neighbour
    /// is not below V.
    pub fn from_parts(offsets: impl Into<Slab<u64>>, neighbours: impl Into<Slab<u32>>) -> Result<Self> {
        Self::from_parts_with(offsets, neighbours, Repeats::Refused)
    }

    /// Creates adjacency lists and checks them like [`Adjacency::from_parts`]. Parallel edges are
    /// allowed if `repeats` is [`Repeats::Allowed`].
    ///
    /// # Errors
    /// Returns the errors of [`Adjacency::from_parts`].
    pub fn from_parts_with(
        offsets: impl Into<Slab<u64>>,
        neighbours: impl Into<Slab<u32>>,
        repeats: Repeats,
    ) -> Result<Self> {
        let made = Self { offsets: offsets.into(), neighbours: neighbours.into() };
        made.check(repeats)?;
        Ok(made)
    }

    /// Creates adjacency lists without checking them.
    ///
    /// # Safety
    /// The lists must pass the checks of [`Adjacency::from_parts_with`], because gathers read rows
    /// at these indices without a further check.
    #[must_use]
    #[allow(unsafe_code)]
    pub unsafe fn from_parts_unchecked(offsets: Vec<u64>, neighbours: Vec<u32>) -> Self {
        Self { offsets: offsets.into(), neighbours: neighbours.into() }
    }

    /// Returns the memory slabs that contain the offsets and the neighbours.
    pub fn slabs(&self) -> (&Slab<u64>, &Slab<u32>) {
        (&self.offsets, &self.neighbours)
    }

    fn check(&self, repeats: Repeats) -> Result<()> {
        let (offsets, stored) = (&*self.offsets, self.neighbours.len() as u64);
        let place = || Place::whole("offsets");
        let vertices = (offsets.len() as u64).saturating_sub(1);
        check_vertices(vertices, place)?;
        if let Some(found) = offsets_fault(offsets, stored) {
            let expected = format!("offsets that ascend from 0 to {stored}, the number of neighbours");
            return Err(Error::malformed(place(), expected, found));
        }
        // Each thread checks a range with the same number of edges.
        let shares = threads_for(stored) as u64;
        let cut = |share: u64| match share == shares {
            true => vertices as usize,
            false => offsets.partition_point(|&o| o < stored / shares * share).min(vertices as usize),
        };
        let work = (0..shares).map(|share| cut(share)..cut(share + 1)).collect();
        // The first fault by vertex is returned, regardless of which thread found one first.
        on_threads(work, |own| self.check_lists(own, repeats)).into_iter().collect()
    }

    fn check_lists(&self, vertices: std::ops::Range<usize>, repeats: Repeats) -> Result<()> {
        let known = self.offsets.len() as u32 - 1;
        for v in vertices {
            let list = &self.neighbours[self.offsets[v] as usize..self.offsets[v + 1] as usize];
            let ascends = match repeats {
                Repeats::Refused => list.windows(2).all(|w| w[0] < w[1]),
                Repeats::Allowed => list.is_sorted(),
            };
            let place = || Place::row("neighbours", v as u64);
            if !ascends {
                let expected = "an ascending list of neighbours, each once";
                return Err(Error::malformed(
                    place(),
                    expected,
                    "a list that descends or repeats a neighbour",
                ));
            }
            if let Some(&last) = list.last().filter(|&&last| last >= known) {
                return Err(Error::UnknownVertex {
                    place: place(),
                    vertex: last.to_string(),
                    known: format!("vertices are 0..{known}"),
                });
            }
        }
        Ok(())
    }

    /// Returns the lists without the neighbours for which `keep` is false. `keep` has one value per
    /// vertex. The function allocates no memory besides the result.
    ///
    /// # Panics
    /// Panics if `keep` does not have one value per vertex.
    #[must_use]
    pub fn keeping(&self, keep: &[bool]) -> Self {
        assert_eq!(keep.len(), self.vertices() as usize, "which vertices are kept");
        let lists = |v: usize| &self.neighbours[self.offsets[v] as usize..self.offsets[v + 1] as usize];
        let threads = threads_for(self.neighbours.len() as u64);
        let work = shares(keep.len(), threads);
        let counted = on_threads(work.clone(), |own| {
            let kept = |v: usize| lists(v).iter().map(|&u| u64::from(keep[u as usize])).sum();
            own.map(kept).collect::<Vec<u64>>()
        });
        let mut offsets = Vec::with_capacity(keep.len() + 1);
        offsets.push(0);
        let mut stored = 0;
        offsets.extend(counted.into_iter().flatten().map(|count| {
            stored += count;
            stored
        }));
        let mut neighbours = vec![0; stored as usize];
        let mut left = &mut neighbours[..];
        let mut parts = Vec::with_capacity(work.len());
        for own in work {
            let (part, rest) = left.split_at_mut((offsets[own.end] - offsets[own.start]) as usize);
            left = rest;
            parts.push((own, part));
        }
        on_threads(parts, |(own, part)| {
            let mut next = 0;
            for v in own {
                for &u in lists(v) {
                    // A branch would be mispredicted. So each neighbour is written, and the next
                    // one overwrites it if it is dropped.
                    if let Some(to) = part.get_mut(next) {
                        *to = u;
                    }
                    next += usize::from(keep[u as usize]);
                }
            }
        });
        Self { offsets: offsets.into(), neighbours: neighbours.into() }
    }

    /// Returns the number of vertices.
    #[inline]
    pub fn vertices(&self) -> u32 {
        (self.offsets.len() - 1) as u32
    }

    /// Returns the V + 1 offsets, which ascend from 0 to the number of edges.
    #[inline]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Returns the neighbours of all vertices, one list after the other.
    #[inline]
    pub fn neighbours(&self) -> &[u32] {
        &self.neighbours
    }

    /// Returns the neighbours of `vertex`, in ascending order. Returns an empty slice if the vertex
    /// does not exist.
    #[inline]
    pub fn neighbours_of(&self, vertex: u32) -> &[u32] {
        let v = vertex as usize;
        match (self.offsets.get(v), self.offsets.get(v + 1)) {
            (Some(&from), Some(&to)) => &self.neighbours[from as usize..to as usize],
            _ => &[],
        }
    }
}

/// Directed graph with adjacency lists of in-neighbours and out-neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    incoming: Adjacency,
    /// Lists of out-neighbours. `None` if each edge has its reverse, because both lists are then
    /// equal.
    outgoing: Option<Adjacency>,
}

impl Graph {
    /// Creates a graph from its lists of in-neighbours and out-neighbours. `outgoing` must list
    /// each edge of `incoming` at the edge's source. It is `None` if each edge has its reverse. The
    /// function does not check that both contain the same edges.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if `incoming` and `outgoing` have different numbers of vertices
    /// or edges.
    pub fn from_parts(incoming: Adjacency, outgoing: Option<Adjacency>) -> Result<Self> {
        let sizes =
            |a: &Adjacency| [("vertices", u64::from(a.vertices())), ("edges", a.neighbours.len() as u64)];
        if let Some(outgoing) = &outgoing {
            for ((what, found), (_, expected)) in sizes(outgoing).into_iter().zip(sizes(&incoming)) {
                if found != expected {
                    let (place, other) = (Place::whole("outgoing lists"), "the incoming lists".to_owned());
                    return Err(Error::Mismatch { place, what, found, expected, other });
                }
            }
        }
        Ok(Self { incoming, outgoing })
    }

    /// Creates a graph like [`Graph::from_parts`], but does not compare the numbers of vertices and
    /// edges.
    #[must_use]
    pub fn from_pair(incoming: Adjacency, outgoing: Option<Adjacency>) -> Self {
        Self { incoming, outgoing }
    }

    /// Creates a graph of `vertices` vertices from edges (source, target), which may have any order
    /// and repeats. The edges are collected and sorted on one thread. For large graphs, use
    /// `eciton_graph::build`.
    ///
    /// # Errors
    /// Returns [`Error::EmptyGraph`] if `vertices` is 0, and [`Error::Limit`] for more than
    /// [`MAX_VERTICES`] vertices. Returns [`Error::UnknownVertex`] with the edge's position for an
    /// id that is not below `vertices`.
    pub fn from_edges(
        vertices: u64,
        edges: impl Iterator<Item = (u32, u32)>,
        options: Options,
    ) -> Result<Self> {
        check_vertices(vertices, || Place::whole("graph"))?;
        let edges: Vec<_> = edges.collect();
        if let Some(row) = edges.iter().position(|&(s, t)| u64::from(s.max(t)) >= vertices) {
            let (source, target) = edges[row];
            return Err(Error::UnknownVertex {
                place: Place::row("edges", row as u64),
                vertex: if u64::from(source) >= vertices { source } else { target }.to_string(),
                known: format!("vertices are 0..{vertices}"),
            });
        }
        let edges = edges.into_iter().filter(|(s, t)| options.keep_self_loops || s != t);
        let both = edges.flat_map(|(s, t)| [Some((t, s)), options.symmetric.then_some((s, t))]);
        let incoming = lists(vertices, both.flatten().collect())?;
        let outgoing = match options.symmetric {
            true => None,
            false => {
                let targets =
                    (0..vertices as u32).flat_map(|t| incoming.neighbours_of(t).iter().map(move |&s| (s, t)));
                Some(lists(vertices, targets.collect())?).filter(|outgoing| *outgoing != incoming)
            }
        };
        Self::from_parts(incoming, outgoing)
    }

    /// Returns the graph with all edges reversed.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self.outgoing {
            None => self,
            Some(outgoing) => Self { incoming: outgoing, outgoing: Some(self.incoming) },
        }
    }

    /// Returns the number of vertices, which is at least 1.
    #[inline]
    pub fn vertices(&self) -> u32 {
        self.incoming.vertices()
    }

    /// Returns the number of directed edges. An undirected edge counts twice.
    #[inline]
    pub fn edges(&self) -> u64 {
        self.incoming.neighbours.len() as u64
    }

    /// Returns true if each edge has its reverse.
    #[inline]
    pub fn symmetric(&self) -> bool {
        self.outgoing.is_none()
    }

    /// Returns the sources of the edges into `vertex`, in ascending order. Returns an empty slice
    /// if the vertex does not exist.
    #[inline]
    pub fn in_neighbours(&self, vertex: u32) -> &[u32] {
        self.incoming.neighbours_of(vertex)
    }

    /// Returns the number of edges into `vertex`.
    #[inline]
    pub fn in_degree(&self, vertex: u32) -> u32 {
        self.in_neighbours(vertex).len() as u32
    }

    /// Returns the targets of the edges out of `vertex`, in ascending order.
    #[inline]
    pub fn out_neighbours(&self, vertex: u32) -> &[u32] {
        self.outgoing().neighbours_of(vertex)
    }

    /// Returns the adjacency lists of in-neighbours.
    #[inline]
    pub fn incoming(&self) -> &Adjacency {
        &self.incoming
    }

    /// Returns the adjacency lists of out-neighbours. If the graph is symmetric, these are also the
    /// lists of in-neighbours.
    #[inline]
    pub fn outgoing(&self) -> &Adjacency {
        self.outgoing.as_ref().unwrap_or(&self.incoming)
    }

    /// Returns the V + 1 offsets of the lists of in-neighbours.
    #[inline]
    pub fn offsets(&self) -> &[u64] {
        &self.incoming.offsets
    }

    /// Returns the in-neighbours of all vertices, one list after the other.
    #[inline]
    pub fn neighbours(&self) -> &[u32] {
        &self.incoming.neighbours
    }

    /// Returns the lists of out-neighbours if they are stored separately, or `None` if the graph is
    /// symmetric.
    pub fn transpose(&self) -> Option<&Adjacency> {
        self.outgoing.as_ref()
    }

    /// Returns all directed edges (source, target), ordered by target.
    pub fn edge_list(&self) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        (0..self.vertices()).flat_map(|t| self.in_neighbours(t).iter().map(move |&s| (s, t)))
    }
}

/// Creates adjacency lists from pairs of a vertex and its neighbour. The pairs may have any order
/// and repeats.
fn lists(vertices: u64, mut pairs: Vec<(u32, u32)>) -> Result<Adjacency> {
    pairs.sort_unstable();
    pairs.dedup();
    let offsets = (0..=vertices).map(|v| pairs.partition_point(|&(of, _)| u64::from(of) < v) as u64);
    Adjacency::from_parts(offsets.collect::<Vec<_>>(), pairs.iter().map(|&(_, to)| to).collect::<Vec<_>>())
}

/// Returns a description of the first error in `offsets`, which must ascend from 0 to `stored`, the
/// number of list entries. Returns `None` if the offsets are valid.
pub fn offsets_fault(offsets: &[u64], stored: u64) -> Option<String> {
    match offsets {
        [] => Some("no offsets".to_owned()),
        [first, .., last] if (*first, *last) != (0, stored) => {
            Some(format!("offsets from {first} to {last}"))
        }
        [only] if (*only, stored) != (0, 0) => Some(format!("the single offset {only}")),
        _ => offsets.windows(2).position(|pair| pair[0] > pair[1]).map(|at| {
            format!("{} after {} (offset {} of {})", offsets[at + 1], offsets[at], at + 1, offsets.len())
        }),
    }
}

/// Checks that a graph has between 1 and [`MAX_VERTICES`] vertices. Errors contain the location
/// that `place` returns.
///
/// # Errors
/// Returns [`Error::EmptyGraph`] for 0 vertices and [`Error::Limit`] for too many.
pub fn check_vertices(vertices: u64, place: impl Fn() -> Place) -> Result<()> {
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
            remedy: "divide the graph into smaller graphs",
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
        assert_eq!(graph.transpose().unwrap().neighbours_of(0), [1]);
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
    fn parts_are_checked() {
        let parts = |offsets: &[u64], lists: &[u32]| Adjacency::from_parts(offsets.to_vec(), lists.to_vec());
        let fine = parts(&[0, 2, 2, 3], &[1, 2, 0]).unwrap();
        assert_eq!((fine.vertices(), fine.neighbours_of(0)), (3, &[1, 2][..]));
        let text = |offsets: &[u64], lists: &[u32]| parts(offsets, lists).unwrap_err().to_string();
        assert!(text(&[0, 2, 2, 3], &[1, 3, 0]).contains("neighbours, row 0: an edge names vertex 3"));
        assert!(text(&[0, 2, 2, 3], &[2, 1, 0]).contains("row 0"));
        assert!(text(&[0, 2, 2, 3], &[2, 2, 0]).contains("each once"));
        assert!(text(&[0, 2, 1, 3], &[1, 2, 0]).contains("offsets that ascend"));
        assert!(text(&[1, 2, 2, 3], &[1, 2, 0]).contains("offsets that ascend"));
        assert!(text(&[0, 2, 2, 4], &[1, 2, 0]).contains("ascend from 0 to 3"));
        assert!(text(&[0], &[]).contains("no vertices"));
        assert!(text(&[], &[]).contains("no vertices"));
        let repeated = Adjacency::from_parts_with(vec![0, 2], vec![0, 0], Repeats::Allowed).unwrap();
        assert!(Graph::from_parts(fine.clone(), Some(repeated)).is_err());
        assert!(Graph::from_parts(fine.clone(), Some(fine)).is_ok());
    }

    #[test]
    fn kept_neighbours_are_those_of_a_filter() {
        let seed = 8;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for round in 0..40 {
            // The last ones are worth several threads.
            let (vertices, edges) = if round < 37 { (1 + random.below(40), 300) } else { (3_000, 400_000) };
            let edges: Vec<_> = (0..random.below(edges))
                .map(|_| (random.below(vertices) as u32, random.below(vertices) as u32))
                .collect();
            let options = Options { symmetric: round % 2 == 0, keep_self_loops: round % 3 == 0 };
            let graph = Graph::from_edges(vertices, edges.into_iter(), options).unwrap();
            let keep: Vec<bool> = (0..vertices).map(|_| random.below(4) < round % 5).collect();
            let kept = graph.outgoing().keeping(&keep);
            let mut stored = 0;
            for v in 0..vertices as u32 {
                let wanted = graph.out_neighbours(v).iter().copied().filter(|&u| keep[u as usize]);
                assert_eq!(kept.neighbours_of(v), wanted.collect::<Vec<_>>(), "round {round}, vertex {v}");
                stored += kept.neighbours_of(v).len();
            }
            assert_eq!((kept.vertices(), kept.neighbours().len()), (graph.vertices(), stored));
        }
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
