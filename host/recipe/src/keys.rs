//! List of all keys of a recipe. Each key is declared once, in the file of its section, with its
//! name, help, type, range and command-line flag.
//! Recipes, model files and `--set` are all parsed with this list, so they share their error
//! messages. Command-line flags, the comments of `config.toml`, the arguments of the Python
//! package, the JSON Schema and the reference page are generated from it ([`keys`]).

mod batch;
mod checkpoint;
mod cluster;
mod data;
mod emulator;
mod evaluation;
mod executor;
mod hosts;
mod key;
mod lanes;
mod limits;
mod links;
mod model;
mod optimiser;
mod pipeline;
mod run;
mod workers;
mod write;

pub use key::{Bounds, Flag, Group, Kind};
pub use write::Deprecated;

use crate::config::Config;
use crate::document::{Field, Fields, Found};
use crate::error::{Error, Result};
use crate::model::ModelSettings;
use key::Key;
use model::MODEL;
use write::{Offer, unknown, write};

/// Description of a key, for help texts, the reference page and other programs.
#[derive(Clone, Debug)]
pub struct KeyInfo {
    /// Key with its section, for instance `optimiser.lr`.
    pub key: String,
    /// Meaning of the key, as a noun phrase with its unit.
    pub help: &'static str,
    /// Type and range of the allowed values.
    pub kind: Kind,
    /// Default value as TOML text. `None` if there is none, and then `absent` describes the effect
    /// of leaving the key out.
    pub default: Option<String>,
    /// Description of the effect of leaving the key out. It is empty if the key has a default
    /// value.
    pub absent: &'static str,
    /// Command-line flag that sets the key, or `None` if there is no flag.
    pub flag: Option<Flag>,
    /// Other common names for the setting, which error messages recognise for suggestions.
    pub synonyms: &'static [&'static str],
}

impl KeyInfo {
    fn new<T>(section: &str, key: &Key<T>, default: Option<String>) -> Self {
        let Key { name, help, kind, synonyms, absent, flag, .. } = *key;
        Self { key: format!("{section}.{name}"), help, kind, default, absent, flag, synonyms }
    }

    /// Returns the name of the key without its section.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(&self.key)
    }

    /// Returns the help text of the key with the allowed values.
    #[must_use]
    pub fn text(&self) -> String {
        match self.kind.short(self.name()) {
            values if values.is_empty() => self.help.to_owned(),
            // The help may have several sentences.
            values if [". ", ": ", "; "].iter().any(|mark| self.help.contains(mark)) => {
                format!("{}. Values: {values}", self.help)
            }
            values => format!("{}: {values}", self.help),
        }
    }

    /// Returns the default value without quotes. If there is none, it returns the effect of leaving
    /// the key out.
    #[must_use]
    pub fn default_text(&self) -> &str {
        self.default.as_deref().map_or(self.absent, |default| default.trim_matches('"'))
    }
}

/// Calls a macro once per section of a recipe, with the section's field of [`Config`] and its list
/// of keys.
macro_rules! sections {
    ($each:ident) => {
        $each!(data, data::DATA);
        $each!(model, MODEL);
        $each!(optimiser, optimiser::OPTIMISER);
        $each!(run, run::RUN);
        $each!(batch, batch::BATCH);
        $each!(evaluation, evaluation::EVALUATION);
        $each!(lanes, lanes::LANES);
        $each!(pipeline, pipeline::PIPELINE);
        $each!(links, links::LINKS);
        $each!(limits, limits::LIMITS);
        $each!(checkpoint, checkpoint::CHECKPOINT);
        $each!(executor, executor::EXECUTOR);
        $each!(emulator, emulator::EMULATOR);
        $each!(workers, workers::WORKERS);
        $each!(cluster, cluster::CLUSTER);
        $each!(hosts, hosts::HOSTS);
    };
}

/// Returns the descriptions of all keys of a recipe, section by section.
#[must_use]
pub fn keys() -> Vec<KeyInfo> {
    let config = Config::default();
    let mut all = Vec::new();
    macro_rules! list {
        ($section:ident, $keys:expr) => {
            let defaults = toml::Table::try_from(&config.$section).unwrap_or_default();
            for key in $keys {
                let default = defaults.get(key.name).map(ToString::to_string);
                all.push(KeyInfo::new(stringify!($section), key, default));
            }
        };
    }
    sections!(list);
    all.push(KeyInfo {
        key: "kernels.NAME".to_owned(),
        help: "Path of a component that replaces the built-in kernel NAME",
        kind: Kind::Text("a path to a component"),
        default: None,
        absent: "the built-in kernel",
        flag: None,
        synonyms: &[],
    });
    all
}

