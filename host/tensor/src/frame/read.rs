//! Decoder of frames, which creates tensors from their bytes.

use std::sync::Arc;

use super::convert::{bytes_to_rows, to_values, words};
use super::{BLOCK_BYTES, Decoded, Encoding, Header, Kind, PartInfo, check_crc, damaged, malformed};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::matrix::Matrix;
use crate::sparse::SparseRows;
use crate::view::ViewMut;

/// Complete frame in memory, whose header has been checked.
#[derive(Debug)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    header: Header,
}

impl<'a> Frame<'a> {
    /// Parses a frame and checks everything except the checksums of its parts. [`Frame::part`]
    /// verifies these.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if bytes are missing or changed, and
    /// [`Error::Frame`](crate::Error::Frame) if they are not a frame.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let header = Header::parse(bytes)?;
        if bytes.len() as u64 != header.bytes_len {
            return Err(damaged("data", format!("found {} of {} bytes", bytes.len(), header.bytes_len)));
        }
        let mut end = header.header_len as u64;
        for (i, part) in header.parts.iter().enumerate() {
            // Both offsets are within `bytes`, because the last part ends at the length in the
            // header.
            let gap = bytes.get(end as usize..part.offset as usize).unwrap_or_default();
            if gap.iter().any(|&b| b != 0) {
                return Err(damaged(format!("part {i}"), "the bytes before it are not zero"));
            }
            end = part.offset + part.bytes_len;
        }
        Ok(Self { bytes, header })
    }

    /// Returns the header of the frame.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the bytes of the part at index `part`, without a check of their checksum.
    ///
    /// # Errors
    /// Returns [`Error::Frame`](crate::Error::Frame) if the part does not exist.
    pub fn bytes(&self, part: u32) -> Result<&'a [u8]> {
        let info = self.header.part(part)?;
        let range = info.offset as usize..(info.offset + info.bytes_len) as usize;
        self.bytes.get(range).ok_or_else(|| damaged(format!("part {part}"), "bytes are missing"))
    }

    /// Decodes the part at index `part`, and verifies its checksum.
    ///
    /// # Errors
    /// Returns the errors of [`PartInfo::decode`], and [`Error::Frame`](crate::Error::Frame) if the
    /// part does not exist.
    pub fn part(&self, part: u32) -> Result<Decoded> {
        self.header.part(part)?.decode_at(&|| format!("part {part}"), self.bytes(part)?)
    }
}

impl PartInfo {
    /// Decodes the bytes of this part to a tensor, and verifies their checksum.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if bytes are missing or their checksum
    /// differs. Returns [`Error::Frame`](crate::Error::Frame) if they are not a tensor, for
    /// instance if offsets do not ascend. Returns [`Error::Argument`](crate::Error::Argument) if
    /// sparse rows are malformed.
    pub fn decode(&self, bytes: &[u8]) -> Result<Decoded> {
        self.decode_at(&|| "part".to_owned(), bytes)
    }

    /// Checks that `bytes` has the length and the checksum of the part.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if either is different.
    pub fn verify(&self, bytes: &[u8]) -> Result<()> {
        self.check_len(&|| "part".to_owned(), bytes)?;
        check_crc(|| "part".to_owned(), self.crc32, crc32fast::hash(bytes))
    }

    /// Decodes dense rows from index `first` on, until all of `rows` is filled. The checksum is not
    /// checked (see [`PartInfo::verify`]).
    ///
    /// # Errors
    /// Returns [`Error::Shape`](crate::Error::Shape) if the part has too few rows, or rows of
    /// another width. Returns [`Error::Frame`](crate::Error::Frame) and
    /// [`Error::Damaged`](crate::Error::Damaged) in the same cases as [`PartInfo::decode`].
    pub fn copy_rows(&self, bytes: &[u8], first: u64, rows: &mut ViewMut<'_>) -> Result<()> {
        let place = || "part".to_owned();
        self.check(place)?;
        self.check_len(&place, bytes)?;
        let Kind::Rows(encoding) = self.kind else {
            return Err(malformed(place(), format!("found {:?}, expected dense rows", self.kind)));
        };
        let end = first.saturating_add(rows.rows() as u64);
        let fits = end <= self.rows && rows.columns() as u64 == u64::from(self.columns);
        let range = self.byte_range(first..end).filter(|_| fits);
        let coded =
            range.and_then(|r| bytes.get((r.start - self.offset) as usize..(r.end - self.offset) as usize));
        let Some(coded) = coded else {
            return Err(crate::Error::Shape {
                operation: "copy rows",
                operand: "rows",
                expected: vec![rows.rows() as u32, rows.columns() as u32],
                found: vec![self.rows.saturating_sub(first) as u32, self.columns],
            });
        };
        bytes_to_rows(encoding, coded, rows);
        Ok(())
    }

    fn check_len(&self, place: &dyn Fn() -> String, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 != self.bytes_len {
            return Err(damaged(place(), format!("found {} of {} bytes", bytes.len(), self.bytes_len)));
        }
        Ok(())
    }

    fn decode_at(&self, place: &dyn Fn() -> String, bytes: &[u8]) -> Result<Decoded> {
        // The fields are public, so each is checked against the length of the bytes.
        self.check(place)?;
        self.check_len(place, bytes)?;
        match self.kind {
            Kind::Ids => {
                check_crc(place, self.crc32, crc32fast::hash(bytes))?;
                Ok(Decoded::Ids(words(bytes).collect()))
            }
            Kind::Rows(encoding) => {
                let rows = self.rows as usize;
                let buffer = Buffer::zeroed(rows, self.columns as usize)?;
                let mut lease = buffer.write(0..rows)?;
                let crc = decode_rows(encoding, bytes, &mut lease.view_mut());
                check_crc(place, self.crc32, crc)?;
                Ok(Decoded::Matrix(Matrix::from(lease.into_read())))
            }
            Kind::Sparse(encoding) => {
                check_crc(place, self.crc32, crc32fast::hash(bytes))?;
                Ok(Decoded::Matrix(Matrix::from(Arc::new(self.sparse(encoding, bytes)?))))
            }
        }
    }

    fn sparse(&self, encoding: Encoding, bytes: &[u8]) -> Result<SparseRows> {
        // `check` has verified both lengths.
        let (offsets, rest) = bytes.split_at((self.rows as usize + 1) * 4);
        let (indices, coded) = rest.split_at(self.stored() as usize * 4);
        let mut values = vec![0.0; self.stored() as usize];
        to_values(encoding, coded, &mut values);
        SparseRows::new(
            self.columns,
            words(offsets).map(u64::from).collect::<Vec<_>>(),
            words(indices).collect::<Vec<_>>(),
            values,
        )
    }
}

/// Decodes rows block by block, so that the checksum finds the bytes in the cache. Returns the
/// CRC-32 checksum of all bytes.
fn decode_rows(encoding: Encoding, bytes: &[u8], rows: &mut ViewMut<'_>) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    let width = encoding.row_bytes(rows.columns());
    // Without columns there is nothing to decode.
    let width = if rows.columns() == 0 { 0 } else { width };
    if let Some(block) = BLOCK_BYTES.checked_div(width) {
        let block = block.max(1);
        for (i, coded) in bytes.chunks(block * width).enumerate() {
            crc.update(coded);
            bytes_to_rows(encoding, coded, &mut rows.slice(i * block, coded.len() / width));
        }
    }
    crc.finalize()
}
