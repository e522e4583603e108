//! Operations on segments, which are runs of consecutive rows. The edges of one vertex are an
//! example.
//!
//! The sum of a segment adds its rows in order. The order depends neither on the widths nor on the
//! position of the rows in memory.
#![allow(unsafe_code)]

use super::Reduction;
use crate::error::{Error, Result};
use crate::ops::activation::exp;
use crate::simd::dispatch;
use crate::view::{View, ViewMut};

/// Number of values whose exponentials are computed at once.
const BLOCK: usize = 256;

/// Checks that offsets divide `rows` rows into `segments` segments.
fn check_offsets(operation: &'static str, offsets: &[u32], rows: usize, segments: usize) -> Result<()> {
    let valid = offsets.first() == Some(&0)
        && offsets.last().is_some_and(|&l| l as usize == rows)
        && offsets.windows(2).all(|w| w[0] <= w[1]);
    if valid && segments + 1 == offsets.len() {
        return Ok(());
    }
    let reason = format!("{} offsets for {segments} segments must ascend from 0 to {rows}", offsets.len());
    Err(Error::Argument { operation, reason })
}

fn segment_rows<'a>(x: View<'a>, span: &[u32]) -> View<'a> {
    let (start, end) = (span[0] as usize, span[1] as usize);
    x.slice(start, end - start)
}

/// Computes out[s] = the sum, mean or maximum of the rows of x in segment s. The segment has the
/// rows `offsets[s]..offsets[s + 1]`. If it has no rows, the result is zero.
pub fn reduce_segments(x: View<'_>, offsets: &[u32], by: Reduction, out: &mut ViewMut<'_>) -> Result<()> {
    check_offsets("reduce-segments", offsets, x.rows(), out.rows())?;
    reduce_all(x, offsets, by, out);
    Ok(())
}

dispatch! {
    fn reduce_all(x: View<'_>, offsets: &[u32], by: Reduction, out: &mut ViewMut<'_>) = reduce_all_body
}

#[inline(always)]
fn reduce_all_body<const FMA: bool>(x: View<'_>, offsets: &[u32], by: Reduction, out: &mut ViewMut<'_>) {
    for (s, span) in offsets.windows(2).enumerate() {
        let (x, out) = (segment_rows(x, span), out.row_mut(s));
        match by {
            _ if x.rows() == 0 => out.fill(0.0),
            Reduction::Sum => fold(x, 0.0, out, |a, v| a + v),
            Reduction::Mean => {
                fold(x, 0.0, out, |a, v| a + v);
                let count = x.rows() as f32;
                out.iter_mut().for_each(|o| *o /= count);
            }
            Reduction::Max => {
                fold(x, f32::NEG_INFINITY, out, |a, v| if (v > a) | v.is_nan() { v } else { a });
            }
        }
    }
}

/// Returns the first N values of a row as an array, so that the compiler knows their number.
#[inline(always)]
fn first<const N: usize>(row: &[f32]) -> &[f32; N] {
    &row.as_chunks::<N>().0[0]
}

/// Folds the rows of x with f, in order. It processes as many columns at once as fit into
/// registers.
#[inline(always)]
fn fold(x: View<'_>, from: f32, out: &mut [f32], f: impl Fn(f32, f32) -> f32 + Copy) {
    let mut done = 0;
    macro_rules! columns {
        ($($width:literal)*) => { $(
            while out.len() - done >= $width {
                let mut folded = [from; $width];
                for i in 0..x.rows() {
                    let row = first::<$width>(&x.row(i)[done..]);
                    folded = std::array::from_fn(|at| f(folded[at], row[at]));
                }
                out[done..done + $width].copy_from_slice(&folded);
                done += $width;
            }
        )* };
    }
    columns!(64 16 8 1);
}

/// Computes the maximum m and the value 1 / (sum of exp(x - m)) of each column of x in each
/// segment. Row s of `state` has the p maxima and then the p other values. It is zero if segment s,
/// which has the rows `offsets[s]..offsets[s + 1]`, is empty.
pub fn softmax_segments(x: View<'_>, offsets: &[u32], state: &mut ViewMut<'_>) -> Result<()> {
    check_offsets("softmax-segments", offsets, x.rows(), state.rows())?;
    softmax_all(x, offsets, state);
    Ok(())
}

dispatch! {
    fn softmax_all(x: View<'_>, offsets: &[u32], state: &mut ViewMut<'_>) = softmax_all_body
}

