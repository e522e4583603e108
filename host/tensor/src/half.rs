//! Rows that are stored as bfloat16. A bfloat16 is the upper half of an f32, with half the bytes
//! and eight bits of precision.
//!
//! A [`HalfBuffer`] stores two values in each word of a [`Buffer`], and has the same lease rules.
//! Widening to f32 is exact. Rounding is to nearest, ties to even ([`round`]).
#![allow(unsafe_code)]

use std::ops::Range;

use crate::buffer::{Buffer, ReadRows, WriteRows};
use crate::dispatch;
use crate::error::{Error, Result};
use crate::view::{View, ViewMut};

/// Rounds an f32 to the nearest bfloat16, with ties to even. A NaN stays a NaN with the same sign.
#[inline(always)]
pub fn round(value: f32) -> u16 {
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    // Without this bit, a NaN whose payload is in the lower half would become an infinity.
    let nan = (bits >> 16) | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { nearest }) as u16
}

/// Converts a bfloat16 to an f32 of the same value.
#[inline(always)]
pub fn widen(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// Read-only view of bfloat16 rows.
pub type HalfView<'a> = View<'a, u16>;
/// Mutable view of bfloat16 rows.
pub type HalfViewMut<'a> = ViewMut<'a, u16>;

impl HalfView<'_> {
    /// Converts the rows to f32 and writes them to `out`, which must have the same shape.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if the extents differ.
    pub fn widen_to(&self, out: &mut ViewMut<'_>) -> Result<()> {
        same("widen", (self.rows(), self.columns()), (out.rows(), out.columns()))?;
        for i in 0..self.rows() {
            widen_values(self.row(i), out.row_mut(i));
        }
        Ok(())
    }
}

impl HalfViewMut<'_> {
    /// Rounds the values of `rows` to bfloat16 and writes them to this view, which must have the
    /// same shape.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if the extents differ.
    pub fn round_from(&mut self, rows: View<'_>) -> Result<()> {
        same("round", (self.rows(), self.columns()), (rows.rows(), rows.columns()))?;
        for i in 0..self.rows() {
            round_values(rows.row(i), self.row_mut(i));
        }
        Ok(())
    }
}

fn same(operation: &'static str, expected: (usize, usize), found: (usize, usize)) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let extents = |(rows, columns): (usize, usize)| vec![rows as u32, columns as u32];
    let (expected, found) = (extents(expected), extents(found));
    Err(Error::Shape { operation, operand: "f32 rows", expected, found })
}

dispatch! {
    /// Rounds values to bfloat16. The shorter of the two slices determines how many.
    pub fn round_values(values: &[f32], out: &mut [u16]) = round_body
}

#[inline(always)]
fn round_body<const FMA: bool>(values: &[f32], out: &mut [u16]) {
    for (value, out) in values.iter().zip(out) {
        *out = round(*value);
    }
}

dispatch! {
    /// Converts bfloat16 values to f32. The shorter of the two slices determines how many.
    pub fn widen_values(halves: &[u16], out: &mut [f32]) = widen_body
}

#[inline(always)]
fn widen_body<const FMA: bool>(halves: &[u16], out: &mut [f32]) {
    for (half, out) in halves.iter().zip(out) {
        *out = widen(*half);
    }
}

/// Single allocation of bfloat16 rows. Rows are padded and aligned like those of a [`Buffer`] with
/// half as many columns. Clones share the memory.
#[derive(Clone)]
pub struct HalfBuffer {
    /// Buffer in which each f32 word holds two bfloat16 values.
    words: Buffer,
    columns: usize,
}

impl std::fmt::Debug for HalfBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HalfBuffer[{}, {}]", self.rows(), self.columns())
    }
}

impl HalfBuffer {
    /// Allocates a buffer of `rows` rows with `columns` zeros each.
    ///
    /// # Errors
    /// Returns an error if the buffer does not fit in memory.
    pub fn zeroed(rows: usize, columns: usize) -> Result<Self> {
        Ok(Self { words: Buffer::zeroed(rows, columns.div_ceil(2))?, columns })
    }

    /// Allocates a buffer and writes `values` to it, rounded to bfloat16. The values are stored row
    /// by row, without padding.
    ///
    /// # Errors
    /// Returns an error if the number of values is wrong, or if the buffer does not fit in memory.
    pub fn from_rows(rows: usize, columns: usize, values: &[f32]) -> Result<Self> {
        if rows.checked_mul(columns) != Some(values.len()) {
            return Err(Error::Argument {
                operation: "from_rows",
                reason: format!("{} values do not fill {rows} x {columns}", values.len()),
            });
        }
        let buffer = Self::zeroed(rows, columns)?;
        buffer.write(0..rows)?.view_mut().round_from(View::new(values, rows, columns))?;
        Ok(buffer)
    }

    /// Returns the number of rows of the buffer.
    #[inline]
    pub fn rows(&self) -> usize {
        self.words.rows()
    }

    /// Returns the number of values per row, without padding.
    #[inline]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the size of the buffer in bytes, including padding.
    pub fn bytes(&self) -> usize {
        self.words.bytes()
    }

    /// Returns the memory that a row of `columns` values takes, in bytes. It includes the padding.
    pub fn row_bytes(columns: usize) -> usize {
        Buffer::row_bytes(columns.div_ceil(2))
    }

    /// Returns true if both buffers are clones that share the same memory.
    pub fn is_same(&self, other: &Self) -> bool {
        self.words.is_same(&other.words)
    }

