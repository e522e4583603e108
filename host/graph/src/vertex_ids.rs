//! Ids of vertices or graphs in the user's data.

/// Ids of vertices (or graphs) in the user's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VertexIds {
    /// The user's ids are 0..V, like the dense ids of this crate.
    Dense,
    /// Ids that are numbers, one per vertex.
    Numbers(Vec<u64>),
    /// Ids that are words, one per vertex.
    Words(Vec<String>),
}

impl VertexIds {
    /// Returns the user's id of `vertex`. If no id is known, returns the dense id.
    pub fn name(&self, vertex: u32) -> String {
        let found = match self {
            Self::Dense => None,
            Self::Numbers(ids) => ids.get(vertex as usize).map(u64::to_string),
            Self::Words(ids) => ids.get(vertex as usize).cloned(),
        };
        found.unwrap_or_else(|| vertex.to_string())
    }
}
