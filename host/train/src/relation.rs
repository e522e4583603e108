//! Adjacency lists of the relations in a program. A relation lists, for each row, the rows that a
//! stage gathers.

use std::sync::Arc;

use eciton_graph::adjacency::{Adjacency, Graph};
use eciton_graph::dataset::Dataset;
use eciton_graph::graphs::Graphs;
use eciton_program::{Over, Relation};

use crate::batch::PartLists;
use crate::edge_data::EdgeData;
use crate::error::Result;
use crate::loss_reachable::LabelledLists;

/// Rows that represent graphs, for a data set of many graphs.
#[derive(Debug)]
pub(crate) struct Readout {
    /// The vertices of each graph, as lists in the order of the graphs' rows
    /// ([`Graphs::by_number`]).
    pub lists: Graph,
    /// Row of the vertex that represents each graph, in ascending order. The rows of graphs are in
    /// the same order.
    pub standing: Vec<u32>,
}

impl Readout {
    pub(crate) fn from_graphs(graphs: &Graphs) -> Result<Self> {
        Ok(Self { lists: graphs.by_number()?, standing: graphs.standing() })
    }
}

/// Owner of the adjacency lists, which is the whole data set or a micro-batch.
#[derive(Debug, Clone)]
enum Of {
    Data(Arc<Dataset>),
    Part(Arc<PartLists>),
}

/// Adjacency lists of one relation, along which stages gather rows.
#[derive(Debug, Clone)]
pub(crate) struct Lists {
    pub relation: Relation,
    pub edges: Arc<EdgeData>,
    pub readout: Option<Arc<Readout>>,
    of: Of,
    /// Lists without the edges that cannot affect the loss. `None` if the relation uses all edges.
    reached: Option<Arc<LabelledLists>>,
}

impl Lists {
    /// Returns the adjacency lists of `relation` in the whole data set. Returns `None` if the data
    /// set has no such lists.
    pub(crate) fn new(
        relation: Relation,
        (dataset, readout): (Arc<Dataset>, Option<Arc<Readout>>),
        edges: Arc<EdgeData>,
        reached: Option<Arc<LabelledLists>>,
    ) -> Option<Self> {
        let readout = readout.filter(|_| relation.over == Over::Graphs);
        let reached = reached.filter(|_| relation.reached);
        let there =
            (readout.is_some(), reached.is_some()) == (relation.over == Over::Graphs, relation.reached);
        there.then_some(Self { relation, edges, readout, of: Of::Data(dataset), reached })
    }

    /// Returns the adjacency lists of `relation` in a micro-batch. `readout` has the vertices of its
    /// graphs. Returns `None` if the micro-batch has no such lists.
    pub(crate) fn of_part(
        relation: Relation,
        part: Arc<PartLists>,
        readout: Option<Arc<Readout>>,
    ) -> Option<Self> {
        let readout = readout.filter(|_| relation.over == Over::Graphs);
        let there = readout.is_some() == (relation.over == Over::Graphs) && !relation.reached;
        let edges = part.edges.clone();
        there.then(|| Self { relation, edges, readout, of: Of::Part(part), reached: None })
    }

    /// Returns the lists with the source rows that each row is gathered from.
    pub(crate) fn adjacency(&self) -> &Adjacency {
        let graph = match (&self.readout, &self.of) {
            (Some(readout), _) => &readout.lists,
            (None, Of::Data(dataset)) => &dataset.graph,
            (None, Of::Part(part)) => &part.graph,
        };
        match (&self.reached, self.relation.reversed) {
            (Some(reached), true) => reached.reversed().0,
            (_, true) => graph.outgoing(),
            (_, false) => graph.incoming(),
        }
    }

    /// Returns the edge weights in the order of the lists. Returns `None` if gathers are not
    /// weighted. If `of_means` is true, they are the weights for means, which may differ in
    /// micro-batches.
    pub(crate) fn weights(&self, of_means: bool) -> Option<&[f32]> {
        if let Of::Part(part) = &self.of {
            if self.relation.over == Over::Graphs {
                return None;
            }
            return part.weights(of_means, self.relation.reversed).map(|weights| &weights[..]);
        }
        match (&self.reached, self.relation.reversed) {
            (Some(reached), true) => reached.reversed().1,
            (_, reversed) => {
                let weights = self.edges.weights.as_ref().filter(|_| self.relation.over == Over::Neighbours);
                weights.map(|weights| &weights.along(reversed)[..])
            }
        }
    }

    /// Returns a flag for each row, which is true if the row must be gathered. Returns `None` if
    /// all rows must be.
    pub(crate) fn wanted(&self) -> Option<&[bool]> {
        let reached = self.reached.as_ref().filter(|_| !self.relation.reversed);
        reached.map(|reached| reached.wanted())
    }
}

impl Lists {
    /// Returns true if each row is gathered from exactly one row, as from a graph to its vertices.
    pub(crate) fn is_single(&self) -> bool {
        self.readout.is_some() && self.relation.reversed
    }

    /// Returns the vertex row that `row` stands for. If `of_graphs` is true, `row` is the row of a
    /// graph, and the result is the vertex that represents the graph.
    pub(crate) fn vertex(&self, row: u32, of_graphs: bool) -> u32 {
        let standing = self.readout.as_ref().filter(|_| of_graphs);
        standing.and_then(|readout| readout.standing.get(row as usize).copied()).unwrap_or(row)
    }
}
