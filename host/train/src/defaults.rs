//! Default settings that depend on the data set. [`choose`] is a pure function from the
//! [`Statistics`] of a data set to settings, each with its reason.
//!
//! | data | model | scale of the features |
//! | --- | --- | --- |
//! | table | perceptron | each column |
//! | images | convolutions | each column, unless values are at most 1 |
//! | text | transformer over characters | none |
//! | graph | GCN, or GraphSAGE with skip connections | rows of sparse counts, else columns |
//!
//! Settings that the user or a recipe sets are never changed ([`eciton_recipe::Choices`]). Recipe
//! files and data sets with a known name have their own settings, so nothing is chosen for them.

mod causes;
mod space;
mod statistics;

use std::path::Path;

use eciton_fetch::catalogue;
use eciton_graph::dataset::Dataset;
use eciton_recipe::{Choice, Config, Layers, Model, ModelKind, TaskType};
use eciton_runs::run_folder;

use crate::data;
use crate::error::Result;
use crate::hosts::Hosts;

pub use causes::causes;
pub use space::space;
pub use statistics::{DataKind, LEAST_EDGES, Statistics, ValueKind};

/// Default number of tokens per sequence of a text.
const SEQUENCE: u32 = 64;
/// Maximum share of non-zero values for features to count as sparse.
const SPARSE: f64 = 0.05;
/// Adjusted homophily below which a graph gets another default model. Homophily is the tendency of
/// neighbours to have the same class.
const LOW_HOMOPHILY: f64 = 0.2;
/// Maximum number of training rows of a table or of images that are trained without batches.
const WHOLE_ROWS: u32 = 2048;

/// Returns true if the data set may determine default settings. Returns false for a recipe file and
/// for a built-in or published data set, which have their own settings.
#[must_use]
pub fn is_open(config: &Config) -> bool {
    let source = &config.data.source;
    let is_builtin = eciton_formats::builtins().iter().any(|set| set.name.eq_ignore_ascii_case(source));
    let is_published = || !Path::new(source).exists() && catalogue::find(source).is_ok();
    config.choices.open && !is_builtin && (source == data::IN_MEMORY || !is_published())
}

/// Reads the data set of a configuration, and returns its statistics.
///
/// # Errors
/// Returns an error if the data cannot be read, or if the settings do not suit it.
pub fn statistics(config: &Config) -> Result<Statistics> {
    let config = readable(config)?;
    let dataset = data::with_labels(&config.data, data::read_to_train(&config, None)?)?;
    Ok(Statistics::compute(&config, &dataset))
}

/// Returns the configuration with all default settings that follow from its data set, which is read
/// for this. Returns the configuration unchanged if [`is_open`] is false.
///
/// # Errors
/// Returns the errors of [`statistics`] and [`settle_by`].
pub fn settle(config: &Config) -> Result<Config> {
    match is_open(config) {
        true => settle_by(config, &statistics(config)?),
        false => Ok(config.clone()),
    }
}

/// Returns the configuration with all default settings that follow from the statistics of its data
/// set.
///
/// # Errors
/// Returns an error if a setting is not valid.
pub fn settle_by(config: &Config, statistics: &Statistics) -> Result<Config> {
    let mut settled = readable(config)?;
    settled.choices.open = false;
    adopt(&mut settled)?;
    loop {
        // A choice may depend on an earlier one: for instance, the learning rate on the model.
        let done = settled.choices.made.len();
        for choice in choose(statistics, &settled) {
            make(&mut settled, statistics, choice)?;
        }
        if settled.choices.made.len() == done {
            return Ok(settled);
        }
    }
}

/// Applies a default setting to `config`. Does nothing if the user set its key, if a choice for the
/// key was made before, or if no layer of the model reads the key.
fn make(config: &mut Config, statistics: &Statistics, choice: Choice) -> Result<()> {
    if config.choices.made.iter().any(|made| made.key == choice.key) {
        return Ok(());
    }
    let before = config.clone();
    let name = choice.key.strip_prefix("model.").map(str::to_owned);
    // Initial weights belong to a fixed model.
    if config.run.init.is_some() && name.as_ref().is_some_and(|name| name != "kind") {
        return Ok(());
    }
    if config.choose(choice)? && name.is_some_and(|name| unread(config, statistics).as_deref() == Some(&name))
    {
        *config = before;
    }
    Ok(())
}

