//! `eciton cost`: counts that equal the emulator's, tables that add up, and errors about what cannot be predicted.

use std::path::Path;

use crate::common::{eciton, works};
use serde_json::Value;

fn last(text: &str) -> Value {
    let of = |line: &str| serde_json::from_str::<Value>(line).ok();
    text.lines().rev().find_map(of).unwrap()
}

fn write(folder: &Path, text: &str) {
    std::fs::write(folder.join("tries.toml"), text).unwrap();
}

fn near(one: &Value, other: &Value, part: f64) {
    let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
    assert!((one / other - 1.0).abs() < part, "{one} {other}");
}

#[test]
fn predicted_counts_of_a_sweep_are_those_of_the_emulator() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    works(folder, &["data", "convert", "cora", "store"]);
    write(
        folder,
        "recipe = \"cora/gcn\"\ndata = \"store\"\n[grid]\n\"model.hidden\" = [8, 16]\n\"optimiser.lr\" = [0.01, 0.05]\n",
    );
    let functions = ["--executor", "emulated", "--functions", "2"];
    let line = [&["tries.toml", "--set", "run.epochs=5", "--json"], &functions[..]].concat();
    let predicted = last(&works(folder, &[&["cost", "sweep"], &line[..]].concat()));
    assert!(!folder.join("sweeps").exists(), "nothing runs");
    let usage = &predicted["usage"];
    let counted = last(&works(folder, &[&["sweep"], &line[..]].concat()));
    let bill = &counted["spent"]["bill"];
    assert_eq!((&usage["invocations"], &usage["cold_starts"]), (&bill["invocations"], &bill["cold_starts"]));
    assert_eq!(usage["invocations"], 4);
    let store = |name: &str| usage["store"][name].as_u64().unwrap();
    let found = |name: &str| bill[name].as_u64().unwrap();
    assert_eq!(store("puts"), found("store_writes"));
    assert_eq!(store("gets") + store("heads"), found("store_reads"));
    // GET and HEAD apart: those of the functions, as each told of its own.
    let told = |name: &str| {
        let jobs = counted["spent"]["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["store"][name].as_u64().unwrap()).sum::<u64>()
    };
    let host = &predicted["work"]["host"];
    let of_functions = |name: &str| store(name) - host[name].as_u64().unwrap();
    for name in ["puts", "gets", "heads"] {
        assert_eq!(of_functions(name), told(name), "{name}");
    }
    // Events are known to the byte. Without a pilot the size of an answer is assumed.
    assert_eq!(usage["bytes_to_functions"].as_u64().unwrap(), found("bytes_to_functions"));
    near(&usage["bytes_from_functions"], &bill["bytes_from_functions"], 0.3);
    // The same from the folder alone.
    let compared = last(&works(folder, &["cost", "--compare", "sweeps/tries", "--json"]));
    let pairs = compared["quantities"].as_array().unwrap();
    for name in ["invocations", "cold starts", "PUT", "GET and HEAD"] {
        let pair = pairs.iter().find(|pair| pair["name"] == name).unwrap();
        assert_eq!(pair["predicted"], pair["counted"], "{name}");
        assert!(pair["counted"].as_f64().unwrap() > 0.0, "{name}");
    }
    let total = compared["dollars"].as_array().unwrap().last().unwrap();
    near(&total["counted"], &counted["spent"]["cost"]["usd"], 1e-6);
    let text = works(folder, &["cost", "--compare", "sweeps/tries"]);
    assert!(text.contains("predicted") && text.contains("us-east-1"), "{text}");
}

#[test]
fn a_table_has_every_rival_and_its_dollars_are_the_sum_of_its_lines() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let line = ["cost", "train", "cora", "--epochs", "20", "--host-hour-usd", "0.2"];
    let found = last(&works(folder, &[&line[..], &["--pilot", "--json"]].concat()));
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "nothing is left");
    assert_eq!((&found["work"]["times"], &found["region"]), (&"modelled".into(), &"us-east-1".into()));
    assert!(found["pilots"][0]["epoch_s"].as_f64().unwrap() > 0.0, "{found}");
    let rows = found["rows"].as_array().unwrap();
    for row in rows {
        let lines = row["lines"].as_array().unwrap();
        let sum: f64 = lines
            .iter()
            .map(|line| line["quantity"].as_f64().unwrap() * line["unit_usd"].as_f64().unwrap())
            .sum();
        assert!((row["usd"].as_f64().unwrap() - sum).abs() < 1e-12, "{row}");
    }
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    let rivals = [
        "functions, x86_64, 1769 MB",
        "functions, arm64, 512 MB, free tier",
        "this machine",
        "EC2 on demand, best value",
        "EC2 spot, best value",
        "EC2 on demand, fastest",
        "one GPU server",
        "fargate:",
        "fargate-spot",
        "cloud-run",
        "modal",
    ];
    for rival in rivals {
        assert!(names.iter().any(|name| name.starts_with(rival)), "{rival}: {names:?}");
    }
    // A machine at this price that is there has the best value, and the verdict names it.
    assert!(
        found["sentence"].as_str().unwrap().contains("better value than functions: this machine"),
        "{found}"
    );
    let text = works(folder, &line);
    for part in ["assumed", "counted", "Lambda-GB-Second", "Requests-Tier1", "verdict: ", "T*", "us-east-1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_prediction_has_its_cost_and_what_has_none_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    works(folder, &["train", "cora", "--epochs", "2", "--out", "run"]);
    let line = ["cost", "predict", "run", "--as-task", "emulated", "--json"];
    let found = last(&works(folder, &[&line[..], &["--pilot"]].concat()));
    assert_eq!(found["usage"]["invocations"], 1);
    assert!(found["work"]["phases"][0][0]["core_s"].as_f64().unwrap() > 0.0);
    let refused = |line: &[&str]| {
        let (code, _, said) = eciton(folder, line);
        assert!(matches!(code, Some(1 | 2)), "{line:?}: {said}");
        said
    };
    let said = refused(&["cost", "--compare", "run"]);
    assert!(said.contains("functions.toml") && said.contains("--as-task"), "{said}");
    assert!(refused(&["cost", "--pilot"]).contains("--compare"));
    assert!(refused(&["cost", "train", "cora", "--host-hour-usd", "-1"]).contains("host-hour-usd"));
    let said = refused(&["cost", "predict", "nowhere"]);
    assert!(said.contains("nowhere"), "{said}");
}
