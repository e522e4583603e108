//! Optimisers, with the update rules of the weights and the learning rates.

mod schedule;

use serde::{Deserialize, Serialize};

pub use schedule::Schedule;

use eciton_types::ids::{Layer, Round};

use crate::error::{Error, Result};

/// Section `[optimiser]` of a recipe. The default is Adam with the settings of Kipf and Welling.
/// They are a learning rate of 0.01, and a weight decay of 5e-4 on the first layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Optimiser {
    /// Update rule of the weights.
    #[serde(flatten)]
    pub algorithm: Algorithm,
    /// Base learning rate, above 0, from which the schedule starts.
    pub lr: f64,
    /// Schedule of the learning rate after the warm-up.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// Number of warm-up epochs, in which the learning rate rises linearly from 0 before the
    /// schedule begins.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup: u32,
    /// Number of warm-up steps (weight updates), in place of `warmup`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup_steps: u32,
    /// Unit in which the schedule counts. If `None`, it counts steps if `warmup_steps` is set, and
    /// epochs otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_unit: Option<ScheduleUnit>,
    /// Maximum L2 norm of the gradient over all parameters. A longer gradient is scaled down before
    /// weight decay is added (like `torch.nn.utils.clip_grad_norm_`; Pascanu et al. 2013).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// Maximum absolute value of each gradient element. It is applied after `clip_norm` and before
    /// weight decay (like `torch.nn.utils.clip_grad_value_`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_value: Option<f64>,
    /// Weight decay of each layer. In `sgd` and `adam`, the gradient becomes `g + decay * w`. In
    /// `adamw`, weights shrink by a factor of `1 - lr * decay` instead.
    pub weight_decay: WeightDecay,
    /// Indices of layers, from 0, whose parameters are frozen. Their gradients are not part of the
    /// norm that `clip_norm` limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub freeze: Vec<u32>,
}

impl Default for Optimiser {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::adam(),
            lr: 0.01,
            schedule: Schedule::Constant,
            warmup: 0,
            warmup_steps: 0,
            schedule_unit: None,
            clip_norm: None,
            clip_value: None,
            weight_decay: WeightDecay::default(),
            freeze: Vec::new(),
        }
    }
}

impl Optimiser {
    /// Returns true if the parameters of the layer are frozen, so that updates do not change them.
    #[must_use]
    pub fn freezes(&self, layer: Layer) -> bool {
        self.freeze.contains(&u32::from(layer.0))
    }

    /// Returns the learning rate of `step` (a weight update), counted from 1, in a run of `steps`
    /// steps with `per_epoch` steps per epoch. It depends only on these numbers and the settings.
    ///
    /// ```
    /// use eciton_recipe::{Optimiser, Schedule};
    /// use eciton_types::Round;
    /// let schedule = Schedule::Linear { final_lr: 0.0 };
    /// let optimiser = Optimiser { lr: 0.5, warmup: 1, schedule, ..Optimiser::default() };
    /// let rates: Vec<f64> = (1..=5).map(|epoch| optimiser.rate(Round(epoch), 5, 1)).collect();
    /// assert_eq!(rates, [0.25, 0.5, 0.375, 0.25, 0.125]);
    /// let optimiser = Optimiser { warmup: 0, warmup_steps: 3, ..optimiser };
    /// let rates: Vec<f64> = (1..=5).map(|step| optimiser.rate(Round(step), 5, 100)).collect();
    /// assert_eq!(rates, [0.125, 0.25, 0.375, 0.5, 0.25]);
    /// ```
    #[must_use]
    pub fn rate(&self, step: Round, steps: u32, per_epoch: u32) -> f64 {
        let per_epoch = per_epoch.max(1);
        let (warmup, at, all) = match self.unit() {
            ScheduleUnit::Epoch => (self.warmup, step.0.div_ceil(per_epoch), steps.div_ceil(per_epoch)),
            ScheduleUnit::Step if self.warmup_steps > 0 => (self.warmup_steps, step.0, steps),
            ScheduleUnit::Step => (self.warmup.saturating_mul(per_epoch), step.0, steps),
        };
        schedule::rate(self.lr, warmup, self.schedule, Round(at), all)
    }

    /// Returns the unit in which the schedule counts.
    fn unit(&self) -> ScheduleUnit {
        let by_warmup = if self.warmup_steps > 0 { ScheduleUnit::Step } else { ScheduleUnit::Epoch };
        self.schedule_unit.unwrap_or(by_warmup)
    }

