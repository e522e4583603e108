//! The one list of keys of a recipe: what each means, what it takes, where it goes.
//!
//! Recipes, model files and `--set` are all written through it, so that they refuse the same things
//! in the same words.

mod checkpoint;
mod executor;
mod optimiser;
mod pipeline;

use std::collections::BTreeMap;

use crate::config::{Config, Data, Keep, Limits, Run};
use crate::document::{Field, Fields, Found};
use crate::error::Error;
use crate::executor::RowFormat;
use crate::model::{
    Activation, Aggregator, FirstWeights, Jumping, LayerSettings, Layers, MAX_ATTRIBUTES, MAX_HEADS,
    MAX_HOPS, MAX_LAYERS, MAX_WIDTH, ModelKind, ModelSettings, Norm, On,
};
use crate::order::VertexOrder;
use crate::savings::{GatherFeatures, LabelledGathers};
use crate::signature::Value;

/// A key of a section whose settings are a `T`.
struct Key<T> {
    name: &'static str,
    meaning: &'static str,
    /// What else people call it.
    synonyms: &'static [&'static str],
    write: fn(&mut T, &Field) -> Result<(), Error>,
}

const fn key<T>(
    name: &'static str,
    synonyms: &'static [&'static str],
    meaning: &'static str,
    write: fn(&mut T, &Field) -> Result<(), Error>,
) -> Key<T> {
    Key { name, meaning, synonyms, write }
}

/// A key of the recipe, for help texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// With its section, for instance `optimiser.lr`.
    pub key: String,
    /// What it means and what it takes.
    pub meaning: &'static str,
}

/// All keys of a recipe, section by section. Their defaults are in `Config::default().to_toml()`.
#[must_use]
pub fn keys() -> Vec<KeyInfo> {
    let mut all = Vec::new();
    known(|key, meaning| {
        all.push(KeyInfo { key: format!("{}.{}", key.section, key.name), meaning });
    });
    let meaning = "a path to a component that takes the place of kernel NAME";
    all.push(KeyInfo { key: "kernels.NAME".to_owned(), meaning });
    all
}

const ALPHA: &str = "a number with 0 <= alpha < 1";
const SLOPE: &str = "a number with 0 <= slope < 1";
const FINITE: &str = "a finite number";
pub(crate) const PROBABILITY: &str = "a number with 0 <= dropout < 1";

pub(crate) fn is_probability(value: f32) -> bool {
    (0.0..1.0).contains(&value)
}

fn is_positive(value: f32) -> bool {
    value > 0.0 && value.is_finite()
}

const DATA: &[Key<Data>] = &[
    key("source", &["dataset", "path"], "a data set's name, or a path to one", |data, field| {
        data.source = field.text("a data set's name or a path")?;
        Ok(())
    }),
    key("name", &["subset"], "which set, where a folder holds several", |data, field| {
        data.name = Some(field.text("a data set's name")?);
        Ok(())
    }),
    key(
        "normalise_features",
        &["normalize_features"],
        "whether each vertex's features are divided by their sum: true, false, or \"auto\", where none is negative",
        |data, field| {
            data.normalise_features = field.flag_or_auto()?;
            Ok(())
        },
    ),
];

