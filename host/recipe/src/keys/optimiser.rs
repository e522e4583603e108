//! The keys of `[optimiser]`.

use super::key::{Bounds, Group, Key, Kind, Write, key, names, value};
use crate::document::{Field, Found, number};
use crate::error::{Error, Result};
use crate::model::MAX_LAYERS;
use crate::optimiser::{Algorithm, Optimiser, Schedule, ScheduleUnit, WeightDecay};

/// Maximum number of epochs.
const MAX_EPOCHS: u64 = 1_000_000_000;

fn is_decay(value: f32) -> bool {
    value >= 0.0 && value.is_finite()
}

/// Type of the section's settings. In [`OPTIMISER`], `kind` and `schedule` precede the keys whose
/// meaning depends on them.
type To = Optimiser;

pub(super) const OPTIMISER: &[Key<Optimiser>] = &[
    key("kind", "Algorithm of the weight update", KIND)
        .also(&["name", "algorithm"])
        .flag("optimiser", "NAME", Group::Training),
    key("lr", "Learning rate", value!(number(Bounds::POSITIVE) => lr))
        .also(&["learning_rate", "learning-rate", "rate"])
        .flag("lr", "RATE", Group::Training),
    key("schedule", "Schedule of the learning rate", SCHEDULE).also(&["lr_schedule", "scheduler"]),
    key("warmup", "Number of epochs in which the learning rate rises from 0, before the schedule starts", value!(integer32(0, MAX_EPOCHS) => warmup))
        .also(&["warmup_epochs", "warm_up"]).absent("0"),
    key("warmup_steps", "Number of steps (weight updates) in which the learning rate rises from 0. The schedule then counts steps", value!(integer32(0, MAX_EPOCHS) => warmup_steps))
        .also(&["num_warmup_steps", "warmup_updates"]).absent("0"),
    key("schedule_unit", "Unit in which the schedule counts", value!(some choice(ScheduleUnit::ALL) => schedule_unit))
        .also(&["lr_interval"]).absent("step with warmup_steps, otherwise epoch"),
    key("final_lr", "Final learning rate of the schedules linear and cosine", FINAL_LR)
        .also(&["eta_min", "min_lr", "end_lr"])
        .absent("0"),
    key("step_every", "Number of epochs (or steps, by schedule_unit) between steps of the schedule step", STEP_EVERY).also(&["step_size"]).absent("100"),
    key("gamma", "Factor of the learning rate in the schedules step and exponential", GAMMA)
        .also(&["lr_decay"])
        .absent("0.1 for step, 0.99 for exponential"),
    key("clip_norm", "Maximum norm of the gradient over all parameters. Longer gradients are scaled down", value!(some number(Bounds::POSITIVE) => clip_norm))
        .also(&["max_norm", "clipnorm", "grad_clip"])
        .absent("no limit"),
    key("clip_value", "Maximum magnitude of each value of a gradient", value!(some number(Bounds::POSITIVE) => clip_value))
        .also(&["clipvalue"])
        .absent("no limit"),
    key("weight_decay", "Weight decay of all layers, or a list with one number for each layer, of which the last holds for all further layers", WEIGHT_DECAY)
        .also(&["wd", "l2"])
        .flag("weight-decay", "DECAY", Group::Training),
    key("freeze", "Layers whose parameters are not trained", value!(layers => freeze))
        .also(&["frozen", "freeze_layers"])
        .absent("none")
        .flag("freeze", "LAYERS", Group::Training),
    key("momentum", "Momentum of sgd", MOMENTUM).absent("0"),
    key("nesterov", "Nesterov momentum of sgd", NESTEROV).absent("false"),
    key("beta1", "Decay rate of the mean of gradients, for adam and adamw", BETA1),
    key("beta2", "Decay rate of the mean of squared gradients, for adam and adamw", BETA2),
    key("epsilon", "Number that adam and adamw add to the root, for numerical stability", EPSILON)
        .also(&["eps"])
        ,
];

type Declared = (Kind, Write<Optimiser>);

const KIND: Declared = (
    Kind::Choice(|| vec![Algorithm::sgd().name(), Algorithm::adam().name(), Algorithm::adamw().name()]),
    |optimiser, field, _| {
        let kinds = [Algorithm::sgd(), Algorithm::adam(), Algorithm::adamw()];
        let chosen = field.choice(&kinds.map(|kind| (kind.name(), kind)))?;
        if chosen.name() != optimiser.algorithm.name() {
            optimiser.algorithm = chosen;
        }
        Ok(())
    },
);

