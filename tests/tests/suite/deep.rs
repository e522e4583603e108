//! Deep networks: whole models against `tests/oracle/deep.py`, an f64 implementation in NumPy; how they are cut, and
//! texts that go on.

use eciton_graph::adjacency::{Graph, Options as GraphOptions};
use eciton_graph::dataset::{Dataset, Features, Labels, Split};
use eciton_recipe::Config;
use eciton_tests::{Numbers, options, train};
use eciton_train::{Drawing, Options, Recording, Writer};
use serde_json::{Value, json};

use crate::numpy::{ask, assert_close, flat, trained};

/// What relative difference, by norm, f32 may have from f64.
const CLOSE: f64 = 2e-4;

/// What features are.
#[derive(Clone, Copy)]
enum Rows {
    /// Numbers.
    Real(u32),
    /// Numbers of entries below this.
    Ids(u32),
}

/// A model, and the data that it is asked about.
struct Case {
    what: &'static str,
    rows: u32,
    group: u32,
    of: Rows,
    classes: u32,
    layers: Value,
}

fn cases() -> Vec<Case> {
    let transformer = json!({"kernel": "transformer", "width": 8, "hidden": 16, "heads": 2, "causal": true});
    vec![
        Case {
            what: "digits-cnn",
            rows: 60,
            group: 1,
            of: Rows::Real(6 * 5 * 2),
            classes: 4,
            layers: json!([
                {"kernel": "conv2d", "image": [6, 5, 2], "channels": 3, "padding": 1, "activation": "relu"},
                {"kernel": "conv2d", "image": [6, 5, 3], "channels": 4, "stride": 2, "padding": 2, "dilation": 2,
                 "activation": "identity"},
                {"kernel": "pool2d", "image": [3, 3, 4], "window": 2, "stride": 1},
                {"kernel": "linear", "width": 9, "activation": "gelu"},
                {"kernel": "linear"},
            ]),
        },
        Case {
            what: "char-lm",
            rows: 60,
            group: 6,
            of: Rows::Ids(7),
            classes: 7,
            layers: json!([
                {"name": "tokens", "kernel": "embedding", "entries": 7, "width": 8, "positions": true},
                transformer, transformer,
                {"kernel": "normalise", "norm": "layer"},
                {"kernel": "linear", "weights_of": "tokens", "bias": false},
            ]),
        },
        Case {
            what: "attention that sees all",
            rows: 40,
            group: 5,
            of: Rows::Real(6),
            classes: 3,
            layers: json!([
                {"kernel": "linear", "width": 8, "activation": "silu"},
                {"kernel": "self-attention", "width": 8, "heads": 4},
                {"kernel": "normalise", "norm": "rms"},
                {"kernel": "linear"},
            ]),
        },
        Case {
            what: "branches",
            rows: 70,
            group: 1,
            of: Rows::Real(12),
            classes: 3,
            layers: json!([
                {"name": "left", "kernel": "slice", "inputs": ["features"], "start": 0, "count": 5},
                {"name": "a", "kernel": "linear", "width": 6, "activation": "relu"},
                {"name": "right", "kernel": "slice", "inputs": ["features"], "start": 5, "count": 7},
                {"name": "b", "kernel": "linear", "width": 4, "activation": "tanh"},
                {"kernel": "concat", "inputs": ["a", "b", "features"]},
                {"kernel": "linear", "width": 8, "activation": "relu"},
                {"kernel": "linear"},
            ]),
        },
        Case {
            what: "two-tower",
            rows: 70,
            group: 1,
            of: Rows::Real(9),
            classes: 2,
            layers: json!([
                {"name": "left", "kernel": "linear", "inputs": ["features"], "width": 6, "activation": "relu"},
                {"name": "right", "kernel": "linear", "inputs": ["features"], "width": 6, "activation": "sigmoid"},
                {"name": "both", "kernel": "product", "inputs": ["left", "right"]},
                {"name": "all", "kernel": "sum", "inputs": ["left", "both", "right"]},
                {"kernel": "linear"},
            ]),
        },
        Case {
            what: "losses of several layers",
            rows: 70,
            group: 1,
            of: Rows::Real(9),
            classes: 3,
            layers: json!([
                {"name": "a", "kernel": "linear", "width": 8, "activation": "relu"},
                {"kernel": "linear", "loss_weight": 0.3},
                {"name": "b", "kernel": "linear", "inputs": ["a"], "width": 8, "activation": "gelu"},
                {"name": "early", "kernel": "linear", "loss_weight": 2.5},
                {"name": "c", "kernel": "linear", "inputs": ["b"], "width": 8, "activation": "tanh"},
                {"kernel": "concat", "inputs": ["c", "early"]},
                {"kernel": "linear"},
            ]),
        },
    ]
}

