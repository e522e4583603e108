//! The lists of a program's relations, as a data set has them.

use std::sync::Arc;

use eciton_graph::adjacency::{Adjacency, Graph};
use eciton_graph::dataset::Dataset;
use eciton_graph::graphs::Graphs;
use eciton_plan::{Over, Relation};

use crate::batch::PartLists;
use crate::edge_data::EdgeData;
use crate::error::Result;
use crate::labelled::LabelledLists;

/// The graphs of a data set of many, as rows.
#[derive(Debug)]
pub(crate) struct Readout {
    /// By the numbers of graphs ([`Graphs::by_number`]).
    pub lists: Graph,
    /// The rows of the vertices that stand for graphs, ascending: in the order of graphs' rows.
    pub standing: Vec<u32>,
}

impl Readout {
    pub(crate) fn of(graphs: &Graphs) -> Result<Self> {
        Ok(Self { lists: graphs.by_number()?, standing: graphs.standing() })
    }
}

/// Whose lists they are.
#[derive(Debug, Clone)]
enum Of {
    Data(Arc<Dataset>),
    Part(Arc<PartLists>),
}

/// The lists that stages follow.
#[derive(Debug, Clone)]
pub(crate) struct Lists {
    pub relation: Relation,
    pub edges: Arc<EdgeData>,
    pub readout: Option<Arc<Readout>>,
    of: Of,
    /// Those of a relation that leaves out what the loss does not reach.
    reached: Option<Arc<LabelledLists>>,
}

impl Lists {
    /// `None` where the data set has no such lists.
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

    /// Those of a part of a batch; `None` where it has no such lists.
    pub(crate) fn of_part(relation: Relation, part: Arc<PartLists>) -> Option<Self> {
        let there = relation.over == Over::Neighbours && !relation.reached;
        let edges = part.edges.clone();
        there.then(|| Self { relation, edges, readout: None, of: Of::Part(part), reached: None })
    }

    /// For each row the rows that its result is made from.
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

    /// The weights of edges, in the order of the lists, where gathers are weighted, or, of a part
    /// of a batch, sums or means.
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

    /// The rows whose results are wanted; `None`: all.
    pub(crate) fn wanted(&self) -> Option<&[bool]> {
        let reached = self.reached.as_ref().filter(|_| !self.relation.reversed);
        reached.map(|reached| reached.wanted())
    }
}

impl Lists {
    /// Returns whether each row is made from one other: a vertex from its graph.
    pub(crate) fn is_single(&self) -> bool {
        self.readout.is_some() && self.relation.reversed
    }

    /// The row of the vertex that a row of vertices, or of graphs, is of.
    pub(crate) fn vertex(&self, row: u32, of_graphs: bool) -> u32 {
        let standing = self.readout.as_ref().filter(|_| of_graphs);
        standing.and_then(|readout| readout.standing.get(row as usize).copied()).unwrap_or(row)
    }
}
