//! Which vertices are linked: from a graph without labels to scores of pairs.

use std::fmt::Write as _;
use std::path::Path;

use crate::common::{eciton, works};
use serde_json::Value;

/// Seed 3; what is held out is drawn from `links.seed`, which is 0.
const TRAIN: [&str; 12] = [
    "train",
    ".",
    "--task",
    "link-prediction",
    "--epochs",
    "100",
    "--dropout",
    "0",
    "--seed",
    "3",
    "--set",
    "run.keep=last",
];

/// Each group's vertices.
const SIZE: u32 = 100;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The last object that is printed.
#[track_caller]
fn last(folder: &Path, line: &[&str]) -> Value {
    lines(&works(folder, &[line, &["--json"]].concat())).pop().unwrap()
}

#[track_caller]
fn refused(folder: &Path, line: &[&str], code: i32, words: &[&str]) {
    let (found, out, err) = eciton(folder, line);
    assert_eq!((found, &*out), (Some(code), ""), "{line:?}: {err}");
    for word in words {
        assert!(err.contains(word), "{line:?}: `{word}` is not in: {err}");
    }
}

/// Two groups of vertices, each linked to the 60 nearest on a ring of its group and to nobody else; one of two
/// features tells the groups apart. There are no labels.
fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (mut edges, mut features) = ("source,target\n".to_owned(), "id,a,b\n".to_owned());
    for (group, sign) in [("l", 1.0), ("r", -1.0)] {
        for v in 0..SIZE {
            let wave = |speed: f64| (f64::from(v) * speed).sin();
            writeln!(features, "{group}{v},{:.4},{:.4}", sign + 0.3 * wave(0.7), wave(1.9)).unwrap();
            for step in 1..=30 {
                writeln!(edges, "{group}{v},{group}{}", (v + step) % SIZE).unwrap();
            }
        }
    }
    for (name, text) in [("edges", edges), ("features", features)] {
        std::fs::write(folder.path().join(format!("{name}.csv")), text).unwrap();
    }
    folder
}

#[test]
fn links_are_learnt_and_measured() {
    let data = data();
    let folder = data.path();
    let out = lines(&works(folder, &[&TRAIN[..], &["--json", "--out", "run"]].concat()));
    let (epoch, summary) = (&out[out.len() - 2], out.last().unwrap());
    assert_eq!(summary["metric"], "roc-auc");
    // Who knows the groups alone has 86 %: 13,900 pairs are without a link, 3,900 of them within a group.
    assert!(summary["test_metric"].as_f64().unwrap() > 0.75, "{summary}");
    assert_eq!(summary["seeds"][0]["metrics"]["train"], Value::Null, "{summary}");
    assert!(epoch["train_metric"].is_null() && epoch["val_metric"].is_number(), "{epoch}");
    assert!(out[0]["loss"].as_f64().unwrap() > epoch["loss"].as_f64().unwrap(), "{}", out[0]);
    let text = works(folder, &[&TRAIN[..5], &["3", "--no-out"]].concat());
    assert!(text.contains("test ROC-AUC"), "{text}");

    let eval = last(folder, &["eval", "run"]);
    assert_eq!((&eval["reproduced"], &eval["metric"]), (&true.into(), &"roc-auc".into()));
    assert_eq!(
        (&eval["test_metric"], &eval["train_metric"]),
        (&summary["test_metric"], &Value::Null),
        "{eval}"
    );
    for more in [
        &["--set", "run.intervals=3", "--threads", "2"][..],
        &["--mode", "sync", "--threads", "1"],
        &["--executor", "loopback", "--intervals", "2"],
    ] {
        let found = last(folder, &[&TRAIN[..], &["--no-out"], more].concat());
        assert_eq!(found["model_digest"], summary["model_digest"], "{more:?}");
    }
    // Neither the seed of what is held out nor other negatives are the same run.
    for more in ["links.seed=1", "links.negatives=2"] {
        let found = last(folder, &[&TRAIN[..], &["--no-out", "--set", more]].concat());
        assert_ne!(found["model_digest"], summary["model_digest"], "{more}");
    }
    for metric in ["hits@10", "hits@100", "mean-reciprocal-rank"] {
        let line = [&TRAIN[..], &["--out", metric, "--metric", metric]].concat();
        let found = last(folder, &line);
        assert_eq!(found["metric"], metric);
        let share = found["test_metric"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&share), "{found}");
        let eval = last(folder, &["eval", metric]);
        assert_eq!((&eval["reproduced"], &eval["test_metric"]), (&true.into(), &found["test_metric"]));
    }
}

