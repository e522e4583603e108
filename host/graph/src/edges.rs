//! Sources of edges that can be read repeatedly, the input of the builders of graphs and stores.
//!
//! A source is divided into chunks. Any thread may read any chunk at any time and repeatedly, with
//! the same result. Therefore a builder can count edges in one pass and write them in the next
//! without keeping a copy. A graph larger than memory, a generator and a file look the same to it.

use crate::error::Result;

/// Maximum number of edges of a chunk. A builder's thread reserves 8 bytes for each of them.
pub const MAX_CHUNK_EDGES: usize = 1 << 22;
/// Maximum number of edge values of a chunk, at 4 bytes each.
pub const MAX_CHUNK_VALUES: usize = (1 << 22) + MAX_STREAMED_COLUMNS as usize;
/// Maximum number of value columns of a source.
pub const MAX_STREAMED_COLUMNS: u32 = 1024;

/// Source of directed edges (source, target) in chunks that can be read in any order, repeatedly.
pub trait EdgeSource: Sync {
    /// Returns the number of vertices. Every id of an edge is below it.
    fn vertices(&self) -> u64;

    /// Returns the number of chunks.
    fn chunks(&self) -> u64;

    /// Appends the edges of a chunk to `edges`, at most [`MAX_CHUNK_EDGES`], in an order that never
    /// changes.
    ///
    /// # Errors
    /// Returns an error with the location if the file cannot be read or does not contain edges.
    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<()>;

    /// Returns the number of values of each edge, at most [`MAX_STREAMED_COLUMNS`].
    fn columns(&self) -> u32 {
        0
    }

    /// Returns true if the only column is the edge's weight. In this case, an edge whose values add
    /// up to 0 is dropped.
    fn is_weight(&self) -> bool {
        false
    }

    /// Appends the edges of a chunk like [`EdgeSource::read`], and appends the values of each edge.
    /// Values are finite, and a chunk has at most [`MAX_CHUNK_VALUES`] of them.
    ///
    /// # Errors
    /// Returns the errors of [`EdgeSource::read`].
    fn read_with_values(
        &self,
        chunk: u64,
        edges: &mut Vec<(u32, u32)>,
        _values: &mut Vec<f32>,
    ) -> Result<()> {
        self.read(chunk, edges)
    }
}

/// Edge source over a number of vertices and a slice of edges in memory.
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
