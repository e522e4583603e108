//! Vertex orders, which are permutations of vertex ids that bring neighbours close to each other.
//!
//! A gather reads one row for each edge. If the ids of a vertex's neighbours are close to its own
//! and to each other, those rows are in cache more often, and gaps between ids take fewer bits. An
//! order is computed from the graph alone. [`permute_graph`] or [`permute_dataset`] applies it, and
//! [`rows_back`] restores the user's order in results, so that a user never sees it. All orders
//! ignore edge directions and are deterministic. They take near-linear time and use no recursion,
//! so that long paths cannot overflow the stack.
//!
//! ```
//! use eciton_graph::adjacency::{Graph, Options};
//! use eciton_graph::order::{Order, Permutation, bandwidth, permute_graph};
//! // The path 1 - 4 - 0 - 3 - 2.
//! let edges = [(1, 4), (4, 0), (0, 3), (3, 2)];
//! let graph = Graph::from_edges(5, edges.into_iter(), Options::default())?;
//! let order = Permutation::compute(&graph, Order::ReverseCuthillMckee);
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

pub(crate) use apply::ByVertex;
pub use apply::{Reordered, permute_dataset, rows_back};
pub use lists::permute_graph;
pub use survey::{Gain, SURVEY_WIDTHS, Survey};

/// Algorithm by which the vertices of a graph are renumbered, so that gathers are faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// The order of the vertices in the input.
    Natural,
    /// Descending number of neighbours, so that the rows that are read most are together. Ties are
    /// in the order of ids. The computation takes 16 bytes per vertex.
    Degree,
    /// Reverse Cuthill-McKee (Cuthill and McKee 1969; George 1971), which gives a small bandwidth.
    /// Each component starts at a pseudo-peripheral vertex (George and Liu 1979). Components are
    /// ordered by their lowest id, and vertices without neighbours are last. It suits meshes, roads
    /// and other graphs with long distances. The computation takes 17 bytes per vertex, and 8 bytes
    /// for each neighbour of the vertex with the most.
    ReverseCuthillMckee,
    /// Rabbit order (Arai, Shiokawa, Yamamuro, Onizuka and Iwamura 2016). Each vertex joins the
    /// neighbouring community with the highest gain in modularity. The tree of these merges is
    /// numbered depth first, so that nested communities are ranges of ids. It suits graphs of
    /// people, products and pages. The computation takes 44 bytes per vertex, and temporarily up to
    /// 8 bytes per edge (seldom a tenth of that).
    Rabbit,
}

impl Order {
    /// All orders, of which the natural one is the first.
    pub const ALL: [Self; 4] = [Self::Natural, Self::Degree, Self::ReverseCuthillMckee, Self::Rabbit];

    /// Returns the name of the order in the option `--order`, for instance `rabbit`.
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

/// Bijection between old and new vertex ids, both of which are 0..V. It takes 8 bytes per vertex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    new_of_old: Vec<u32>,
    old_of_new: Vec<u32>,
}

impl Permutation {
    /// Creates the permutation that changes no vertex id.
    ///
    /// # Errors
    /// Returns [`Error::Limit`] for more than [`MAX_VERTICES`] vertices.
    pub fn identity(vertices: u64) -> Result<Self> {
        check_len(vertices)?;
        let same: Vec<u32> = (0..vertices as u32).collect();
        Ok(Self { new_of_old: same.clone(), old_of_new: same })
    }

    /// Creates a permutation from the list of old vertex ids in their new order.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] with the position of an id that is too large or occurs twice,
    /// and [`Error::Limit`] for more than [`MAX_VERTICES`] vertices.
    pub fn from_old_of_new(old_of_new: Vec<u32>) -> Result<Self> {
        let new_of_old = inverted(&old_of_new)?;
        Ok(Self { new_of_old, old_of_new })
    }

    /// Creates a permutation from the list of the new id of each old vertex.
    ///
    /// # Errors
    /// Returns the errors of [`Permutation::from_old_of_new`].
    pub fn from_new_of_old(new_of_old: Vec<u32>) -> Result<Self> {
        let old_of_new = inverted(&new_of_old)?;
        Ok(Self { new_of_old, old_of_new })
    }

    /// Computes the permutation that brings the vertices of `graph` into the order `order`. It
    /// depends only on the edges of the graph.
    pub fn compute(graph: &Graph, order: Order) -> Self {
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

    /// Returns the number of vertices.
    pub fn len(&self) -> usize {
        self.new_of_old.len()
    }

    /// Returns true if there are no vertices.
    pub fn is_empty(&self) -> bool {
        self.new_of_old.is_empty()
    }

    /// Returns true if no vertex changes its id.
    pub fn is_identity(&self) -> bool {
        self.old_of_new.iter().enumerate().all(|(new, &old)| new == old as usize)
    }

    /// Returns the list of the new id of each old vertex.
    #[inline]
    pub fn new_of_old(&self) -> &[u32] {
        &self.new_of_old
    }

    /// Returns the list of old vertex ids in their new order.
    #[inline]
    pub fn old_of_new(&self) -> &[u32] {
        &self.old_of_new
    }

    /// Returns the inverse permutation, which maps new ids to old ids.
    pub fn inverse(self) -> Self {
        Self { new_of_old: self.old_of_new, old_of_new: self.new_of_old }
    }

    /// Returns the permutation that applies this permutation and then `next`. The old ids of `next`
    /// are the new ids of this permutation.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the numbers of vertices differ.
    pub fn then(&self, next: &Self) -> Result<Self> {
        self.check(next.len(), "vertices", "permutation")?;
        let through = |first: &[u32], second: &[u32]| first.iter().map(|&v| second[v as usize]).collect();
        Ok(Self {
            new_of_old: through(&self.new_of_old, &next.new_of_old),
            old_of_new: through(&next.old_of_new, &self.old_of_new),
        })
    }

    /// Checks that the number of items `found` equals the number of vertices. `what` and `place`
    /// name the items in the error message.
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
        remedy: "divide the graph into smaller graphs",
    })
}

fn inverted(ids: &[u32]) -> Result<Vec<u32>> {
    check_len(ids.len() as u64)?;
    // No vertex has this id, because of the limit on the number of vertices.
    const NONE: u32 = u32::MAX;
    let mut inverse = vec![NONE; ids.len()];
    for (at, &id) in ids.iter().enumerate() {
        let problem = match inverse.get_mut(id as usize) {
            Some(slot) if *slot == NONE => {
                *slot = at as u32;
                continue;
            }
            Some(first) => format!("{id}, which row {first} contains as well"),
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

/// Returns the bandwidth of a graph, which is the largest |u - v| over all edges (u, v). It is 0
/// without edges.
pub fn bandwidth(graph: &Graph) -> u32 {
    // Lists ascend, so only their first and last entries can have the largest distance.
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
        assert!(
            text(&[1, 0, 1])
                .contains("row 2: expected each id of 0..3 once, found 1, which row 0 contains as well")
        );
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
