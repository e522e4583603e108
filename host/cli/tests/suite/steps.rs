//! Runs of a single epoch that are killed or stopped within it, and resumed. They end with the bits
//! and the reports of an unbroken run.
//!
//! The moments are drawn from a seed that is printed (`ECITON_KILL_SEED` sets it). `ECITON_KILLS` is
//! the number of moments for each model and signal.
#![cfg(unix)]
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use eciton_graph::random::SplitMix64;
use serde_json::Value;

use super::checkpoint::{eciton, newest, run, text, works};

/// Number of steps between checkpoints.
const EVERY: u64 = 5;

/// A small transformer.
const CHAR_LM: &str = r#"
[data]
source = "text.txt"
sequence = 16
[model]
dropout = 0.1
[[model.layers]]
name = "tokens"
kernel = "embedding"
width = 32
positions = true
[[model.layers]]
kernel = "transformer"
width = 32
hidden = 64
heads = 2
causal = true
[[model.layers]]
kernel = "linear"
weights_of = "tokens"
bias = false
[batch]
micro = 2
[optimiser]
kind = "adamw"
clip_norm = 1.0
[run]
metric = "cross-entropy"
"#;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Writes the data of all runs: a text, and a graph.
fn scene() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut random = SplitMix64::new(5);
    let words = ["a", "rose", "is", "not", "what", "it", "was"];
    let text: Vec<&str> = (0..2400).map(|_| words[random.below(words.len() as u64) as usize]).collect();
    std::fs::write(dir.path().join("text.txt"), text.join(" ")).unwrap();
    std::fs::write(dir.path().join("char-lm.toml"), CHAR_LM).unwrap();
    let graph = ["block-model", "graph", "--vertices", "2000", "--edges", "12000", "--json"];
    works(dir.path(), &[&["data", "generate"], &graph[..]].concat());
    dir
}

/// Arguments of a training with one epoch. Every step is reported.
fn line<'a>(model: &str, out: &'a str) -> Vec<&'a str> {
    let of_model: &[&str] = match model {
        "char-lm" => &["char-lm.toml", "--batch", "128"],
        _ => &["graph", "--model", "sage", "--sampler", "neighbours", "--batch", "8", "--micro", "2"],
    };
    let checkpoints = ["--set", "checkpoint.every=5 steps", "--set", "checkpoint.keep=3"];
    let rows: &[&str] = if model == "char-lm" { &["--set", "run.eval_rows=64"] } else { &[] };
    let reports = ["--log-every", "1 step", "--eval-every", "7 steps"];
    let schedule = ["--set", "optimiser.warmup_steps=10", "--set", "optimiser.schedule=cosine"];
    let keep = ["--epochs", "1", "--set", "run.keep=best", "--json", "--out", out];
    [&["train"], of_model, rows, &checkpoints, &reports, &schedule, &keep].concat()
}

/// The reports of a run, without times.
fn reports(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let report = |line: &str| {
        let mut report: Value = serde_json::from_str(line).unwrap();
        report["seconds"] = Value::Null;
        report["rows_per_second"] = Value::Null;
        report
    };
    text.lines().map(report).collect()
}

/// Starts the training or resumes it, and ends it with `signal` after `delay` and at least one step.
/// If `delay` is `None`, it runs to its end. Returns the step that the process resumed from, and the
/// last step that it reported. Returns `None` if it was finished before.
fn ended(folder: &Path, line: &[&str], signal: &str, delay: Option<Duration>) -> Option<(u64, u64)> {
    let mut child = eciton(folder, line).stderr(Stdio::null()).spawn().unwrap();
    let (id, lines) = (child.id().to_string(), BufReader::new(child.stdout.take().unwrap()).lines());
    let (mut from, mut last, mut sent) = (0, 0, false);
    for found in lines {
        let found: Value = serde_json::from_str(&found.unwrap()).unwrap();
        match found["event"].as_str() {
            Some("resumed") => from = found["step"].as_u64().unwrap(),
            Some("epoch") => {
                last = found["step"].as_u64().unwrap();
                if let Some(delay) = delay.filter(|_| !std::mem::replace(&mut sent, true)) {
                    std::thread::sleep(delay);
                    Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap();
                }
            }
            _ => {}
        }
    }
    let ended = child.wait().unwrap();
    (!ended.success()).then_some((from, last))
}

#[test]
fn runs_that_end_within_an_epoch_go_on_to_the_same_bits_and_reports() {
    let seed = number("ECITON_KILL_SEED", u64::from(std::process::id()));
    println!("ECITON_KILL_SEED={seed}");
    let (mut random, wanted) = (SplitMix64::new(seed), number("ECITON_KILLS", 2));
    let dir = scene();
    let folder = dir.path();
    for model in ["char-lm", "sage"] {
        works(folder, &line(model, "unbroken"));
        let all = reports(&folder.join("unbroken"));
        assert!(all.len() > 25 && all.last().unwrap()["epoch"] == 1, "{model}: {} steps", all.len());
        assert!(all.iter().all(|report| report["gradient_norm"].is_f64()), "{model}");
        for signal in ["KILL", "TERM"] {
            let (mut ends, mut repeated) = (0, 0);
            while ends < wanted {
                let mut reached = 0_u64;
                loop {
                    let resumes = newest(folder).is_some();
                    let line = if resumes { vec!["resume", "r", "--json"] } else { line(model, "r") };
                    let delay = Some(Duration::from_millis(random.below(600))).filter(|_| ends < wanted);
                    let Some((from, last)) = ended(folder, &line, signal, delay) else { break };
                    ends += 1;
                    // A killed process may have gone on after the last report that it has printed.
                    repeated = repeated.max(reached.saturating_sub(from));
                    reached = last;
                    println!("{model}: {ends}: SIG{signal} after step {last}, resumed from {from}");
                }
                let found = reports(&folder.join("r"));
                for (found, wanted) in found.iter().zip(&all) {
                    assert_eq!(found, wanted, "{model}: SIG{signal}");
                }
                assert_eq!(found.len(), all.len(), "{model}: SIG{signal}");
                let of = |run: &str| std::fs::read(folder.join(run).join("model.safetensors")).unwrap();
                assert!(of("r") == of("unbroken"), "{model}: SIG{signal}: other weights");
                std::fs::remove_dir_all(folder.join("r")).unwrap();
            }
            println!("{model}: at most {repeated} steps repeated");
            // A stopped run has a checkpoint of its last step. A killed one may have lost the
            // checkpoint that was being written.
            let most = if signal == "KILL" { 2 * EVERY } else { 0 };
            assert!(repeated <= most, "{model}: SIG{signal}: {repeated} steps repeated");
        }
        std::fs::remove_dir_all(folder.join("unbroken")).unwrap();
    }
}

