//! Many graphs in one data set: what is learnt of each, from a folder of one's own to predictions by its id.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::common::{eciton, works};
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
    assert_eq!(rows.next(), Some("id,predicted,label,part,p(path),p(ring),score(path),score(ring)"));
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

#[test]
fn generated_graphs_are_described_trained_on_and_predicted() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let generate = ["data", "generate", "graphs"];
    let text = works(folder, &[&generate[..], &["made", "--graphs", "300", "--rewire", "0,0.3"]].concat());
    for words in [
        "made (graphs, store)",
        "graphs      300\n",
        "180 train, 60 validation, 60 test",
        "upper bound 96.67 %",
    ] {
        assert!(text.contains(words), "`{words}` is not in: {text}");
    }
    let stat = &lines(&works(folder, &["data", "stat", "made", "--json"]))[0];
    let of = &stat["graphs"];
    assert_eq!((of["count"].as_u64(), stat["classes"].as_u64()), (Some(300), Some(3)), "{stat}");
    let bounds = |key: &str| of[key].as_u64().unwrap();
    assert!(bounds("vertices_min") >= 20 && bounds("vertices_max") <= 40, "{stat}");
    assert_eq!(stat["edges"].as_u64().unwrap(), 4 * stat["vertices"].as_u64().unwrap());
    assert_eq!(stat["features"], 8);

    let line = ["train", "made", "--model", "gin", "--layers", "3", "--dropout", "0", "--epochs", "60"];
    let more =
        ["--set", "model.readout=sum", "--set", "model.first_weights=pytorch", "--out", "run", "--json"];
    let text = works(folder, &[&line[..], &more].concat());
    let found = lines(&text).pop().unwrap();
    // The kinds of vertices alone tell about half.
    assert!(found["test_metric"].as_f64().unwrap() > 0.7, "{found}");
    let rows = works(folder, &["predict", "run"]);
    let ids: Vec<&str> = rows.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
    assert_eq!(ids, (0..300).map(|graph| graph.to_string()).collect::<Vec<_>>());
}

#[test]
fn generated_graphs_are_the_same_for_any_threads() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let generate = |out: &str, more: &[&str]| {
        let line =
            ["data", "generate", "graphs", out, "--name", "a", "--per-class", "20,10", "--classes", "4"];
        let found = lines(&works(folder, &[&line[..], &["--json"], more].concat())).remove(0);
        assert_eq!([&found["train"], &found["validation"], &found["test"]], [80, 40, 480], "{found}");
        std::fs::read_to_string(folder.join(out).join("store.json")).unwrap()
    };
    let one = generate("one", &["--threads", "1"]);
    assert_eq!(one, generate("three", &["--threads", "3"]), "checksums of all arrays");
    assert_ne!(one, generate("other", &["--seed", "1"]));
}

#[test]
fn graphs_that_cannot_be_generated_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    for (more, words) in [
        (["--vertices", "3,9"], "the smallest number of vertices of a graph is 3, but must be 8 to 9"),
        (["--vertices", "20..40"], "expected a whole number, or two separated by a comma"),
        (["--classes", "5"], "classes is 5, but must be 2 to 4"),
        (["--rewire", "0.6,0.2"], "the smallest fraction of rewired links is 0.6, but must be 0 to 0.2"),
        (["--split", "0.9,0.2"], "--split 0.9,0.2: each share and their sum must be from 0 to 1"),
        (["--graphs", "0"], "graphs is 0, but must be 1 to"),
    ] {
        let line = [&["data", "generate", "graphs", "made"][..], &more].concat();
        let (code, _, err) = eciton(folder, &line);
        assert_eq!(code, Some(2), "{line:?}: {err}");
        assert!(err.contains(words), "{line:?}: `{words}` is not in: {err}");
        assert!(!folder.join("made").exists());
    }
    std::fs::create_dir(folder.join("taken")).unwrap();
    let (code, _, err) = eciton(folder, &["data", "generate", "graphs", "taken"]);
    assert!(code != Some(0) && (err.contains("exists already") || err.contains("already exists")), "{err}");
}