impl Case {
    fn config(&self, settings: &[&str]) -> Config {
        let mut text = "[model]\ndropout = 0.0\n".to_owned();
        for layer in self.layers.as_array().unwrap() {
            text.push_str("[[model.layers]]\n");
            for (key, value) in layer.as_object().unwrap() {
                // JSON's literals of these are TOML's.
                text.push_str(&format!("{key} = {value}\n"));
            }
        }
        let mut config = Config::parse(&text, self.what).unwrap();
        config.data.sequence = Some(self.group).filter(|&group| group > 1);
        config.run.threads = Some(2);
        settings.iter().for_each(|setting| config.set(setting).unwrap());
        config
    }

    fn dataset(&self, seed: u64) -> Dataset {
        let numbers = &mut Numbers(seed);
        let (columns, values): (u32, Vec<f32>) = match self.of {
            Rows::Real(columns) => (columns, (0..self.rows * columns).map(|_| numbers.value()).collect()),
            Rows::Ids(entries) => (1, (0..self.rows).map(|_| numbers.below(entries) as f32).collect()),
        };
        let labels = (0..self.rows).map(|_| numbers.below(self.classes)).collect();
        let held = self.group.max(4);
        let split = Split {
            train: (0..self.rows - held).collect(),
            validation: Vec::new(),
            test: (self.rows - held..self.rows).collect(),
        };
        Dataset::new(
            "random".to_owned(),
            Graph::from_edges(self.rows.into(), std::iter::empty(), GraphOptions::default()).unwrap(),
            Features::dense(columns, &values).unwrap(),
            Labels::classes(labels, self.classes),
            split,
        )
    }
}

#[test]
fn losses_and_gradients_are_those_of_numpy() {
    let Some(python) = eciton_tests::python("tests/oracle/deep.py") else { return };
    for (case, seed) in cases().into_iter().zip(11..) {
        let what = format!("{}, seed {seed}", case.what);
        let dataset = case.dataset(seed);
        let found = trained(&what, &case.config(&[]), &dataset, 1, Recording::default());
        let columns = dataset.features.columns() as usize;
        let mut features = vec![vec![0.0; columns]; case.rows as usize];
        features.iter_mut().zip(0..).for_each(|(row, at)| dataset.features.copy_row(at, row));
        let parameters: serde_json::Map<String, Value> = found
            .parameters
            .iter()
            .map(|tensor| {
                let value = match tensor.shape[..] {
                    [_, columns] => json!(tensor.values.chunks(columns).collect::<Vec<_>>()),
                    _ => json!(tensor.values),
                };
                (tensor.name.clone(), value)
            })
            .collect();
        let job = json!({
            "layers": case.layers, "features": features, "labels": dataset.labels.as_classes().unwrap(),
            "rows": dataset.split.train, "group": case.group, "parameters": parameters,
        });
        let wanted = ask(&what, &python, "deep.py", &job);
        assert_close(CLOSE, &format!("{what}: loss"), &found.losses, &[wanted["loss"].as_f64().unwrap()]);
        for gradient in &found.gradients {
            let what = format!("{what}: {}", gradient.name);
            let values: Vec<f64> = gradient.values.iter().map(|&value| value.into()).collect();
            assert_close(CLOSE, &what, &values, &flat(&wanted["gradients"][&gradient.name]));
        }
    }
}

