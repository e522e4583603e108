//! Order of a run's vertices in memory. Results are always reported in the data set's order.

/// Order of a run's vertices in memory. `eciton data stat --orders` measures which order is best
/// for a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VertexOrder {
    /// The order of the data set.
    #[default]
    Natural,
    /// Descending degree.
    Degree,
    /// Reverse Cuthill-McKee order, which gives neighbours similar numbers.
    #[serde(rename = "rcm")]
    ReverseCuthillMckee,
    /// Rabbit order, in which the vertices of a community are adjacent, at several levels of
    /// communities.
    Rabbit,
}

impl VertexOrder {
    /// All orders, with their names in recipes.
    pub const ALL: [(&'static str, Self); 4] = [
        ("natural", Self::Natural),
        ("degree", Self::Degree),
        ("rcm", Self::ReverseCuthillMckee),
        ("rabbit", Self::Rabbit),
    ];
}