/// Returns the name of a `[model]` setting that no layer of the model reads. Returns `None` if all
/// settings are read.
#[must_use]
pub fn unread(config: &Config, statistics: &Statistics) -> Option<String> {
    let Statistics { columns, outputs, task, .. } = *statistics;
    if let Err(eciton_recipe::Error::ModelKey { attribute, .. }) =
        Model::resolve(&config.model, columns, outputs, task)
    {
        return Some(attribute.to_owned());
    }
    match config.model.check_read(columns, outputs, task) {
        Err(eciton_recipe::Error::UnreadKey { key, .. }) => Some(key.to_owned()),
        _ => None,
    }
}

/// Returns the configuration with all default settings that follow from the data set. Also returns
/// the data set, if it was passed in or had to be read. Each of several `hosts` reads only its rows,
/// if it can.
pub(crate) fn settled(
    config: &Config,
    dataset: Option<Dataset>,
    hosts: Option<&Hosts>,
) -> Result<(Config, Option<Dataset>)> {
    if !is_open(config) {
        return Ok((config.clone(), dataset));
    }
    let config = readable(config)?;
    let dataset = match dataset {
        Some(dataset) => {
            dataset.validate()?;
            dataset
        }
        None => data::read_to_train(&config, hosts)?,
    };
    let dataset = data::with_labels(&config.data, dataset)?;
    let config = settle_by(&config, &Statistics::compute(&config, &dataset))?;
    Ok((config, Some(dataset)))
}

/// Copies the model settings from the run folder that `run.init` names, unless the user set a key
/// of `[model]`.
fn adopt(config: &mut Config) -> Result<()> {
    let Some(init) = config.run.init.clone().filter(|_| !config.choices.is_section_asked("model")) else {
        return Ok(());
    };
    let path = Path::new(&init);
    let is_model = path.file_name().is_some_and(|name| name == run_folder::MODEL);
    let folder = if is_model { path.parent().unwrap_or(path) } else { path };
    if run_folder::is_run(folder) {
        config.model = Config::parse(&run_folder::recipe(folder)?, &init)?.model;
        config.choices.ask("model.kind");
        config.choices.made.push(one("model", config.model.kind.name(), format!("model of {init}")));
    }
    Ok(())
}

/// Returns the configuration with `data.sequence` set if the data set is a text, which is needed to
/// read it.
fn readable(config: &Config) -> Result<Config> {
    let mut config = config.clone();
    if is_open(&config)
        && config.data.sequence.is_none()
        && eciton_formats::is_prose(Path::new(&config.data.source))
    {
        config.choose(one("data.sequence", SEQUENCE, "a text is divided into sequences"))?;
    }
    Ok(config)
}

/// Creates a choice from the key of a setting, its value as TOML, and its reason.
fn one(key: &str, value: impl std::fmt::Display, reason: impl Into<String>) -> Choice {
    Choice { key: key.to_owned(), value: value.to_string(), reason: reason.into() }
}

/// Returns the default settings for a data set with these statistics, each with its reason.
/// `config` has the settings so far, which the defaults may depend on.
#[must_use]
pub fn choose(of: &Statistics, config: &Config) -> Vec<Choice> {
    let mut all = Vec::new();
    all.extend(scale(of));
    all.extend(match of.kind {
        DataKind::Table => table(of, config),
        DataKind::Images(shape) => images(of, config, shape),
        DataKind::Text => text(of, config),
        DataKind::Graph | DataKind::Graphs | DataKind::Edges => graph(of, config),
    });
    if of.is_validated {
        all.push(one("run.keep", "\"last-best\"", "there are validation rows"));
    }
    all
}

/// Returns true if the user set the layers or the kind of the model, or if they come from initial
/// weights.
fn has_layers(config: &Config) -> bool {
    matches!(config.model.layers, Layers::List(_)) || config.choices.is_asked("model.kind")
}

/// Describes the number of training rows and outputs in the reason for a setting, for instance "100
/// training rows, 3 classes".
fn size(of: &Statistics) -> String {
    let outputs = match (of.task, of.outputs) {
        (TaskType::LinkPrediction, _) => return counted(of.rows, "row"),
        (TaskType::Classification, n) => format!("{n} {}", if n == 1 { "class" } else { "classes" }),
        (TaskType::MultiLabel, n) => counted(n, "label"),
        (TaskType::Regression, n) => format!("{} to predict", counted(n, "number")),
    };
    format!("{}, {outputs}", counted(of.training, "training row"))
}

