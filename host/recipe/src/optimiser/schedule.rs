//! Learning rate of each epoch or step, which is a warm-up followed by a schedule.
//!
//! The schedule counts epochs, or steps (weight updates) with `schedule_unit = "step"` or
//! `warmup_steps`. `lr` is the base rate, W the length of the warm-up, and E the total number of
//! epochs or steps. Epoch or step e, counted from 1, has this rate:
//!
//! * If e <= W, it is `lr * e / (W + 1)`. This line from 0 reaches `lr` right after the warm-up.
//! * Otherwise it is the rate of the schedule. There, k = e - 1 - W is the number of epochs or steps
//!   since the warm-up. The schedule has K = E - W of them in total:
//!
//! | schedule | rate | in `torch.optim.lr_scheduler` |
//! | --- | --- | --- |
//! | `constant` | `lr` | none |
//! | `linear` | `lr + (final_lr - lr) * k / K` | `LinearLR(start_factor=1, end_factor=final_lr / lr, total_iters=K)` |
//! | `cosine` | `final_lr + (lr - final_lr) * (1 + cos(pi * k / K)) / 2` | `CosineAnnealingLR(T_max=K, eta_min=final_lr)` |
//! | `step` | `lr * gamma^floor(k / step_every)` | `StepLR(step_size=step_every, gamma=gamma)` |
//! | `exponential` | `lr * gamma^k` | `ExponentialLR(gamma=gamma)` |
//!
//! `final_lr` is the rate of a hypothetical epoch or step after the last one, so none is trained at a
//! rate of 0. In PyTorch, the warm-up is `LinearLR(start_factor=1 / (W + 1), total_iters=W)`,
//! joined to the schedule by `SequentialLR(milestones=[W])`. The cosine schedule is that of
//! Loshchilov and Hutter (2017, equation 5) without restarts.
//!
//! The computation uses only sums, products and quotients of f64, so all machines compute identical
//! rates. The cosine functions of different C libraries differ in the last bit.

use serde::{Deserialize, Serialize};

use eciton_types::ids::Round;

/// Schedule of the learning rate after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "schedule", rename_all = "lowercase")]
pub enum Schedule {
    /// The rate is constant.
    #[default]
    Constant,
    /// The rate changes linearly from `lr` to `final_lr`.
    Linear {
        /// Rate of a hypothetical epoch or step after the last one, at least 0.
        final_lr: f64,
    },
    /// The rate follows half a cosine wave from `lr` to `final_lr`.
    Cosine {
        /// Rate of a hypothetical epoch or step after the last one, at least 0.
        final_lr: f64,
    },
    /// The rate is multiplied by `gamma` after every `step_every` epochs or steps.
    Step {
        /// Number of epochs or steps between multiplications, at least 1.
        step_every: u32,
        /// Factor of each multiplication, in (0, 1].
        gamma: f64,
    },
    /// The rate is multiplied by `gamma` after every epoch or step.
    Exponential {
        /// Factor of each multiplication, in (0, 1].
        gamma: f64,
    },
}

impl Schedule {
    /// All schedules with their default settings. `linear` and `cosine` decrease to 0, `step`
    /// divides the rate by ten every hundred epochs, and `exponential` decreases it by 1 % per
    /// epoch.
    pub const ALL: [Self; 5] = [
        Self::Constant,
        Self::Linear { final_lr: 0.0 },
        Self::Cosine { final_lr: 0.0 },
        Self::Step { step_every: 100, gamma: 0.1 },
        Self::Exponential { gamma: 0.99 },
    ];

    /// Returns the name of the learning rate schedule in recipes, for instance `cosine`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Linear { .. } => "linear",
            Self::Cosine { .. } => "cosine",
            Self::Step { .. } => "step",
            Self::Exponential { .. } => "exponential",
        }
    }
}

/// Returns the learning rate of an epoch (or step) in a run of `epochs` epochs (or steps). The module
/// documentation has the formulas. Epochs after the last one have the final rate of the schedule.
pub(super) fn rate(lr: f64, warmup: u32, schedule: Schedule, epoch: Round, epochs: u32) -> f64 {
    let epoch = epoch.0.max(1);
    if epoch <= warmup {
        return lr * f64::from(epoch) / (f64::from(warmup) + 1.0);
    }
    let since = epoch - 1 - warmup;
    // The share is in [0, 1]. A run that consists of warm-up only does not reach this line.
    let share = || {
        let all = epochs.saturating_sub(warmup).max(1);
        f64::from(since.min(all)) / f64::from(all)
    };
    match schedule {
        Schedule::Constant => lr,
        Schedule::Linear { final_lr } => lr + (final_lr - lr) * share(),
        Schedule::Cosine { final_lr } => final_lr + (lr - final_lr) * half_wave(share()),
        Schedule::Step { step_every, gamma } => lr * power(gamma, since / step_every.max(1)),
        Schedule::Exponential { gamma } => lr * power(gamma, since),
    }
}

/// Returns `base` to the power of `exponent`, computed by repeated squaring with at most 64
/// products.
fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}

