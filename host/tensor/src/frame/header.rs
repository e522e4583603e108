//! Header of a frame, which consists of a prefix, metadata and a table of parts.

use std::ops::Range;

use super::{
    ALIGNMENT, Encoding, Kind, MAGIC, MAX_FRAME_BYTES, MAX_META_BYTES, MAX_PARTS, check_crc, damaged,
    malformed,
};
use crate::error::Result;

/// Number of bytes at the start of the prefix that the header's checksum covers.
const COVERED: usize = 24;
/// Size of a table entry, in bytes.
const ENTRY: usize = 40;

/// Table entry of one part of a frame, with its type, shape, position and checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartInfo {
    /// Type of the part's content, which is a list of ids, dense rows or sparse rows.
    pub kind: Kind,
    /// Number of rows, or of ids in a list. It is below 2^32.
    pub rows: u64,
    /// Number of values per row. It is 1 for a list of ids.
    pub columns: u32,
    /// Offset of the part from the start of the frame, in bytes.
    pub offset: u64,
    /// Length of the part, in bytes.
    pub bytes_len: u64,
    /// CRC-32 checksum of the part's bytes.
    pub crc32: u32,
}

impl PartInfo {
    /// Returns the encoded size of a row, in bytes. Returns `None` if the part has no dense rows.
    pub fn row_bytes(&self) -> Option<u64> {
        match self.kind {
            Kind::Rows(encoding) => Some(encoding.row_bytes(self.columns as usize) as u64),
            _ => None,
        }
    }

    /// Returns the byte range of the dense rows `rows` within the frame. Returns `None` if the part
    /// has no dense rows, or if the rows are out of range.
    pub fn byte_range(&self, rows: Range<u64>) -> Option<Range<u64>> {
        let row = self.row_bytes()?;
        if rows.start > rows.end || rows.end > self.rows {
            return None;
        }
        let at = |r: u64| r.checked_mul(row)?.checked_add(self.offset);
        Some(at(rows.start)?..at(rows.end)?)
    }

    /// Returns the number of values that sparse rows store. It is 0 for parts of other types.
    pub fn stored(&self) -> u64 {
        match self.kind {
            Kind::Sparse(encoding) => {
                let offsets = self.rows.saturating_add(1).saturating_mul(4);
                self.bytes_len.saturating_sub(offsets) / (4 + encoding.row_bytes(1) as u64)
            }
            _ => 0,
        }
    }

    /// Checks that the part's length matches its type and its numbers of rows and columns.
    pub(super) fn check(&self, place: impl Fn() -> String) -> Result<()> {
        if self.rows > u64::from(u32::MAX) {
            return Err(malformed(
                place(),
                format!("it has {} rows, but must have fewer than 2^32", self.rows),
            ));
        }
        let expected = match self.kind {
            Kind::Ids if self.columns != 1 => {
                return Err(malformed(
                    place(),
                    format!("it has ids with {} columns, but ids have 1 column", self.columns),
                ));
            }
            Kind::Ids => self.rows.checked_mul(4),
            Kind::Rows(_) if self.columns == 0 && self.rows > 0 => {
                return Err(malformed(place(), format!("it has {} rows without columns", self.rows)));
            }
            Kind::Rows(_) => self.rows.checked_mul(self.row_bytes().unwrap_or(0)),
            Kind::Sparse(encoding) => {
                let offsets = (self.rows + 1) * 4;
                let entry = 4 + encoding.row_bytes(1) as u64;
                let whole = self.bytes_len.checked_sub(offsets).is_some_and(|len| len % entry == 0);
                whole.then_some(self.bytes_len)
            }
        };
        if expected != Some(self.bytes_len) {
            return Err(malformed(
                place(),
                format!(
                    "it has {} bytes, which do not fit {:?} of {} x {}",
                    self.bytes_len, self.kind, self.rows, self.columns
                ),
            ));
        }
        Ok(())
    }

