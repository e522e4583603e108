//! What is known of each vertex: one row of numbers, dense or sparse.

use crate::error::{Error, Place, Result};

/// Rows of which only the stored columns are not zero.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseRows {
    /// Columns of every row.
    pub columns: u32,
    /// `[rows + 1]`, from 0, never descending.
    pub offsets: Vec<u64>,
    /// Columns of the stored values, ascending within a row, without repeats.
    pub indices: Vec<u32>,
    /// The stored values, one for each of `indices`.
    pub values: Vec<f32>,
}

impl SparseRows {
    /// Sorts each row's entries by column, adds up values of a column that is named twice, and drops
    /// stored zeros. `offsets` must ascend to the length of `indices` and `values`; entries beyond
    /// are ignored.
    pub fn from_unsorted(columns: u32, offsets: &[u64], indices: &[u32], values: &[f32]) -> Self {
        let mut rows = Self {
            columns,
            offsets: Vec::with_capacity(offsets.len().max(1)),
            indices: Vec::with_capacity(indices.len()),
            values: Vec::with_capacity(values.len()),
        };
        rows.offsets.push(0);
        let mut row: Vec<(u32, f32)> = Vec::new();
        for pair in offsets.windows(2) {
            let range = pair[0] as usize..pair[1] as usize;
            row.clear();
            if let (Some(i), Some(v)) = (indices.get(range.clone()), values.get(range)) {
                row.extend(i.iter().copied().zip(v.iter().copied()));
            }
            rows.push_row(&mut row);
        }
        rows
    }

    /// Rows without any; [`SparseRows::push_row`] adds them.
    pub fn empty(columns: u32) -> Self {
        Self { columns, offsets: vec![0], indices: Vec::new(), values: Vec::new() }
    }

    /// Adds a row of (column, value) in any order; `entries` is left sorted.
    pub fn push_row(&mut self, entries: &mut [(u32, f32)]) {
        if !entries.is_sorted_by_key(|e| e.0) {
            entries.sort_by_key(|e| e.0);
        }
        let start = self.indices.len();
        for &(column, value) in entries.iter() {
            if self.indices.len() > start && self.indices.last() == Some(&column) {
                if let Some(last) = self.values.last_mut() {
                    *last += value;
                }
            } else if value != 0.0 {
                self.indices.push(column);
                self.values.push(value);
            }
        }
        self.offsets.push(self.indices.len() as u64);
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Columns and values of a row; empty for a row that does not exist.
    pub fn row(&self, row: usize) -> (&[u32], &[f32]) {
        match (self.offsets.get(row), self.offsets.get(row + 1)) {
            (Some(&from), Some(&to)) => {
                let range = from as usize..to as usize;
                (self.indices.get(range.clone()).unwrap_or(&[]), self.values.get(range).unwrap_or(&[]))
            }
            _ => (&[], &[]),
        }
    }
}

/// The features of all vertices.
#[derive(Debug, Clone, PartialEq)]
pub enum Features {
    /// `values [V, columns]`, row-major.
    Dense {
        /// Columns of every row.
        columns: u32,
        /// Row-major.
        values: Vec<f32>,
    },
    /// Only what is not zero.
    Sparse(SparseRows),
}

/// Below this share of values that are not zero, dense features of at least
/// [`SPARSE_COLUMNS`] columns are kept as sparse rows.
pub const SPARSE_SHARE: f64 = 0.2;
/// Narrower features stay dense: there is nothing to win.
pub const SPARSE_COLUMNS: u32 = 64;

impl Features {
    /// Dense features, turned into sparse rows where few values are not zero (see
    /// [`SPARSE_SHARE`] and [`SPARSE_COLUMNS`]).
    pub fn from_dense(columns: u32, values: Vec<f32>) -> Self {
        let filled = values.iter().filter(|v| **v != 0.0).count();
        if columns < SPARSE_COLUMNS || filled as f64 >= SPARSE_SHARE * values.len() as f64 {
            return Self::Dense { columns, values };
        }
        let mut sparse = SparseRows::empty(columns);
        sparse.indices.reserve_exact(filled);
        sparse.values.reserve_exact(filled);
        for row in values.chunks_exact(columns as usize) {
            for (column, &value) in row.iter().enumerate() {
                if value != 0.0 {
                    sparse.indices.push(column as u32);
                    sparse.values.push(value);
                }
            }
            sparse.offsets.push(sparse.indices.len() as u64);
        }
        Self::Sparse(sparse)
    }

