//! Flags about how a run begins and ends: `--split`, `--init`, `--freeze`, `--until`, `--staleness auto`,
//! and data without a graph.

use std::fmt::Write as _;

use crate::common::{eciton, works};
use serde_json::Value;

fn summary(folder: &std::path::Path, line: &[&str]) -> Value {
    let text = works(folder, &[&["train", "--json", "--epochs", "6"], line].concat());
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.next_back().filter(|line| line["event"] == "summary").unwrap()
}

#[test]
fn a_run_can_begin_from_another_ones_weights() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let split = ["--split", "stratified:0.5/0.2/0.2", "--split-seed", "3"];
    summary(folder, &[&split[..], &["--out", "first"]].concat());
    let recipe = std::fs::read_to_string(folder.join("first/config.toml")).unwrap();
    assert!(
        recipe.contains("split = \"stratified:0.5/0.2/0.2\"") && recipe.contains("split_seed = 3"),
        "{recipe}"
    );
    let evaluated = works(folder, &["eval", "first", "--json"]);
    let evaluated: Value = serde_json::from_str(evaluated.lines().last().unwrap()).unwrap();
    let again = summary(folder, &[&split[..], &["--no-out"]].concat());
    assert_eq!(evaluated["test_metric"], again["seeds"][0]["metrics"]["test"], "{evaluated}");
    let file = ["--init", "first/model.safetensors"];
    let warm = summary(folder, &[&file[..], &["--no-out"]].concat());
    let same = summary(folder, &["--init", "first", "--freeze", "0", "--no-out"]);
    assert_ne!(warm["model_digest"], same["model_digest"]);
    let (code, _, error) = eciton(folder, &["train", "--init", "first", "--hidden", "4", "--no-out"]);
    assert!(code == Some(1) && error.contains("expected [1433, 4], found [1433, 16]"), "{error}");
    for (line, words) in [
        (&["--freeze", "x"][..], "list of layers"),
        (&["--init-fresh", "1"], "`run.init` is left out"),
        (&["--split", "half"], "in --split half"),
        (&["--split", "folds:5/0", "--task", "link-prediction"], "links.validation"),
        (&["--until", "94"], "a target such as"),
        (&["--until", "test=0.9", "--eval-every", "0"], "`run.eval_every` is 0"),
        (&["--staleness", "auto", "--executor", "lambda"], "local executor"),
    ] {
        let (code, _, error) = eciton(folder, &[&["train", "--no-out"], line].concat());
        assert!(code != Some(0) && error.contains(words), "{line:?}: {error}");
    }
}

#[test]
fn a_run_says_whether_it_came_to_its_target() {
    let dir = tempfile::tempdir().unwrap();
    let found = summary(dir.path(), &["--until", "train=0.2", "--no-out"]);
    let target = &found["seeds"][0]["target"];
    assert_eq!((&target["epoch"], &target["until"]), (&found["seeds"][0]["epochs"], &"train=0.2".into()));
    let text = works(dir.path(), &["train", "--epochs", "3", "--until", "test_acc=1", "--no-out"]);
    assert!(text.contains("test 100.00 % never reached"), "{text}");
}

#[test]
fn the_pipeline_is_tried_where_that_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let text = works(
        dir.path(),
        &["train", "--epochs", "8", "--staleness", "auto", "--intervals", "4", "--out", "r"],
    );
    for words in ["trial of pipe", "trial of staleness 0", "trial of staleness 1", "chosen: ", "pipeline "] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!std::fs::read_to_string(dir.path().join("r/config.toml")).unwrap().contains("auto = true"));
}

#[test]
fn a_table_is_a_data_set() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let mut text = "id,a,b,label\n".to_owned();
    for row in 0..200u32 {
        let wave = |speed: f64| (f64::from(row) * speed).sin();
        let (a, b) = (wave(0.7), wave(1.9));
        writeln!(text, "r{row},{a:.4},{b:.4},{}", if a + b > 0.0 { "up" } else { "down" }).unwrap();
    }
    std::fs::write(folder.join("waves.csv"), text).unwrap();
    let stat = works(folder, &["data", "stat", "waves.csv"]);
    assert!(stat.contains("none (tabular data"), "{stat}");
    let found = summary(folder, &["waves.csv", "--out", "run"]);
    assert_eq!(found["model"], "linear 2-64-2");
    works(folder, &["predict", "run", "--out", "scores.csv"]);
    let scores = std::fs::read_to_string(folder.join("scores.csv")).unwrap();
    assert!(scores.lines().count() == 201 && scores.contains("\nr199,"), "{scores}");
    let (code, _, error) = eciton(folder, &["train", "waves.csv", "--model", "gcn", "--no-out"]);
    assert!(code == Some(1) && error.contains("has no graph"), "{error}");
}
