//! Encoder of frames, which converts tensors to bytes.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::convert::{rows_to_bytes, to_bytes, words_to_bytes};
use super::header::{header_len, next_offset};
use super::{
    BLOCK_BYTES, Encoding, Header, Kind, MAX_FRAME_BYTES, MAX_META_BYTES, MAX_PARTS, PartInfo, malformed,
};
use crate::error::Result;
use crate::matrix::{Held, Matrix};
use crate::signs::Planes;
use crate::sparse::SparseRows;
use crate::view::View;

/// Content of a part that has not been encoded yet.
#[derive(Debug)]
enum Content<'a> {
    Held(Held),
    Views(Vec<View<'a>>),
    Sparse(Arc<SparseRows>, Range<usize>),
    Ids(Cow<'a, [u32]>),
    Packed(Vec<u8>),
}

/// Rows of a matrix that are packed as signs and scales, with one to three bits per value.
#[derive(Debug)]
pub struct Packed {
    planes: Planes,
    rows: usize,
    columns: usize,
    bytes: Vec<u8>,
}

impl Packed {
    /// Packs the rows of a matrix as signs and scales. If `within` is true, the result also records
    /// which absolute values are at most 1, which a gradient needs. Returns `None` for sparse rows,
    /// for rows that are stored as bfloat16 or still arriving, and for rows that cannot be packed.
    ///
    /// # Errors
    /// Returns an error if the rows cannot be leased.
    pub fn from_matrix(matrix: &Matrix, within: bool) -> Result<Option<Self>> {
        let Matrix::Dense(dense) = matrix else { return Ok(None) };
        if matrix.is_half() || dense.is_arriving() {
            return Ok(None);
        }
        let held = dense.hold(Some(Duration::ZERO))?;
        let (view, planes) = (held.view(), Planes::for_rows(held.view(), within));
        let packed = |bytes| Self { planes, rows: view.rows(), columns: view.columns(), bytes };
        Ok(planes.pack(view).map(packed))
    }

    /// Returns the encoding of the packed rows.
    pub fn encoding(&self) -> Encoding {
        Encoding::Bits(self.planes)
    }

    /// Returns the size of the packed rows, in bytes.
    pub fn bytes_len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Encoder of a frame. It collects parts, and encodes all of them at the end in [`Writer::finish`].
#[derive(Debug, Default)]
pub struct Writer<'a> {
    meta: Vec<u8>,
    parts: Vec<(PartInfo, Content<'a>)>,
    /// Length of all parts so far in bytes, measured from the start of the first part.
    data_len: u64,
}

impl<'a> Writer<'a> {
    /// Creates an encoder of a frame with the metadata `meta` and without parts.
    pub fn new(meta: Vec<u8>) -> Self {
        Self { meta, parts: Vec::new(), data_len: 0 }
    }

    /// Replaces the metadata of the frame.
    pub fn set_meta(&mut self, meta: Vec<u8>) {
        self.meta = meta;
    }

    /// Adds a part with a matrix, and returns its index in the frame. The matrix is leased until
    /// the frame is finished. Sparse rows stay sparse.
    ///
    /// # Errors
    /// Returns [`Error::Frame`](crate::Error::Frame) if a limit is exceeded, and
    /// [`Error::NotArrived`](crate::Error::NotArrived) if rows are still arriving.
    pub fn matrix(&mut self, matrix: &Matrix, encoding: Encoding) -> Result<u32> {
        self.numbers(encoding)?;
        match matrix {
            Matrix::Dense(dense) => {
                let held = dense.hold(Some(Duration::ZERO))?;
                self.push(Kind::Rows(encoding), matrix.rows(), matrix.columns(), 0, Content::Held(held))
            }
            Matrix::Sparse(s) => {
                let stored = s.data.stored_in(s.rows.clone());
                let content = Content::Sparse(s.data.clone(), s.rows.clone());
                self.push(Kind::Sparse(encoding), s.rows.len(), s.data.columns(), stored, content)
            }
        }
    }

    /// Adds a part with dense rows, and returns its index in the frame.
    ///
    /// # Errors
    /// Returns [`Error::Frame`](crate::Error::Frame) if a limit is exceeded.
    pub fn view(&mut self, rows: View<'a>, encoding: Encoding) -> Result<u32> {
        self.views(vec![rows], encoding)
    }

    /// Adds a part with the dense rows of several views, one after the other. Returns its index in
    /// the frame.
    ///
    /// # Errors
    /// Returns [`Error::Frame`](crate::Error::Frame) if a limit is exceeded, or if the views have
    /// different widths.
    pub fn views(&mut self, rows: Vec<View<'a>>, encoding: Encoding) -> Result<u32> {
        self.numbers(encoding)?;
        let columns = rows.first().map_or(0, View::columns);
        if let Some(other) = rows.iter().find(|v| v.columns() != columns) {
            let reason = format!("it has rows of {columns} and of {} columns", other.columns());
            return Err(malformed(format!("part {}", self.parts.len()), reason));
        }
        let count = rows.iter().map(View::rows).sum();
        self.push(Kind::Rows(encoding), count, columns, 0, Content::Views(rows))
    }

    /// Adds a part with packed rows, and returns its index in the frame.
    ///
    /// # Errors
    /// Returns [`Error::Frame`](crate::Error::Frame) if a limit is exceeded.
    pub fn packed(&mut self, packed: Packed) -> Result<u32> {
        let kind = Kind::Rows(packed.encoding());
        self.push(kind, packed.rows, packed.columns, 0, Content::Packed(packed.bytes))
    }

    /// Returns an error for the encoding as signs and scales, which requires rows of type
    /// [`Packed`].
    fn numbers(&self, encoding: Encoding) -> Result<()> {
        match encoding {
            Encoding::F32 | Encoding::Bf16 => Ok(()),
            Encoding::Bits(_) => Err(malformed(
                format!("part {}", self.parts.len()),
                "rows of numbers cannot be stored as signs",
            )),
        }
    }

    /// Adds a part with a list of ids, and returns its index in the frame.
    ///
    /// # Errors
    /// Returns [`Error::Frame`](crate::Error::Frame) if a limit is exceeded.
    pub fn ids(&mut self, ids: impl Into<Cow<'a, [u32]>>) -> Result<u32> {
        let ids = ids.into();
        self.push(Kind::Ids, ids.len(), 1, 0, Content::Ids(ids))
    }

    fn push(
        &mut self,
        kind: Kind,
        rows: usize,
        columns: usize,
        stored: usize,
        content: Content<'a>,
    ) -> Result<u32> {
        let number = self.parts.len();
        let place = || format!("part {number}");
        if number >= MAX_PARTS {
            return Err(malformed(place(), format!("a frame has at most {MAX_PARTS} parts")));
        }
        let (rows, stored) = (rows as u64, stored as u64);
        let columns = u32::try_from(columns).map_err(|_| {
            malformed(place(), format!("it has {columns} columns, but must have fewer than 2^32"))
        })?;
        let bytes_len = match kind {
            Kind::Ids => rows.checked_mul(4),
            Kind::Rows(e) => rows.checked_mul(e.row_bytes(columns as usize) as u64),
            Kind::Sparse(e) => stored
                .checked_mul(4 + e.row_bytes(1) as u64)
                .and_then(|len| len.checked_add(4 * rows.saturating_add(1))),
        };
        let offset = next_offset(self.data_len);
        let end = offset.zip(bytes_len).and_then(|(offset, len)| offset.checked_add(len));
        let (Some(offset), Some(bytes_len), Some(end)) =
            (offset, bytes_len, end.filter(|&end| end <= MAX_FRAME_BYTES - Header::MAX_BYTES as u64))
        else {
            let reason = format!(
                "{rows} x {columns} values exceed the maximum size of a frame, {MAX_FRAME_BYTES} bytes"
            );
            return Err(malformed(place(), reason));
        };
        let info = PartInfo { kind, rows, columns, offset, bytes_len, crc32: 0 };
        info.check(place)?;
        self.parts.push((info, content));
        self.data_len = end;
        Ok(number as u32)
    }

    /// Returns the length in bytes that the frame would have if it ended here.
    pub fn bytes_len(&self) -> u64 {
        self.layout(self.meta.len()).1
    }

    /// Returns the offset of the first part and the length of the frame, both in bytes.
    fn layout(&self, meta_len: usize) -> (u64, u64) {
        let header = header_len(meta_len, self.parts.len()) as u64;
        if self.parts.is_empty() {
            return (header, header);
        }
        // Offsets are relative to the first part, which is itself aligned.
        let start = next_offset(header).unwrap_or(header);
        (start, start + self.data_len)
    }

    /// Encodes the frame and returns its bytes.
    ///
    /// # Errors
    /// Returns [`Error::Frame`](crate::Error::Frame) if the metadata exceeds [`MAX_META_BYTES`].
    pub fn finish(mut self) -> Result<Vec<u8>> {
        let meta = std::mem::take(&mut self.meta);
        let room = meta.len();
        self.finish_late(room, || meta)
    }

    /// Encodes the frame. The function `meta` is called after everything else, so that the metadata
    /// can contain the encoding time. Metadata shorter than `room` bytes is padded with spaces,
    /// which JSON ignores.
    ///
    /// # Errors
    /// Returns [`Error::Frame`](crate::Error::Frame) if the metadata exceeds [`MAX_META_BYTES`] or
    /// `room`.
    pub fn finish_late(self, room: usize, meta: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>> {
        let too_long = |len: usize, allowed: usize| {
            malformed("meta", format!("the metadata has {len} bytes, but the maximum is {allowed}"))
        };
        if room > MAX_META_BYTES {
            return Err(too_long(room, MAX_META_BYTES));
        }
        let (start, total) = self.layout(room);
        let too_large = |_| malformed("data", format!("{total} bytes do not fit in memory"));
        // The zeros between parts are part of the format. The operating system provides large
        // allocations as zeroed pages.
        let mut frame = vec![0; usize::try_from(total).map_err(too_large)?];
        let mut infos = Vec::with_capacity(self.parts.len());
        for (mut info, content) in self.parts {
            info.offset += start;
            // The offset is below `total`, which is a usize.
            let at = info.offset as usize;
            info.crc32 = content.write(info.kind, &mut frame[at..at + info.bytes_len as usize]);
            infos.push(info);
        }
        let mut meta = meta();
        if meta.len() > room {
            return Err(too_long(meta.len(), room));
        }
        meta.resize(room, b' ');
        Header::write(&meta, &infos, &mut frame);
        Ok(frame)
    }
}

impl Content<'_> {
    /// Encodes the content to `bytes`, and returns their CRC-32 checksum.
    fn write(&self, kind: Kind, bytes: &mut [u8]) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        match self {
            Self::Held(held) => write_rows(kind, held.view(), bytes, &mut crc),
            Self::Views(views) => {
                let mut rest = bytes;
                for &view in views {
                    let width = kind.dense().unwrap_or_default().row_bytes(view.columns());
                    let (own, others) = rest.split_at_mut(view.rows() * width);
                    write_rows(kind, view, own, &mut crc);
                    rest = others;
                }
            }
            Self::Sparse(data, rows) => {
                let (stored, first) = (data.stored_in(rows.clone()), rows.start);
                let (to_offsets, rest) = bytes.split_at_mut((rows.len() + 1) * 4);
                let (to_indices, to_values) = rest.split_at_mut(stored * 4);
                // There are fewer than 2^30 stored values, which `SparseRows::new` checks.
                let offset = |row| data.stored_in(first..row) as u32;
                words_to_bytes((first..=rows.end).map(offset), to_offsets);
                words_to_bytes(rows.clone().flat_map(|row| data.row(row).0).copied(), to_indices);
                let values = data.values_in(rows.clone());
                let encoding = if let Kind::Sparse(e) = kind { e } else { Encoding::F32 };
                to_bytes(encoding, values, to_values);
                crc.update(bytes);
            }
            Self::Packed(packed) => {
                bytes.copy_from_slice(packed);
                crc.update(bytes);
            }
            Self::Ids(ids) => {
                words_to_bytes(ids.iter().copied(), bytes);
                crc.update(bytes);
            }
        }
        crc.finalize()
    }
}

/// Encodes rows block by block, so that the checksum finds the bytes in the cache.
fn write_rows(kind: Kind, rows: View<'_>, bytes: &mut [u8], crc: &mut crc32fast::Hasher) {
    let encoding = kind.dense().unwrap_or_default();
    let width = encoding.row_bytes(rows.columns());
    if width == 0 {
        return;
    }
    let block = (BLOCK_BYTES / width).max(1);
    for (i, out) in bytes.chunks_mut(block * width).enumerate() {
        rows_to_bytes(encoding, rows.slice(i * block, out.len() / width), out);
        crc.update(out);
    }
}