    /// One column a vertex, 1 at its own: what a graph without features is trained on.
    pub fn identity(vertices: u32) -> Self {
        Self::Sparse(SparseRows {
            columns: vertices,
            offsets: (0..=u64::from(vertices)).collect(),
            indices: (0..vertices).collect(),
            values: vec![1.0; vertices as usize],
        })
    }

    /// Columns of every row.
    pub fn columns(&self) -> u32 {
        match self {
            Self::Dense { columns, .. } => *columns,
            Self::Sparse(rows) => rows.columns,
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Dense { columns: 0, .. } => 0,
            Self::Dense { columns, values } => values.len() / *columns as usize,
            Self::Sparse(rows) => rows.rows(),
        }
    }

    /// How many values are not zero.
    pub fn filled(&self) -> u64 {
        let values = match self {
            Self::Dense { values, .. } => values,
            Self::Sparse(rows) => &rows.values,
        };
        values.iter().filter(|v| **v != 0.0).count() as u64
    }

    /// Divides each row by the sum of its values; rows whose sum is zero stay.
    pub fn normalise_rows(&mut self) {
        fn normalise(row: &mut [f32]) {
            let sum = row.iter().map(|&v| f64::from(v)).sum::<f64>() as f32;
            // A sum so small that its reciprocal is infinite counts as zero.
            if sum != 0.0 && sum.recip().is_finite() {
                row.iter_mut().for_each(|v| *v /= sum);
            }
        }
        match self {
            Self::Dense { columns: 0, .. } => {}
            Self::Dense { columns, values } => {
                values.chunks_exact_mut(*columns as usize).for_each(normalise);
            }
            Self::Sparse(rows) => {
                for pair in rows.offsets.windows(2) {
                    if let Some(row) = rows.values.get_mut(pair[0] as usize..pair[1] as usize) {
                        normalise(row);
                    }
                }
            }
        }
    }

    /// Row `row` written out into `into` (`columns` values).
    pub fn copy_row(&self, row: usize, into: &mut [f32]) {
        into.fill(0.0);
        match self {
            Self::Dense { columns, values } => {
                let width = *columns as usize;
                if let Some(found) = values.get(row * width..(row + 1) * width) {
                    into.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
                }
            }
            Self::Sparse(rows) => {
                let (columns, values) = rows.row(row);
                for (&column, &value) in columns.iter().zip(values) {
                    if let Some(slot) = into.get_mut(column as usize) {
                        *slot = value;
                    }
                }
            }
        }
    }

