//! The lists of a program's relations, as a data set has them.

use std::sync::Arc;

use eciton_graph::adjacency::{Adjacency, Graph};
use eciton_graph::dataset::Dataset;
use eciton_graph::graphs::Graphs;
use eciton_plan::{Over, Relation};

use crate::edge_data::EdgeData;
use crate::labelled::LabelledLists;

/// The lists that stages follow.
#[derive(Debug, Clone)]
pub(crate) struct Lists {
    pub relation: Relation,
    pub edges: Arc<EdgeData>,
    dataset: Arc<Dataset>,
    /// Those of a relation that leaves out what the loss does not reach.
    reached: Option<Arc<LabelledLists>>,
}

impl Lists {
    /// `None` where the data set has no such lists.
    pub(crate) fn new(
        relation: Relation,
        dataset: Arc<Dataset>,
        edges: Arc<EdgeData>,
        reached: Option<Arc<LabelledLists>>,
    ) -> Option<Self> {
        graph(&dataset, relation.over)?;
        let reached = reached.filter(|_| relation.reached);
        (reached.is_some() == relation.reached).then_some(Self { relation, edges, dataset, reached })
    }

    /// For each row the rows that its result is made from.
    pub(crate) fn adjacency(&self) -> &Adjacency {
        // There are such lists: `new` has seen them.
        let graph = graph(&self.dataset, self.relation.over).unwrap_or(&self.dataset.graph);
        match (&self.reached, self.relation.reversed) {
            (Some(reached), true) => reached.reversed().0,
            (_, true) => graph.outgoing(),
            (_, false) => graph.incoming(),
        }
    }

    /// The weights of edges, in the order of the lists, where the model's gathers are weighted.
    pub(crate) fn weights(&self) -> Option<&[f32]> {
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

/// The graph of a kind of lists; `None` of those of graphs where there are none.
pub(crate) fn graph(dataset: &Dataset, over: Over) -> Option<&Graph> {
    match over {
        Over::Neighbours => Some(&dataset.graph),
        Over::Graphs => dataset.graphs.as_ref().map(Graphs::lists),
    }
}
