//! The list of all keys of a recipe: the meaning of each key, its values, and the setting that it
//! writes.
//!
//! Recipes, model files and `--set` are all parsed with this list, so they give the same error
//! messages.

mod batch;
mod checkpoint;
mod executor;
mod lanes;
mod links;
mod model;
mod optimiser;
mod pipeline;
mod workers;

use self::model::MODEL;
use crate::config::{Config, Data, Keep, Limits, MAX_SEQUENCE, NormaliseFeatures, Run, SelfLoops, Tokens};
use crate::document::{Field, Fields, Found};
use crate::error::{Error, Result};
use crate::executor::RowFormat;
use crate::gather_choice::{GatherFeatures, LabelledGathers};
use crate::model::ModelSettings;
use crate::objective::{Metric, TaskType};
use crate::vertex_order::VertexOrder;

/// A key of a section whose settings are a `T`.
struct Key<T> {
    name: &'static str,
    meaning: &'static str,
    /// Other common names of the key, for suggestions in error messages.
    synonyms: &'static [&'static str],
    write: fn(&mut T, &Field) -> Result<()>,
}

const fn key<T>(
    name: &'static str,
    synonyms: &'static [&'static str],
    meaning: &'static str,
    write: fn(&mut T, &Field) -> Result<()>,
) -> Key<T> {
    Key { name, meaning, synonyms, write }
}

/// A key of the recipe, for help texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Key with its section, for instance `optimiser.lr`.
    pub key: String,
    /// Meaning of the key and the values that it takes.
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

/// Returns the names of the keys of a layer.
#[cfg(test)]
pub(crate) fn layer_keys() -> impl Iterator<Item = &'static str> {
    model::LAYER.iter().chain(model::deep::LAYER).map(|key| key.name)
}

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
        "label",
        &["target", "label_column", "y"],
        "name of the column of a table that holds the labels; left out: label, target, class or y, else the last column",
        |data, field| {
            data.label = Some(field.text("the name of a column")?);
            Ok(())
        },
    ),
    key(
        "normalise_features",
        &["normalize_features"],
        "scale of the features: \"rows\" (or true; each row divided by its sum), \"columns\" (mean 0 and deviation 1 over the training rows), \"none\" (or false), or \"auto\": rows of a graph whose features are counts, as bags of words are",
        |data, field| {
            data.normalise_features = match &field.value {
                Found::Flag(true) => Some(NormaliseFeatures::Rows),
                Found::Flag(false) => Some(NormaliseFeatures::None),
                Found::Text(text) if text == "auto" => None,
                _ => {
                    let known = NormaliseFeatures::ALL;
                    Some(
                        field
                            .choice(&known)
                            .map_err(|_| field.refuse("\"rows\", \"columns\", \"none\" or \"auto\""))?,
                    )
                }
            };
            Ok(())
        },
    ),
    key(
        "task",
        &["task_type"],
        "link-prediction, or what labels are where they do not look like it: classification, multi-label, regression",
        |data, field| {
            data.task = Some(field.choice(&TaskType::ALL)?);
            Ok(())
        },
    ),
    key(
        "self_loops",
        &["keep_self_loops", "loops", "remove_self_loops"],
        "edges from a vertex to itself: \"drop\" or \"keep\"; left out: dropped, but a store has those that it was written with",
        |data, field| {
            data.self_loops = Some(field.choice(&SelfLoops::ALL)?);
            Ok(())
        },
    ),
    key(
        "without_edges",
        &["allow_empty_graph", "empty_graph"],
        "whether a model may gather though the data set has no edge, over empty lists: true or false",
        |data, field| {
            data.without_edges = field.flag()?;
            Ok(())
        },
    ),
    key(
        "split",
        &["splits", "folds", "fold", "train_ratio"],
        "which labelled rows train, validate, test: shares of each class [0.6, 0.2, 0.2], random:0.6/0.2/0.2, stratified:0.6/0.2/0.2, per-class:20/500/1000, folds:5/0, stratified-folds:5/0; left out: the data set's own",
        |data, field| {
            let share = |share: &Found| match share {
                Found::Integer(share) => Some(share.to_string()),
                Found::Number(share) => Some(share.to_string()),
                _ => None,
            };
            let text = match &field.value {
                Found::List(shares) => {
                    shares.iter().map(share).collect::<Option<Vec<String>>>().map(|shares| shares.join(","))
                }
                _ => None,
            };
            let text = match text {
                Some(text) => text,
                None => {
                    field.text("shares such as [0.6, 0.2, 0.2], or a rule such as \"random:0.6/0.2/0.2\"")?
                }
            };
            data.split = Some(text.parse().map_err(|form: String| field.refuse(form))?);
            Ok(())
        },
    ),
    key(
        "split_seed",
        &[],
        "what the split is drawn from, for all seeds of a run: 0 to 2^63 - 1",
        |data, field| {
            data.split_seed = field.integer(0..=i64::MAX as u64)?;
            Ok(())
        },
    ),
    key(
        "sequence",
        &["group", "context", "block_size", "seq_len", "sequence_length"],
        "rows of a sequence, which stay together and in order: 2 to 65536; of a text its tokens",
        |data, field| {
            data.sequence = Some(field.integer32(2..=MAX_SEQUENCE)?);
            Ok(())
        },
    ),
    key(
        "tokens",
        &["tokenizer", "vocabulary"],
        "what the tokens of a text are: characters, bytes",
        |data, field| {
            data.tokens = field.choice(&Tokens::ALL)?;
            Ok(())
        },
    ),
];

