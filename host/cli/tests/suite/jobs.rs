//! Whole runs as tasks of emulated functions: the bits of runs here, each trial once whatever fails, and limits
//! that are told in words.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{eciton, killed_after, works};
use serde_json::Value;

fn last(text: &str) -> Value {
    let of = |line: &str| serde_json::from_str::<Value>(line).ok();
    text.lines().rev().find_map(of).unwrap()
}

fn found(text: &str, event: &str) -> Value {
    let of = |line: &str| serde_json::from_str::<Value>(line).ok();
    text.lines().filter_map(of).find(|line| line["event"] == event).unwrap()
}

/// Settings, state, metric and digest of each trial.
fn table(folder: &Path, sweep: &str) -> Vec<[String; 4]> {
    let text = std::fs::read_to_string(folder.join(sweep).join("results.json")).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    let row =
        |row: &Value| ["choice", "state", "test_metric", "model_digest"].map(|key| row[key].to_string());
    results["rows"].as_array().unwrap().iter().map(row).collect()
}

const EMULATED: [&str; 4] = ["--executor", "emulated", "--functions", "4"];

#[test]
fn a_run_on_a_function_has_the_bits_of_a_run_here() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    // Of the binary, of a text, of a table, and with a kernel of one's own.
    std::fs::write(folder.join("text.txt"), "to be or not to be, that is the question; ".repeat(14)).unwrap();
    works(folder, &["data", "generate", "linear", "made", "--rows", "256"]);
    works(folder, &["data", "convert", "cora", "store"]);
    let linear = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-kernels/prebuilt/linear.wasm");
    std::fs::copy(linear, folder.join("own.wasm")).unwrap();
    let runs: [&[&str]; 5] = [
        &["cora", "--recipe", "gat", "--epochs", "3", "--seeds", "2"],
        &["store", "--model", "sage", "--epochs", "3"],
        &["made", "--epochs", "3"],
        &["text.txt", "--recipe", "char-lm", "--epochs", "1", "--batch", "128", "--micro", "2"],
        &["cora", "--epochs", "3", "--kernel", "linear=own.wasm"],
    ];
    for run in runs {
        let line = |rest: &[&str]| works(folder, &[&["train"], run, &["--json"], rest].concat());
        let (here, there) =
            (last(&line(&["--no-out"])), line(&["--as-task", "--executor", "emulated", "--out", "task"]));
        let there = found(&there, "summary");
        assert_eq!(here["model_digest"], there["model_digest"], "{run:?}");
        assert_eq!(here["seeds"], there["seeds"], "{run:?}");
        // The folder is one of this machine: it finds its data here.
        let evaluated = last(&works(folder, &["eval", "task", "--json"]));
        assert_eq!(evaluated["reproduced"], true, "{run:?}: {evaluated}");
        let task = ["eval", "task", "--json", "--as-task", "emulated"];
        assert_eq!(last(&works(folder, &task)), evaluated, "{run:?}: by a function");
        let predict = |rest: &[&str]| works(folder, &[&["predict", "task"], rest].concat());
        assert!(predict(&[]) == predict(&["--as-task", "emulated"]), "{run:?}");
        std::fs::remove_dir_all(folder.join("task")).unwrap();
    }
}

