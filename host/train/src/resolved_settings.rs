//! Settings of a run that follow from its data or its model, as texts with value and origin.

use eciton_graph::names::Names;
use eciton_recipe::{Activation, Choice, Config, Layers, Model, Norm, NormaliseFeatures};
use eciton_runs::report::ResolvedSetting;

use crate::data::Inputs;

/// Value of the setting `data.normalise_features` for features without scaling.
pub(crate) const NOT_SCALED: &str = "not scaled";

/// Returns all resolved settings, in the order in which they act.
pub(crate) fn resolved_settings(
    config: &Config,
    model: &Model,
    inputs: &Inputs,
    scaled: NormaliseFeatures,
) -> Vec<ResolvedSetting> {
    let names = &inputs.dataset.names;
    let mut all = vec![split(config, inputs), features(config, scaled)];
    all.extend(edges(model, inputs.shape.edge_features, names));
    all.push(activation(config, model));
    all.push(norm(config, model));
    let of_task = |set: bool| match set {
        false => format!("default of {}", inputs.task.name()),
        true => "set".to_owned(),
    };
    all.push(one("model.loss", "loss", model.loss.name(), &of_task(config.model.loss.is_some())));
    all.push(one("run.metric", "metric", inputs.metric.name(), &of_task(config.run.metric.is_some())));
    for choice in chosen(config) {
        match all.iter_mut().find(|known| known.key == choice.key) {
            Some(known) => known.from = choice.from,
            None => all.push(choice),
        }
    }
    all
}

/// Returns the settings that were chosen for the data set. Their names are their keys in a recipe.
pub(crate) fn chosen(config: &Config) -> Vec<ResolvedSetting> {
    let said = |made: &Choice| {
        let value = kernels(&made.value).unwrap_or_else(|| made.value.clone());
        one(&made.key, &made.key, &value, &made.origin())
    };
    config.choices.made.iter().map(said).collect()
}

/// Returns the kernel names in a TOML list of layers, joined by commas. Returns `None` if `value`
/// is no such list.
fn kernels(value: &str) -> Option<String> {
    let layers = value.strip_prefix("[{")?;
    let kernel = |layer: &str| Some(layer.split_once("kernel = \"")?.1.split_once('"')?.0.to_owned());
    Some(layers.split('}').filter_map(kernel).collect::<Vec<_>>().join(", "))
}

fn one(key: &str, name: &str, value: &str, from: &str) -> ResolvedSetting {
    let [key, name, value, from] = [key, name, value, from].map(str::to_owned);
    ResolvedSetting { key, name, value, from }
}

/// Describes the split into training, validation and test rows.
fn split(config: &Config, inputs: &Inputs) -> ResolvedSetting {
    let (_, split) = inputs.learnt();
    let names = &inputs.dataset.names;
    if let Some(links) = &inputs.links {
        let [validation, test] = links.held_out();
        let value = format!("{} training, {validation} validation, {test} test links", links.trained);
        return one(
            "links.validation",
            "split",
            &value,
            &format!("drawn from links.seed {}", config.links.seed),
        );
    }
    let [train, validation, test] = [&split.train, &split.validation, &split.test].map(Vec::len);
    let value = format!("{train} training, {validation} validation, {test} test rows");
    let from = match (config.data.split.is_some(), names.split.is_empty()) {
        (true, _) => format!("set: {}", names.split),
        (false, true) => "the data set's own".to_owned(),
        (false, false) => format!("default, because the data set has no split: {}", names.split),
    };
    one("data.split", "split", &value, &from)
}

/// Describes the scaling of the features.
fn features(config: &Config, scaled: NormaliseFeatures) -> ResolvedSetting {
    let (value, why) = match scaled {
        NormaliseFeatures::None => (NOT_SCALED, "auto: the features are not counts of a graph"),
        NormaliseFeatures::Rows => ("each row divided by its sum", "auto: counts, such as bags of words"),
        NormaliseFeatures::Columns => (
            "each column scaled to mean 0 and standard deviation 1 over the training rows",
            "auto: the columns are of several kinds",
        ),
    };
    let from = if config.data.normalise_features.is_some() { "set" } else { why };
    one("data.normalise_features", "features", value, from)
}

/// Describes the use of edge features. Returns `None` if there are none.
fn edges(model: &Model, columns: u32, names: &Names) -> Option<ResolvedSetting> {
    if columns == 0 {
        return None;
    }
    let name = |column: u32| {
        names.edge_features.get(column as usize).cloned().unwrap_or_else(|| format!("column {column}"))
    };
    let told = model.reads_edges() || model.reads_edge_rows();
    let (value, from) = match (model.edge_weights, told) {
        (Some(column), _) => (format!("{} is the edge weight", name(column)), "set"),
        (None, true) => ("read by the layers with edge_features".to_owned(), "set"),
        (None, false) => {
            let shown: Vec<String> = (0..columns.min(6)).map(name).collect();
            let more = if columns > 6 { ", ..." } else { "" };
            (format!("not used: {}{more}", shown.join(", ")), "default; model.edge_weights can name one")
        }
    };
    Some(one("model.edge_weights", "edge features", &value, from))
}

/// Describes the activation of all layers except those that compute scores.
fn activation(config: &Config, model: &Model) -> ResolvedSetting {
    let mut all: Vec<&str> = Vec::new();
    let hidden = model.layers.iter().map(|layer| layer.activation).filter(|of| *of != Activation::Identity);
    for activation in hidden {
        if !all.contains(&activation.name()) {
            all.push(activation.name());
        }
    }
    let listed = match &config.model.layers {
        Layers::Count(_) => false,
        Layers::List(layers) => layers.iter().any(|layer| layer.activation.is_some()),
    };
    let from = match (config.model.activation.is_some() || listed, &config.model.layers) {
        (true, _) => "set".to_owned(),
        (false, Layers::Count(_)) => format!("default of {}", config.model.kind.name()),
        (false, Layers::List(_)) => "default of the layers".to_owned(),
    };
    let value = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    one("model.activation", "activation", &value, &from)
}

/// Describes the normalisation between layers.
fn norm(config: &Config, model: &Model) -> ResolvedSetting {
    let mut all: Vec<&str> = Vec::new();
    for norm in model.layers.iter().map(|layer| layer.norm).filter(|norm| *norm != Norm::None) {
        let name = Norm::ALL.iter().find_map(|(name, of)| (*of == norm).then_some(*name)).unwrap_or_default();
        if !all.contains(&name) {
            all.push(name);
        }
    }
    let value = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    let listed =
        matches!(&config.model.layers, Layers::List(layers) if layers.iter().any(|of| of.norm.is_some()));
    let set = config.model.norm != Norm::None || listed;
    one("model.norm", "normalisation", &value, if set { "set" } else { "default" })
}