/// `file` comes first and is refused in a model file.
const MODEL: &[Key<ModelSettings>] = &[
    key("file", &["path"], "a model file to read in place of the keys below", |model, field| {
        model.file = Some(field.text("a path to a model file")?);
        Ok(())
    }),
    key(
        "kind",
        &["name", "architecture", "model", "conv"],
        "what `layers = N` means: gcn, sage, gin, sgc, appnp, gat, gatv2, mlp",
        |model, field| {
            model.kind = field.choice(&ModelKind::ALL)?;
            Ok(())
        },
    ),
    key(
        "hidden",
        &["hidden_channels", "hidden_features", "width"],
        "width of every layer but the last: 1 to 65536",
        |model, field| {
            model.hidden = field.integer32(1..=MAX_WIDTH)?;
            Ok(())
        },
    ),
    key(
        "activation",
        &["nonlinearity"],
        "what follows every layer but the last: identity, relu, leaky-relu, elu, sigmoid, tanh",
        |model, field| {
            model.activation = field.choice(&Activation::ALL)?;
            Ok(())
        },
    ),
    key(
        "dropout",
        &["p", "dropout_rate"],
        "dropout on every layer's input: 0 <= dropout < 1",
        |model, field| {
            model.dropout = field.number(PROBABILITY, is_probability)?;
            Ok(())
        },
    ),
    key("bias", &[], "whether layers add a bias: true or false", |model, field| {
        model.bias = field.flag()?;
        Ok(())
    }),
    key(
        "norm",
        &["normalization", "normalisation", "layer_norm"],
        "what brings the rows of every layer but the last to one scale: none, layer, l2",
        |model, field| {
            model.norm = field.choice(&Norm::ALL)?;
            Ok(())
        },
    ),
    key(
        "residual",
        &["skip", "skip_connections"],
        "whether layers as wide as their input add it, but the last: true or false",
        |model, field| {
            model.residual = field.flag()?;
            Ok(())
        },
    ),
    key(
        "first_weights",
        &["initialiser", "initializer", "init"],
        "how weights start: auto (glorot in gcn, gat and gatv2 layers, else fan-in), glorot, fan-in",
        |model, field| {
            model.first_weights = field.choice(&FirstWeights::ALL)?;
            Ok(())
        },
    ),
    key(
        "jumping",
        &["jk", "jumping_knowledge"],
        "a last `linear` layer that reads the outputs of all N layers: concat, sum",
        |model, field| {
            model.jumping = Some(field.choice(&Jumping::ALL)?);
            Ok(())
        },
    ),
    key("hops", &["k", "K", "steps"], "steps of a propagation, in sgc and appnp: 1 to 64", |model, field| {
        model.own.hops = Some(field.integer32(1..=MAX_HOPS)?);
        Ok(())
    }),
    key("alpha", &["teleport"], "the teleport probability of appnp: 0 <= alpha < 1", |model, field| {
        model.own.alpha = Some(field.number(ALPHA, is_probability)?);
        Ok(())
    }),
    key("epsilon", &["eps"], "the vertex's own weight in gin, less 1: a number", |model, field| {
        model.own.epsilon = Some(field.number(FINITE, f32::is_finite)?);
        Ok(())
    }),
    key("train_epsilon", &["train_eps"], "whether gin trains epsilon: true or false", |model, field| {
        model.own.train_epsilon = Some(field.flag()?);
        Ok(())
    }),
    key(
        "aggregator",
        &["aggr", "aggregator_type", "pooling"],
        "what sage layers make of in-neighbours' rows: mean, max",
        |model, field| {
            model.own.aggregator = Some(field.choice(&Aggregator::ALL)?);
            Ok(())
        },
    ),
    key(
        "heads",
        &["num_heads"],
        "heads of gat and gatv2 layers, but of the last: 1 to 64",
        |model, field| {
            model.own.heads = Some(field.integer32(1..=MAX_HEADS)?);
            Ok(())
        },
    ),
    key(
        "attention_dropout",
        &["attn_drop", "attn_dropout"],
        "dropout of edges' weights in gat and gatv2 layers, else as the layer's: 0 <= dropout < 1",
        |model, field| {
            model.own.attention_dropout = Some(field.number(PROBABILITY, is_probability)?);
            Ok(())
        },
    ),
    key(
        "negative_slope",
        &["leaky_slope"],
        "what a negative score is multiplied by in gat and gatv2 layers: 0 <= slope < 1",
        |model, field| {
            model.own.negative_slope = Some(field.number(SLOPE, is_probability)?);
            Ok(())
        },
    ),
    key(
        "layers",
        &["num_layers", "depth", "layer"],
        "how many layers, 1 to 64, or a list of tables, one a layer",
        |model, field| {
            model.layers = layers(field)?;
            Ok(())
        },
    ),
];

