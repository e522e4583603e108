//! Immutable matrix as a kernel sees it. Its rows are dense, sparse or still arriving.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::{Buffer, ReadRows, WriteRows};
use crate::error::{Error, Result};
use crate::half::ReadHalf;
use crate::sparse::SparseRows;
use crate::stream::Arriving;
use crate::view::View;

/// Immutable matrix, or a view of one. Clones are cheap and share the memory.
#[derive(Debug, Clone)]
pub enum Matrix {
    /// Dense rows, stored as f32 or bfloat16.
    Dense(Dense),
    /// Sparse rows, of which only some values are stored.
    Sparse(Sparse),
}

/// Dense rows of a matrix, which a lease protects from changes.
#[derive(Debug, Clone)]
pub struct Dense {
    source: Source,
    rows: Range<usize>,
    columns: Range<usize>,
    extents: Vec<u32>,
}

#[derive(Debug, Clone)]
enum Source {
    Leased(Arc<ReadRows>),
    /// Leased values that are viewed as rows of another length.
    Relaid(Arc<ReadRows>, Lies),
    /// Rows that are stored as bfloat16. They are converted to f32 whenever values are read.
    Half(Arc<ReadHalf>),
    Arriving(Arriving),
}

/// Sparse rows of a matrix, or a range of them.
#[derive(Debug, Clone)]
pub struct Sparse {
    /// All rows of the sparse matrix.
    pub data: Arc<SparseRows>,
    /// Rows that belong to this view.
    pub rows: Range<usize>,
}

/// Rows of a dense matrix under a read lease, from which a view can be borrowed.
#[derive(Debug, Clone)]
pub struct Held {
    lease: Arc<ReadRows>,
    lies: Lies,
    rows: usize,
    columns: usize,
}

/// Position and stride of rows in leased memory, in units of values.
#[derive(Debug, Clone, Copy)]
struct Lies {
    first: usize,
    stride: usize,
}

impl Lies {
    /// Returns the position of a view that starts at this row and column.
    fn at(self, row: usize, column: usize) -> Self {
        Self { first: self.first + row * self.stride + column, ..self }
    }
}

impl Held {
    /// Returns a view of the rows.
    pub fn view(&self) -> View<'_> {
        let data = self.lease.view().data();
        View::padded(&data[self.lies.first.min(data.len())..], self.rows, self.columns, self.lies.stride)
    }

    fn in_lease(lease: Arc<ReadRows>, rows: &Range<usize>, columns: &Range<usize>) -> Self {
        let lies = Lies { first: 0, stride: lease.view().stride() }.at(rows.start, columns.start);
        Self { lease, lies, rows: rows.len(), columns: columns.len() }
    }
}

impl From<ReadRows> for Matrix {
    fn from(lease: ReadRows) -> Self {
        let (rows, columns) = (lease.view().rows(), lease.view().columns());
        Matrix::Dense(Dense {
            source: Source::Leased(Arc::new(lease)),
            rows: 0..rows,
            columns: 0..columns,
            extents: vec![columns as u32],
        })
    }
}

impl From<ReadHalf> for Matrix {
    fn from(lease: ReadHalf) -> Self {
        let (rows, columns) = (lease.view().rows(), lease.view().columns());
        Matrix::Dense(Dense {
            source: Source::Half(Arc::new(lease)),
            rows: 0..rows,
            columns: 0..columns,
            extents: vec![columns as u32],
        })
    }
}

impl From<Arriving> for Matrix {
    fn from(arriving: Arriving) -> Self {
        let (rows, columns) = (arriving.rows(), arriving.columns());
        Matrix::Dense(Dense {
            source: Source::Arriving(arriving),
            rows: 0..rows,
            columns: 0..columns,
            extents: vec![columns as u32],
        })
    }
}

impl From<Arc<SparseRows>> for Matrix {
    fn from(data: Arc<SparseRows>) -> Self {
        let rows = 0..data.rows();
        Matrix::Sparse(Sparse { data, rows })
    }
}

impl Matrix {
    /// Returns the number of rows of the matrix.
    pub fn rows(&self) -> usize {
        match self {
            Matrix::Dense(d) => d.rows.len(),
            Matrix::Sparse(s) => s.rows.len(),
        }
    }

