//! Vertex orders: permutations of vertex ids that bring neighbours close to each other.
//!
//! A gather reads one row for each edge. Where the ids of a vertex's neighbours are near its own
//! and near each other, those rows are in cache more often, and gaps between ids take fewer bits.
//! An order is computed from the graph alone, applied with [`permute_graph`] or
//! [`permute_dataset`], and taken back from results with [`rows_back`], so that a user never sees
//! it. All orders look at the union of both directions, are deterministic, near-linear and
//! iterative (no path is too long).
//!
//! ```
//! use eciton_graph::adjacency::{Graph, Options};
//! use eciton_graph::order::{Order, Permutation, bandwidth, permute_graph};
//! // The path 1 - 4 - 0 - 3 - 2.
//! let edges = [(1, 4), (4, 0), (0, 3), (3, 2)];
//! let graph = Graph::from_edges(5, edges.into_iter(), Options::default())?;
//! let order = Permutation::of(&graph, Order::ReverseCuthillMckee);
//! assert_eq!(order.old_of_new(), [1, 4, 0, 3, 2]);
//! assert_eq!((bandwidth(&graph), bandwidth(&permute_graph(&graph, &order)?)), (4, 1));
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

use std::fmt;

use crate::adjacency::{Graph, MAX_VERTICES};
use crate::error::{Error, Place, Result};

mod apply;
mod cuthill_mckee;
mod degree;
mod lists;
mod rabbit;
mod survey;

pub use apply::{Reordered, permute_dataset, rows_back};
pub use lists::permute_graph;
pub use survey::{Gain, SURVEY_WIDTHS, Survey};

/// Order of the vertices of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// The order of the vertices in the graph.
    Natural,
    /// Vertices of many neighbours first, ties by id: the rows that are read most lie together.
    /// 16 bytes a vertex.
    Degree,
    /// Reverse Cuthill-McKee (Cuthill and McKee 1969; George 1971), each component from a
    /// pseudo-peripheral vertex (George and Liu 1979), components by their lowest id, vertices
    /// without neighbours last: small bandwidth. Suits meshes, roads and other graphs of long
    /// distances. 17 bytes a vertex, and 8 for each neighbour of the largest vertex.
    ReverseCuthillMckee,
    /// Rabbit order (Arai, Shiokawa, Yamamuro, Onizuka and Iwamura 2016): vertices join the
    /// neighbouring community of highest gain in modularity, and the tree of who joined whom is
    /// numbered depth first, so that communities within communities are ranges of ids. Suits graphs
    /// of people, products and pages. 44 bytes a vertex; while it runs, up to 8 bytes an edge
    /// (seldom a tenth of it).
    Rabbit,
}

impl Order {
    /// All orders, the natural one first.
    pub const ALL: [Self; 4] = [Self::Natural, Self::Degree, Self::ReverseCuthillMckee, Self::Rabbit];

    /// Returns the order's name in lower case, as for `--order`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Natural => "natural",
            Self::Degree => "degree",
            Self::ReverseCuthillMckee => "rcm",
            Self::Rabbit => "rabbit",
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A bijection between old and new vertex ids, both 0..V; 8 bytes a vertex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    new_of_old: Vec<u32>,
    old_of_new: Vec<u32>,
}

impl Permutation {
    /// Every vertex keeps its id.
    ///
    /// # Errors
    /// [`Error::Limit`] above [`MAX_VERTICES`].
    pub fn identity(vertices: u64) -> Result<Self> {
        check_len(vertices)?;
        let same: Vec<u32> = (0..vertices as u32).collect();
        Ok(Self { new_of_old: same.clone(), old_of_new: same })
    }

    /// From the old vertices in their new order.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the position of an id that is not below the length or is there
    /// twice, [`Error::Limit`] above [`MAX_VERTICES`].
    pub fn from_old_of_new(old_of_new: Vec<u32>) -> Result<Self> {
        let new_of_old = inverted(&old_of_new)?;
        Ok(Self { new_of_old, old_of_new })
    }

    /// From each old vertex's new id.
    ///
    /// # Errors
    /// As [`Permutation::from_old_of_new`].
    pub fn from_new_of_old(new_of_old: Vec<u32>) -> Result<Self> {
        let old_of_new = inverted(&new_of_old)?;
        Ok(Self { new_of_old, old_of_new })
    }

    /// The permutation that puts `graph` into `order`: a function of its edges alone.
    pub fn of(graph: &Graph, order: Order) -> Self {
        let old_of_new = match order {
            Order::Natural => (0..graph.vertices()).collect(),
            Order::Degree => degree::order(graph),
            Order::ReverseCuthillMckee => cuthill_mckee::order(graph),
            Order::Rabbit => rabbit::order(graph),
        };
        let mut new_of_old = vec![0; old_of_new.len()];
        for (new, &old) in old_of_new.iter().enumerate() {
            new_of_old[old as usize] = new as u32;
        }
        Self { new_of_old, old_of_new }
    }

