//! Arithmetic that a kernel does itself: generic over the number type, and the same bits on every
//! host (WebAssembly has no exponential; the host's C library would differ).

/// A number: f32 in a component, f64 under a gradient check.
pub trait Real:
    Copy
    + PartialOrd
    + core::fmt::Debug
    + core::ops::Add<Output = Self>
    + core::ops::Sub<Output = Self>
    + core::ops::Mul<Output = Self>
    + core::ops::Div<Output = Self>
    + core::ops::Neg<Output = Self>
    + core::ops::AddAssign
    + core::ops::MulAssign
    + 'static
{
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// From f32, exactly.
    fn from_f32(v: f32) -> Self;
    /// e^x
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The larger.
    fn max(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
    #[doc(hidden)]
    fn read(matrix: &crate::Matrix, start: u32, count: u32) -> crate::Result<Vec<Self>>;
    #[doc(hidden)]
    fn write(out: &crate::Out, start: u32, values: &[Self]) -> crate::Result<()>;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn from_f32(v: f32) -> Self {
        v
    }

    #[inline(always)]
    fn exp(self) -> Self {
        exp(self)
    }

    #[inline(always)]
    fn ln(self) -> Self {
        ln(self)
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        f32::sqrt(self)
    }

    fn read(matrix: &crate::Matrix, start: u32, count: u32) -> crate::Result<Vec<Self>> {
        matrix.read_f32(start, count)
    }

    fn write(out: &crate::Out, start: u32, values: &[Self]) -> crate::Result<()> {
        out.write_f32(start, values)
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn from_f32(v: f32) -> Self {
        f64::from(v)
    }

    fn exp(self) -> Self {
        f64::exp(self)
    }

    fn ln(self) -> Self {
        f64::ln(self)
    }

    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }

    fn read(matrix: &crate::Matrix, start: u32, count: u32) -> crate::Result<Vec<Self>> {
        matrix.read_f64(start, count)
    }

    fn write(out: &crate::Out, start: u32, values: &[Self]) -> crate::Result<()> {
        out.write_f64(start, values)
    }
}

/// e^x: range reduction and a polynomial (Cephes `expf`), within 2 units in the last place.
/// -> 0 below -87.3, the largest f32 above 88.7.
#[inline(always)]
#[allow(clippy::excessive_precision)]
fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.336_55, 88.722_83);
    let n = (x * core::f32::consts::LOG2_E + 12_582_912.0) - 12_582_912.0;
    let r = x - n * 0.693_359_375;
    let r = r - n * -2.121_944_4e-4;
    let mut p = 1.987_569_15e-4;
    p = p * r + 1.398_199_95e-3;
    p = p * r + 8.333_451_9e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_55e-1;
    p = p * r + 5.000_000_1e-1;
    let y = p * r * r + r + 1.0;
    let half = (n as i32) >> 1;
    let rest = n as i32 - half;
    y * f32::from_bits(((half + 127) << 23) as u32) * f32::from_bits(((rest + 127) << 23) as u32)
}

/// ln x for positive normal x (Cephes `logf`), within 2 units in the last place; NaN below 0.
#[allow(clippy::excessive_precision)]
fn ln(x: f32) -> f32 {
    if x < f32::MIN_POSITIVE {
        return if x == 0.0 {
            f32::NEG_INFINITY
        } else if x < 0.0 {
            f32::NAN
        } else {
            ln(x * 16_777_216.0) - 16.635_532
        };
    }
    if !x.is_finite() {
        return x;
    }
    let bits = x.to_bits();
    let mut e = ((bits >> 23) as i32 - 126) as f32;
    let mut m = f32::from_bits((bits & 0x007f_ffff) | 0x3f00_0000);
    if m < core::f32::consts::FRAC_1_SQRT_2 {
        e -= 1.0;
        m += m;
    }
    let z = m - 1.0;
    let z2 = z * z;
    let mut p = 7.037_683_6e-2;
    for c in [
        -1.151_461_03e-1,
        1.167_699_87e-1,
        -1.242_014_08e-1,
        1.424_932_28e-1,
        -1.666_805_77e-1,
        2.000_071_48e-1,
        -2.499_999_4e-1,
        3.333_333_1e-1,
    ] {
        p = p * z + c;
    }
    let y = p * z * z2 + e * -2.121_944_4e-4 - 0.5 * z2;
    z + y + e * 0.693_359_375
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_two_units_of_the_exact_value() {
        for i in -8700..8800 {
            let x = i as f32 / 100.0;
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) - exact).abs() <= 2.5e-7 * exact, "exp({x})");
        }
        for i in 1..20_000 {
            let x = (i as f32) * (i as f32) / 7919.0;
            let exact = f64::from(x).ln();
            assert!((f64::from(ln(x)) - exact).abs() <= 2.5e-7 * exact.abs().max(0.5), "ln({x})");
        }
        assert!(ln(-1.0).is_nan() && ln(0.0) == f32::NEG_INFINITY && (ln(1e-40) + 92.103_4).abs() < 1e-4);
    }
}
