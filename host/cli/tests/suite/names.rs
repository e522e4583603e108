//! Names and defaults, from a folder's files to predictions and settings.

use std::fmt::Write as _;
use std::path::Path;

use crate::common::{eciton, works};
use serde_json::Value;

/// Airports of three sizes, most of them small; flights with their airlines.
fn airports(folder: &Path) {
    let (mut edges, mut features, mut labels) = (
        "origin,destination,airlines\n".to_owned(),
        "airport,feet,runways\n".to_owned(),
        "airport,size\n".to_owned(),
    );
    for v in 0..90u32 {
        let size = if v % 30 == 0 {
            "hub"
        } else if v % 5 == 0 {
            "medium"
        } else {
            "small"
        };
        writeln!(edges, "A{v},A{},{}", (v + 5) % 90, 1 + v % 4).unwrap();
        writeln!(features, "A{v},{},{}", 10 * v, if size == "small" { 1 } else { 3 }).unwrap();
        writeln!(labels, "A{v},{size}").unwrap();
    }
    std::fs::create_dir_all(folder.join("airports")).unwrap();
    for (name, text) in [("edges", edges), ("features", features), ("labels", labels)] {
        std::fs::write(folder.join("airports").join(format!("{name}.csv")), text).unwrap();
    }
}

fn last(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn classes_and_columns_keep_their_names() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    airports(folder);
    let stat = works(folder, &["data", "stat", "airports"]);
    for words in ["hub 3, medium 15, small 72", "feet, runways", "airlines 1..4"] {
        assert!(stat.contains(words), "{words}: {stat}");
    }
    let train = ["train", "airports", "--epochs", "30", "--split", "stratified:0.4/0.2/0.4", "--hidden", "8"];
    let weighted = ["--set", "model.edge_weights=airlines", "--out", "run"];
    let text = works(folder, &[&train[..], &weighted].concat());
    for words in ["airlines is the edge weight (set)", "(majority class, small)", "macro F1"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let quality = &last(&works(folder, &["eval", "run", "--json"]))["quality"];
    assert_eq!((&quality["part"], &quality["majority"]["class"]), (&"test".into(), &"small".into()));
    let classes: Vec<&str> =
        quality["classes"].as_array().unwrap().iter().map(|class| class["class"].as_str().unwrap()).collect();
    assert_eq!(classes, ["hub", "medium", "small"]);
    let rows: u64 = quality["confusion"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|row| row.as_array().unwrap())
        .map(|n| n.as_u64().unwrap())
        .sum();
    assert_eq!(Some(rows), quality["known"].as_u64());
    let csv = works(folder, &["predict", "run"]);
    assert!(csv.starts_with("id,predicted,label,part,p(hub),p(medium),p(small),score(hub)"), "{csv}");
    assert!(csv.lines().any(|line| line.starts_with("A0,") && line.contains(",hub,")), "{csv}");
    // A store keeps them.
    works(folder, &["data", "convert", "airports", "store"]);
    assert!(works(folder, &["data", "stat", "store"]).contains("hub 3, medium 15, small 72"));
    let (code, _, err) =
        eciton(folder, &["train", "airports", "--no-out", "--set", "model.edge_weights=planes"]);
    assert!(code == Some(1) && err.contains("planes") && err.contains("airlines"), "{err}");
}

#[test]
fn what_was_not_asked_for_is_said() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    airports(folder);
    let text = works(folder, &["train", "airports", "--model", "gat", "--epochs", "3", "--out", "run"]);
    for words in [
        "split          54 training, 18 validation, 18 test rows (default, because the data set has no split: 60 / 20 / 20 %",
        "(default: 2 feature columns)",
        "not used: airlines (default; model.edge_weights can name one)",
        "activation     elu (default of gat)",
        "loss           cross-entropy (default of classification)",
        "metric         accuracy (default of classification)",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let config = std::fs::read_to_string(folder.join("run/config.toml")).unwrap();
    let lines: Vec<&str> = config.lines().collect();
    for (setting, from) in [
        ("kind = \"gat\"", "(set)"),
        ("activation = \"elu\"", "(default of gat)"),
        ("loss = \"cross-entropy\"", "(default of classification)"),
        ("metric = \"accuracy\"", "(default of classification)"),
        ("normalise_features = \"columns\"", "(default: 2 feature columns)"),
        ("epochs = 3", "(set)"),
        ("seed = 0", "(default)"),
    ] {
        let at =
            lines.iter().position(|line| *line == setting).unwrap_or_else(|| panic!("{setting}: {config}"));
        // Long comments take several lines, which may break anywhere between words.
        let first = lines[..at].iter().rposition(|line| !line.starts_with('#')).map_or(0, |line| line + 1);
        let comment: Vec<&str> =
            lines[first..at].iter().map(|line| line.trim_start_matches(['#', ' '])).collect();
        assert!(comment.join(" ").ends_with(from), "{setting}: {config}");
    }
    // It repeats the run.
    let summary = |line: &[&str]| last(&works(folder, line))["model_digest"].clone();
    let first = summary(&["train", "airports", "--model", "gat", "--epochs", "3", "--no-out", "--json"]);
    assert_eq!(summary(&["train", "run/config.toml", "--no-out", "--json"]), first);
    let relu = ["train", "run/config.toml", "--no-out", "--json", "--set", "model.activation=relu"];
    assert_ne!(summary(&relu), first);
}

#[test]
fn nothing_is_the_best_where_nothing_was_chosen() {
    let place = tempfile::tempdir().unwrap();
    let line = ["train", "--epochs", "4", "--eval-every", "0", "--no-out"];
    let text = works(place.path(), &line);
    assert!(!text.contains("best validation"), "{text}");
    let found = last(&works(place.path(), &[&line[..], &["--json"]].concat()));
    assert_eq!(
        (&found["seeds"][0]["best"], &found["test_metric_at_best_validation"]),
        (&Value::Null, &Value::Null)
    );
    let found = last(&works(place.path(), &["train", "--epochs", "4", "--no-out", "--json"]));
    assert!(found["seeds"][0]["best"]["epoch"].as_u64().is_some(), "{found}");
    assert!(found["seeds"][0]["best"]["validation"].is_number(), "{found}");
}

#[test]
fn rows_of_metrics_are_the_same_in_file_and_json() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let text = works(folder, &["train", "--epochs", "3", "--eval-every", "2", "--out", "run", "--json"]);
    let file = std::fs::read_to_string(folder.join("run/metrics.jsonl")).unwrap();
    for (printed, written) in text.lines().zip(file.lines()) {
        let mut printed: Value = serde_json::from_str(printed).unwrap();
        assert_eq!(printed.as_object_mut().unwrap().remove("event"), Some("epoch".into()));
        let written: Value = serde_json::from_str(written).unwrap();
        assert_eq!(printed, written);
        assert!(written.as_object().unwrap().values().all(|value| !value.is_object() && !value.is_array()));
    }
    assert_eq!(file.lines().count(), 3);
}