    /// Returns the number of values per row, which is the product of all extents except the first.
    pub fn columns(&self) -> usize {
        match self {
            Matrix::Dense(d) => d.columns.len(),
            Matrix::Sparse(s) => s.data.columns(),
        }
    }

    /// Returns the extents of the matrix. The first one is the number of rows.
    pub fn shape(&self) -> Vec<u32> {
        let mut shape = vec![self.rows() as u32];
        match self {
            Matrix::Dense(d) => shape.extend(&d.extents),
            Matrix::Sparse(s) => shape.push(s.data.columns() as u32),
        }
        shape
    }

    /// Returns true if the rows are stored as bfloat16. Such rows can be sent as bfloat16 without
    /// loss.
    pub fn is_half(&self) -> bool {
        matches!(self, Matrix::Dense(Dense { source: Source::Half(_), .. }))
    }

    /// Converts bfloat16 rows to f32 in the first rows of `into`, which must have the same number
    /// of columns. A matrix that is not bfloat16 is returned unchanged.
    ///
    /// # Errors
    /// Returns [`Error::Leased`] if `into` is in use, [`Error::OutOfRange`] if it has too few rows,
    /// and [`Error::Shape`] if it has another number of columns.
    pub fn widened(self, into: &Buffer) -> Result<Self> {
        match self {
            Matrix::Dense(Dense { source: Source::Half(lease), rows, columns, extents }) => {
                let mut to = into.write(0..rows.len())?;
                lease.view().slice(rows.start, rows.len()).widen_to(&mut to.view_mut())?;
                let (rows, source) = (0..rows.len(), Source::Leased(Arc::new(to.into_read())));
                Ok(Matrix::Dense(Dense { source, rows, columns, extents }))
            }
            other => Ok(other),
        }
    }

    /// Returns a view of the matrix whose rows have the given extents, for instance `[8, 8, 3]`. A
    /// kernel's signature defines these extents.
    pub fn with_extents(self, extents: &[u32]) -> Result<Self> {
        let mut shape = vec![self.rows() as u32];
        shape.extend(extents);
        self.reshape(&shape)
    }

    /// Returns a view of `count` rows, starting at row `start`.
    pub fn slice_rows(&self, start: usize, count: usize) -> Result<Self> {
        if start.checked_add(count).is_none_or(|end| end > self.rows()) {
            return Err(Error::OutOfRange {
                rows: start..start.saturating_add(count),
                available: self.rows(),
            });
        }
        let mut view = self.clone();
        match &mut view {
            Matrix::Dense(d) => d.rows = d.rows.start + start..d.rows.start + start + count,
            Matrix::Sparse(s) => s.rows = s.rows.start + start..s.rows.start + start + count,
        }
        Ok(view)
    }

    /// Returns a view of `count` columns, starting at column `start`. The matrix must be dense and
    /// have two dimensions.
    pub fn slice_columns(&self, start: usize, count: usize) -> Result<Self> {
        let Matrix::Dense(d) = self else {
            return Err(Error::Unsupported {
                operation: "columns",
                reason: "sparse rows have no column views; select rows, or read the rows".to_owned(),
            });
        };
        if d.extents.len() != 1 || start.checked_add(count).is_none_or(|end| end > d.columns.len()) {
            return Err(Error::Shape {
                operation: "columns",
                operand: "matrix",
                expected: vec![self.rows() as u32, (start.saturating_add(count)) as u32],
                found: self.shape(),
            });
        }
        let mut view = d.clone();
        view.columns = d.columns.start + start..d.columns.start + start + count;
        view.extents = vec![count as u32];
        Ok(Matrix::Dense(view))
    }

    /// Returns a view of the matrix with the extents `shape`. The number of rows must stay the
    /// same.
    pub fn reshape(&self, shape: &[u32]) -> Result<Self> {
        let product = shape.iter().skip(1).try_fold(1usize, |n, &e| n.checked_mul(e as usize));
        let fits = (1..=4).contains(&shape.len())
            && shape[0] as usize == self.rows()
            && product == Some(self.columns());
        match self {
            Matrix::Dense(d) if fits => {
                let extents = shape[1..].to_vec();
                Ok(Matrix::Dense(Dense { extents, ..d.clone() }))
            }
            Matrix::Sparse(_) if fits && shape.len() == 2 => Ok(self.clone()),
            _ => Err(Error::Shape {
                operation: "reshape",
                operand: "shape",
                expected: self.shape(),
                found: shape.to_vec(),
            }),
        }
    }