/// `file` comes first and is refused in a model file.
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
        "metric",
        &["eval_metric", "metrics"],
        "how good a model is: accuracy, roc-auc, average-precision, f1-micro, f1-macro, balanced-accuracy, cross-entropy, mean-absolute-error, root-mean-squared-error; of links roc-auc, average-precision, hits@10, hits@20, hits@50, hits@100, mean-reciprocal-rank",
        |run, field| {
            run.metric = Some(field.choice(&Metric::ALL)?);
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
        "until",
        &["target_metric", "stop_at"],
        "stop at the first evaluated epoch that reaches PART[_METRIC]=VALUE, for instance \"test_acc=0.94\"; left out: never",
        |run, field| {
            let text = field.text("a target such as \"test_acc=0.94\"")?;
            run.until = Some(text.parse().map_err(|form: String| field.refuse(form))?);
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
        "which model is written: last, best (of the highest validation accuracy, the first of equals), or last-best (the last of equals)",
        |run, field| {
            run.keep = field.choice(&Keep::ALL)?;
            Ok(())
        },
    ),
    key(
        "init",
        &["checkpoint", "weights", "pretrained"],
        "a model file (.safetensors), or a run folder, whose weights a run begins from; left out: drawn ones",
        |run, field| {
            run.init = Some(field.text("a path to a model file or a run folder")?);
            Ok(())
        },
    ),
    key(
        "init_fresh",
        &["fresh_layers"],
        "layers, from 0, that begin from drawn weights all the same: [1]; left out: none",
        |run, field| {
            run.init_fresh = field.layers()?;
            Ok(())
        },
    ),
    key(
        "init_digest",
        &[],
        "SHA-256 of the weights of run.init, as a summary's model_digest: other weights are refused",
        |run, field| {
            let wanted = "64 hexadecimal digits";
            let text = field.text(wanted)?.to_ascii_lowercase();
            let digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            run.init_digest = Some(text).filter(|_| digest);
            if digest { Ok(()) } else { Err(field.refuse(wanted)) }
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
        "numeric_class",
        &["class", "simd"],
        "the class of processors whose bits the run has: portable-1, neon-fma-1, avx2-fma-1, avx512-fma-2; left out: the best of this one",
        |run, field| {
            let classes = ["portable-1", "neon-fma-1", "avx2-fma-1", "avx512-fma-2"];
            run.numeric_class = Some(field.choice(&classes.map(|name| (name, name)))?.to_owned());
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
        "when the first layer's gather is done, where no dropout stands before it (gcn, sage of the mean, gin, sgc): auto, once, each-epoch",
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
            run.row_storage = field.choice(&RowFormat::STORED)?;
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

/// The sections of a recipe, with other common names of them.
const SECTIONS: [(&str, &[&str]); 14] = [
    ("data", &["dataset"]),
    ("model", &["network"]),
    ("optimiser", &["optimizer"]),
    ("run", &["train", "training"]),
    ("batch", &["batches", "sampling", "sampler"]),
    ("pipeline", &["asynchrony"]),
    ("lanes", &["lane", "stages"]),
    ("kernels", &[]),
    ("limits", &[]),
    ("links", &["link", "link_prediction"]),
    ("checkpoint", &["checkpoints"]),
    ("executor", &[]),
    ("emulator", &["emulated"]),
    ("workers", &["worker", "cluster"]),
];

fn is_section(name: &str) -> bool {
    SECTIONS.iter().any(|(section, _)| *section == name)
}

/// Writes a recipe.
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

/// Writes one key, given with its section.
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

/// Writes a model file: the keys of `[model]` without `file`.
pub(crate) fn write_model_file(model: &mut ModelSettings, fields: &Fields) -> Result<()> {
    write(model, "", MODEL.get(1..).unwrap_or(MODEL), &fields.0)
}

fn write_section(config: &mut Config, section: &str, fields: &Fields) -> Result<()> {
    let fields = &fields.0;
    match section {
        "data" => write(&mut config.data, section, DATA, fields),
        "model" => write(&mut config.model, section, MODEL, fields),
        "optimiser" => write(&mut config.optimiser, section, optimiser::OPTIMISER, fields),
        "run" => write(&mut config.run, section, RUN, fields),
        "batch" => write(&mut config.batch, section, batch::BATCH, fields),
        "lanes" => write(&mut config.lanes, section, lanes::LANES, fields),
        "workers" => write(&mut config.workers, section, workers::WORKERS, fields),
        "pipeline" => write(&mut config.pipeline, section, pipeline::PIPELINE, fields),
        "links" => write(&mut config.links, section, links::LINKS, fields),
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

/// Writes fields in the fixed order of the keys, not in the order of the text. `section` is empty
/// outside of a recipe's sections.
fn write<T>(target: &mut T, section: &str, keys: &[Key<T>], fields: &[Field]) -> Result<()> {
    write_both(target, section, (keys, &[]), fields)
}

/// Writes fields by keys of two lists, outside of every section.
fn write_with<T>(target: &mut T, keys: &[Key<T>], more: &[Key<T>], fields: &[Field]) -> Result<()> {
    write_both(target, "", (keys, more), fields)
}

fn write_both<T>(
    target: &mut T,
    section: &str,
    (keys, more): (&[Key<T>], &[Key<T>]),
    fields: &[Field],
) -> Result<()> {
    let keys = || keys.iter().chain(more);
    for field in fields {
        if !keys().any(|key| key.name == field.name) {
            let own: Vec<Offer> = keys()
                .map(|key| Offer { section: section.to_owned(), name: key.name, synonyms: key.synonyms })
                .collect();
            return Err(unknown(field, &own, !section.is_empty()));
        }
    }
    for key in keys() {
        for field in fields.iter().filter(|field| field.name == key.name) {
            (key.write)(target, field)?;
        }
    }
    Ok(())
}

/// A known key that the user could have meant.
struct Offer {
    section: String,
    name: &'static str,
    synonyms: &'static [&'static str],
}

/// Returns the error for a key that is not in `own`, the keys of its section. If `recipe`, the user
/// may also have meant the keys of other sections.
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
        place: field.position.place(),
    }
}

/// Returns the error for a key outside of every section.
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
    of("batch", batch::BATCH, &mut each);
    of("lanes", lanes::LANES, &mut each);
    of("pipeline", pipeline::PIPELINE, &mut each);
    of("links", links::LINKS, &mut each);
    of("limits", LIMITS, &mut each);
    of("checkpoint", checkpoint::CHECKPOINT, &mut each);
    of("executor", executor::EXECUTOR, &mut each);
    of("emulator", executor::EMULATOR, &mut each);
    of("workers", workers::WORKERS, &mut each);
}

/// Returns the similarity of two keys, in [0, 1]. Long keys are cut, because the measure takes
/// quadratic time.
fn resemblance(left: &str, right: &str) -> f64 {
    let cut: String = left.chars().take(64).flat_map(char::to_lowercase).collect();
    strsim::normalized_damerau_levenshtein(&cut.replace('-', "_"), right)
}
