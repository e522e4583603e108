//! Edges that can be read again: what builders of graphs and stores read.
//!
//! A source is cut into chunks that any thread may read at any time, as often as it likes, with the
//! same result. So a builder can count in one pass and place in the next without keeping a copy, and
//! a graph that is larger than memory, a generator and a file look the same to it.

use crate::error::Result;

/// Most edges that a chunk may have: what a builder's thread has room for (8 bytes an edge).
pub const MAX_CHUNK_EDGES: usize = 1 << 22;
/// Most values of edges that a chunk may have (4 bytes each).
pub const MAX_CHUNK_VALUES: usize = (1 << 22) + MAX_STREAMED_COLUMNS as usize;
/// Most columns of values that a source may have.
pub const MAX_STREAMED_COLUMNS: u32 = 1024;

/// Directed edges (source, target) in chunks.
pub trait EdgeSource: Sync {
    /// The number of vertices; every id of an edge is below it.
    fn vertices(&self) -> u64;

    /// The number of chunks.
    fn chunks(&self) -> u64;

    /// Appends the edges of a chunk to `edges`, at most [`MAX_CHUNK_EDGES`], in an order that never
    /// changes.
    ///
    /// # Errors
    /// The file cannot be read or holds something else than edges; the place is named.
    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<()>;

    /// How many values each edge has, at most [`MAX_STREAMED_COLUMNS`].
    fn columns(&self) -> u32 {
        0
    }

    /// Returns whether the only column is the edge's weight, so that an edge whose values add up to 0 is no edge.
    fn is_weight(&self) -> bool {
        false
    }

    /// As [`EdgeSource::read`]; and appends each edge's values, finite ones, at most [`MAX_CHUNK_VALUES`].
    ///
    /// # Errors
    /// As [`EdgeSource::read`].
    fn read_with_values(
        &self,
        chunk: u64,
        edges: &mut Vec<(u32, u32)>,
        _values: &mut Vec<f32>,
    ) -> Result<()> {
        self.read(chunk, edges)
    }
}

/// Edges in memory.
impl EdgeSource for (u64, &[(u32, u32)]) {
    fn vertices(&self) -> u64 {
        self.0
    }

    fn chunks(&self) -> u64 {
        self.1.len().div_ceil(MAX_CHUNK_EDGES) as u64
    }

    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<()> {
        let part = usize::try_from(chunk).ok().and_then(|at| self.1.chunks(MAX_CHUNK_EDGES).nth(at));
        edges.extend_from_slice(part.unwrap_or_default());
        Ok(())
    }
}