#[test]
fn an_evaluation_of_the_last_step_that_sigterm_skips_is_made_when_the_run_is_resumed() {
    let dir = scene();
    let folder = dir.path();
    // The evaluation reads all rows, and takes many times as long as the 3 steps.
    std::fs::write(folder.join("text.txt"), "a rose is not what it was ".repeat(6000)).unwrap();
    let line = |out| {
        let few = ["--batch", "16", "--micro", "1", "--steps", "3", "--log-every", "1 step"];
        [&["train", "char-lm.toml", "--json", "--out", out], &few[..]].concat()
    };
    works(folder, &line("unbroken"));
    let left = (1..=20).find(|attempt| {
        let _ = std::fs::remove_dir_all(folder.join("r"));
        // The signal follows the report of the first step.
        let delay = Some(Duration::from_millis(20 * attempt));
        if ended(folder, &line("r"), "TERM", delay).is_none() {
            return false;
        }
        let resumed = works(folder, &["resume", "r", "--json"]);
        resumed.iter().any(|line| line["event"] == "resumed" && line["step"] == 3)
    });
    assert!(left.is_some(), "no signal has come during the evaluation");
    assert_eq!(reports(&folder.join("r")), reports(&folder.join("unbroken")));
}

#[test]
fn lengths_in_steps_are_checked() {
    let dir = scene();
    let folder = dir.path();
    fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
        let line = ["train", "graph", "--sampler", "neighbours", "--batch", "100", "--no-out"];
        [&line[..], more].concat()
    }
    for (more, words) in [
        (&["--set", "run.eval_every=30 s"][..], "`run.eval_every` is"),
        (&["--set", "checkpoint.every=1 min"], "checkpoint.seconds"),
        (&["--set", "run.steps=0"], "`run.steps` is 0"),
        (&["--set", "run.log_every=often"], "\"500 steps\""),
        (&["--set", "run.eval_rows=10"], "rows of the model read other rows"),
        (&["--set", "optimiser.warmup_steps=5", "--set", "optimiser.warmup=1"], "leave one of them out"),
    ] {
        let ran = run(folder, &with(more));
        let said = text(&ran.stderr);
        assert!(!ran.status.success(), "{more:?}");
        assert!(said.contains(words), "{more:?}: {said}");
    }
    let lines = works(folder, &with(&["--json", "--steps", "25", "--eval-every", "10 steps"]));
    let steps: Vec<(u64, bool)> = lines
        .iter()
        .filter(|line| line["event"] == "epoch")
        .map(|line| (line["step"].as_u64().unwrap(), line["metric"].is_string()))
        .collect();
    let evaluated: Vec<u64> =
        steps.iter().filter(|(_, evaluated)| *evaluated).map(|(step, _)| *step).collect();
    assert_eq!(evaluated, [10, 20, 25], "{steps:?}");
}

#[test]
fn a_run_goes_on_with_other_lanes_and_workers_to_the_same_bits() {
    let dir = scene();
    let folder = dir.path();
    let start = |out| {
        let lanes = ["--micro", "4", "--lanes", "2", "--schedule", "1f1b", "--steps", "40"];
        [&["train", "char-lm.toml", "--batch", "128", "--json", "--out", out], &lanes[..]].concat()
    };
    works(folder, &start("unbroken"));
    let model = |run: &str| std::fs::read(folder.join(run).join("model.safetensors")).unwrap();
    let every = ["--set", "checkpoint.every=5 steps", "--log-every", "1 step"];
    for shape in [
        &["--lanes", "3", "--workers", "3"][..],
        &["--lanes", "4", "--width", "2"],
        &["--workers", "2"],
        &["--lanes", "0"],
    ] {
        let line = [start("r"), every.to_vec()].concat();
        assert!(ended(folder, &line, "KILL", Some(Duration::from_millis(200))).is_some(), "it has ended");
        works(folder, &[&["resume", "r", "--json"], shape].concat());
        assert!(model("r") == model("unbroken"), "{shape:?}");
        std::fs::remove_dir_all(folder.join("r")).unwrap();
    }
    let line = [start("r"), every.to_vec()].concat();
    assert!(ended(folder, &line, "KILL", Some(Duration::from_millis(200))).is_some());
    let said = run(folder, &["resume", "r", "--lanes", "3", "--width", "2"]);
    assert!(text(&said.stderr).contains("lanes.width"), "{}", text(&said.stderr));
    works(folder, &["resume", "r", "--json"]);
    assert!(model("r") == model("unbroken"));
}
