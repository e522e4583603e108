//! Smooth activation functions, computed in f32 with additions, products and divisions only. So
//! they have the same bits on every host, and can be vectorised.
//!
//! The tail of the normal distribution is Q(a) = exp(-a^2 / 2) R(a) for a >= 0. R is a polynomial
//! in t = 1 / (1 + 0.35 a), fitted with a relative error of 1 / (3 * 10^7).
#![allow(unsafe_code)]

use super::activation::exp;
use super::rows::zip;
use crate::simd::dispatch;
use crate::view::{View, ViewMut};

/// Smooth activation function that is applied to each value x of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Smooth {
    /// GELU, x Phi(x), where Phi is the standard normal distribution (Hendrycks and Gimpel 2016).
    Gelu,
    /// Approximation of GELU, x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 (Hendrycks and
    /// Gimpel 2016).
    GeluTanh,
    /// SiLU or Swish, x / (1 + exp(-x)) (Elfwing, Uchibe and Doya 2017).
    Silu,
    /// Softplus, ln(1 + exp(x)) (Dugas et al. 2000).
    Softplus,
}

dispatch! {
    /// Computes out = f(x), elementwise, where f is the function `by`.
    pub fn forward(x: View<'_>, by: Smooth, out: &mut ViewMut<'_>) = forward_body
}

#[inline(always)]
fn forward_body<const _FMA: bool>(x: View<'_>, by: Smooth, out: &mut ViewMut<'_>) {
    match by {
        Smooth::Gelu => map(x, out, |x| x * normal(x).0),
        Smooth::GeluTanh => map(x, out, |x| x * sigmoid(tanh_argument(x).0).0),
        Smooth::Silu => map(x, out, |x| x * sigmoid(x).0),
        Smooth::Softplus => map(x, out, softplus),
    }
}