    /// Takes a read lease on the rows in `rows`. Read leases may overlap, but a write lease
    /// excludes all others.
    ///
    /// # Errors
    /// Returns [`Error::Leased`] if a write lease overlaps the rows, and [`Error::OutOfRange`] if
    /// the buffer has too few rows.
    pub fn read(&self, rows: Range<usize>) -> Result<ReadHalf> {
        Ok(ReadHalf { words: self.words.read(rows)?, columns: self.columns })
    }

    /// Takes a write lease on the rows in `rows`. No other lease may overlap these rows.
    ///
    /// # Errors
    /// Returns [`Error::Leased`] if another lease overlaps the rows, and [`Error::OutOfRange`] if
    /// the buffer has too few rows.
    pub fn write(&self, rows: Range<usize>) -> Result<WriteHalf> {
        Ok(WriteHalf { words: self.words.write(rows)?, columns: self.columns })
    }
}

/// Read lease on rows of a [`HalfBuffer`]. The rows do not change while the lease exists.
#[derive(Debug)]
pub struct ReadHalf {
    words: ReadRows,
    columns: usize,
}

impl ReadHalf {
    /// Returns the number of leased rows.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns true if the lease covers no rows.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns a view of the leased rows. Row 0 of the view is the first leased row.
    pub fn view(&self) -> HalfView<'_> {
        let words = self.words.view();
        let data = words.data();
        // SAFETY: each word consists of two u16. A u16 may have any bits and has a smaller
        // alignment. The borrow has the same lifetime.
        let data = unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u16>(), data.len() * 2) };
        View::padded(data, words.rows(), self.columns, words.stride() * 2)
    }
}

/// Write lease on rows of a [`HalfBuffer`]. No other lease of these rows can exist at the same
/// time.
#[derive(Debug)]
pub struct WriteHalf {
    words: WriteRows,
    columns: usize,
}

impl WriteHalf {
    /// Returns the buffer and the range of its rows that are leased.
    #[must_use]
    pub fn location(&self) -> (HalfBuffer, Range<usize>) {
        let (words, rows) = self.words.location();
        (HalfBuffer { words, columns: self.columns }, rows)
    }

    /// Returns the number of leased rows.
    pub fn len(&self) -> usize {
        self.words.view().rows()
    }

    /// Returns true if the lease covers no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of values per row, without padding.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns a mutable view of the leased rows. Row 0 of the view is the first leased row.
    pub fn view_mut(&mut self) -> HalfViewMut<'_> {
        let mut words = self.words.view_mut();
        let (rows, stride) = (words.rows(), words.stride() * 2);
        let data = words.data_mut();
        let (start, len) = (data.as_mut_ptr().cast::<u16>(), data.len() * 2);
        // SAFETY: each word consists of two u16, with a smaller alignment. This borrow of the lease
        // is the only one, and any bits are a valid f32.
        let data = unsafe { std::slice::from_raw_parts_mut(start, len) };
        ViewMut::padded(data, rows, self.columns, stride)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use ::half::bf16;

    /// Checks every upper half with lower halves around a tie.
    #[test]
    fn rounds_as_the_crate_half_does() {
        let values: Vec<f32> = (0..=u16::MAX)
            .flat_map(|upper| {
                [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff]
                    .map(|lower| f32::from_bits(u32::from(upper) << 16 | lower))
            })
            .collect();
        let mut halves = vec![0; values.len()];
        round_values(&values, &mut halves);
        let mut wide = vec![0.0; values.len()];
        widen_values(&halves, &mut wide);
        for ((value, half), wide) in values.iter().zip(halves).zip(wide) {
            let expected = bf16::from_f32(*value);
            assert_eq!(half, expected.to_bits(), "{value:?} ({:08x})", value.to_bits());
            assert_eq!(wide.to_bits(), expected.to_f32().to_bits());
            assert_eq!((half, wide.to_bits()), (round(*value), widen(half).to_bits()));
        }
    }

    #[test]
    fn rows_come_back_for_every_width_and_leases_exclude() {
        for columns in 0..=70 {
            let values: Vec<f32> = (0..5 * columns).map(|i| i as f32 - 100.0).collect();
            let buffer = HalfBuffer::from_rows(5, columns, &values).unwrap();
            assert_eq!((buffer.rows(), buffer.columns()), (5, columns));
            let lease = buffer.read(1..4).unwrap();
            assert!(matches!(buffer.write(0..2), Err(Error::Leased { holder: "reading", .. })));
            let view = lease.view();
            assert!(view.stride() >= columns && view.rows() == 3);
            let mut out = vec![0.0; 3 * columns];
            view.widen_to(&mut ViewMut::new(&mut out, 3, columns)).unwrap();
            assert_eq!(out, values[columns..4 * columns]);
        }
        let buffer = HalfBuffer::zeroed(4, 3).unwrap();
        assert!(matches!(buffer.read(0..5), Err(Error::OutOfRange { available: 4, .. })));
        let mut lease = buffer.write(0..2).unwrap();
        assert!(matches!(buffer.read(1..2), Err(Error::Leased { holder: "writing", .. })));
        let found = lease.view_mut().round_from(View::new(&[0.0; 8], 2, 4));
        assert!(matches!(found, Err(Error::Shape { operation: "round", .. })));
        assert!(HalfBuffer::zeroed(usize::MAX / 8, 100).is_err());
        assert!(HalfBuffer::from_rows(2, 2, &[0.0; 3]).is_err());
    }
}
