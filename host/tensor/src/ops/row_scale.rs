//! Normalisation of each row by itself: layer norm, RMS norm, and division by the length.
//!
//! Sums are accumulated in 16 lanes, and the lanes are then added in halves. So the bits do not depend
//! on the register width.
#![allow(unsafe_code)]

use super::masked::{LANES, chunk, halved};
use crate::simd::dispatch;
use crate::view::{View, ViewMut};

/// Normalisation of a row u of k values to h.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowScale {
    /// h = (u - m) / sqrt(mean((u - m)^2) + e), where m = mean(u), and e is this value (Ba, Kiros and
    /// Hinton 2016).
    Layer(f32),
    /// h = u / sqrt(mean(u^2) + e), where e is this value (Zhang and Sennrich 2019).
    Rms(f32),
    /// h = u / max(|u|, e), where |u| is the Euclidean norm, and e is this value.
    Length(f32),
    /// h = u.
    None,
}

/// Factor and shift of each column. `None` stands for ones, or for zeros.
#[derive(Debug, Clone, Copy, Default)]
pub struct Affine<'a> {
    /// Factor of each column.
    pub scale: Option<&'a [f32]>,
    /// Value that is added to each column.
    pub shift: Option<&'a [f32]>,
}

/// Mean that is subtracted from a row, and the number by which it is multiplied.
struct Measured {
    mean: f32,
    inverse: f32,
    /// True if the number by which the row is multiplied depends on the row.
    is_measured: bool,
}

/// Returns the sum of `f(u, v)` over the values u of `row` and v of `other`, which are equally long.
/// `f(0, 0)` must be 0.
#[inline(always)]
fn sum(row: &[f32], other: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    for start in (0..row.len()).step_by(LANES) {
        let (u, v) = (chunk(row, start, 0.0), chunk(other, start, 0.0));
        for l in 0..LANES {
            lanes[l] += f(u[l], v[l]);
        }
    }
    halved(lanes, |a, b| a + b)
}

/// Returns the sum of squares of the differences between the values of a row and `mean`.
#[inline(always)]
fn squares(row: &[f32], mean: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    for start in (0..row.len()).step_by(LANES) {
        // A value that is equal to the mean adds nothing.
        let u = chunk(row, start, mean);
        for l in 0..LANES {
            lanes[l] += (u[l] - mean) * (u[l] - mean);
        }
    }
    halved(lanes, |a, b| a + b)
}

#[inline(always)]
fn measured(row: &[f32], by: RowScale) -> Measured {
    let count = row.len() as f32;
    let (mean, divisor, is_measured) = match by {
        RowScale::Layer(epsilon) => {
            let mean = sum(row, row, |u, _| u) / count;
            (mean, (squares(row, mean) / count + epsilon).sqrt(), true)
        }
        RowScale::Rms(epsilon) => (0.0, (squares(row, 0.0) / count + epsilon).sqrt(), true),
        RowScale::Length(least) => {
            let length = squares(row, 0.0).sqrt();
            // A NaN stays a NaN.
            let is_short = length <= least;
            (0.0, if is_short { least } else { length }, !is_short)
        }
        RowScale::None => (0.0, 1.0, false),
    };
    Measured { mean, inverse: 1.0 / divisor, is_measured }
}