#[test]
fn what_lies_elsewhere_or_is_spelt_otherwise_is_said() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    airports(folder);
    works(folder, &["train", "airports", "--epochs", "2", "--out", "run"]);
    std::fs::rename(folder.join("airports"), folder.join("moved")).unwrap();
    for command in ["predict", "eval"] {
        let (code, _, err) = eciton(folder, &[command, "run"]);
        assert!(
            code == Some(1) && err.contains("recorded") && err.contains("eciton predict RUN DATA"),
            "{err}"
        );
        works(folder, &[command, "run", "moved"]);
    }
    for (flag, here) in
        [("--optimizer", "--optimiser adam"), ("--heads", "model.heads"), ("--device", "--threads")]
    {
        let (code, _, err) = eciton(folder, &["train", flag, "x"]);
        assert!(code == Some(2) && err.contains(here) && !err.contains("tip:"), "{err}");
    }
    let split =
        works(folder, &["train", "moved", "--epochs", "2", "--no-out", "--set", "data.split=[0.8,0.1,0.1]"]);
    assert!(split.contains("set: stratified:0.8/0.1/0.1, drawn from seed 0"), "{split}");
    let comma = works(
        folder,
        &["train", "moved", "--epochs", "2", "--no-out", "--split", "0.8,0.1,0.1", "--split-seed", "3"],
    );
    assert!(comma.contains("drawn from seed 3"), "{comma}");
}
