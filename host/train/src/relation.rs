//! Adjacency lists of the relations of a program. A relation is a set of edges along which stages
//! gather rows.

use std::sync::Arc;

use eciton_graph::adjacency::{Adjacency, Graph};
use eciton_graph::dataset::Dataset;
use eciton_graph::graphs::Graphs;
use eciton_program::{Over, Relation};

use crate::batch::PartLists;
use crate::edge_data::EdgeData;
use crate::error::Result;
use crate::loss_reachable::LabelledLists;

/// Rows of the graphs, for a data set of many graphs.
#[derive(Debug)]
pub(crate) struct Readout {
    /// Vertices of each graph, by the number of the graph ([`Graphs::by_number`]).
    pub lists: Graph,
    /// Rows of the vertices that represent graphs, in ascending order. The rows of graphs have the
    /// same order.
    pub standing: Vec<u32>,
}

impl Readout {
    pub(crate) fn of(graphs: &Graphs) -> Result<Self> {
        Ok(Self { lists: graphs.by_number()?, standing: graphs.standing() })
    }
}

/// Owner of the adjacency lists: the whole data set, or a micro-batch.
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
    /// Lists without the edges that do not influence the loss. `None` if the relation uses all
    /// edges.
    reached: Option<Arc<LabelledLists>>,
}

impl Lists {
    /// Returns the adjacency lists of a relation, or `None` if the data set has no such lists.
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

    /// Returns the adjacency lists of a relation within a micro-batch, or `None` if it has no such
    /// lists.
    pub(crate) fn of_part(relation: Relation, part: Arc<PartLists>) -> Option<Self> {
        let there = relation.over == Over::Neighbours && !relation.reached;
        let edges = part.edges.clone();
        there.then(|| Self { relation, edges, readout: None, of: Of::Part(part), reached: None })
    }

    /// Returns the source rows from which each row is gathered.
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
    /// `of_means` selects the weights of means, which differ from those of sums in some
    /// micro-batches.
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

    /// Returns a flag for each row: true if the result of the row is needed. Returns `None` if all
    /// rows are needed.
    pub(crate) fn wanted(&self) -> Option<&[bool]> {
        let reached = self.reached.as_ref().filter(|_| !self.relation.reversed);
        reached.map(|reached| reached.wanted())
    }
}

impl Lists {
    /// Returns true if each row has one source row, as in the relation from a graph to its
    /// vertices.
    pub(crate) fn is_single(&self) -> bool {
        self.readout.is_some() && self.relation.reversed
    }

    /// Returns the vertex row to which a row belongs. If `of_graphs`, this is the vertex that
    /// represents the graph.
    pub(crate) fn vertex(&self, row: u32, of_graphs: bool) -> u32 {
        let standing = self.readout.as_ref().filter(|_| of_graphs);
        standing.and_then(|readout| readout.standing.get(row as usize).copied()).unwrap_or(row)
    }
}
