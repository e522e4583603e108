//! Ids of vertices or graphs in the user's data, which may be numbers or words.

/// Ids of the vertices, or of the graphs, in the user's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VertexIds {
    /// The user's ids are 0..V, which are also the ids in this crate.
    Dense,
    /// Numbers, of which each vertex has one.
    Numbers(Vec<u64>),
    /// Words, of which each vertex has one.
    Words(Vec<String>),
}

impl VertexIds {
    /// Returns the user's id of `vertex` as text. If there is none, returns the number of the
    /// vertex.
    pub fn name(&self, vertex: u32) -> String {
        let found = match self {
            Self::Dense => None,
            Self::Numbers(ids) => ids.get(vertex as usize).map(u64::to_string),
            Self::Words(ids) => ids.get(vertex as usize).cloned(),
        };
        found.unwrap_or_else(|| vertex.to_string())
    }
}
