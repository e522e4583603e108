//! Rabbit order, in which nested communities become nested ranges of vertex ids.

use super::degree::ascending;
use crate::adjacency::Graph;
use crate::links::Links;

/// Marker for the absence of a vertex or of a list.
const NONE: u32 = u32::MAX;
/// Maximum number of times that the entry of a vertex or an edge is read, on average. In practice
/// it is read two or three times. When the maximum is exceeded, communities no longer pass on their
/// edges. So every graph takes linear time.
const MAX_READS: u64 = 24;

/// Returns the vertices in Rabbit order. Communities are in the order of their completion, and
/// vertices without neighbours are last.
pub(super) fn order(graph: &Graph) -> Vec<u32> {
    let view = Links::new(graph);
    let degrees = view.degrees();
    let visits = ascending(&degrees);
    let lone = visits.partition_point(|&v| degrees[v as usize] == 0);
    let mut forest = Forest::new(view, &degrees);
    drop(degrees);
    let mut roots = Vec::new();
    for &vertex in &visits[lone..] {
        if !forest.visit(vertex) {
            roots.push(vertex);
        }
    }
    let mut order = forest.depth_first(&roots);
    order.extend(&visits[..lone]);
    order
}

/// Edges from a community to other communities. Each entry has a vertex of the other community and
/// the number of edges, which saturates.
type Edges = Box<[(u32, u32)]>;

/// Communities, which are trees of vertices that have joined each other.
struct Forest<'a> {
    view: Links<'a>,
    /// Total degree of all vertices, which is twice the number of undirected edges.
    total: u64,
    reads_left: u64,
    /// Next vertex on the path from each vertex to the root of its community. The path is shortened
    /// whenever it is followed.
    parent: Vec<u32>,
    /// Vertex that joined each vertex most recently. The next field is the vertex that joined the
    /// same parent before it.
    child: Vec<u32>,
    sibling: Vec<u32>,
    /// Total degree of the community of each root.
    strength: Vec<u64>,
    visited: Vec<bool>,
    /// Index in `lists` of the edges that each vertex with children passes on.
    handed: Vec<u32>,
    lists: Vec<Edges>,
    free: Vec<u32>,
    /// Scratch memory for the number of edges to each root. The next field lists the roots with at
    /// least one edge.
    count: Vec<u32>,
    touched: Vec<u32>,
}

impl<'a> Forest<'a> {
    fn new(view: Links<'a>, degrees: &[u32]) -> Self {
        let vertices = degrees.len();
        let strength: Vec<u64> = degrees.iter().map(|&d| u64::from(d)).collect();
        let total = strength.iter().sum::<u64>();
        Self {
            view,
            total,
            reads_left: (total + vertices as u64).saturating_mul(MAX_READS),
            parent: (0..vertices as u32).collect(),
            child: vec![NONE; vertices],
            sibling: vec![NONE; vertices],
            strength,
            visited: vec![false; vertices],
            handed: vec![NONE; vertices],
            lists: Vec::new(),
            free: Vec::new(),
            count: vec![0; vertices],
            touched: Vec::new(),
        }
    }

    /// Merges the community of `vertex` into the best neighbouring community. Returns false if no
    /// merge has a positive gain.
    fn visit(&mut self, vertex: u32) -> bool {
        self.collect(vertex);
        let own = self.strength[vertex as usize];
        let mut best: Option<(i128, u32)> = None;
        for &root in &self.touched {
            // Computes dQ times (2m)^2 / 2, which is exact in integers.
            let between = i128::from(self.count[root as usize]) * i128::from(self.total);
            let gain = between - i128::from(own) * i128::from(self.strength[root as usize]);
            // Of equal gains, the community with the lowest id is chosen.
            if gain > 0 && best.is_none_or(|(most, at)| (gain, at) > (most, root)) {
                best = Some((gain, root));
            }
        }
        self.visited[vertex as usize] = true;
        if let Some((_, root)) = best {
            self.hand_on(vertex, root);
            self.parent[vertex as usize] = root;
            self.sibling[vertex as usize] = self.child[root as usize];
            self.child[root as usize] = vertex;
            self.strength[root as usize] += own;
        }
        for root in self.touched.drain(..) {
            self.count[root as usize] = 0;
        }
        best.is_some()
    }

