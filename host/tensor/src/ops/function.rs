//! Elementwise functions of f32 values other than activations. They are computed in f64, with
//! additions, products, divisions and square roots only. So they have the same bits on every host,
//! and can be vectorised.
#![allow(unsafe_code)]

use std::f64::consts::{LN_2, LOG2_E, SQRT_2};

use crate::simd::dispatch;
use crate::view::{View, ViewMut};

/// Function that is applied to each value x of a matrix. According to IEEE 754, a result out of
/// range becomes infinite or zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Function {
    /// Exponential function e^x
    Exp,
    /// Natural logarithm. It is -inf at 0, and NaN below 0.
    Log,
    /// Square root. It is NaN below 0.
    Sqrt,
    /// Reciprocal 1 / x. It is infinite at 0, with the sign of the zero.
    Reciprocal,
    /// Absolute value |x|
    Absolute,
    /// Power x^p for a finite p. It is NaN for negative x unless p is an integer. For p = 0 it is
    /// always 1.
    Power(f32),
}

dispatch! {
    /// Computes out = f(x), elementwise, where f is the function `by`.
    pub fn forward(x: View<'_>, by: Function, out: &mut ViewMut<'_>) = forward_body
}

#[inline(always)]
fn forward_body<const _FMA: bool>(x: View<'_>, by: Function, out: &mut ViewMut<'_>) {
    match by {
        Function::Exp => map(x, out, |x| exp(x.into()) as f32),
        Function::Log => map(x, out, |x| ln(x.into()) as f32),
        Function::Sqrt => map(x, out, f32::sqrt),
        Function::Reciprocal => map(x, out, |x| 1.0 / x),
        Function::Absolute => map(x, out, f32::abs),
        Function::Power(p) => {
            let power = Power::new(p.into());
            map(x, out, |x| power.value(x.into()) as f32);
        }
    }
}

dispatch! {
    /// Computes out = grad f'(x), elementwise, where f is the function `by`. The derivative of |x|
    /// at 0 is 0, and that of x^0 is always 0. Elsewhere derivatives follow IEEE 754, so they are
    /// infinite or NaN where f is. A gradient of 0 times an infinite derivative is NaN.
    pub fn backward(x: View<'_>, by: Function, grad: View<'_>, out: &mut ViewMut<'_>) = backward_body
}

#[inline(always)]
fn backward_body<const _FMA: bool>(x: View<'_>, by: Function, grad: View<'_>, out: &mut ViewMut<'_>) {
    use super::rows::zip;
    match by {
        Function::Exp => zip(x, grad, out, |x, g| g * exp(x.into()) as f32),
        Function::Log => zip(x, grad, out, |x, g| g * if x < 0.0 { f32::NAN } else { 1.0 / x }),
        Function::Sqrt => zip(x, grad, out, |x, g| g * (0.5 / x.sqrt())),
        Function::Reciprocal => zip(x, grad, out, |x, g| g * (-1.0 / (x * x))),
        Function::Absolute => zip(x, grad, out, |x, g| g * if x == 0.0 { 0.0 } else { x.signum() }),
        Function::Power(0.0) => zip(x, grad, out, |_, g| g * 0.0),
        Function::Power(p) => {
            let (p, power) = (f64::from(p), Power::new(f64::from(p) - 1.0));
            zip(x, grad, out, |x, g| g * (p * power.value(x.into())) as f32);
        }
    }
}

/// The constant 1.5 * 2^52. The last bits of a double above it are the integer part, so adding and
/// subtracting it rounds to nearest.
const INTEGER: f64 = 6_755_399_441_055_744.0;
/// Bits of the double 2^52, whose least significant bit has the value 1.
const UNIT: u64 = 0x4330_0000_0000_0000;

#[inline(always)]
fn map(x: View<'_>, out: &mut ViewMut<'_>, f: impl Fn(f32) -> f32) {
    for i in 0..x.rows() {
        for (o, &x) in out.row_mut(i).iter_mut().zip(x.row(i)) {
            *o = f(x);
        }
    }
}

/// Computes e^x with a relative error of 10^-12, if the result is a normal f32. Other results
/// become infinity, zero or a denormal when they are converted to f32.
#[inline(always)]
fn exp(x: f64) -> f64 {
    // Beyond the range of every f32, but 2^n is still an f64.
    let x = x.clamp(-200.0, 200.0);
    let shifted = x * LOG2_E + INTEGER;
    let r = x - (shifted - INTEGER) * LN_2;
    // Series of e^r for |r| <= ln 2 / 2.
    let mut sum = 1.0 / 39_916_800.0;
    for factorial in [3_628_800.0, 362_880.0, 40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        sum = sum * r + 1.0 / factorial;
    }
    let n = shifted.to_bits().wrapping_sub(INTEGER.to_bits());
    sum * f64::from_bits(n.wrapping_add(1023) << 52)
}

/// Computes the natural logarithm of a value that was an f32, with a relative error of 10^-12. It
/// is -inf at 0, and NaN below 0.
#[inline(always)]
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    // x = 2^e m with m from 1 to 2. The range of m is then shifted to sqrt(1/2) to sqrt(2), which
    // is nearer to 1.
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    let above = m > SQRT_2;
    let m = if above { 0.5 * m } else { m };
    // The exponent is converted to a double by its bits, because not every processor has a
    // conversion of 64-bit vectors.
    let e = f64::from_bits((bits >> 52) | UNIT) - f64::from_bits(UNIT | 1023);
    let e = if above { e + 1.0 } else { e };
    // ln m = 2 artanh s
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut sum = 1.0 / 15.0;
    for odd in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * z + 1.0 / odd;
    }
    let y = e * LN_2 + 2.0 * s * sum;
    // NaN and infinity are returned as they are. Every f32 except zero is a normal f64.
    let y = if x < f64::INFINITY { y } else { x };
    match x {
        _ if x == 0.0 => f64::NEG_INFINITY,
        _ if x < 0.0 => f64::NAN,
        _ => y,
    }
}

