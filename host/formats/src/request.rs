//! Wishes of the caller of a reader, which [`crate::open_with`] passes to every reader.

use eciton_graph::edge_rule::SelfLoops;
use eciton_graph::expected::Expected;

/// Wishes of the reader's caller that the content of files does not decide.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Columns and classes of a trained model, if the data are for one.
    pub expected: Option<&'a Expected>,
    /// Name of the column that holds the labels. `None`: names and positions of the columns decide.
    pub label: Option<&'a str>,
    /// True if links are predicted, so that no column of a table of nodes has to hold labels.
    pub links: bool,
    /// Treatment of self-loops. `None`: they are dropped, and a store has those that it was written
    /// with.
    pub self_loops: Option<SelfLoops>,
}

impl<'a> From<Option<&'a Expected>> for Request<'a> {
    fn from(expected: Option<&'a Expected>) -> Self {
        Self { expected, ..Self::default() }
    }
}
