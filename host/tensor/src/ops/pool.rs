//! Pooling: reduction of image windows to one value per channel, and its gradient. Windows lie
//! within the image, without padding.
#![allow(unsafe_code)]

use super::patches::Windows;
use crate::simd::dispatch;
use crate::view::{View, ViewMut};

/// Reduction of an image window to one value per channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Maximum of the window. If the window contains NaN, the result is the first NaN.
    Max,
    /// Mean of the window.
    Mean,
}

/// Returns the index of each pixel of a window, in order. The index refers to the pixel's first
/// channel.
#[inline(always)]
fn places(by: Windows, top: usize, left: usize) -> impl Iterator<Item = usize> {
    (0..by.kernel * by.kernel).map(move |place| {
        let (y, x) = (place / by.kernel, place % by.kernel);
        ((top * by.stride + y * by.dilation) * by.width + left * by.stride + x * by.dilation) * by.channels
    })
}

dispatch! {
    /// Computes out = the maximum or mean of each window of the images x, per channel. x has the
    /// shape `[n, height x width x channels]`, and out has the shape `[n, windows x channels]`.
    pub fn pool(x: View<'_>, by: Windows, with: Pool, out: &mut ViewMut<'_>) = pool_body
}

#[inline(always)]
fn pool_body<const _FMA: bool>(x: View<'_>, by: Windows, with: Pool, out: &mut ViewMut<'_>) {
    let Some((down, across)) = by.count() else { return };
    let channels = by.channels;
    let share = 1.0 / (by.kernel * by.kernel) as f32;
    for image in 0..x.rows() {
        let (from, to) = (x.row(image), out.row_mut(image));
        for window in 0..down * across {
            let to = &mut to[window * channels..][..channels];
            let mut all = places(by, window / across, window % across).map(|at| &from[at..][..channels]);
            if let Some(first) = all.next() {
                to.copy_from_slice(first);
            }
            match with {
                Pool::Max => all.for_each(|from| {
                    for (to, &v) in to.iter_mut().zip(from) {
                        *to = if v > *to || (v.is_nan() && !to.is_nan()) { v } else { *to };
                    }
                }),
                Pool::Mean => {
                    all.for_each(|from| to.iter_mut().zip(from).for_each(|(to, &v)| *to += v));
                    to.iter_mut().for_each(|to| *to *= share);
                }
            }
        }
    }
}

dispatch! {
    /// Computes out = the gradient of the images x from `grad`, the gradient of [`pool`]'s result.
    /// The gradient of a maximum goes to the first pixel that has the maximum.
    pub fn pool_backward(x: View<'_>, by: Windows, with: Pool, grad: View<'_>, out: &mut ViewMut<'_>) = backward_body
}

#[inline(always)]
fn backward_body<const _FMA: bool>(
    x: View<'_>,
    by: Windows,
    with: Pool,
    grad: View<'_>,
    out: &mut ViewMut<'_>,
) {
    let Some((down, across)) = by.count() else { return };
    let channels = by.channels;
    let share = 1.0 / (by.kernel * by.kernel) as f32;
    let (mut largest, mut at) = (vec![0.0f32; channels], vec![0usize; channels]);
    for image in 0..x.rows() {
        let (from, grad, to) = (x.row(image), grad.row(image), out.row_mut(image));
        to.fill(0.0);
        for window in 0..down * across {
            let grad = &grad[window * channels..][..channels];
            let all = places(by, window / across, window % across);
            match with {
                Pool::Mean => all.for_each(|place| {
                    to[place..].iter_mut().zip(grad).for_each(|(to, &g)| *to += share * g);
                }),
                Pool::Max => {
                    for (order, place) in all.enumerate() {
                        let values = largest.iter_mut().zip(&mut at).zip(&from[place..][..channels]);
                        for ((largest, at), &v) in values {
                            let first = order == 0 || v > *largest || (v.is_nan() && !largest.is_nan());
                            (*largest, *at) = if first { (v, place) } else { (*largest, *at) };
                        }
                    }
                    for (channel, (&place, &g)) in at.iter().zip(grad).enumerate() {
                        to[place + channel] += g;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_reduced_by_channel() {
        let by = Windows { height: 3, width: 4, channels: 2, kernel: 2, stride: 1, padding: 0, dilation: 1 };
        let x: Vec<f32> = (0..24).map(|v| ((v * 7) % 11) as f32).collect();
        let at = |y: usize, x_at: usize, c: usize| x[(y * 4 + x_at) * 2 + c];
        let view = View::new(&x, 1, 24);
        let (mut most, mut mean) = (vec![9.0; 12], vec![9.0; 12]);
        pool(view, by, Pool::Max, &mut ViewMut::new(&mut most, 1, 12));
        pool(view, by, Pool::Mean, &mut ViewMut::new(&mut mean, 1, 12));
        let grad: Vec<f32> = (1..13).map(|v| v as f32).collect();
        let mut expected = [vec![0.0; 24], vec![0.0; 24]];
        for place in 0..12 {
            let (window, c) = (place / 2, place % 2);
            let places: Vec<(usize, usize)> =
                (0..4).map(|p| (window / 3 + p / 2, window % 3 + p % 2)).collect();
            let values: Vec<f32> = places.iter().map(|&(y, x)| at(y, x, c)).collect();
            let largest = values.iter().copied().fold(f32::MIN, f32::max);
            assert_eq!(most[place], largest);
            assert_eq!(mean[place], values.iter().sum::<f32>() / 4.0);
            let first = values.iter().position(|&v| v == largest).unwrap();
            let to = |(y, x): (usize, usize)| (y * 4 + x) * 2 + c;
            expected[0][to(places[first])] += grad[place];
            places.iter().for_each(|&p| expected[1][to(p)] += grad[place] / 4.0);
        }
        for (with, expected) in [(Pool::Max, &expected[0]), (Pool::Mean, &expected[1])] {
            let mut found = vec![9.0; 24];
            let to = &mut ViewMut::new(&mut found, 1, 24);
            pool_backward(view, by, with, View::new(&grad, 1, 12), to);
            assert_eq!(&found, expected, "{with:?}");
        }
    }
}
