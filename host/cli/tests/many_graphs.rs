//! Many graphs in one data set: what is learnt of each, from a folder of one's own to predictions by its id.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use common::{eciton, works};
use serde_json::Value;

const GRAPHS: u32 = 60;

/// Rings, and paths of as many vertices with a chord at either end: of 6 to 10 vertices, all of degree 2 but for
/// the four of a chord.
fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut edges = "source,target\n".to_owned();
    let (mut graphs, mut labels) = ("id,graph\n".to_owned(), "id,class\n".to_owned());
    for graph in 0..GRAPHS {
        let (size, ring) = (6 + graph % 5, graph % 2 == 0);
        writeln!(labels, "g{graph},{}", if ring { "ring" } else { "path" }).unwrap();
        for v in 0..size {
            writeln!(graphs, "{graph}.{v},g{graph}").unwrap();
            if v + 1 < size {
                writeln!(edges, "{graph}.{v},{graph}.{}", v + 1).unwrap();
            }
        }
        match ring {
            true => writeln!(edges, "{graph}.0,{graph}.{}", size - 1).unwrap(),
            false => {
                writeln!(edges, "{graph}.0,{graph}.2").unwrap();
                writeln!(edges, "{graph}.{},{graph}.{}", size - 3, size - 1).unwrap();
            }
        }
    }
    for (name, text) in [("edges", edges), ("graphs", graphs), ("labels", labels)] {
        std::fs::write(folder.path().join(format!("{name}.csv")), text).unwrap();
    }
    folder
}

const TRAIN: [&str; 9] = ["train", ".", "--model", "gin", "--dropout", "0", "--seed", "1", "--json"];
const LONG: [&str; 4] = ["--epochs", "60", "--set", "model.readout=sum"];

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn summary(folder: &Path, more: &[&str]) -> Value {
    lines(&works(folder, &[&TRAIN, more].concat())).pop().unwrap()
}

#[test]
fn graphs_are_told_apart_and_predicted_by_their_ids() {
    let data = data();
    let folder = data.path();
    let found = summary(folder, &[&LONG[..], &["--out", "run"]].concat());
    assert!(found["test_metric"].as_f64().unwrap() > 0.9, "{found}");
    let text = works(folder, &["predict", "run"]);
    let mut rows = text.lines();
    assert_eq!(rows.next(), Some("id,class,score_0,score_1"));
    let ids: BTreeSet<String> = rows.map(|row| row.split(',').next().unwrap().to_owned()).collect();
    assert_eq!(ids, (0..GRAPHS).map(|graph| format!("g{graph}")).collect());
    let line = &lines(&works(folder, &["predict", "run", "--out", "p.npz", "--embeddings", "--json"]))[0];
    assert_eq!((line["graphs"].as_u64(), &line["vertices"]), (Some(60), &Value::Null), "{line}");
    let again = &lines(&works(folder, &["eval", "run", "--json"]))[0];
    assert_eq!(again["test_metric"], found["test_metric"], "{again}");
}

#[test]
fn the_same_for_any_cut_executor_and_store() {
    let data = data();
    let folder = data.path();
    for readout in ["mean", "sum", "max"] {
        let readout = format!("model.readout={readout}");
        let digest = |more: &[&str]| {
            let found = summary(folder, &[&["--set", &readout, "--no-out", "--epochs", "5"], more].concat());
            found["seeds"][0]["model_digest"].as_str().unwrap().to_owned()
        };
        let wanted = digest(&[]);
        for more in [
            &["--set", "run.intervals=5", "--threads", "2"][..],
            &["--set", "run.intervals=3", "--executor", "loopback"],
            &["--set", "pipeline.mode=sync", "--set", "run.intervals=2"],
        ] {
            assert_eq!(digest(more), wanted, "{readout} {more:?}");
        }
    }
    works(folder, &["data", "convert", ".", "store"]);
    let of_store = |folder: &Path| {
        let line = ["train", "store", "--model", "gcn", "--epochs", "3", "--no-out", "--json"];
        lines(&works(folder, &line)).pop().unwrap()["seeds"][0]["model_digest"].clone()
    };
    let plain = ["train", ".", "--model", "gcn", "--epochs", "3", "--no-out", "--json"];
    let plain = lines(&works(folder, &plain)).pop().unwrap()["seeds"][0]["model_digest"].clone();
    assert_eq!(of_store(folder), plain);
    // Graphs stay themselves in another order of vertices.
    let ordered = summary(folder, &[&LONG[..], &["--order", "rabbit", "--out", "ordered"]].concat());
    assert!(ordered["test_metric"].as_f64().unwrap() > 0.9, "{ordered}");
    let first = works(folder, &["predict", "ordered"]).lines().nth(1).unwrap().to_owned();
    assert!(first.starts_with("g0,"), "{first}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let data = data();
    let folder = data.path();
    let refused = |line: &[&str], words: &[&str]| {
        let (code, _, err) = eciton(folder, line);
        assert_ne!(code, Some(0), "{line:?}");
        for word in words {
            assert!(err.contains(word), "{line:?}: `{word}` is not in: {err}");
        }
    };
    std::fs::write(folder.join("flat.toml"), "[[layers]]\nkernel = \"gcn\"\n").unwrap();
    refused(&["train", ".", "--model", "flat.toml", "--no-out"], &["60 graphs", "kernel = \"readout\""]);
    refused(
        &["train", "cora", "--set", "model.readout=mean", "--no-out"],
        &["`cora` is one graph", "model.readout"],
    );
    refused(&["train", ".", "--set", "model.readout=median", "--no-out"], &["median", "mean"]);
}
