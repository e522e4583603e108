//! The keys of `[optimiser]`.

use super::{Key, is_positive, is_probability, key};
use crate::document::{Field, Found, number};
use crate::error::{Error, Result};
use crate::model::MAX_LAYERS;
use crate::optimiser::{Algorithm, Optimiser, Schedule, WeightDecay};

fn is_decay(value: f32) -> bool {
    value >= 0.0 && value.is_finite()
}

/// `kind` and `schedule` come before the keys that belong to some of theirs.
pub(super) const OPTIMISER: &[Key<Optimiser>] = &[
    key("kind", &["name", "algorithm"], "sgd, adam or adamw", |optimiser, field| {
        let kinds = [Algorithm::sgd(), Algorithm::adam(), Algorithm::adamw()];
        let chosen = field.choice(&kinds.map(|kind| (kind.name(), kind)))?;
        if chosen.name() != optimiser.algorithm.name() {
            optimiser.algorithm = chosen;
        }
        Ok(())
    }),
    key("lr", &["learning_rate", "learning-rate", "rate"], "learning rate: above 0", |optimiser, field| {
        optimiser.lr = field.number("a number above 0, at most 3.4e38", is_positive)?;
        Ok(())
    }),
    key(
        "schedule",
        &["lr_schedule", "scheduler"],
        "how the rate goes on: constant, linear, cosine, step or exponential",
        |optimiser, field| {
            let chosen = field.choice(&Schedule::ALL.map(|schedule| (schedule.name(), schedule)))?;
            if chosen.name() != optimiser.schedule.name() {
                optimiser.schedule = chosen;
            }
            Ok(())
        },
    ),
    key(
        "warmup",
        &["warmup_epochs", "warm_up"],
        "epochs in which the rate rises from 0, before the schedule begins: 0 to 10^9",
        |optimiser, field| {
            optimiser.warmup = field.integer32(0..=1_000_000_000)?;
            Ok(())
        },
    ),
    key(
        "final_lr",
        &["eta_min", "min_lr", "end_lr"],
        "the rate that linear and cosine end at: 0 or above",
        |optimiser, field| {
            let value = field.number("a number of 0 or above", is_decay)?;
            match &mut optimiser.schedule {
                Schedule::Linear { final_lr } | Schedule::Cosine { final_lr } => *final_lr = value,
                other => return Err(unscheduled(field, "linear and cosine", other)),
            }
            Ok(())
        },
    ),
    key("step_every", &["step_size"], "epochs from one step to the next: 1 to 10^9", |optimiser, field| {
        let value = field.integer32(1..=1_000_000_000)?;
        match &mut optimiser.schedule {
            Schedule::Step { step_every, .. } => *step_every = value,
            other => return Err(unscheduled(field, "step", other)),
        }
        Ok(())
    }),
    key("gamma", &["lr_decay"], "the factor of step and exponential: 0 < gamma <= 1", |optimiser, field| {
        let value = field.number("a number with 0 < gamma <= 1", |v| v > 0.0 && v <= 1.0)?;
        match &mut optimiser.schedule {
            Schedule::Step { gamma, .. } | Schedule::Exponential { gamma } => *gamma = value,
            other => return Err(unscheduled(field, "step and exponential", other)),
        }
        Ok(())
    }),
    key(
        "clip_norm",
        &["max_norm", "clipnorm", "grad_clip"],
        "longest gradient, over all parameters at once; longer ones are scaled down: above 0",
        |optimiser, field| {
            optimiser.clip_norm = Some(field.number("a number above 0, at most 3.4e38", is_positive)?);
            Ok(())
        },
    ),
    key(
        "clip_value",
        &["clipvalue"],
        "largest magnitude of each value of a gradient: above 0",
        |optimiser, field| {
            optimiser.clip_value = Some(field.number("a number above 0, at most 3.4e38", is_positive)?);
            Ok(())
        },
    ),
    key(
        "weight_decay",
        &["wd", "l2"],
        "weight decay: a number for all layers, or a list with one for each layer (the last holds for all further ones)",
        |optimiser, field| {
            optimiser.weight_decay = weight_decay(field)?;
            Ok(())
        },
    ),
    key(
        "freeze",
        &["frozen", "freeze_layers"],
        "layers, from 0, whose parameters stay as they are: [0, 1]; left out: none",
        |optimiser, field| {
            optimiser.freeze = field.layers()?;
            Ok(())
        },
    ),
    key("momentum", &[], "sgd's momentum: 0 <= momentum < 1", |optimiser, field| {
        let value = field.number("a number with 0 <= momentum < 1", is_probability)?;
        match &mut optimiser.algorithm {
            Algorithm::Sgd { momentum, .. } => *momentum = value,
            other => return Err(misplaced(field, "sgd", other)),
        }
        Ok(())
    }),
    key("nesterov", &[], "whether sgd's step looks ahead: true or false", |optimiser, field| {
        let value = field.flag()?;
        match &mut optimiser.algorithm {
            Algorithm::Sgd { nesterov, .. } => *nesterov = value,
            other => return Err(misplaced(field, "sgd", other)),
        }
        Ok(())
    }),
    key("beta1", &[], "decay of adam's mean: 0 <= beta1 < 1", |optimiser, field| {
        let value = field.number("a number with 0 <= beta1 < 1", is_probability)?;
        match &mut optimiser.algorithm {
            Algorithm::Adam { beta1, .. } | Algorithm::AdamW { beta1, .. } => *beta1 = value,
            other => return Err(misplaced(field, "adam and adamw", other)),
        }
        Ok(())
    }),
    key("beta2", &[], "decay of adam's mean square: 0 <= beta2 < 1", |optimiser, field| {
        let value = field.number("a number with 0 <= beta2 < 1", is_probability)?;
        match &mut optimiser.algorithm {
            Algorithm::Adam { beta2, .. } | Algorithm::AdamW { beta2, .. } => *beta2 = value,
            other => return Err(misplaced(field, "adam and adamw", other)),
        }
        Ok(())
    }),
    key("epsilon", &["eps"], "what adam adds to the root: above 0", |optimiser, field| {
        let value = field.number("a number above 0, at most 3.4e38", is_positive)?;
        match &mut optimiser.algorithm {
            Algorithm::Adam { epsilon, .. } | Algorithm::AdamW { epsilon, .. } => *epsilon = value,
            other => return Err(misplaced(field, "adam and adamw", other)),
        }
        Ok(())
    }),
];

fn weight_decay(field: &Field) -> Result<WeightDecay> {
    let allowed = "a number >= 0, or a list of 1 to 64 such numbers";
    let refuse = || field.refuse(allowed);
    match &field.value {
        Found::List(items) if (1..=MAX_LAYERS as usize).contains(&items.len()) => items
            .iter()
            .map(|item| number(item, is_decay).ok_or_else(refuse))
            .collect::<Result<_, _>>()
            .map(WeightDecay::Layers),
        value => number(value, is_decay).map(WeightDecay::All).ok_or_else(refuse),
    }
}

fn misplaced(field: &Field, wanted: &str, found: &Algorithm) -> Error {
    let found = found.name();
    field.refuse(format!("left out: it belongs to {wanted}, and optimiser.kind is {found} (set that first)"))
}

fn unscheduled(field: &Field, wanted: &str, found: &Schedule) -> Error {
    let found = found.name();
    field.refuse(format!(
        "left out: it belongs to {wanted}, and optimiser.schedule is {found} (set that first)"
    ))
}
