//! Scaled and optionally causal softmax over runs of a row, as in attention.
//!
//! A row holds one or more matrices of p rows and q columns, such as the attention scores of each
//! head. A run is one row of such a matrix. Sums are accumulated in 16 lanes, and the lanes are
//! then added in halves. So the bits do not depend on the register width.
#![allow(unsafe_code)]

use super::activation::exp;
use crate::simd::dispatch;
use crate::view::{View, ViewMut};

/// Number of values that are processed together.
pub(super) const LANES: usize = 16;

/// Division of a row into runs over which softmax is computed. A run is one row of a p x q matrix,
/// such as the attention scores of one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// Number of runs in one matrix, p.
    pub rows: usize,
    /// Number of values per run, q.
    pub columns: usize,
    /// True if run i of a matrix may only use its first i + 1 values.
    pub causal: bool,
}

impl Runs {
    /// Returns the number of values that the run at index `at` of a row may use.
    #[inline(always)]
    fn seen(self, at: usize) -> usize {
        if self.causal { (at % self.rows.max(1) + 1).min(self.columns) } else { self.columns }
    }
}

#[inline(always)]
pub(super) fn halved(mut lanes: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] = f(lanes[l], lanes[l + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Returns a chunk of a slice, starting at index `start`. Positions beyond the end of the slice
/// have the value `filler`.
#[inline(always)]
pub(super) fn chunk(from: &[f32], start: usize, filler: f32) -> [f32; LANES] {
    match from[start..].first_chunk::<LANES>() {
        Some(whole) => *whole,
        None => {
            let mut part = [filler; LANES];
            part[..from.len() - start].copy_from_slice(&from[start..]);
            part
        }
    }
}

/// Masks of a chunk, which begin at index [`LANES`] - n for its first n values.
const MASKS: [u32; 2 * LANES] = {
    let mut masks = [0; 2 * LANES];
    let mut l = 0;
    while l < LANES {
        masks[l] = u32::MAX;
        l += 1;
    }
    masks
};

/// Returns `values`, with `filler` from position `count` on. A comparison of positions would be
/// compiled to branches.
#[inline(always)]
fn first(count: usize, values: [f32; LANES], filler: f32) -> [f32; LANES] {
    let mask = MASKS[LANES - count.min(LANES)..].first_chunk::<LANES>().copied().unwrap_or_default();
    let mut all = values;
    for l in 0..LANES {
        all[l] = f32::from_bits(values[l].to_bits() & mask[l] | filler.to_bits() & !mask[l]);
    }
    all
}

/// Values of a run in whole chunks.
type Chunks = [[f32; LANES]];

/// Computes to = softmax(scale from) for the first `length` values, and zeros for the rest of their last
/// chunk. If a value is NaN, all results are NaN.
#[inline(always)]
fn softmax_run(from: &Chunks, length: usize, scale: f32, to: &mut Chunks) {
    let lengths = || (0..length).step_by(LANES).map(|start| length - start);
    let mut largest = [f32::NEG_INFINITY; LANES];
    for (left, from) in lengths().zip(from) {
        let mut values = *from;
        for value in &mut values {
            *value *= scale;
        }
        let values = first(left, values, f32::NEG_INFINITY);
        for l in 0..LANES {
            // A NaN need not be found here, because its power is NaN.
            largest[l] = if largest[l] > values[l] { largest[l] } else { values[l] };
        }
    }
    let largest = halved(largest, |a, b| if a > b { a } else { b });
    let mut sums = [0.0; LANES];
    for ((left, from), to) in lengths().zip(from).zip(&mut *to) {
        let mut powers = *from;
        for power in &mut powers {
            *power = exp(scale * *power - largest);
        }
        *to = first(left, powers, 0.0);
        for l in 0..LANES {
            sums[l] += to[l];
        }
    }
    let inverse = 1.0 / halved(sums, |a, b| a + b);
    for (left, to) in lengths().zip(to) {
        let mut shares = *to;
        for share in &mut shares {
            *share *= inverse;
        }
        *to = first(left, shares, 0.0);
    }
}

/// Computes to = scale y (grad - sum of y grad) for the first `length` values, and zeros for the rest of
/// their last chunk.
#[inline(always)]
fn backward_run(y: &Chunks, grad: &Chunks, length: usize, scale: f32, to: &mut Chunks) {
    let lengths = || (0..length).step_by(LANES).map(|start| length - start);
    let mut sums = [0.0; LANES];
    for ((left, y), grad) in lengths().zip(y).zip(grad) {
        let mut products = *grad;
        for l in 0..LANES {
            products[l] *= y[l];
        }
        let products = first(left, products, 0.0);
        for l in 0..LANES {
            sums[l] += products[l];
        }
    }
    let sum = halved(sums, |a, b| a + b);
    for (((left, y), grad), to) in lengths().zip(y).zip(grad).zip(to) {
        let mut slopes = *grad;
        for l in 0..LANES {
            slopes[l] = scale * (y[l] * (slopes[l] - sum));
        }
        *to = first(left, slopes, 0.0);
    }
}

/// Copies values to whole chunks, of which the last is filled with zeros.
#[inline(always)]
fn fill(chunks: &mut Chunks, values: &[f32]) {
    for (start, to) in (0..values.len()).step_by(LANES).zip(chunks) {
        *to = chunk(values, start, 0.0);
    }
}

dispatch! {
    /// Computes out = softmax(scale x) for each run of each row. Values that a run may not use
    /// become zero.
    pub fn softmax(x: View<'_>, runs: Runs, scale: f32, out: &mut ViewMut<'_>) = softmax_body
}

#[inline(always)]
fn softmax_body<const _FMA: bool>(x: View<'_>, runs: Runs, scale: f32, out: &mut ViewMut<'_>) {
    if runs.columns == 0 {
        return;
    }
    let mut values = vec![[0.0; LANES]; runs.columns.div_ceil(LANES)];
    let mut shares = values.clone();
    for i in 0..x.rows() {
        let from = x.row(i).chunks_exact(runs.columns);
        for (at, (from, to)) in from.zip(out.row_mut(i).chunks_exact_mut(runs.columns)).enumerate() {
            let seen = runs.seen(at);
            fill(&mut values, &from[..seen]);
            softmax_run(&values, seen, scale, &mut shares);
            to[..seen].copy_from_slice(&shares.as_flattened()[..seen]);
            to[seen..].fill(0.0);
        }
    }
}

dispatch! {
    /// Computes out = the gradient of x, where y = softmax(scale x) and `columns` is the length of
    /// a run. For each run, out = scale y (grad - sum of y grad over the run).
    pub fn softmax_backward(y: View<'_>, grad: View<'_>, columns: usize, scale: f32, out: &mut ViewMut<'_>) = backward_body
}

#[inline(always)]
fn backward_body<const _FMA: bool>(
    y: View<'_>,
    grad: View<'_>,
    columns: usize,
    scale: f32,
    out: &mut ViewMut<'_>,
) {
    if columns == 0 {
        return;
    }
    let mut of_y = vec![[0.0; LANES]; columns.div_ceil(LANES)];
    let (mut of_grad, mut slopes) = (of_y.clone(), of_y.clone());
    for i in 0..y.rows() {
        let runs = y.row(i).chunks_exact(columns).zip(grad.row(i).chunks_exact(columns));
        for ((y, grad), to) in runs.zip(out.row_mut(i).chunks_exact_mut(columns)) {
            fill(&mut of_y, y);
            fill(&mut of_grad, grad);
            backward_run(&of_y, &of_grad, columns, scale, &mut slopes);
            to.copy_from_slice(&slopes.as_flattened()[..columns]);
        }
    }
}

/// Consecutive runs of values, each of which is as long as the one before, or one value longer. They start
/// `stride` values apart, which is a multiple of [`LANES`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Growing {
    pub stride: usize,
    pub count: usize,
    /// Length of the first run.
    pub first: usize,
    /// True if each further run is one value longer.
    pub grows: bool,
}

impl Growing {
    /// Returns the start of run `at`, its length, and the length with a whole last chunk.
    #[inline(always)]
    fn run(self, at: usize) -> (usize, usize, usize) {
        let length = self.first + if self.grows { at } else { 0 };
        (at * self.stride, length, length.next_multiple_of(LANES))
    }
}

dispatch! {
    /// Computes to = softmax(scale from) for each run, and zeros up to a whole chunk. The bits are those of
    /// [`softmax`]. All chunks are whole, so that no values are copied one by one.
    pub(super) fn softmax_runs(from: &[f32], runs: Growing, scale: f32, to: &mut [f32]) = softmax_runs_body
}

#[inline(always)]
fn softmax_runs_body<const _FMA: bool>(from: &[f32], runs: Growing, scale: f32, to: &mut [f32]) {
    for at in 0..runs.count {
        let (start, length, whole) = runs.run(at);
        let (from, to) = (&from[start..start + whole], &mut to[start..start + whole]);
        softmax_run(from.as_chunks().0, length, scale, to.as_chunks_mut().0);
    }
}

dispatch! {
    /// Computes to = the gradient of the values of each run, like [`softmax_backward`], and zeros up to a
    /// whole chunk.
    pub(super) fn softmax_runs_backward(y: &[f32], grad: &[f32], runs: Growing, scale: f32, to: &mut [f32]) = runs_backward_body
}

#[inline(always)]
fn runs_backward_body<const _FMA: bool>(y: &[f32], grad: &[f32], runs: Growing, scale: f32, to: &mut [f32]) {
    for at in 0..runs.count {
        let (start, length, whole) = runs.run(at);
        let [y, grad] = [y, grad].map(|of| of[start..start + whole].as_chunks().0);
        backward_run(y, grad, length, scale, to[start..start + whole].as_chunks_mut().0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix64;

    fn values(seed: u64, count: usize) -> Vec<f32> {
        (0..count as u64).map(|i| (mix64(seed << 32 | i) >> 40) as f32 / (1 << 21) as f32 - 4.0).collect()
    }

    #[test]
    fn runs_are_softmaxes_of_what_they_see() {
        for (rows, columns, causal) in
            [(1, 1, true), (3, 5, false), (5, 5, true), (16, 16, true), (33, 33, true), (2, 64, false)]
        {
            let (width, scale) = (2 * rows * columns, 0.37);
            let (x, g) = (values(1, 3 * width), values(2, 3 * width));
            let runs = Runs { rows, columns, causal };
            let (mut y, mut dx) = (vec![9.0; 3 * width], vec![9.0; 3 * width]);
            softmax(View::new(&x, 3, width), runs, scale, &mut ViewMut::new(&mut y, 3, width));
            let (from, grad) = (View::new(&y, 3, width), View::new(&g, 3, width));
            softmax_backward(from, grad, columns, scale, &mut ViewMut::new(&mut dx, 3, width));
            for run in 0..6 * rows {
                let span = run * columns..(run + 1) * columns;
                let seen = if causal { run % rows + 1 } else { columns };
                let e = |at: usize| (f64::from(scale) * f64::from(x[span.start + at])).exp();
                let sum: f64 = (0..seen).map(e).sum();
                let wanted: Vec<f64> =
                    (0..columns).map(|at| if at < seen { e(at) / sum } else { 0.0 }).collect();
                let along: f64 = wanted.iter().zip(&g[span.clone()]).map(|(y, &g)| y * f64::from(g)).sum();
                for at in 0..columns {
                    let found = f64::from(y[span.start + at]);
                    assert!((found - wanted[at]).abs() < 1e-6, "{rows} {columns} {causal}: {run} {at}");
                    assert!(at < seen || found == 0.0);
                    let slope = f64::from(scale) * wanted[at] * (f64::from(g[span.start + at]) - along);
                    assert!((f64::from(dx[span.start + at]) - slope).abs() < 1e-5, "{run} {at}");
                }
            }
        }
        let mut y = [0.0; 3];
        let runs = Runs { rows: 1, columns: 3, causal: false };
        softmax(View::new(&[1.0, f32::NAN, 2.0], 1, 3), runs, 1.0, &mut ViewMut::new(&mut y, 1, 3));
        assert!(y.iter().all(|y| y.is_nan()), "{y:?}");
    }
}
