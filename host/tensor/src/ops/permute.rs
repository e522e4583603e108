//! Permutation of the dimensions of rows. Permutations that move the last dimension transpose
//! blocks of 8 x 8 values in registers. Others copy runs of values.
#![allow(unsafe_code)]

use crate::simd::dispatch;
use crate::view::{View, ViewMut};

/// Side length of a square block that is transposed in registers.
const SIDE: usize = 8;

/// Transposes a block of 8 x 8 values. `from` and `to` are its first value, followed by the distance
/// between rows. The compiler cannot find these shuffles: it copies value by value.
///
/// # Safety
/// Both places must have 8 rows of 8 values.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn block((from, stride): (*const f32, usize), (to, to_stride): (*mut f32, usize)) {
    use std::arch::x86_64::{
        _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_storeu_ps,
        _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };
    let mut rows = [_mm256_setzero_ps(); SIDE];
    for (r, row) in rows.iter_mut().enumerate() {
        // SAFETY: guaranteed by the caller.
        *row = unsafe { _mm256_loadu_ps(from.add(r * stride)) };
    }
    let [a, b, c, d, e, f, g, h] = rows;
    // Pairs of rows, then columns of four rows.
    let four = |a, b, c, d| {
        let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let (low_2, high_2) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        [
            _mm256_shuffle_ps::<0x44>(low, low_2),
            _mm256_shuffle_ps::<0xee>(low, low_2),
            _mm256_shuffle_ps::<0x44>(high, high_2),
            _mm256_shuffle_ps::<0xee>(high, high_2),
        ]
    };
    let (upper, lower) = (four(a, b, c, d), four(e, f, g, h));
    for (column, (upper, lower)) in upper.into_iter().zip(lower).enumerate() {
        let (left, right) =
            (_mm256_permute2f128_ps::<0x20>(upper, lower), _mm256_permute2f128_ps::<0x31>(upper, lower));
        // SAFETY: guaranteed by the caller.
        unsafe {
            _mm256_storeu_ps(to.add(column * to_stride), left);
            _mm256_storeu_ps(to.add((column + 4) * to_stride), right);
        }
    }
}

/// Position of a matrix in a slice, given by the index of its first value and the distance between
/// its rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lies {
    pub first: usize,
    pub stride: usize,
}

/// Computes to[c][r] = from[r][c] for a matrix of `rows` rows and `columns` columns.
#[inline(always)]
fn transpose_body<const FMA: bool>(
    (from, at): (&[f32], Lies),
    (rows, columns): (usize, usize),
    (to, into): (&mut [f32], Lies),
) {
    for r in (0..rows).step_by(SIDE) {
        let count = SIDE.min(rows - r);
        for c in (0..columns).step_by(SIDE) {
            let width = SIDE.min(columns - c);
            let from = &from[at.first + r * at.stride + c..][..(count - 1) * at.stride + width];
            let to = &mut to[into.first + c * into.stride + r..][..(width - 1) * into.stride + count];
            #[cfg(target_arch = "x86_64")]
            if FMA && (count, width) == (SIDE, SIDE) {
                // SAFETY: both slices have 8 rows. On this architecture, levels with fused
                // multiply-add have AVX2.
                unsafe { block((from.as_ptr(), at.stride), (to.as_mut_ptr(), into.stride)) };
                continue;
            }
            for row in 0..count {
                for (column, &value) in from[row * at.stride..][..width].iter().enumerate() {
                    to[column * into.stride + row] = value;
                }
            }
        }
    }
}

dispatch! {
    /// Computes to[c][r] = from[r][c]. `extents` are the numbers of rows and columns of `from`.
    pub(crate) fn transpose(from: (&[f32], Lies), extents: (usize, usize), to: (&mut [f32], Lies)) = transpose_any
}

#[inline(always)]
fn transpose_any<const FMA: bool>(from: (&[f32], Lies), extents: (usize, usize), to: (&mut [f32], Lies)) {
    transpose_body::<FMA>(from, extents, to);
}

dispatch! {
    fn permute_rows(x: View<'_>, plan: Plan, out: &mut ViewMut<'_>) = permute_rows_body
}

/// Method by which the values of each row are permuted.
#[derive(Debug, Clone, Copy)]
enum Plan {
    Copy,
    /// Copies of runs of c values, where `[a, b, c]` becomes `[b, a, c]`.
    Runs([usize; 3]),
    /// Transposition of each of a blocks, where `[b, c]` becomes `[c, b]`.
    Last([usize; 3]),
    /// Reversal of the dimensions, where `[a, b, c]` becomes `[c, b, a]`.
    Reverse([usize; 3]),
}

