//! Elementwise optimiser steps, with the formulas of PyTorch.
#![allow(unsafe_code)]

use crate::simd::dispatch;

/// Constants of Adam or AdamW at step t (Kingma and Ba 2015).
#[derive(Debug, Clone, Copy)]
pub struct Adam {
    /// Step size lr / (1 - beta1^t)
    pub step_size: f32,
    /// Square root of the second bias correction, sqrt(1 - beta2^t)
    pub bias2_sqrt: f32,
    /// Decay rate of the first moment, beta1
    pub beta1: f32,
    /// Decay rate of the second moment, beta2
    pub beta2: f32,
    /// Constant epsilon, which is added to the denominator
    pub epsilon: f32,
    /// L2 penalty, which is multiplied by the weight and added to the gradient. It is 0 for AdamW.
    pub decay: f32,
    /// Factor by which the weight is multiplied before the update. It is 1 - lr * decay for AdamW,
    /// otherwise 1.
    pub shrink: f32,
}

dispatch! {
    /// Applies one step of Adam or AdamW to `weights`. `first` and `second` are the moments, and
    /// all slices have the same length.
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
    /// Applies one step of gradient descent with momentum, m = momentum m + g, then w -= lr m. With
    /// Nesterov momentum the update is w -= lr (g + momentum m).
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
