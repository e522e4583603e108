//! Vertex features, which are one dense or sparse row of numbers per vertex.

use std::sync::Arc;

use eciton_tensor::{Buffer, ReadRows, Slab, View};

use crate::corrections::{Collector, Corrections, Number};
use crate::error::{Error, Place, Result};
use eciton_input::threads::{on_threads, shares, threads_for};

/// Sparse feature rows in CSR format. Values that are not stored are zero.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseRows {
    /// Number of columns in every row.
    pub columns: u32,
    /// Start of each row in `indices` and `values`, followed by their length. Offsets start at 0
    /// and never descend.
    pub offsets: Slab<u64>,
    /// Column of each stored value. Columns ascend within a row and have no repeats.
    pub indices: Slab<u32>,
    /// Stored value for each entry of `indices`.
    pub values: Slab<f32>,
    /// Differences between the exact values and the f32 values that are stored.
    pub corrections: Corrections,
}

/// Builder of sparse rows, to which one row after the other is appended.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseBuilder {
    columns: u32,
    offsets: Vec<u64>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl SparseBuilder {
    /// Creates a builder without rows, for rows of `columns` values.
    pub fn new(columns: u32) -> Self {
        Self { columns, offsets: vec![0], indices: Vec::new(), values: Vec::new() }
    }

    /// Appends a row that consists of entries (column, value) in any order. Values with the same
    /// column are added up, and zeros are dropped. `entries` is sorted in place.
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

    /// Returns the rows that were appended.
    pub fn finish(self) -> SparseRows {
        SparseRows {
            columns: self.columns,
            offsets: self.offsets.into(),
            indices: self.indices.into(),
            values: self.values.into(),
            corrections: Corrections::NONE,
        }
    }
}

impl SparseRows {
    /// Creates sparse rows from entries in any order. The entries of each row are sorted, values
    /// with the same column are added up, and zeros are dropped. `offsets` must ascend to the
    /// length of `indices` and `values`. Entries beyond the last offset are ignored.
    pub fn from_unsorted(columns: u32, offsets: &[u64], indices: &[u32], values: &[f32]) -> Self {
        let mut rows = SparseBuilder::new(columns);
        rows.offsets.reserve_exact(offsets.len().saturating_sub(1));
        rows.indices.reserve_exact(indices.len());
        rows.values.reserve_exact(values.len());
        let mut row: Vec<(u32, f32)> = Vec::new();
        for pair in offsets.windows(2) {
            let range = pair[0] as usize..pair[1] as usize;
            row.clear();
            if let (Some(i), Some(v)) = (indices.get(range.clone()), values.get(range)) {
                row.extend(i.iter().copied().zip(v.iter().copied()));
            }
            rows.push_row(&mut row);
        }
        rows.finish()
    }

    /// Creates rows like [`SparseRows::from_unsorted`] from numbers that f32 may not represent
    /// exactly. The exact number k is `values[k] + residuals[k]`. Warnings contain the name `file`.
    pub fn from_unsorted_exact(
        columns: u32,
        offsets: &[u64],
        indices: &[u32],
        (values, residuals): (&[f32], &[f64]),
        file: &str,
    ) -> Self {
        let mut rows = Self::from_unsorted(columns, offsets, indices, values);
        let mut collector = Collector::sparse(file);
        let mut row: Vec<(u32, f64)> = Vec::new();
        for (number, pair) in (0u32..).zip(offsets.windows(2)) {
            let range = pair[0] as usize..pair[1] as usize;
            row.clear();
            if let (Some(i), Some(v), Some(r)) =
                (indices.get(range.clone()), values.get(range.clone()), residuals.get(range))
            {
                row.extend(i.iter().zip(v).zip(r).map(|((&i, &v), &r)| (i, f64::from(v) + r)));
            }
            row.sort_by_key(|entry| entry.0);
            row.dedup_by(|next, first| {
                let same = next.0 == first.0;
                if same {
                    first.1 += next.1;
                }
                same
            });
            // The stored value is a sum of f32 values. The correction is the difference to the
            // exact sum.
            let (stored, of) = rows.row(number as usize);
            for &(column, exact) in &row {
                let rounded = stored.binary_search(&column).ok().and_then(|at| of.get(at)).copied();
                let rounded = rounded.unwrap_or_default();
                let residual = exact - f64::from(rounded);
                if rounded.is_finite() && residual.is_finite() {
                    collector.push(number, column, Number { rounded, residual });
                }
            }
        }
        rows.corrections = collector.finish();
        rows
    }

