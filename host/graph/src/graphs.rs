//! Many graphs in one data set. One vertex of each graph represents the graph.
//!
//! All graphs are in one [`Dataset`](crate::dataset::Dataset), and no edge joins two of them. The
//! label of a graph and its place in the split are stored at one of its vertices, the *standing*
//! vertex, which represents the graph. Other vertices have no label. Readers choose the first
//! vertex of each graph. A reordering of vertices keeps the choice, so the standing vertex may then
//! have any position.
//!
//! ```
//! use eciton_graph::graphs::Graphs;
//! let graphs = Graphs::new(&[7, 7, 3, 7])?;
//! assert_eq!((graphs.count(), graphs.standing()), (2, vec![0, 2]));
//! assert_eq!(graphs.lists().in_neighbours(0), [0, 1, 3]);
//! assert_eq!(graphs.ids().name(1), "3");
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

use std::collections::HashMap;

use crate::adjacency::{Adjacency, Graph, check_vertices};
use crate::build::trusted;
use crate::error::{Error, Place, Result};
use crate::order::{Permutation, permute_graph};
use crate::vertex_ids::VertexIds;

/// Assignment of the vertices to graphs, in a data set of many graphs. Each graph is identified by
/// its standing vertex, which is the vertex that has the graph's label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graphs {
    /// Graph with an edge to each standing vertex from every vertex of its graph, including itself.
    lists: Graph,
    count: u32,
    /// Ids of the graphs in the user's data, ordered by standing vertex.
    ids: VertexIds,
}

impl Graphs {
    /// Creates the assignment from `of`, which contains a number for each vertex. Vertices with the
    /// same number are in the same graph. The first vertex of each graph represents it, and graphs
    /// are ordered by this vertex.
    ///
    /// # Errors
    /// Returns [`Error::EmptyGraph`] without vertices, and [`Error::Limit`] for too many vertices.
    pub fn new(of: &[u64]) -> Result<Self> {
        check_vertices(of.len() as u64, || Place::whole("graphs"))?;
        let (mut first, mut numbers) = (HashMap::new(), Vec::new());
        let standing = (0..).zip(of).map(|(vertex, &number)| {
            *first.entry(number).or_insert_with(|| {
                numbers.push(number);
                vertex
            })
        });
        let standing = standing.collect();
        Self::from_standing(standing, VertexIds::Numbers(numbers), "graphs")
    }

    /// Creates the assignment from `standing`, which contains for each vertex the vertex that
    /// represents its graph. `ids` contains the user's ids of the graphs, ordered by standing
    /// vertex. Error messages contain the name `file`.
    ///
    /// # Errors
    /// Returns [`Error::EmptyGraph`] without vertices, and [`Error::Limit`] for too many vertices.
    /// Returns [`Error::Malformed`] with the row if a standing vertex does not exist or does not
    /// represent its own graph. Returns [`Error::Mismatch`] if the number of ids differs from the
    /// number of graphs.
    pub fn from_standing(standing: Vec<u32>, ids: VertexIds, file: &str) -> Result<Self> {
        check_vertices(standing.len() as u64, || Place::whole(file))?;
        let mut offsets = vec![0u64; standing.len() + 1];
        for (row, &vertex) in (0..).zip(&standing) {
            if standing.get(vertex as usize) != Some(&vertex) {
                let expected = "a vertex that represents its own graph";
                return Err(Error::malformed(Place::row(file, row), expected, vertex.to_string()));
            }
            offsets[vertex as usize + 1] += 1;
        }
        let count = offsets.iter().filter(|&&members| members > 0).count() as u32;
        let named = match &ids {
            VertexIds::Dense => count as usize,
            VertexIds::Numbers(ids) => ids.len(),
            VertexIds::Words(ids) => ids.len(),
        };
        if named != count as usize {
            let (place, other) = (Place::whole(file), "the ids of graphs".to_owned());
            let (found, expected) = (u64::from(count), named as u64);
            return Err(Error::Mismatch { place, what: "graphs", found, expected, other });
        }
        for vertex in 0..standing.len() {
            offsets[vertex + 1] += offsets[vertex];
        }
        // Vertices are visited in ascending order, so the members of each list ascend.
        let (mut next, mut members) = (offsets.clone(), vec![0; standing.len()]);
        for (member, &vertex) in (0..).zip(&standing) {
            let at = &mut next[vertex as usize];
            members[*at as usize] = member;
            *at += 1;
        }
        let incoming = trusted(offsets, members);
        let outgoing = trusted((0..=standing.len() as u64).collect(), standing);
        Ok(Self { lists: Graph::from_parts(incoming, Some(outgoing))?, count, ids: canonical(ids) })
    }

