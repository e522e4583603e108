//! Ids of vertices as the user's data has them.

/// Ids of the vertices in the user's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VertexIds {
    /// The ids are 0..V, the dense ids that this crate uses.
    Dense,
    /// One number per vertex.
    Numbers(Vec<u64>),
    /// One word per vertex.
    Words(Vec<String>),
}

impl VertexIds {
    /// Returns the user's id of `vertex`, or its dense id if no other is known.
    pub fn name(&self, vertex: u32) -> String {
        let found = match self {
            Self::Dense => None,
            Self::Numbers(ids) => ids.get(vertex as usize).map(u64::to_string),
            Self::Words(ids) => ids.get(vertex as usize).cloned(),
        };
        found.unwrap_or_else(|| vertex.to_string())
    }
}
