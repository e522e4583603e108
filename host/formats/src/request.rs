//! Options of a reader, which [`crate::open_with`] passes to every format.

use eciton_graph::edge_rule::SelfLoops;
use eciton_graph::expected::Expected;

/// Options of a reader that do not follow from the content of the files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Columns and classes of a trained model, if the data is read for one.
    pub expected: Option<&'a Expected>,
    /// Name of the label column. If `None`, names and positions of the columns decide.
    pub label: Option<&'a str>,
    /// True if the task is link prediction, so that a node table needs no label column.
    pub links: bool,
    /// Treatment of self-loops. If `None`, they are dropped, except those of a store.
    pub self_loops: Option<SelfLoops>,
}

impl<'a> From<Option<&'a Expected>> for Request<'a> {
    fn from(expected: Option<&'a Expected>) -> Self {
        Self { expected, ..Self::default() }
    }
}
