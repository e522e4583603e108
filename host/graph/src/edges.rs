//! Sources of edges, which builders of graphs and stores can read repeatedly.

use crate::error::Result;

/// Maximum number of edges in a chunk of a source. Each thread of a builder reserves 8 bytes per
/// edge.
pub const MAX_CHUNK_EDGES: usize = 1 << 22;
/// Maximum number of edge values in a chunk of a source. Each value takes 4 bytes.
pub const MAX_CHUNK_VALUES: usize = (1 << 22) + MAX_STREAMED_COLUMNS as usize;
/// Maximum number of value columns of a source that is read in chunks.
pub const MAX_STREAMED_COLUMNS: u32 = 1024;

/// Source of directed edges (source, target), divided into chunks. Chunks can be read in any order
/// and repeatedly.
pub trait EdgeSource: Sync {
    /// Returns the number of vertices. All vertex ids in edges are below it.
    fn vertices(&self) -> u64;

    /// Returns the number of chunks into which the edges are divided.
    fn chunks(&self) -> u64;

    /// Appends the edges of the chunk `chunk` to `edges`. A chunk has at most [`MAX_CHUNK_EDGES`]
    /// edges, whose order never changes.
    ///
    /// # Errors
    /// Returns an error with the location if the file cannot be read or does not contain edges.
    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<()>;

    /// Returns the number of values per edge, at most [`MAX_STREAMED_COLUMNS`].
    fn columns(&self) -> u32 {
        0
    }

    /// Returns true if the only value column is the edge's weight. Edges whose values add up to 0
    /// are then dropped.
    fn is_weight(&self) -> bool {
        false
    }

    /// Appends the edges of a chunk like [`EdgeSource::read`], and their values to `_values`.
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

/// Edge source in memory, which consists of the number of vertices and a slice of edges.
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
