//! A part of a graph by rows of its own.

use super::room::{Lists, Room};
use crate::adjacency::{Adjacency, Graph};
use crate::error::{Error, Place, Result};

/// One sampled subgraph, in local rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subgraph {
    /// `[rows]`: the graph's row of each local row. Of an induced method: ascending, each once. Of
    /// [`Method::Neighbours`](super::Method::Neighbours): the targets, then what is one hop away,
    /// and so on, each once. Of [`Method::Shadow`](super::Method::Shadow): one ascending run a
    /// target.
    pub ids: Vec<u32>,
    /// `hops[h]`: how many local rows, the first ones, are within h hops of the targets; the last
    /// is all of them. One value where every layer computes all rows.
    pub hops: Vec<u32>,
    /// In-lists by local row, sources ascending. Where there are several hops, those of the last
    /// have empty lists.
    pub incoming: Adjacency,
    /// `[edges]`: where each entry of `incoming` lies among the graph's incoming entries, and so
    /// its weight and features.
    pub edges: Vec<u64>,
    /// Local rows that the loss counts, in the order of the targets; `None`: every local row in
    /// training.
    pub targets: Option<Vec<u32>>,
}

impl Subgraph {
    /// All rows of a graph, with the graph's own lists.
    pub fn whole(graph: &Graph) -> Self {
        Self {
            ids: (0..graph.vertices()).collect(),
            hops: vec![graph.vertices()],
            incoming: graph.incoming().clone(),
            edges: (0..graph.edges()).collect(),
            targets: None,
        }
    }

    /// The rows `ids`, ascending, and all edges between them.
    ///
    /// # Errors
    /// [`Error::Malformed`] where they do not ascend, [`Error::UnknownVertex`] for one that is no
    /// row.
    pub fn induced(graph: &Graph, ids: Vec<u32>, room: &mut Room) -> Result<Self> {
        if let Some(at) = ids.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(Error::Malformed {
                place: Place::row("rows of a subgraph", at as u64 + 1),
                expected: "ascending rows, each once".to_owned(),
                found: "one that descends or repeats".to_owned(),
                remedy: "sort them and drop repeats",
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

    /// [`Subgraph::induced`] of rows that are known to ascend within the graph.
    pub(super) fn of_checked(graph: &Graph, ids: Vec<u32>, room: &mut Room) -> Self {
        let mut lists = Lists::new(ids.len());
        room.induce(graph, &ids, 0, &mut lists);
        let hops = vec![ids.len() as u32];
        let (incoming, edges) = lists.finish();
        Self { ids, hops, incoming, edges, targets: None }
    }
}
