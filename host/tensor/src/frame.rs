//! Tensors as bytes: one block that holds matrices and lists, each checked by itself.
//!
//! A frame is a header (a prefix of 32 bytes, its user's own *meta* text, a table) and parts. All
//! numbers are little endian.
//!
//! ```text
//! prefix  magic "ECF1" | header_len u32 | total_len u64 | parts u32 | meta_len u32 | crc32 u32 | 0 u32
//! meta    meta_len bytes, then zeros to a multiple of 8
//! table   one entry of 40 bytes a part:
//!         kind u8, 3 zeros | columns u32 | rows u64 | offset u64 | bytes_len u64 | crc32 u32 | 0 u32
//! data    parts in the table's order, each from the next multiple of 64 bytes, zeros between them
//!
//! kind 1  ids          rows u32
//! kind 2  rows f32     rows x columns f32, row-major without padding
//! kind 3  rows bf16    the upper half of each f32, rounded to nearest, ties to even
//! kind 4  sparse f32   rows + 1 offsets u32 from 0, then column indices u32, then values f32
//! kind 5  sparse bf16  the same with values of 2 bytes
//! kind 6 to 9  rows by signs and scales ([`crate::signs`]): 6, + 1 with zeros, + 2 with what is within 1
//! ```
//!
//! The prefix's CRC-32 is that of its first 24 bytes, the meta and the table; a part's is that of its
//! bytes. There is one way to write a frame: whatever could be left open (offsets, lengths, zeros)
//! must be as above. Dense rows lie one after the other, so that a run of rows is a range of bytes
//! ([`PartInfo::byte_range`]): a reader fetches what it needs, and a [`RowSink`] makes rows usable
//! while the rest is on its way.
//!
//! Limits: [`MAX_PARTS`], [`MAX_META_BYTES`], rows below 2^32, [`MAX_FRAME_BYTES`]. Decoding allocates
//! in proportion to the bytes that are there (at most 8 times as much, for rows are padded to vector
//! width; 32 times for signs), never by a size that a header claims.
//!
//! ```
//! use eciton_tensor::frame::{Decoded, Encoding, Frame, Writer};
//! use eciton_tensor::View;
//!
//! let mut writer = Writer::new(b"{}".to_vec());
//! let part = writer.view(View::new(&[1.0, 2.0, 3.0, 4.0], 2, 2), Encoding::F32)?;
//! let bytes = writer.finish()?;
//! let Decoded::Matrix(rows) = Frame::parse(&bytes)?.part(part)? else { panic!() };
//! assert_eq!(rows.shape(), [2, 2]);
//! # Ok::<(), eciton_tensor::Error>(())
//! ```

mod convert;
mod header;
mod read;
mod sink;
mod write;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::buffer::stride_for;
use crate::error::Error;
use crate::matrix::Matrix;
use crate::signs::Planes;

pub use header::{Header, PartInfo};
pub use read::Frame;
pub use sink::RowSink;
pub use write::{Packed, Writer};

/// Parts of one frame.
pub const MAX_PARTS: usize = 4096;
/// Bytes of a frame's meta.
pub const MAX_META_BYTES: usize = 4 << 20;
/// Bytes of a frame: what one object of S3 may have.
pub const MAX_FRAME_BYTES: u64 = 5 << 40;

const MAGIC: [u8; 4] = *b"ECF1";
/// Parts start on multiples of this many bytes.
const ALIGNMENT: u64 = 64;
/// Number of bytes that are converted and summed at once. They fit the second-level cache.
const BLOCK_BYTES: usize = 128 << 10;

/// Encoding of dense rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Unchanged f32.
    #[default]
    F32,
    /// Their upper halves, rounded to nearest: a relative error of at most 2^-8.
    Bf16,
    /// Their signs and scales: for rows of which a layer reads no more. Of dense rows only.
    Bits(Planes),
}

impl Encoding {
    /// Bytes of a row of so many values.
    pub fn row_bytes(self, columns: usize) -> usize {
        match self {
            Self::F32 => 4usize.saturating_mul(columns),
            Self::Bf16 => 2usize.saturating_mul(columns),
            Self::Bits(planes) => planes.row_bytes(columns),
        }
    }

    /// The form of all else where rows of signs are written so.
    #[must_use]
    pub fn of_numbers(self) -> Self {
        if let Self::Bits(_) = self { Self::F32 } else { self }
    }
}

/// Kind of a part's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A list of u32; one column.
    Ids,
    /// Dense rows.
    Rows(Encoding),
    /// Sparse rows.
    Sparse(Encoding),
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Ids => 1,
            Self::Rows(Encoding::F32) => 2,
            Self::Rows(Encoding::Bf16) => 3,
            Self::Sparse(Encoding::F32) => 4,
            Self::Sparse(Encoding::Bf16) => 5,
            Self::Rows(Encoding::Bits(planes)) => 6 + u8::from(planes.there) + 2 * u8::from(planes.within),
            // `Writer` refuses them, and no code is one.
            Self::Sparse(Encoding::Bits(_)) => 0,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Ids,
            2 => Self::Rows(Encoding::F32),
            3 => Self::Rows(Encoding::Bf16),
            4 => Self::Sparse(Encoding::F32),
            5 => Self::Sparse(Encoding::Bf16),
            6..=9 => Self::Rows(Encoding::Bits(Planes { there: code % 2 == 1, within: code >= 8 })),
            _ => return None,
        })
    }
}

/// A part as a tensor.
#[derive(Debug, Clone)]
pub enum Decoded {
    /// Rows, dense or sparse.
    Matrix(Matrix),
    /// A list.
    Ids(Arc<[u32]>),
}

impl Decoded {
    /// Bytes of memory that it holds, about.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Matrix(Matrix::Dense(d)) => {
                let dense = Matrix::Dense(d.clone());
                padded_bytes(dense.rows() as u64, dense.columns() as u64).unwrap_or(u64::MAX)
            }
            Self::Matrix(Matrix::Sparse(s)) => {
                8 * (s.data.rows() as u64 + 1) + 8 * s.data.stored_in(0..s.data.rows()) as u64
            }
            Self::Ids(ids) => 4 * ids.len() as u64,
        }
    }
}

/// Bytes that a [`Buffer`](crate::Buffer) of this size allocates, or `None` past 2^64.
pub fn padded_bytes(rows: u64, columns: u64) -> Option<u64> {
    let stride = stride_for(usize::try_from(columns.min(1 << 48)).ok()?) as u64;
    rows.checked_mul(stride.max(columns))?.checked_mul(4)
}

fn malformed(place: impl Into<String>, reason: impl Into<String>) -> Error {
    Error::Frame { place: place.into(), reason: reason.into() }
}

fn damaged(place: impl Into<String>, reason: impl Into<String>) -> Error {
    Error::Damaged { place: place.into(), reason: reason.into() }
}

fn check_crc(place: impl Fn() -> String, expected: u32, found: u32) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(damaged(place(), format!("CRC-32 {expected:08x} was written, {found:08x} was found")))
}