const SCHEDULE: Declared = (
    Kind::Choice(|| Schedule::ALL.iter().map(|schedule| schedule.name()).collect()),
    |optimiser, field, _| {
        let chosen = field.choice(&Schedule::ALL.map(|schedule| (schedule.name(), schedule)))?;
        if chosen.name() != optimiser.schedule.name() {
            optimiser.schedule = chosen;
        }
        Ok(())
    },
);

const FINAL_LR: Declared = (Kind::Number(Bounds::NOT_NEGATIVE), |optimiser, field, kind| {
    let value = kind.number(field)?;
    match &mut optimiser.schedule {
        Schedule::Linear { final_lr } | Schedule::Cosine { final_lr } => *final_lr = value,
        other => return Err(unscheduled(field, "linear and cosine", other)),
    }
    Ok(())
});

const STEP_EVERY: Declared = (Kind::Integer(1, MAX_EPOCHS), |optimiser, field, kind| {
    let value = kind.integer32(field)?;
    match &mut optimiser.schedule {
        Schedule::Step { step_every, .. } => *step_every = value,
        other => return Err(unscheduled(field, "step", other)),
    }
    Ok(())
});

const GAMMA: Declared = (Kind::Number(Bounds::above(0.0, 1.0)), |optimiser, field, kind| {
    let value = kind.number(field)?;
    match &mut optimiser.schedule {
        Schedule::Step { gamma, .. } | Schedule::Exponential { gamma } => *gamma = value,
        other => return Err(unscheduled(field, "step and exponential", other)),
    }
    Ok(())
});

const MOMENTUM: Declared = (Kind::Number(Bounds::SHARE_BELOW_1), |optimiser, field, kind| {
    let value = kind.number(field)?;
    match &mut optimiser.algorithm {
        Algorithm::Sgd { momentum, .. } => *momentum = value,
        other => return Err(misplaced(field, "sgd", other)),
    }
    Ok(())
});

const NESTEROV: Declared = (Kind::Flag, |optimiser, field, kind| {
    let value = kind.flag(field)?;
    match &mut optimiser.algorithm {
        Algorithm::Sgd { nesterov, .. } => *nesterov = value,
        other => return Err(misplaced(field, "sgd", other)),
    }
    Ok(())
});

const BETA1: Declared = (Kind::Number(Bounds::SHARE_BELOW_1), |optimiser, field, kind| {
    let value = kind.number(field)?;
    match &mut optimiser.algorithm {
        Algorithm::Adam { beta1, .. } | Algorithm::AdamW { beta1, .. } => *beta1 = value,
        other => return Err(misplaced(field, "adam and adamw", other)),
    }
    Ok(())
});

const BETA2: Declared = (Kind::Number(Bounds::SHARE_BELOW_1), |optimiser, field, kind| {
    let value = kind.number(field)?;
    match &mut optimiser.algorithm {
        Algorithm::Adam { beta2, .. } | Algorithm::AdamW { beta2, .. } => *beta2 = value,
        other => return Err(misplaced(field, "adam and adamw", other)),
    }
    Ok(())
});

const EPSILON: Declared = (Kind::Number(Bounds::POSITIVE), |optimiser, field, kind| {
    let value = kind.number(field)?;
    match &mut optimiser.algorithm {
        Algorithm::Adam { epsilon, .. } | Algorithm::AdamW { epsilon, .. } => *epsilon = value,
        other => return Err(misplaced(field, "adam and adamw", other)),
    }
    Ok(())
});

const WEIGHT_DECAY: Declared =
    (Kind::Other("a number >= 0, or a list of 1 to 256 such numbers"), |optimiser, field, kind| {
        let refuse = || field.refuse(kind.text(&field.name));
        optimiser.weight_decay = match &field.value {
            Found::List(items) if (1..=MAX_LAYERS as usize).contains(&items.len()) => items
                .iter()
                .map(|item| number(item, is_decay).ok_or_else(refuse))
                .collect::<Result<_, _>>()
                .map(WeightDecay::Layers)?,
            value => number(value, is_decay).map(WeightDecay::All).ok_or_else(refuse)?,
        };
        Ok(())
    });

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
