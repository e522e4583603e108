//! Rows in a file, for evaluations whose rows do not fit into memory.
//!
//! A step writes the rows of its interval into memory. When they are published, they are written
//! into the file at their position. Steps read the mapped file, whose pages the operating system
//! loads and drops as memory allows. The file is written by calls and not through the mapping, so
//! that the number of bytes which are not on the disk yet is bounded.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use eciton_graph::mapping;
use eciton_tensor::{Buffer, Slab, bytes_of, stride_for};

use super::stored::{Lease, WriteLease};
use crate::error::{Error, Result, at};

/// Maximum number of bytes that are written before the next write waits for the disk.
const DIRTY_BYTES: u64 = 64 << 20;

/// Matrix in a file.
#[derive(Debug, Clone)]
pub(super) struct InFile(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The whole matrix, which is mapped for reading.
    mapped: Buffer,
    file: File,
    /// Rows that are being written, by their range.
    written: RefCell<Vec<(Range<usize>, Buffer)>>,
    /// Buffers of earlier writes.
    free: RefCell<Vec<Buffer>>,
    /// Number of bytes that were written since the last wait for the disk.
    dirty: Cell<u64>,
}

/// Converts an error of the system into an error about the file of rows.
fn failed(source: io::Error) -> Error {
    Error::RowsInFile { source }
}

impl InFile {
    /// Creates a matrix of zeros in a file without a name in `folder`.
    ///
    /// # Errors
    /// Returns [`Error::RowsInFile`] if the file cannot be created or mapped.
    pub(super) fn zeroed(folder: &Path, (rows, width): (usize, usize)) -> Result<Self> {
        let values = rows * stride_for(width);
        let file = tempfile::tempfile_in(folder).map_err(failed)?;
        file.set_len(values as u64 * 4).map_err(failed)?;
        let owner = mapping::map_temporary(&file).map_err(failed)?;
        let slab = Slab::over(owner, 0..values * 4).map_err(at("rows in a file"))?;
        let mapped = Buffer::over(rows, width, slab).map_err(at("rows in a file"))?;
        let (written, free, dirty) = (RefCell::default(), RefCell::default(), Cell::new(0));
        Ok(Self(Rc::new(Inner { mapped, file, written, free, dirty })))
    }

    /// Returns true if both are the same matrix.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Leases a row range for reading.
    pub(super) fn read(&self, rows: Range<usize>) -> eciton_tensor::Result<Lease> {
        self.0.mapped.read(rows).map(Lease::F32)
    }

    /// Leases a row range for writing. The rows are in the file after [`InFile::publish`].
    pub(super) fn write(&self, rows: Range<usize>) -> eciton_tensor::Result<WriteLease> {
        let mut free = self.0.free.borrow_mut();
        let buffer = match free.iter().position(|buffer| buffer.rows() >= rows.len()) {
            Some(found) => free.swap_remove(found),
            None => Buffer::zeroed(rows.len(), self.0.mapped.columns())?,
        };
        let lease = buffer.write(0..rows.len())?;
        self.0.written.borrow_mut().push((rows, buffer));
        Ok(WriteLease::F32(lease))
    }

    /// Writes the rows that steps have written within `rows` into the file.
    ///
    /// # Errors
    /// Returns [`Error::RowsInFile`] if the file cannot be written, [`Error::Tensor`] if a step still
    /// writes the rows, and [`Error::Internal`] if a step reads them.
    pub(super) fn publish(&self, rows: &Range<usize>) -> Result<()> {
        let Inner { mapped, file, written, free, dirty } = &*self.0;
        let is_within = |(of, _): &mut (Range<usize>, Buffer)| rows.start <= of.start && of.end <= rows.end;
        let done: Vec<_> = written.borrow_mut().extract_if(.., is_within).collect();
        let row_bytes = (stride_for(mapped.columns()) * 4) as u64;
        for (of, buffer) in done {
            // Rows of the mapping must not change while they are read.
            if mapped.is_read(&of) {
                return Err(Error::Internal(format!("rows {of:?} of a file are read and written at once")));
            }
            let lease = buffer.read(0..of.len()).map_err(at("rows in a file"))?;
            let bytes = bytes_of(lease.view().data());
            let mut to = file;
            to.seek(SeekFrom::Start(of.start as u64 * row_bytes)).map_err(failed)?;
            to.write_all(bytes).map_err(failed)?;
            dirty.set(dirty.get() + bytes.len() as u64);
            drop(lease);
            free.borrow_mut().push(buffer);
        }
        if dirty.get() >= DIRTY_BYTES {
            file.sync_data().map_err(failed)?;
            dirty.set(0);
        }
        Ok(())
    }

    /// Drops the rows that were being written in an earlier pass.
    pub(super) fn forget(&self) {
        self.0.written.borrow_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use eciton_gather::Rows;

    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let rows = InFile::zeroed(&std::env::temp_dir(), (10, 5)).unwrap();
        let put = |range: Range<usize>, value: f32| {
            let WriteLease::F32(mut lease) = rows.write(range.clone()).unwrap() else { panic!("bf16") };
            (0..range.len()).for_each(|row| lease.view_mut().row_mut(row).fill(value + row as f32));
        };
        put(4..7, 10.0);
        put(0..4, 20.0);
        rows.publish(&(4..7)).unwrap();
        let first = |row: usize| match rows.read(row..row + 1).unwrap().rows() {
            Rows::F32(view) => view.row(0).to_vec(),
            Rows::Bf16(_) => panic!("bf16"),
        };
        assert_eq!((first(6), first(0)), (vec![12.0; 5], vec![0.0; 5]));
        rows.publish(&(0..4)).unwrap();
        assert_eq!((first(3), first(4), first(7)), (vec![23.0; 5], vec![10.0; 5], vec![0.0; 5]));
        let reader = rows.read(7..8).unwrap();
        put(7..10, 30.0);
        assert!(rows.publish(&(7..10)).is_err(), "a step reads them");
        drop(reader);
        let held = rows.write(7..10).unwrap();
        assert!(rows.publish(&(7..10)).is_err(), "a step still writes them");
        drop(held);
        rows.forget();
        assert!(rows.publish(&(7..10)).is_ok());
    }
}
