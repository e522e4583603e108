//! Order of the vertices in memory during a run. Results are always reported in the order of the
//! data set.

/// Order of the vertices in memory during a run. `eciton data stat --orders` measures which order
/// is fastest for a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VertexOrder {
    /// The order of the data set.
    #[default]
    Natural,
    /// Descending order of degree.
    Degree,
    /// Reverse Cuthill-McKee order, in which neighbours have similar indices.
    #[serde(rename = "rcm")]
    ReverseCuthillMckee,
    /// Rabbit order, in which the vertices of each community are adjacent, on several levels of
    /// communities.
    Rabbit,
}

impl VertexOrder {
    /// All orders of a graph's vertices, with their names in recipes.
    pub const ALL: [(&'static str, Self); 4] = [
        ("natural", Self::Natural),
        ("degree", Self::Degree),
        ("rcm", Self::ReverseCuthillMckee),
        ("rabbit", Self::Rabbit),
    ];
}
