//! Lanes in `plan`, and pipelines in `simulate`.

use crate::common::{eciton, works};
use serde_json::Value;

#[track_caller]
fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in\n{text}");
    }
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Figures of three lanes of two layers each, by hand.
#[test]
fn a_plan_of_lanes_says_what_the_host_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let plan = |more: &[&str]| {
        let line = ["plan", "digits", "--layers", "6", "--hidden", "32", "--batch", "512", "--micro", "4"];
        let line = [&line[..], &["--json"], more].concat();
        objects(&works(dir.path(), &line)).remove(0)
    };
    let lanes = ["--lanes", "3", "--set", "lanes.cut=[0,2,4]"];
    let (flush, two) = (plan(&lanes), plan(&[&lanes[..], &["--schedule", "2bw"]].concat()));
    let of = |plan: &Value, what: &str| plan["lanes"]["host"][what].as_u64().unwrap();
    let values = 64 * 32 + 4 * 32 * 32 + 32 * 10 + 5 * 32 + 10;
    assert_eq!([of(&flush, "versions"), of(&two, "versions")], [1, 2]);
    assert_eq!([of(&flush, "weights_bytes"), of(&two, "weights_bytes")], [4 * values, 8 * values]);
    // Adam has two moments of each; they do not double.
    assert_eq!([of(&flush, "moments_bytes"), of(&two, "moments_bytes")], [8 * values, 8 * values]);
    // Two borders, rows of 32 values one way and their gradients the other. Rows between lanes 1 and
    // 2 share a buffer with gradients between lanes 0 and 1. The caps are 3, 2 and 1.
    let part = flush["stages"][0]["bytes_read"].as_u64().unwrap() / (64 * 4);
    let all = plan(&[&lanes[..], &["--schedule", "gpipe"]].concat());
    assert_eq!(
        [of(&flush, "boundary_bytes"), of(&all, "boundary_bytes")],
        [3 + 3 + 2, 4 + 4 + 4].map(|parts| parts * part * 32 * 4)
    );
    let sum = ["weights_bytes", "moments_bytes", "gradients_bytes", "boundary_bytes"];
    assert_eq!(of(&flush, "total_bytes"), sum.map(|what| of(&flush, what)).iter().sum::<u64>());
    let purpose = |plan: &Value, purpose: &str| {
        let items = plan["memory"]["items"].as_array().unwrap().clone();
        items.iter().find(|item| item["purpose"] == purpose).unwrap()["bytes"].as_u64().unwrap()
    };
    assert!(of(&flush, "boundary_bytes") <= purpose(&flush, "rows"));
    assert_eq!(of(&plan(&["--lanes", "1"]), "boundary_bytes"), 0);
    // Workers that own the weights leave none to the host, and pass rows to each other.
    let owned = plan(&[&lanes[..], &["--workers", "3", "--set", "workers.owner=worker"]].concat());
    assert_eq!(["versions", "total_bytes"].map(|what| of(&owned, what)), [0, 0]);
    // The report comes first, then the refusal.
    let line = ["plan", "digits", "--layers", "6", "--batch", "512", "--micro", "4", "--lanes", "3"];
    let (code, out, err) = eciton(dir.path(), &[&line[..], &["--host-memory", "1MiB"]].concat());
    assert_eq!(code, Some(1), "{out}");
    says(&out, &["\nhost  ", "(1 version)", "of activations between lanes"]);
    says(&err, &["needs", "only 1.0 MB are available"]);
}

/// Checks that a profile of lanes predicts the measured rate of these lanes, and that plans by it
/// choose among batches and protections.
#[test]
fn lanes_are_profiled_and_plans_choose_protections() {
    let dir = tempfile::tempdir().unwrap();
    let model =
        ["digits", "--layers", "4", "--hidden", "64", "--batch", "512", "--micro", "4", "--lanes", "2"];
    let profiled = ["--epochs", "4", "--file", "lanes.json"];
    works(dir.path(), &[&["profile"], &model[..], &profiled].concat());
    let profile: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("lanes.json")).unwrap()).unwrap();
    let number = |found: &Value| found.as_f64().unwrap();
    assert!(number(&profile["lanes"]["slowdown"]) > 0.1, "{profile}");
    assert!(number(&profile["lanes"]["seconds_per_step"]) >= 0.0 && profile.get("seconds_per_row").is_none());
    assert!(!dir.path().join("lanes.lanes.partial").exists());
    let plan = |more: &[&str]| {
        let line = [&["plan"], &model[..], &["--measured", "lanes.json", "--json"], more].concat();
        objects(&works(dir.path(), &line)).remove(0)
    };
    assert!(plan(&[]).get("protections").is_none());
    let failing = ["--set", "cluster.failures_per_hour=0.33", "--set", "cluster.usd_hour=0.04"];
    let planned = plan(&[&failing[..], &["--set", "lanes.batches=[256,1024]"]].concat());
    assert!([256, 1024].map(Value::from).contains(&planned["planned"]["best"]["rows"]), "{planned}");
    assert!(planned["protections"].as_array().unwrap().len() >= 3, "{planned}");
    let line = [&["plan"], &model[..], &failing[..2]].concat();
    let (code, _, err) = eciton(dir.path(), &line);
    assert_eq!(code, Some(2), "{err}");
    says(&err, &["cluster.failures_per_hour", "cluster.usd_hour"]);
}

