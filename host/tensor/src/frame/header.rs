//! A frame's header: prefix, meta, table of parts.

use std::ops::Range;

use super::{
    ALIGNMENT, Encoding, Kind, MAGIC, MAX_FRAME_BYTES, MAX_META_BYTES, MAX_PARTS, check_crc, damaged,
    malformed,
};
use crate::error::Result;

/// Bytes of the prefix that its CRC covers.
const COVERED: usize = 24;
/// Bytes of a table entry.
const ENTRY: usize = 40;

/// One part, as the table describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartInfo {
    /// Kind of its content.
    pub kind: Kind,
    /// Rows, or ids; below 2^32.
    pub rows: u64,
    /// Values in a row; 1 for ids.
    pub columns: u32,
    /// From the frame's first byte.
    pub offset: u64,
    /// Its length.
    pub bytes_len: u64,
    /// CRC-32 of its bytes.
    pub crc32: u32,
}

impl PartInfo {
    /// Bytes of a row, for dense rows.
    pub fn row_bytes(&self) -> Option<u64> {
        match self.kind {
            Kind::Rows(encoding) => Some(encoding.row_bytes(self.columns as usize) as u64),
            _ => None,
        }
    }

    /// Returns the byte range of dense rows in the frame, or `None` for other parts and for rows
    /// that do not exist.
    pub fn byte_range(&self, rows: Range<u64>) -> Option<Range<u64>> {
        let row = self.row_bytes()?;
        if rows.start > rows.end || rows.end > self.rows {
            return None;
        }
        let at = |r: u64| r.checked_mul(row)?.checked_add(self.offset);
        Some(at(rows.start)?..at(rows.end)?)
    }

    /// Stored values of sparse rows; 0 for others.
    pub fn stored(&self) -> u64 {
        match self.kind {
            Kind::Sparse(encoding) => {
                let offsets = self.rows.saturating_add(1).saturating_mul(4);
                self.bytes_len.saturating_sub(offsets) / (4 + encoding.row_bytes(1) as u64)
            }
            _ => 0,
        }
    }

    /// Checks that rows, columns and length are consistent.
    pub(super) fn check(&self, place: impl Fn() -> String) -> Result<()> {
        if self.rows > u64::from(u32::MAX) {
            return Err(malformed(place(), format!("{} rows; below 2^32 are allowed", self.rows)));
        }
        let expected = match self.kind {
            Kind::Ids if self.columns != 1 => {
                return Err(malformed(place(), format!("ids with {} columns, not 1", self.columns)));
            }
            Kind::Ids => self.rows.checked_mul(4),
            Kind::Rows(_) if self.columns == 0 && self.rows > 0 => {
                return Err(malformed(place(), format!("{} rows without columns", self.rows)));
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
                format!("{} bytes for {:?} of {} x {}", self.bytes_len, self.kind, self.rows, self.columns),
            ));
        }
        Ok(())
    }

    /// Its entry in the table.
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
            return Err(malformed(place(), format!("an entry of kind {}; 1 to 9 are known", entry[0])));
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

/// The u32 at `at`; 0 past the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The u64 at `at`; 0 past the end.
fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Header of a frame, which precedes the parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its user's own text.
    pub meta: Vec<u8>,
    /// The table.
    pub parts: Vec<PartInfo>,
    /// Length of the whole frame.
    pub bytes_len: u64,
    /// Length of prefix, meta and table: the first part begins at the next multiple of 64.
    pub header_len: usize,
}

/// Bytes before the parts.
pub(super) fn header_len(meta_len: usize, parts: usize) -> usize {
    Header::PREFIX + meta_len.next_multiple_of(8) + parts * ENTRY
}

/// Returns the offset of the next part.
pub(super) fn next_offset(end: u64) -> Option<u64> {
    end.checked_next_multiple_of(ALIGNMENT)
}

impl Header {
    /// Bytes that say how long the header is.
    pub const PREFIX: usize = 32;

    /// Bytes of the longest header, which a reader that knows nothing may fetch at once.
    pub const MAX_BYTES: usize = Self::PREFIX + MAX_META_BYTES + MAX_PARTS * ENTRY;

    /// The header's length, from at least [`Header::PREFIX`] bytes.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) for fewer bytes, [`Error::Frame`](crate::Error::Frame)
    /// for what is no prefix or is past a limit.
    pub fn len_from_prefix(bytes: &[u8]) -> Result<usize> {
        let Some(prefix) = bytes.first_chunk::<{ Self::PREFIX }>() else {
            return Err(damaged("prefix", format!("{} bytes of {}", bytes.len(), Self::PREFIX)));
        };
        if prefix[..4] != MAGIC {
            return Err(malformed("prefix", format!("it begins with {:02x?}, not \"ECF1\"", &prefix[..4])));
        }
        let (parts, meta_len) = (word(prefix, 16) as usize, word(prefix, 20) as usize);
        if parts > MAX_PARTS {
            return Err(malformed("prefix", format!("{parts} parts; {MAX_PARTS} are allowed")));
        }
        if meta_len > MAX_META_BYTES {
            return Err(malformed(
                "prefix",
                format!("{meta_len} bytes of meta; {MAX_META_BYTES} are allowed"),
            ));
        }
        let (found, expected) = (word(prefix, 4) as usize, header_len(meta_len, parts));
        if found != expected || word(prefix, 28) != 0 {
            return Err(malformed("prefix", format!("a header of {found} bytes, not {expected}")));
        }
        Ok(expected)
    }

    /// Reads a header; what follows it may be missing.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) for missing or changed bytes,
    /// [`Error::Frame`](crate::Error::Frame) for what is no header.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let header_len = Self::len_from_prefix(bytes)?;
        let Some(header) = bytes.get(..header_len) else {
            return Err(damaged("header", format!("{} bytes of {header_len}", bytes.len())));
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
                return Err(malformed(place(), format!("it begins at {}, after {end}", part.offset)));
            }
            end = part.offset.checked_add(part.bytes_len).filter(|&e| e <= MAX_FRAME_BYTES).ok_or_else(
                || malformed(place(), format!("it ends after {MAX_FRAME_BYTES} bytes, which are allowed")),
            )?;
            parts.push(part);
        }
        if end != bytes_len {
            return Err(malformed("prefix", format!("a frame of {bytes_len} bytes; its parts end at {end}")));
        }
        Ok(Self { meta: meta.to_vec(), parts, bytes_len, header_len })
    }

    /// The part of this number.
    ///
    /// # Errors
    /// [`Error::Frame`](crate::Error::Frame) if there is none.
    pub fn part(&self, part: u32) -> Result<&PartInfo> {
        self.parts
            .get(part as usize)
            .ok_or_else(|| malformed(format!("part {part}"), format!("there are {}", self.parts.len())))
    }

    /// Writes prefix, meta and table to the front of a frame.
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

/// The CRC that a header's prefix holds.
fn checksum(header: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header.get(..COVERED).unwrap_or_default());
    hasher.update(header.get(Header::PREFIX..).unwrap_or_default());
    hasher.finalize()
}

impl Kind {
    /// Returns the encoding of dense rows, if this is one.
    pub(super) fn dense(self) -> Option<Encoding> {
        match self {
            Self::Rows(encoding) => Some(encoding),
            _ => None,
        }
    }
}