/// Exponent p of the function x^p, with its properties.
#[derive(Clone, Copy)]
struct Power {
    p: f64,
    integral: bool,
    odd: bool,
}

impl Power {
    fn new(p: f64) -> Self {
        let integral = p.trunc() == p;
        Self { p, integral, odd: integral && (p % 2.0).abs() == 1.0 }
    }

    /// Returns x^p, where x was converted from an f32.
    #[inline(always)]
    fn value(self, x: f64) -> f64 {
        if self.p == 0.0 {
            return 1.0;
        }
        let size = exp(self.p * ln(x.abs()));
        let sized = if self.odd { size.copysign(x) } else { size };
        if x < 0.0 && !self.integral { f64::NAN } else { sized }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Function::*;
    use super::*;

    const ALL: [Function; 13] = [
        Exp,
        Log,
        Sqrt,
        Reciprocal,
        Absolute,
        Power(2.0),
        Power(3.0),
        Power(0.5),
        Power(-1.5),
        Power(-3.0),
        Power(0.0),
        Power(1.0),
        Power(17.25),
    ];

    fn exact(f: Function, x: f64) -> f64 {
        match f {
            Exp => x.exp(),
            Log => x.ln(),
            Sqrt => x.sqrt(),
            Reciprocal => 1.0 / x,
            Absolute => x.abs(),
            Power(p) => x.powf(p.into()),
        }
    }

    fn slope(f: Function, x: f64) -> f64 {
        match f {
            Exp => x.exp(),
            Log => 1.0 / x,
            Sqrt => 0.5 / x.sqrt(),
            Reciprocal => -1.0 / (x * x),
            Absolute => x.signum(),
            Power(p) => f64::from(p) * x.powf(f64::from(p) - 1.0),
        }
    }

    fn values() -> Vec<f32> {
        // Every magnitude, with many values between.
        let every = (0..=u32::from(u16::MAX)).map(|high| f32::from_bits(high << 16 | 0x5a5a));
        every.chain((-9000..9000).map(|i| i as f32 / 100.0)).filter(|x| x.is_finite()).collect()
    }

    fn applied(f: Function, x: &[f32]) -> Vec<f32> {
        let mut y = vec![9.0; x.len()];
        forward(View::new(x, 1, x.len()), f, &mut ViewMut::new(&mut y, 1, x.len()));
        y
    }

    fn derived(f: Function, x: &[f32]) -> Vec<f32> {
        let (mut y, ones) = (vec![9.0; x.len()], vec![1.0; x.len()]);
        let grad = View::new(&ones, 1, x.len());
        backward(View::new(x, 1, x.len()), f, grad, &mut ViewMut::new(&mut y, 1, x.len()));
        y
    }

    /// Returns true if both values agree within `units` units in the last place, or are the same
    /// infinity or both NaN.
    fn is_near(found: f32, exact: f64, units: f64) -> bool {
        let nearest = exact as f32;
        let unit = f64::from(nearest.abs().max(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON);
        found == nearest
            || (found.is_nan() && exact.is_nan())
            || (f64::from(found) - exact).abs() <= units * unit
            || (found.is_infinite() && exact.abs() > f64::from(f32::MAX) * (1.0 - 1e-6))
    }

    #[test]
    fn they_are_within_a_unit_of_the_exact_value() {
        let x = values();
        for f in ALL {
            for (&x, y) in x.iter().zip(applied(f, &x)) {
                let exact = exact(f, x.into());
                assert!(is_near(y, exact, 0.51), "{f:?} at {x:e} is {y:e}, not {exact:e}");
            }
        }
    }

    #[test]
    fn derivatives_are_within_three_units_of_the_exact_value() {
        // Values of x whose square is an f32.
        let x: Vec<f32> =
            values().into_iter().filter(|x| *x == 0.0 || (1e-18..1e18).contains(&x.abs())).collect();
        for f in ALL {
            for (&x, y) in x.iter().zip(derived(f, &x)).filter(|(x, _)| **x != 0.0) {
                let exact = if f == Log && x < 0.0 { f64::NAN } else { slope(f, x.into()) };
                assert!(is_near(y, exact, 3.0), "{f:?}' at {x:e} is {y:e}, not {exact:e}");
            }
        }
    }

    #[test]
    fn what_is_no_number_is_ieee_s() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let x = [0.0, -0.0, -1.0, inf, -inf, nan];
        let cases: [(Function, [f32; 6], [f32; 6]); 8] = [
            (Exp, [1.0, 1.0, 0.367_879_44, inf, 0.0, nan], [1.0, 1.0, 0.367_879_44, inf, 0.0, nan]),
            (Log, [-inf, -inf, nan, inf, nan, nan], [inf, -inf, nan, 0.0, nan, nan]),
            (Sqrt, [0.0, -0.0, nan, inf, nan, nan], [inf, -inf, nan, 0.0, nan, nan]),
            (Reciprocal, [inf, -inf, -1.0, 0.0, -0.0, nan], [-inf, -inf, -1.0, -0.0, -0.0, nan]),
            (Absolute, [0.0, 0.0, 1.0, inf, inf, nan], [0.0, 0.0, -1.0, 1.0, -1.0, nan]),
            (Power(0.0), [1.0; 6], [0.0; 6]),
            (Power(2.0), [0.0, 0.0, 1.0, inf, inf, nan], [0.0, -0.0, -2.0, inf, -inf, nan]),
            (Power(-0.5), [inf, inf, nan, 0.0, nan, nan], [-inf, -inf, nan, -0.0, nan, nan]),
        ];
        let bits = |all: &[f32]| {
            all.iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect::<Vec<u32>>()
        };
        for (f, value, slope) in cases {
            assert_eq!(bits(&applied(f, &x)), bits(&value), "{f:?}: {:?}", applied(f, &x));
            assert_eq!(bits(&derived(f, &x)), bits(&slope), "{f:?}': {:?}", derived(f, &x));
        }
        // Denormal below the smallest normal number, and zero below that.
        let small = applied(Exp, &[-88.0, -103.0, -104.0, 88.7, 88.8]);
        assert!(
            small[0] > 0.0 && small[0] < f32::MIN_POSITIVE && small[1] > 0.0 && small[2] == 0.0,
            "{small:?}"
        );
        assert!(small[3].is_finite() && small[4] == inf, "{small:?}");
        assert_eq!(applied(Power(3.0), &[-2.0, -1.5, 1e20]), [-8.0, -3.375, inf]);
    }
}
