//! Elementwise activation functions and their derivatives.

/// Activation function that is applied to each value x of a matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// x, which means no activation
    Identity,
    /// max(x, 0)
    Relu,
    /// x if x > 0, else slope * x
    LeakyRelu(f32),
    /// x if x > 0, else alpha * (exp(x) - 1)
    Elu(f32),
    /// 1 / (1 + exp(-x))
    Sigmoid,
    /// tanh x
    Tanh,
}

/// Returns `yes` if the condition is true, and otherwise `no`. Both are computed and masked, because
/// the compiler does not vectorise every branch.
#[inline(always)]
fn select(condition: bool, yes: f32, no: f32) -> f32 {
    let mask = 0u32.wrapping_sub(u32::from(condition));
    f32::from_bits(yes.to_bits() & mask | no.to_bits() & !mask)
}

impl Activation {
    /// Returns f(x), the value of the activation function.
    #[inline(always)]
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::Identity => x,
            // Written so that a NaN stays a NaN.
            Self::Relu => select(x <= 0.0, 0.0, x),
            Self::LeakyRelu(slope) => select(x > 0.0, x, slope * x),
            Self::Elu(alpha) => select(x > 0.0, x, alpha * (exp(x) - 1.0)),
            Self::Sigmoid => 1.0 / (1.0 + exp(-x)),
            Self::Tanh => {
                let e = exp(-2.0 * x.abs());
                ((1.0 - e) / (1.0 + e)).copysign(x)
            }
        }
    }

    /// Returns the derivative f'(x), given y = f(x).
    #[inline(always)]
    pub fn derivative(self, y: f32) -> f32 {
        match self {
            Self::Identity => 1.0,
            Self::Relu => select(y > 0.0, 1.0, 0.0),
            Self::LeakyRelu(slope) => select(y > 0.0, 1.0, slope),
            Self::Elu(alpha) => select(y > 0.0, 1.0, y + alpha),
            Self::Sigmoid => y * (1.0 - y),
            Self::Tanh => 1.0 - y * y,
        }
    }

    /// Returns true if f(0) = 0. Such a function leaves the values zero that a sparse row does not
    /// store.
    pub fn keeps_zero(self) -> bool {
        self != Self::Sigmoid
    }
}

/// Computes e^x by range reduction and a polynomial (Cephes `expf`). The error is at most 2 units
/// in the last place. The result has the same bits on every host, and the code can be vectorised.
#[inline(always)]
#[allow(clippy::excessive_precision, reason = "the coefficients as Cephes prints them")]
pub fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.336_55, 88.722_83);
    // Rounds to nearest by adding and subtracting 1.5 * 2^23, above which the last bits are the
    // integer. A conversion instruction handles values out of range, and takes as long as all the
    // rest.
    let rounded = x * std::f32::consts::LOG2_E + 12_582_912.0;
    let n = rounded - 12_582_912.0;
    let r = x - n * 0.693_359_375;
    let r = r - n * -2.121_944_4e-4;
    let mut p = 1.987_569_15e-4;
    p = p * r + 1.398_199_95e-3;
    p = p * r + 8.333_451_9e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_55e-1;
    p = p * r + 5.000_000_1e-1;
    let y = p * r * r + r + 1.0;
    // n is in -126..=128 (or arbitrary if x is a NaN, as y is then). 2^n is applied in two steps,
    // because 2^128 is not an f32.
    let n = (rounded.to_bits() as i32).wrapping_sub(12_582_912.0f32.to_bits() as i32);
    let half = n >> 1;
    let rest = n - half;
    y * f32::from_bits(((half + 127) << 23) as u32) * f32::from_bits(((rest + 127) << 23) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units() {
        for i in -8700..8800 {
            let x = i as f32 / 100.0;
            let exact = f64::from(x).exp();
            let found = f64::from(exp(x));
            assert!((found - exact).abs() <= 2.5e-7 * exact, "exp({x}) = {found}, not {exact}");
        }
        assert!(exp(1000.0) > 3e38 && exp(-1000.0) < 2e-38);
        assert!(exp(f32::NAN).is_nan() && exp(-f32::NAN).is_nan());
    }

    #[test]
    fn derivatives_match_differences() {
        use Activation::*;
        for f in [Identity, Relu, LeakyRelu(0.2), Elu(1.0), Sigmoid, Tanh] {
            for x in [-2.0f32, -0.5, 0.3, 1.7] {
                let h = 1e-2;
                let numeric = (f.apply(x + h) - f.apply(x - h)) / (2.0 * h);
                assert!((numeric - f.derivative(f.apply(x))).abs() < 1e-3, "{f:?} at {x}");
            }
        }
    }
}
