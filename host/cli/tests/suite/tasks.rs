//! What is learnt besides one class a vertex: several labels, and numbers, from a folder to predictions.

use std::fmt::Write as _;

use crate::common::{eciton, works};
use serde_json::Value;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A ring of vertices with two features each, which say what their labels are; every seventh vertex lacks
/// the first label, and none has a split.
fn data(labels: impl Fn(f64, f64) -> (f64, f64)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (mut edges, mut features, mut rows) =
        ("source,target\n".to_owned(), "id,a,b\n".to_owned(), "id,one,other\n".to_owned());
    for v in 0..300u32 {
        let wave = |speed: f64| (f64::from(v) * speed).sin();
        let (a, b) = (wave(0.7), wave(1.9));
        let (one, other) = labels(a, b);
        writeln!(edges, "v{v},v{}", (v + 1) % 300).unwrap();
        writeln!(features, "v{v},{a:.4},{b:.4}").unwrap();
        let one = if v % 7 == 0 { String::new() } else { format!("{one}") };
        writeln!(rows, "v{v},{one},{other}").unwrap();
    }
    for (name, text) in [("edges", edges), ("features", features), ("labels", rows)] {
        std::fs::write(folder.path().join(format!("{name}.csv")), text).unwrap();
    }
    folder
}

#[test]
fn several_labels_are_learnt_measured_and_predicted() {
    let data = data(|a, b| (f64::from(u8::from(a > 0.0)), f64::from(u8::from(a + b > 0.4))));
    let folder = data.path();
    let stat = lines(&works(folder, &["data", "stat", ".", "--json"]));
    assert_eq!((&stat[0]["task"], &stat[0]["classes"]), (&"multi-label".into(), &2.into()));
    assert_eq!((&stat[0]["labels"][0]["known"], &stat[0]["labels"][1]["known"]), (&257.into(), &300.into()));

    let train = ["train", ".", "--model", "sage", "--epochs", "150", "--lr", "0.05", "--dropout", "0"];
    let out = lines(&works(folder, &[&train[..], &["--json", "--out", "run", "--intervals", "3"]].concat()));
    let summary = out.last().unwrap();
    assert_eq!(summary["metric"], "roc-auc");
    assert!(summary["test_metric"].as_f64().unwrap() > 0.97, "{summary}");
    assert!(out[0]["metric"] == "roc-auc" && out[0]["loss"].as_f64().unwrap() > 0.5, "{}", out[0]);
    let text = works(folder, &[&train[..], &["--no-out", "--metric", "f1-micro"]].concat());
    assert!(text.contains("test micro F1"), "{text}");

    let eval = lines(&works(folder, &["eval", "run", "--json"]));
    assert_eq!((&eval[0]["reproduced"], &eval[0]["metric"]), (&true.into(), &"roc-auc".into()));
    let csv = works(folder, &["predict", "run"]);
    let (header, rest) = csv.split_once('\n').unwrap();
    let columns: Vec<&str> = header.split(',').collect();
    assert_eq!((columns.len(), &columns[..2]), (10, &["id", "part"][..]), "{header}");
    for (at, what) in [(2, "predicted("), (4, "label("), (6, "p("), (8, "score(")] {
        assert!(columns[at].starts_with(what) && columns[at + 1].starts_with(what), "{header}");
    }
    for row in rest.lines() {
        let fields: Vec<&str> = row.split(',').collect();
        for label in 0..2 {
            let score: f32 = fields[8 + label].parse().unwrap();
            let probability: f32 = fields[6 + label].parse().unwrap();
            assert_eq!(fields[2 + label], if score > 0.0 { "1" } else { "0" }, "{row}");
            assert_eq!(probability > 0.5, score > 0.0, "{row}");
        }
    }
    let first = &lines(&works(folder, &["predict", "run", "--json"]))[0];
    assert!(first["predicted"].is_array() && first["label"].is_array(), "{first}");
    let picture = std::fs::read_to_string(folder.join("run/curve.svg")).unwrap();
    assert!(picture.contains("binary cross-entropy") && picture.contains("ROC-AUC"), "{picture}");

    // The same from a store, and in every mode and executor that keeps the order of things. Bits need fewer epochs.
    works(folder, &["data", "convert", ".", "store"]);
    let bits = |data: &str, more: &[&str]| {
        let line = ["train", data, "--model", "sage", "--epochs", "15", "--lr", "0.05", "--dropout", "0"];
        let line = [&line[..], &["--json", "--no-out", "--intervals", "3"], more].concat();
        lines(&works(folder, &line)).last().unwrap()["model_digest"].clone()
    };
    let here = bits(".", &[]);
    for more in [&["--mode", "sync"][..], &["--executor", "loopback"]] {
        assert_eq!(bits("store", more), here, "{more:?}");
    }
}

