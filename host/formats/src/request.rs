//! Options for reading a data set, which [`crate::open_with`] passes to the reader of every format.

use eciton_graph::edge_rule::SelfLoops;
use eciton_graph::expected::Expected;

/// Options for reading a data set that the files do not determine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Columns and classes of the trained model that the data is read for. `None` if there is no
    /// model.
    pub expected: Option<&'a Expected>,
    /// Name of the label column. If `None`, it is inferred from the names and positions of the
    /// columns.
    pub label: Option<&'a str>,
    /// True if no labels of vertices are learnt, so that a node table needs no label column. This is
    /// the case for link prediction and for labels of edges.
    pub links: bool,
    /// Name of the column of an edge table that holds the labels of edges. If `None`, edges have no
    /// labels.
    pub edge_label: Option<&'a str>,
    /// Treatment of self-loops. If `None`, they are dropped, except those of a store (a graph that
    /// `eciton data convert` wrote).
    pub self_loops: Option<SelfLoops>,
}

impl<'a> From<Option<&'a Expected>> for Request<'a> {
    fn from(expected: Option<&'a Expected>) -> Self {
        Self { expected, ..Self::default() }
    }
}