const LAYER: &[Key<LayerSettings>] = &[
    key(
        "kernel",
        &["kind", "type"],
        "the layer's kind: gcn, sage, gin, sgc, appnp, gat, gatv2, linear, or the path of a component",
        |layer, field| {
            layer.kernel = match &field.value {
                Found::Text(text) if LayerSettings::is_path(text) => text.clone(),
                _ => kernel(field)?.to_owned(),
            };
            Ok(())
        },
    ),
    key(
        "width",
        &["hidden", "out_features", "out-features"],
        "columns of its output: 1 to 65536",
        |layer, field| {
            layer.width = Some(field.integer32(1..=MAX_WIDTH)?);
            Ok(())
        },
    ),
    key(
        "activation",
        &["nonlinearity"],
        "what follows it: identity, relu, leaky-relu, elu, sigmoid, tanh",
        |layer, field| {
            layer.activation = Some(field.choice(&Activation::ALL)?);
            Ok(())
        },
    ),
    key("dropout", &["p", "dropout_rate"], "dropout on its input: 0 <= dropout < 1", |layer, field| {
        layer.dropout = Some(field.number(PROBABILITY, is_probability)?);
        Ok(())
    }),
    key("bias", &[], "whether it adds a bias: true or false", |layer, field| {
        layer.bias = Some(field.flag()?);
        Ok(())
    }),
    key(
        "norm",
        &["normalization", "normalisation", "layer_norm", "normalize"],
        "what brings its rows to one scale: none, layer, l2",
        |layer, field| {
            layer.norm = Some(field.choice(&Norm::ALL)?);
            Ok(())
        },
    ),
    key("residual", &["skip"], "whether its input is added to its output: true or false", |layer, field| {
        layer.residual = Some(field.flag()?);
        Ok(())
    }),
    key(
        "jumping",
        &["jk", "jumping_knowledge"],
        "in linear: it reads the outputs of all layers before it: concat, sum",
        |layer, field| {
            layer.jumping = Some(field.choice(&Jumping::ALL)?);
            Ok(())
        },
    ),
    key(
        "hops",
        &["k", "K", "steps"],
        "steps of its propagation, in sgc and appnp: 1 to 64",
        |layer, field| {
            layer.own.hops = Some(field.integer32(1..=MAX_HOPS)?);
            Ok(())
        },
    ),
    key("alpha", &["teleport"], "the teleport probability, in appnp: 0 <= alpha < 1", |layer, field| {
        layer.own.alpha = Some(field.number(ALPHA, is_probability)?);
        Ok(())
    }),
    key("epsilon", &["eps"], "the vertex's own weight, less 1, in gin: a number", |layer, field| {
        layer.own.epsilon = Some(field.number(FINITE, f32::is_finite)?);
        Ok(())
    }),
    key("train_epsilon", &["train_eps"], "whether that is trained, in gin: true or false", |layer, field| {
        layer.own.train_epsilon = Some(field.flag()?);
        Ok(())
    }),
    key(
        "aggregator",
        &["aggr", "aggregator_type", "pooling"],
        "what it makes of in-neighbours' rows, in sage: mean, max",
        |layer, field| {
            layer.own.aggregator = Some(field.choice(&Aggregator::ALL)?);
            Ok(())
        },
    ),
    key("heads", &["num_heads"], "heads of its attention, in gat and gatv2: 1 to 64", |layer, field| {
        layer.own.heads = Some(field.integer32(1..=MAX_HEADS)?);
        Ok(())
    }),
    key(
        "average",
        &["mean_heads"],
        "whether the heads' mean is the result, in gat and gatv2, not all side by side: true or false",
        |layer, field| {
            layer.average = Some(field.flag()?);
            Ok(())
        },
    ),
    key(
        "attention_dropout",
        &["attn_drop", "attn_dropout"],
        "dropout of edges' weights, in gat and gatv2: 0 <= dropout < 1",
        |layer, field| {
            layer.own.attention_dropout = Some(field.number(PROBABILITY, is_probability)?);
            Ok(())
        },
    ),
    key(
        "negative_slope",
        &["leaky_slope"],
        "what a negative score is multiplied by, in gat and gatv2: 0 <= slope < 1",
        |layer, field| {
            layer.own.negative_slope = Some(field.number(SLOPE, is_probability)?);
            Ok(())
        },
    ),
    key("on", &["level"], "what a kernel of your own works on: rows, edges", |layer, field| {
        layer.on = Some(field.choice(&On::ALL)?);
        Ok(())
    }),
    key(
        "self_loops",
        &["add_self_loops", "with_self"],
        "whether each vertex is among its own neighbours, in a kernel of your own on edges: true or false",
        |layer, field| {
            layer.self_loops = Some(field.flag()?);
            Ok(())
        },
    ),
    key(
        "attributes",
        &["arguments", "parameters"],
        "what a kernel of your own is opened with: a table of names and values",
        |layer, field| {
            layer.attributes = attributes(field)?;
            Ok(())
        },
    ),
];