    /// Creates sparse rows from the values of dense rows that are not zero. `filled` is the number
    /// of these values.
    fn from_view(rows: &View<'_>, filled: usize) -> Self {
        let mut sparse = SparseBuilder::new(rows.columns() as u32);
        sparse.offsets.reserve_exact(rows.rows());
        sparse.indices.reserve_exact(filled);
        sparse.values.reserve_exact(filled);
        for row in 0..rows.rows() {
            for (column, &value) in (0..).zip(rows.row(row)).filter(|(_, value)| **value != 0.0) {
                sparse.indices.push(column);
                sparse.values.push(value);
            }
            sparse.offsets.push(sparse.indices.len() as u64);
        }
        sparse.finish()
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns the columns and the values that the row `row` stores. Both are empty if the row does
    /// not exist.
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

/// Dense feature rows in memory or in a mapped file. A read lease prevents changes of the rows, and
/// clones share the memory.
#[derive(Debug, Clone)]
pub struct DenseRows {
    rows: Arc<ReadRows>,
    /// Differences between the exact values and the f32 values that are stored.
    corrections: Corrections,
}

impl DenseRows {
    /// Takes a read lease on all rows of `buffer`.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if a write lease on some of the rows exists.
    pub fn new(buffer: &Buffer) -> Result<Self> {
        let rows = Arc::new(buffer.read(0..buffer.rows()).map_err(Error::memory("features"))?);
        Ok(Self { rows, corrections: Corrections::NONE })
    }

    /// Returns a view of all feature rows.
    pub fn view(&self) -> View<'_> {
        self.rows.view()
    }

    /// Returns the buffer that contains the rows.
    pub fn buffer(&self) -> &Buffer {
        self.rows.buffer()
    }

    /// Calls `change` with the index and the values of each row, and returns the changed rows
    /// without corrections. The rows are changed in place if nothing else shares them, and copied
    /// otherwise.
    pub(crate) fn changed(self, mut change: impl FnMut(usize, &mut [f32])) -> Result<Self> {
        let failed = Error::memory("features");
        let mut buffer = self.buffer().clone();
        if Arc::strong_count(&self.rows) > 1 || buffer.is_lent() {
            let view = self.view();
            buffer = Buffer::zeroed(view.rows(), view.columns()).map_err(&failed)?;
            let mut lease = buffer.write(0..view.rows()).map_err(&failed)?;
            let mut rows = lease.view_mut();
            (0..view.rows()).for_each(|row| rows.row_mut(row).copy_from_slice(view.row(row)));
        }
        drop(self);
        let mut lease = buffer.write(0..buffer.rows()).map_err(&failed)?;
        let mut rows = lease.view_mut();
        (0..rows.rows()).for_each(|row| change(row, rows.row_mut(row)));
        drop(lease);
        Self::new(&buffer)
    }
}

impl PartialEq for DenseRows {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.view(), other.view());
        a.rows() == b.rows()
            && a.columns() == b.columns()
            && self.corrections == other.corrections
            && (0..a.rows()).all(|row| a.row(row) == b.row(row))
    }
}

/// Features of all vertices, which are dense or sparse rows.
#[derive(Debug, Clone, PartialEq)]
pub enum Features {
    /// Dense rows, one per vertex.
    Dense(DenseRows),
    /// Sparse rows, which store only values other than zero.
    Sparse(SparseRows),
}

/// Fraction of values other than zero below which dense features are converted to sparse rows. The
/// features must also have at least [`SPARSE_COLUMNS`] columns. The fraction was chosen by
/// measurements with 35 % of such values, and 16, 64 and 256 hidden columns. An epoch with sparse
/// rows took 0.88, 0.61 and 0.76 of the time with dense rows at dropout 0.5. Without dropout it
/// took 0.87, 0.87 and 1.17.
pub const SPARSE_SHARE: f64 = 0.4;
/// Minimum number of feature columns for the conversion to sparse rows. Narrower features gain
/// nothing from it.
pub const SPARSE_COLUMNS: u32 = 64;

