//! Column names with a known meaning in tables of rows, nodes and edges.

/// Names of a column that contains labels.
pub(crate) const LABELS: [&str; 4] = ["label", "target", "class", "y"];
/// Names of a column that contains the source vertices of edges.
pub(crate) const SOURCES: [&str; 7] = ["source", "src", "from", "u", "id_1", "node_1", "head"];
/// Names of a column that contains the target vertices of edges.
pub(crate) const TARGETS: [&str; 8] = ["target", "dst", "dest", "to", "v", "id_2", "node_2", "tail"];
