//! In which order a run's vertices lie in memory; results are in the data set's order whatever it is.

/// A vertex order. Which graph wants which: `eciton data stat --orders` counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VertexOrder {
    /// As the data set has them.
    #[default]
    Natural,
    /// Vertices of many neighbours first.
    Degree,
    /// Reverse Cuthill-McKee.
    #[serde(rename = "rcm")]
    ReverseCuthillMckee,
    /// Communities within communities.
    Rabbit,
}

impl VertexOrder {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("natural", Self::Natural),
        ("degree", Self::Degree),
        ("rcm", Self::ReverseCuthillMckee),
        ("rabbit", Self::Rabbit),
    ];
}