#[test]
fn a_numeric_class_is_that_of_the_run_wherever_it_is_done() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let train = |rest: &[&str]| last(&works(folder, &[&["train", "--epochs", "3", "--json"], rest].concat()));
    let portable = ["--set", "run.numeric_class=portable-1"];
    let here = train(&[&portable[..], &["--no-out"]].concat());
    assert_eq!(here["numeric_class"], "portable-1");
    let task = ["--as-task", "--executor", "emulated", "--out", "task", "--json", "--epochs", "3"];
    let there = works(folder, &[&["train"], &portable[..], &task].concat());
    let there = found(&there, "summary");
    assert_eq!(
        (&there["model_digest"], &there["numeric_class"]),
        (&here["model_digest"], &here["numeric_class"])
    );
    // What functions write goes with them.
    let left = tempfile::tempdir().unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_eciton"))
        .args(["train", "--epochs", "1", "--as-task", "--executor", "emulated", "--out", "beside"])
        .current_dir(folder)
        .env("TMPDIR", left.path())
        .output()
        .unwrap();
    assert!(ran.status.success() && std::fs::read_dir(left.path()).unwrap().next().is_none());
    let layers = train(&[&portable[..], &["--no-out", "--executor", "emulated"]].concat());
    assert_eq!(
        (&layers["model_digest"], &layers["numeric_class"]),
        (&here["model_digest"], &here["numeric_class"])
    );
    // A class that is no step of this processor's.
    let (own, other) = match cfg!(target_arch = "aarch64") {
        true => ("neon", "avx2-fma-1"),
        false => ("", "neon-fma-1"),
    };
    let (code, _, said) =
        eciton(folder, &["train", "--no-out", "--set", &format!("run.numeric_class={other}")]);
    assert!(
        code == Some(1)
            && said.contains(other)
            && said.contains(own)
            && said.contains("this processor supports"),
        "{said}"
    );
    let (code, _, said) = eciton(folder, &["train", "--no-out", "--set", "run.numeric_class=sse"]);
    assert!(code == Some(2) && said.contains("portable-1"), "{said}");
}

#[test]
fn a_sweep_under_faults_has_the_table_of_one_without() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    std::fs::write(
        folder.join("tries.toml"),
        "recipe = \"cora/gcn\"\nseeds = 6\n[grid]\n\"model.hidden\" = [8, 16]\n\"optimiser.lr\" = [0.01, 0.05]\n",
    )
    .unwrap();
    let line = ["sweep", "tries.toml", "--set", "run.epochs=10", "--json"];
    works(folder, &[&line[..], &["--out", "here"]].concat());
    let faults =
        ["crash=0.2", "lose=0.05", "double=0.05", "throttle=0.1"].map(|fault| format!("emulator.{fault}"));
    let faults: Vec<&str> = faults.iter().flat_map(|fault| ["--set", fault]).collect();
    let told = works(folder, &[&line[..], &EMULATED, &faults, &["--out", "there"]].concat());
    assert_eq!(table(folder, "here"), table(folder, "there"));
    let bill = &last(&told)["spent"]["bill"];
    assert!(bill["failed"].as_u64().unwrap() > 0 && bill["invocations"].as_u64().unwrap() > 24, "{bill}");
    assert!(bill["cold_starts"].as_u64().unwrap() > 4, "{bill}");
}

#[test]
fn a_halved_sweep_on_functions_has_the_table_of_one_here() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    works(folder, &["data", "convert", "cora", "store"]);
    let text = "recipe = \"cora/gcn\"\ndata = \"store\"\nseeds = 2\n[grid]\n\"model.hidden\" = [4, 8]\n\
                \"optimiser.lr\" = [0.005, 0.08]\n[halving]\neta = 2\nepochs = 3\n";
    std::fs::write(folder.join("tries.toml"), text).unwrap();
    let line = ["sweep", "tries.toml", "--set", "run.epochs=12", "--json"];
    works(folder, &[&line[..], &["--out", "here"]].concat());
    let faults = ["--set", "emulator.crash=0.2", "--set", "emulator.double=0.1"];
    let told = works(folder, &[&line[..], &EMULATED, &faults, &["--out", "there"]].concat());
    assert_eq!(table(folder, "here"), table(folder, "there"));
    let found = last(&told);
    // Of four choices two go on to epoch 6, and of these one to epoch 12.
    assert_eq!(found["epochs"], serde_json::json!([2 * (2 * 3 + 6 + 12), 8 * 12]));
    // Functions answered 8, 4 and 2 jobs.
    assert_eq!(found["spent"]["jobs"].as_array().unwrap().len(), 14);
    // What went out on a function goes on here, with this machine's paths.
    let rows = found["rows"].as_array().unwrap();
    let out = rows.iter().find(|row| row["rung"] == 1).unwrap()["trial"].as_u64().unwrap();
    let run = |sweep: &str| format!("{sweep}/trials/{out:05}");
    let resumed =
        |sweep: &str| last(&works(folder, &["resume", &run(sweep), "--json"]))["model_digest"].clone();
    assert_eq!(resumed("here"), resumed("there"));
}

