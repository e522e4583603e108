//! Run folders, checkpoints and a sweep of earlier versions: read, resumed and finished by this one.
//!
//! `tests/compatibility/runs/VERSION` has them, with the digests, metrics and predictions of the version
//! that wrote them. All are of numeric class `portable-1`, which every processor has. A half-done run is
//! relative to its folder, so each test works in a copy.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Finished runs; all but `columns` have a half-done one beside them.
const RUNS: [&str; 7] = ["char-lm", "columns", "gcn", "leaky-relu", "links", "owned", "sage"];
/// Half-done runs of batches, whose gradients are summed along another tree since. They end with
/// the model of the unbroken run up to rounding.
const OTHER_TREE: [&str; 2] = ["char-lm", "owned"];
/// Runs with layer norm and self-attention, whose sums have another order since.
const OTHER_SUMS: [&str; 1] = ["char-lm"];
/// Largest difference of a predicted number, relative to the larger of it and 1. Scaling of columns has
/// become more exact since 0.1.0.
const TOLERANCE: f64 = 1e-5;
/// The same for [`OTHER_TREE`].
const TOLERANCE_OF_TREE: f64 = 1e-3;

/// A copy of everything that a version wrote.
struct Earlier {
    place: TempDir,
}

impl Earlier {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compatibility/runs/0.1.0");
        copy(&runs, place.path());
        Self { place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Standard output of a command that must succeed.
    #[track_caller]
    fn works(&self, line: &[&str]) -> String {
        let program = env!("CARGO_BIN_EXE_eciton");
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
        let mut command = Command::new(program);
        command.env("ECITON_CACHE_DIR", cache).env("ECITON_PROGRAM", program).env("ECITON_SIMD", "portable");
        let done = command.args(line).current_dir(self.place.path()).stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{line:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// The last line of JSON that a command prints.
    #[track_caller]
    fn json(&self, line: &[&str]) -> Value {
        let out = self.works(line);
        serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap()
    }

    fn expected(&self, name: &str) -> Value {
        let text = std::fs::read_to_string(self.path(&format!("{name}.json"))).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// Compares the columns and rows that `expected` has.
#[track_caller]
fn assert_predictions(name: &str, tolerance: f64, found: &Path, expected: &Path) {
    let (found, expected) = (rows(found), rows(expected));
    assert!(expected.len() > 20 && found.len() >= expected.len(), "{name}: {} rows", found.len());
    // The classes of a text were numbers, and are its characters now. Columns have the same order.
    let classes: Vec<&str> =
        found[0].iter().filter_map(|column| column.strip_prefix("p(")?.strip_suffix(')')).collect();
    let text = name.starts_with("char-lm");
    for (at, column) in expected[0].iter().enumerate() {
        let here = found[0].iter().position(|other| other == column).or(text.then_some(at));
        let Some(here) = here else {
            panic!("{name}: no column {column} among {:?}", found[0]);
        };
        for (row, (found, expected)) in found.iter().zip(&expected).enumerate().skip(1) {
            let (found, expected) = (&found[here], &expected[at]);
            let same = match (found.parse::<f64>(), expected.parse::<f64>()) {
                (Ok(a), Ok(b)) => (a - b).abs() <= tolerance * b.abs().max(1.0),
                (Err(_), Ok(class)) if text => classes.get(class as usize) == Some(&found.as_str()),
                _ => found == expected,
            };
            assert!(same, "{name}, row {row}, {column}: {found} for {expected}");
        }
    }
}

#[test]
fn finished_runs_are_evaluated_predicted_shown_and_reported() {
    let earlier = Earlier::new();
    for name in RUNS {
        let expected = earlier.expected(name);
        let evaluation = earlier.json(&["eval", name, "--json"]);
        assert_eq!(evaluation["model_digest"], expected["model_digest"], "{name}");
        assert_eq!(evaluation["reproduced"], !OTHER_SUMS.contains(&name), "{name}: {evaluation}");
        for metric in ["val_metric", "test_metric"] {
            let value = |of: &Value| of[metric].as_f64();
            match (value(&evaluation), value(&expected)) {
                (Some(a), Some(b)) => assert!((a - b).abs() < 1e-6, "{name}, {metric}: {a} for {b}"),
                (a, b) => assert_eq!(a, b, "{name}, {metric}"),
            }
        }
        earlier.works(&["predict", name, "--out", "predicted.csv"]);
        let expected = earlier.path(&format!("{name}.csv"));
        assert_predictions(name, TOLERANCE, &earlier.path("predicted.csv"), &expected);
        std::fs::remove_file(earlier.path("predicted.csv")).unwrap();
        let shown = earlier.works(&["runs", "show", name]);
        assert!(shown.contains("version        eciton 0.1.0"), "{name}: {shown}");
        earlier.works(&["report", name, "--out", "report.html"]);
        let report = std::fs::read_to_string(earlier.path("report.html")).unwrap();
        assert!(report.contains("</html>"), "{name}: {} bytes", report.len());
        std::fs::remove_file(earlier.path("report.html")).unwrap();
    }
}

#[test]
fn checkpoints_are_resumed_to_the_model_of_the_unbroken_run() {
    let earlier = Earlier::new();
    for name in RUNS.into_iter().filter(|&name| name != "columns") {
        let part = format!("{name}-part");
        let epochs = |path: PathBuf| std::fs::read_to_string(path).unwrap().lines().count();
        let before = epochs(earlier.path(&format!("{part}.checkpoint/metrics.jsonl")));
        let whole = epochs(earlier.path(&format!("{name}/metrics.jsonl")));
        assert!(0 < before && before < whole, "{name}: the checkpoint is of epoch {before} of {whole}");
        let summary = earlier.json(&["resume", &part, "--json"]);
        let same = summary["model_digest"] == earlier.expected(name)["model_digest"];
        let tolerance = if OTHER_TREE.contains(&name) { TOLERANCE_OF_TREE } else { TOLERANCE };
        assert_eq!(same, tolerance == TOLERANCE, "{name}");
        assert_eq!(epochs(earlier.path(&format!("{part}/metrics.jsonl"))), whole, "{name}");
        earlier.works(&["predict", &part, "--out", "predicted.csv"]);
        let expected = earlier.path(&format!("{name}.csv"));
        assert_predictions(&part, tolerance, &earlier.path("predicted.csv"), &expected);
        std::fs::remove_file(earlier.path("predicted.csv")).unwrap();
    }
}

#[test]
fn a_half_done_sweep_is_finished_without_repeating_a_trial() {
    let earlier = Earlier::new();
    // A sweep knows its trials by the absolute path of their data.
    let trials = earlier.path("sweep/trials.toml");
    let data = earlier.place.path().canonicalize().unwrap().join("data/graph");
    let text = std::fs::read_to_string(&trials).unwrap();
    let moved = text.replace("\"data/graph\"", &format!("\"{}\"", data.display()));
    assert_ne!(text, moved);
    std::fs::write(&trials, moved).unwrap();
    let summary = |trial: usize| earlier.path(&format!("sweep/trials/{trial:05}/summary.json"));
    let written = |trial: usize| summary(trial).metadata().ok().and_then(|found| found.modified().ok());
    let before: Vec<_> = (0..8).map(written).collect();
    assert_eq!(
        before.iter().map(Option::is_some).collect::<Vec<_>>(),
        [&[true; 3][..], &[false; 5]].concat()
    );
    let found = earlier.json(&["sweep", "tries.toml", "--out", "sweep", "--json"]);
    let digests: Vec<&Value> =
        found["rows"].as_array().unwrap().iter().map(|row| &row["model_digest"]).collect();
    let expected = earlier.expected("sweep");
    assert_eq!(digests, expected["model_digests"].as_array().unwrap().iter().collect::<Vec<_>>());
    for (trial, before) in (0..).zip(before).filter(|(_, before)| before.is_some()) {
        assert_eq!(written(trial), before, "trial {trial} was trained again");
    }
}