const RUN: &[Key<Run>] = &[
    key("seed", &["random_seed"], "what random numbers grow from: 0 to 2^63 - 1", |run, field| {
        run.seed = field.integer(0..=i64::MAX as u64)?;
        Ok(())
    }),
    key("epochs", &["num_epochs", "max_epochs"], "passes over the graph: 1 to 10^9", |run, field| {
        run.epochs = field.integer32(1..=1_000_000_000)?;
        Ok(())
    }),
    key(
        "eval_every",
        &["eval-every"],
        "evaluate after every so many epochs, and after the last; 0: only after the last",
        |run, field| {
            run.eval_every = field.integer32(0..=1_000_000_000)?;
            Ok(())
        },
    ),
    key(
        "patience",
        &["early_stop", "early_stopping"],
        "stop after so many epochs without a better validation accuracy: 1 to 10^9; left out: never",
        |run, field| {
            run.patience = Some(field.integer32(1..=1_000_000_000)?);
            Ok(())
        },
    ),
    key(
        "min_delta",
        &["tolerance"],
        "by how much an accuracy must be higher to count as better for patience: 0 <= min_delta < 1",
        |run, field| {
            run.min_delta = field.number("a share with 0 <= min_delta < 1", is_probability)?;
            Ok(())
        },
    ),
    key(
        "keep",
        &["keep_model", "restore_best"],
        "which model is written: last, or best (of the highest validation accuracy, the first of equals)",
        |run, field| {
            run.keep = field.choice(&Keep::ALL)?;
            Ok(())
        },
    ),
    key(
        "intervals",
        &["chunks", "partitions"],
        "vertex intervals: 1 to the graph's row atoms; left out: from the graph's size",
        |run, field| {
            run.intervals = Some(field.integer32(1..=65_536)?);
            Ok(())
        },
    ),
    key(
        "threads",
        &["workers", "jobs"],
        "compute threads: 1 to 1024; left out: as many as the machine has",
        |run, field| {
            run.threads = Some(field.integer32(1..=1024)?);
            Ok(())
        },
    ),
    key(
        "tune_threads",
        &["auto_threads"],
        "whether an autotuner says how many of the threads work, with the local executor: true or false",
        |run, field| {
            run.tune_threads = field.flag()?;
            Ok(())
        },
    ),
    key(
        "memory_bytes",
        &["max_memory", "memory_limit"],
        "bytes that the run may hold; left out: what the machine has",
        |run, field| {
            run.memory_bytes = Some(field.integer(1..=i64::MAX as u64)?);
            Ok(())
        },
    ),
    key(
        "gather_features",
        &["precompute"],
        "when the first layer's gather is done, where no dropout stands before it: auto, once, each-epoch",
        |run, field| {
            run.gather_features = field.choice(&GatherFeatures::ALL)?;
            Ok(())
        },
    ),
    key(
        "labelled_gathers",
        &[],
        "whether gathers beside the loss leave out what it does not reach, which changes no bit: auto, always, never",
        |run, field| {
            run.labelled_gathers = field.choice(&LabelledGathers::ALL)?;
            Ok(())
        },
    ),
    key(
        "order",
        &["ordering", "reorder", "vertex_order"],
        "in which order vertices lie in memory: natural, degree, rcm, rabbit; results keep the data's own",
        |run, field| {
            run.order = field.choice(&VertexOrder::ALL)?;
            Ok(())
        },
    ),
    key(
        "row_storage",
        &["embedding_storage", "storage"],
        "what activations and gradients are stored as between stages: f32, or bf16, which changes results",
        |run, field| {
            run.row_storage = field.choice(&RowFormat::ALL)?;
            Ok(())
        },
    ),
];

const LIMITS: &[Key<Limits>] = &[
    key("guest_memory_bytes", &["memory"], "a kernel's own memory, in bytes", |limits, field| {
        limits.guest_memory_bytes = Some(field.integer(65_536..=1 << 32)?);
        Ok(())
    }),
    key("matrix_bytes", &[], "a task's matrices on the host, in bytes", |limits, field| {
        limits.matrix_bytes = Some(field.integer(1..=i64::MAX as u64)?);
        Ok(())
    }),
    key("handles", &[], "a task's handles", |limits, field| {
        limits.handles = Some(field.integer32(1..=1 << 24)?);
        Ok(())
    }),
    key("call_bytes", &[], "what one host call may copy, in bytes", |limits, field| {
        limits.call_bytes = Some(field.integer(1..=1 << 32)?);
        Ok(())
    }),
    key("call_work", &[], "what one host call may compute, in multiply-adds", |limits, field| {
        limits.call_work = Some(field.integer(1..=i64::MAX as u64)?);
        Ok(())
    }),
    key("task_ms", &["timeout"], "how long a task may run, in milliseconds", |limits, field| {
        limits.task_ms = Some(field.integer(1..=86_400_000)?);
        Ok(())
    }),
    key("wait_ms", &[], "how long a task may wait for rows, in milliseconds", |limits, field| {
        limits.wait_ms = Some(field.integer(1..=86_400_000)?);
        Ok(())
    }),
    key(
        "attempts",
        &["retries"],
        "tries of a task that fails by the host's fault or takes too long: 1 to 32",
        |limits, field| {
            limits.attempts = Some(field.integer32(1..=32)?);
            Ok(())
        },
    ),
];