#[test]
fn pairs_are_scored_by_inner_products() {
    let data = data();
    let folder = data.path();
    works(folder, &[&TRAIN[..], &["--out", "run", "--set", "links.embedding=5"]].concat());
    let printed = works(folder, &["predict", "run"]);
    assert!(printed.starts_with("id,embedding(0),embedding(1),embedding(2),embedding(3),embedding(4)\nl0,"));
    let embedding = |id: &str| -> Vec<f64> {
        let row = printed.lines().find(|line| line.split(',').next() == Some(id)).unwrap();
        row.split(',').skip(1).map(|value| value.parse().unwrap()).collect()
    };
    assert_eq!((printed.lines().count(), embedding("r99").len()), (201, 5));
    let first = &lines(&works(folder, &["predict", "run", "--json"]))[0];
    assert_eq!((first["id"].as_str(), first["embedding"].as_array().unwrap().len()), (Some("l0"), 5));
    assert!(first.get("scores").is_none() && first.get("predicted").is_none(), "{first}");

    std::fs::write(folder.join("pairs.csv"), "# some pairs\nsource,target\nl0,l1\n\nl0,r50\nr7,r7\n")
        .unwrap();
    let text = works(folder, &["predict", "run", "--pairs", "pairs.csv"]);
    let mut rows = text.lines();
    assert_eq!(rows.next(), Some("source,target,score,probability"));
    let objects = lines(&works(folder, &["predict", "run", "--pairs", "pairs.csv", "--json"]));
    assert_eq!(objects.len(), 3);
    for ((row, object), (a, b)) in rows.zip(&objects).zip([("l0", "l1"), ("l0", "r50"), ("r7", "r7")]) {
        let fields: Vec<&str> = row.split(',').collect();
        assert_eq!(fields[..2], [a, b]);
        assert_eq!((object["source"].as_str(), object["target"].as_str()), (Some(a), Some(b)));
        let wanted: f64 = embedding(a).iter().zip(embedding(b)).map(|(x, y)| x * y).sum();
        let [score, probability] = [2, 3].map(|field: usize| fields[field].parse::<f64>().unwrap());
        assert!((score - wanted).abs() < 1e-4 * (1.0 + wanted.abs()), "{row}: not {wanted}");
        assert!((probability - 1.0 / (1.0 + (-score).exp())).abs() < 1e-6, "{row}");
        let near = |key: &str, found: f64| {
            (object[key].as_f64().unwrap() - found).abs() < 1e-6 * (1.0 + found.abs())
        };
        assert!(near("score", score) && near("probability", probability), "{object}");
    }
    // A vertex and itself: its length; the two groups stand apart.
    let score = |at: usize| objects[at]["score"].as_f64().unwrap();
    assert!(score(2) > 0.0 && score(0) > score(1), "{text}");

    let said = works(folder, &["predict", "run", "--pairs", "pairs.csv", "--out", "scores.csv"]);
    assert!(said.contains("wrote scores of 3 pairs to scores.csv"), "{said}");
    assert_eq!(std::fs::read_to_string(folder.join("scores.csv")).unwrap(), text);
    let said = last(folder, &["predict", "run", "--pairs", "pairs.csv", "--out", "scores.csv"]);
    assert_eq!((&said["event"], &said["pairs"]), (&"pair scores".into(), &3.into()));

    // A file of the embedding is the run folder's.
    let said = works(folder, &["predict", "run", "--out", "z.npz"]);
    assert!(said.contains("wrote embeddings of 200 vertices in 5 dimensions to z.npz"), "{said}");
    let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert_eq!(bytes("z.npz"), bytes("run/predictions.npz"));
    let said = last(folder, &["predict", "run", "--out", "z.csv"]);
    assert_eq!((&said["task"], &said["dimensions"]), (&"link-prediction".into(), &5.into()));
    assert!(said.get("classes").is_none(), "{said}");
    assert_eq!(std::fs::read_to_string(folder.join("z.csv")).unwrap(), printed);

    let pairs = ["predict", "run", "--pairs"];
    let asked = |name: &'static str, text: &str, words: &[&str]| {
        std::fs::write(folder.join(name), text).unwrap();
        refused(folder, &[&pairs[..], &[name]].concat(), 1, words);
    };
    asked("a.csv", "l0,l1\nl0,nobody\n", &["a.csv, line 2", "\"nobody\"", "200 vertices"]);
    asked("b.csv", "source,target\nl0\n", &["b.csv, line 2", "expected 2 fields"]);
    asked("c.csv", "", &["c.csv: expected a pair", "write two ids"]);
    asked("d.csv", "source,target\n", &["d.csv: expected a pair"]);
    refused(folder, &["predict", "run", "--pairs", "absent.csv"], 1, &["absent.csv"]);
    refused(folder, &["predict", "run", "--pairs", "pairs.csv", "--out", "s.npz"], 2, &["s.npz", ".csv"]);
    let line = ["predict", "run", "--pairs", "pairs.csv", "--embeddings", "--out", "s.npz"];
    refused(folder, &line, 2, &["--pairs", "--embeddings"]);
    refused(
        folder,
        &["predict", "run", "--embeddings", "--out", "s.npz"],
        2,
        &["--embeddings", "omit the flag"],
    );
    assert!(!folder.join("s.npz").exists());
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let data = data();
    let folder = data.path();
    let links = |more: &[&'static str]| [&TRAIN[..5], &["1", "--no-out"], more].concat();
    let without = ["train", ".", "--no-out", "--set", "links.test=0.5"];
    refused(folder, &without, 2, &["`links`", "data.task", "link-prediction"]);
    refused(
        folder,
        &links(&["--set", "links.validation=0.5", "--set", "links.test=0.5"]),
        2,
        &["links.validation", "links.test", "a sum below 1"],
    );
    refused(folder, &links(&["--set", "links.test=1"]), 2, &["links.test", "0 <= test < 1"]);
    refused(folder, &links(&["--metric", "hits@30"]), 2, &["hits@30", "hits@20", "hits@50"]);
    refused(folder, &links(&["--metric", "accuracy"]), 1, &["the task is link-prediction", "roc-auc"]);
    let line = ["--patience", "5", "--set", "links.validation=0"];
    refused(folder, &links(&line), 1, &["run.patience", "links.validation"]);
    let line = [&TRAIN[..5], &["1", "--out", "run", "--embeddings"]].concat();
    refused(folder, &line, 2, &["--embeddings", "omit the flag"]);
    refused(folder, &["train", ".", "--no-out"], 1, &["no labels", "link-prediction"]);

    works(folder, &["train", "cora", "--epochs", "1", "--out", "classes"]);
    std::fs::write(folder.join("pairs.csv"), "0,1\n").unwrap();
    let line = ["predict", "classes", "--pairs", "pairs.csv"];
    refused(folder, &line, 2, &["pairs.csv", "classes", "--task link-prediction"]);
}
