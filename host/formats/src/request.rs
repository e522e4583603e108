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
    /// True for link prediction, which does not require a label column in a node table.
    pub links: bool,
    /// Treatment of self-loops. If `None`, they are dropped, except those of a store (a graph that
    /// `eciton data convert` wrote).
    pub self_loops: Option<SelfLoops>,
}

impl<'a> From<Option<&'a Expected>> for Request<'a> {
    fn from(expected: Option<&'a Expected>) -> Self {
        Self { expected, ..Self::default() }
    }
}