    /// The number of vertices.
    pub fn len(&self) -> usize {
        self.new_of_old.len()
    }

    /// Returns whether there are no vertices.
    pub fn is_empty(&self) -> bool {
        self.new_of_old.is_empty()
    }

    /// Returns whether every vertex keeps its id.
    pub fn is_identity(&self) -> bool {
        self.old_of_new.iter().enumerate().all(|(new, &old)| new == old as usize)
    }

    /// `[V]`: each old vertex's new id.
    #[inline]
    pub fn new_of_old(&self) -> &[u32] {
        &self.new_of_old
    }

    /// `[V]`: the old vertices in their new order.
    #[inline]
    pub fn old_of_new(&self) -> &[u32] {
        &self.old_of_new
    }

    /// The way back: old and new change places.
    pub fn inverse(self) -> Self {
        Self { new_of_old: self.old_of_new, old_of_new: self.new_of_old }
    }

    /// First this one, then `next`, which takes this one's new ids as its old ones.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if they differ in vertices.
    pub fn then(&self, next: &Self) -> Result<Self> {
        self.check(next.len(), "vertices", "permutation")?;
        let through = |first: &[u32], second: &[u32]| first.iter().map(|&v| second[v as usize]).collect();
        Ok(Self {
            new_of_old: through(&self.new_of_old, &next.new_of_old),
            old_of_new: through(&next.old_of_new, &self.old_of_new),
        })
    }

    /// Refuses `found` things of which there should be one a vertex.
    fn check(&self, found: usize, what: &'static str, place: &str) -> Result<()> {
        if found == self.len() {
            return Ok(());
        }
        Err(Error::Mismatch {
            place: Place::whole(place),
            what,
            found: found as u64,
            expected: self.len() as u64,
            other: "the vertex order".to_owned(),
        })
    }
}

fn check_len(vertices: u64) -> Result<()> {
    if vertices <= MAX_VERTICES {
        return Ok(());
    }
    Err(Error::Limit {
        place: Place::whole("permutation"),
        limit: "vertices",
        unit: "vertices",
        allowed: MAX_VERTICES,
        found: vertices,
        remedy: "cut the graph into parts",
    })
}

fn inverted(ids: &[u32]) -> Result<Vec<u32>> {
    check_len(ids.len() as u64)?;
    // No vertex has this id, by the limit.
    const NONE: u32 = u32::MAX;
    let mut inverse = vec![NONE; ids.len()];
    for (at, &id) in ids.iter().enumerate() {
        let problem = match inverse.get_mut(id as usize) {
            Some(slot) if *slot == NONE => {
                *slot = at as u32;
                continue;
            }
            Some(first) => format!("{id}, which row {first} has as well"),
            None => id.to_string(),
        };
        return Err(Error::Malformed {
            place: Place::row("permutation", at as u64),
            expected: format!("each id of 0..{} once", ids.len()),
            found: problem,
            remedy: "list every vertex once",
        });
    }
    Ok(inverse)
}

/// The largest |u - v| over all edges (u, v); 0 without edges.
pub fn bandwidth(graph: &Graph) -> u32 {
    // Lists ascend: only their ends can be farthest.
    let ends = |v| graph.in_neighbours(v).first().into_iter().chain(graph.in_neighbours(v).last());
    (0..graph.vertices()).flat_map(|v| ends(v).map(move |u| u.abs_diff(v))).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn faults_name_the_row() {
        let text = |ids: &[u32]| Permutation::from_old_of_new(ids.to_vec()).unwrap_err().to_string();
        assert!(text(&[0, 2, 3]).contains("row 2: expected each id of 0..3 once, found 3;"));
        assert!(text(&[1, 0, 1]).contains("row 2: expected each id of 0..3 once, found 1, which row 0 has"));
        assert!(Permutation::from_new_of_old(vec![u32::MAX]).is_err());
        assert!(matches!(Permutation::identity(MAX_VERTICES + 1), Err(Error::Limit { .. })));
        let two = Permutation::identity(2).unwrap();
        assert!(matches!(Permutation::identity(3).unwrap().then(&two), Err(Error::Mismatch { .. })));
        assert!(Permutation::identity(0).unwrap().is_empty());
    }

    #[test]
    fn compositions() {
        let a = Permutation::from_old_of_new(vec![2, 0, 3, 1]).unwrap();
        let b = Permutation::from_new_of_old(vec![1, 2, 0, 3]).unwrap();
        let both = a.then(&b).unwrap();
        for v in 0..4 {
            let new = both.new_of_old()[v];
            assert_eq!(new, b.new_of_old()[a.new_of_old()[v] as usize]);
            assert_eq!(both.old_of_new()[new as usize], v as u32);
        }
        assert!(a.then(&a.clone().inverse()).unwrap().is_identity());
        assert!(!a.is_identity() && Permutation::identity(4).unwrap().is_identity());
    }
}
