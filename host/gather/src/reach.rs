//! Addresses of source rows, as the innermost loops of a gather compute them.
//!
//! The *base* of a piece is the address that row 0 would have if the piece extended down to it. The
//! addresses of rows are computed from the base with wrapping arithmetic. Nothing is read at the
//! base itself, because row 0 usually lies elsewhere.

use std::ops::Range;
use std::ptr;

use super::blocked::Scratch;
use super::kernel::Element;
use super::sources::MAX_PIECES;

/// Contiguous piece of the source rows, from the first column of the current call on.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a, E> {
    /// Index of the first row in the piece.
    pub start: usize,
    /// Index after the last row in the piece.
    pub end: usize,
    /// Values of the rows.
    pub data: &'a [E],
}

/// All source rows of a gather call, in one or more pieces of memory.
#[derive(Clone, Copy)]
pub(super) struct Input<'a, E> {
    /// Pieces in ascending order of their rows. No piece is empty.
    pub pieces: &'a [Piece<'a, E>],
    /// Number of values between the starts of consecutive rows.
    pub stride: usize,
}

impl<'a, E> Input<'a, E> {
    /// Returns true if each of the first `rows` rows has `lanes` readable values.
    pub(super) fn covers(&self, rows: usize, lanes: usize) -> bool {
        let mut next = 0;
        for piece in self.pieces {
            let there = piece.start == next
                && piece.start < piece.end
                && (piece.end - piece.start - 1) * self.stride + lanes <= piece.data.len();
            if !there {
                return false;
            }
            next = piece.end;
        }
        next == rows
    }

    fn base(&self, piece: &Piece<'a, E>) -> *const E {
        piece.data.as_ptr().wrapping_sub(piece.start * self.stride)
    }

    /// Divides `rows` at the boundaries of pieces. Returns the resulting ranges in order, each with
    /// the base address of its piece.
    #[inline(always)]
    pub(super) fn parts(self, rows: Range<usize>) -> impl Iterator<Item = (Range<usize>, *const E)> {
        let first = self.pieces.partition_point(|piece| piece.end <= rows.start);
        let met = self.pieces[first..].iter().take_while(move |piece| piece.start < rows.end);
        met.map(move |piece| (piece.start.max(rows.start)..piece.end.min(rows.end), self.base(piece)))
    }
}

/// Mapping from the index of a row to its address.
pub(super) trait Reach<E>: Copy {
    /// Returns the address of the row with index `u`.
    ///
    /// # Safety
    /// The row must exist.
    unsafe fn row(self, u: usize) -> *const E;
}

/// Address mapping for rows in one piece. It has the base address and the number of values between
/// consecutive rows.
pub(super) struct Straight<E>(pub *const E, pub usize);

impl<E> Clone for Straight<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Straight<E> {}

impl<E> Reach<E> for Straight<E> {
    #[inline(always)]
    unsafe fn row(self, u: usize) -> *const E {
        self.0.wrapping_add(u * self.1)
    }
}

/// Factor in the maximum number of [`Table`] entries. The other factor is twice the number of
/// pieces, or the square root of the number of rows if that is larger. More entries would displace
/// rows from the first-level cache. With fewer entries, more rows would be copied.
const ENTRIES: usize = 8;

/// Table of base addresses for rows in several pieces, with one address per 2^shift rows. If a
/// piece ends within such a group of rows, the group is copied. So an address needs neither a
/// search nor a branch, which would cost at least a third of a row's sum. The table has 8 bytes per
/// entry, and at most an eighth of the rows is copied. For a million rows in 64 pieces, it takes 62
/// KB and copies one row in 120.
pub(super) struct Table<E> {
    bases: Vec<*const E>,
    shift: u32,
    stride: usize,
}

impl<E: Element> Table<E> {
    /// Creates the table of the first `rows` rows with `L` values each.
    ///
    /// # Safety
    /// `input` must cover these rows and values. The table is valid until `scratch` is used again.
    #[inline(always)]
    pub(super) unsafe fn new<const L: usize>(
        input: Input<'_, E>,
        rows: usize,
        scratch: &mut Scratch,
    ) -> Self {
        let stride = input.stride;
        let shift = shift(rows, input.pieces.len());
        let mut bases = vec![ptr::null(); rows.div_ceil(1 << shift)];
        for piece in input.pieces {
            let end = if piece.end == rows { bases.len() } else { piece.end >> shift };
            if let Some(within) = bases.get_mut(piece.start.div_ceil(1 << shift)..end) {
                within.fill(input.base(piece));
            }
        }
        let cut = bases.iter().filter(|base| base.is_null()).count();
        let mut copies = scratch.room::<E>((cut << shift) * stride);
        for (at, to) in bases.iter_mut().enumerate().filter(|(_, base)| base.is_null()) {
            let from = at << shift;
            *to = copies.cast_const().wrapping_sub(from * stride);
            for (part, base) in input.parts(from..(from + (1 << shift)).min(rows)) {
                for u in part {
                    // SAFETY: `input` contains the row, and the buffer has space for 2^shift rows
                    // of each divided entry.
                    unsafe {
                        let row = *base.wrapping_add(u * stride).cast::<[E; L]>();
                        *copies.add((u - from) * stride).cast::<[E; L]>() = row;
                    }
                }
            }
            copies = copies.wrapping_add(stride << shift);
        }
        Self { bases, shift, stride }
    }