#[test]
fn a_sweep_on_functions_killed_six_times_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    std::fs::write(folder.join("tries.toml"), "recipe = \"cora/gcn\"\nseeds = 12\n").unwrap();
    let line = [&["sweep", "tries.toml", "--set", "run.epochs=10", "--json"], &EMULATED[..]].concat();
    let mut kept: Vec<(usize, SystemTime)> = Vec::new();
    for kill in 0..6 {
        killed_after(folder, &line, kept.len() + kill % 2);
        let summary = |trial: &usize| folder.join(format!("sweeps/tries/trials/{trial:05}/summary.json"));
        let written = |trial: &usize| summary(trial).metadata().ok().and_then(|found| found.modified().ok());
        for (trial, time) in &kept {
            assert_eq!(written(trial), Some(*time), "trial {trial} was trained again after kill {kill}");
        }
        kept = (0..12).filter_map(|trial| Some((trial, written(&trial)?))).collect();
    }
    assert!(!kept.is_empty());
    works(folder, &line);
    works(folder, &["sweep", "tries.toml", "--set", "run.epochs=10", "--out", "whole"]);
    assert_eq!(table(folder, "sweeps/tries"), table(folder, "whole"));
}

/// Summary lines that say how functions were used.
fn spent(text: &str) -> Value {
    let of = |line: &str| serde_json::from_str::<Value>(line).ok().filter(|line| line["jobs"].is_array());
    text.lines().find_map(of).unwrap()
}

/// A small model, so that the checkpoint of a link is packed well within the margin of its time limit.
const HIDDEN: [&str; 3] = ["--set", "model.hidden=64", "--json"];

/// Processor time of all ended child processes, in seconds (proc(5), fields 16 and 17 of `stat`).
fn children_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[13..15].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

/// Number of epochs that take so many seconds of a processor. Time limits of emulated functions
/// count processor time, so the load of the machine does not matter.
fn epochs_in(seconds: f64, folder: &Path) -> u32 {
    const PILOT: &str = "200";
    let before = children_seconds();
    let pilot = [&["train", "cora", "--epochs", PILOT, "--no-out"], &HIDDEN[..]].concat();
    works(folder, &pilot);
    (seconds * PILOT.parse::<f64>().unwrap() / (children_seconds() - before)) as u32
}

#[test]
fn a_training_longer_than_the_time_limit_is_a_chain_of_calls() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    // A link trains for less than 0.9 s.
    let epochs = epochs_in(2.8, folder).to_string();
    let long = [&["train", "cora", "--epochs", &epochs], &HIDDEN[..]].concat();
    let whole = last(&works(folder, &[&long[..], &["--no-out"]].concat()));
    let task = ["--as-task", "--executor", "emulated", "--set", "executor.timeout_s=2", "--out", "chain"];
    let line = [&long[..], &task].concat();
    // The host is killed once the first link lies next to the run folder that is to be.
    let mut host = Command::new(env!("CARGO_BIN_EXE_eciton"))
        .args(&line)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let epochs = || {
        let entries = std::fs::read_dir(folder.join("chain.checkpoint")).into_iter().flatten().flatten();
        let name = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let epoch = |name: String| name.strip_prefix("epoch-")?.strip_suffix(".safetensors")?.parse().ok();
        name.filter_map(epoch).collect::<Vec<u64>>()
    };
    let begun = Instant::now();
    while epochs().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(15) && host.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    host.kill().unwrap();
    host.wait().unwrap();
    // The host may have been killed between two checkpoints.
    let killed_at = epochs().into_iter().max().unwrap();
    assert!(!folder.join("chain").exists());
    // The same command continues from that link.
    let text = works(folder, &line);
    assert_eq!(found(&text, "summary")["model_digest"], whole["model_digest"]);
    assert_eq!(found(&text, "summary")["seeds"], whole["seeds"]);
    let spent = spent(&text);
    let jobs = spent["jobs"].as_array().unwrap();
    let mut before = killed_at;
    for job in &jobs[..jobs.len() - 1] {
        let epoch = job["paused"]["epoch"].as_u64().unwrap();
        assert!(epoch > before, "{jobs:?}");
        before = epoch;
    }
    assert!(jobs.len() >= 2 && jobs.last().unwrap()["paused"].is_null(), "{jobs:?}");
    assert_eq!(spent["bill"]["failed"], 0, "{spent}");
    // Each link reads its checkpoint, and kernels are read by the first job of a process alone.
    assert!(jobs.iter().all(|job| job["files_bytes"].as_u64().unwrap() > 0), "{jobs:?}");
    let warm = |job: &&Value| job["before"].as_u64().unwrap() > 0;
    assert!(jobs.iter().filter(warm).all(|job| job["store"]["gets"] == 1), "{jobs:?}");
    assert!(folder.join("chain/predictions.npz").is_file() && epochs().is_empty());
}