/// Returns `(1 + cos(pi x)) / 2` for x in [0, 1], which equals `cos^2(pi x / 2)`.
fn half_wave(x: f64) -> f64 {
    let quarter = |x: f64| std::f64::consts::FRAC_PI_2 * x;
    if x <= 0.5 {
        let cosine = series(0.0, quarter(x));
        cosine * cosine
    } else {
        // Near 1 the cosine is small, so the sine of the complement is more accurate.
        let y = quarter(1.0 - x);
        let sine = y * series(1.0, y);
        sine * sine
    }
}

/// Returns `cos(y)` if `first` is 0, or `sin(y) / y` if `first` is 1, for y from 0 to pi / 4. It
/// sums ten terms of the Taylor series, so the error is below 1e-20.
fn series(first: f64, y: f64) -> f64 {
    let (mut sum, square) = (1.0, y * y);
    for term in (1..=10).rev() {
        let n = 2.0 * f64::from(term) + first;
        sum = 1.0 - sum * square / (n * (n - 1.0));
    }
    sum
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rates(lr: f64, warmup: u32, schedule: Schedule, epochs: u32) -> Vec<f64> {
        (1..=epochs).map(|e| rate(lr, warmup, schedule, Round(e), epochs)).collect()
    }

    fn near(found: &[f64], wanted: &[f64]) {
        assert_eq!(found.len(), wanted.len());
        for (found_one, wanted_one) in found.iter().zip(wanted) {
            let close = (found_one - wanted_one).abs() <= 4.0 * f64::EPSILON * wanted_one.abs();
            assert!(close, "{found:?}, but {wanted:?}");
        }
    }

    #[test]
    fn values_worked_by_hand() {
        near(&rates(0.1, 0, Schedule::Constant, 3), &[0.1, 0.1, 0.1]);
        near(&rates(0.4, 3, Schedule::Constant, 5), &[0.1, 0.2, 0.3, 0.4, 0.4]);
        near(&rates(1.0, 0, Schedule::Linear { final_lr: 0.0 }, 4), &[1.0, 0.75, 0.5, 0.25]);
        near(&rates(1.0, 1, Schedule::Linear { final_lr: 0.2 }, 5), &[0.5, 1.0, 0.8, 0.6, 0.4]);
        let half = std::f64::consts::FRAC_1_SQRT_2;
        let cosine = [1.0, (1.0 + half) / 2.0, 0.5, (1.0 - half) / 2.0];
        near(&rates(1.0, 0, Schedule::Cosine { final_lr: 0.0 }, 4), &cosine);
        let raised: Vec<f64> = cosine.iter().map(|c| 0.5 + 1.5 * c).collect();
        near(&rates(2.0, 0, Schedule::Cosine { final_lr: 0.5 }, 4), &raised);
        let step = Schedule::Step { step_every: 2, gamma: 0.5 };
        near(&rates(1.0, 0, step, 7), &[1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125]);
        near(&rates(0.9, 2, step, 6), &[0.3, 0.6, 0.9, 0.9, 0.45, 0.45]);
        near(&rates(1.0, 0, Schedule::Exponential { gamma: 0.5 }, 4), &[1.0, 0.5, 0.25, 0.125]);
    }

    #[test]
    fn the_wave_is_the_cosines_to_its_last_digits() {
        for all in [1, 2, 3, 7, 200, 1000] {
            for k in 0..=all {
                let x = f64::from(k) / f64::from(all);
                let wanted = (1.0 + (std::f64::consts::PI * x).cos()) / 2.0;
                assert!((half_wave(x) - wanted).abs() <= 3e-16, "{k} of {all}: {}", half_wave(x));
            }
        }
        assert_eq!((half_wave(0.0), half_wave(1.0)), (1.0, 0.0));
    }

    #[test]
    fn powers_are_repeated_products() {
        for exponent in 0..200u32 {
            let wanted = (0..exponent).fold(1.0, |product: f64, _| product * 0.99);
            assert!((power(0.99, exponent) / wanted - 1.0).abs() < 1e-13);
        }
        assert_eq!(
            (power(0.5, 1000), power(0.5, u32::MAX), power(1.0, u32::MAX)),
            (0.5f64.powi(1000), 0.0, 1.0)
        );
    }

    #[test]
    fn the_ends_are_finite_and_never_above_the_base() {
        for schedule in Schedule::ALL {
            for (warmup, epochs) in [(0u32, 1u32), (1, 1), (5, 1), (0, 1_000_000_000), (1_000_000_000, 7)] {
                for epoch in [0, 1, 2, 6, 7, epochs, epochs.saturating_add(9), u32::MAX] {
                    let found = rate(0.1, warmup, schedule, Round(epoch), epochs);
                    assert!((0.0..=0.1).contains(&found), "{schedule:?} {warmup} {epoch}/{epochs}: {found}");
                }
            }
        }
        let rising = Schedule::Linear { final_lr: 1.0 };
        assert_eq!(rate(0.1, 0, rising, Round(11), 10), 1.0);
    }
}