    /// Returns the address mapping that this table defines.
    pub(super) fn reach(&self) -> Scattered<'_, E> {
        Scattered { bases: &self.bases, shift: self.shift, stride: self.stride }
    }
}

/// Returns the smallest shift for which the table has no more entries than [`ENTRIES`] allows.
fn shift(rows: usize, pieces: usize) -> u32 {
    let most = ENTRIES * rows.isqrt().max(2 * pieces).clamp(1, 2 * MAX_PIECES);
    rows.div_ceil(most).next_power_of_two().trailing_zeros()
}

/// Address mapping for rows in several pieces, which looks up base addresses in a [`Table`].
pub(super) struct Scattered<'a, E> {
    bases: &'a [*const E],
    shift: u32,
    stride: usize,
}

impl<E> Clone for Scattered<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Scattered<'_, E> {}

impl<E> Reach<E> for Scattered<'_, E> {
    #[inline(always)]
    unsafe fn row(self, u: usize) -> *const E {
        // SAFETY: every row has an entry.
        unsafe { self.bases.get_unchecked(u >> self.shift).wrapping_add(u * self.stride) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn a_table_finds_every_row_wherever_it_is_cut() {
        let seed = 21;
        println!("seed {seed}");
        let random = &mut SplitMix64::new(seed);
        let mut copied = 0;
        for round in 0..200 {
            let rows = 1 + random.below(if round % 10 == 0 { 50_000 } else { 2_000 }) as usize;
            let stride = 1 + random.below(3) as usize;
            // What a row holds is its number.
            let data: Vec<f32> = (0..rows * stride).map(|i| (i / stride) as f32).collect();
            let mut cuts: Vec<usize> =
                (0..random.below(70)).map(|_| random.below(rows as u64 + 1) as usize).collect();
            if round % 3 == 0 {
                let from = random.below(rows as u64) as usize;
                cuts.extend(from..(from + 40).min(rows));
            }
            cuts.extend([0, rows]);
            cuts.sort_unstable();
            cuts.dedup();
            let parts: Vec<Vec<f32>> =
                cuts.windows(2).map(|w| data[w[0] * stride..w[1] * stride].to_vec()).collect();
            let pieces: Vec<_> = (cuts.windows(2).zip(&parts))
                .map(|(w, data)| Piece { start: w[0], end: w[1], data })
                .collect();
            let input = Input { pieces: &pieces, stride };
            assert!(input.covers(rows, 1));
            assert!(!input.covers(rows + 1, 1) && !input.covers(rows, stride + 1));
            let mut scratch = Scratch::default();
            // SAFETY: the input covers its rows; `scratch` is not used again.
            let table = unsafe { Table::new::<1>(input, rows, &mut scratch) };
            assert!(table.bases.len() <= ENTRIES * rows.isqrt().max(2 * pieces.len()));
            copied += usize::from(table.shift > 0);
            for u in 0..rows {
                // SAFETY: a row of the table's.
                let found = unsafe { *table.reach().row(u) };
                assert_eq!(found, u as f32, "round {round}, row {u}, {cuts:?}");
            }
        }
        assert!(copied > 100, "{copied} tables with entries of several rows");
    }

    #[test]
    fn entries_and_copies_stay_within_their_limits() {
        for rows in [1, 2, 255, 256, 2708, 1_000_000, 100_000_000, u32::MAX as usize] {
            for pieces in [2, 3, 64, MAX_PIECES] {
                let shift = shift(rows, pieces);
                assert!(rows.div_ceil(1 << shift) <= 2 * ENTRIES * MAX_PIECES);
                let copies = (pieces - 1) << shift;
                assert!(shift == 0 || copies <= rows / 8, "{rows} rows, {pieces} pieces: {copies}");
            }
        }
        assert_eq!((shift(2708, 64), shift(1_000_000, 64)), (2, 7));
    }
}