    /// Encodes the part's description as an entry of the table.
    fn entry(&self) -> [u8; ENTRY] {
        let mut entry = [0; ENTRY];
        entry[0] = self.kind.code();
        entry[4..8].copy_from_slice(&self.columns.to_le_bytes());
        entry[8..16].copy_from_slice(&self.rows.to_le_bytes());
        entry[16..24].copy_from_slice(&self.offset.to_le_bytes());
        entry[24..32].copy_from_slice(&self.bytes_len.to_le_bytes());
        entry[32..36].copy_from_slice(&self.crc32.to_le_bytes());
        entry
    }

    fn from_entry(entry: &[u8; ENTRY], place: impl Fn() -> String) -> Result<Self> {
        let zeros = entry[1..4].iter().chain(&entry[36..]).all(|&b| b == 0);
        let Some(kind) = Kind::from_code(entry[0]).filter(|_| zeros) else {
            return Err(malformed(
                place(),
                format!("it has the kind {}, but only the kinds 1 to 9 exist", entry[0]),
            ));
        };
        let part = Self {
            kind,
            columns: word(entry, 4),
            rows: long(entry, 8),
            offset: long(entry, 16),
            bytes_len: long(entry, 24),
            crc32: word(entry, 32),
        };
        part.check(place)?;
        Ok(part)
    }
}

/// Reads the u32 at offset `at`. Returns 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Reads the u64 at offset `at`. Returns 0 beyond the end.
fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Header of a frame, which precedes the parts and describes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Metadata of the frame, which is a text that the application defines.
    pub meta: Vec<u8>,
    /// Table of the frame's parts, in their order.
    pub parts: Vec<PartInfo>,
    /// Length of the whole frame, in bytes.
    pub bytes_len: u64,
    /// Length of prefix, metadata and table, in bytes. The first part starts at the next multiple
    /// of 64.
    pub header_len: usize,
}

/// Returns the length of the header of a frame with `parts` parts, in bytes.
pub(super) fn header_len(meta_len: usize, parts: usize) -> usize {
    Header::PREFIX + meta_len.next_multiple_of(8) + parts * ENTRY
}

/// Returns the offset of a part whose predecessor ends at `end`. Returns `None` after an overflow.
pub(super) fn next_offset(end: u64) -> Option<u64> {
    end.checked_next_multiple_of(ALIGNMENT)
}

impl Header {
    /// Length of the prefix in bytes. The prefix contains the length of the whole header.
    pub const PREFIX: usize = 32;

    /// Maximum length of a header, in bytes. A reader can fetch this many bytes before it knows the
    /// actual length.
    pub const MAX_BYTES: usize = Self::PREFIX + MAX_META_BYTES + MAX_PARTS * ENTRY;

    /// Reads the length of the header from the prefix. `bytes` must have at least
    /// [`Header::PREFIX`] bytes.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if there are fewer bytes. Returns
    /// [`Error::Frame`](crate::Error::Frame) if they are not a prefix, or a limit is exceeded.
    pub fn len_from_prefix(bytes: &[u8]) -> Result<usize> {
        let Some(prefix) = bytes.first_chunk::<{ Self::PREFIX }>() else {
            return Err(damaged("prefix", format!("found {} of {} bytes", bytes.len(), Self::PREFIX)));
        };
        if prefix[..4] != MAGIC {
            return Err(malformed("prefix", format!("it begins with {:02x?}, not \"ECF1\"", &prefix[..4])));
        }
        let (parts, meta_len) = (word(prefix, 16) as usize, word(prefix, 20) as usize);
        if parts > MAX_PARTS {
            return Err(malformed("prefix", format!("it has {parts} parts, but the maximum is {MAX_PARTS}")));
        }
        if meta_len > MAX_META_BYTES {
            return Err(malformed(
                "prefix",
                format!("it has {meta_len} bytes of metadata, but the maximum is {MAX_META_BYTES}"),
            ));
        }
        let (found, expected) = (word(prefix, 4) as usize, header_len(meta_len, parts));
        if found != expected || word(prefix, 28) != 0 {
            return Err(malformed(
                "prefix",
                format!("the header has {found} bytes, but must have {expected}"),
            ));
        }
        Ok(expected)
    }

