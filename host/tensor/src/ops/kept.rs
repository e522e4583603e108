//! Values of sparse rows that remain after dropout.
#![allow(unsafe_code)]

use std::ops::Range;

use super::activation::Activation;
use super::prologue::{Prologue, kept};
use super::sparse::Stored;
use crate::random::{Dropout, bits32};
use crate::simd::{Level, level};
use crate::sparse::SparseRows;

/// Buffer for the values of sparse rows that remain after dropout, with their columns. Zero terms
/// add nothing to a sum that starts at zero. So omitting them changes no bit, as long as the values
/// that they multiply are finite. If they are not finite, the loss is not finite either, and the
/// run ends.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    ends: Vec<u64>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Kept {
    /// Applies dropout to the rows `block` of `interval`, and returns the values that are not zero.
    /// The row ids in `before` are counted from the interval's first row.
    pub(super) fn draw(
        &mut self,
        x: &SparseRows,
        interval: &Range<usize>,
        block: &Range<usize>,
        before: &Prologue<'_>,
        dropout: Dropout,
    ) -> Stored<'_> {
        self.draw_at(level(), x, interval, block, before, dropout)
    }

    fn draw_at(
        &mut self,
        level: Level,
        x: &SparseRows,
        interval: &Range<usize>,
        block: &Range<usize>,
        before: &Prologue<'_>,
        dropout: Dropout,
    ) -> Stored<'_> {
        // Routines write whole registers, so there must be space for one more.
        let most = x.stored_in(interval.start + block.start..interval.start + block.end) + MOST_LANES;
        self.ends.clear();
        self.ends.push(0);
        self.columns.resize(most.max(self.columns.len()), 0);
        self.values.resize(most.max(self.values.len()), 0.0);
        let from = (x, interval, block, before, dropout);
        match level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level guarantees that the processor has these features.
            Level::Avx512 => unsafe { avx512(self, from) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx2 => unsafe { avx2(self, from) },
            _ => rows(self, from, push::<8>),
        }
        let kept = self.ends[block.len()] as usize;
        Stored { ends: &self.ends, columns: &self.columns[..kept], values: &self.values[..kept] }
    }
}

const MOST_LANES: usize = 16;

/// Arguments of a dropout routine, which are the rows, the interval, the block of its rows, the
/// prologue and the dropout.
type Drawing<'a> = (&'a SparseRows, &'a Range<usize>, &'a Range<usize>, &'a Prologue<'a>, Dropout);

/// Applies dropout row by row, to L values at a time. `push` moves the values that are not zero,
/// and their columns, to the start of two slices of length L. It returns their number.
#[inline(always)]
fn rows<const L: usize>(
    to: &mut Kept,
    from: Drawing<'_>,
    push: impl Fn(&[u32; L], &[f32; L], &mut [u32], &mut [f32]) -> usize,
) {
    match from.3.activation {
        Activation::Identity => rows_with(to, from, |v| v, push),
        activation => rows_with(to, from, |v| activation.apply(v), push),
    }
}

#[inline(always)]
fn rows_with<const L: usize>(
    to: &mut Kept,
    (x, interval, block, before, dropout): Drawing<'_>,
    activation: impl Fn(f32) -> f32,
    push: impl Fn(&[u32; L], &[f32; L], &mut [u32], &mut [f32]) -> usize,
) {
    let mut end = 0;
    for local in block.clone() {
        let key = dropout.key.row(before.row_ids.id(local));
        let mut take = |columns: &[u32; L], values: &[f32; L]| {
            let mut drawn = [0.0; L];
            for l in 0..L {
                let value = activation(values[l]) * dropout.scale;
                drawn[l] = kept(bits32(key, columns[l]), dropout.threshold, value);
            }
            end += push(columns, &drawn, &mut to.columns[end..end + L], &mut to.values[end..end + L]);
        };
        let (columns, values) = x.row(interval.start + local);
        let ((columns, columns_left), (values, values_left)) = (columns.as_chunks(), values.as_chunks());
        columns.iter().zip(values).for_each(|(columns, values)| take(columns, values));
        if !values_left.is_empty() {
            // The activation maps zero to zero.
            let (mut columns, mut values) = ([0; L], [0.0; L]);
            columns[..columns_left.len()].copy_from_slice(columns_left);
            values[..values_left.len()].copy_from_slice(values_left);
            take(&columns, &values);
        }
        to.ends.push(end as u64);
    }
}

