//! Clipping: gradients that are too long are made shorter, before weight decay is added.
//!
//! First the L2 norm over all parameters' gradients is brought down to `clip_norm`, as
//! `torch.nn.utils.clip_grad_norm_` does it: all are multiplied by `clip_norm / (norm + 1e-6)` where
//! that is below 1. Then each value is brought into [-`clip_value`, `clip_value`], as
//! `torch.nn.utils.clip_grad_value_` does it.
//!
//! The norm is summed in f64, parameter by parameter and row by row, from gradients that are the same
//! for any number of threads and intervals: so is the norm.

use eciton_plan::Optimiser;
use eciton_tensor::stride_for;

/// What is added to the norm, so that 0 can be divided by.
const EPSILON: f64 = 1e-6;

/// The clipping that an optimiser asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Clip {
    norm: Option<f64>,
    value: Option<f64>,
}

impl Clip {
    /// `None` where it asks for none.
    pub(super) fn of(optimiser: &Optimiser) -> Option<Self> {
        let clip = Self { norm: optimiser.clip_norm, value: optimiser.clip_value };
        (clip.norm.is_some() || clip.value.is_some()).then_some(clip)
    }

    /// Clips the gradients in place, each of rows of so many columns and perhaps padding. Returns their
    /// norm before, where it was needed; one that is not finite changes nothing.
    pub(super) fn apply(
        self,
        gradients: &mut [Vec<f32>],
        columns: impl Iterator<Item = usize>,
    ) -> Option<f64> {
        let norm = self.norm.map(|_| norm(gradients, columns));
        if let Some(factor) = self.factor(norm) {
            each(gradients, |value| value * factor);
        }
        if let Some(most) = self.value {
            each(gradients, |value| value.clamp(-most as f32, most as f32));
        }
        norm
    }
}

impl Clip {
    /// The factor of gradients of a norm; `None`: they stay as they are.
    fn factor(self, norm: Option<f64>) -> Option<f32> {
        let (most, norm) = (self.norm?, norm?);
        let factor = most / (norm + EPSILON);
        (factor < 1.0).then_some(factor as f32)
    }
}

/// The factor by which an optimiser clips gradients of a norm; `None`: they stay as they are.
pub(crate) fn factor(optimiser: &Optimiser, norm: Option<f64>) -> Option<f32> {
    Clip::of(optimiser)?.factor(norm)
}

fn each(gradients: &mut [Vec<f32>], change: impl Fn(f32) -> f32) {
    gradients.iter_mut().flatten().for_each(|value| *value = change(*value));
}

/// The L2 norm over all values. (A square of two f32 is exact in f64, and does not overflow there.)
fn norm(gradients: &[Vec<f32>], columns: impl Iterator<Item = usize>) -> f64 {
    let mut sum = 0.0;
    for (gradient, columns) in gradients.iter().zip(columns) {
        for row in gradient.chunks(stride_for(columns).max(1)) {
            sum = row.iter().take(columns).fold(sum, |sum, &value| sum + f64::from(value) * f64::from(value));
        }
    }
    sum.sqrt()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn clip(norm: Option<f64>, value: Option<f64>) -> Option<Clip> {
        Clip::of(&Optimiser { clip_norm: norm, clip_value: value, ..Optimiser::default() })
    }

    /// Two gradients, [2, 1] and [1, 2], with padding that must not count.
    fn padded() -> Vec<Vec<f32>> {
        let mut tall = vec![9.0; 2 * stride_for(1)];
        (tall[0], tall[stride_for(1)]) = (1.0, -2.0);
        let mut wide = vec![9.0; stride_for(2)];
        (wide[0], wide[1]) = (2.0, 4.0);
        vec![tall, wide]
    }

    fn values(gradients: &[Vec<f32>]) -> [f32; 4] {
        [gradients[0][0], gradients[0][stride_for(1)], gradients[1][0], gradients[1][1]]
    }

    #[test]
    fn a_long_gradient_is_scaled_and_a_short_one_is_not() {
        assert_eq!(clip(None, None), None);
        // The norm is sqrt(1 + 4 + 4 + 16) = 5.
        let mut gradients = padded();
        let norm = clip(Some(1.0), None).unwrap().apply(&mut gradients, [1, 2].into_iter());
        let factor = (1.0 / (5.0 + 1e-6)) as f32;
        assert_eq!((norm, values(&gradients)), (Some(5.0), [1.0, -2.0, 2.0, 4.0].map(|v: f32| v * factor)));
        // At 5 the factor is 5 / 5.000001; above it nothing changes.
        for (most, changed) in [(5.0, true), (5.000_001, false), (1e9, false)] {
            let mut gradients = padded();
            let norm = clip(Some(most), None).unwrap().apply(&mut gradients, [1, 2].into_iter());
            assert_eq!((norm, gradients != padded()), (Some(5.0), changed), "{most}");
        }
    }

    #[test]
    fn values_are_clipped_after_the_norm() {
        let mut gradients = padded();
        let norm = clip(None, Some(1.5)).unwrap().apply(&mut gradients, [1, 2].into_iter());
        assert_eq!((norm, values(&gradients)), (None, [1.0, -1.5, 1.5, 1.5]));
        let mut gradients = padded();
        let norm = clip(Some(2.5), Some(1.5)).unwrap().apply(&mut gradients, [1, 2].into_iter());
        let half = (2.5 / (5.0 + 1e-6)) as f32;
        assert_eq!((norm, values(&gradients)), (Some(5.0), [half, -2.0 * half, 2.0 * half, 1.5]));
    }

    #[test]
    fn the_ends_of_f32() {
        let mut zeros = vec![vec![0.0; 4]];
        assert_eq!(clip(Some(1e-30), None).unwrap().apply(&mut zeros, [1].into_iter()), Some(0.0));
        assert_eq!(zeros, [[0.0; 4]]);
        // A sum of squares far above f32 is a norm all the same.
        let mut large = vec![vec![f32::MAX], vec![f32::MAX]];
        let norm = clip(Some(1.0), None).unwrap().apply(&mut large, [1, 1].into_iter()).unwrap();
        assert!((norm / (f64::from(f32::MAX) * std::f64::consts::SQRT_2) - 1.0).abs() < 1e-15);
        assert!(
            large.iter().flatten().all(|v| (v - std::f32::consts::FRAC_1_SQRT_2).abs() < 1e-6),
            "{large:?}"
        );
        for bad in [f32::NAN, f32::INFINITY] {
            let mut gradients = vec![vec![1.0, bad]];
            let norm = clip(Some(1.0), None).unwrap().apply(&mut gradients, [2].into_iter()).unwrap();
            assert!(!norm.is_finite(), "{norm}");
        }
    }
}
