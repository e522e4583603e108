//! Buffer of f32 rows that tasks share. All access is through read and write leases.
#![allow(unsafe_code)]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::pages::Pages;
use crate::slab::Slab;
use crate::view::{View, ViewMut};

/// Returns the distance between the starts of consecutive rows of a [`Buffer`], in values. Rows
/// with more than one value are padded, so that vector code needs no special case for their end.
pub fn stride_for(columns: usize) -> usize {
    match columns {
        0..=1 => 1,
        2..=8 => 8,
        _ => columns.next_multiple_of(16),
    }
}

/// Owner of a buffer's memory, which is the buffer itself or a slab.
enum Storage {
    Own(Pages),
    /// Read-only memory of another owner, for instance a mapped file.
    Lent(Slab<f32>),
}

struct Inner {
    data: NonNull<f32>,
    storage: Storage,
    rows: usize,
    columns: usize,
    stride: usize,
    leases: Mutex<Leases>,
}

// SAFETY: the memory is accessed only through leases. The mutex ensures that a write lease overlaps
// no other lease. Memory of another owner is only read.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// Active leases of a buffer. There are only a few at a time, so a linear search is fast enough.
#[derive(Default)]
struct Leases {
    readers: Vec<Range<usize>>,
    writers: Vec<Range<usize>>,
}

fn overlapping(held: &[Range<usize>], rows: &Range<usize>) -> Option<Range<usize>> {
    held.iter().find(|h| h.start < rows.end && rows.start < h.end).cloned()
}

fn release(held: &mut Vec<Range<usize>>, rows: &Range<usize>) {
    if let Some(at) = held.iter().position(|h| h == rows) {
        held.swap_remove(at);
    }
}

/// Single allocation of f32 rows, stored row by row. Rows are padded to the vector width, and
/// clones share the memory.
#[derive(Clone)]
pub struct Buffer(Arc<Inner>);

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer[{}, {}]", self.rows(), self.columns())
    }
}

impl Buffer {
    /// Allocates a buffer of `rows` rows with `columns` zeros each.
    pub fn zeroed(rows: usize, columns: usize) -> Result<Self> {
        let too_large = || Error::Argument {
            operation: "allocate",
            reason: format!("a matrix of {rows} x {columns} values does not fit in memory"),
        };
        let stride = stride_for(columns);
        let bytes =
            rows.checked_mul(stride).and_then(|n| n.checked_mul(size_of::<f32>())).ok_or_else(too_large)?;
        let pages = Pages::zeroed(bytes).map_err(|_| too_large())?;
        let data = pages.start().cast::<f32>();
        let storage = Storage::Own(pages);
        Ok(Self(Arc::new(Inner { data, storage, rows, columns, stride, leases: Mutex::default() })))
    }

    /// Creates a read-only buffer over the memory of `slab`, without a copy. The slab must have
    /// `rows` rows of [`stride_for`]`(columns)` values, of which the first `columns` are used.
    ///
    /// # Errors
    /// Returns [`Error::Argument`] if the slab has another length.
    pub fn over(rows: usize, columns: usize, slab: Slab<f32>) -> Result<Self> {
        let stride = stride_for(columns);
        if rows.checked_mul(stride) != Some(slab.len()) {
            return Err(Error::Argument {
                operation: "buffer over a slab",
                reason: format!(
                    "{} values do not fit {rows} rows of {columns} values with a stride of {stride}",
                    slab.len()
                ),
            });
        }
        let data = NonNull::from(&*slab).cast::<f32>();
        let storage = Storage::Lent(slab);
        Ok(Self(Arc::new(Inner { data, storage, rows, columns, stride, leases: Mutex::default() })))
    }

    /// Returns the CRC-32 checksum of the rows including padding, or `None` if the owner of the
    /// memory has not computed it.
    pub fn crc32(&self) -> Option<u32> {
        match &self.0.storage {
            Storage::Lent(slab) => slab.crc32(),
            Storage::Own(_) => None,
        }
    }

    /// Allocates a buffer and copies `values` to it. The values are stored row by row, without
    /// padding.
    pub fn from_rows(rows: usize, columns: usize, values: &[f32]) -> Result<Self> {
        if values.len() != rows * columns {
            return Err(Error::Argument {
                operation: "from_rows",
                reason: format!("{} values do not fill {rows} x {columns}", values.len()),
            });
        }
        let buffer = Self::zeroed(rows, columns)?;
        let mut lease = buffer.write(0..rows)?;
        let mut view = lease.view_mut();
        for (i, row) in values.chunks_exact(columns.max(1)).enumerate() {
            view.row_mut(i).copy_from_slice(row);
        }
        drop(lease);
        Ok(buffer)
    }