/// Number of values that are read from a file at a time.
const BLOCK_VALUES: usize = 1 << 16;

fn sparse_enough(columns: usize, filled: usize, values: usize) -> bool {
    columns >= SPARSE_COLUMNS as usize && (filled as f64) < SPARSE_SHARE * values as f64
}

impl Features {
    /// Creates dense features from `values`, which are rows of `columns` values.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the last row is incomplete, and [`Error::Memory`] if the
    /// rows do not fit in memory.
    pub fn dense(columns: u32, values: &[f32]) -> Result<Self> {
        let rows = values.len().checked_div(columns as usize).unwrap_or(0);
        if rows * columns as usize != values.len() {
            let expected = format!("rows of {columns} values");
            return Err(Error::malformed(
                Place::whole("features"),
                expected,
                format!("{} values", values.len()),
            ));
        }
        let buffer = Buffer::from_rows(rows, columns as usize, values).map_err(Error::memory("features"))?;
        Ok(Self::Dense(DenseRows::new(&buffer)?))
    }

    /// Creates features from dense values. They are converted to sparse rows if few values are not
    /// zero (see [`SPARSE_SHARE`] and [`SPARSE_COLUMNS`]).
    ///
    /// # Errors
    /// Returns the errors of [`Features::dense`].
    pub fn from_dense(columns: u32, values: &[f32]) -> Result<Self> {
        let filled = values.iter().filter(|v| **v != 0.0).count();
        match sparse_enough(columns as usize, filled, values.len()) {
            true => {
                let rows = values.len() / columns as usize;
                Ok(Self::Sparse(SparseRows::from_view(&View::new(values, rows, columns as usize), filled)))
            }
            false => Self::dense(columns, values),
        }
    }

    /// Creates features from sparse rows. They are converted to dense rows if many values are not
    /// zero (see [`SPARSE_SHARE`] and [`SPARSE_COLUMNS`]).
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if dense rows do not fit in memory.
    pub fn from_sparse(sparse: SparseRows) -> Result<Self> {
        let (rows, columns) = (sparse.rows(), sparse.columns as usize);
        if sparse_enough(columns, sparse.values.len(), rows.saturating_mul(columns)) {
            return Ok(Self::Sparse(sparse));
        }
        let corrections = sparse.corrections.clone();
        let failed = Error::memory("features");
        let buffer = Buffer::zeroed(rows, columns).map_err(&failed)?;
        let mut lease = buffer.write(0..rows).map_err(&failed)?;
        let mut into = lease.view_mut();
        for row in 0..rows {
            let (columns, values) = sparse.row(row);
            let into = into.row_mut(row);
            columns.iter().zip(values).for_each(|(&column, &value)| into[column as usize] = value);
        }
        drop(lease);
        Ok(Self::Dense(DenseRows::new(&buffer)?).with_corrections(corrections))
    }

    /// Returns the features with other corrections in place of the current ones.
    #[must_use]
    pub fn with_corrections(mut self, corrections: Corrections) -> Self {
        match &mut self {
            Self::Dense(rows) => rows.corrections = corrections,
            Self::Sparse(rows) => rows.corrections = corrections,
        }
        self
    }

    /// Returns the differences between the exact values and the stored f32. Only scaling by columns
    /// uses these differences.
    pub fn corrections(&self) -> &Corrections {
        match self {
            Self::Dense(rows) => &rows.corrections,
            Self::Sparse(rows) => &rows.corrections,
        }
    }

