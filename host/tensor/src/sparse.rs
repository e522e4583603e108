//! Sparse rows in CSR format, with a cached transpose that is arranged for sums over a grid.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::grid::Grid;
use crate::slab::Slab;

/// Sparse matrix in CSR format (compressed sparse rows). The columns within each row ascend.
#[derive(Debug)]
pub struct SparseRows {
    columns: u32,
    offsets: Slab<u64>,
    indices: Slab<u32>,
    values: Slab<f32>,
    transposes: Mutex<Vec<(Range<usize>, Arc<Transpose>)>>,
}

/// Number of columns that are summed at the same time, so that their additions overlap.
pub(crate) const SLICE: usize = 4;

/// Maximum number of stored values in a sparse matrix. The index of a value shares a 32-bit word
/// with the number of levels that close.
const MAX_STORED: usize = 1 << 30;

/// Stored value of a column. An entry that fills a gap refers to the index after the last value,
/// which holds a zero.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entry {
    /// Index of the value's row within the interval (a contiguous range of rows).
    pub row: u32,
    /// Index of the value in the interval's row order, times 4, plus a number from 0 to 3. This
    /// number counts the tree levels that closed since the column's previous entry.
    pub place_closed: u32,
}

/// Stored values of one part of a grid, sorted by column. Columns with a similar number of values
/// are processed together ("sliced ELLPACK", Monakov et al. 2010).
#[derive(Debug, Default)]
pub(crate) struct PartSlices {
    /// Slices of [`SLICE`] columns, in descending order of their length. If the last slice has
    /// fewer columns, its last column is repeated.
    pub columns: Vec<[u32; SLICE]>,
    /// Index of the first entry of each slice, followed by the total number of entries.
    pub starts: Vec<usize>,
    /// Entries of all slices. Each element has the entries at one position of all columns in a
    /// slice.
    pub entries: Vec<[Entry; SLICE]>,
}

/// Stored values of an interval (a contiguous range of rows), sorted by column.
#[derive(Debug)]
pub(crate) struct Transpose {
    /// Stored values by column, for each part of the grid.
    pub parts: Vec<PartSlices>,
    /// Grid for which the transpose was created.
    grid: Grid,
}

/// Maximum number of cached transposes. There is usually one per interval.
const TRANSPOSES_KEPT: usize = 4096;

impl SparseRows {
    /// Creates a sparse matrix from CSR arrays and checks them. `offsets` has one more entry than
    /// there are rows, and starts with 0.
    pub fn new(
        columns: u32,
        offsets: impl Into<Slab<u64>>,
        indices: impl Into<Slab<u32>>,
        values: impl Into<Slab<f32>>,
    ) -> Result<Self> {
        let (offsets, indices, values) = (offsets.into(), indices.into(), values.into());
        let bad = |reason: String| Error::Argument { operation: "sparse rows", reason };
        if offsets.first() != Some(&0) || offsets.last() != Some(&(indices.len() as u64)) {
            return Err(bad(format!("offsets must run from 0 to {}", indices.len())));
        }
        if indices.len() != values.len() || indices.len() >= MAX_STORED {
            return Err(bad(format!(
                "there are {} column indices for {} values, but the two numbers must be equal and below 2^30",
                indices.len(),
                values.len()
            )));
        }
        for (row, w) in offsets.windows(2).enumerate() {
            let within = w[0] <= w[1] && w[1] <= indices.len() as u64;
            let stored = if within { &indices[w[0] as usize..w[1] as usize] } else { &[] };
            let ascending = stored.windows(2).all(|p| p[0] < p[1]);
            if !within || !ascending || stored.last().is_some_and(|&c| c >= columns) {
                return Err(bad(format!("row {row}: columns must ascend and be below {columns}")));
            }
        }
        Ok(Self { columns, offsets, indices, values, transposes: Mutex::default() })
    }

    /// Returns the number of rows of the sparse matrix.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the number of columns of the sparse matrix.
    pub fn columns(&self) -> usize {
        self.columns as usize
    }

    /// Returns the number of values that the matrix stores.
    pub fn stored(&self) -> usize {
        self.values.len()
    }

    /// Returns the size of the matrix in bytes, without its cached transposes.
    pub fn bytes(&self) -> usize {
        self.offsets.len() * 8 + self.values.len() * 8
    }

    /// Returns the columns and the values that row `row` stores.
    #[inline]
    pub fn row(&self, row: usize) -> (&[u32], &[f32]) {
        let span = self.offsets[row] as usize..self.offsets[row + 1] as usize;
        (&self.indices[span.clone()], &self.values[span])
    }

