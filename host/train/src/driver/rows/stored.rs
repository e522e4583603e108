//! Row buffers, and leases of row ranges.

use std::ops::Range;

use eciton_gather::Rows;
use eciton_kernel::Target;
use eciton_recipe::RowFormat;
use eciton_tensor::half::{HalfBuffer, ReadHalf, WriteHalf};
use eciton_tensor::{Buffer, Matrix, ReadRows, WriteRows};

use super::in_file::InFile;
use crate::error::{Result, at};

/// A buffer of rows, stored as f32 or bfloat16 in memory, or as f32 in a file.
#[derive(Debug, Clone)]
pub(super) enum Stored {
    F32(Buffer),
    Bf16(HalfBuffer),
    File(InFile),
}

/// Lease of a row range for reading. No step can write the rows while the lease exists.
#[derive(Debug)]
pub(crate) enum Lease {
    F32(ReadRows),
    Bf16(ReadHalf),
}

impl Lease {
    /// Returns the leased rows in the form in which a gather reads them.
    pub(crate) fn rows(&self) -> Rows<'_> {
        match self {
            Self::F32(lease) => lease.view().into(),
            Self::Bf16(lease) => lease.view().into(),
        }
    }
}

impl From<Lease> for Matrix {
    fn from(lease: Lease) -> Self {
        match lease {
            Lease::F32(lease) => lease.into(),
            Lease::Bf16(lease) => lease.into(),
        }
    }
}

/// Lease of a row range for writing. No other step can read or write the rows while the lease
/// exists.
#[derive(Debug)]
pub(crate) enum WriteLease {
    F32(WriteRows),
    Bf16(WriteHalf),
}

impl WriteLease {
    /// Converts the lease to a target that a kernel can write to. `extents` are the dimensions of a
    /// row.
    pub(crate) fn target(self, extents: Vec<u32>) -> Target {
        match self {
            Self::F32(rows) => Target::Rows { rows, extents },
            Self::Bf16(rows) => Target::Half { rows, extents },
        }
    }
}

impl Stored {
    /// Creates a buffer of zeros. Rows of format `Bits` are stored as f32.
    pub(super) fn zeroed(rows: usize, width: usize, format: RowFormat) -> Result<Self> {
        let made = match format {
            RowFormat::F32 | RowFormat::Bits => Buffer::zeroed(rows, width).map(Self::F32),
            RowFormat::Bf16 => HalfBuffer::zeroed(rows, width).map(Self::Bf16),
        };
        made.map_err(at("row buffers"))
    }

    /// Returns true if both buffers are the same memory.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::F32(a), Self::F32(b)) => a.is_same(b),
            (Self::Bf16(a), Self::Bf16(b)) => a.is_same(b),
            (Self::File(a), Self::File(b)) => a.is_same(b),
            _ => false,
        }
    }

    /// Returns true if the buffer is in memory, and has these dimensions and this format.
    pub(super) fn is_like(&self, rows: usize, width: usize, format: RowFormat) -> bool {
        let found = match self {
            Self::F32(buffer) => Some((buffer.rows(), buffer.columns(), RowFormat::F32)),
            Self::Bf16(buffer) => Some((buffer.rows(), buffer.columns(), RowFormat::Bf16)),
            Self::File(_) => None,
        };
        found == Some((rows, width, format))
    }

    /// Drops the rows that were being written in an earlier pass.
    pub(super) fn forget(&self) {
        if let Self::File(file) = self {
            file.forget();
        }
    }

    /// Leases a row range for reading. Fails if any of the rows is leased for writing.
    pub(super) fn read(&self, rows: Range<usize>) -> eciton_tensor::Result<Lease> {
        match self {
            Self::F32(buffer) => buffer.read(rows).map(Lease::F32),
            Self::Bf16(buffer) => buffer.read(rows).map(Lease::Bf16),
            Self::File(file) => file.read(rows),
        }
    }

    /// Leases a row range for writing. Fails if any of the rows is leased.
    pub(super) fn write(&self, rows: Range<usize>) -> eciton_tensor::Result<WriteLease> {
        match self {
            Self::F32(buffer) => buffer.write(rows).map(WriteLease::F32),
            Self::Bf16(buffer) => buffer.write(rows).map(WriteLease::Bf16),
            Self::File(file) => file.write(rows),
        }
    }
}