#[test]
fn numbers_are_learnt_and_less_is_better() {
    let data = data(|a, b| (20.0 + 3.0 * a, b - 2.0 * a));
    let folder = data.path();
    let train = ["train", ".", "--model", "sage", "--epochs", "300", "--lr", "0.05", "--dropout", "0"];
    let more = ["--json", "--out", "run", "--set", "run.keep=best", "--set", "model.activation=tanh"];
    let out = lines(&works(folder, &[&train[..], &more].concat()));
    let (summary, epochs) = (out.last().unwrap(), &out[..out.len() - 1]);
    assert_eq!(summary["metric"], "mean-absolute-error");
    let found = |line: &Value, key: &str| line[key].as_f64().unwrap();
    let validation = |line: &&Value| found(line, "val_metric");
    assert!(validation(&&epochs[0]) > 5.0, "{}", epochs[0]);
    let least = epochs.iter().min_by(|a, b| validation(a).total_cmp(&validation(b))).unwrap();
    assert_eq!(summary["seeds"][0]["best"]["epoch"], least["epoch"]);
    assert!(found(least, "test_metric") < 0.5, "{least}");
    let eval = lines(&works(folder, &["eval", "run", "--json"]));
    assert_eq!((&eval[0]["reproduced"], &eval[0]["test_metric"]), (&true.into(), &least["test_metric"]));
    assert!(works(folder, &["predict", "run"]).starts_with("id,part,predicted("));

    // A run of errors stops where they get no smaller.
    let early = lines(&works(
        folder,
        &[&train[..], &["--json", "--no-out", "--patience", "20", "--metric", "root-mean-squared-error"]]
            .concat(),
    ));
    let summary = early.last().unwrap();
    let best = summary["seeds"][0]["best"]["epoch"].as_u64().unwrap();
    let rmse = |line: &Value| found(line, "val_metric");
    let at = |epoch: u64| rmse(early.iter().find(|line| line["epoch"] == epoch).unwrap());
    assert!(early.iter().filter(|line| line["event"] == "epoch").all(|line| rmse(line) >= at(best)));
}

#[test]
fn what_does_not_fit_is_refused_with_what_does() {
    let folder = tempfile::tempdir().unwrap();
    for (line, words) in [
        (
            &["--metric", "roc-auc"][..],
            "classification of 7 classes: use accuracy or balanced-accuracy or f1-macro or f1-micro or cross-entropy",
        ),
        (&["--set", "model.loss=squared-error"], "the task is classification: use cross-entropy"),
        (
            &["--task", "regression", "--metric", "accuracy"],
            "use mean-absolute-error or root-mean-squared-error",
        ),
        (&["--task", "multi-label"], "cora labels"),
        (&["--class-weights", "[1,2]"], "has 2 numbers, but the data set has 7 classes"),
        (&["--class-weights", "[0,0,0,0,0,0,0]"], "has the weight 0 for every class that has training rows"),
        (&["--class-weights", "heavy"], "must be \"balanced\", or a list"),
        (&["--focal", "-1"], "`model.focal` is -1, but must be a number from 0 to 100"),
        (&["--task", "regression", "--focal", "1"], "`model.focal` requires a task with one class per row"),
        (&["--task", "regression", "--class-weights", "balanced"], "but the task is regression: remove it"),
        (&["--task", "ranking"], "one of \"classification\", \"multi-label\", \"regression\""),
    ] {
        let (code, out, err) =
            eciton(folder.path(), &[&["train", "--no-out", "--epochs", "1"], line].concat());
        assert!(code != Some(0) && err.contains(words), "{line:?}: {out}{err}");
        assert!(out.is_empty(), "{out}");
    }
    let text = works(folder.path(), &["train", "--task", "regression", "--epochs", "3", "--no-out"]);
    assert!(text.contains("test MAE"), "{text}");
}

