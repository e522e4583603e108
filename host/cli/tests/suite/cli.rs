//! The binary as a user meets it: what it prints where, and its exit codes.
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The binary in a folder of its own, with a kernel cache that all these tests share.
fn eciton(folder: &Path, line: &[&str]) -> Command {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
    let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
    command.args(line).current_dir(folder).stdin(Stdio::null());
    command.env("ECITON_CACHE_DIR", cache).env_remove("NO_COLOR").env_remove("TERM");
    command
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn ran(output: &Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

fn run(folder: &Path, line: &[&str]) -> Ran {
    ran(&eciton(folder, line).output().unwrap())
}

/// Runs what must work.
fn works(folder: &Path, line: &[&str]) -> String {
    let ran = run(folder, line);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{line:?}\n{}", ran.out);
    ran.out
}

/// Runs what must fail with `code`; gives what standard error says.
fn fails(folder: &Path, line: &[&str], code: i32) -> String {
    let ran = run(folder, line);
    assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""), "{line:?}\n{}", ran.err);
    assert!(ran.err.starts_with("error: ") && ran.err.ends_with('\n'), "{line:?}\n{}", ran.err);
    assert!(!ran.err.contains("panicked"), "{line:?}\n{}", ran.err);
    ran.err
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn entries(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn version_and_help() {
    let dir = folder();
    let version = works(dir.path(), &["--version"]);
    assert!(
        version.starts_with(concat!("eciton ", env!("CARGO_PKG_VERSION"), " (numeric class ")),
        "{version}"
    );
    says(&works(dir.path(), &["--help"]), &["train", "predict", "eval", "data", "kernel", "doctor"]);
    let help = works(dir.path(), &["train", "--help"]);
    // The width of a terminal decides where lines break.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    says(&help, &["--seeds", "--eval-every", "--set", "[default: 200]"]);
    assert_eq!(run(dir.path(), &[]).code, Some(2));
    assert_eq!(entries(dir.path()), Vec::<String>::new());
}

#[test]
fn wrong_words_are_usage_errors() {
    let dir = folder();
    let cases: [(&[&str], &[&str]); 13] = [
        (&["trian"], &["train"]),
        (&["train", "--functions", "3"], &["--functions 3: ", "\"emulated\" or \"lambda\""]),
        (&["train", "--epoch", "3"], &["--epochs"]),
        (&["train", "--epochs", "0"], &["`run.epochs` is 0", "in --epochs 0"]),
        (&["train", "--seeds", "0"], &["--seeds"]),
        (
            &["train", "--set", "optimiser.learning_rate=1"],
            &["did you mean `optimiser.lr`?", "--set optimiser"],
        ),
        (&["train", "--set", "lr"], &["section.key=value"]),
        (&["train", "--executor", "moon"], &["`executor.kind` is", "\"lambda\"", "in --executor moon"]),
        (
            &["train", "--order", "rabit"],
            &["`run.order` is", "\"natural\", \"degree\", \"rcm\", \"rabbit\"", "in --order rabit"],
        ),
        (&["plan", "--set", "run.order=Rcm"], &["`run.order` is", "\"rcm\"", "in --set run.order=Rcm"]),
        (&["train", "--model", "gatt"], &["unknown model `gatt`", "expected one of gcn"]),
        (&["train", "--out", "x", "--no-out"], &["--no-out"]),
        (&["kernel", "build", "--check"], &["--builtin"]),
    ];
    for (line, words) in cases {
        says(&fails(dir.path(), line, 2), words);
    }
    assert_eq!(entries(dir.path()), Vec::<String>::new());
}

#[test]
fn failures_name_what_was_found_and_leave_nothing() {
    let dir = folder();
    std::fs::write(dir.path().join("r.toml"), "[run]\n\nepoch = 3\n").unwrap();
    std::fs::write(dir.path().join("x.wasm"), "no kernel").unwrap();
    std::fs::write(dir.path().join("d.npz"), "PK\u{3}\u{4}").unwrap();
    std::fs::create_dir(dir.path().join("full")).unwrap();
    std::fs::write(dir.path().join("full/mine"), "1").unwrap();
    let before = entries(dir.path());
    let cases: [(&[&str], &[&str]); 12] = [
        (&["train", "--executor", "lambda", "--deployment", "./none.json"], &["none.json", "eciton deploy"]),
        (&["train", "--executor", "emulated", "--worker", "./none"], &["./none", "cargo build"]),
        (&["train", "corra"], &["corra", "cora"]),
        (&["train", "no/such/folder"], &["no/such/folder"]),
        (&["train", "d.npz"], &["d.npz"]),
        (
            &["train", "r.toml"],
            &["unknown key `run.epoch`; did you mean `run.epochs`?", "3 | epoch = 3", "r.toml:3:1"],
        ),
        (&["train", "absent.toml"], &["absent.toml: the recipe cannot be read"]),
        (&["train", "--model", "absent.toml"], &["absent.toml: the model file cannot be read"]),
        (&["train", "--kernel", "linear=absent.wasm"], &["absent.wasm"]),
        (&["train", "--kernel", "linear=x.wasm"], &["linear"]),
        (&["train", "--out", "x.wasm/run"], &["x.wasm"]),
        (&["train", "--out", "full"], &["full"]),
    ];
    for (line, words) in cases {
        says(&fails(dir.path(), line, 1), words);
        assert_eq!(entries(dir.path()), before, "{line:?}");
    }
    assert_eq!(entries(&dir.path().join("full")), ["mine"]);
}

#[test]
fn training_prints_its_first_and_last_epoch_and_a_summary() {
    let dir = folder();
    let text = works(dir.path(), &["train", "--epochs", "3"]);
    let settings: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    assert!(settings.iter().all(|line| line.ends_with(')')), "each says where it is from: {text}");
    let lines: Vec<&str> = text.lines().skip(settings.len() + 1).collect();
    says(lines[0], &["epoch", "loss", "train %", "val %", "test %", "ms", "left"]);
    assert_eq!(lines[1].split_whitespace().count(), 7);
    assert!(lines[1].trim_start().starts_with("1 ") && lines[2].trim_start().starts_with("3 "), "{text}");
    let progress = settings.iter().chain(&lines[..3]);
    assert!(lines[3].is_empty() && progress.clone().all(|line| line.chars().count() <= 80), "{text}");
    says(
        &text,
        &["\ntest accuracy", "best validation", "\nepoch time", "\ntotal time", "\npeak memory", "\ntasks"],
    );
    assert!(!text.contains('\u{1b}'), "{text}");
    let runs = entries(&dir.path().join("runs"));
    assert_eq!(runs.len(), 1);
    assert!(
        runs[0].starts_with("cora-gcn-20") && runs[0].len() == "cora-gcn-YYYYMMDD-HHMMSS".len(),
        "{runs:?}"
    );
    says(&text, &[&format!("runs/{}", runs[0])]);
}

#[test]
fn json_has_these_keys_in_this_order() {
    let dir = folder();
    let text = works(
        dir.path(),
        &["train", "--json", "--epochs", "4", "--eval-every", "2", "--seeds", "2", "--no-out"],
    );
    let lines = objects(&text);
    assert_eq!(lines.len(), 9);
    let keys = "{\"event\":\"epoch\",\"seed\":0,\"epoch\":1,\"step\":1,\"loss\":";
    assert!(text.starts_with(keys), "{text}");
    for (at, line) in lines[..8].iter().enumerate() {
        let names: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let mut wanted = [
            "event",
            "seed",
            "epoch",
            "step",
            "loss",
            "metric",
            "train_metric",
            "val_metric",
            "test_metric",
            "seconds",
            "flops",
            "rows_per_second",
            "lr",
        ];
        wanted.sort_unstable();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, wanted);
        assert_eq!(
            (line["seed"].as_u64(), line["epoch"].as_u64()),
            (Some(at as u64 / 4), Some(at as u64 % 4 + 1))
        );
        assert!(line["loss"].as_f64().unwrap() > 0.0 && line["seconds"].as_f64().unwrap() > 0.0);
        assert_eq!(line["test_metric"].is_null(), at % 2 == 0, "{line}");
    }
    let summary = &lines[8];
    for (key, value) in [("event", "summary"), ("dataset", "cora"), ("model", "gcn 1433-16-7")] {
        assert_eq!(summary[key], value);
    }
    assert_eq!(summary["seeds"].as_array().unwrap().len(), 2);
    assert_eq!(summary["model_digest"].as_str().unwrap().len(), 64);
    assert_eq!((&summary["run_dir"], &summary["stopped"]), (&Value::Null, &Value::Bool(false)));
    for key in [
        "test_metric",
        "test_metric_std",
        "test_metric_at_best_validation",
        "epoch_seconds_median",
        "total_seconds",
        "peak_memory_bytes",
        "intervals",
        "threads",
        "tasks",
    ] {
        assert!(summary[key].is_number(), "{key}: {summary}");
    }
    assert!(summary["numeric_class"].is_string());
    assert_eq!(entries(dir.path()), Vec::<String>::new());
}

#[test]
fn a_plan_says_what_a_run_would_hold_and_refuses_what_does_not_fit() {
    let dir = folder();
    let text = works(dir.path(), &["plan", "--hidden", "64"]);
    says(
        &text,
        &["cora, gcn 1433-64-7", "10,556 directed edges", "5 tasks, 4 gathers", "\nweights", "\ntotal"],
    );
    says(&text, &["\nlayers             0 gcn 1433 to 64: product first", "1 gcn 64 to 7: product first"]);
    let text = works(dir.path(), &["plan", "--model", "sage", "--hidden", "2"]);
    says(&text, &["cora, sage 1433-2-7", "1 sage 2 to 7: gather first"]);
    let max = ["plan", "--model", "sage", "--set", "model.aggregator=max"];
    says(&works(dir.path(), &max), &["0 sage 1433 to 16: gather first", "maximum 0 forward"]);
    let text = works(dir.path(), &["plan", "--hidden", "64"]);
    // The available memory and the peak of reading are measured, and change over time.
    let planned = |text: &str| text.split("\nreading").next().unwrap().to_owned();
    assert_eq!(planned(&works(dir.path(), &["train", "--hidden", "64", "--dry-run"])), planned(&text));
    let text = works(dir.path(), &["plan", "--dropout", "0", "--set", "run.gather_features=once", "--json"]);
    let plan = &objects(&text)[0];
    assert_eq!((&plan["event"], &plan["gathers"]), (&Value::from("plan"), &Value::from(2)));
    assert_eq!((&plan["gathered_features"], &plan["fits"]), (&Value::Bool(true), &Value::Bool(true)));
    // The features are gone before rows come to be: the peak is a phase's, not the sum.
    let memory = &plan["memory"];
    let bytes = |value: &Value| value["bytes"].as_u64().unwrap();
    let items = memory["items"].as_array().unwrap();
    let during = |item: &Value, phase: &Value| item["during"].as_array().unwrap().contains(phase);
    let phases = memory["phases"].as_array().unwrap();
    assert_eq!(phases.iter().map(|held| &held["phase"]).collect::<Vec<_>>(), ["gathering", "training"]);
    for held in phases {
        let sum: u64 = items.iter().filter(|item| during(item, &held["phase"])).map(bytes).sum();
        assert_eq!(sum, bytes(held));
    }
    let only = |purpose: &str| {
        let item = items.iter().find(|item| item["purpose"] == purpose).unwrap();
        (during(item, &phases[0]["phase"]), during(item, &phases[1]["phase"]))
    };
    assert_eq!(
        ["features", "gathered features", "rows", "graph"].map(only),
        [(true, false), (true, true), (false, true), (true, true)]
    );
    let total = memory["total_bytes"].as_u64().unwrap();
    assert_eq!(Some(total), phases.iter().map(bytes).max());
    // What the run then holds is what was planned, give or take what a process holds anyway.
    let line = ["train", "--dropout", "0", "--set", "run.gather_features=once", "--json", "--no-out"];
    let held = objects(&works(dir.path(), &line)).last().unwrap()["peak_memory_bytes"].as_u64().unwrap();
    assert!(held < total + (32 << 20) && total < held + (32 << 20), "{held} held, {total} planned");
    // An order is told with its time and its bytes; what moves is there twice, for a moment.
    let text = works(dir.path(), &["plan", "--order", "rcm", "--hidden", "1", "--json"]);
    let plan = &objects(&text)[0];
    let bytes = |purpose: &str| {
        let items = plan["memory"]["items"].as_array().unwrap();
        items.iter().find(|item| item["purpose"] == purpose).unwrap()["bytes"].as_u64().unwrap()
    };
    assert!(plan["order"]["name"] == "rcm" && plan["order"]["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(bytes("permutation"), 2708 * 16);
    assert_eq!(plan["memory"]["phases"][0]["phase"], "ordering");
    assert!(bytes("ordering") > 0 && plan["memory"]["phases"][0]["bytes"].as_u64() > Some(bytes("ordering")));
    // Rows as bfloat16: half the bytes of every stage that reads and writes no features, and of rows.
    let plan = |storage: &str| {
        let line = ["plan", "--hidden", "64", "--row-storage", storage, "--json"];
        objects(&works(dir.path(), &line)).remove(0)
    };
    let (full, half) = (plan("f32"), plan("bf16"));
    for (full, half) in full["stages"].as_array().unwrap().iter().zip(half["stages"].as_array().unwrap()) {
        let of = |stage: &Value, what: &str| stage[what].as_u64().unwrap();
        assert_eq!(of(full, "bytes_written"), 2 * of(half, "bytes_written"), "{full}");
        let features = full["name"].as_str().unwrap().starts_with("linear 0");
        assert_eq!(of(full, "bytes_read") == 2 * of(half, "bytes_read"), !features, "{full}");
    }
    assert!(half["memory"]["bf16_saves_bytes"].is_null());
    assert!(full["memory"]["bf16_saves_bytes"].as_u64().is_some());
    // The report comes first, then the refusal.
    let Ran { code, out: text, err: error } = run(dir.path(), &["plan", "--set", "run.memory_bytes=1000"]);
    assert_eq!(code, Some(1), "{text}");
    says(&text, &["\ntotal", "1.0 kB"]);
    says(&error, &["needs", "only 1.0 kB are available"]);
    for line in [
        &["train", "--no-out", "--set", "run.memory_bytes=1000"][..],
        &["train", "--set", "run.memory_bytes=1000"],
    ] {
        says(&fails(dir.path(), line, 1), &["needs", "memory", "are available", "eciton plan"]);
    }
    says(
        &fails(dir.path(), &["train", "--set", "run.gather_features=once"], 1),
        &["dropout 0.5", "run.gather_features"],
    );
    assert_eq!(entries(dir.path()), Vec::<String>::new());
}

#[test]
fn a_simulation_is_repeated_by_its_seed_and_refuses_what_cannot_be() {
    let folder = folder();
    let of = |seed: &str| {
        let line =
            ["simulate", "--shape", "amazon", "--epochs", "2", "--crash", "0.01", "--seed", seed, "--json"];
        works(folder.path(), &line)
    };
    let first = of("3");
    assert_eq!(of("3"), first);
    assert_ne!(of("4"), first);
    let found = &objects(&first)[0];
    assert_eq!((&found["event"], &found["functions_allowed"]), (&"simulation".into(), &720.into()));
    assert_eq!(found["engine"]["committed"], found["engine"]["tasks"]);
    assert!(found["usd"]["total"].as_f64() > found["usd"]["hosts"].as_f64());
    let table = works(folder.path(), &["simulate", "--functions", "0", "--epochs", "1"]);
    says(
        &table,
        &["reddit-small", "c5.2xlarge", "epoch time", "dollars", "value", "busy", "events", "2026-11"],
    );
    says(&fails(folder.path(), &["simulate", "--shape", "amazn"], 2), &["amazn", "did you mean amazon"]);
    says(&fails(folder.path(), &["simulate", "--machine", "c5"], 2), &["c5.2xlarge"]);
    says(
        &fails(folder.path(), &["simulate", "--intervals", "5000", "--mode", "async"], 2),
        &["5000", "4096"],
    );
    says(&fails(folder.path(), &["simulate", "--crash", "1"], 1), &["failed 4 times"]);
    std::fs::write(folder.path().join("p.json"), "{}").unwrap();
    says(&fails(folder.path(), &["simulate", "--profile", "p.json"], 1), &["p.json", "not a task profile"]);
    assert!(entries(folder.path()) == ["p.json"]);
}

/// What a run measures of itself is what a simulation of it takes.
#[test]
fn a_runs_profile_is_what_its_simulation_takes() {
    let folder = folder();
    let line = ["train", "--json", "--no-out", "--epochs", "60", "--eval-every", "0", "--threads", "1"];
    let more = ["--intervals", "4", "--mode", "sync", "--hidden", "64", "--profile", "p.json"];
    let ran = objects(&works(folder.path(), &[&line[..], &more].concat()));
    let epochs: Vec<f64> = ran.iter().filter_map(|line| line["seconds"].as_f64()).skip(1).collect();
    let measured = epochs.iter().sum::<f64>() / epochs.len() as f64;
    let text = std::fs::read_to_string(folder.path().join("p.json")).unwrap();
    let profile: Value = serde_json::from_str(&text).unwrap();
    says(profile["source"].as_str().unwrap(), &["measured: cora", "4 intervals on 1 thread"]);
    let stages = profile["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 9);
    let took = |stage: &Value| stage["host_seconds_per_row"].as_f64().unwrap();
    let all: f64 = stages.iter().map(took).sum::<f64>() * 2708.0;
    assert!(stages.iter().all(|stage| took(stage) > 0.0) && all < measured, "{all} of {measured}");
    let line = [
        "simulate",
        "--json",
        "--functions",
        "0",
        "--hosts",
        "1",
        "--cores",
        "1",
        "--jitter",
        "0",
        "--mode",
        "sync",
        "--vertices",
        "2708",
        "--edges",
        "10556",
        "--features",
        "1433",
        "--stored",
        "0.0127",
        "--classes",
        "7",
        "--hidden",
        "64",
        "--intervals",
        "4",
        "--epochs",
        "5",
        "--profile",
        "p.json",
    ];
    let report = &objects(&works(folder.path(), &line))[0];
    assert_eq!(report["profile"], profile["source"]);
    let simulated = report["epoch_seconds"][1].as_f64().unwrap();
    // Alone it is within a tenth. Here other tests run beside it, and the profile is of another moment.
    assert!((0.2..5.0).contains(&(simulated / measured)), "{simulated} simulated, {measured} measured");
}

#[test]
fn execution_flags_change_no_result() {
    let dir = folder();
    let digest = |more: &[&str]| {
        let mut line = vec!["train", "--json", "--epochs", "5", "--seed", "3", "--no-out"];
        line.extend(more);
        let text = works(dir.path(), &line);
        objects(&text).last().unwrap()["model_digest"].as_str().unwrap().to_owned()
    };
    let wanted = digest(&[]);
    for more in
        [&["--threads", "1"][..], &["--intervals", "4"], &["--fresh-instances"], &["--executor", "local"]]
    {
        assert_eq!(digest(more), wanted, "{more:?}");
    }
    assert_ne!(digest(&["--lr", "0.02"]), wanted);
    assert_ne!(digest(&["--hidden", "8"]), wanted);
}

#[test]
fn an_order_is_not_seen_in_what_a_run_writes() {
    let dir = folder();
    std::fs::create_dir(dir.path().join("mine")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join("mine").join(name), text).unwrap();
    // Three classes that the features tell; each vertex is tied to some earlier ones of its class.
    let vertices = 0..90usize;
    let name = |v: usize| format!("w{}", v * 37 % 90);
    let table = |head: &str, line: &dyn Fn(usize) -> String| {
        vertices.clone().fold(format!("{head}\n"), |text, v| text + &line(v))
    };
    let edges = |v: usize| {
        let earlier = (1..=1 + v % 5).filter_map(|step| v.checked_sub(3 * step));
        earlier.map(|u| format!("{},{}\n", name(v), name(u))).collect()
    };
    write("edges.csv", &table("source,target", &edges));
    let one = |v: usize, class: usize| u8::from(v % 3 == class);
    let features = |v: usize| format!("{},{},{},{},1\n", name(v), one(v, 0), one(v, 1), one(v, 2));
    write("features.csv", &table("id,a,b,c,d", &features));
    write("labels.csv", &table("id,class", &|v| format!("{},{}\n", name(v), v % 3)));

    let mut results: Vec<(String, Vec<Vec<f64>>)> = Vec::new();
    for order in ["natural", "degree", "rcm", "rabbit"] {
        let line = [
            "train",
            "mine",
            "--order",
            order,
            "--epochs",
            "60",
            "--lr",
            "0.1",
            "--dropout",
            "0.2",
            "--json",
        ];
        let line = [&line[..], &["--embeddings", "--out", order]].concat();
        let summary = objects(&works(dir.path(), &line)).pop().unwrap();
        assert_eq!(summary["order"].get("name"), (order != "natural").then_some(&order.into()), "{order}");
        assert!(order == "natural" || summary["order"]["seconds"].as_f64().unwrap() > 0.0);
        let found = objects(&works(dir.path(), &["eval", order, "--json"])).pop().unwrap();
        assert_eq!(found["reproduced"], true, "{order}");
        // The folder's file and the one predicted from the folder.
        works(dir.path(), &["predict", order, "--embeddings", "--out", "p.npz"]);
        let bytes = |file: &str| std::fs::read(dir.path().join(file)).unwrap();
        assert_eq!(bytes("p.npz"), bytes(&format!("{order}/predictions.npz")), "{order}");
        let lines = objects(&works(dir.path(), &["predict", order, "--json"]));
        let mut names = String::new();
        let mut scores = Vec::new();
        for line in &lines {
            let id = line["id"].as_str().unwrap();
            let vertex = vertices.clone().find(|&v| name(v) == id).unwrap();
            assert_eq!(line["predicted"], vertex % 3, "{order}: {id} is not its own");
            names += &format!("{id} ");
            scores.push(line["scores"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect());
        }
        assert_eq!(lines.len(), 90);
        results.push((names, scores));
    }
    for (names, scores) in &results[1..] {
        assert_eq!(names, &results[0].0);
        for (found, wanted) in scores.iter().flatten().zip(results[0].1.iter().flatten()) {
            assert!((found - wanted).abs() < 1e-3, "{found}, {wanted} in the natural order");
        }
    }
    says(&works(dir.path(), &["train", "mine", "--order", "rcm", "--no-out"]), &["\nvertex order   rcm, "]);
}

#[test]
fn a_run_folder_evaluates_and_predicts() {
    let dir = folder();
    let text = works(dir.path(), &["train", "--json", "--epochs", "20", "--out", "r", "--embeddings"]);
    let summary = objects(&text).pop().unwrap();
    assert_eq!(summary["run_dir"], "r");
    assert_eq!(entries(dir.path()), ["r"]);
    let found = objects(&works(dir.path(), &["eval", "r", "--json"])).pop().unwrap();
    assert_eq!(found["test_metric"], summary["test_metric"]);
    assert_eq!(
        (&found["reproduced"], &found["model_digest"]),
        (&Value::Bool(true), &summary["model_digest"])
    );
    says(&works(dir.path(), &["eval", "r", "cora"]), &["cora, gcn 1433-16-7", "recorded"]);

    let printed = works(dir.path(), &["predict", "r"]);
    assert_eq!(printed.lines().count(), 2709);
    assert!(printed.starts_with("id,predicted,label,part,p(Theory),"), "{}", &printed[..80]);
    says(&works(dir.path(), &["predict", "r", "--out", "p.csv"]), &["p.csv", "2,708 vertices", "7 classes"]);
    assert_eq!(std::fs::read_to_string(dir.path().join("p.csv")).unwrap(), printed);
    let first =
        objects(works(dir.path(), &["predict", "r", "--json"]).lines().next().unwrap()).pop().unwrap();
    assert_eq!(first["scores"].as_array().unwrap().len(), 7);
    let line = objects(&works(dir.path(), &["predict", "r", "--json", "--embeddings", "--out", "p.npz"]));
    assert_eq!((&line[0]["vertices"], &line[0]["path"]), (&Value::from(2708), &Value::from("p.npz")));
    assert_eq!(entries(dir.path()), ["p.csv", "p.npz", "r"]);
    let same = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert_eq!(same("p.npz"), same("r/predictions.npz"));

    says(&fails(dir.path(), &["predict", "r", "--out", "p.txt"], 2), &[".npz or .csv"]);
    says(&works(dir.path(), &["predict", "r", "--out", "new/folder/p.csv"]), &["new/folder/p.csv"]);
    says(&fails(dir.path(), &["predict", "r", "--out", "p.csv/p.csv"], 1), &["p.csv/p.csv"]);
    says(&fails(dir.path(), &["eval", "absent"], 1), &["absent"]);
    says(&fails(dir.path(), &["eval", "r", "corra"], 1), &["corra", "cora"]);
    says(&fails(dir.path(), &["train", "--out", "r"], 1), &["r"]);
}

#[test]
fn a_recipe_finds_its_files_from_anywhere() {
    let dir = folder();
    std::fs::create_dir_all(dir.path().join("recipes/data")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join("recipes").join(name), text).unwrap();
    write("r.toml", "[data]\nsource = \"data\"\n[run]\nepochs = 2\n[model]\nfile = \"m.toml\"\n");
    write("m.toml", "hidden = 3\n");
    write("data/edges.csv", "source,target\n0,1\n1,2\n2,3\n3,0\n");
    write("data/features.csv", "id,a,b\n0,1,0\n1,0,1\n2,1,0\n3,0,1\n");
    write("data/labels.csv", "id,label\n0,0\n1,1\n2,0\n3,1\n");
    write("data/split.csv", "id,split\n0,train\n1,train\n2,val\n3,test\n");
    let summary =
        objects(&works(dir.path(), &["train", "recipes/r.toml", "--json", "--out", "r"])).pop().unwrap();
    assert_eq!(summary["model"], "gcn 2-3-2");
    // From another folder, too.
    let found = works(&dir.path().join("recipes"), &["eval", "../r", "--json"]);
    assert_eq!(objects(&found)[0]["reproduced"], true);
}

#[test]
fn data_kernels_and_doctor() {
    let dir = folder();
    says(&works(dir.path(), &["data", "list"]), &["cora", "ind.NAME.graph"]);
    assert_eq!(objects(&works(dir.path(), &["data", "list", "--json"]))[0]["name"], "cora");
    says(
        &works(dir.path(), &["data", "stat", "cora"]),
        &["2,708", "10,556", "140 train, 500 validation, 1,000 test"],
    );
    let stat = objects(&works(dir.path(), &["data", "stat", "Cora", "--json"])).pop().unwrap();
    assert_eq!(
        (&stat["vertices"], &stat["edges"], &stat["classes"]),
        (&2708.into(), &10556.into(), &7.into())
    );
    says(&fails(dir.path(), &["data", "stat", "kora"], 1), &["kora", "did you mean", "cora"]);

    let kernels = objects(&works(dir.path(), &["kernel", "list", "--json"]));
    let names: Vec<&str> = kernels.iter().filter_map(|k| k["name"].as_str()).collect();
    let builtin = [
        "activate",
        "attention",
        "binary",
        "concat",
        "conv2d",
        "embedding",
        "gatv2",
        "head",
        "ipa",
        "linear",
        "maximum",
        "normalise",
        "pool2d",
        "product",
        "self-attention",
        "slice",
        "spiking",
        "sum",
    ];
    assert_eq!(names, builtin);
    let listed = kernels.iter().find(|k| k["name"] == "linear").unwrap();
    let linear = eciton_train::kernels::builtin().iter().find(|k| k.name == "linear").unwrap();
    std::fs::write(dir.path().join("linear.wasm"), linear.component).unwrap();
    let text = works(dir.path(), &["kernel", "check", "linear.wasm"]);
    says(&text, &["linear.wasm: implements kernel contract", listed["digest"].as_str().unwrap()]);
    std::fs::write(dir.path().join("not.wasm"), "text").unwrap();
    says(
        &fails(dir.path(), &["kernel", "check", "not.wasm"], 1),
        &["not.wasm: does not implement kernel contract"],
    );
    says(&fails(dir.path(), &["kernel", "check", "absent.wasm"], 1), &["absent.wasm"]);
    says(&fails(dir.path(), &["kernel", "build", "absent"], 1), &["absent"]);
    says(&fails(dir.path(), &["kernel", "build", "--builtin"], 1), &["not within Eciton's repository"]);

    let report = objects(&works(dir.path(), &["doctor", "--json"])).pop().unwrap();
    assert_eq!(report["cache"]["writable"], true);
    assert_eq!(report["kernels"].as_array().unwrap().len(), kernels.len());
    assert!(report["wasm_toolchain"].is_string() != report["wasm_toolchain_missing"].is_string(), "{report}");
    says(&works(dir.path(), &["doctor"]), &["numeric class", "kernel cache", "wasm toolchain", "limits"]);
}

/// Starts what runs until it is stopped, and waits for its first lines.
fn started(folder: &Path, line: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = eciton(folder, line);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    assert!(!first.is_empty());
    (child, reader)
}

#[test]
fn a_reader_that_leaves_ends_the_run_quietly() {
    for more in [&["--json"][..], &[]] {
        let dir = folder();
        let mut line = vec!["train", "--epochs", "100000000", "--out", "r"];
        line.extend(more);
        let (child, reader) = started(dir.path(), &line);
        drop(reader);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(
            (ended.status.code(), String::from_utf8(ended.stderr).unwrap()),
            (Some(141), String::new())
        );
        // What was trained is kept, whole, and can be gone on with.
        assert_eq!(entries(dir.path()), ["r", "r.checkpoint"]);
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_is_written_whole() {
    let dir = folder();
    let (mut child, mut reader) =
        started(dir.path(), &["train", "--json", "--epochs", "100000000", "--out", "r"]);
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    says(&said, &["stopping after this epoch"]);
    let summary = objects(rest.lines().last().unwrap()).pop().unwrap();
    assert_eq!((&summary["event"], &summary["stopped"]), (&Value::from("summary"), &Value::Bool(true)));
    assert_eq!(entries(dir.path()), ["r", "r.checkpoint"]);
    assert_eq!(objects(&works(dir.path(), &["eval", "r", "--json"]))[0]["reproduced"], true);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let dir = folder();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = ran(&eciton(dir.path(), &["data", "list"]).stdout(full).output().unwrap());
    assert_eq!(ran.code, Some(1));
    says(&ran.err, &["error: standard output: cannot be written"]);
}
