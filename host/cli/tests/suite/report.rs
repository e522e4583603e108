//! The reading report as commands print it. Inputs are those of `host/formats/tests/cases`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{eciton, works};

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/cases")
}

/// Texts of one level in the report of `data stat --json`.
fn report(source: &str, level: &str) -> Vec<String> {
    let text = works(&cases(), &["data", "stat", source, "--json"]);
    let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let lines = line["report"].as_array().unwrap().iter().filter(|line| line["level"] == level);
    lines.map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn data_stat_prints_the_whole_report() {
    let (code, out, err) = eciton(&cases(), &["data", "stat", "count-line/five.txt"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    for words in [
        "report        warning: count-line/five.txt",
        "5 vertices and 4 edges",
        "5 lines with an edge, 6 distinct ids",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert!(report("hash-ids", "fact").iter().any(|text| text.contains("5 ids, of which 5 are in")));
    assert!(report("nan-is-a-class", "note").iter().any(|text| text.contains("(nan, None)")));
    for source in ["cora", "digits"] {
        assert_eq!([report(source, "note"), report(source, "warning")], [Vec::<String>::new(), Vec::new()]);
        assert!(!report(source, "fact").is_empty());
    }
}

#[test]
fn ids_that_do_not_join_are_refused_with_the_reason() {
    for command in [&["data", "stat"][..], &["train", "--no-out", "--epochs", "1"]] {
        let (code, _, err) = eciton(&cases(), &[command, &["ids-that-do-not-join"]].concat());
        assert_eq!(code, Some(1));
        assert!(err.contains("60 ids, none of which occurs there"), "{err}");
    }
}

#[test]
fn numbers_to_predict_are_named_with_the_command() {
    let train = ["train", "ages-are-classes/ages.csv", "--epochs", "1", "--no-out"];
    let (code, _, err) = eciton(&cases(), &train);
    assert_eq!(code, Some(0), "{err}");
    // The path of the command is absolute.
    assert_eq!(err.matches("ages-are-classes/ages.csv --task regression`").count(), 1, "{err}");
    assert!(
        err.contains("30 distinct whole numbers, of which 18 occur once, leave 25 of 55 classes"),
        "{err}"
    );
    let (code, _, err) = eciton(&cases(), &[&train[..], &["--task", "regression"]].concat());
    assert!(code == Some(0) && !err.contains("warning"), "{err}");
    // More classes than a model can have.
    let place = tempfile::tempdir().unwrap();
    let rows: String = (0..30).map(|row| format!("0.{row},{}\n", 100_000 + 9_000 * row)).collect();
    std::fs::write(place.path().join("prices.csv"), format!("x,price\n{rows}")).unwrap();
    let (code, _, err) = eciton(place.path(), &["train", "prices.csv", "--epochs", "1", "--no-out"]);
    assert!(code == Some(1) && err.contains("use --task regression"), "{err}");
}

#[test]
fn both_signs_are_predicted() {
    let place = tempfile::tempdir().unwrap();
    let table = cases().join("labels-plus-minus-one/pm.csv");
    std::fs::copy(table, place.path().join("pm.csv")).unwrap();
    let train = ["train", "pm.csv", "--epochs", "100", "--dropout", "0", "--out", "run"];
    let (code, out, err) = eciton(place.path(), &train);
    assert!(code == Some(0) && err.contains("read as two classes"), "{out}{err}");
    let predictions = works(place.path(), &["predict", "run"]);
    let classes: Vec<&str> = predictions.lines().skip(1).filter_map(|line| line.split(',').nth(1)).collect();
    assert!(classes.contains(&"-1") && classes.contains(&"1"), "{predictions}");
}