    /// Parses the header at the start of `bytes`. The parts of the frame need not be present.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if bytes are missing or changed, and
    /// [`Error::Frame`](crate::Error::Frame) if they are not a header.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let header_len = Self::len_from_prefix(bytes)?;
        let Some(header) = bytes.get(..header_len) else {
            return Err(damaged("header", format!("found {} of {header_len} bytes", bytes.len())));
        };
        check_crc(|| "header".to_owned(), word(header, COVERED), checksum(header))?;
        let (bytes_len, count, meta_len) =
            (long(header, 8), word(header, 16) as usize, word(header, 20) as usize);
        let (meta, table) = header[Self::PREFIX..].split_at(header_len - Self::PREFIX - count * ENTRY);
        let (meta, padding) = meta.split_at(meta_len);
        if padding.iter().any(|&b| b != 0) {
            return Err(malformed("meta", "it is not padded with zeros"));
        }
        let mut parts = Vec::with_capacity(count);
        let mut end = header_len as u64;
        for (i, entry) in table.as_chunks::<ENTRY>().0.iter().enumerate() {
            let place = || format!("part {i}");
            let part = PartInfo::from_entry(entry, place)?;
            if Some(part.offset) != next_offset(end) {
                return Err(malformed(
                    place(),
                    format!("it begins at byte {}, but the part before it ends at byte {end}", part.offset),
                ));
            }
            end = part.offset.checked_add(part.bytes_len).filter(|&e| e <= MAX_FRAME_BYTES).ok_or_else(
                || malformed(place(), format!("it ends after byte {MAX_FRAME_BYTES}, which is the maximum")),
            )?;
            parts.push(part);
        }
        if end != bytes_len {
            return Err(malformed(
                "prefix",
                format!("the frame has {bytes_len} bytes, but its parts end at byte {end}"),
            ));
        }
        Ok(Self { meta: meta.to_vec(), parts, bytes_len, header_len })
    }

    /// Returns the table entry of a part.
    ///
    /// # Errors
    /// Returns [`Error::Frame`](crate::Error::Frame) if the part does not exist.
    pub fn part(&self, part: u32) -> Result<&PartInfo> {
        self.parts.get(part as usize).ok_or_else(|| {
            malformed(format!("part {part}"), format!("the frame has {} parts", self.parts.len()))
        })
    }

    /// Writes the prefix, the metadata and the table to the start of `frame`, which has all its
    /// parts.
    pub(super) fn write(meta: &[u8], parts: &[PartInfo], frame: &mut [u8]) {
        let (header_len, total) = (header_len(meta.len(), parts.len()), frame.len() as u64);
        let Some(header) = frame.get_mut(..header_len) else { return };
        header[..4].copy_from_slice(&MAGIC);
        header[4..8].copy_from_slice(&(header_len as u32).to_le_bytes());
        header[8..16].copy_from_slice(&total.to_le_bytes());
        header[16..20].copy_from_slice(&(parts.len() as u32).to_le_bytes());
        header[20..24].copy_from_slice(&(meta.len() as u32).to_le_bytes());
        header[Self::PREFIX..Self::PREFIX + meta.len()].copy_from_slice(meta);
        let table = header_len - parts.len() * ENTRY;
        for (entry, part) in header[table..].as_chunks_mut::<ENTRY>().0.iter_mut().zip(parts) {
            *entry = part.entry();
        }
        let crc = checksum(header);
        header[COVERED..COVERED + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Computes the CRC-32 checksum that the prefix of a header contains.
fn checksum(header: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header.get(..COVERED).unwrap_or_default());
    hasher.update(header.get(Header::PREFIX..).unwrap_or_default());
    hasher.finalize()
}

impl Kind {
    /// Returns the encoding of dense rows. Returns `None` if the part has no dense rows.
    pub(super) fn dense(self) -> Option<Encoding> {
        match self {
            Self::Rows(encoding) => Some(encoding),
            _ => None,
        }
    }
}