fn counted(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Chooses the scaling of the features. Returns `None` for a text.
fn scale(of: &Statistics) -> Option<Choice> {
    let percent = format!("{:.1} % of the values are not 0", of.filled * 100.0);
    let (value, reason) = match (of.kind, of.values) {
        (DataKind::Text, _) => return None,
        (DataKind::Images(_), _) if of.largest <= 1.0 => ("none", "values of at most 1".to_owned()),
        (DataKind::Images(_), _) => ("columns", format!("values up to {}", of.largest)),
        (_, ValueKind::Flags) if of.filled >= SPARSE || of.kind == DataKind::Table => {
            ("none", format!("values are 0 and 1, and {percent}"))
        }
        (DataKind::Graph | DataKind::Graphs | DataKind::Edges, ValueKind::Flags | ValueKind::Counts)
            if of.filled < SPARSE =>
        {
            ("rows", format!("sparse counts: {percent}"))
        }
        _ => ("columns", counted(of.columns, "feature column")),
    };
    Some(one("data.normalise_features", format!("\"{value}\""), reason))
}

/// Chooses batches of `rows` rows. Returns `None` if the user set something that excludes batches,
/// such as a pipeline.
fn batches(config: &Config, rows: u32, reason: &str) -> Option<Choice> {
    let sections = ["batch", "pipeline", "lanes", "workers", "executor"];
    let other = sections.iter().any(|section| config.choices.is_section_asked(section));
    let other = other || config.choices.is_asked("run.intervals") || config.executor != Default::default();
    (!other).then(|| one("batch.rows", rows, reason))
}

/// Chooses the number of epochs. If there are validation rows and the user did not set the length
/// of the training, also chooses early stopping.
fn length(of: &Statistics, config: &Config, epochs: u32, patience: u32, reason: &str) -> Vec<Choice> {
    let asked = ["run.epochs", "run.until", "run.eval_every"].iter().any(|key| config.choices.is_asked(key));
    let mut all = vec![one("run.epochs", epochs, reason)];
    if of.is_validated && !asked {
        all.push(one("run.patience", patience, "there are validation rows"));
    }
    all
}

fn table(of: &Statistics, config: &Config) -> Vec<Choice> {
    let mut all = Vec::new();
    let size = size(of);
    if !has_layers(config) {
        all.push(one("model.kind", "\"mlp\"", "tabular data"));
    }
    let (hidden, dropout) = match of.training {
        0..1000 => (64, 0.2),
        1000..20_000 => (128, 0.2),
        _ => (256, 0.1),
    };
    all.push(one("model.hidden", hidden, &*size));
    all.push(one("model.dropout", dropout, &*size));
    let batch = (of.training > WHOLE_ROWS).then(|| batches(config, 256, &size)).flatten();
    let is_batched = config.batch.is_on() || batch.is_some();
    all.extend(batch);
    let (rate, epochs, patience) = if is_batched { (0.002, 60, 10) } else { (0.01, 200, 50) };
    let updates = if is_batched { "mini-batch updates" } else { "one update per epoch" };
    all.push(one("optimiser.lr", rate, updates));
    all.extend(length(of, config, epochs, patience, updates));
    all
}

fn images(of: &Statistics, config: &Config, [height, width, channels]: [u32; 3]) -> Vec<Choice> {
    if has_layers(config) && config.choices.made.iter().all(|made| made.key != "model.layers") {
        return table(of, config);
    }
    let shape = format!("images of {height} x {width} pixels, {}", counted(channels, "channel"));
    let mut layers = vec![format!(
        "{{ kernel = \"conv2d\", image = [{height}, {width}, {channels}], channels = 16, padding = 1 }}"
    )];
    let pool = || "{ kernel = \"pool2d\", window = 2 }".to_owned();
    let convolution =
        |channels: u32| format!("{{ kernel = \"conv2d\", channels = {channels}, padding = 1 }}");
    let side = height.min(width);
    if side >= 16 {
        layers.push(pool());
    }
    layers.push(convolution(32));
    if side >= 2 {
        layers.push(pool());
    }
    if side >= 32 {
        layers.extend([convolution(64), pool()]);
    }
    layers.extend(["linear", "linear"].map(|kernel| format!("{{ kernel = \"{kernel}\" }}")));
    let mut all = vec![
        one("model.layers", format!("[{}]", layers.join(", ")), &*shape),
        one("model.hidden", 128, size(of)),
        one("model.dropout", "0.0", "convolutional layers"),
        one("model.first_weights", "\"pytorch\"", "convolutional layers"),
    ];
    all.extend(batches(config, 64, &size(of)));
    all.push(one("optimiser.lr", 0.001, "mini-batch updates"));
    all.push(one("optimiser.weight_decay", "0.0", "convolutional layers"));
    all.extend(length(of, config, 30, 8, "mini-batch updates"));
    all
}

/// Number of weight updates that the default number of epochs of a language model aims for.
/// `TEXT_BATCH` is the number of tokens per update.
const TEXT_UPDATES: u32 = 1000;
const TEXT_BATCH: u32 = 2048;

fn text(of: &Statistics, config: &Config) -> Vec<Choice> {
    let tokens = counted(of.rows, "token");
    let (width, blocks) = match of.rows {
        0..2_000_000 => (64, 2),
        _ => (128, 4),
    };
    let mut all = Vec::new();
    if !has_layers(config) {
        let block = format!(
            "{{ kernel = \"transformer\", width = {width}, hidden = {}, heads = 4, causal = true }}",
            4 * width
        );
        let mut layers = vec![format!(
            "{{ name = \"tokens\", kernel = \"embedding\", width = {width}, positions = true }}"
        )];
        layers.extend(std::iter::repeat_n(block, blocks));
        layers.push("{ kernel = \"normalise\", norm = \"layer\" }".to_owned());
        layers.push("{ kernel = \"linear\", weights_of = \"tokens\", bias = false }".to_owned());
        all.push(one("model.layers", format!("[{}]", layers.join(", ")), format!("a text of {tokens}")));
        all.push(one("model.init", "{ kind = \"normal\", std = 0.02 }", "a transformer"));
    }
    all.push(one("model.dropout", "0.0", "a transformer"));
    let group = config.data.group();
    let batch = TEXT_BATCH.min(of.training.max(1)) / group * group;
    all.extend(batches(config, batch.max(group), &tokens));
    for (key, value) in [
        ("optimiser.kind", "\"adamw\""),
        ("optimiser.lr", "0.002"),
        ("optimiser.beta2", "0.95"),
        ("optimiser.weight_decay", "0.1"),
        ("optimiser.clip_norm", "1.0"),
        ("run.metric", "\"cross-entropy\""),
    ] {
        all.push(one(key, value, "a transformer"));
    }
    let updates = (of.training / TEXT_BATCH).max(1);
    let epochs = TEXT_UPDATES.div_ceil(updates).min(100);
    all.push(one("run.epochs", epochs, format!("about {TEXT_UPDATES} updates, and at most 100 epochs")));
    all
}

fn graph(of: &Statistics, config: &Config) -> Vec<Choice> {
    let mut all = Vec::new();
    let size = size(of);
    let is_low = of.homophily.is_some_and(|homophily| homophily < LOW_HOMOPHILY);
    let homophily = match of.homophily {
        Some(homophily) => {
            format!("a graph whose training labels have an adjusted homophily of {homophily:.2}")
        }
        None if of.kind == DataKind::Edges => "labels of edges".to_owned(),
        None => "a graph".to_owned(),
    };
    let links = config.predicts_links();
    if !has_layers(config) {
        let is_sage = is_low && !links || of.kind == DataKind::Edges;
        let kind = if is_sage { "\"sage\"" } else { "\"gcn\"" };
        all.push(one("model.kind", kind, &*homophily));
        if is_low && !links {
            all.push(one("model.layers", 4, &*homophily));
            all.push(one("model.norm", "\"layer\"", "4 layers"));
            all.push(one("model.residual", "true", "4 layers"));
        }
    }
    all.push(one("model.hidden", if links { 32 } else { 64 }, &*size));
    if links {
        all.push(one("model.dropout", "0.0", "link prediction"));
        all.push(one("optimiser.weight_decay", "0.0", "link prediction"));
        return all;
    }
    let is_skipping = is_low && config.model.residual;
    all.push(one("model.dropout", if is_skipping { 0.2 } else { 0.5 }, &*size));
    if is_skipping {
        all.push(one("optimiser.weight_decay", "0.0", &*homophily));
    }
    let is_attention = matches!(config.model.kind, ModelKind::Gat | ModelKind::Gatv2);
    all.push(one("optimiser.lr", if is_attention { 0.005 } else { 0.01 }, "a graph"));
    all.extend(length(of, config, 300, 100, "a graph"));
    all
}

#[cfg(test)]
mod tests;