#[inline(always)]
fn softmax_all_body<const FMA: bool>(x: View<'_>, offsets: &[u32], state: &mut ViewMut<'_>) {
    let columns = x.columns();
    for (s, span) in offsets.windows(2).enumerate() {
        let x = segment_rows(x, span);
        let (largest, inverse) = state.row_mut(s).split_at_mut(columns);
        if x.rows() == 0 {
            largest.fill(0.0);
            inverse.fill(0.0);
            continue;
        }
        // A NaN is never the largest value, but it makes the sum a NaN.
        fold(x, f32::NEG_INFINITY, largest, |a, v| if v > a { v } else { a });
        match columns {
            1 => sum_exponentials::<1>(x, largest, inverse),
            2 => sum_exponentials::<2>(x, largest, inverse),
            4 => sum_exponentials::<4>(x, largest, inverse),
            8 => sum_exponentials::<8>(x, largest, inverse),
            _ => {
                inverse.fill(0.0);
                for i in 0..x.rows() {
                    let row = x.row(i).iter().zip(largest.iter());
                    inverse.iter_mut().zip(row).for_each(|(sum, (&v, &l))| *sum += exp(v - l));
                }
            }
        }
        inverse.iter_mut().for_each(|sum| *sum = 1.0 / *sum);
    }
}

/// Computes the sums of exp(x - largest) over the rows of x, which have P values each. The rows are
/// added in order, and the exponentials of many rows are computed at once.
#[inline(always)]
fn sum_exponentials<const P: usize>(x: View<'_>, largest: &[f32], sums: &mut [f32]) {
    let mut values = [0.0; BLOCK];
    let (largest, mut total) = (first::<P>(largest), [0.0; P]);
    let mut start = 0;
    while start < x.rows() {
        let count = (x.rows() - start).min(BLOCK / P);
        for (i, to) in values.as_chunks_mut::<P>().0.iter_mut().enumerate().take(count) {
            let row = first::<P>(x.row(start + i));
            *to = std::array::from_fn(|c| row[c] - largest[c]);
        }
        let whole = (count * P).next_multiple_of(16);
        values[..whole].iter_mut().for_each(|v| *v = exp(*v));
        for row in &values.as_chunks::<P>().0[..count] {
            total = std::array::from_fn(|c| total[c] + row[c]);
        }
        start += count;
    }
    sums.copy_from_slice(&total);
}

dispatch! {
    /// Computes out = exp(x - m) * k, where x has the shape `[n, p]`. Each row of `state` has p
    /// maxima m and p factors k, as [`softmax_segments`] computes them.
    pub fn softmax_values(x: View<'_>, state: View<'_>, out: &mut ViewMut<'_>) = softmax_values_body
}

#[inline(always)]
fn softmax_values_body<const FMA: bool>(x: View<'_>, state: View<'_>, out: &mut ViewMut<'_>) {
    match x.columns() {
        1 => values_of::<1>(x, state, out),
        2 => values_of::<2>(x, state, out),
        4 => values_of::<4>(x, state, out),
        8 => values_of::<8>(x, state, out),
        columns => {
            for i in 0..x.rows() {
                let (largest, inverse) = state.row(i).split_at(columns);
                let row = x.row(i).iter().zip(largest.iter().zip(inverse));
                out.row_mut(i).iter_mut().zip(row).for_each(|(o, (&v, (&l, &k)))| *o = exp(v - l) * k);
            }
        }
    }
}

/// Computes [`softmax_values`] for rows of P values, one block of rows at a time.
#[inline(always)]
fn values_of<const P: usize>(x: View<'_>, state: View<'_>, out: &mut ViewMut<'_>) {
    let (mut values, mut factors) = ([0.0; BLOCK], [0.0; BLOCK]);
    let mut start = 0;
    while start < x.rows() {
        let count = (x.rows() - start).min(BLOCK / P);
        let to = values.as_chunks_mut::<P>().0.iter_mut().zip(factors.as_chunks_mut::<P>().0);
        for (i, (value, factor)) in to.enumerate().take(count) {
            let (largest, inverse) = state.row(start + i).split_at(P);
            let (row, largest) = (first::<P>(x.row(start + i)), first::<P>(largest));
            *value = std::array::from_fn(|c| row[c] - largest[c]);
            *factor = *first::<P>(inverse);
        }
        let whole = (count * P).next_multiple_of(16);
        let both = values[..whole].iter_mut().zip(&factors[..whole]);
        both.for_each(|(v, &k)| *v = exp(*v) * k);
        for (i, row) in values.as_chunks::<P>().0[..count].iter().enumerate() {
            out.row_mut(start + i).copy_from_slice(row);
        }
        start += count;
    }
}