    /// Checks extents, order and that every value is finite; `file` is named in errors.
    ///
    /// # Errors
    /// [`Error::Mismatch`], [`Error::Malformed`], [`Error::NotFinite`].
    pub fn validate(&self, vertices: u32, file: &str) -> Result<()> {
        let mismatch = |what, found, expected| Error::Mismatch {
            place: Place::whole(file),
            what,
            found,
            expected,
            other: "the graph".to_owned(),
        };
        match self {
            Self::Dense { columns, values } => {
                let expected = u64::from(vertices) * u64::from(*columns);
                if values.len() as u64 != expected {
                    return Err(mismatch("feature values", values.len() as u64, expected));
                }
                if let Some(at) = values.iter().position(|v| !v.is_finite()) {
                    let width = (*columns).max(1) as usize;
                    return Err(not_finite(file, at / width, (at % width) as u32, values[at]));
                }
            }
            Self::Sparse(rows) => {
                if rows.rows() as u64 != u64::from(vertices) {
                    let expected = u64::from(vertices);
                    return Err(mismatch("feature rows", rows.rows() as u64, expected));
                }
                rows.validate(file)?;
            }
        }
        Ok(())
    }
}

impl SparseRows {
    fn validate(&self, file: &str) -> Result<()> {
        let stored = self.indices.len() as u64;
        let ascends = self.offsets.first() == Some(&0)
            && self.offsets.last() == Some(&stored)
            && self.offsets.is_sorted();
        if !ascends || self.values.len() as u64 != stored {
            return Err(Error::malformed(
                Place::whole(file),
                "row offsets that ascend from 0 to the number of stored values",
                format!("{} columns, {} values and other offsets", stored, self.values.len()),
            ));
        }
        for row in 0..self.rows() {
            let (columns, values) = self.row(row);
            if !columns.is_sorted_by(|a, b| a < b) || columns.last() >= Some(&self.columns) {
                return Err(Error::malformed(
                    Place::row(file, row as u64),
                    format!("ascending columns below {}", self.columns),
                    "a column that repeats, descends or lies beyond",
                ));
            }
            if let Some(at) = values.iter().position(|v| !v.is_finite()) {
                return Err(not_finite(file, row, columns[at], values[at]));
            }
        }
        Ok(())
    }
}

fn not_finite(file: &str, row: usize, column: u32, value: f32) -> Error {
    Error::NotFinite { place: Place::row(file, row as u64), column: u64::from(column), value }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sparse_rows_sort_and_add_up() {
        let rows = SparseRows::from_unsorted(9, &[0, 4, 4, 5], &[7, 2, 7, 3, 1], &[1.0, 2.0, 3.0, 0.0, 5.0]);
        assert_eq!(rows.row(0), (&[2, 7][..], &[2.0, 4.0][..]));
        assert_eq!(rows.row(1), (&[][..], &[][..]));
        assert_eq!(rows.row(2), (&[1][..], &[5.0][..]));
        Features::Sparse(rows).validate(3, "x").unwrap();
    }

    #[test]
    fn dense_and_sparse_hold_the_same() {
        let mut values = vec![0.0; 64 * 3];
        values[5] = 2.0;
        values[64 * 2 + 1] = 1.0;
        values[64 * 2 + 63] = 3.0;
        let mut dense = Features::Dense { columns: 64, values: values.clone() };
        let mut sparse = Features::from_dense(64, values);
        assert!(matches!(sparse, Features::Sparse(_)));
        dense.normalise_rows();
        sparse.normalise_rows();
        let (mut a, mut b) = (vec![9.0; 64], vec![9.0; 64]);
        for row in 0..3 {
            dense.copy_row(row, &mut a);
            sparse.copy_row(row, &mut b);
            assert_eq!(a, b);
        }
        assert_eq!(a[63], 0.75);
        assert_eq!((dense.rows(), sparse.rows(), sparse.filled()), (3, 3, 3));
    }

    #[test]
    fn nan_is_found_where_it_is() {
        let dense = Features::Dense { columns: 2, values: vec![0.0, 1.0, 2.0, f32::NAN] };
        let text = dense.validate(2, "features.npy").unwrap_err().to_string();
        assert!(text.contains("features.npy, row 1: feature column 1 is NaN"), "{text}");
        let mut sparse = SparseRows::empty(4);
        sparse.push_row(&mut [(3, f32::INFINITY)]);
        let text = Features::Sparse(sparse).validate(1, "x").unwrap_err().to_string();
        assert!(text.contains("row 0: feature column 3 is inf"), "{text}");
        assert!(Features::identity(4).validate(5, "x").is_err());
        assert!(Features::identity(4).validate(4, "x").is_ok());
    }
}