#[test]
fn a_halved_sweep_of_chains_has_the_table_of_one_here() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let rung = u64::from(epochs_in(1.2, folder));
    let text = format!(
        "recipe = \"cora/gcn\"\n[grid]\n\"optimiser.lr\" = [0.005, 0.02]\n[halving]\neta = 2\nepochs = {rung}\n"
    );
    std::fs::write(folder.join("tries.toml"), text).unwrap();
    let epochs = format!("run.epochs={}", rung + rung / 5);
    let line = [&["sweep", "tries.toml", "--set", &epochs], &HIDDEN[..]].concat();
    works(folder, &[&line[..], &["--out", "here"]].concat());
    let functions = ["--executor", "emulated", "--functions", "1", "--set", "executor.timeout_s=2"];
    let told = last(&works(folder, &[&line[..], &functions, &["--out", "there"]].concat()));
    assert_eq!(table(folder, "here"), table(folder, "there"));
    let jobs = told["spent"]["jobs"].as_array().unwrap();
    assert!(
        jobs.iter().any(|job| job["paused"]["epoch"].as_u64().is_some_and(|epoch| epoch < rung)),
        "{jobs:?}"
    );
}

#[test]
fn a_call_that_cannot_train_one_epoch_is_made_once() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let line = [
        "train",
        "cora",
        "--epochs",
        "2",
        "--set",
        "model.hidden=3000",
        "--set",
        "model.layers=4",
        "--as-task",
    ];
    let limit = ["--executor", "emulated", "--set", "executor.timeout_s=1", "--out", "short"];
    let (code, _, said) = eciton(folder, &[&line[..], &limit].concat());
    assert_eq!(code, Some(1), "{said}");
    for word in ["time limit of its function, 1 s", "executor.memory_mb", "fewer rows", "executor.timeout_s"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!said.contains("10 requests") && !folder.join("short").exists(), "{said}");
}

#[test]
fn predictions_of_a_sweep_stay_in_the_store_until_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    std::fs::write(folder.join("tries.toml"), "recipe = \"cora/gcn\"\nseeds = 2\n").unwrap();
    let line = ["sweep", "tries.toml", "--set", "run.epochs=5", "--json"];
    let sweep = |rest: &[&str]| last(&works(folder, &[&line[..], &EMULATED, rest].concat()));
    works(folder, &[&line[..], &["--out", "here"]].concat());
    let without = sweep(&["--out", "there"]);
    // Small answers travel in replies, so that the host reads nothing from the store.
    assert_eq!(without["spent"]["bill"]["store_bytes_to_host"], 0, "{without}");
    let read = |path: &str| std::fs::read(folder.join(path)).unwrap();
    for trial in 0..2 {
        let run = format!("there/trials/0000{trial}");
        let npz = format!("{run}/predictions.npz");
        assert!(!folder.join(&npz).exists());
        let summary: Value = serde_json::from_slice(&read(&format!("{run}/summary.json"))).unwrap();
        assert_eq!(summary["predictions_left_out"], true, "{summary}");
        // Commands work without them, and `predict` makes the same file.
        assert_eq!(last(&works(folder, &["eval", &run, "--json"]))["reproduced"], true);
        assert!(works(folder, &["runs", "show", &run]).contains("eciton predict"));
        works(folder, &["predict", &run, "--out", "made.npz"]);
        assert_eq!(read("made.npz"), read(&format!("here/trials/0000{trial}/predictions.npz")));
    }
    // The same sweep fetches them when they are asked for.
    let with = sweep(&["--out", "there", "--predictions"]);
    assert!(with["spent"]["bill"]["store_bytes_to_host"].as_u64().unwrap() > 0, "{with}");
    assert_eq!(table(folder, "here"), table(folder, "there"));
    for trial in 0..2 {
        let npz = |sweep: &str| read(&format!("{sweep}/trials/0000{trial}/predictions.npz"));
        assert_eq!(npz("there"), npz("here"));
        let summary = read(&format!("there/trials/0000{trial}/summary.json"));
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        assert!(summary["predictions_left_out"].is_null(), "{summary}");
    }
    // Once they are there, nothing is asked for.
    assert!(sweep(&["--out", "there", "--predictions"])["spent"].is_null());
}

