//! Update rule of an optimiser in one step, with the constants that are the same for all
//! parameters.

use eciton_recipe::Algorithm;
use eciton_tensor::ops::adam::{self, Adam};

/// Update rule of an optimiser in one step.
pub(crate) enum Rule {
    Sgd { lr: f32, momentum: f32, nesterov: bool },
    Adam { constants: Adam, decoupled: bool, lr: f64 },
}

impl Rule {
    /// Creates the update rule for step `step`, counted from 1, with the learning rate `lr`.
    pub(crate) fn new(algorithm: Algorithm, lr: f64, step: u32) -> Self {
        match algorithm {
            Algorithm::Sgd { momentum, nesterov } => {
                Self::Sgd { lr: lr as f32, momentum: momentum as f32, nesterov }
            }
            Algorithm::Adam { beta1, beta2, epsilon } | Algorithm::AdamW { beta1, beta2, epsilon } => {
                let power = |beta: f64| beta.powi(i32::try_from(step).unwrap_or(i32::MAX));
                let constants = Adam {
                    step_size: (lr / (1.0 - power(beta1))) as f32,
                    bias2_sqrt: (1.0 - power(beta2)).sqrt() as f32,
                    beta1: beta1 as f32,
                    beta2: beta2 as f32,
                    epsilon: epsilon as f32,
                    decay: 0.0,
                    shrink: 1.0,
                };
                let decoupled = matches!(algorithm, Algorithm::AdamW { .. });
                Self::Adam { constants, decoupled, lr }
            }
        }
    }

    /// Updates a parameter's `values` and its optimiser moments `first` and `second` in place.
    /// `decay` is the weight decay.
    pub(crate) fn step(
        &self,
        decay: f32,
        values: &mut [f32],
        gradient: &[f32],
        first: &mut [f32],
        second: &mut [f32],
    ) {
        match *self {
            Self::Sgd { lr, momentum, nesterov } => {
                adam::sgd(lr, momentum, nesterov, decay, values, gradient, first)
            }
            Self::Adam { constants, decoupled, lr } => {
                let constants = if decoupled {
                    Adam { shrink: (1.0 - lr * f64::from(decay)) as f32, ..constants }
                } else {
                    Adam { decay, ..constants }
                };
                adam::adam(constants, values, gradient, first, second);
            }
        }
    }
}