    /// Returns the lists of a graph with an edge to each standing vertex from all vertices of its
    /// graph, including itself. All other lists of in-neighbours are empty. Each list of
    /// out-neighbours has one vertex.
    pub fn lists(&self) -> &Graph {
        &self.lists
    }

    /// Returns adjacency lists that are indexed by graph number, in the order of
    /// [`Graphs::standing`]. The list of in-neighbours of number g contains all vertices of graph
    /// g, in ascending order. Lists from [`Graphs::count`] on are empty. The list of out-neighbours
    /// of each vertex contains the number of its graph.
    ///
    /// # Errors
    /// Returns the errors of [`Graph::from_parts`].
    pub fn by_number(&self) -> Result<Graph> {
        let (incoming, standing) = (self.lists.incoming(), self.standing());
        let mut offsets = vec![0u64];
        let mut members = Vec::with_capacity(incoming.neighbours().len());
        let mut numbers = vec![0u32; incoming.vertices() as usize];
        for (number, &vertex) in (0..).zip(&standing) {
            for &member in incoming.neighbours_of(vertex) {
                members.push(member);
                numbers[member as usize] = number;
            }
            offsets.push(members.len() as u64);
        }
        offsets.resize(numbers.len() + 1, members.len() as u64);
        let outgoing = trusted((0..=numbers.len() as u64).collect(), numbers);
        Ok(Graph::from_parts(trusted(offsets, members), Some(outgoing))?)
    }

    /// Returns the number of graphs.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns for each vertex the standing vertex of its graph.
    pub fn standing_of_vertices(&self) -> &[u32] {
        self.lists.outgoing().neighbours()
    }

    /// Returns the standing vertices in ascending order, which is also the order of the graphs.
    pub fn standing(&self) -> Vec<u32> {
        (0..)
            .zip(self.standing_of_vertices())
            .filter(|&(vertex, &standing)| vertex == standing)
            .map(|(v, _)| v)
            .collect()
    }

    /// Returns the ids of the graphs in the user's data, ordered by standing vertex.
    pub fn ids(&self) -> &VertexIds {
        &self.ids
    }

    /// Returns the size of the adjacency lists, in bytes.
    pub fn bytes(&self) -> u64 {
        let bytes =
            |lists: &Adjacency| 8 * lists.offsets().len() as u64 + 4 * lists.neighbours().len() as u64;
        bytes(self.lists.incoming()) + bytes(self.lists.outgoing())
    }

    /// Returns the same assignment with new vertex ids. Each graph keeps its standing vertex.
    pub(crate) fn permuted(&self, permutation: &Permutation) -> Result<Self> {
        let mut moved = Self {
            lists: permute_graph(&self.lists, permutation)?,
            count: self.count,
            ids: VertexIds::Dense,
        };
        let (before, old) = (self.standing(), permutation.old_of_new());
        let graph = |new: u32| before.partition_point(|&vertex| vertex < old[new as usize]);
        let graphs: Vec<usize> = moved.standing().into_iter().map(graph).collect();
        moved.ids = canonical(match &self.ids {
            VertexIds::Dense => VertexIds::Numbers(graphs.iter().map(|&graph| graph as u64).collect()),
            VertexIds::Numbers(ids) => VertexIds::Numbers(graphs.iter().map(|&graph| ids[graph]).collect()),
            VertexIds::Words(ids) => {
                VertexIds::Words(graphs.iter().map(|&graph| ids[graph].clone()).collect())
            }
        });
        Ok(moved)
    }

