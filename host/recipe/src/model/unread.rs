//! Detection of `[model]` keys that have no effect, because none of the model's layers reads them.
//!
//! The check changes the value of each key and resolves the model again. If every change leaves the
//! model the same, no layer reads the key. The check therefore needs no table of the keys that each
//! layer kind reads.

use std::collections::BTreeSet;

use super::settings::{Layers, ModelSettings};
use super::{
    Activation, Aggregator, FirstWeights, LEAKY_SLOPE, MAX_HOPS, MAX_LAYERS, MAX_WIDTH, Model, ModelKind,
    Norm, Readout,
};
use crate::error::{Error, Result};
use crate::objective::TaskType;

/// Names of the keys that the user set individually by a flag, by `--set`, by a sweep or by a
/// calling program. All records compare equal, so that models are compared by their settings only.
#[derive(Clone, Debug, Default)]
pub struct SetKeys(BTreeSet<String>);

impl PartialEq for SetKeys {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl SetKeys {
    /// Records that the user set the key.
    pub(crate) fn add(&mut self, key: &str) {
        self.0.insert(key.to_owned());
    }

    fn has(&self, key: &str) -> bool {
        self.0.contains(key)
    }
}

/// Check of one key. The fields are its name, whether its value differs from the default, and
/// functions that change the value.
type Probe = (&'static str, bool, Vec<fn(&mut ModelSettings)>);

/// Returns the checks of all keys that layers may read. `loss`, `class_weights`, `focal`,
/// `edge_weights` and `jumping` are omitted, because other code rejects them if they have no
/// effect.
fn probes(settings: &ModelSettings) -> Vec<Probe> {
    let default = ModelSettings::default();
    let own = &settings.own;
    let counted = matches!(settings.layers, Layers::Count(_));
    let usual = |activation| counted && activation == settings.kind.activation();
    vec![
        // For tabular data, the kind `mlp` is chosen automatically.
        ("kind", false, vec![|s| s.kind = other(s.kind, [ModelKind::Gcn, ModelKind::Mlp])]),
        (
            "layers",
            settings.layers != default.layers && counted,
            vec![|s| {
                if let Layers::Count(count) = &mut s.layers {
                    *count = if *count < MAX_LAYERS { *count + 1 } else { 1 };
                }
            }],
        ),
        (
            "hidden",
            settings.hidden != default.hidden,
            vec![|s| s.hidden = if s.hidden <= MAX_WIDTH / 2 { s.hidden * 2 } else { s.hidden / 2 }],
        ),
        (
            "activation",
            settings.activation.is_some_and(|of| !usual(of)),
            vec![|s| s.activation = Some(Activation::Tanh), |s| s.activation = Some(Activation::Sigmoid)],
        ),
        (
            "activation_slope",
            settings.activation_slope.is_some_and(|slope| slope != LEAKY_SLOPE),
            vec![|s| s.activation_slope = Some(0.5), |s| s.activation_slope = Some(0.25)],
        ),
        ("dropout", settings.dropout != default.dropout, vec![|s| s.dropout = 0.25, |s| s.dropout = 0.375]),
        ("bias", settings.bias != default.bias, vec![|s| s.bias = !s.bias]),
        ("norm", settings.norm != default.norm, vec![|s| s.norm = other(s.norm, [Norm::Layer, Norm::L2])]),
        ("residual", settings.residual, vec![|s| s.residual = !s.residual]),
        (
            "first_weights",
            settings.first_weights != default.first_weights,
            vec![|s| s.first_weights = FirstWeights::Glorot, |s| s.first_weights = FirstWeights::FanIn],
        ),
        (
            "hops",
            own.hops.is_some(),
            vec![|s| {
                s.own.hops = Some(if s.own.hops == Some(MAX_HOPS) { 1 } else { s.own.hops.unwrap_or(2) + 1 });
            }],
        ),
        ("alpha", own.alpha.is_some(), vec![|s| s.own.alpha = Some(0.3), |s| s.own.alpha = Some(0.6)]),
        (
            "epsilon",
            own.epsilon.is_some(),
            vec![|s| s.own.epsilon = Some(0.3), |s| s.own.epsilon = Some(0.6)],
        ),
        (
            "train_epsilon",
            own.train_epsilon.is_some(),
            vec![|s| s.own.train_epsilon = Some(!s.own.train_epsilon.unwrap_or(false))],
        ),
        (
            "aggregator",
            own.aggregator.is_some(),
            vec![|s| {
                let now = s.own.aggregator.unwrap_or_default();
                s.own.aggregator = Some(other(now, [Aggregator::Mean, Aggregator::Max]));
            }],
        ),
        (
            "readout",
            own.readout.is_some(),
            vec![|s| {
                s.own.readout =
                    Some(other(s.own.readout.unwrap_or(Readout::Mean), [Readout::Sum, Readout::Max]))
            }],
        ),
        ("heads", own.heads.is_some(), vec![|s| s.own.heads = Some(1), |s| s.own.heads = Some(2)]),
        (
            "attention_dropout",
            own.attention_dropout.is_some(),
            vec![|s| s.own.attention_dropout = Some(0.3), |s| s.own.attention_dropout = Some(0.6)],
        ),
        (
            "negative_slope",
            own.negative_slope.is_some(),
            vec![|s| s.own.negative_slope = Some(0.3), |s| s.own.negative_slope = Some(0.6)],
        ),
        (
            "edge_features",
            own.edge_features == Some(true),
            vec![|s| s.own.edge_features = Some(!s.own.edge_features.unwrap_or(false))],
        ),
    ]
}

/// Returns the first of two values that differs from `now`.
fn other<T: PartialEq>(now: T, [first, second]: [T; 2]) -> T {
    if now == first { second } else { first }
}

impl ModelSettings {
    /// Records that the user set the key individually.
    pub(crate) fn note_set(&mut self, key: &str) {
        self.set_keys.add(key);
    }

    /// Rejects keys that none of the model's layers reads. Only keys that the user set, or whose
    /// value differs from the default, are checked.
    ///
    /// # Errors
    /// Returns [`Error::UnreadKey`] for such a key. Succeeds if the model cannot be resolved,
    /// because [`Model::resolve`] reports that error.
    pub fn check_read(&self, features: u32, classes: u32, task: TaskType) -> Result<()> {
        let resolve = |settings: &Self| Model::resolve(settings, features, classes, task);
        let Ok(model) = resolve(self) else { return Ok(()) };
        for (key, given, changes) in probes(self) {
            if !given && !self.set_keys.has(key) {
                continue;
            }
            let same = |change: &fn(&mut Self)| {
                let mut changed = self.clone();
                change(&mut changed);
                resolve(&changed).is_ok_and(|found| found == model)
            };
            // Setting the present value again changes nothing.
            let is_change = |change: &&fn(&mut Self)| {
                let mut changed = self.clone();
                change(&mut changed);
                changed != *self
            };
            let mut tried = changes.iter().filter(is_change).peekable();
            if tried.peek().is_some() && tried.all(same) {
                return Err(self.unread(key));
            }
        }
        if !self.init.is_empty()
            && let Layers::List(layers) = &self.layers
            && layers.iter().all(|layer| !layer.init.is_empty())
        {
            return Err(self.unread("init"));
        }
        Ok(())
    }

    fn unread(&self, key: &'static str) -> Error {
        let table = toml::Table::try_from(self).ok();
        let found = table.and_then(|table| table.get(key).map(toml::Value::to_string)).unwrap_or_default();
        let remedy = match self.layers {
            Layers::List(_) => {
                "change the list of layers, or remove the key: each layer has its own value, or is of a kind that does not read the key"
            }
            Layers::Count(_) => "remove it, or choose a model whose layers read it",
        };
        Error::UnreadKey { key, found, remedy }
    }
}

#[cfg(test)]
mod tests;
