//! A small random directed graph, and blocks of its edges as an edge kernel gets them.

use super::points::Numbers;

/// The global id of vertex 0, so that ids are no positions.
const FIRST: u64 = 5;

/// Edges in the order of one end.
#[derive(Debug, Clone)]
struct Lists {
    /// Bounds of each vertex's edges: one more than there are vertices.
    offsets: Vec<u32>,
    /// The other end of each edge.
    others: Vec<u32>,
}

impl Lists {
    /// From edges (own end, other end).
    fn new(vertices: u32, mut edges: Vec<(u32, u32)>) -> Self {
        edges.sort_unstable();
        let before = |own| edges.partition_point(|&(o, _)| o < own) as u32;
        Self { offsets: (0..=vertices).map(before).collect(), others: edges.iter().map(|e| e.1).collect() }
    }
}

/// The edges of some vertices.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Block {
    pub(super) offsets: Vec<u32>,
    pub(super) owners: Vec<u32>,
    /// The other end of each edge.
    pub(super) others: Vec<u32>,
    /// The global id of each edge.
    pub(super) ids: Vec<u64>,
}

impl Block {
    /// Own rows.
    pub(super) fn rows(&self) -> u32 {
        self.offsets.len() as u32 - 1
    }
}

/// A directed graph.
#[derive(Debug, Clone)]
pub(super) struct Graph {
    in_edges: Lists,
    out_edges: Lists,
}

impl Graph {
    /// Vertex 0 has edges from all and to itself, the last vertex has none into it, the one before it (of three
    /// and more) none out of it; every third edge is there twice.
    pub(super) fn drawn(vertices: u32, numbers: &mut Numbers) -> Self {
        let (targets, silent) = (vertices.saturating_sub(1).max(1), vertices.saturating_sub(2).max(1));
        let mut edges: Vec<(u32, u32)> = (0..vertices).map(|source| (source, 0)).collect();
        let more = if vertices == 0 { 0 } else { 2 * vertices };
        edges.extend((0..more).map(|_| (numbers.below(vertices), numbers.below(targets))));
        edges.retain(|&(source, _)| source != silent);
        edges.extend(edges.clone().into_iter().step_by(3));
        let turned = edges.iter().map(|&(source, target)| (target, source)).collect();
        Self { in_edges: Lists::new(vertices, turned), out_edges: Lists::new(vertices, edges) }
    }

    /// The edges into `count` vertices from `start`.
    pub(super) fn in_edges(&self, start: u32, count: u32) -> Block {
        Self::block(&self.in_edges, start, count, |own, other| (other, own))
    }

    /// The edges out of `count` vertices from `start`.
    pub(super) fn out_edges(&self, start: u32, count: u32) -> Block {
        Self::block(&self.out_edges, start, count, |own, other| (own, other))
    }

    fn block(lists: &Lists, start: u32, count: u32, ends: impl Fn(u64, u64) -> (u64, u64)) -> Block {
        let bounds = &lists.offsets[start as usize..=(start + count) as usize];
        let first = bounds[0];
        let offsets: Vec<u32> = bounds.iter().map(|bound| bound - first).collect();
        let owners: Vec<u32> = (0..count)
            .flat_map(|own| (offsets[own as usize]..offsets[own as usize + 1]).map(move |_| own))
            .collect();
        let others = lists.others[first as usize..bounds[count as usize] as usize].to_vec();
        let id = |(&own, &other): (&u32, &u32)| {
            let (source, target) = ends(u64::from(start + own) + FIRST, u64::from(other) + FIRST);
            (target << 32) + source
        };
        let ids = owners.iter().zip(&others).map(id).collect();
        Block { offsets, owners, others, ids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_same_edges() {
        for vertices in 0..12 {
            let graph = Graph::drawn(vertices, &mut Numbers(7));
            let (into, out) = (graph.in_edges(0, vertices), graph.out_edges(0, vertices));
            let sorted = |mut ids: Vec<u64>| {
                ids.sort_unstable();
                ids
            };
            assert_eq!(sorted(into.ids.clone()), sorted(out.ids.clone()));
            assert_eq!((into.rows(), out.rows()), (vertices, vertices));
            if vertices < 4 {
                continue;
            }
            let lone = |block: &Block, at: u32| block.offsets[at as usize] == block.offsets[at as usize + 1];
            assert!(lone(&into, vertices - 1) && lone(&out, vertices - 2) && !lone(&out, vertices - 1));
            assert!(into.ids.contains(&((FIRST << 32) + FIRST)), "the hub's edge to itself");
            assert!(into.ids.windows(2).any(|two| two[0] == two[1]), "an edge twice");
            let half = graph.in_edges(2, vertices - 2);
            let from = into.offsets[2] as usize;
            assert_eq!((&half.ids[..], &half.others[..]), (&into.ids[from..], &into.others[from..]));
            assert_eq!((half.offsets[0], half.rows()), (0, vertices - 2));
            let owned = |at: u32| half.owners.iter().filter(|&&own| own == at).count() as u32;
            assert!(
                (0..vertices - 2)
                    .all(|at| { owned(at) == half.offsets[at as usize + 1] - half.offsets[at as usize] })
            );
        }
    }
}