fn text(folder: &std::path::Path) -> String {
    let path = folder.join("rose.txt");
    std::fs::write(&path, "a rose is a rose is a rose is a rose. ".repeat(60)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn language(source: &str, settings: &[&str]) -> Config {
    let case = cases().into_iter().find(|case| case.what == "char-lm").unwrap();
    let mut config =
        case.config(&["data.sequence=16", "batch.rows=512", "run.epochs=2", "optimiser.lr=0.01"]);
    config.data.source = source.to_owned();
    if let eciton_recipe::Layers::List(layers) = &mut config.model.layers {
        layers[0].deep.entries = None;
    }
    settings.iter().for_each(|setting| config.set(setting).unwrap());
    config
}

#[test]
fn how_a_language_model_is_cut_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let source = text(folder.path());
    let digest = |settings: &[&str]| {
        let (summary, _) = train(&language(&source, settings), &options()).unwrap();
        summary.model_digest
    };
    let wanted = digest(&[]);
    for other in [
        &["batch.micro=2"][..],
        &["batch.micro=3", "run.threads=1"],
        &["batch.micro=4", "executor.fuse=auto"],
        &["batch.micro=2", "executor.kind=loopback"],
        &["batch.micro=2", "executor.kind=loopback", "executor.fuse=auto"],
        &["run.intervals=3"],
    ] {
        assert_eq!(digest(other), wanted, "{other:?}");
    }
}

#[test]
fn how_losses_of_several_layers_are_cut_changes_no_bit() {
    let case = cases().into_iter().find(|case| case.what == "losses of several layers").unwrap();
    let digest = |settings: &[&str]| {
        let of_data = ["data.source=digits", "batch.rows=512", "run.epochs=2"];
        let config = case.config(&[&of_data[..], settings].concat());
        train(&config, &options()).unwrap().0.model_digest
    };
    let wanted = digest(&[]);
    assert_ne!(digest(&["model.dropout=0.5"]), wanted, "settings reach the model");
    for other in [
        &["batch.micro=3"][..],
        &["batch.micro=2", "executor.fuse=auto"],
        &["batch.micro=2", "executor.kind=loopback", "executor.fuse=auto"],
        &["batch.micro=2", "executor.kind=loopback", "run.threads=1"],
    ] {
        assert_eq!(digest(other), wanted, "{other:?}");
    }
}

#[test]
fn a_text_that_was_learnt_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (text(folder.path()), folder.path().join("run"));
    let config = language(&source, &["run.epochs=40", "run.metric=cross-entropy"]);
    let options = Options { out: Some(out.clone()), ..options() };
    train(&config, &options).unwrap();
    let options = Options { out: None, ..options };
    let drawing = Drawing { temperature: 0.0, seed: 0 };
    let mut writer = Writer::open(&out, "a rose is a ", drawing, &options).unwrap();
    let said: String = (0..12).map(|_| writer.next_token().unwrap()).collect();
    assert!(said.starts_with("rose"), "{said}");
    let refused = |prompt| Writer::open(&out, prompt, drawing, &options).map(drop).unwrap_err().to_string();
    assert!(refused("a zebra").contains("'z'") && refused("").contains("empty"));
}

#[test]
fn token_ids_of_a_list_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (folder.path().join("ids.npy"), folder.path().join("run"));
    let ids: Vec<u8> =
        (0..400u32).flat_map(|at| [7u32, 900, 12, 55][at as usize % 4].to_le_bytes()).collect();
    let header = "{'descr': '<u4', 'fortran_order': False, 'shape': (400,), }\n";
    let start = [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
    std::fs::write(&source, [start, ids].concat()).unwrap();
    let config = language(source.to_str().unwrap(), &["run.epochs=40", "run.metric=cross-entropy"]);
    let options = Options { out: Some(out.clone()), ..options() };
    train(&config, &options).unwrap();
    let options = Options { out: None, ..options };
    let drawing = Drawing { temperature: 0.0, seed: 0 };
    let mut writer = Writer::open(&out, "7, 900 12", drawing, &options).unwrap();
    let written: String = (0..6).map(|_| writer.next_token().unwrap()).collect();
    assert_eq!(written, " 55 7 900 12 55 7");
    assert_eq!(writer.finish(), (String::new(), 0));
    let refused = |prompt| Writer::open(&out, prompt, drawing, &options).map(drop).unwrap_err().to_string();
    assert!(refused("7 8").contains("token id 8"), "{}", refused("7 8"));
    assert!(refused("7 a").contains("\"a\"") && refused(", ").contains("empty"));
}