    /// Checks that the warm-up is given in one unit, which suits the schedule.
    ///
    /// # Errors
    /// Returns [`Error::Together`] if `warmup_steps` is set together with `warmup`, or with a
    /// schedule that counts epochs.
    pub(crate) fn check_unit(&self) -> Result<()> {
        let together = |other, other_found: String, remedy| {
            let (key, found) = ("optimiser.warmup_steps", self.warmup_steps.to_string());
            Err(Error::Together { key, found, other, other_found, remedy })
        };
        if self.warmup_steps == 0 {
            return Ok(());
        }
        if self.warmup > 0 {
            return together("optimiser.warmup", self.warmup.to_string(), "leave one of them out");
        }
        match self.unit() {
            ScheduleUnit::Step => Ok(()),
            ScheduleUnit::Epoch => together(
                "optimiser.schedule_unit",
                "\"epoch\"".to_owned(),
                "set optimiser.schedule_unit to \"step\", or set the number of epochs optimiser.warmup",
            ),
        }
    }
}

/// Unit in which a schedule of the learning rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleUnit {
    /// The rate changes between epochs.
    Epoch,
    /// The rate changes between steps (weight updates).
    Step,
}

impl ScheduleUnit {
    /// All units with their names in recipes.
    pub const ALL: [(&'static str, Self); 2] = [("epoch", Self::Epoch), ("step", Self::Step)];
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Update rule that computes new weights from gradients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Algorithm {
    /// Stochastic gradient descent, `v = momentum * v + g; w -= lr * v`. With `nesterov`, the step
    /// is `w -= lr * (g + momentum * v)`.
    Sgd {
        /// Momentum coefficient, in [0, 1).
        momentum: f64,
        /// True for Nesterov momentum.
        nesterov: bool,
    },
    /// Adam (Kingma and Ba 2015) with bias correction.
    Adam {
        /// Decay rate of the running mean of the gradients, in [0, 1).
        beta1: f64,
        /// Decay rate of the running mean of the squared gradients, in [0, 1).
        beta2: f64,
        /// Number above 0 that is added to the denominator, which is a square root.
        epsilon: f64,
    },
    /// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
    AdamW {
        /// Decay rate of the running mean of the gradients, in [0, 1).
        beta1: f64,
        /// Decay rate of the running mean of the squared gradients, in [0, 1).
        beta2: f64,
        /// Number above 0 that is added to the denominator, which is a square root.
        epsilon: f64,
    },
}

impl Algorithm {
    /// Returns the number of moments that the rule stores per weight. SGD stores the velocity. Adam
    /// and AdamW store the running means of the gradients and of their squares.
    #[must_use]
    pub const fn moments(self) -> usize {
        match self {
            Self::Sgd { .. } => 1,
            Self::Adam { .. } | Self::AdamW { .. } => 2,
        }
    }

    /// Returns SGD without momentum.
    #[must_use]
    pub const fn sgd() -> Self {
        Self::Sgd { momentum: 0.0, nesterov: false }
    }

    /// Returns Adam with beta1 0.9, beta2 0.999 and epsilon 1e-8.
    #[must_use]
    pub const fn adam() -> Self {
        Self::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }

    /// Returns AdamW with beta1 0.9, beta2 0.999 and epsilon 1e-8.
    #[must_use]
    pub const fn adamw() -> Self {
        Self::AdamW { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }

    /// Returns the name of the optimiser's algorithm in recipes, for instance `adam`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Sgd { .. } => "sgd",
            Self::Adam { .. } => "adam",
            Self::AdamW { .. } => "adamw",
        }
    }
}

/// Weight decay of the layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WeightDecay {
    /// The same decay for every layer.
    All(f64),
    /// One decay per layer, in the order of the layers. Further layers have the last decay of the
    /// list. Surplus numbers are ignored.
    Layers(Vec<f64>),
}

impl WeightDecay {
    /// Returns the weight decay of a layer's parameters, including its biases.
    #[must_use]
    pub fn for_layer(&self, layer: eciton_types::Layer) -> f64 {
        match self {
            Self::All(decay) => *decay,
            Self::Layers(decays) => decays.get(layer.index()).or(decays.last()).copied().unwrap_or(0.0),
        }
    }
}

impl Default for WeightDecay {
    /// Returns a decay of 5e-4 for the first layer, and of 0 for all others.
    fn default() -> Self {
        Self::Layers(vec![5e-4, 0.0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eciton_types::Layer;

    #[test]
    fn decay_of_the_last_number_holds_further_on() {
        let decay = WeightDecay::default();
        let found: Vec<f64> = (0..4).map(|layer| decay.for_layer(Layer(layer))).collect();
        assert_eq!(found, [5e-4, 0.0, 0.0, 0.0]);
        assert_eq!(WeightDecay::All(0.1).for_layer(Layer(7)), 0.1);
        assert_eq!(WeightDecay::Layers(vec![]).for_layer(Layer(0)), 0.0);
    }
}
