//! Signs as bits, and what rows of them are times columns of them by XNOR and popcount.
//!
//! 128 signs are two words. A bit is 1 for a positive value; bits behind the last value are 0. In a component the vectors
//! of WebAssembly do what loops over words do natively; both add in the same order and so to the same bits.

use eciton_sdk::Real;

/// Values that two words hold.
const STEP: usize = 128;

/// Words of a row of so many values.
pub(crate) fn words(values: usize) -> usize {
    values.div_ceil(STEP) * 2
}

/// Rows as signs: which values are positive, and which are there (not zero).
#[derive(Debug, Default)]
pub(crate) struct Rows {
    columns: usize,
    positive: Vec<u64>,
    there: Vec<u64>,
}

impl Rows {
    pub(crate) fn new(columns: usize) -> Self {
        Self { columns, ..Self::default() }
    }

    /// The signs of `rows` in the place of those before.
    pub(crate) fn pack<R: Real>(&mut self, rows: &[R]) {
        let width = words(self.columns);
        let count = rows.len() / self.columns;
        for bits in [&mut self.positive, &mut self.there] {
            bits.clear();
            bits.resize(count * width, 0);
        }
        let places = self.positive.chunks_exact_mut(width).zip(self.there.chunks_exact_mut(width));
        for (row, (positive, there)) in rows.chunks_exact(self.columns).zip(places) {
            pack(row, positive, there);
        }
    }
}

/// Columns of weights as signs, each column's words one behind the other, and the column's scale.
#[derive(Debug)]
pub(crate) struct Columns<R> {
    depth: usize,
    positive: Vec<u64>,
    pub(crate) scales: Vec<R>,
}

impl<R: Real> Columns<R> {
    /// Of a matrix [depth, columns]; a weight of 0 counts as positive. The scale of a column is the mean of its
    /// absolute values, added in the order of rows; where they are all the same, that value.
    pub(crate) fn pack(weights: &[R], depth: usize, columns: usize) -> Self {
        let width = words(depth);
        let (mut positive, mut sums) = (vec![0u64; width * columns], vec![R::ZERO; columns]);
        let mut word = vec![0u64; columns];
        for (at, rows) in weights.chunks(64 * columns).enumerate() {
            word.fill(0);
            for (bit, row) in rows.chunks_exact(columns).enumerate() {
                for ((word, sum), &w) in word.iter_mut().zip(&mut sums).zip(row) {
                    *word |= u64::from(w >= R::ZERO) << bit;
                    *sum += absolute(w);
                }
            }
            for (column, &word) in positive.chunks_exact_mut(width).zip(&word) {
                column[at] = word;
            }
        }
        let count = R::from_f32(depth as f32);
        let scale = |(column, &sum): (usize, &R)| {
            let mut all = weights[column..].iter().step_by(columns).map(|&w| absolute(w));
            let first = all.next().unwrap_or(R::ZERO);
            if all.all(|w| w == first) { first } else { sum / count }
        };
        Self { depth, positive, scales: sums.iter().enumerate().map(scale).collect() }
    }

    /// y [n, m]: of row i and column j the sum of their signs' products, times the scales of both.
    pub(crate) fn product(&self, rows: &Rows, scales: &[R], y: &mut [R]) {
        let (width, columns) = (words(self.depth), self.scales.len());
        let packed = rows.positive.chunks_exact(width).zip(rows.there.chunks_exact(width));
        let mut differ = vec![0u32; columns.next_multiple_of(4)];
        for (((positive, there), &scale), y) in packed.zip(scales).zip(y.chunks_exact_mut(columns)) {
            let count: u32 = there.iter().map(|word| word.count_ones()).sum();
            let there = (count as usize != self.depth).then_some(there);
            count_differing(positive, there, &self.positive, &mut differ);
            for ((y, &of_column), &differ) in y.iter_mut().zip(&self.scales).zip(&differ) {
                // Whole numbers below 2^24: exact.
                *y = R::from_f32(count as f32 - 2.0 * differ as f32) * (scale * of_column);
            }
        }
    }
}

pub(crate) fn absolute<R: Real>(value: R) -> R {
    if value < R::ZERO { -value } else { value }
}

