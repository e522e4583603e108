//! What kernels do again and again with scratch matrices.

use crate::handles::{Matrix, Out};
use crate::math::Real;
use crate::types::Result;

/// Values that go through the guest at once.
const TILE_VALUES: u32 = 1 << 16;

/// What `work` writes to a scratch matrix of these extents, rows first.
pub fn scratch(shape: &[u32], work: impl FnOnce(&Out) -> Result<()>) -> Result<Matrix> {
    let into = Out::create(shape)?;
    work(&into)?;
    into.finish()
}

/// into [n, ..] = the rows of `parts`, [n, ..] each, side by side. They go through the guest, tile by tile.
pub fn side_by_side<R: Real>(parts: &[&Matrix], into: &Out) -> Result<()> {
    let shape = into.shape();
    let rows = shape.first().copied().unwrap_or(0);
    let width = shape.iter().skip(1).product::<u32>();
    let mut start = 0;
    while start < rows && width > 0 {
        let count = (rows - start).min((TILE_VALUES / width).max(1));
        let mut tile = vec![R::ZERO; count as usize * width as usize];
        let mut at = 0;
        for part in parts {
            let values: Vec<R> = part.read_rows(start, count)?;
            let columns = values.len() / count as usize;
            if columns == 0 {
                continue;
            }
            for (to, from) in tile.chunks_exact_mut(width as usize).zip(values.chunks_exact(columns)) {
                to[at..at + columns].copy_from_slice(from);
            }
            at += columns;
        }
        into.write_rows(start, &tile)?;
        start += count;
    }
    Ok(())
}
