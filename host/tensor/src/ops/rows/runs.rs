//! Operations on the runs of a row. A row consists of p runs of q values each, for instance one run
//! per attention head.
//!
//! These operations process every edge of a graph. Common widths are compiled separately, so that a
//! run stays in registers. A result depends only on its own row.
#![allow(unsafe_code)]

use crate::simd::{dispatch, madd};
use crate::view::{View, ViewMut};

dispatch! {
    /// Computes the inner product of each run of x with the same run of y. x has n rows of p =
    /// `runs` runs, and out has the shape `[n, p]`. If y has a single row, it is used for all rows.
    pub fn inner(x: View<'_>, y: View<'_>, runs: usize, out: &mut ViewMut<'_>) = inner_body
}

#[inline(always)]
fn inner_body<const FMA: bool>(x: View<'_>, y: View<'_>, runs: usize, out: &mut ViewMut<'_>) {
    match x.columns() / runs.max(1) {
        8 if runs.is_multiple_of(8) => inner_eights::<FMA>(x, y, out),
        8 => inner_runs::<8, FMA>(x, y, runs, out),
        16 => inner_runs::<16, FMA>(x, y, runs, out),
        32 => inner_runs::<32, FMA>(x, y, runs, out),
        64 => inner_runs::<64, FMA>(x, y, runs, out),
        q => {
            for i in 0..x.rows() {
                for (h, o) in out.row_mut(i).iter_mut().enumerate() {
                    let (x, y) = (&x.row(i)[h * q..][..q], &one_or(y, i)[h * q..][..q]);
                    *o = halved(&pairs::<8, 4>(&eight_sums::<FMA>(x, y)));
                }
            }
        }
    }
}

/// Returns row `i` of x, or the only row if x has just one.
#[inline(always)]
fn one_or<'a>(x: View<'a>, i: usize) -> &'a [f32] {
    x.row(if x.rows() == 1 { 0 } else { i })
}

/// Computes [`inner`] for rows whose number of runs is a multiple of 8. Each run has 8 values.
#[inline(always)]
fn inner_eights<const FMA: bool>(x: View<'_>, y: View<'_>, out: &mut ViewMut<'_>) {
    for i in 0..x.rows() {
        let (x, y) = (x.row(i).as_chunks::<64>().0, one_or(y, i).as_chunks::<64>().0);
        for ((o, x), y) in out.row_mut(i).as_chunks_mut::<8>().0.iter_mut().zip(x).zip(y) {
            *o = eight_totals(&std::array::from_fn(|at| x[at] * y[at]));
        }
    }
}

/// Computes [`inner`] for runs of Q values, a multiple of 8. Eight runs are processed at once, from
/// one or more rows.
#[inline(always)]
fn inner_runs<const Q: usize, const FMA: bool>(x: View<'_>, y: View<'_>, runs: usize, out: &mut ViewMut<'_>) {
    let (total, mut done) = (x.rows() * runs, 0);
    let (mut row, mut run) = (0, 0);
    let (mut to_row, mut to_run) = (0, 0);
    while done < total {
        let count = (total - done).min(8);
        let mut sums = [0.0; 64];
        for sums in &mut sums.as_chunks_mut::<8>().0[..count] {
            let (x, y) = (x.row(row).as_chunks::<Q>().0, one_or(y, row).as_chunks::<Q>().0);
            *sums = eight_sums::<FMA>(&x[run], &y[run]);
            run += 1;
            if run == runs {
                (row, run) = (row + 1, 0);
            }
        }
        for &total in &eight_totals(&sums)[..count] {
            out.row_mut(to_row)[to_run] = total;
            to_run += 1;
            if to_run == runs {
                (to_row, to_run) = (to_row + 1, 0);
            }
        }
        done += count;
    }
}

/// Returns eight partial sums of the products of x and y. Partial sum i adds every eighth product,
/// starting with product i.
#[inline(always)]
fn eight_sums<const FMA: bool>(x: &[f32], y: &[f32]) -> [f32; 8] {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<8>(), y.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (x, y) in x.iter().zip(y) {
        sums = std::array::from_fn(|at| madd::<FMA>(x[at], y[at], sums[at]));
    }
    for ((sum, &x), &y) in sums.iter_mut().zip(x_rest).zip(y_rest) {
        *sum = madd::<FMA>(x, y, *sum);
    }
    sums
}

/// Returns the total of each of eight groups of eight partial sums.
#[inline(always)]
fn eight_totals(sums: &[f32; 64]) -> [f32; 8] {
    pairs(&pairs::<32, 16>(&pairs::<64, 32>(sums)))
}

/// Returns the total of four partial sums.
#[inline(always)]
fn halved(sums: &[f32; 4]) -> f32 {
    let [a, b] = pairs(sums);
    a + b
}

/// Returns the sums of adjacent pairs of values. M is half of N.
#[inline(always)]
fn pairs<const N: usize, const M: usize>(of: &[f32; N]) -> [f32; M] {
    std::array::from_fn(|at| of[2 * at] + of[2 * at + 1])
}

dispatch! {
    /// Computes out = x with each run multiplied by one value of `by`, which has the shape `[n,
    /// p]`. If x has a single row, it is used for all n rows of out.
    pub fn scale(x: View<'_>, by: View<'_>, out: &mut ViewMut<'_>) = scale_body
}

#[inline(always)]
fn scale_body<const _FMA: bool>(x: View<'_>, by: View<'_>, out: &mut ViewMut<'_>) {
    let runs = by.columns();
    for i in 0..by.rows() {
        let (x, by, out) = (one_or(x, i), by.row(i), out.row_mut(i));
        match x.len() / runs.max(1) {
            0 => {}
            8 => multiples::<8>(x, by, out),
            16 => multiples::<16>(x, by, out),
            32 => multiples::<32>(x, by, out),
            64 => multiples::<64>(x, by, out),
            q => {
                for ((o, x), &by) in out.chunks_exact_mut(q).zip(x.chunks_exact(q)).zip(by) {
                    o.iter_mut().zip(x).for_each(|(o, &x)| *o = x * by);
                }
            }
        }
    }
}

/// Multiplies each run of Q values of x by one value of `by`. Sixteen values at a time are loaded
/// into a register, because the compiler cannot know that `out` and x do not overlap.
#[inline(always)]
fn multiples<const Q: usize>(x: &[f32], by: &[f32], out: &mut [f32]) {
    for ((o, x), &by) in out.as_chunks_mut::<Q>().0.iter_mut().zip(x.as_chunks::<Q>().0).zip(by) {
        let (o, o_rest) = o.as_chunks_mut::<16>();
        let (x, x_rest) = x.as_chunks::<16>();
        o.iter_mut().zip(x).for_each(|(o, x)| *o = x.map(|x| x * by));
        let (o, x) = (o_rest.as_chunks_mut::<8>().0, x_rest.as_chunks::<8>().0);
        o.iter_mut().zip(x).for_each(|(o, x)| *o = x.map(|x| x * by));
    }
}