/// The sections of a recipe, and what else people call them.
const SECTIONS: [(&str, &[&str]); 10] = [
    ("data", &["dataset"]),
    ("model", &["network"]),
    ("optimiser", &["optimizer"]),
    ("run", &["train", "training"]),
    ("pipeline", &["asynchrony"]),
    ("kernels", &[]),
    ("limits", &[]),
    ("checkpoint", &["checkpoints"]),
    ("executor", &[]),
    ("emulator", &["emulated"]),
];

fn is_section(name: &str) -> bool {
    SECTIONS.iter().any(|(section, _)| *section == name)
}

/// Writes a recipe.
pub(crate) fn write_config(config: &mut Config, fields: &Fields) -> Result<(), Error> {
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

/// Writes one key, given with its section.
pub(crate) fn write_override(config: &mut Config, mut field: Field) -> Result<(), Error> {
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

/// Writes a model file: the keys of `[model]` without `file`.
pub(crate) fn write_model_file(model: &mut ModelSettings, fields: &Fields) -> Result<(), Error> {
    write(model, "", MODEL.get(1..).unwrap_or(MODEL), &fields.0)
}

fn write_section(config: &mut Config, section: &str, fields: &Fields) -> Result<(), Error> {
    let fields = &fields.0;
    match section {
        "data" => write(&mut config.data, section, DATA, fields),
        "model" => write(&mut config.model, section, MODEL, fields),
        "optimiser" => write(&mut config.optimiser, section, optimiser::OPTIMISER, fields),
        "run" => write(&mut config.run, section, RUN, fields),
        "pipeline" => write(&mut config.pipeline, section, pipeline::PIPELINE, fields),
        "limits" => write(&mut config.limits, section, LIMITS, fields),
        "checkpoint" => write(&mut config.checkpoint, section, checkpoint::CHECKPOINT, fields),
        "executor" => write(&mut config.executor, section, executor::EXECUTOR, fields),
        "emulator" => write(&mut config.emulator, section, executor::EMULATOR, fields),
        _ => {
            for field in fields {
                let path = field.text("a path to a component")?;
                config.kernels.insert(field.name.clone(), path);
            }
            Ok(())
        }
    }
}

/// Writes fields in the order of the keys, which is fixed, not in that of the text. `section` is
/// empty where no section of a recipe is written.
fn write<T>(target: &mut T, section: &str, keys: &[Key<T>], fields: &[Field]) -> Result<(), Error> {
    for field in fields {
        if !keys.iter().any(|key| key.name == field.name) {
            let own: Vec<Offer> = keys
                .iter()
                .map(|key| Offer { section: section.to_owned(), name: key.name, synonyms: key.synonyms })
                .collect();
            return Err(unknown(field, &own, !section.is_empty()));
        }
    }
    for key in keys {
        for field in fields.iter().filter(|field| field.name == key.name) {
            (key.write)(target, field)?;
        }
    }
    Ok(())
}

/// A layer's kernel by its name.
fn kernel(field: &Field) -> Result<&'static str, Error> {
    let names = LayerSettings::KERNELS;
    field.choice(&names.map(|name| (name, name))).map_err(|_| {
        let names = names.map(|name| format!("{name:?}")).join(", ");
        field.refuse(format!("one of {names}, {}", LayerSettings::OR_PATH))
    })
}

/// Attributes of a kernel, as a table.
fn attributes(field: &Field) -> Result<BTreeMap<String, Value>, Error> {
    let table = match &field.value {
        Found::Table(Fields(fields)) if fields.len() <= MAX_ATTRIBUTES as usize => fields,
        _ => return Err(field.refuse(format!("a table of at most {MAX_ATTRIBUTES} names and values"))),
    };
    let attribute = |field: &Field| {
        let value = match &field.value {
            Found::Integer(value) => Value::Integer(*value),
            Found::Number(value) if (*value as f32).is_finite() => Value::Number(*value),
            Found::Text(text) => Value::Text(text.clone()),
            Found::Flag(flag) => Value::Flag(*flag),
            _ => return Err(field.refuse("a whole number, a finite number, a text, true or false")),
        };
        Ok((field.name.clone(), value))
    };
    table.iter().map(attribute).collect()
}

fn layers(field: &Field) -> Result<Layers, Error> {
    let allowed = format!("a whole number from 1 to {MAX_LAYERS}, or a list of so many tables");
    match &field.value {
        Found::Integer(_) => {
            field.integer32(1..=MAX_LAYERS).map(Layers::Count).map_err(|_| field.refuse(allowed))
        }
        Found::List(items) if (1..=MAX_LAYERS as usize).contains(&items.len()) => {
            let layer = |item: &Found| {
                let Found::Table(inner) = item else {
                    return Err(field.refuse(allowed.clone()));
                };
                let mut layer = LayerSettings::gcn();
                write(&mut layer, "", LAYER, &inner.0)?;
                Ok(layer)
            };
            items.iter().map(layer).collect::<Result<_, _>>().map(Layers::List)
        }
        _ => Err(field.refuse(allowed)),
    }
}

/// A key that could have been meant.
struct Offer {
    section: String,
    name: &'static str,
    synonyms: &'static [&'static str],
}

