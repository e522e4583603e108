//! Adjacency lists of a program's relations, from a data set.

use std::sync::Arc;

use eciton_graph::adjacency::{Adjacency, Graph};
use eciton_graph::dataset::Dataset;
use eciton_graph::graphs::Graphs;
use eciton_program::{Over, Relation};

use crate::batch::PartLists;
use crate::edge_data::EdgeData;
use crate::error::Result;
use crate::loss_reachable::LabelledLists;

/// Graphs of a data set of many graphs, as rows.
#[derive(Debug)]
pub(crate) struct Readout {
    /// Lists of vertices, by graph number ([`Graphs::by_number`]).
    pub lists: Graph,
    /// Rows of the vertices that represent graphs, ascending, which is also the order of the graph
    /// rows.
    pub standing: Vec<u32>,
}

impl Readout {
    pub(crate) fn of(graphs: &Graphs) -> Result<Self> {
        Ok(Self { lists: graphs.by_number()?, standing: graphs.standing() })
    }
}

/// Owner of the lists.
#[derive(Debug, Clone)]
enum Of {
    Data(Arc<Dataset>),
    Part(Arc<PartLists>),
}

/// Lists that stages gather along.
#[derive(Debug, Clone)]
pub(crate) struct Lists {
    pub relation: Relation,
    pub edges: Arc<EdgeData>,
    pub readout: Option<Arc<Readout>>,
    of: Of,
    /// Lists of a relation that leaves out edges that the loss does not reach.
    reached: Option<Arc<LabelledLists>>,
}

impl Lists {
    /// Returns the lists of a relation, or `None` if the data set has no such lists.
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

    /// Returns the lists of a micro-batch, or `None` if it has no such lists.
    pub(crate) fn of_part(relation: Relation, part: Arc<PartLists>) -> Option<Self> {
        let there = relation.over == Over::Neighbours && !relation.reached;
        let edges = part.edges.clone();
        there.then(|| Self { relation, edges, readout: None, of: Of::Part(part), reached: None })
    }

    /// Returns the source rows of each row.
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

    /// Returns the edge weights in the order of the lists, or `None` if gathers are not weighted.
    /// In a micro-batch, weights of sums and means may differ.
    pub(crate) fn weights(&self, of_means: bool) -> Option<&[f32]> {
        if let Of::Part(part) = &self.of {
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

    /// Returns the flags of the rows whose results are needed. `None` means all rows.
    pub(crate) fn wanted(&self) -> Option<&[bool]> {
        let reached = self.reached.as_ref().filter(|_| !self.relation.reversed);
        reached.map(|reached| reached.wanted())
    }
}

impl Lists {
    /// Returns true if each row is computed from one other row: a vertex from its graph.
    pub(crate) fn is_single(&self) -> bool {
        self.readout.is_some() && self.relation.reversed
    }

    /// Returns the row of the vertex that a row of vertices, or of graphs, belongs to.
    pub(crate) fn vertex(&self, row: u32, of_graphs: bool) -> u32 {
        let standing = self.readout.as_ref().filter(|_| of_graphs);
        standing.and_then(|readout| readout.standing.get(row as usize).copied()).unwrap_or(row)
    }
}