    /// Returns the same dense values as `rows` rows of `columns` values. Each row is split into
    /// several, or several rows are grouped into one. The function waits for all rows, and copies
    /// them only if they are not contiguous.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if the number of values differs, and [`Error::Unsupported`] for
    /// sparse rows.
    pub fn relaid(&self, rows: usize, columns: usize, deadline: Option<Duration>) -> Result<Self> {
        let Matrix::Dense(d) = self else {
            return Err(Error::Unsupported {
                operation: "split-rows, group-rows",
                reason: "sparse rows cannot be split or grouped; read the rows instead".to_owned(),
            });
        };
        if rows.checked_mul(columns) != self.rows().checked_mul(self.columns()) {
            return Err(Error::Shape {
                operation: "split-rows, group-rows",
                operand: "x",
                expected: vec![rows as u32, columns as u32],
                found: self.shape(),
            });
        }
        let held = d.hold(deadline)?;
        let view = held.view();
        let (lease, lies) = match view.relaid(rows, columns) {
            Some(_) => (held.lease, Lies { stride: columns, ..held.lies }),
            None => {
                // A single row with all values has no padding between them.
                let made = Buffer::zeroed(1, view.rows() * view.columns())?;
                let mut to = made.write(0..1)?;
                let mut all = to.view_mut();
                for (to, i) in all.row_mut(0).chunks_exact_mut(view.columns()).zip(0..) {
                    to.copy_from_slice(view.row(i));
                }
                (Arc::new(to.into_read()), Lies { first: 0, stride: columns })
            }
        };
        Ok(Matrix::Dense(Dense {
            source: Source::Relaid(lease, lies),
            rows: 0..rows,
            columns: 0..columns,
            extents: vec![columns as u32],
        }))
    }

    /// Waits until more than `after` rows, or all rows, have arrived. Returns the number of rows
    /// that have arrived.
    pub fn arrived(&self, after: usize, deadline: Option<Duration>) -> Result<usize> {
        let Matrix::Dense(Dense { source: Source::Arriving(a), rows, .. }) = self else {
            return Ok(self.rows());
        };
        let needed = rows.start + (after + 1).min(rows.len());
        Ok(a.wait(needed, deadline)?.min(rows.end).saturating_sub(rows.start))
    }