dispatch! {
    /// Computes out = grad f'(x), elementwise, where f is the function `by`.
    pub fn backward(x: View<'_>, by: Smooth, grad: View<'_>, out: &mut ViewMut<'_>) = backward_body
}

#[inline(always)]
fn backward_body<const _FMA: bool>(x: View<'_>, by: Smooth, grad: View<'_>, out: &mut ViewMut<'_>) {
    match by {
        Smooth::Gelu => zip(x, grad, out, |x, g| {
            let (value, density) = normal(x);
            g * (value + x * density)
        }),
        Smooth::GeluTanh => zip(x, grad, out, |x, g| {
            let (at, slope) = tanh_argument(x);
            let (value, rest) = sigmoid(at);
            g * (value + x.clamp(-FLAT, FLAT) * (value * rest) * slope)
        }),
        Smooth::Silu => zip(x, grad, out, |x, g| {
            let (value, rest) = sigmoid(x);
            g * (value + x.clamp(-LARGEST, LARGEST) * (value * rest))
        }),
        Smooth::Softplus => zip(x, grad, out, |x, g| g * sigmoid(x).0),
    }
}

#[inline(always)]
fn map(x: View<'_>, out: &mut ViewMut<'_>, f: impl Fn(f32) -> f32) {
    for i in 0..x.rows() {
        for (o, &x) in out.row_mut(i).iter_mut().zip(x.row(i)) {
            *o = f(x);
        }
    }
}

/// Absolute value above which the tail of the normal distribution is treated as zero.
const TAIL_END: f32 = 13.0;
/// Absolute value above which a sigmoid is treated as 0 or 1.
const LARGEST: f32 = 87.0;
/// Absolute value above which the result of `tanh_argument` exceeds `LARGEST`.
const FLAT: f32 = 16.0;

/// Returns the standard normal distribution Phi(x) and its density. A NaN stays a NaN.
#[inline(always)]
#[allow(clippy::excessive_precision, reason = "the coefficients as they were fitted")]
fn normal(x: f32) -> (f32, f32) {
    let a = x.abs();
    let near = if a > TAIL_END { TAIL_END } else { a };
    // The square of the upper half of the bits is exact, so the argument of the exponential is
    // exact.
    let high = f32::from_bits(near.to_bits() & 0xffff_f000);
    let low = 0.5 * (near - high) * (near + high);
    let correction = 1.0 - low * (1.0 - low * (0.5 - low * (1.0 / 6.0)));
    let power = exp(-0.5 * high * high) * correction;
    let t = 1.0 / (1.0 + 0.35 * near);
    let mut p = -0.029_102_264;
    for c in [
        0.143_755_14,
        -0.255_257_4,
        0.158_640_3,
        -0.022_732_997,
        0.105_344_035,
        0.119_875_67,
        0.139_855_76,
        0.139_621_76,
    ] {
        p = p * t + c;
    }
    let power = if a > TAIL_END { 0.0 } else { power };
    let tail = power * (p * t);
    let value = if x < 0.0 { tail } else { 1.0 - tail };
    // 1 / sqrt(2 pi)
    (value, power * 0.398_942_28)
}

/// Returns the sigmoid 1 / (1 + exp(-x)), and 1 minus that value.
#[inline(always)]
fn sigmoid(x: f32) -> (f32, f32) {
    let e = exp(-x.abs());
    let large = 1.0 / (1.0 + e);
    let small = if x.abs() > LARGEST { 0.0 } else { e * large };
    if x < 0.0 { (small, large) } else { (large, small) }
}

/// Returns the value 2 sqrt(2 / pi) (x + 0.044715 x^3) and its derivative. x is first clamped to
/// the range from -`FLAT` to `FLAT`.
#[inline(always)]
fn tanh_argument(x: f32) -> (f32, f32) {
    // 2 sqrt(2 / pi)
    const FACTOR: f32 = 1.595_769;
    let x = x.clamp(-FLAT, FLAT);
    let square = x * x;
    (FACTOR * (x + 0.044_715 * (x * square)), FACTOR * (1.0 + 0.134_145 * square))
}

/// Computes ln(1 + exp(x)) as max(x, 0) + ln(1 + exp(-|x|)). The last term is approximated by a
/// polynomial with a relative error of 10^-8.
#[inline(always)]
#[allow(clippy::excessive_precision, reason = "the coefficients as they were fitted")]
fn softplus(x: f32) -> f32 {
    let e = if x.abs() > LARGEST { 0.0 } else { exp(-x.abs()) };
    let mut p = -0.003_244_020_5;
    for c in [
        0.019_851_44,
        -0.056_959_495,
        0.106_036_51,
        -0.153_055_9,
        0.196_759_39,
        -0.249_541_34,
        0.333_299_64,
        -0.499_999_02,
        1.0,
    ] {
        p = p * e + c;
    }
    let positive = if x <= 0.0 { 0.0 } else { x };
    positive + p * e
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Smooth; 4] = [Smooth::Gelu, Smooth::GeluTanh, Smooth::Silu, Smooth::Softplus];

    fn tanh_form(x: f64) -> (f64, f64) {
        let (f, k) = ((2.0 / std::f64::consts::PI).sqrt(), 0.044_715);
        (f * (x + k * x * x * x), f * (1.0 + 3.0 * k * x * x))
    }

    /// Computes Phi(x) by the series of Abramowitz and Stegun 26.2.10, or their continued fraction
    /// 26.2.14.
    fn phi(x: f64) -> f64 {
        let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        if x.abs() > 4.0 {
            let fraction = (1..200).rev().fold(x.abs(), |f, k| x.abs() + f64::from(k) / f);
            let tail = density / fraction;
            return if x < 0.0 { tail } else { 1.0 - tail };
        }
        let (mut term, mut sum) = (x, x);
        for k in 1..100 {
            term *= -x * x / (2.0 * f64::from(k));
            sum += term / f64::from(2 * k + 1);
        }
        0.5 + sum / (2.0 * std::f64::consts::PI).sqrt()
    }

    fn exact(f: Smooth, x: f64) -> (f64, f64) {
        let s = 1.0 / (1.0 + (-x).exp());
        match f {
            Smooth::Gelu => {
                let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
                (x * phi(x), phi(x) + x * density)
            }
            Smooth::GeluTanh => {
                let (z, slope) = tanh_form(x);
                let s = 1.0 / (1.0 + (-2.0 * z).exp());
                let rest = 1.0 / (1.0 + (2.0 * z).exp());
                (x * s, s + 2.0 * x * s * rest * slope)
            }
            Smooth::Silu => (x * s, s + x * s / (1.0 + x.exp())),
            Smooth::Softplus => (x.max(0.0) + (-x.abs()).exp().ln_1p(), s),
        }
    }

    fn both(f: Smooth, x: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let (mut y, mut slope, ones) = (vec![9.0; x.len()], vec![9.0; x.len()], vec![1.0; x.len()]);
        let view = View::new(x, 1, x.len());
        forward(view, f, &mut ViewMut::new(&mut y, 1, x.len()));
        backward(view, f, View::new(&ones, 1, x.len()), &mut ViewMut::new(&mut slope, 1, x.len()));
        (y, slope)
    }

    #[test]
    fn values_and_slopes_are_near_the_exact_ones() {
        let x: Vec<f32> = (-40_000..40_000).map(|i| i as f32 / 2000.0).collect();
        for f in ALL {
            let (y, slope) = both(f, &x);
            for ((&x, y), slope) in x.iter().zip(y).zip(slope) {
                let (value, derivative) = exact(f, x.into());
                let unit = f64::from(f32::EPSILON);
                // The error is relative, except for values below 10^-6 of the function's own scale.
                // If the argument of an exponential is rounded, the error in units grows with the
                // size of the argument.
                let units = if f == Smooth::GeluTanh && x < -1.0 { 64.0 } else { 4.0 };
                let allowed = unit * (units * value.abs() + 1e-6);
                assert!((f64::from(y) - value).abs() <= allowed, "{f:?}({x}) is {y}, not {value}");
                let allowed = 4.0 * unit * (derivative.abs() + 0.5);
                let apart = (f64::from(slope) - derivative).abs();
                assert!(apart <= allowed, "{f:?}'({x}) is {slope}, not {derivative}");
            }
        }
    }

    #[test]
    fn far_away_they_are_what_their_limits_are() {
        let far = [30.0, 100.0, 1e10, 1e30, f32::MAX];
        for f in ALL {
            for x in far {
                let (y, slope) = both(f, &[x, -x, f32::NAN]);
                assert_eq!((y[0], slope[0]), (x, 1.0), "{f:?}({x})");
                assert!(y[1].abs() < 1e-10 && slope[1].abs() < 1e-10, "{f:?}(-{x}): {y:?}, {slope:?}");
                assert!(y[2].is_nan() && slope[2].is_nan(), "{f:?}: {y:?}, {slope:?}");
            }
        }
    }
}
