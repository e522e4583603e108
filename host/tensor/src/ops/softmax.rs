//! Softmax of rows, and the cross-entropy loss of selected rows.

#![allow(unsafe_code)]

use super::activation::exp;
use super::masked::LANES;
use crate::error::{Error, Result};
use crate::simd::dispatch;
use crate::view::{View, ViewMut};

dispatch! {
    /// Writes softmax(row) to `out`, and returns the logarithm of the sum of exp(row).
    fn softmax_row(row: &[f32], out: &mut [f32]) -> f32 = softmax_row_body
}

#[inline(always)]
fn softmax_row_body<const _FMA: bool>(row: &[f32], out: &mut [f32]) -> f32 {
    let (chunks, rest) = row.as_chunks::<LANES>();
    let mut largest = [f32::NEG_INFINITY; LANES];
    for values in chunks {
        for l in 0..LANES {
            largest[l] = if values[l] > largest[l] { values[l] } else { largest[l] };
        }
    }
    let largest = largest.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, f32::max);
    out.iter_mut().zip(row).for_each(|(o, &v)| *o = exp(v - largest));
    // The values are added in order.
    let sum = out.iter().fold(0.0, |sum, o| sum + o);
    out.iter_mut().for_each(|o| *o /= sum);
    largest + sum.ln()
}

/// Computes out = softmax(x), row by row.
pub fn softmax(x: View<'_>, out: &mut ViewMut<'_>) {
    for i in 0..x.rows() {
        softmax_row(x.row(i), out.row_mut(i));
    }
}

/// Computes the loss -weight log softmax(x[i])[labels[i]] and its gradient for each row i in
/// `rows`. The losses and gradients of all other rows are zero.
pub fn cross_entropy(
    x: View<'_>,
    labels: &[u32],
    rows: &[u32],
    weight: f32,
    losses: &mut ViewMut<'_>,
    grad: &mut ViewMut<'_>,
) -> Result<()> {
    let operation = "softmax-cross-entropy";
    for i in 0..x.rows() {
        losses.row_mut(i).fill(0.0);
        grad.row_mut(i).fill(0.0);
    }
    for &i in rows {
        let label = labels.get(i as usize).filter(|_| (i as usize) < x.rows());
        let Some(label) = label.map(|&l| l as usize).filter(|&l| l < x.columns()) else {
            return Err(Error::Argument {
                operation,
                reason: format!(
                    "row {i} has label {label:?}; there are {} rows and {} classes",
                    x.rows(),
                    x.columns()
                ),
            });
        };
        let i = i as usize;
        let to = grad.row_mut(i);
        let log_sum = softmax_row(x.row(i), to);
        to[label] -= 1.0;
        to.iter_mut().for_each(|g| *g *= weight);
        losses.row_mut(i)[0] = weight * (log_sum - x.row(i)[label]);
    }
    Ok(())
}