    /// Appends the values of `count` rows to `out`, row by row and without padding. Waits for rows
    /// that have not arrived.
    pub fn read_rows(
        &self,
        start: usize,
        count: usize,
        deadline: Option<Duration>,
        out: &mut Vec<f32>,
    ) -> Result<()> {
        let view = self.slice_rows(start, count)?;
        match &view {
            Matrix::Dense(d) => {
                let held = d.hold(deadline)?;
                let view = held.view();
                if view.stride() == view.columns() {
                    out.extend_from_slice(&view.data()[..count * view.columns()]);
                } else {
                    for i in 0..count {
                        out.extend_from_slice(view.row(i));
                    }
                }
            }
            Matrix::Sparse(s) => {
                for row in s.rows.clone() {
                    let base = out.len();
                    out.resize(base + s.data.columns(), 0.0);
                    let (columns, values) = s.data.row(row);
                    for (&c, &v) in columns.iter().zip(values) {
                        out[base + c as usize] = v;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Matrix {
    /// Returns a copy of the given rows, in this order. A row may occur several times. Sparse rows
    /// stay sparse.
    ///
    /// # Errors
    /// Returns [`Error::Argument`] if a row does not exist, or if the copy does not fit in memory.
    pub fn select(&self, rows: &[u32]) -> Result<Self> {
        let count = self.rows();
        if let Some(row) = rows.iter().find(|&&row| row as usize >= count) {
            let reason = format!("row {row} does not exist, because the matrix has {count} rows");
            return Err(Error::Argument { operation: "select rows", reason });
        }
        match self {
            Matrix::Dense(dense) => {
                let made = Buffer::zeroed(rows.len(), dense.columns.len())?;
                dense.select_into(rows, made.write(0..rows.len())?)
            }
            Matrix::Sparse(sparse) => {
                let of = |&row: &u32| sparse.data.row(sparse.rows.start + row as usize);
                let stored = rows.iter().map(|row| of(row).0.len()).sum();
                let mut offsets = Vec::with_capacity(rows.len() + 1);
                let (mut indices, mut values) = (Vec::with_capacity(stored), Vec::with_capacity(stored));
                offsets.push(0u64);
                for row in rows {
                    let (columns, of) = of(row);
                    indices.extend_from_slice(columns);
                    values.extend_from_slice(of);
                    offsets.push(indices.len() as u64);
                }
                let columns = u32::try_from(sparse.data.columns()).unwrap_or(u32::MAX);
                Ok(Matrix::from(Arc::new(SparseRows::new(columns, offsets, indices, values)?)))
            }
        }
    }
}

impl Dense {
    /// Copies the given rows to the leased memory, in this order. The lease must have the same
    /// number of rows and columns.
    ///
    /// # Errors
    /// Returns [`Error::Argument`] if a row does not exist, or if the lease has other extents.
    pub fn select_into(&self, rows: &[u32], mut lease: WriteRows) -> Result<Matrix> {
        let held = self.hold(None)?;
        let (view, mut to) = (held.view(), lease.view_mut());
        let fits = to.rows() == rows.len() && to.columns() == view.columns();
        if !fits || rows.iter().any(|&row| row as usize >= view.rows()) {
            let reason = format!(
                "{} rows of {} columns cannot be selected from a matrix of {} x {}",
                rows.len(),
                to.columns(),
                view.rows(),
                view.columns()
            );
            return Err(Error::Argument { operation: "select rows", reason });
        }
        for (at, &row) in rows.iter().enumerate() {
            to.row_mut(at).copy_from_slice(view.row(row as usize));
        }
        Matrix::from(lease.into_read()).with_extents(&self.extents)
    }

    /// Returns true if the values lie in the memory of another owner, for instance a mapped file.
    pub fn is_lent(&self) -> bool {
        match &self.source {
            Source::Leased(lease) | Source::Relaid(lease, _) => lease.buffer().is_lent(),
            Source::Half(_) | Source::Arriving(_) => false,
        }
    }

    /// Waits for all rows of the view, and returns a lease on them.
    pub fn hold(&self, deadline: Option<Duration>) -> Result<Held> {
        let columns = self.columns.clone();
        match &self.source {
            Source::Leased(lease) => Ok(Held::in_lease(lease.clone(), &self.rows, &columns)),
            Source::Relaid(lease, lies) => {
                let lies = lies.at(self.rows.start, columns.start);
                Ok(Held { lease: lease.clone(), lies, rows: self.rows.len(), columns: columns.len() })
            }
            Source::Half(lease) => {
                let view = lease.view().slice(self.rows.start, self.rows.len());
                let wide = Buffer::zeroed(view.rows(), view.columns())?;
                let mut to = wide.write(0..view.rows())?;
                view.widen_to(&mut to.view_mut())?;
                Ok(Held::in_lease(Arc::new(to.into_read()), &(0..self.rows.len()), &columns))
            }
            Source::Arriving(arriving) => {
                arriving.wait(self.rows.end, deadline)?;
                let lease = Arc::new(arriving.lease(self.rows.start, self.rows.len())?);
                Ok(Held::in_lease(lease, &(0..self.rows.len()), &columns))
            }
        }
    }

    /// Returns true if some rows may not have arrived yet.
    pub fn is_arriving(&self) -> bool {
        matches!(self.source, Source::Arriving(_))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn rows_are_selected_in_any_order() {
        let dense = Buffer::from_rows(3, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let dense = Matrix::from(dense.read(0..3).unwrap());
        let sparse = SparseRows::new(2, vec![0, 1, 1, 3], vec![1, 0, 1], vec![7.0, 8.0, 9.0]).unwrap();
        let sparse = Matrix::from(Arc::new(sparse)).slice_rows(1, 2).unwrap();
        for (matrix, rows, wanted) in [
            (&dense, &[2, 0, 2][..], vec![5.0, 6.0, 1.0, 2.0, 5.0, 6.0]),
            (&sparse, &[1, 0], vec![8.0, 9.0, 0.0, 0.0]),
            (&dense, &[], vec![]),
        ] {
            let mut found = Vec::new();
            matrix.select(rows).unwrap().read_rows(0, rows.len(), None, &mut found).unwrap();
            assert_eq!(found, wanted);
        }
        assert!(sparse.select(&[2]).unwrap_err().to_string().contains("row 2 does not exist"));
    }

    use super::*;
    use crate::buffer::Buffer;

    #[test]
    fn rows_of_bfloat16_are_read_as_f32() {
        let values: Vec<f32> = (0..12).map(|v| v as f32).collect();
        let half = crate::half::HalfBuffer::from_rows(4, 3, &values).unwrap();
        let m = Matrix::from(half.read(0..4).unwrap());
        assert!(m.is_half());
        let part = m.slice_rows(1, 2).unwrap();
        let mut out = Vec::new();
        part.slice_columns(1, 2).unwrap().read_rows(0, 2, None, &mut out).unwrap();
        assert_eq!(out, [4., 5., 7., 8.]);
        let wide = Buffer::zeroed(3, 3).unwrap();
        let part = part.widened(&wide).unwrap();
        assert!(!part.is_half() && wide.write(0..1).is_err(), "the lease is the matrix's");
        out.clear();
        part.read_rows(0, 2, None, &mut out).unwrap();
        assert_eq!(out, values[3..9]);
        assert!(m.clone().widened(&wide).is_err(), "four rows into three, two of which are read");
        drop(part);
        assert!(m.widened(&Buffer::zeroed(4, 2).unwrap()).is_err(), "other columns");
    }

    #[test]
    fn rows_are_cut_and_put_together() {
        let values: Vec<f32> = (0..64).map(|v| v as f32).collect();
        let read = |m: &Matrix| {
            let mut out = Vec::new();
            m.read_rows(0, m.rows(), None, &mut out).unwrap();
            out
        };
        // Rows of 16 or 8 values have no padding, rows of 4 values have padding.
        for columns in [16, 8, 4] {
            let rows = 64 / columns;
            let m = Matrix::from(Buffer::from_rows(rows, columns, &values).unwrap().read(0..rows).unwrap());
            let cut = m.relaid(rows * 2, columns / 2, None).unwrap();
            assert_eq!(
                (cut.shape(), read(&cut)),
                (vec![rows as u32 * 2, columns as u32 / 2], values.clone())
            );
            let joined = cut.relaid(rows / 2, columns * 2, None).unwrap();
            assert_eq!((joined.rows(), read(&joined)), (rows / 2, values.clone()));
            // Views of some rows and columns, and views of the result.
            let part = m.slice_rows(1, 2).unwrap().slice_columns(2, 2).unwrap();
            let part = part.relaid(4, 1, None).unwrap().slice_rows(1, 2).unwrap();
            let at = |row: usize, column: usize| (row * columns + column) as f32;
            assert_eq!(read(&part), [at(1, 3), at(2, 2)]);
            let last = joined.slice_rows(1, 1).unwrap().slice_columns(columns, 2).unwrap();
            assert_eq!(read(&last), [at(3, 0), at(3, 1)]);
        }
        let m = Matrix::from(Buffer::from_rows(2, 4, &values[..8]).unwrap().read(0..2).unwrap());
        assert!(m.relaid(3, 3, None).is_err());
        assert!(m.relaid(usize::MAX, 3, None).is_err());
    }

    #[test]
    fn views_of_views() {
        let values: Vec<f32> = (0..24).map(|v| v as f32).collect();
        let m: Matrix = Buffer::from_rows(4, 6, &values).unwrap().read(0..4).unwrap().into();
        let v = m.slice_rows(1, 3).unwrap().slice_columns(2, 3).unwrap().slice_rows(1, 1).unwrap();
        let mut out = Vec::new();
        v.read_rows(0, 1, None, &mut out).unwrap();
        assert_eq!(out, [14., 15., 16.]);
        assert_eq!(m.reshape(&[4, 2, 3]).unwrap().shape(), [4, 2, 3]);
        assert!(m.reshape(&[2, 12]).is_err());
        assert!(m.slice_rows(3, 2).is_err());
        assert!(m.slice_columns(5, usize::MAX).is_err());
    }
}
