//! Features of edges, from a table to weights of a model and to its kernels.

use std::fmt::Write as _;
use std::path::Path;

use crate::common::{eciton, works};
use serde_json::Value;

/// The last object that a run prints.
#[track_caller]
fn summary(folder: &Path, line: &[&str]) -> Value {
    let out = works(folder, &[line, &["--json"]].concat());
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

#[track_caller]
fn refused(folder: &Path, line: &[&str], words: &[&str]) {
    let (code, _, err) = eciton(folder, line);
    assert!(code.is_some_and(|code| code != 0), "{line:?} works");
    for word in words {
        assert!(err.contains(word), "{line:?}: `{word}` is not in: {err}");
    }
}

const VERTICES: u32 = 240;
const CLASSES: u32 = 4;

/// Vertices with two edges to their own class and nine to the others, which only `flow` tells apart: the model
/// that does not see it finds less of a class around its vertices than of others.
fn table(flow: impl Fn(bool) -> f32) -> String {
    let mut text = "from,to,flow,kind,slope\n".to_owned();
    for v in 0..VERTICES {
        for step in [1, 7] {
            let own = (v + step * CLASSES) % VERTICES;
            writeln!(text, "v{v},v{own},{},road,-1.5", flow(true)).unwrap();
        }
        for step in [1, 2, 3, 21, 22, 23, 41, 42, 43] {
            writeln!(text, "v{v},v{},{},rail,2e-1", (v + step) % VERTICES, flow(false)).unwrap();
        }
    }
    text
}

fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut labels = "id,class\n".to_owned();
    (0..VERTICES).for_each(|v| writeln!(labels, "v{v},c{}", v % CLASSES).unwrap());
    std::fs::write(folder.path().join("labels.csv"), labels).unwrap();
    std::fs::write(folder.path().join("edges.csv"), table(|own| if own { 4.0 } else { 0.01 })).unwrap();
    folder
}

const TRAIN: [&str; 8] = ["train", ".", "--epochs", "60", "--lr", "0.05", "--dropout", "0"];
const WEIGHTED: [&str; 2] = ["--set", "model.edge_weights=0"];

#[track_caller]
fn accuracy(summary: &Value) -> f64 {
    summary["test_metric"].as_f64().unwrap()
}

#[test]
fn a_model_that_reads_no_edge_features_demands_none_of_new_data() {
    let (data, new) = (data(), tempfile::tempdir().unwrap());
    let features = |name: &str, rows: u32| {
        (0..rows).fold("id,height\n".to_owned(), |text, row| text + &format!("{name}{row},{}\n", row % 7))
    };
    std::fs::write(data.path().join("features.csv"), features("v", VERTICES)).unwrap();
    std::fs::write(new.path().join("features.csv"), features("n", 3)).unwrap();
    std::fs::write(new.path().join("edges.csv"), "from,to\nn0,n1\nn1,n2\n").unwrap();
    let new = new.path().to_str().unwrap();
    works(data.path(), &["train", ".", "--epochs", "2", "--out", "blind"]);
    works(data.path(), &["predict", "blind", new, "--out", "new.csv"]);
    works(data.path(), &[&["train", ".", "--epochs", "2", "--out", "seeing"], &WEIGHTED[..]].concat());
    refused(data.path(), &["predict", "seeing", new, "--out", "new.csv"], &["edge feature columns", "flow"]);
}

#[test]
fn weights_of_edges_are_learnt_with() {
    let data = data();
    let folder = data.path();
    let blind = summary(folder, &[&TRAIN[..], &["--no-out"]].concat());
    let seeing = summary(folder, &[&TRAIN[..], &WEIGHTED, &["--out", "run"]].concat());
    assert!(accuracy(&blind) < 0.6 && accuracy(&seeing) > 0.9, "{blind}\n{seeing}");
    for (model, width) in
        [("sage", &["--hidden", "16"][..]), ("gin", &["--hidden", "16"]), ("sgc", &[]), ("appnp", &[])]
    {
        let line = [&TRAIN[..], &WEIGHTED, width, &["--no-out", "--model", model]].concat();
        assert!(accuracy(&summary(folder, &line)) > 0.8, "{model}");
    }
    let eval = summary(folder, &["eval", "run"]);
    assert_eq!(eval["reproduced"], true, "{eval}");
    let plan = works(folder, &[&["plan", "."], &WEIGHTED[..]].concat());
    assert!(plan.contains("edge weights"), "{plan}");

    // The same in messages, from a store, and on functions of a stand-in. Bits need fewer epochs.
    works(folder, &["data", "convert", ".", "store"]);
    let bits = |data: &str, more: &[&str]| {
        let line = ["train", data, "--epochs", "6", "--lr", "0.05", "--dropout", "0", "--no-out"];
        summary(folder, &[&line[..], &WEIGHTED, more].concat())["model_digest"].clone()
    };
    let here = bits(".", &[]);
    for more in [["--executor", "loopback"], ["--executor", "emulated"], ["--intervals", "2"]] {
        assert_eq!(bits("store", &more), here, "{more:?}");
    }
    // In another order sums round otherwise.
    let ordered = summary(folder, &[&TRAIN[..], &WEIGHTED, &["--no-out", "--order", "degree"]].concat());
    let [there, here] = [&ordered, &seeing].map(|summary| summary["seeds"][0]["loss"].as_f64().unwrap());
    assert!(accuracy(&ordered) > 0.9 && (there - here).abs() < 1e-3, "{there}, not {here}");
}

#[test]
fn kernels_are_told_of_edges() {
    let data = data();
    let folder = data.path();
    let model = ["--model", "gatv2", "--hidden", "16", "--set", "model.heads=2"];
    let told = ["--set", "model.edge_features=true"];
    let blind = summary(folder, &[&TRAIN[..], &model, &["--no-out"]].concat());
    let line = [&TRAIN[..], &model, &told, &["--no-out"]].concat();
    let seeing = summary(folder, &line);
    assert!(accuracy(&blind) < 0.7 && accuracy(&seeing) > 0.9, "{blind}\n{seeing}");
    let cut = summary(folder, &[&line[..], &["--intervals", "2", "--threads", "1"]].concat());
    assert_eq!(cut["model_digest"], seeing["model_digest"]);
    let plan = works(folder, &[&["plan", "."], &model[..], &told].concat());
    assert!(plan.contains("edge features") && plan.contains("[5280, 2]"), "{plan}");
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let data = data();
    let folder = data.path();
    let with = |more: &[&'static str]| [&TRAIN[..2], &["--no-out"], more].concat();
    let column = ["--set", "model.edge_weights=2"];
    refused(folder, &with(&column), &["edge_weights = 2", "2 features, columns 0 to 1"]);
    refused(
        folder,
        &with(&["--model", "gcn", "--set", "model.edge_weights=1"]),
        &["the edge from v4 to v0 has the weight -1.5", "gcn", "sage"],
    );
    refused(
        folder,
        &with(&["--model", "gat", "--set", "model.edge_weights=0"]),
        &["`model.edge_weights`", "none of the model's layers reads", "gcn"],
    );
    refused(
        folder,
        &with(&["--set", "model.edge_features=true"]),
        &["`model.edge_features` is set", "gatv2"],
    );
    refused(
        folder,
        &["train", "--no-out", "--set", "model.edge_weights=0"],
        &["edge_weights = 0", "no features", "docs/reference/data-formats.md"],
    );

    std::fs::write(folder.join("edges.csv"), table(|own| if own { 0.5 } else { f32::NAN })).unwrap();
    refused(folder, &with(&[]), &["edges.csv", "line 4"]);
}
