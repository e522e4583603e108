//! Edges with labels, in data sets whose task is on edges instead of vertices.
//!
//! ```
//! use eciton_graph::labelled_edges::end_lists;
//! // Edge 0 ends at vertex 2, and edges 1 and 2 end at vertex 0.
//! let lists = end_lists(&[2, 0, 0], 3)?;
//! assert_eq!(lists.in_neighbours(1), [0]);
//! assert_eq!(lists.out_neighbours(0), [1, 2]);
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

use crate::adjacency::{Graph, check_vertices};
use crate::build::trusted;
use crate::error::{Error, Place, Result};
use crate::features::Features;
use crate::scaling::Scaling;

/// Edges whose labels a model learns. They are the records of an edge table, so an edge may occur
/// several times, also in the other direction. Labels and split of their data set refer to them.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledEdges {
    /// Source and target of each edge.
    pub ends: Vec<(u32, u32)>,
    /// Features of the edges, with one row per edge. `None` if edges have no features.
    pub features: Option<Features>,
    /// Scaling that has been applied to these features.
    pub scaling: Scaling,
}

impl LabelledEdges {
    /// Checks that there are edges, that both ends of each are among `vertices` vertices, and that
    /// features have one row per edge. Error messages contain the name `file`.
    ///
    /// # Errors
    /// Returns an error with the first edge or row that is wrong.
    pub fn validate(&self, vertices: u32, file: &str) -> Result<()> {
        // Lists of the ends are those of a graph, so they have the same limit.
        check_vertices(self.ends.len() as u64, || Place::whole(file))?;
        let unknown = |&(source, target): &(u32, u32)| source.max(target) >= vertices;
        if let Some(row) = self.ends.iter().position(unknown) {
            let (source, target) = self.ends[row];
            return Err(Error::UnknownVertex {
                place: Place::row(file, row as u64),
                vertex: if source >= vertices { source } else { target }.to_string(),
                known: format!("vertices are 0..{vertices}"),
            });
        }
        let edges = self.ends.len() as u32;
        self.features.as_ref().map_or(Ok(()), |features| features.validate(edges, file))
    }
}

/// Returns lists from edges to the vertices at one of their ends. `ends` has this vertex for each
/// edge, and all are below `vertices`. The list of in-neighbours of an edge has this one vertex, and
/// the list of out-neighbours of a vertex has its edges in ascending order. Further lists are empty.
///
/// # Errors
/// Returns the errors of [`Graph::from_parts`].
pub fn end_lists(ends: &[u32], vertices: usize) -> Result<Graph> {
    let rows = ends.len().max(vertices);
    let each = ends.len() as u64;
    let offsets = (0..=rows as u64).map(|row| row.min(each)).collect();
    let mut starts = vec![0u64; rows + 1];
    ends.iter().for_each(|&vertex| starts[vertex as usize + 1] += 1);
    for row in 0..rows {
        starts[row + 1] += starts[row];
    }
    let (mut next, mut edges) = (starts.clone(), vec![0; ends.len()]);
    for (edge, &vertex) in (0..).zip(ends) {
        let at = &mut next[vertex as usize];
        edges[*at as usize] = edge;
        *at += 1;
    }
    Ok(Graph::from_parts(trusted(offsets, ends.to_vec()), Some(trusted(starts, edges)))?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn each_edge_is_listed_at_its_vertex() {
        let seed = 7;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for _ in 0..50 {
            let (edges, vertices) = (1 + random.below(40), 1 + random.below(30));
            let ends: Vec<u32> = (0..edges).map(|_| random.below(vertices) as u32).collect();
            let lists = end_lists(&ends, vertices as usize).unwrap();
            assert_eq!(u64::from(lists.vertices()), edges.max(vertices));
            assert_eq!(lists.edges(), edges);
            for vertex in 0..lists.vertices() {
                let of = (0..).zip(&ends).filter(|(_, end)| **end == vertex).map(|(edge, _)| edge);
                assert_eq!(lists.out_neighbours(vertex), of.collect::<Vec<u32>>());
                let end = ends.get(vertex as usize).map_or(&[][..], std::slice::from_ref);
                assert_eq!(lists.in_neighbours(vertex), end);
            }
        }
    }

    #[test]
    fn edges_that_do_not_fit_are_refused() {
        let made = |ends: &[(u32, u32)], features| LabelledEdges {
            ends: ends.to_vec(),
            features,
            scaling: Scaling::None,
        };
        let said = |ends, features| made(ends, features).validate(3, "a").unwrap_err().to_string();
        assert!(said(&[(0, 1), (2, 3)], None).contains("a, row 1: an edge names vertex 3"));
        let one = Features::dense(1, &[0.5]).unwrap();
        assert!(said(&[(0, 1), (2, 2)], Some(one)).contains("a: 1 feature rows"));
        assert!(matches!(made(&[], None).validate(3, "a"), Err(Error::EmptyGraph { .. })));
    }
}
