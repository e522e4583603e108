//! The focal loss of one row: Lin et al. 2017, "Focal Loss for Dense Object Detection", equation 4.

use eciton_sdk::prelude::*;

/// Below this 1 - p, -log p and -log p / (1 - p) are taken from a series: log p of a p near 1 is rounding.
const NEAR: f32 = 1.0 / 64.0;

/// -weight * (1 - p)^gamma log p of p = softmax(x + bias)\[class\], gamma > 0; `grad` receives its
/// gradient by x.
pub(crate) fn of_class<R: Real>(x: &[R], bias: &[R], class: usize, weight: R, gamma: R, grad: &mut [R]) -> R {
    let mut largest = x[0] + bias[0];
    for ((g, &x), &b) in grad.iter_mut().zip(x).zip(bias) {
        *g = x + b;
        largest = largest.max(*g);
    }
    let score = grad[class];
    // Of the other classes alone, so that 1 - p loses no digit where p is near 1.
    let mut others = R::ZERO;
    for (at, g) in grad.iter_mut().enumerate() {
        *g = (*g - largest).exp();
        if at != class {
            others += *g;
        }
    }
    let sum = others + grad[class];
    let (p, missed) = (grad[class] / sum, others / sum);
    // -log p, and the same over 1 - p.
    let (unlikely, ratio) = if missed < R::from_f32(NEAR) {
        let ratio = series(missed);
        (missed * ratio, ratio)
    } else {
        let unlikely = largest + sum.ln() - score;
        (unlikely, unlikely / missed)
    };
    let focus = if missed > R::ZERO { (gamma * missed.ln()).exp() } else { R::ZERO };
    let scale = weight * focus * (R::ONE + gamma * p * ratio);
    for g in grad.iter_mut() {
        *g *= scale / sum;
    }
    // p - 1 = -(1 - p).
    grad[class] = -(scale * missed);
    weight * focus * unlikely
}

/// -log(1 - q) / q = 1 + q / 2 + q^2 / 3 + ..., for q below [`NEAR`], within 1e-15.
fn series<R: Real>(q: R) -> R {
    (1..=8u8).rev().fold(R::ZERO, |sum, n| sum * q + R::ONE / R::from_f32(f32::from(n)))
}
