//! Products with sparse rows, dropout on the stored values included.
#![allow(unsafe_code)]

use std::ops::Range;

use super::activation::Activation;
use super::product::Scratch;
use super::prologue::{Prologue, drop_stored, epilogue};
use crate::grid::{Grid, MAX_LEVEL, Part};
use crate::simd::{dispatch, madd};
use crate::sparse::{SparseRows, Transpose};
use crate::view::{View, ViewMut};

/// The values of `rows` after activation and dropout, in row order.
fn stored_values<'s>(x: &'s SparseRows, rows: &Range<usize>, before: &Prologue<'_>, memory: &'s mut Vec<f32>) -> &'s [f32] {
    let values = x.values_in(rows.clone());
    if before.is_identity() {
        return values;
    }
    memory.resize(memory.len().max(values.len()), 0.0);
    let out = &mut memory[..values.len()];
    let mut at = 0;
    for (local, row) in rows.clone().enumerate() {
        let (columns, values) = x.row(row);
        let to = &mut out[at..at + columns.len()];
        at += columns.len();
        match before.dropout {
            Some(d) => drop_stored(d.key.row(before.row_ids.id(local)), d.threshold, d.scale, columns, values, to),
            None => to.copy_from_slice(values),
        }
    }
    if before.activation != Activation::Identity {
        // Dropout only scales or clears, and f(0) = 0, but f(s x) is not s f(x): activate first.
        at = 0;
        for (local, row) in rows.clone().enumerate() {
            let (columns, values) = x.row(row);
            let key = before.dropout.map(|d| (d, d.key.row(before.row_ids.id(local))));
            for (&c, &v) in columns.iter().zip(values) {
                let factor = key.map_or(1.0, |(d, key)| d.factor(key, c));
                out[at] = before.activation.apply(v) * factor;
                at += 1;
            }
        }
    }
    out
}

/// out = activation(u w + bias), u the prologue (no bias) of sparse rows.
#[allow(clippy::too_many_arguments)]
pub fn linear(
    x: &SparseRows,
    rows: Range<usize>,
    before: &Prologue<'_>,
    w: View<'_>,
    bias: Option<&[f32]>,
    activation: Activation,
    out: &mut ViewMut<'_>,
    scratch: &mut Scratch,
) {
    let mut memory = std::mem::take(&mut scratch.stored);
    let values = stored_values(x, &rows, before, &mut memory);
    let n = w.columns();
    let mut start = 0;
    while start < n {
        // Whole registers where the padding allows it, else the general loop.
        let lanes = if w.stride() >= start + 64 && n - start > 48 { 64 } else { (n - start).next_multiple_of(16).min(48) };
        let lanes = if n <= 8 && w.stride() == 8 { 8 } else { lanes };
        let fits = w.stride() >= start + lanes && out.stride() >= start + lanes;
        match (fits, lanes) {
            (true, 8) => forward_lanes::<8>(x, &rows, values, w, start, out),
            (true, 16) => forward_lanes::<16>(x, &rows, values, w, start, out),
            (true, 32) => forward_lanes::<32>(x, &rows, values, w, start, out),
            (true, 48) => forward_lanes::<48>(x, &rows, values, w, start, out),
            (true, 64) => forward_lanes::<64>(x, &rows, values, w, start, out),
            _ => forward_any(x, &rows, values, w, start, lanes.min(n - start), out),
        }
        start += lanes;
    }
    epilogue(bias, activation, out);
    scratch.stored = memory;
}

dispatch! {
    fn forward_lanes[const L: usize](x: &SparseRows, rows: &Range<usize>, values: &[f32], w: View<'_>, start: usize, out: &mut ViewMut<'_>) = forward_body
}

#[inline(always)]
fn forward_body<const L: usize, const FMA: bool>(
    x: &SparseRows,
    rows: &Range<usize>,
    values: &[f32],
    w: View<'_>,
    start: usize,
    out: &mut ViewMut<'_>,
) {
    let (weights, w_stride, out_stride) = (w.data(), w.stride(), out.stride());
    let mut at = 0;
    for (local, row) in rows.clone().enumerate() {
        let (columns, _) = x.row(row);
        let mut sum = [0.0f32; L];
        for (&c, &v) in columns.iter().zip(&values[at..at + columns.len()]) {
            let from = c as usize * w_stride + start;
            let w: &[f32; L] = as_lanes(&weights[from..from + L]);
            for l in 0..L {
                sum[l] = madd::<FMA>(v, w[l], sum[l]);
            }
        }
        at += columns.len();
        let to = local * out_stride + start;
        out.data_mut()[to..to + L].copy_from_slice(&sum);
    }
}

#[inline(always)]
fn as_lanes<const L: usize>(values: &[f32]) -> &[f32; L] {
    // The slice was cut to L values by the caller; the compiler sees it and drops the check.
    match values.first_chunk::<L>() {
        Some(lanes) => lanes,
        None => &[0.0; L],
    }
}

dispatch! {
    fn forward_any(x: &SparseRows, rows: &Range<usize>, values: &[f32], w: View<'_>, start: usize, count: usize, out: &mut ViewMut<'_>) = forward_any_body
}