    /// Returns the number of rows of the buffer.
    #[inline]
    pub fn rows(&self) -> usize {
        self.0.rows
    }

    /// Returns the number of values per row, without padding.
    #[inline]
    pub fn columns(&self) -> usize {
        self.0.columns
    }

    /// Returns the memory that a row of `columns` values takes, in bytes. It includes the padding.
    pub fn row_bytes(columns: usize) -> usize {
        stride_for(columns) * size_of::<f32>()
    }

    /// Returns true if both buffers are clones that share the same memory.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the size of the buffer in bytes, including padding.
    pub fn bytes(&self) -> usize {
        match &self.0.storage {
            Storage::Own(pages) => pages.bytes(),
            Storage::Lent(slab) => slab.bytes_len(),
        }
    }

    /// Returns true if the memory belongs to another owner, for instance a mapped file. Such a
    /// buffer is read-only.
    pub fn is_lent(&self) -> bool {
        matches!(self.0.storage, Storage::Lent(_))
    }

    /// Returns true if a read lease exists on some of the rows in `rows`.
    pub fn is_read(&self, rows: &Range<usize>) -> bool {
        overlapping(&self.0.lock().readers, rows).is_some()
    }

    /// Takes a read lease on the rows in `rows`. Read leases may overlap, but a write lease
    /// excludes all others.
    pub fn read(&self, rows: Range<usize>) -> Result<ReadRows> {
        self.check(&rows)?;
        let mut leases = self.0.lock();
        if let Some(held) = overlapping(&leases.writers, &rows) {
            return Err(Error::Leased { rows, wanted: "reading", held, holder: "writing" });
        }
        leases.readers.push(rows.clone());
        drop(leases);
        Ok(ReadRows { buffer: self.clone(), rows })
    }

    /// Takes a write lease on the rows in `rows`. No other lease may overlap these rows.
    pub fn write(&self, rows: Range<usize>) -> Result<WriteRows> {
        self.check(&rows)?;
        if self.is_lent() {
            return Err(Error::ReadOnly { rows });
        }
        let mut leases = self.0.lock();
        if let Some(held) = overlapping(&leases.writers, &rows) {
            return Err(Error::Leased { rows, wanted: "writing", held, holder: "writing" });
        }
        if let Some(held) = overlapping(&leases.readers, &rows) {
            return Err(Error::Leased { rows, wanted: "writing", held, holder: "reading" });
        }
        leases.writers.push(rows.clone());
        drop(leases);
        Ok(WriteRows { buffer: self.clone(), rows })
    }

    /// Copies all values to a vector, row by row and without padding.
    pub fn to_vec(&self) -> Result<Vec<f32>> {
        let lease = self.read(0..self.rows())?;
        let view = lease.view();
        let mut out = Vec::with_capacity(self.rows() * self.columns());
        for i in 0..view.rows() {
            out.extend_from_slice(view.row(i));
        }
        Ok(out)
    }

    fn check(&self, rows: &Range<usize>) -> Result<()> {
        if rows.start > rows.end || rows.end > self.0.rows {
            return Err(Error::OutOfRange { rows: rows.clone(), available: self.0.rows });
        }
        Ok(())
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Leases> {
        // A panic cannot leave the two vectors in an inconsistent state.
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn span(&self, rows: &Range<usize>) -> (usize, usize) {
        (rows.start * self.stride, (rows.end - rows.start) * self.stride)
    }
}

/// Read lease on rows of a [`Buffer`]. The rows do not change while the lease exists.
#[derive(Debug)]
pub struct ReadRows {
    buffer: Buffer,
    rows: Range<usize>,
}

impl ReadRows {
    /// Returns the buffer whose rows are leased.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Returns a view of the leased rows. Row 0 of the view is the first leased row.
    pub fn view(&self) -> View<'_> {
        let inner = &*self.buffer.0;
        let (offset, len) = inner.span(&self.rows);
        // SAFETY: the range was checked against the allocation when the lease was created. No
        // writer can lease the rows before this lease ends.
        let data = unsafe { std::slice::from_raw_parts(inner.data.as_ptr().add(offset), len) };
        View::padded(data, self.rows.len(), inner.columns, inner.stride)
    }

    /// Returns the number of leased rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if the lease covers no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Drop for ReadRows {
    fn drop(&mut self) {
        release(&mut self.buffer.0.lock().readers, &self.rows);
    }
}

/// Write lease on rows of a [`Buffer`]. No other lease of these rows can exist at the same time.
#[derive(Debug)]
pub struct WriteRows {
    buffer: Buffer,
    rows: Range<usize>,
}

impl WriteRows {
    /// Returns a mutable view of the leased rows. Row 0 of the view is the first leased row.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        let inner = &*self.buffer.0;
        let (offset, len) = inner.span(&self.rows);
        // SAFETY: the range was checked when the lease was created, and this lease excludes all
        // others.
        let data = unsafe { std::slice::from_raw_parts_mut(inner.data.as_ptr().add(offset), len) };
        ViewMut::padded(data, self.rows.len(), inner.columns, inner.stride)
    }