    /// Creates features from rows that `fill` writes. `fill` is called for one block of whole rows
    /// after the other, so that a file need not be in memory as a whole. Like
    /// [`Features::from_dense`], the function converts dense rows to sparse rows if few values are
    /// not zero.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if the rows do not fit in memory, and the errors of `fill`.
    pub fn streamed(
        rows: usize,
        columns: usize,
        mut fill: impl FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<Self> {
        let failed = Error::memory("features");
        let buffer = Buffer::zeroed(rows, columns).map_err(&failed)?;
        let mut lease = buffer.write(0..rows).map_err(&failed)?;
        let mut into = lease.view_mut();
        let block = (BLOCK_VALUES / columns.max(1)).max(1);
        let mut values = vec![0.0; block.min(rows) * columns];
        let mut filled = 0;
        for first in (0..rows).step_by(block) {
            let values = &mut values[..block.min(rows - first) * columns];
            fill(values)?;
            filled += values.iter().filter(|v| **v != 0.0).count();
            for (row, values) in (first..).zip(values.chunks_exact(columns)) {
                into.row_mut(row).copy_from_slice(values);
            }
        }
        drop(lease);
        let dense = DenseRows::new(&buffer)?;
        match sparse_enough(columns, filled, rows * columns) {
            true => Ok(Self::Sparse(SparseRows::from_view(&dense.view(), filled))),
            false => Ok(Self::Dense(dense)),
        }
    }

    /// Creates features with one column that is 1 for every vertex. A data set of many graphs has
    /// these features if its vertices have none.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if the rows do not fit in memory.
    pub fn constant(vertices: u64) -> Result<Self> {
        Self::dense(1, &vec![1.0; vertices as usize])
    }

    /// Creates one-hot features, which have one column per vertex that is 1 for that vertex. A data
    /// set of one graph has these features if its vertices have none.
    pub fn identity(vertices: u32) -> Self {
        Self::Sparse(SparseRows {
            columns: vertices,
            offsets: (0..=u64::from(vertices)).collect::<Vec<_>>().into(),
            indices: (0..vertices).collect::<Vec<_>>().into(),
            values: vec![1.0; vertices as usize].into(),
            corrections: Corrections::NONE,
        })
    }

    /// Returns the number of feature columns.
    pub fn columns(&self) -> u32 {
        match self {
            Self::Dense(rows) => rows.view().columns() as u32,
            Self::Sparse(rows) => rows.columns,
        }
    }

    /// Returns the number of rows, which is the number of vertices.
    pub fn rows(&self) -> usize {
        match self {
            Self::Dense(rows) => rows.view().rows(),
            Self::Sparse(rows) => rows.rows(),
        }
    }

    /// Returns the number of stored values. Dense rows store all their values.
    pub fn stored(&self) -> u64 {
        match self {
            Self::Dense(rows) => rows.view().rows() as u64 * rows.view().columns() as u64,
            Self::Sparse(rows) => rows.values.len() as u64,
        }
    }

    /// Returns the number of values other than zero.
    pub fn filled(&self) -> u64 {
        let filled = |values: &[f32]| values.iter().filter(|v| **v != 0.0).count() as u64;
        match self {
            Self::Dense(rows) => (0..self.rows()).map(|row| filled(rows.view().row(row))).sum(),
            Self::Sparse(rows) => filled(&rows.values),
        }
    }

    /// Divides each row by the sum of its values. A row whose sum is zero does not change. Rows
    /// that are shared or lie in a mapped file are copied into memory first.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if a copy of the rows does not fit in memory.
    pub fn normalise_rows(self) -> Result<Self> {
        fn normalise(row: &mut [f32]) {
            let sum = row.iter().map(|&v| f64::from(v)).sum::<f64>() as f32;
            // A sum so small that its reciprocal is infinite counts as zero.
            if sum != 0.0 && sum.recip().is_finite() {
                row.iter_mut().for_each(|v| *v /= sum);
            }
        }
        match self {
            Self::Dense(rows) => Ok(Self::Dense(rows.changed(|_, row| normalise(row))?)),
            Self::Sparse(mut rows) => {
                rows.corrections = Corrections::NONE;
                let mut values = rows.values.into_vec();
                for pair in rows.offsets.windows(2) {
                    if let Some(row) = values.get_mut(pair[0] as usize..pair[1] as usize) {
                        normalise(row);
                    }
                }
                rows.values = values.into();
                Ok(Self::Sparse(rows))
            }
        }
    }

    /// Returns true if at least one value is negative.
    pub fn any_negative(&self) -> bool {
        match self {
            Self::Dense(rows) => {
                let view = rows.view();
                (0..view.rows()).any(|row| view.row(row).iter().any(|v| *v < 0.0))
            }
            Self::Sparse(rows) => rows.values.iter().any(|v| *v < 0.0),
        }
    }

    /// Writes the row `row` to `into`, which has one value per feature column. Values that a sparse
    /// row does not store are written as zeros.
    pub fn copy_row(&self, row: usize, into: &mut [f32]) {
        into.fill(0.0);
        match self {
            Self::Dense(rows) => {
                if row < rows.view().rows() {
                    into.iter_mut().zip(rows.view().row(row)).for_each(|(to, from)| *to = *from);
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

    /// Checks the dimensions, the order of sparse columns, and that every value is finite. Error
    /// messages contain the name `file`.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] for another number of rows than `vertices`, [`Error::Malformed`]
    /// for inconsistent sparse rows, and [`Error::NotFinite`] for an infinite value or NaN.
    pub fn validate(&self, vertices: u32, file: &str) -> Result<()> {
        let (found, expected) = (self.rows() as u64, u64::from(vertices));
        if found != expected {
            let (place, other) = (Place::whole(file), "the graph".to_owned());
            return Err(Error::Mismatch { place, what: "feature rows", found, expected, other });
        }
        self.corrections().validate(self.rows(), self.columns(), file)?;
        match self {
            Self::Dense(rows) => {
                let view = rows.view();
                let fault = |&row: &usize| view.row(row).iter().any(|v| !v.is_finite());
                let work = shares(view.rows(), threads_for(self.stored()));
                let first = on_threads(work, |mut own| own.find(fault)).into_iter().flatten().next();
                let at =
                    first.and_then(|row| Some((row, view.row(row).iter().position(|v| !v.is_finite())?)));
                at.map_or(Ok(()), |(row, at)| Err(not_finite(file, row, at as u32, view.row(row)[at])))
            }
            Self::Sparse(rows) => rows.validate(file),
        }
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
                    "a column that repeats, descends or is too large",
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
    #![allow(clippy::unwrap_used, clippy::panic)]
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
        let sparse = Features::from_dense(64, &values).unwrap().normalise_rows().unwrap();
        assert!(matches!(sparse, Features::Sparse(_)));
        let dense = Features::dense(64, &values).unwrap().normalise_rows().unwrap();
        let (mut a, mut b) = (vec![9.0; 64], vec![9.0; 64]);
        for row in 0..3 {
            dense.copy_row(row, &mut a);
            sparse.copy_row(row, &mut b);
            assert_eq!(a, b);
        }
        assert_eq!(a[63], 0.75);
        assert_eq!((dense.rows(), sparse.rows(), sparse.filled()), (3, 3, 3));
        assert_eq!((dense.filled(), dense.stored(), sparse.stored()), (3, 192, 3));
        assert!(Features::dense(5, &values).is_err());
        dense.copy_row(3, &mut a);
        assert_eq!(a, [0.0; 64]);
    }

    #[test]
    fn shared_and_lent_rows_are_not_changed() {
        let values: Vec<f32> = (0..16).map(|v| v as f32).collect();
        let buffer = Buffer::over(2, 8, values.clone().into()).unwrap();
        let lent = Features::Dense(DenseRows::new(&buffer).unwrap());
        let own = Features::dense(8, &values).unwrap();
        assert_eq!(lent, own);
        for shared in [lent, own] {
            let normalised = shared.clone().normalise_rows().unwrap();
            assert_eq!(shared, Features::dense(8, &values).unwrap());
            assert_ne!(shared, normalised);
            // Alone, the very memory is changed.
            let Features::Dense(rows) = &normalised else { panic!("sparse") };
            let place = rows.view().data().as_ptr();
            let Features::Dense(again) = normalised.normalise_rows().unwrap() else { panic!("sparse") };
            assert_eq!(again.view().data().as_ptr(), place);
        }
    }

    #[test]
    fn nan_is_found_where_it_is() {
        let dense = Features::dense(2, &[0.0, 1.0, 2.0, f32::NAN]).unwrap();
        let text = dense.validate(2, "features.npy").unwrap_err().to_string();
        assert!(text.contains("features.npy, row 1: feature column 1 is NaN"), "{text}");
        let mut sparse = SparseBuilder::new(4);
        sparse.push_row(&mut [(3, f32::INFINITY)]);
        let text = Features::Sparse(sparse.finish()).validate(1, "x").unwrap_err().to_string();
        assert!(text.contains("row 0: feature column 3 is inf"), "{text}");
        assert!(Features::identity(4).validate(5, "x").is_err());
        assert!(Features::identity(4).validate(4, "x").is_ok());
    }
}
