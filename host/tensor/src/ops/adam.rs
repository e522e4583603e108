//! Steps of the optimisers, elementwise (PyTorch's formulas).
#![allow(unsafe_code)]

use crate::simd::dispatch;

/// Adam's constants at one step (Kingma and Ba 2015).
#[derive(Debug, Clone, Copy)]
pub struct Adam {
    /// lr / (1 - beta1^t)
    pub step_size: f32,
    /// sqrt(1 - beta2^t)
    pub bias2_sqrt: f32,
    /// beta1
    pub beta1: f32,
    /// beta2
    pub beta2: f32,
    /// epsilon
    pub epsilon: f32,
    /// Added to the gradient, times the weight (L2).
    pub decay: f32,
    /// Factor of the weight before the update: 1 - lr * decay for AdamW, else 1.
    pub shrink: f32,
}

dispatch! {
    /// One step of Adam or AdamW over equal-length slices.
    pub fn adam(constants: Adam, weights: &mut [f32], gradient: &[f32], first: &mut [f32], second: &mut [f32]) = adam_body
}

#[inline(always)]
fn adam_body<const FMA: bool>(
    c: Adam,
    weights: &mut [f32],
    gradient: &[f32],
    first: &mut [f32],
    second: &mut [f32],
) {
    for (((w, &g), m), v) in weights.iter_mut().zip(gradient).zip(first).zip(second) {
        let g = g + c.decay * *w;
        *m = *m * c.beta1 + g * (1.0 - c.beta1);
        *v = *v * c.beta2 + g * g * (1.0 - c.beta2);
        let denominator = v.sqrt() / c.bias2_sqrt + c.epsilon;
        *w = *w * c.shrink - c.step_size * (*m / denominator);
    }
}

dispatch! {
    /// One step of gradient descent: m = momentum m + g, then w -= lr m, or w -= lr (g + momentum m)
    /// with Nesterov's look ahead.
    pub fn sgd(lr: f32, momentum: f32, nesterov: bool, decay: f32, weights: &mut [f32], gradient: &[f32], velocity: &mut [f32]) = sgd_body
}

#[inline(always)]
fn sgd_body<const FMA: bool>(
    lr: f32,
    momentum: f32,
    nesterov: bool,
    decay: f32,
    weights: &mut [f32],
    gradient: &[f32],
    velocity: &mut [f32],
) {
    for ((w, &g), m) in weights.iter_mut().zip(gradient).zip(velocity) {
        let g = g + decay * *w;
        *m = *m * momentum + g;
        *w -= lr * if nesterov { g + momentum * *m } else { *m };
    }
}