/// The digest of a model, after twelve epochs on Cora.
fn digest(folder: &std::path::Path, line: &[&str]) -> String {
    let train = ["train", "--epochs", "12", "--no-out", "--json"];
    let out = lines(&works(folder, &[&train[..], line].concat()));
    out.last().unwrap()["model_digest"].as_str().unwrap().to_owned()
}

#[test]
fn weights_of_classes_are_a_function_of_the_data_alone() {
    let folder = tempfile::tempdir().unwrap();
    let found = |line: &[&str]| digest(folder.path(), line);
    let (plain, uneven) = (found(&[]), "[1,2,0.5,3,1,0,1]");
    let weighed = found(&["--class-weights", uneven]);
    let both = found(&["--class-weights", uneven, "--focal", "2"]);
    assert!(plain != weighed && weighed != both && both != found(&["--focal", "2"]));
    // Cora has as many training vertices of each class: a mean by equal weights.
    assert_eq!(found(&["--class-weights", "balanced"]), plain);
    assert_eq!(found(&["--class-weights", "[2,2,2,2,2,2,2]", "--focal", "0"]), plain);
    for way in [
        &["--intervals", "4", "--threads", "1"][..],
        &["--fresh-instances"],
        &["--executor", "loopback", "--functions", "4"],
    ] {
        let line = [&["--class-weights", uneven, "--focal", "2"][..], way].concat();
        assert_eq!(found(&line), both, "{way:?}");
    }
    // What was trained so is resolved so, and is evaluated.
    let train = ["train", "--epochs", "3", "--out", "run", "--class-weights", uneven, "--focal", "2"];
    works(folder.path(), &train);
    let config = std::fs::read_to_string(folder.path().join("run/config.toml")).unwrap();
    assert!(config.contains("\nclass_weights = [1.0, 2.0, 0.5, 3.0, 1.0, 0.0, 1.0]\n"), "{config}");
    assert!(config.contains("\nfocal = 2.0\n"), "{config}");
    let eval = lines(&works(folder.path(), &["eval", "run", "--json"]));
    assert_eq!(eval[0]["reproduced"], Value::from(true));
}

#[test]
fn a_loss_that_cannot_ask_for_weights_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let head = |path: &str| format!("head={}", root.join(path).display());
    let old = head("tests/compatibility/0.1.1/head.wasm");
    let train = ["train", "--epochs", "2", "--no-out", "--kernel"];
    let refused = |line: &[&str], words: &[&str]| {
        let (code, out, err) = eciton(folder.path(), &[&train[..], line].concat());
        assert!(code != Some(0) && out.is_empty(), "{line:?}: {out}{err}");
        words.iter().for_each(|word| assert!(err.contains(word), "{line:?}: {word:?} is missing in {err}"));
    };
    works(folder.path(), &[&train[..], &[&old]].concat());
    let words = [
        "kernel `head`, loss: the rows of the run have different weights",
        "does not import `eciton:kernel/given`",
    ];
    refused(&[&old, "--class-weights", "balanced"], &words);
    refused(&[&old, "--focal", "2"], &["it has no attribute `focal`; it has bias, of"]);
}