    /// Returns the buffer and the range of its rows that are leased.
    #[must_use]
    pub fn location(&self) -> (Buffer, Range<usize>) {
        (self.buffer.clone(), self.rows.clone())
    }

    /// Returns a read-only view of the leased rows. Row 0 of the view is the first leased row.
    pub fn view(&self) -> View<'_> {
        let inner = &*self.buffer.0;
        let (offset, len) = inner.span(&self.rows);
        // SAFETY: as in `view_mut`. The borrow of `self` prevents writes meanwhile.
        let data = unsafe { std::slice::from_raw_parts(inner.data.as_ptr().add(offset), len) };
        View::padded(data, self.rows.len(), inner.columns, inner.stride)
    }

    /// Converts the lease to a read lease. No other task can lease the rows for writing in between.
    pub fn into_read(self) -> ReadRows {
        let (buffer, rows) = (self.buffer.clone(), self.rows.clone());
        let mut leases = buffer.0.lock();
        release(&mut leases.writers, &rows);
        leases.readers.push(rows.clone());
        drop(leases);
        // The rest of this lease, whose rows are released.
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is neither dropped nor used again, so each field is moved out once.
        drop(unsafe { (std::ptr::read(&raw const this.buffer), std::ptr::read(&raw const this.rows)) });
        ReadRows { buffer, rows }
    }
}

impl Drop for WriteRows {
    fn drop(&mut self) {
        release(&mut self.buffer.0.lock().writers, &self.rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_exclude_and_readers_share() {
        let buffer = Buffer::zeroed(10, 7).unwrap();
        let a = buffer.write(0..5).unwrap();
        let b = buffer.write(5..10).unwrap();
        assert!(matches!(buffer.read(4..6), Err(Error::Leased { holder: "writing", .. })));
        drop(a);
        let r1 = buffer.read(0..5).unwrap();
        let r2 = buffer.read(0..5).unwrap();
        drop(r1);
        assert!(matches!(buffer.write(0..1), Err(Error::Leased { holder: "reading", .. })));
        drop((r2, b));
        assert!(buffer.write(0..10).is_ok());
        assert!(matches!(buffer.read(3..11), Err(Error::OutOfRange { available: 10, .. })));
    }

    #[test]
    fn a_slab_is_read_in_place_and_not_written() {
        let values: Vec<f32> = (0..16).map(|v| v as f32).collect();
        let slab = Slab::from(values);
        assert!(Buffer::over(3, 5, slab.clone()).is_err());
        assert!(Buffer::over(usize::MAX, 5, slab.clone()).is_err());
        let buffer = Buffer::over(2, 5, slab.clone()).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [0., 1., 2., 3., 4., 8., 9., 10., 11., 12.]);
        assert_eq!(buffer.read(0..2).unwrap().view().data().as_ptr(), slab.as_ptr());
        assert!(matches!(buffer.write(0..1), Err(Error::ReadOnly { .. })));
        assert!(matches!(buffer.write(0..9), Err(Error::OutOfRange { .. })));
        assert_eq!((buffer.bytes(), buffer.is_lent()), (64, true));
        assert_eq!(Buffer::over(0, 5, Slab::default()).unwrap().rows(), 0);
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert!(Buffer::zeroed(usize::MAX / 8, 100).is_err());
    }
}
