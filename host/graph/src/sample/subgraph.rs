//! Subgraph of a graph, with its own local row numbers.

use super::room::{Lists, Room};
use crate::adjacency::{Adjacency, Graph};
use crate::error::{Error, Place, Result};

/// Sampled subgraph, whose rows are numbered locally from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subgraph {
    /// Row of the graph for each local row, `[rows]`. With an induced method, rows ascend, each
    /// once. With [`Method::Neighbours`](super::Method::Neighbours), the targets come first, then
    /// the rows at one hop, and so on, each once. With
    /// [`Method::ShadowKhop`](super::Method::ShadowKhop), there is one ascending run per target.
    pub ids: Vec<u32>,
    /// Number of local rows within h hops of the targets, for each h. These rows come first. The
    /// last value is the number of all rows. There is only one value if every layer computes all
    /// rows.
    pub hops: Vec<u32>,
    /// Lists of in-neighbours in local rows, whose sources ascend. If there are several hops, the
    /// rows of the last hop have empty lists.
    pub incoming: Adjacency,
    /// Index of each entry of `incoming` among the graph's incoming entries. The entry's weight and
    /// features are found by this index.
    pub edges: Vec<u64>,
    /// Local rows that count in the loss, in the order of the targets. If `None`, every local row
    /// that is a training row counts.
    pub targets: Option<Vec<u32>>,
}

impl Subgraph {
    /// Returns the subgraph of all rows of `graph`, with the graph's own lists.
    pub fn whole(graph: &Graph) -> Self {
        Self {
            ids: (0..graph.vertices()).collect(),
            hops: vec![graph.vertices()],
            incoming: graph.incoming().clone(),
            edges: (0..graph.edges()).collect(),
            targets: None,
        }
    }

    /// Returns the subgraph of the rows `ids`, with all edges between them.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if `ids` does not ascend, and [`Error::UnknownVertex`] for an
    /// id that is not a row of the graph.
    pub fn induced(graph: &Graph, ids: Vec<u32>, room: &mut Room) -> Result<Self> {
        if let Some(at) = ids.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(Error::Malformed {
                place: Place::row("rows of a subgraph", at as u64 + 1),
                expected: "ascending rows, each once".to_owned(),
                found: "a row that descends or repeats".to_owned(),
                remedy: "sort the rows and remove repeats",
            });
        }
        if let Some(last) = ids.last().filter(|&&last| last >= graph.vertices()) {
            return Err(Error::UnknownVertex {
                place: Place::row("rows of a subgraph", ids.len() as u64 - 1),
                vertex: last.to_string(),
                known: format!("vertices are 0..{}", graph.vertices()),
            });
        }
        room.fit(graph);
        Ok(Self::of_checked(graph, ids, room))
    }

    /// Returns the subgraph of the rows `ids` like [`Subgraph::induced`]. They are known to ascend
    /// and to exist.
    pub(super) fn of_checked(graph: &Graph, ids: Vec<u32>, room: &mut Room) -> Self {
        let mut lists = Lists::new(ids.len());
        room.induce(graph, &ids, 0, &mut lists);
        let hops = vec![ids.len() as u32];
        let (incoming, edges) = lists.finish();
        Self { ids, hops, incoming, edges, targets: None }
    }
}