/// The mean absolute value of a row: sums over every 16th value, and theirs four by four.
pub(crate) fn mean_absolute<R: Real>(row: &[R]) -> R {
    let mut sums = [R::ZERO; 16];
    let whole = row.chunks_exact(16);
    for (sum, &value) in sums.iter_mut().zip(whole.remainder()) {
        *sum += absolute(value);
    }
    add_absolute(&mut sums, row);
    for half in [8, 4, 2, 1] {
        for at in 0..half {
            let other = sums[at + half];
            sums[at] += other;
        }
    }
    sums[0] / R::from_f32(row.len() as f32)
}

/// Of each 16 values of a row the absolute values, added to the sums.
fn add_each<R: Real>(sums: &mut [R; 16], row: &[R]) {
    for values in row.chunks_exact(16) {
        for (sum, &value) in sums.iter_mut().zip(values) {
            *sum += absolute(value);
        }
    }
}

/// One row's bits, value by value.
fn pack_each<R: Real>(row: &[R], positive: &mut [u64], there: &mut [u64]) {
    for (values, (positive, there)) in row.chunks(64).zip(positive.iter_mut().zip(there)) {
        for (bit, &value) in values.iter().enumerate() {
            *positive |= u64::from(value > R::ZERO) << bit;
            *there |= u64::from(value != R::ZERO) << bit;
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
use self::words::{add_absolute, count_differing, pack};

#[cfg(not(target_arch = "wasm32"))]
mod words {
    pub(super) use super::{add_each as add_absolute, pack_each as pack};

    /// Of each column how many bits differ from the row's, of those that are there.
    pub(super) fn count_differing(row: &[u64], there: Option<&[u64]>, columns: &[u64], into: &mut [u32]) {
        for (column, into) in columns.chunks_exact(row.len()).zip(into) {
            let pairs = row.iter().zip(column).map(|(a, b)| a ^ b);
            *into = match there {
                None => pairs.map(u64::count_ones).sum(),
                Some(there) => pairs.zip(there).map(|(bits, there)| (bits & there).count_ones()).sum(),
            };
        }
    }
}

#[cfg(target_arch = "wasm32")]
use self::vectors::{add_absolute, count_differing, pack};

#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code, reason = "loads and stores of vectors, each within a slice whose length is looked at")]
mod vectors {
    use core::arch::wasm32::{
        f32x4_abs, f32x4_add, f32x4_gt, f32x4_ne, f32x4_splat, i8x16_add, i8x16_bitmask, i8x16_narrow_i16x8,
        i8x16_popcnt, i16x8_extadd_pairwise_u8x16, i16x8_narrow_i32x4, i32x4_add,
        i32x4_extadd_pairwise_u16x8, i32x4_shuffle, i64x2_splat, v128, v128_and, v128_load, v128_store,
        v128_xor,
    };
    use eciton_sdk::Real;

    /// In a component every `Real` is f32.
    fn as_f32<R: Real>(values: &[R]) -> Option<&[f32]> {
        if size_of::<R>() != size_of::<f32>() {
            return None;
        }
        // SAFETY: the only `Real` of the size of an f32 is f32.
        Some(unsafe { core::slice::from_raw_parts(values.as_ptr().cast(), values.len()) })
    }

    /// As `add_each`.
    pub(super) fn add_absolute<R: Real>(sums: &mut [R; 16], row: &[R]) {
        let Some(values) = as_f32(row) else { return super::add_each(sums, row) };
        let place: *mut v128 = sums.as_mut_ptr().cast();
        // SAFETY: the sums are 16 values, and so is a chunk.
        unsafe {
            let mut four: [v128; 4] = core::array::from_fn(|v| v128_load(place.add(v)));
            for values in values.chunks_exact(16) {
                for (v, sum) in four.iter_mut().enumerate() {
                    *sum = f32x4_add(*sum, f32x4_abs(v128_load(values.as_ptr().add(4 * v).cast())));
                }
            }
            for (v, sum) in four.into_iter().enumerate() {
                v128_store(place.add(v), sum);
            }
        }
    }

    /// Bits of 16 comparisons.
    #[inline(always)]
    fn bits(four: [v128; 4]) -> u64 {
        let low = i16x8_narrow_i32x4(four[0], four[1]);
        u64::from(i8x16_bitmask(i8x16_narrow_i16x8(low, i16x8_narrow_i32x4(four[2], four[3]))))
    }

    /// One row's bits, 64 at a time.
    pub(super) fn pack<R: Real>(row: &[R], positive: &mut [u64], there: &mut [u64]) {
        let Some(values) = as_f32(row) else { return super::pack_each(row, positive, there) };
        let zero = f32x4_splat(0.0);
        let whole = values.len() / 64;
        for (values, (positive, there)) in values.chunks_exact(64).zip(positive.iter_mut().zip(&mut *there)) {
            let (mut over, mut known) = (0, 0);
            for part in 0..4 {
                // SAFETY: four vectors of four values at 16 part are within the 64.
                let four: [v128; 4] = core::array::from_fn(|v| unsafe {
                    v128_load(values.as_ptr().add(16 * part + 4 * v).cast())
                });
                over |= bits(four.map(|x| f32x4_gt(x, zero))) << (16 * part);
                known |= bits(four.map(|x| f32x4_ne(x, zero))) << (16 * part);
            }
            (*positive, *there) = (over, known);
        }
        super::pack_each(&row[64 * whole..], &mut positive[whole..], &mut there[whole..]);
    }

    /// Vectors whose counts, at most 8 a byte, a byte holds the sum of.
    const BYTES: usize = 31;
    /// Columns at a time.
    const WIDE: usize = 4;

    /// Four sums of the four values of each.
    #[inline(always)]
    fn across([a, b, c, d]: [v128; 4]) -> v128 {
        let pair = |x, y| i32x4_add(i32x4_shuffle::<0, 4, 1, 5>(x, y), i32x4_shuffle::<2, 6, 3, 7>(x, y));
        let (ab, cd) = (pair(a, b), pair(c, d));
        i32x4_add(i32x4_shuffle::<0, 1, 4, 5>(ab, cd), i32x4_shuffle::<2, 3, 6, 7>(ab, cd))
    }

    #[inline(always)]
    fn counts<const ALL: bool>(row: &[u64], there: &[u64], columns: [&[u64]; WIDE]) -> v128 {
        let width = row.len();
        assert!(there.len() == width && columns.iter().all(|column| column.len() == width));
        let mut sums = [i64x2_splat(0); WIDE];
        let mut at = 0;
        while at < width {
            let end = width.min(at + 2 * BYTES);
            let mut bytes = [i64x2_splat(0); WIDE];
            while at < end {
                // SAFETY: rows have an even number of words, as many each, and two from `at`.
                unsafe {
                    let x = v128_load(row.as_ptr().add(at).cast());
                    for (bytes, column) in bytes.iter_mut().zip(columns) {
                        let mut differ = v128_xor(x, v128_load(column.as_ptr().add(at).cast()));
                        if !ALL {
                            differ = v128_and(differ, v128_load(there.as_ptr().add(at).cast()));
                        }
                        *bytes = i8x16_add(*bytes, i8x16_popcnt(differ));
                    }
                }
                at += 2;
            }
            for (sum, bytes) in sums.iter_mut().zip(bytes) {
                *sum = i32x4_add(*sum, i32x4_extadd_pairwise_u16x8(i16x8_extadd_pairwise_u8x16(bytes)));
            }
        }
        across(sums)
    }

    /// Of each column how many bits differ from the row's, of those that are there.
    pub(super) fn count_differing(row: &[u64], there: Option<&[u64]>, columns: &[u64], into: &mut [u32]) {
        let width = row.len();
        let last = columns.len() / width - 1;
        for (four, into) in into.chunks_exact_mut(WIDE).enumerate() {
            let of = core::array::from_fn(|c| &columns[last.min(WIDE * four + c) * width..][..width]);
            let found = match there {
                None => counts::<true>(row, row, of),
                Some(there) => counts::<false>(row, there, of),
            };
            // SAFETY: a chunk is four numbers.
            unsafe { v128_store(into.as_mut_ptr().cast(), found) };
        }
    }
}