#[inline(always)]
fn push<const L: usize>(
    columns: &[u32; L],
    values: &[f32; L],
    to_columns: &mut [u32],
    to_values: &mut [f32],
) -> usize {
    let mut kept = 0;
    // The code has no branch, because dropout cannot be predicted.
    for (&column, &value) in columns.iter().zip(values) {
        to_columns[kept] = column;
        to_values[kept] = value;
        kept += usize::from(value != 0.0);
    }
    kept
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,popcnt")]
fn avx512(to: &mut Kept, from: Drawing<'_>) {
    use std::arch::x86_64::{
        _CMP_NEQ_UQ, _mm512_cmp_ps_mask, _mm512_loadu_epi32, _mm512_loadu_ps, _mm512_maskz_compress_epi32,
        _mm512_maskz_compress_ps, _mm512_setzero_ps, _mm512_storeu_epi32, _mm512_storeu_ps,
    };
    rows::<16>(to, from, |columns, values, to_columns, to_values| {
        assert!(to_columns.len() >= 16 && to_values.len() >= 16);
        // SAFETY: sixteen values of each slice are read and written.
        unsafe {
            let value = _mm512_loadu_ps(values.as_ptr());
            let column = _mm512_loadu_epi32(columns.as_ptr().cast());
            let keep = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(value, _mm512_setzero_ps());
            _mm512_storeu_ps(to_values.as_mut_ptr(), _mm512_maskz_compress_ps(keep, value));
            _mm512_storeu_epi32(to_columns.as_mut_ptr().cast(), _mm512_maskz_compress_epi32(keep, column));
            keep.count_ones() as usize
        }
    });
}

/// Table with the lanes of each set of eight lanes, in ascending order. The index is the set's bit
/// mask.
#[cfg(target_arch = "x86_64")]
static LANES: [[u32; 8]; 256] = {
    let mut all = [[0; 8]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut lane, mut count) = (0, 0);
        while lane < 8 {
            if set >> lane & 1 == 1 {
                all[set][count] = lane;
                count += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    all
};

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn avx2(to: &mut Kept, from: Drawing<'_>) {
    use std::arch::x86_64::{
        _CMP_NEQ_UQ, _mm256_cmp_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_movemask_ps,
        _mm256_permutevar8x32_epi32, _mm256_permutevar8x32_ps, _mm256_setzero_ps, _mm256_storeu_ps,
        _mm256_storeu_si256,
    };
    rows::<8>(to, from, |columns, values, to_columns, to_values| {
        assert!(to_columns.len() >= 8 && to_values.len() >= 8);
        // SAFETY: eight values of each slice are read and written.
        unsafe {
            let value = _mm256_loadu_ps(values.as_ptr());
            let column = _mm256_loadu_si256(columns.as_ptr().cast());
            let keep = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NEQ_UQ>(value, _mm256_setzero_ps())) as usize;
            let lanes = _mm256_loadu_si256(LANES[keep & 255].as_ptr().cast());
            _mm256_storeu_ps(to_values.as_mut_ptr(), _mm256_permutevar8x32_ps(value, lanes));
            _mm256_storeu_si256(to_columns.as_mut_ptr().cast(), _mm256_permutevar8x32_epi32(column, lanes));
            keep.count_ones() as usize
        }
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::ops::prologue::RowIds;
    use crate::random::{Key, Purpose};

    /// Returns rows of 0 to 70 values. Some values are zero, minus zero or NaN.
    fn made(seed: u64, rows: u64) -> SparseRows {
        let key = Key::new(seed, Purpose::Kernel, 0, 0, 0);
        let (mut ends, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in 0..rows {
            let of = key.row(row);
            for column in 0..bits32(of, u32::MAX) % 71 {
                let bits = bits32(of, column);
                columns.push(column * 3);
                values.push(match bits % 16 {
                    0 => 0.0,
                    1 => -0.0,
                    2 => f32::NAN,
                    _ => bits as i32 as f32,
                });
            }
            ends.push(columns.len() as u64);
        }
        SparseRows::new(213, ends, columns, values).unwrap()
    }

    #[test]
    fn every_level_keeps_what_is_not_dropped() {
        let mut kept = Kept::default();
        for seed in 0..200 {
            let x = made(seed, 3 + seed % 9);
            let interval = (seed % 3) as usize..x.rows();
            let block = (seed % 2) as usize..interval.len() - (seed % 5).min(1) as usize;
            let activation = if seed % 4 == 0 { Activation::Relu } else { Activation::Identity };
            let dropout = Dropout::new(Key::new(seed, Purpose::Dropout, 1, 2, 3), 0.4).unwrap();
            let row_ids = RowIds::From(1000 + interval.start as u64);
            let before = Prologue { bias: None, activation, dropout: Some(dropout), row_ids, cut: 1 };
            for level in [Level::Portable, Level::Avx2, Level::Avx512].into_iter().filter(|&l| l <= level()) {
                let found = kept.draw_at(level, &x, &interval, &block, &before, dropout);
                assert_eq!(found.len(), block.len(), "seed {seed}, {level:?}");
                for (place, local) in block.clone().enumerate() {
                    let (columns, values) = x.row(interval.start + local);
                    let key = dropout.key.row(1000 + (interval.start + local) as u64);
                    let drawn = |(&c, &v): (&u32, &f32)| (c, activation.apply(v) * dropout.factor(key, c));
                    let nan_dropped = |&(c, v): &(u32, f32)| v != 0.0 && dropout.factor(key, c) != 0.0;
                    let expected: Vec<_> =
                        columns.iter().zip(values).map(drawn).filter(nan_dropped).collect();
                    let (columns, values) = found.row(place);
                    let found: Vec<_> = columns.iter().copied().zip(values.iter().copied()).collect();
                    assert_eq!(
                        format!("{found:?}"),
                        format!("{expected:?}"),
                        "seed {seed}, row {local}, {level:?}"
                    );
                }
            }
        }
    }
}
