//! Products with narrow weights, in register tiles. The compiler generates them for any register
//! width, but does not hold their sums in registers of 256 bits, for which there is a separate
//! routine.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;

use super::lanes;
use crate::simd::{dispatch, madd};
use crate::view::{View, ViewMut};

/// Computes out = x w. If `accumulate` is true, the product is added to out. `packed` has the rows
/// of w, padded to whole lanes.
pub(super) fn multiply(x: View<'_>, packed: &[f32], accumulate: bool, out: &mut ViewMut<'_>) {
    #[cfg(target_arch = "x86_64")]
    if avx2::available() {
        return avx2::multiply(x, (packed, lanes(out.columns())), accumulate, out);
    }
    match lanes(out.columns()) {
        8 => narrow_lanes::<8>(x, packed, accumulate, out),
        16 => narrow_lanes::<16>(x, packed, accumulate, out),
        _ => narrow_lanes::<32>(x, packed, accumulate, out),
    }
}

dispatch! {
    fn narrow_lanes[const L: usize](x: View<'_>, packed: &[f32], accumulate: bool, out: &mut ViewMut<'_>) = narrow_body
}

#[inline(always)]
fn narrow_body<const L: usize, const FMA: bool>(
    x: View<'_>,
    packed: &[f32],
    accumulate: bool,
    out: &mut ViewMut<'_>,
) {
    let mut i = 0;
    while i + 4 <= x.rows() {
        narrow_rows::<L, 4, FMA>(x, packed, accumulate, out, i);
        i += 4;
    }
    while i < x.rows() {
        narrow_rows::<L, 1, FMA>(x, packed, accumulate, out, i);
        i += 1;
    }
}

#[inline(always)]
fn narrow_rows<const L: usize, const R: usize, const FMA: bool>(
    x: View<'_>,
    packed: &[f32],
    accumulate: bool,
    out: &mut ViewMut<'_>,
    first: usize,
) {
    let k = x.columns();
    let from: [&[f32]; R] = std::array::from_fn(|r| &x.row(first + r)[..k]);
    let mut sums = [[0.0f32; L]; R];
    for (j, w) in packed.as_chunks::<L>().0.iter().take(k).enumerate() {
        for r in 0..R {
            let v = from[r][j];
            for l in 0..L {
                sums[r][l] = madd::<FMA>(v, w[l], sums[r][l]);
            }
        }
    }
    let padded = out.stride() == L;
    let n = if padded { L } else { out.columns() };
    let stride = out.stride();
    for (r, sum) in sums.iter().enumerate() {
        let start = (first + r) * stride;
        let to = &mut out.data_mut()[start..start + n];
        if accumulate {
            to.iter_mut().zip(sum).for_each(|(t, s)| *t += s);
        } else {
            to.copy_from_slice(&sum[..n]);
        }
    }
}

/// Adds u^T d to `sums`, which has k rows of `lanes(m)` values. u has the shape `[rows, k]`, and d
/// has the shape `[rows, m]`.
pub(super) fn transposed(u: View<'_>, d: View<'_>, sums: &mut [f32]) {
    match lanes(d.columns()) {
        8 => outer_lanes::<8>(u, d, sums),
        16 => outer_lanes::<16>(u, d, sums),
        _ => outer_lanes::<32>(u, d, sums),
    }
}

dispatch! {
    fn outer_lanes[const L: usize](u: View<'_>, d: View<'_>, sums: &mut [f32]) = outer_body
}

#[inline(always)]
fn outer_body<const L: usize, const FMA: bool>(u: View<'_>, d: View<'_>, sums: &mut [f32]) {
    let k = u.columns();
    let mut j = 0;
    while j + 4 <= k {
        outer_columns::<L, 4, FMA>(u, d, sums, j);
        j += 4;
    }
    while j < k {
        outer_columns::<L, 1, FMA>(u, d, sums, j);
        j += 1;
    }
}

#[inline(always)]
fn outer_columns<const L: usize, const C: usize, const FMA: bool>(
    u: View<'_>,
    d: View<'_>,
    sums: &mut [f32],
    j: usize,
) {
    let mut tile = [[0.0f32; L]; C];
    for (c, t) in tile.iter_mut().enumerate() {
        t.copy_from_slice(&sums[(j + c) * L..(j + c + 1) * L]);
    }
    // Rows of exactly L lanes are read completely. Values in the padding do not affect the result.
    let padded = d.stride() == L && d.data().len() >= d.rows() * L;
    for i in 0..u.rows() {
        let from = &u.row(i)[j..j + C];
        let mut row = [0.0f32; L];
        if padded {
            row.copy_from_slice(&d.data()[i * L..(i + 1) * L]);
        } else {
            row[..d.columns()].copy_from_slice(d.row(i));
        }
        for c in 0..C {
            for l in 0..L {
                tile[c][l] = madd::<FMA>(from[c], row[l], tile[c][l]);
            }
        }
    }
    for (c, t) in tile.iter().enumerate() {
        sums[(j + c) * L..(j + c + 1) * L].copy_from_slice(t);
    }
}