    /// Counts the edges from the community of `vertex` to each other community, by its root.
    fn collect(&mut self, vertex: u32) {
        self.read(vertex, vertex);
        let mut child = self.child[vertex as usize];
        while child != NONE {
            match std::mem::replace(&mut self.handed[child as usize], NONE) {
                // No vertex has joined this one, so its edges are those of the graph.
                NONE if self.child[child as usize] == NONE => self.read(child, vertex),
                // The maximum number of reads is reached, so these edges are ignored.
                NONE => {}
                list => {
                    let edges = std::mem::take(&mut self.lists[list as usize]);
                    self.free.push(list);
                    self.reads_left = self.reads_left.saturating_sub(edges.len() as u64);
                    for &(neighbour, count) in &edges {
                        add(&mut self.parent, &mut self.count, &mut self.touched, vertex, neighbour, count);
                    }
                }
            }
            child = self.sibling[child as usize];
        }
    }

    /// Counts the edges of `vertex` in the graph for the community with the root `root`.
    fn read(&mut self, vertex: u32, root: u32) {
        let mut read = 1;
        self.view.partners(vertex).for_each(|u| {
            read += 1;
            add(&mut self.parent, &mut self.count, &mut self.touched, root, u, 1);
        });
        self.reads_left = self.reads_left.saturating_sub(read);
    }

    /// Stores the counted edges of `vertex` for the visit of `root`, if that visit is still to
    /// come.
    fn hand_on(&mut self, vertex: u32, root: u32) {
        let alone = self.child[vertex as usize] == NONE;
        if alone || self.visited[root as usize] || self.reads_left == 0 {
            return;
        }
        let others = self.touched.iter().filter(|&&u| u != root);
        let edges: Edges = others.map(|&u| (u, self.count[u as usize])).collect();
        self.handed[vertex as usize] = match self.free.pop() {
            Some(list) => {
                self.lists[list as usize] = edges;
                list
            }
            None => {
                self.lists.push(edges);
                self.lists.len() as u32 - 1
            }
        };
    }

    /// Returns the vertices of the trees of `roots` in depth-first order. Each vertex comes before
    /// the vertices that joined it, of which the latest comes first.
    fn depth_first(mut self, roots: &[u32]) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.parent.len());
        let mut path = std::mem::take(&mut self.touched);
        for &root in roots {
            path.push(root);
            while let Some(vertex) = path.pop() {
                order.push(vertex);
                // The sibling is numbered after the children.
                if vertex != root && self.sibling[vertex as usize] != NONE {
                    path.push(self.sibling[vertex as usize]);
                }
                if self.child[vertex as usize] != NONE {
                    path.push(self.child[vertex as usize]);
                }
            }
        }
        order
    }
}

/// Adds `edges` edges between the communities of `root` and `neighbour` to the counts.
#[inline]
fn add(parent: &mut [u32], count: &mut [u32], touched: &mut Vec<u32>, root: u32, neighbour: u32, edges: u32) {
    let other = find(parent, neighbour);
    if other != root {
        let count = &mut count[other as usize];
        if *count == 0 {
            touched.push(other);
        }
        *count = count.saturating_add(edges);
    }
}

/// Returns the root of a vertex's community, and halves the path to it.
#[inline]
fn find(parent: &mut [u32], mut vertex: u32) -> u32 {
    loop {
        let above = parent[vertex as usize];
        let next = parent[above as usize];
        if next == above {
            return above;
        }
        parent[vertex as usize] = next;
        vertex = next;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::adjacency::Options;

    #[test]
    fn two_triangles_with_a_bridge() {
        // 0 2 4 and 1 3 5 are triangles, 4 - 5 is between them.
        let edges = [(0, 2), (2, 4), (4, 0), (1, 3), (3, 5), (5, 1), (4, 5)];
        let graph = Graph::from_edges(7, edges.into_iter(), Options::default()).unwrap();
        let order = order(&graph);
        let side = |at: usize| order[at] % 2;
        assert!(side(0) == side(1) && side(1) == side(2), "{order:?}");
        assert!(side(3) == side(4) && side(4) == side(5) && side(3) != side(0), "{order:?}");
        assert_eq!(order[6], 6);
    }
}