    /// Returns the user's id of the graph that contains `vertex`, for error messages.
    pub fn name(&self, vertex: u32) -> String {
        let standing = self.standing_of_vertices().get(vertex as usize).copied().unwrap_or(vertex);
        self.ids.name(self.standing().partition_point(|&other| other < standing) as u32)
    }
}

/// Creates the error for an edge that joins two graphs. Source and target are each given as vertex
/// name and graph name.
pub fn apart_error(place: Place, [source, target]: [(String, String); 2]) -> Error {
    Error::Malformed {
        place,
        expected: "an edge within one graph".to_owned(),
        found: format!(
            "{:.60} of graph {:.60} -> {:.60} of graph {:.60}",
            source.0, source.1, target.0, target.1
        ),
        remedy: "remove the edge, or assign both vertices to the same graph",
    }
}

/// Replaces the ids 0, 1, 2, ... by [`VertexIds::Dense`], because they need not be stored.
fn canonical(ids: VertexIds) -> VertexIds {
    match ids {
        VertexIds::Numbers(ids) if ids.iter().copied().eq(0..ids.len() as u64) => VertexIds::Dense,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::adjacency::Options;
    use crate::dataset::{Dataset, Features, Labels, NO_LABEL, Split, Values};
    use crate::order::permute_dataset;
    use crate::random::SplitMix64;

    #[test]
    fn members_are_listed_at_the_first_vertex() {
        let graphs = Graphs::new(&[5, 5, 1, 5, 9, 1]).unwrap();
        assert_eq!((graphs.count(), graphs.standing()), (3, vec![0, 2, 4]));
        assert_eq!(*graphs.ids(), VertexIds::Numbers(vec![5, 1, 9]));
        let lists: Vec<_> = (0..6).map(|v| graphs.lists().in_neighbours(v)).collect();
        assert_eq!(lists, [&[0, 1, 3][..], &[], &[2, 5], &[], &[4], &[]]);
        assert_eq!(graphs.standing_of_vertices(), [0, 0, 2, 0, 4, 2]);
        assert!(
            (0..6).all(|v| graphs.lists().out_neighbours(v) == [graphs.standing_of_vertices()[v as usize]])
        );
        assert_eq!(graphs.bytes(), 2 * (8 * 7 + 4 * 6));
        let dense = Graphs::new(&[0, 1, 0, 2]).unwrap();
        assert_eq!(*dense.ids(), VertexIds::Dense);
        assert!(matches!(Graphs::new(&[]), Err(Error::EmptyGraph { .. })));
    }

    #[test]
    fn standing_vertices_are_checked() {
        let said = |standing: &[u32]| {
            Graphs::from_standing(standing.to_vec(), VertexIds::Dense, "a").unwrap_err().to_string()
        };
        // The last vertex may stand for all.
        let last = Graphs::from_standing(vec![2, 2, 2], VertexIds::Dense, "a").unwrap();
        assert_eq!((last.standing(), last.lists().in_neighbours(2)), (vec![2], &[0, 1, 2][..]));
        assert!(
            said(&[0, 3, 0]).contains("a, row 1: expected a vertex that represents its own graph, found 3")
        );
        assert!(said(&[1, 0]).contains("a, row 0"));
        let two = Graphs::from_standing(vec![0, 1], VertexIds::Words(vec!["x".into()]), "a").unwrap_err();
        assert!(two.to_string().contains("a: 2 graphs, but the ids of graphs has 1"), "{two}");
    }

    fn two() -> Dataset {
        Dataset {
            graphs: Some(Graphs::new(&[8, 6, 8, 6]).unwrap()),
            ids: VertexIds::Words(["a", "b", "c", "d"].map(str::to_owned).to_vec()),
            ..Dataset::new(
                "two".to_owned(),
                Graph::from_edges(4, [(0, 2), (1, 3)].into_iter(), Options::default()).unwrap(),
                Features::dense(1, &[1.0, 2.0, 3.0, 4.0]).unwrap(),
                Labels::classes(vec![1, 0, NO_LABEL, NO_LABEL], 2),
                Split { train: vec![0], validation: vec![], test: vec![1] },
            )
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        two().validate().unwrap();
        type Change = fn(&mut Dataset);
        let faults: [(Change, &str); 4] = [
            (|d| d.graphs = Some(Graphs::new(&[1]).unwrap()), "two graphs: 1 vertices, but the graph has 4"),
            (
                |d| d.graphs = Some(Graphs::new(&[8, 6, 6, 6]).unwrap()),
                "two graph: expected an edge within one graph, found c of graph 6 -> a of graph 8; remove",
            ),
            (
                |d| d.labels = Labels::classes(vec![1, 0, NO_LABEL, 0], 2),
                "two labels, row 3: expected no label, because only the first vertex of a graph has the \
                 graph's label, found a label of another vertex of graph 6",
            ),
            (
                |d| d.labels = Labels::Numbers(Values::new(1, vec![0.5, 1.0, f32::NAN, 3.0]).unwrap()),
                "two labels, row 3",
            ),
        ];
        for (change, expected) in faults {
            let mut data = two();
            change(&mut data);
            let text = data.validate().unwrap_err().to_string();
            assert!(text.contains(expected), "{text} does not contain {expected}");
        }
    }

    #[test]
    fn another_vertex_order_keeps_graphs_and_their_vertices() {
        let seed = 19;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for case in 0..60 {
            let vertices = 1 + random.below(40);
            let many = 1 + random.below(vertices);
            let of: Vec<u64> = (0..vertices).map(|_| random.below(many)).collect();
            let graphs = Graphs::new(&of).unwrap();
            let mut order: Vec<u32> = (0..vertices as u32).collect();
            random.shuffle(&mut order);
            let permutation = Permutation::from_old_of_new(order.clone()).unwrap();
            let moved = graphs.permuted(&permutation).unwrap();
            assert_eq!(moved.count(), graphs.count());
            for (new, &old) in (0..).zip(&order) {
                assert_eq!(
                    order[moved.standing_of_vertices()[new as usize] as usize],
                    graphs.standing_of_vertices()[old as usize],
                    "case {case}"
                );
                assert_eq!(moved.name(new), of[old as usize].to_string());
            }
            let built =
                Graphs::from_standing(moved.standing_of_vertices().to_vec(), moved.ids().clone(), "a")
                    .unwrap();
            assert_eq!(built, moved);
            assert_eq!(moved.permuted(&permutation.clone().inverse()).unwrap(), graphs);
        }
        let order = Permutation::from_old_of_new(vec![3, 2, 1, 0]).unwrap();
        let there = permute_dataset(two(), order.clone()).unwrap().dataset;
        there.validate().unwrap();
        let graphs = there.graphs.as_ref().unwrap();
        assert_eq!((graphs.standing(), graphs.ids().name(0)), (vec![2, 3], "6".to_owned()));
        assert_eq!(permute_dataset(there, order).unwrap().dataset, two());
        assert!(graphs_of_another_size().contains("graph: 1 vertices, but the vertex order has 4"));
    }

    fn graphs_of_another_size() -> String {
        let one = Graphs::new(&[1]).unwrap();
        one.permuted(&Permutation::identity(4).unwrap()).unwrap_err().to_string()
    }
}