/// Returns the descriptions of the keys of a layer, which are the keys of an element of
/// `model.layers`.
#[must_use]
pub fn layer_keys() -> Vec<KeyInfo> {
    let all = model::layer::LAYER.iter().chain(model::deep::LAYER);
    all.map(|key| KeyInfo::new("model.layers[]", key, None)).collect()
}

/// Names of the sections of a recipe, each with other common names for it.
const SECTIONS: [(&str, &[&str]); 17] = [
    ("data", &["dataset"]),
    ("model", &["network"]),
    ("optimiser", &["optimizer"]),
    ("run", &["train", "training"]),
    ("batch", &["batches", "sampling", "sampler"]),
    ("evaluation", &["eval", "evaluate", "validation"]),
    ("pipeline", &["asynchrony"]),
    ("lanes", &["lane", "stages"]),
    ("kernels", &[]),
    ("limits", &[]),
    ("links", &["link", "link_prediction"]),
    ("checkpoint", &["checkpoints"]),
    ("executor", &[]),
    ("emulator", &["emulated"]),
    ("workers", &["worker"]),
    ("cluster", &["machines"]),
    ("hosts", &["host", "distributed"]),
];

fn is_section(name: &str) -> bool {
    SECTIONS.iter().any(|(section, _)| *section == name)
}

/// Writes all fields of a recipe to a configuration.
pub(crate) fn write_config(config: &mut Config, fields: &Fields) -> Result<()> {
    if let Some(field) = fields.0.iter().find(|field| !is_section(&field.name)) {
        return Err(unknown_section(field));
    }
    for field in &fields.0 {
        let Found::Table(inner) = &field.value else {
            return Err(field.refuse(format!("a section: [{}]", field.name)));
        };
        write_section(config, &field.name, inner)?;
    }
    Ok(())
}

/// Writes one override, whose path has its section, to a configuration.
pub(crate) fn write_override(config: &mut Config, mut field: Field) -> Result<()> {
    let path = field.path.clone();
    let Some((section, name)) = path.split_once('.') else {
        return Err(unknown_section(&field));
    };
    if !is_section(section) {
        return Err(unknown_section(&field));
    }
    field.name = name.to_owned();
    write_section(config, section, &Fields(vec![field]))
}

/// Writes the fields of a model file to the model settings. A model file has the keys of `[model]`
/// except `file`.
pub(crate) fn write_model_file(model: &mut ModelSettings, fields: &Fields) -> Result<()> {
    write(model, "", MODEL.get(1..).unwrap_or(MODEL), &fields.0, Vec::new).map(|_| ())
}

fn write_section(config: &mut Config, section: &str, Fields(fields): &Fields) -> Result<()> {
    macro_rules! write_if {
        ($section:ident, $keys:expr) => {
            if section == stringify!($section) {
                let found = write(&mut config.$section, stringify!($section), $keys, fields, known)?;
                config.choices.deprecated.extend(found);
                return Ok(());
            }
        };
    }
    sections!(write_if);
    for field in fields {
        let path = field.text("a path to a component")?;
        config.kernels.insert(field.name.clone(), path);
    }
    Ok(())
}

/// Creates the error for a key that is not in any section, or is in an unknown section.
fn unknown_section(field: &Field) -> Error {
    let sections: Vec<Offer> =
        SECTIONS.iter().map(|&(name, synonyms)| Offer { section: "", name, synonyms }).collect();
    // In `optimizer.lr = 1` the section is wrong.
    let head = field.path.split('.').next().unwrap_or(&field.path);
    let inside = head != field.path;
    let path = if inside { head.to_owned() } else { field.path.clone() };
    let shown = Field { path: path.clone(), name: path, ..field.clone() };
    unknown(&shown, &sections, &if inside { Vec::new() } else { known() })
}

/// Returns every key with a fixed name. Error messages for unknown keys may suggest them.
fn known() -> Vec<Offer> {
    let mut all = Vec::new();
    macro_rules! offer {
        ($section:ident, $keys:expr) => {
            all.extend($keys.iter().map(|key| Offer::new(stringify!($section), key)));
        };
    }
    sections!(offer);
    all
}

#[cfg(test)]
mod tests;