#[inline(always)]
fn forward_any_body<const FMA: bool>(
    x: &SparseRows,
    rows: &Range<usize>,
    values: &[f32],
    w: View<'_>,
    start: usize,
    count: usize,
    out: &mut ViewMut<'_>,
) {
    let mut at = 0;
    for (local, row) in rows.clone().enumerate() {
        let (columns, _) = x.row(row);
        let to = &mut out.row_mut(local)[start..start + count];
        to.fill(0.0);
        for (&c, &v) in columns.iter().zip(&values[at..at + columns.len()]) {
            for (t, &w) in to.iter_mut().zip(&w.row(c as usize)[start..start + count]) {
                *t = madd::<FMA>(v, w, *t);
            }
        }
        at += columns.len();
    }
}

/// parts x [k, m] = u^T d over the grid, u the prologue of sparse rows, d [rows, m].
#[allow(clippy::too_many_arguments)]
pub fn weight_gradient(
    x: &SparseRows,
    rows: Range<usize>,
    before: &Prologue<'_>,
    d: View<'_>,
    grid: &Grid,
    parts: &mut [ViewMut<'_>],
    scratch: &mut Scratch,
) {
    let transpose = x.transpose(rows.clone(), grid);
    let mut memory = std::mem::take(&mut scratch.stored);
    let values = stored_values(x, &rows, before, &mut memory);
    let m = d.columns();
    for (part, out) in grid.parts().iter().zip(parts) {
        let mut start = 0;
        while start < m {
            let lanes = if m <= 8 { 8 } else { (m - start).next_multiple_of(16).min(32) };
            let fits = d.stride() >= start + lanes && out.stride() >= start + lanes;
            match (fits, lanes) {
                (true, 8) => sum_lanes::<8>(&transpose, values, d, start, part, out),
                (true, 16) => sum_lanes::<16>(&transpose, values, d, start, part, out),
                (true, 32) => sum_lanes::<32>(&transpose, values, d, start, part, out),
                _ => (start..(start + lanes).min(m)).for_each(|c| sum_lanes::<1>(&transpose, values, d, c, part, out)),
            }
            start += lanes;
        }
    }
    scratch.stored = memory;
}

dispatch! {
    fn sum_lanes[const L: usize](transpose: &Transpose, values: &[f32], d: View<'_>, start: usize, part: &Part, out: &mut ViewMut<'_>) = sum_body
}

#[inline(always)]
fn sum_body<const L: usize, const FMA: bool>(
    transpose: &Transpose,
    values: &[f32],
    d: View<'_>,
    start: usize,
    part: &Part,
    out: &mut ViewMut<'_>,
) {
    let whole = part.rows().len() == d.rows();
    let (first, end) = (part.rows().start as u32, part.rows().end as u32);
    for column in 0..out.rows() {
        let mut span = transpose.offsets[column] as usize..transpose.offsets[column + 1] as usize;
        if !whole {
            let rows = &transpose.rows[span.clone()];
            let skip = rows.partition_point(|&r| r < first);
            let count = rows[skip..].partition_point(|&r| r < end);
            span = span.start + skip..span.start + skip + count;
        }
        let sum = match part.level {
            0 => sum_column::<L, 0, FMA>(transpose, values, d, start, span),
            1 => sum_column::<L, 1, FMA>(transpose, values, d, start, span),
            2 => sum_column::<L, 2, FMA>(transpose, values, d, start, span),
            _ => sum_column::<L, MAX_LEVEL, FMA>(transpose, values, d, start, span),
        };
        let to = column * out.stride() + start;
        out.data_mut()[to..to + L].copy_from_slice(&sum);
    }
}

/// One column's sum up the tree, without branches: where a level closes, its sum moves up.
#[inline(always)]
fn sum_column<const L: usize, const LEVELS: usize, const FMA: bool>(
    transpose: &Transpose,
    values: &[f32],
    d: View<'_>,
    start: usize,
    span: Range<usize>,
) -> [f32; L] {
    let (rows, stride) = (d.data(), d.stride());
    let mut atom = [0.0f32; L];
    let mut above = [[0.0f32; L]; LEVELS];
    let entries = transpose.rows[span.clone()].iter().zip(&transpose.places[span.clone()]).zip(&transpose.closed[span]);
    for ((&row, &place), &closed) in entries {
        for level in 0..LEVELS {
            let mask = 0u32.wrapping_sub(u32::from(closed > level as u8));
            for l in 0..L {
                let below = if level == 0 { atom[l] } else { above[level - 1][l] };
                above[level][l] += f32::from_bits(below.to_bits() & mask);
                let kept = f32::from_bits(below.to_bits() & !mask);
                if level == 0 {
                    atom[l] = kept;
                } else {
                    above[level - 1][l] = kept;
                }
            }
        }
        let v = values[place as usize];
        let from = row as usize * stride + start;
        let g: &[f32; L] = as_lanes(&rows[from..from + L]);
        for l in 0..L {
            atom[l] = madd::<FMA>(v, g[l], atom[l]);
        }
    }
    let mut sum = atom;
    for level in above {
        for l in 0..L {
            sum[l] += level[l];
        }
    }
    sum
}