    /// Returns the stored values of the rows in `rows`, in row order.
    pub fn values_in(&self, rows: Range<usize>) -> &[f32] {
        &self.values[self.offsets[rows.start] as usize..self.offsets[rows.end] as usize]
    }

    /// Returns the CSR lists of the rows in `rows`. The first list has the start of the first row
    /// and the end of each row, as indices into all stored values. The second has the columns of
    /// the values.
    pub(crate) fn lists_in(&self, rows: Range<usize>) -> (&[u64], &[u32]) {
        let ends = &self.offsets[rows.start..rows.end + 1];
        (ends, &self.indices[ends[0] as usize..ends[rows.len()] as usize])
    }

    /// Returns the number of values that the rows in `rows` store.
    pub fn stored_in(&self, rows: Range<usize>) -> usize {
        (self.offsets[rows.end] - self.offsets[rows.start]) as usize
    }

    /// Returns the transpose of the rows in `rows`, arranged for sums over `grid`. It is created
    /// once per interval and then cached.
    pub(crate) fn transpose(&self, rows: Range<usize>, grid: &Grid) -> Arc<Transpose> {
        let mut kept = self.transposes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, t)) = kept.iter().find(|(r, t)| *r == rows && t.grid == *grid) {
            return t.clone();
        }
        let made = Arc::new(self.make_transpose(rows.clone(), grid));
        if kept.len() >= TRANSPOSES_KEPT {
            kept.remove(0);
        }
        kept.push((rows, made.clone()));
        made
    }

    fn make_transpose(&self, rows: Range<usize>, grid: &Grid) -> Transpose {
        let mut last_atom = vec![(u32::MAX, 0u32); self.columns()];
        let mut by_column: Vec<Vec<Entry>> = vec![Vec::new(); self.columns()];
        let filler = Entry { row: 0, place_closed: (self.stored_in(rows.clone()) as u32) << 2 };
        let (mut place, mut parts) = (0u32, Vec::new());
        for (p, part) in grid.parts().iter().enumerate() {
            let mut closes: Vec<u8> = Vec::new();
            for (a, atom) in part.atoms.iter().enumerate() {
                for row in atom.rows.clone() {
                    for &c in self.row(rows.start + row as usize).0 {
                        let (last_part, last) = last_atom[c as usize];
                        let since = if last_part == p as u32 { &closes[last as usize..a] } else { &[][..] };
                        let closed = since.iter().copied().max().unwrap_or(0).min(3);
                        last_atom[c as usize] = (p as u32, a as u32);
                        by_column[c as usize]
                            .push(Entry { row, place_closed: place << 2 | u32::from(closed) });
                        place += 1;
                    }
                }
                closes.push(atom.closes + 1);
            }
            parts.push(PartSlices::new(&mut by_column, filler));
        }
        Transpose { parts, grid: grid.clone() }
    }
}

impl PartSlices {
    /// Creates the slices of a part from the entries of each column, and clears these lists.
    fn new(by_column: &mut [Vec<Entry>], filler: Entry) -> Self {
        let mut order: Vec<u32> = (0..by_column.len() as u32).collect();
        order.sort_by_key(|&c| std::cmp::Reverse(by_column[c as usize].len()));
        let mut slices = Self { starts: vec![0], ..Self::default() };
        for chunk in order.chunks(SLICE) {
            let columns = std::array::from_fn(|i| chunk[i.min(chunk.len() - 1)]);
            slices.columns.push(columns);
            for i in 0..by_column[columns[0] as usize].len() {
                let entry = |c: u32| by_column[c as usize].get(i).copied().unwrap_or(filler);
                slices.entries.push(columns.map(entry));
            }
            slices.starts.push(slices.entries.len());
        }
        by_column.iter_mut().for_each(Vec::clear);
        slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_blocks_are_refused() {
        let new = |offsets: &[u64], indices: &[u32]| {
            SparseRows::new(3, offsets.to_vec(), indices.to_vec(), vec![1.0; indices.len()])
        };
        assert!(new(&[0, 2, 2, 3], &[0, 2, 1]).is_ok());
        assert!(new(&[0, 2], &[2, 0]).is_err(), "not ascending");
        assert!(new(&[0, 1], &[3]).is_err(), "no such column");
        assert!(new(&[0, 5, 1], &[0]).is_err(), "offsets past the end");
        assert!(new(&[], &[]).is_err());
    }
}
