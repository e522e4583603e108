//! Adjacency lists of the relations in a program. A relation lists, for each row, the rows that a
//! stage gathers.

use std::sync::Arc;

use eciton_graph::adjacency::{Adjacency, Graph};
use eciton_graph::dataset::Dataset;
use eciton_graph::graphs::Graphs;
use eciton_graph::labelled_edges::end_lists;
use eciton_program::{Over, Relation};

use crate::batch::PartLists;
use crate::edge_data::EdgeData;
use crate::error::Result;
use crate::loss_reachable::LabelledLists;

/// Rows that a readout computes, which are those of graphs or of labelled edges.
#[derive(Debug)]
pub(crate) struct Readout {
    /// Vertices from which each row is computed, as lists in the order of the rows. Graphs have the list
    /// of all their vertices ([`Graphs::by_number`]), and edges have those of their sources and targets.
    lists: Vec<(Over, Graph)>,
    /// Row of a vertex for each row, which determines the interval of the row. It is the vertex that
    /// represents the graph, or the source of the edge. In the inputs of a run, it ascends.
    pub standing: Vec<u32>,
}

impl Readout {
    pub(crate) fn from_graphs(graphs: &Graphs) -> Result<Self> {
        Ok(Self { lists: vec![(Over::Graphs, graphs.by_number()?)], standing: graphs.standing() })
    }

    /// Creates the rows of edges from their sources and targets, which are among `vertices` rows.
    pub(crate) fn from_edges(sources: Vec<u32>, targets: &[u32], vertices: usize) -> Result<Self> {
        let lists = vec![
            (Over::EdgeSources, end_lists(&sources, vertices)?),
            (Over::EdgeTargets, end_lists(targets, vertices)?),
        ];
        Ok(Self { lists, standing: sources })
    }

    /// Returns the lists of the kind `over`. `None` if the rows have no such lists.
    pub(crate) fn lists(&self, over: Over) -> Option<&Graph> {
        self.all().find(|(of, _)| *of == over).map(|(_, lists)| lists)
    }

    /// Returns the lists of all kinds.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Over, &Graph)> {
        self.lists.iter().map(|(over, lists)| (*over, lists))
    }

    /// Returns the source and the target of a row, if it is that of an edge.
    pub(crate) fn ends(&self, row: u32) -> Option<(u32, u32)> {
        let end = |over| self.lists(over)?.in_neighbours(row).first().copied();
        Some((end(Over::EdgeSources)?, end(Over::EdgeTargets)?))
    }

    /// Returns true if the rows are those of labelled edges.
    pub(crate) fn is_of_edges(&self) -> bool {
        self.lists(Over::EdgeSources).is_some()
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
        let readout = readout.filter(|readout| readout.lists(relation.over).is_some());
        let reached = reached.filter(|_| relation.reached);
        let there = (readout.is_some(), reached.is_some()) == (relation.over.is_readout(), relation.reached);
        there.then_some(Self { relation, edges, readout, of: Of::Data(dataset), reached })
    }

    /// Returns the adjacency lists of `relation` in a micro-batch. `readout` has the vertices of its
    /// graphs or edges. Returns `None` if the micro-batch has no such lists.
    pub(crate) fn of_part(
        relation: Relation,
        part: Arc<PartLists>,
        readout: Option<Arc<Readout>>,
    ) -> Option<Self> {
        let readout = readout.filter(|readout| readout.lists(relation.over).is_some());
        let there = readout.is_some() == relation.over.is_readout() && !relation.reached;
        let edges = part.edges.clone();
        there.then(|| Self { relation, edges, readout, of: Of::Part(part), reached: None })
    }

    /// Returns the lists with the source rows that each row is gathered from.
    pub(crate) fn adjacency(&self) -> &Adjacency {
        let readout = self.readout.as_ref().and_then(|readout| readout.lists(self.relation.over));
        let graph = match (readout, &self.of) {
            (Some(lists), _) => lists,
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
            if self.relation.over.is_readout() {
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
    /// Returns true if each row is gathered from exactly one row, as from a graph to its vertices, or
    /// from the end of an edge.
    pub(crate) fn is_single(&self) -> bool {
        match self.relation.over {
            Over::Neighbours => false,
            Over::Graphs => self.relation.reversed,
            Over::EdgeSources | Over::EdgeTargets => !self.relation.reversed,
        }
    }

    /// Returns the vertex row that `row` stands for. If `read_out` is true, `row` is the row of a graph
    /// or edge, and the result is the vertex that stands for it.
    pub(crate) fn vertex(&self, row: u32, read_out: bool) -> u32 {
        let standing = self.readout.as_ref().filter(|_| read_out);
        standing.and_then(|readout| readout.standing.get(row as usize).copied()).unwrap_or(row)
    }
}
