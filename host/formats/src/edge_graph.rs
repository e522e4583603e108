//! Construction of graphs from the edge list of a file, with edge values.
//!
//! The readers of all graph formats call these functions.

use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::dataset::EdgeFeatures;
use eciton_graph::edge_rule::{EdgeRule, Zeros};
use eciton_graph::edges::EdgeSource;
use eciton_graph::error::Result;
use eciton_input::threads::processors;

use crate::edge_rows::EdgeRows;

/// Graph construction options of the readers. Each edge is added in both directions, and self-loops
/// are included. [`crate::open`] removes self-loops later unless the caller keeps them.
pub(crate) const AS_LISTED: Options = Options { symmetric: true, keep_self_loops: true };

/// Builds the graph of an edge list, with each edge in both directions. The optional `rows` are the
/// values of the edges. `file` is the name for messages, and `published` is true for layouts of
/// published data sets.
pub(crate) fn graph_of(
    file: &str,
    vertices: u64,
    edges: &[(u32, u32)],
    rows: Option<&EdgeRows>,
    published: bool,
) -> Result<(Graph, Option<EdgeFeatures>)> {
    if let Some(rows) = rows {
        let (graph, rows) = rows.graph(vertices, edges, AS_LISTED, published)?;
        return Ok((graph, Some(rows)));
    }
    let (graph, found) = EdgeRule::new(file, AS_LISTED).merged(&(vertices, edges), processors())?;
    found.report(file, published);
    Ok((graph, None))
}

/// Builds the graph of an edge source, with each edge in both directions and with the source's edge
/// values. `file` is the name for messages.
pub(crate) fn graph_and_values(file: &str, source: &dyn EdgeSource) -> Result<(Graph, Option<EdgeFeatures>)> {
    if source.columns() == 0 {
        let (graph, found) = EdgeRule::new(file, AS_LISTED).merged(source, processors())?;
        found.report(file, false);
        return Ok((graph, None));
    }
    let mut all =
        ValuedEdges { columns: source.columns(), weight: source.is_weight(), ..ValuedEdges::default() };
    for chunk in 0..source.chunks() {
        source.read_with_values(chunk, &mut all.edges, &mut all.values)?;
    }
    all.graph(file, source.vertices())
}

/// Edge list in the order of a file, with the values of each edge.
#[derive(Debug, Default)]
pub(crate) struct ValuedEdges {
    pub(crate) edges: Vec<(u32, u32)>,
    pub(crate) columns: u32,
    pub(crate) values: Vec<f32>,
    /// True if the only column contains edge weights.
    pub(crate) weight: bool,
}

impl ValuedEdges {
    /// Builds the graph of the edges, with each edge in both directions and with the edge values.
    /// `file` is the name for messages.
    pub(crate) fn graph(&self, file: &str, vertices: u64) -> Result<(Graph, Option<EdgeFeatures>)> {
        let Self { edges, columns, values, weight } = self;
        if *columns == 0 {
            return graph_of(file, vertices, edges, None, false);
        }
        let zeros = if *weight { Zeros::NoEdges } else { Zeros::Kept };
        let rule = EdgeRule::new(file, AS_LISTED).with_zeros(zeros);
        let (graph, rows, found) = rule.valued(vertices, edges, *columns, values, processors())?;
        found.report(file, false);
        Ok((graph, Some(rows)))
    }
}