dispatch! {
    /// Computes out = scale h + shift, where h is each row of x, normalised by `by`.
    pub fn forward(x: View<'_>, by: RowScale, affine: Affine<'_>, out: &mut ViewMut<'_>) = forward_body
}

#[inline(always)]
fn forward_body<const _FMA: bool>(x: View<'_>, by: RowScale, affine: Affine<'_>, out: &mut ViewMut<'_>) {
    for i in 0..x.rows() {
        let (row, to) = (x.row(i), out.row_mut(i));
        let Measured { mean, inverse, .. } = measured(row, by);
        let h = |u: f32| (u - mean) * inverse;
        match (affine.scale, affine.shift) {
            (Some(scale), Some(shift)) => {
                for (((to, &u), &scale), &shift) in to.iter_mut().zip(row).zip(scale).zip(shift) {
                    *to = h(u) * scale + shift;
                }
            }
            (Some(scale), None) => {
                for ((to, &u), &scale) in to.iter_mut().zip(row).zip(scale) {
                    *to = h(u) * scale;
                }
            }
            (None, Some(shift)) => {
                for ((to, &u), &shift) in to.iter_mut().zip(row).zip(shift) {
                    *to = h(u) + shift;
                }
            }
            (None, None) => to.iter_mut().zip(row).for_each(|(to, &u)| *to = h(u)),
        }
    }
}

dispatch! {
    /// Computes out = the gradient of x, given the gradient `grad` of the result of [`forward`] with the
    /// factors `scale`. With d = grad scale and the divisor s of the row, it is
    /// (d - mean(d) - h mean(d h)) / s for layer norm, the same without mean(d) for RMS norm,
    /// (d - h sum(d h)) / s for the length, and d otherwise.
    pub fn backward(x: View<'_>, by: RowScale, scale: Option<&[f32]>, grad: View<'_>, out: &mut ViewMut<'_>) = backward_body
}

#[inline(always)]
fn backward_body<const _FMA: bool>(
    x: View<'_>,
    by: RowScale,
    scale: Option<&[f32]>,
    grad: View<'_>,
    out: &mut ViewMut<'_>,
) {
    for i in 0..x.rows() {
        let (row, to) = (x.row(i), out.row_mut(i));
        match scale {
            Some(scale) => {
                for ((to, &grad), &scale) in to.iter_mut().zip(grad.row(i)).zip(scale) {
                    *to = grad * scale;
                }
            }
            None => to.copy_from_slice(grad.row(i)),
        }
        let Measured { mean, inverse, is_measured } = measured(row, by);
        let count = match by {
            RowScale::Layer(_) | RowScale::Rms(_) => row.len() as f32,
            RowScale::Length(_) | RowScale::None => 1.0,
        };
        let along = if is_measured { sum(row, to, |u, d| (u - mean) * inverse * d) / count } else { 0.0 };
        let middle = if let RowScale::Layer(_) = by { sum(to, to, |d, _| d) / count } else { 0.0 };
        for (to, &u) in to.iter_mut().zip(row) {
            *to = (*to - middle - (u - mean) * inverse * along) * inverse;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix64;

    fn values(seed: u64, count: usize) -> Vec<f32> {
        (0..count as u64).map(|i| (mix64(seed << 32 | i) >> 40) as f32 / (1 << 22) as f32 - 2.0).collect()
    }

    /// Returns h and the divisor of a row.
    fn exact(row: &[f32], by: RowScale) -> (Vec<f64>, f64, bool) {
        let (u, count): (Vec<f64>, _) = (row.iter().map(|&u| f64::from(u)).collect(), row.len() as f64);
        let mean = if let RowScale::Layer(_) = by { u.iter().sum::<f64>() / count } else { 0.0 };
        let squares: f64 = u.iter().map(|u| (u - mean) * (u - mean)).sum();
        let (divisor, varies) = match by {
            RowScale::Layer(e) | RowScale::Rms(e) => ((squares / count + f64::from(e)).sqrt(), true),
            RowScale::Length(e) => (squares.sqrt().max(f64::from(e)), squares.sqrt() > f64::from(e)),
            RowScale::None => (1.0, false),
        };
        (u.iter().map(|u| (u - mean) / divisor).collect(), divisor, varies)
    }

    #[test]
    fn rows_and_gradients_are_near_the_exact_ones() {
        let all =
            [RowScale::Layer(1e-5), RowScale::Rms(1e-5), RowScale::Length(1e-12), RowScale::Length(9.0)];
        for (width, by) in [1, 5, 16, 17, 128, 130]
            .into_iter()
            .flat_map(|width| all.iter().chain([&RowScale::None]).map(move |&by| (width, by)))
        {
            let (x, grad) = (values(1, 3 * width), values(2, 3 * width));
            let (scale, shift) = (values(3, width), values(4, width));
            let (mut y, mut dx) = (vec![9.0; 3 * width], vec![9.0; 3 * width]);
            let (view, of) = (View::new(&x, 3, width), View::new(&grad, 3, width));
            let affine = Affine { scale: Some(&scale), shift: Some(&shift) };
            forward(view, by, affine, &mut ViewMut::new(&mut y, 3, width));
            backward(view, by, Some(&scale), of, &mut ViewMut::new(&mut dx, 3, width));
            for i in 0..3 {
                let (h, divisor, varies) = exact(view.row(i), by);
                let d: Vec<f64> =
                    of.row(i).iter().zip(&scale).map(|(&g, &s)| f64::from(g) * f64::from(s)).collect();
                let count = if let RowScale::Length(_) = by { 1.0 } else { width as f64 };
                let along = h.iter().zip(&d).map(|(h, d)| h * d).sum::<f64>() / count;
                let along = if varies { along } else { 0.0 };
                let middle = if let RowScale::Layer(_) = by { d.iter().sum::<f64>() / count } else { 0.0 };
                for at in 0..width {
                    let wanted = h[at] * f64::from(scale[at]) + f64::from(shift[at]);
                    let found = f64::from(y[i * width + at]);
                    assert!((found - wanted).abs() < 1e-5, "{by:?} {width}: {found}, not {wanted}");
                    let wanted = (d[at] - middle - h[at] * along) / divisor;
                    let found = f64::from(dx[i * width + at]);
                    // A single value has no variance, so that its divisor is small.
                    let near = 2e-5 * (1.0 + 1.0 / divisor);
                    assert!((found - wanted).abs() < near, "{by:?} {width}: {found}, not {wanted}");
                }
            }
        }
    }
}