#[test]
fn a_pipeline_is_simulated_from_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let line = [
        "simulate",
        "--pipeline",
        "layers-8x256",
        "--lanes",
        "4",
        "--width",
        "1",
        "--micro",
        "8",
        "--hours",
        "0.002",
    ];
    let of = |more: &[&str]| works(dir.path(), &[&line[..], more].concat());
    let text = of(&["--draw", "grid.svg"]);
    says(&text, &["layers-8x256: 1f1b, 1 wide, 4 deep, 8 micro-batches", "\nplanned", "\nsimulated"]);
    says(
        &text,
        &["0 worker failures; 0 steps repeated", "\nschedule     lane 0 |", "$3.06 per worker and hour"],
    );
    let picture = std::fs::read_to_string(dir.path().join("grid.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("lane 3"));
    assert_eq!(of(&["--json"]), of(&["--json"]), "the same seed is the same run");
    let found = |more: &[&str]| objects(&of(&[&["--json"], more].concat())).remove(0);
    let number = |found: &Value, what: &str| found[what].as_f64().unwrap();
    let quiet = found(&["--jitter", "0"]);
    let near = number(&quiet, "rows_per_s") / number(&quiet, "planned_rows_per_s");
    assert!((0.95..1.05).contains(&near), "{near}: {quiet}");
    assert_eq!(quiet["stages"].as_array().unwrap().len(), 4);
    // Losses that are known, and losses that are drawn.
    std::fs::write(dir.path().join("lost.csv"), "# s, place\n2.0,1\n3.5,0\n").unwrap();
    let lost = found(&["--failure-trace", "lost.csv", "--usd-hour", "2", "--replaced-after", "2"]);
    assert_eq!((&lost["losses"], &lost["usd_hour"]), (&Value::from(2), &Value::from(2.0)));
    assert!((number(&lost, "usd") - 2.0 * (4.0 * 7.2 - 4.0) / 3600.0).abs() < 1e-9, "{lost}");
    let failing = ["--failures", "1000", "--replaced-after", "2"];
    let drawn = found(&[&failing[..], &["--hold", "redundant", "--host-link", "1000"]].concat());
    assert!(number(&drawn, "losses") > 2.0 && number(&drawn, "checkpointed_rows_per_s") >= 0.0, "{drawn}");
    // Of four lanes: (d - 1) / (m + d - 1) of all time, and (d - 1) / (v m) of the time without a
    // bubble.
    for (schedule, idle) in [("1f1b", 3.0 / 11.0), ("interleaved", 3.0 / 19.0)] {
        let quiet = found(&["--schedule", schedule, "--rows", "65536", "--link", "100000", "--jitter", "0"]);
        let near = number(&quiet, "rows_per_s") / number(&quiet, "planned_rows_per_s");
        assert!((0.95..1.05).contains(&near), "{near}: {quiet}");
        assert!((number(&quiet, "idle") - idle).abs() < 0.01, "{schedule}, {idle}: {quiet}");
    }
    let slow = found(&["--host-link", "0.01"]);
    assert!(number(&slow, "rows_per_s") < 0.5 * number(&quiet, "rows_per_s"), "{slow}");
    // Here a round takes milliseconds, so that few are simulated.
    let line =
        ["simulate", "--pipeline", "layers-8x8192", "--lanes", "4", "--width", "1", "--micro", "8", "--json"];
    let failing = ["--failures", "10000", "--replaced-after", "0.1", "--hours", "0.0005"];
    let line = [&line[..], &failing, &["--protect", "--reliable-usd-hour", "3.06"]].concat();
    let protections = objects(&works(dir.path(), &line)).remove(0);
    let all = protections["protections"].as_array().unwrap();
    assert!(
        all.len() >= 3 && all.iter().all(|of| of["simulated"]["rows_per_s"].is_number()),
        "{protections}"
    );
    let costs: Vec<f64> = all.iter().map(|of| number(of, "expected_usd_per_million_rows")).collect();
    assert!(costs.is_sorted(), "{costs:?}");
    // What cannot be is said.
    let refused = |more: &[&str]| {
        let (code, out, err) = eciton(dir.path(), &[&["simulate", "--pipeline"], more].concat());
        assert_eq!(code, Some(2), "{more:?}: {out}{err}");
        err
    };
    says(&refused(&["layers-4x8", "--hold", "redundant"]), &["--hold redundant", "--host-link"]);
    says(&refused(&["gpt-9"]), &["gpt-9", "gpt-1.3b", "layers-LxW"]);
    says(&refused(&["layers-4x8", "--schedule", "naive"]), &["expected gpipe, 1f1b, 2bw or interleaved"]);
    let many = ["layers-4x8", "--schedule", "interleaved", "--chunks", "64"];
    says(&refused(&many), &["lanes.chunks is 64", "or use more layers"]);
    says(&refused(&["layers-4x8", "--lanes", "2", "--micro", "3", "--width", "2"]), &["widths [2] and [3]"]);
    std::fs::write(dir.path().join("lost.csv"), "5.0 1\n").unwrap();
    says(&refused(&["layers-4x8", "--losses", "lost.csv"]), &["lost.csv:1", "\"5.0 1\"", "120.5,3"]);
    std::fs::write(dir.path().join("lost.csv"), "5.0,99\n").unwrap();
    says(&refused(&["layers-4x8", "--losses", "lost.csv"]), &["worker 99 after 5 s", "workers 0 to"]);
}