/// The refusal of a key that is none of `own`, the keys of its place; `recipe`: the other sections'
/// keys may have been meant.
fn unknown(field: &Field, own: &[Offer], recipe: bool) -> Error {
    let mut best: (f64, Option<String>) = (0.55, None);
    let mut offer = |key: &Offer, share: f64| {
        let home = &key.section;
        let path = if home.is_empty() { key.name.to_owned() } else { format!("{home}.{}", key.name) };
        let written = field.path.rsplit('.').next().unwrap_or(&field.name);
        let synonym = key.synonyms.contains(&field.name.as_str()) || key.synonyms.contains(&written);
        let name = resemblance(written, key.name);
        let score = share * name.max(resemblance(&field.path, &path)).max(if synonym { 0.98 } else { 0.0 });
        if score > best.0 {
            best = (score, Some(path));
        }
    };
    own.iter().for_each(|key| offer(key, 1.0));
    if recipe {
        known(|key, _| offer(&key, 0.95));
    }
    Error::UnknownKey {
        key: field.path.chars().take(80).collect(),
        nearest: best.1,
        known: own.iter().map(|key| key.name.to_owned()).collect(),
        place: field.place.clone(),
    }
}

/// The refusal of a key outside of every section.
fn unknown_section(field: &Field) -> Error {
    let sections: Vec<Offer> =
        SECTIONS.iter().map(|&(name, synonyms)| Offer { section: String::new(), name, synonyms }).collect();
    // In `optimizer.lr = 1` the section is what is wrong.
    let head = field.path.split('.').next().unwrap_or(&field.path);
    let inside = head != field.path;
    let path = if inside { head.to_owned() } else { field.path.clone() };
    let shown = Field { path: path.clone(), name: path, ..field.clone() };
    unknown(&shown, &sections, !inside)
}

/// Calls `each` with every key that has a fixed name, and its meaning.
fn known(mut each: impl FnMut(Offer, &'static str)) {
    fn of<T>(section: &str, keys: &[Key<T>], each: &mut impl FnMut(Offer, &'static str)) {
        for key in keys {
            let section = section.to_owned();
            each(Offer { section, name: key.name, synonyms: key.synonyms }, key.meaning);
        }
    }
    of("data", DATA, &mut each);
    of("model", MODEL, &mut each);
    of("optimiser", optimiser::OPTIMISER, &mut each);
    of("run", RUN, &mut each);
    of("pipeline", pipeline::PIPELINE, &mut each);
    of("limits", LIMITS, &mut each);
    of("checkpoint", checkpoint::CHECKPOINT, &mut each);
    of("executor", executor::EXECUTOR, &mut each);
    of("emulator", executor::EMULATOR, &mut each);
}

/// In [0, 1]; long keys are cut, since the measure takes quadratic time.
fn resemblance(left: &str, right: &str) -> f64 {
    let cut: String = left.chars().take(64).flat_map(char::to_lowercase).collect();
    strsim::normalized_damerau_levenshtein(&cut.replace('-', "_"), right)
}
