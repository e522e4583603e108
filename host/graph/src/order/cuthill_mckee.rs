//! Reverse Cuthill-McKee order, which is a breadth-first search from the periphery of each
//! component, in reverse.

use crate::adjacency::Graph;
use crate::links::Links;

/// Maximum number of searches for a better start vertex of a component. A few are nearly always
/// enough, and the limit keeps the time linear in all cases.
const MAX_WALKS: usize = 8;

/// Returns the vertices in reverse Cuthill-McKee order. Components are ordered by their lowest id,
/// and vertices without neighbours are last.
pub(super) fn order(graph: &Graph) -> Vec<u32> {
    let view = Links::new(graph);
    let vertices = view.vertices();
    let degrees = view.degrees();
    let mut walk = Walk {
        view,
        degrees: &degrees,
        reached: Bits::new(vertices),
        order: Vec::with_capacity(vertices as usize),
        level: Vec::new(),
    };
    for vertex in 0..vertices {
        if degrees[vertex as usize] > 0 && !walk.reached.holds(vertex) {
            let start = walk.peripheral(vertex);
            let first = walk.order.len();
            walk.number(start);
            walk.order[first..].reverse();
        }
    }
    let mut order = walk.order;
    order.extend((0..vertices).filter(|&v| degrees[v as usize] == 0));
    order
}

/// State of breadth-first searches in one graph. The end of `order` serves as the queue.
struct Walk<'a> {
    view: Links<'a>,
    degrees: &'a [u32],
    reached: Bits,
    order: Vec<u32>,
    /// Scratch memory for the neighbours of one vertex. Each number combines a neighbour's degree
    /// and id.
    level: Vec<u64>,
}

impl Walk<'_> {
    /// Returns a pseudo-peripheral vertex of the component that contains `vertex`.
    fn peripheral(&mut self, vertex: u32) -> u32 {
        let (mut depth, mut farthest) = self.depth(vertex);
        for _ in 1..MAX_WALKS {
            let (deeper, next) = self.depth(farthest);
            if deeper <= depth {
                break;
            }
            (depth, farthest) = (deeper, next);
        }
        farthest
    }

    /// Returns the distance from `start` to the farthest vertices, and one of these vertices. It
    /// has the lowest degree, and among equal degrees the lowest id.
    fn depth(&mut self, start: u32) -> (u32, u32) {
        let first = self.order.len();
        self.reached.insert(start);
        self.order.push(start);
        let (mut from, mut depth) = (first, 0);
        loop {
            let to = self.order.len();
            for at in from..to {
                let (order, reached) = (&mut self.order, &mut self.reached);
                self.view.partners(order[at]).for_each(|u| {
                    if reached.insert(u) {
                        order.push(u);
                    }
                });
            }
            if self.order.len() == to {
                break;
            }
            (from, depth) = (to, depth + 1);
        }
        let key = |&&v: &&u32| (self.degrees[v as usize], v);
        let farthest = self.order[from..].iter().min_by_key(key).copied().unwrap_or(start);
        for v in self.order.drain(first..) {
            self.reached.remove(v);
        }
        (depth, farthest)
    }

    /// Appends the component that contains `start`, in Cuthill-McKee order.
    fn number(&mut self, start: u32) {
        let mut at = self.order.len();
        self.reached.insert(start);
        self.order.push(start);
        while let Some(&v) = self.order.get(at) {
            at += 1;
            self.level.clear();
            let (level, reached, degrees) = (&mut self.level, &mut self.reached, self.degrees);
            self.view.partners(v).for_each(|u| {
                if reached.insert(u) {
                    level.push(u64::from(degrees[u as usize]) << 32 | u64::from(u));
                }
            });
            level.sort_unstable();
            self.order.extend(level.iter().map(|&key| key as u32));
        }
    }
}

/// Set of vertices that takes one bit per vertex.
struct Bits(Vec<u64>);

impl Bits {
    fn new(vertices: u32) -> Self {
        Self(vec![0; (vertices as usize).div_ceil(64)])
    }

    #[inline]
    fn holds(&self, vertex: u32) -> bool {
        self.0[vertex as usize / 64] >> (vertex % 64) & 1 == 1
    }

    /// Adds a vertex to the set. Returns true if the set did not contain it before.
    #[inline]
    fn insert(&mut self, vertex: u32) -> bool {
        let (word, bit) = (&mut self.0[vertex as usize / 64], 1 << (vertex % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    #[inline]
    fn remove(&mut self, vertex: u32) {
        self.0[vertex as usize / 64] &= !(1 << (vertex % 64));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::adjacency::Options;

    #[test]
    fn components_by_lowest_id_and_lone_vertices_last() {
        // 1 - 5 - 3 is a path, 4 - 2 another; 0 and 6 are alone.
        let edges = [(1, 5), (5, 3), (4, 2)];
        let graph = Graph::from_edges(7, edges.into_iter(), Options::default()).unwrap();
        assert_eq!(order(&graph), [1, 5, 3, 2, 4, 0, 6]);
    }
}