#[test]
fn limits_are_told_and_the_others_results_are_kept() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    std::fs::write(
        folder.join("tries.toml"),
        "recipe = \"cora/gcn\"\n[grid]\n\"run.memory_bytes\" = [1000000, 900000000]\n",
    )
    .unwrap();
    let refused = |rest: &[&str]| {
        let (code, said, error) = eciton(folder, rest);
        assert_ne!(code, Some(0), "{said}");
        said + &error
    };
    let line = ["sweep", "tries.toml", "--set", "run.epochs=2", "--executor", "emulated"];
    let said = refused(&line);
    assert!(said.contains("1 trained, 1 failed, 0 not run") && said.contains("needs"), "{said}");
    assert!(said.contains("the results of all other trials were written"), "{said}");
    // An account of ten functions.
    std::fs::write(folder.join("tries.toml"), "recipe = \"cora/gcn\"\nseeds = 12\n").unwrap();
    let many =
        [&line[..], &["--functions", "500", "--set", "emulator.account_concurrency=10", "--out", "ten"]];
    let said = works(folder, &many.concat());
    assert!(said.contains("500 requested, 10 available") && said.contains("12 trained, 0 failed"), "{said}");
    // A budget for some of the trials, and for not even one.
    let some = [&line[..], &["--functions", "1", "--max-usd", "0.0002", "--out", "some"]].concat();
    let said = refused(&[&some[..], &["--set", "executor.timeout_s=1"]].concat());
    assert!(said.contains("--max-usd is exhausted"), "{said}");
    let none = refused(&[&line[..], &["--max-usd", "0.00001", "--out", "none"]].concat());
    assert!(none.contains("one call may cost"), "{none}");
    // Data that no function of this size holds.
    works(folder, &["data", "generate", "linear", "large", "--rows", "200000", "--features", "256"]);
    let task = ["train", "large", "--as-task", "--executor", "emulated", "--memory", "128", "--epochs", "1"];
    let said = refused(&task);
    assert!(said.contains("executor.memory_mb"), "{said}");
    // A folder that has another run.
    works(folder, &["train", "--epochs", "1", "--out", "taken"]);
    let said = refused(&["train", "--epochs", "2", "--as-task", "--executor", "emulated", "--out", "taken"]);
    assert!(said.contains("must be new or empty"), "{said}");
    // One beside which another run's checkpoints are.
    works(
        folder,
        &[
            "train",
            "--epochs",
            "2",
            "--set",
            "checkpoint.every=1",
            "--set",
            "checkpoint.keep_after=true",
            "--out",
            "begun",
        ],
    );
    std::fs::remove_dir_all(folder.join("begun")).unwrap();
    let said = refused(&["train", "--epochs", "2", "--as-task", "--executor", "emulated", "--out", "begun"]);
    assert!(said.contains("eciton resume begun"), "{said}");
    // Nothing to train on, and flags that say nothing to a task.
    let said = refused(&["train", "--as-task"]);
    assert!(said.contains("--executor emulated"), "{said}");
    let said = refused(&["sweep", "tries.toml", "--max-usd", "1"]);
    assert!(said.contains("limits the cost of functions"), "{said}");
}