/// Copies a few values. Runs of common lengths are copied in registers.
#[inline(always)]
fn copy_run(to: &mut [f32], from: &[f32]) {
    #[inline(always)]
    fn fixed<const W: usize>(to: &mut [f32], from: &[f32]) {
        if let (Some(to), Some(from)) = (to.first_chunk_mut::<W>(), from.first_chunk::<W>()) {
            *to = *from;
        }
    }
    match from.len() {
        8 => fixed::<8>(to, from),
        16 => fixed::<16>(to, from),
        32 => fixed::<32>(to, from),
        64 => fixed::<64>(to, from),
        _ => to.copy_from_slice(from),
    }
}

#[inline(always)]
fn permute_rows_body<const FMA: bool>(x: View<'_>, plan: Plan, out: &mut ViewMut<'_>) {
    for i in 0..x.rows() {
        let (from, to) = (x.row(i), out.row_mut(i));
        match plan {
            Plan::Copy => to.copy_from_slice(from),
            Plan::Runs([a, b, c]) => {
                for (at, to) in to.chunks_exact_mut(c).enumerate() {
                    let (second, first) = (at / a, at % a);
                    copy_run(to, &from[(first * b + second) * c..][..c]);
                }
            }
            Plan::Last([a, b, c]) => {
                for at in 0..a {
                    let first = at * b * c;
                    let (source, target) = (Lies { first, stride: c }, Lies { first, stride: b });
                    transpose_body::<FMA>((from, source), (b, c), (to, target));
                }
            }
            Plan::Reverse([a, b, c]) => {
                for middle in 0..b {
                    let source = Lies { first: middle * c, stride: b * c };
                    let target = Lies { first: middle * a, stride: b * a };
                    transpose_body::<FMA>((from, source), (a, c), (to, target));
                }
            }
        }
    }
}

/// Returns true if `order` contains each dimension below `dimensions` once, with dimension 0 first.
pub fn is_order(order: &[usize], dimensions: usize) -> bool {
    order.len() == dimensions && order.first() == Some(&0) && (0..dimensions).all(|d| order.contains(&d))
}

/// Permutes the dimensions of each row. Dimension i of `out` is dimension order[i] of x. `extents`
/// are the extents of a row of x, at most three. Dimension 0, the rows, keeps its position. `order`
/// must satisfy [`is_order`] for one more dimension than `extents` has.
pub fn permute(x: View<'_>, extents: &[usize], order: &[usize], out: &mut ViewMut<'_>) {
    if x.columns() == 0 {
        return;
    }
    let extent = |d: usize| extents.get(d).copied().unwrap_or(1);
    let (a, b, c) = (extent(0), extent(1), extent(2));
    let plan = match order.get(1..).unwrap_or_default() {
        [2, 1] => Plan::Last([1, a, b]),
        [2, 1, 3] => Plan::Runs([a, b, c]),
        [1, 3, 2] => Plan::Last([a, b, c]),
        [3, 1, 2] => Plan::Last([1, a * b, c]),
        [2, 3, 1] => Plan::Last([1, a, b * c]),
        [3, 2, 1] => Plan::Reverse([a, b, c]),
        _ => Plan::Copy,
    };
    permute_rows(x, plan, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks every order of three dimensions, with extents that are and are not multiples of the
    /// block side.
    #[test]
    fn every_order_of_every_extent() {
        let orders: [&[usize]; 6] =
            [&[0, 1, 2, 3], &[0, 1, 3, 2], &[0, 2, 1, 3], &[0, 2, 3, 1], &[0, 3, 1, 2], &[0, 3, 2, 1]];
        for extents in [[1, 1, 1], [2, 3, 4], [8, 8, 8], [9, 17, 5], [4, 16, 32], [3, 1, 24]] {
            let width: usize = extents.iter().product();
            let x: Vec<f32> = (0..2 * width).map(|v| v as f32).collect();
            for order in orders {
                assert!(is_order(order, 4));
                let mut y = vec![-1.0; 2 * width];
                permute(View::new(&x, 2, width), &extents, order, &mut ViewMut::new(&mut y, 2, width));
                let to: Vec<usize> = order[1..].iter().map(|&d| extents[d - 1]).collect();
                for (at, &found) in y.iter().enumerate() {
                    let (row, rest) = (at / width, at % width);
                    let places = [rest / (to[1] * to[2]), rest / to[2] % to[1], rest % to[2]];
                    let mut source = [0; 3];
                    order[1..].iter().zip(places).for_each(|(&d, place)| source[d - 1] = place);
                    let [i, j, k] = source;
                    let wanted = row * width + (i * extents[1] + j) * extents[2] + k;
                    assert_eq!(found, wanted as f32, "{extents:?}, {order:?}, value {at}");
                }
            }
        }
        let x: Vec<f32> = (0..6).map(|v| v as f32).collect();
        let mut y = vec![0.0; 6];
        permute(View::new(&x, 1, 6), &[2, 3], &[0, 2, 1], &mut ViewMut::new(&mut y, 1, 6));
        assert_eq!(y, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert!(!is_order(&[1, 0], 2) && !is_order(&[0, 1, 1], 3) && !is_order(&[0], 2) && !is_order(&[], 0));
    }
}
