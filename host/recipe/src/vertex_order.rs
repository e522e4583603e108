//! Order of a run's vertices in memory. Results are in the data set's order, whatever this order
//! is.

/// A vertex order. `eciton data stat --orders` measures which order suits a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VertexOrder {
    /// The order of the data set.
    #[default]
    Natural,
    /// Descending degree.
    Degree,
    /// Reverse Cuthill-McKee.
    #[serde(rename = "rcm")]
    ReverseCuthillMckee,
    /// Rabbit order: communities within communities.
    Rabbit,
}

impl VertexOrder {
    /// All orders, with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("natural", Self::Natural),
        ("degree", Self::Degree),
        ("rcm", Self::ReverseCuthillMckee),
        ("rabbit", Self::Rabbit),
    ];
}
