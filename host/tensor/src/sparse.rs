//! Sparse rows: a CSR block with values, and its transpose arranged for sums over a grid.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::grid::Grid;

/// Rows of which few values are stored: [rows, columns], columns ascending within a row.
#[derive(Debug)]
pub struct SparseRows {
    columns: u32,
    offsets: Vec<u64>,
    indices: Vec<u32>,
    values: Vec<f32>,
    transposes: Mutex<Vec<(Range<usize>, Arc<Transpose>)>>,
}

/// An interval's stored values by column.
#[derive(Debug)]
pub(crate) struct Transpose {
    /// [columns + 1] into the entries.
    pub offsets: Vec<u32>,
    /// Entries by column, then row: the row within the interval.
    pub rows: Vec<u32>,
    /// The entry's place among the interval's stored values in row order.
    pub places: Vec<u32>,
    /// Levels of the grid that closed since the column's previous entry of the same part.
    pub closed: Vec<u8>,
    /// First row of each part but the first.
    pub bounds: Vec<u32>,
}

/// How many intervals' transposes are kept.
const TRANSPOSES_KEPT: usize = 4096;

impl SparseRows {
    /// Checks and takes a CSR block. `offsets` has rows + 1 entries from 0.
    pub fn new(columns: u32, offsets: Vec<u64>, indices: Vec<u32>, values: Vec<f32>) -> Result<Self> {
        let bad = |reason: String| Error::Argument { operation: "sparse rows", reason };
        if offsets.first() != Some(&0) || offsets.last() != Some(&(indices.len() as u64)) {
            return Err(bad(format!("offsets must run from 0 to {}", indices.len())));
        }
        if indices.len() != values.len() || indices.len() > u32::MAX as usize {
            return Err(bad(format!("{} columns for {} values", indices.len(), values.len())));
        }
        for (row, w) in offsets.windows(2).enumerate() {
            let within = w[0] <= w[1] && w[1] <= indices.len() as u64;
            let stored = within.then(|| &indices[w[0] as usize..w[1] as usize]).unwrap_or_default();
            let ascending = stored.windows(2).all(|p| p[0] < p[1]);
            if !within || !ascending || stored.last().is_some_and(|&c| c >= columns) {
                return Err(bad(format!("row {row}: columns must ascend and be below {columns}")));
            }
        }
        Ok(Self { columns, offsets, indices, values, transposes: Mutex::default() })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns as usize
    }

    /// Stored values.
    pub fn stored(&self) -> usize {
        self.values.len()
    }

    /// Bytes held, transposes not counted.
    pub fn bytes(&self) -> usize {
        self.offsets.len() * 8 + self.values.len() * 8
    }

    /// The columns and values stored in a row.
    #[inline]
    pub fn row(&self, row: usize) -> (&[u32], &[f32]) {
        let span = self.offsets[row] as usize..self.offsets[row + 1] as usize;
        (&self.indices[span.clone()], &self.values[span])
    }

    /// The stored values of `rows`, in row order.
    pub fn values_in(&self, rows: Range<usize>) -> &[f32] {
        &self.values[self.offsets[rows.start] as usize..self.offsets[rows.end] as usize]
    }

    /// Stored values among `rows`.
    pub fn stored_in(&self, rows: Range<usize>) -> usize {
        (self.offsets[rows.end] - self.offsets[rows.start]) as usize
    }

    /// The transpose of `rows`, made once for an interval.
    pub(crate) fn transpose(&self, rows: Range<usize>, grid: &Grid) -> Arc<Transpose> {
        let mut kept = self.transposes.lock().unwrap_or_else(PoisonError::into_inner);
        let bounds: Vec<u32> = grid.parts().iter().skip(1).map(|p| p.rows().start as u32).collect();
        if let Some((_, t)) = kept.iter().find(|(r, t)| *r == rows && t.bounds == bounds) {
            return t.clone();
        }
        let made = Arc::new(self.make_transpose(rows.clone(), grid, bounds));
        if kept.len() >= TRANSPOSES_KEPT {
            kept.remove(0);
        }
        kept.push((rows, made.clone()));
        made
    }

    fn make_transpose(&self, rows: Range<usize>, grid: &Grid, bounds: Vec<u32>) -> Transpose {
        // Each row's atom, and the cumulative ends of atoms at each level before that row.
        let mut atom_of = vec![(0u32, 0u32); rows.len()];
        let mut closes: Vec<u8> = Vec::new();
        for (p, part) in grid.parts().iter().enumerate() {
            for atom in &part.atoms {
                for row in atom.rows.clone() {
                    atom_of[row as usize] = (p as u32, closes.len() as u32);
                }
                closes.push(atom.closes + 1);
            }
        }
        let mut offsets = vec![0u32; self.columns() + 1];
        let span = self.offsets[rows.start] as usize..self.offsets[rows.end] as usize;
        for &c in &self.indices[span.clone()] {
            offsets[c as usize + 1] += 1;
        }
        for c in 0..self.columns() {
            offsets[c + 1] += offsets[c];
        }
        let mut next = offsets.clone();
        let mut last = vec![(u32::MAX, 0u32); self.columns()];
        let mut out_rows = vec![0u32; span.len()];
        let mut places = vec![0u32; span.len()];
        let mut out_closed = vec![0u8; span.len()];
        let mut place = 0;
        for row in 0..rows.len() {
            let (columns, _) = self.row(rows.start + row);
            let (part, atom) = atom_of[row];
            for &c in columns {
                let (last_part, last_atom) = last[c as usize];
                let closed = if last_part == part {
                    closes[last_atom as usize..atom as usize].iter().copied().max().unwrap_or(0)
                } else {
                    0
                };
                last[c as usize] = (part, atom);
                let at = next[c as usize] as usize;
                next[c as usize] += 1;
                out_rows[at] = row as u32;
                places[at] = place;
                out_closed[at] = closed;
                place += 1;
            }
        }
        Transpose { offsets, rows: out_rows, places, closed: out_closed, bounds }
    }
}
