//! Binary format of tensors. A frame is one block of bytes that contains matrices and lists, each
//! with its own checksum.
//!
//! A frame consists of a header and parts. The header is a prefix of 32 bytes, *metadata* (a text
//! for the application), and a table. All numbers are little-endian.
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
//! kind 6 to 9  signs and scales ([`crate::signs`]): 6, + 1 with zero flags, + 2 with flags for |x| <= 1
//! ```
//!
//! The CRC-32 of the prefix covers its first 24 bytes, the metadata and the table. The CRC-32 of a
//! part covers its bytes. The encoding of given tensors is unique, because offsets, lengths and
//! zeros must be as described here. Dense rows are contiguous, so that a run of rows is a range of
//! bytes ([`PartInfo::byte_range`]). A reader can fetch only the rows that it needs. A [`RowSink`]
//! makes rows available while later ones are still being transferred.
//!
//! Limits are [`MAX_PARTS`], [`MAX_META_BYTES`], [`MAX_FRAME_BYTES`], and fewer than 2^32 rows per
//! part. Decoding allocates memory in proportion to the bytes that are present, and never by a size
//! that a header claims. The factor is at most 8 (because rows are padded to the vector width), or
//! 32 for signs.
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

/// Maximum number of parts (matrices and lists) in a frame.
pub const MAX_PARTS: usize = 4096;
/// Maximum size of a frame's metadata, in bytes.
pub const MAX_META_BYTES: usize = 4 << 20;
/// Maximum size of a frame, in bytes. It equals the maximum size of an object in S3.
pub const MAX_FRAME_BYTES: u64 = 5 << 40;

const MAGIC: [u8; 4] = *b"ECF1";
/// Alignment of the parts of a frame, in bytes. The offset of each part is a multiple of it.
const ALIGNMENT: u64 = 64;
/// Size of the blocks in which values are converted and checksummed, in bytes. A block fits into
/// the second-level cache.
const BLOCK_BYTES: usize = 128 << 10;

/// Encoding of the values of dense rows in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// The f32 values themselves, in 4 bytes each.
    #[default]
    F32,
    /// bfloat16, which is the upper half of each f32, rounded to nearest. The relative error is at
    /// most 2^-8.
    Bf16,
    /// Signs and scales, for dense rows of which the reader uses nothing else. Each value takes one
    /// to three bits.
    Bits(Planes),
}

impl Encoding {
    /// Returns the encoded size of a row of `columns` values, in bytes.
    pub fn row_bytes(self, columns: usize) -> usize {
        match self {
            Self::F32 => 4usize.saturating_mul(columns),
            Self::Bf16 => 2usize.saturating_mul(columns),
            Self::Bits(planes) => planes.row_bytes(columns),
        }
    }

    /// Returns the encoding for tensors that cannot be encoded as signs and scales. Such tensors
    /// are encoded as f32 instead, and with the other encodings as they are.
    #[must_use]
    pub fn of_numbers(self) -> Self {
        if let Self::Bits(_) = self { Self::F32 } else { self }
    }
}

/// Type of the content of a frame's part, which is a list of ids, dense rows or sparse rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A list of u32 values, stored as a single column.
    Ids,
    /// Dense rows, whose values have the given encoding.
    Rows(Encoding),
    /// Sparse rows, whose values have the given encoding.
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
            // `Writer` refuses this combination, and the format has no code for it.
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

/// Decoded part of a frame, which is a matrix or a list of ids.
#[derive(Debug, Clone)]
pub enum Decoded {
    /// Dense or sparse rows.
    Matrix(Matrix),
    /// A list of u32 ids.
    Ids(Arc<[u32]>),
}

impl Decoded {
    /// Returns the approximate size of the decoded part in memory, in bytes.
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

/// Returns the size of a [`Buffer`](crate::Buffer) with these dimensions, in bytes. Returns `None`
/// if it exceeds 2^64.
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
    Err(damaged(place(), format!("the CRC-32 is {found:08x}, but must be {expected:08x}")))
}
