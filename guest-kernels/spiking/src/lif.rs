//! Leaky integrate-and-fire neurons, step by step, and the gradients through their steps.

use eciton_sdk::Real;

/// What stands for the derivative of a spike by u = U - theta, or is what passes in its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Surrogate {
    /// (a / 2) / (1 + (pi a u / 2)^2), the derivative of arctan(pi a u / 2) / pi
    Atan(f32),
    /// 1 / (1 + k |u|)^2, the derivative of u / (1 + k |u|)
    FastSigmoid(f32),
    /// 1, the derivative of u
    StraightThrough,
}

/// The neurons of a layer: all alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neurons {
    pub(crate) beta: f32,
    pub(crate) threshold: f32,
    /// Whether a spike sets U to zero; else it takes theta from it.
    pub(crate) to_zero: bool,
    pub(crate) surrogate: Surrogate,
    /// Whether what passes is the function whose derivative the surrogate is.
    pub(crate) smooth: bool,
}

fn half_pi<R: Real>() -> R {
    // pi / 2 to f64, of two numbers that f32 has exactly.
    R::from_f32(1.570_796_4) + R::from_f32(-4.371_139e-8)
}

fn magnitude<R: Real>(x: R) -> R {
    x.max(-x)
}

/// arctan x, to about 1e-15 of 1: three times arctan x = 2 arctan(x / (1 + sqrt(1 + x^2))), then its series.
fn arctan<R: Real>(x: R) -> R {
    let mut z = x;
    for _ in 0..3 {
        z = z / (R::ONE + (R::ONE + z * z).sqrt());
    }
    let square = z * z;
    let mut sum = R::ZERO;
    for odd in (0..14).rev() {
        let term = R::ONE / R::from_f32((2 * odd + 1) as f32);
        sum = term - square * sum;
    }
    R::from_f32(8.0) * z * sum
}

impl Surrogate {
    /// Of u in the place of 1 where u > 0, if `smooth`.
    fn smoothed<R: Real>(self, u: R) -> R {
        match self {
            Self::Atan(a) => arctan(half_pi::<R>() * R::from_f32(a) * u) / (half_pi::<R>() + half_pi()),
            Self::FastSigmoid(k) => u / (R::ONE + R::from_f32(k) * magnitude(u)),
            Self::StraightThrough => u,
        }
    }

    /// d *= the surrogate's derivative at U - theta.
    fn scale<R: Real>(self, potentials: &[R], threshold: R, d: &mut [R]) {
        let both = potentials.iter().zip(d);
        match self {
            Self::Atan(a) => {
                let (half, by) = (R::from_f32(a / 2.0), half_pi::<R>() * R::from_f32(a));
                for (&u, d) in both {
                    let x = by * (u - threshold);
                    *d = *d * half / (R::ONE + x * x);
                }
            }
            Self::FastSigmoid(k) => {
                let k = R::from_f32(k);
                for (&u, d) in both {
                    let x = R::ONE + k * magnitude(u - threshold);
                    *d = *d / (x * x);
                }
            }
            Self::StraightThrough => {}
        }
    }
}

impl Neurons {
    /// U of a step from that of the step before it: `next` holds the currents I, and then U.
    pub(crate) fn step<R: Real>(&self, before: &[R], next: &mut [R]) {
        let (beta, threshold) = (R::from_f32(self.beta), R::from_f32(self.threshold));
        let both = before.iter().zip(next);
        if self.to_zero {
            for (&u, next) in both {
                let kept = if u > threshold { R::ZERO } else { u };
                *next += beta * kept;
            }
        } else {
            for (&u, next) in both {
                let reset = if u > threshold { threshold } else { R::ZERO };
                *next = beta * u + *next - reset;
            }
        }
    }

    /// U of all steps: `potentials` [T, neurons] holds the currents, and then U. U is zero before the first.
    pub(crate) fn steps<R: Real>(&self, potentials: &mut [R], neurons: usize) {
        let mut rest = potentials;
        while rest.len() >= 2 * neurons {
            let (before, after) = rest.split_at_mut(neurons);
            self.step(before, &mut after[..neurons]);
            rest = after;
        }
    }

    /// What passes on of U.
    pub(crate) fn fire<R: Real>(&self, potentials: &[R], spikes: &mut [R]) {
        let threshold = R::from_f32(self.threshold);
        let both = potentials.iter().zip(spikes);
        if self.smooth {
            both.for_each(|(&u, s)| *s = self.surrogate.smoothed(u - threshold));
        } else {
            both.for_each(|(&u, s)| *s = if u > threshold { R::ONE } else { R::ZERO });
        }
    }

    /// The gradients of the currents of all steps: `d` [T, neurons] holds those of the spikes, and then these.
    /// A reset passes no gradient.
    pub(crate) fn back<R: Real>(&self, potentials: &[R], d: &mut [R], neurons: usize) {
        let (beta, threshold) = (R::from_f32(self.beta), R::from_f32(self.threshold));
        self.surrogate.scale(potentials, threshold, d);
        let mut rest = d;
        let mut known = potentials;
        while rest.len() >= 2 * neurons {
            let last = rest.len() - neurons;
            let (before, after) = rest.split_at_mut(last);
            let at = last - neurons;
            let rows = before[at..].iter_mut().zip(&*after).zip(&known[at..last]);
            for ((d, &after), &u) in rows {
                let through = if self.to_zero && u > threshold { R::ZERO } else { beta };
                *d += through * after;
            }
            (rest, known) = (before, &known[..last]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arctan_is_the_inverse_of_the_tangent() {
        for at in -200..=200 {
            let x = f64::from(at) * 0.37;
            assert!((arctan(x) - x.atan()).abs() < 4e-15, "{x}: {}", arctan(x));
        }
        assert!((2.0 * half_pi::<f64>() - std::f64::consts::PI).abs() < 1e-14);
    }
}
