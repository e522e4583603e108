//! Workers that dial a run: the bits of a run without them, whoever vanishes and when; and bad input.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::common::{eciton, works};

pub(crate) fn summary(text: &str) -> Value {
    let of = |line: &str| serde_json::from_str::<Value>(line).ok();
    text.lines().filter_map(of).find(|line| line["event"] == "summary").unwrap()
}

/// A network of six layers, four parts an update.
pub(crate) const DIGITS: [&str; 10] =
    ["train", "digits", "--layers", "6", "--batch", "600", "--micro", "4", "--no-out", "--json"];

fn digits(folder: &Path, rest: &[&str]) -> Value {
    let epochs: &[&str] = if rest.contains(&"--epochs") { &[] } else { &["--epochs", "1"] };
    summary(&works(folder, &[&DIGITS[..], epochs, rest].concat()))
}

/// The summary of an undisturbed run over two workers.
fn digits_on(folder: &Path, epochs: &[&str]) -> Value {
    summary(&works(folder, &[&DIGITS[..], epochs, &["--workers", "2"]].concat()))
}

pub(crate) fn tasks(summary: &Value) -> Vec<u64> {
    let places = summary["workers"]["places"].as_array().unwrap();
    places.iter().map(|place| place["tasks"].as_u64().unwrap()).collect()
}

pub(crate) fn lost(summary: &Value) -> u64 {
    let places = summary["workers"]["places"].as_array().unwrap();
    places.iter().map(|place| place["lost"].as_u64().unwrap()).sum()
}

#[test]
fn pipelines_over_workers_have_the_bits_of_one_process() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let alone = digits(folder, &[]);
    for schedule in ["gpipe", "1f1b"] {
        for (lanes, width) in [("1", "1"), ("2", "1"), ("4", "2"), ("6", "1")] {
            let line = ["--lanes", lanes, "--width", width, "--workers", lanes, "--schedule", schedule];
            let found = digits(folder, &line);
            assert_eq!(found["model_digest"], alone["model_digest"], "{line:?}");
            assert_eq!(found["seeds"], alone["seeds"], "{line:?}");
            assert!(tasks(&found).iter().all(|tasks| *tasks > 0), "{line:?}: {found}");
        }
    }
    for line in
        [&["--lanes", "2", "--workers", "2"][..], &["--lanes", "3", "--workers", "3", "--chunks", "2"]]
    {
        let found = digits(folder, &[line, &["--schedule", "interleaved"]].concat());
        assert_eq!(found["model_digest"], alone["model_digest"], "interleaved {line:?}");
        assert!(tasks(&found).iter().all(|tasks| *tasks > 0), "{line:?}: {found}");
    }
    // The rule of two versions: that of threads.
    let threads = digits(folder, &["--lanes", "3", "--schedule", "2bw"]);
    let workers = digits(folder, &["--lanes", "3", "--workers", "3", "--schedule", "2bw"]);
    assert_eq!(workers["model_digest"], threads["model_digest"]);
    assert_ne!(threads["model_digest"], alone["model_digest"]);
}

#[test]
fn a_graphs_tasks_may_be_anybodys() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let cora = ["train", "cora", "--epochs", "5", "--no-out", "--json"];
    let linear = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-kernels/prebuilt/linear.wasm");
    std::fs::copy(linear, folder.join("own.wasm")).unwrap();
    // Kernels of the program, and one of the user's, whose component the workers have from the run.
    let own = ["--intervals", "4", "--kernel", "linear=own.wasm"];
    for model in [&["--intervals", "4"][..], &["--recipe", "gat"], &own] {
        let alone = summary(&works(folder, &[&cora[..], model].concat()));
        for rest in [&["--workers", "2"][..], &["--workers", "3", "--set", "workers.fail_at=[0,7,9]"]] {
            let found = summary(&works(folder, &[&cora[..], model, rest].concat()));
            assert_eq!(found["seeds"], alone["seeds"], "{model:?} {rest:?}");
            assert!(tasks(&found).iter().sum::<u64>() > 0, "{found}");
        }
    }
}

/// Returns the distance between the tasks at which a suite has workers fail: `usual`, or 1 if
/// `ECITON_EVERY_TASK` is set.
pub(crate) fn stride(usual: usize) -> usize {
    if std::env::var_os("ECITON_EVERY_TASK").is_some() { 1 } else { usual }
}

#[test]
fn whoever_vanishes_at_whichever_task_the_bits_are_those_of_a_run_without_losses() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let alone = digits(folder, &[]);
    let line = ["--lanes", "3", "--workers", "3"];
    let most = tasks(&digits(folder, &line)).into_iter().max().unwrap();
    assert!(most >= 16, "{most}");
    let (mut again, mut redundant) = (0, 0);
    let mut check = |vanish: [u64; 3], shadows: &str, losses: u64| {
        let vanish = format!("workers.fail_at={vanish:?}");
        let found = digits(folder, &[&line[..], &["--set", &vanish, "--set", shadows]].concat());
        assert_eq!(found["seeds"], alone["seeds"], "{vanish} {shadows}");
        assert_eq!(lost(&found), losses, "{vanish} {shadows}: {found}");
        again += found["workers"]["again"].as_u64().unwrap();
        redundant += found["workers"]["redundant"].as_u64().unwrap();
    };
    // One at every task of its own; neighbours at once; all but one.
    for at in (1..=most).step_by(stride(7)) {
        check([at, 0, 0], "workers.redundant=false", 1);
        check([0, at, 0], "workers.redundant=false", 1);
        check([0, 0, at], "workers.redundant=false", 1);
    }
    for at in (1..=most).step_by(stride(13)) {
        check([at, at, 0], "workers.redundant=false", 2);
        check([0, at, at + 1], "workers.redundant=true", 2);
        check([at + 1, 0, at], "workers.redundant=true", 2);
    }
    assert!(again > 0, "rows that went with a place were computed again");
    assert!(redundant > 0, "rows were computed in advance");
    // Lanes with several runs of stages.
    for (vanish, shadows) in [([0, 9, 0], "false"), ([17, 0, 0], "false"), ([0, 12, 13], "true")] {
        let vanish = format!("workers.fail_at={vanish:?}");
        let shadows = format!("workers.redundant={shadows}");
        let more = ["--schedule", "interleaved", "--set", &vanish, "--set", &shadows];
        let found = digits(folder, &[&line[..], &more].concat());
        assert_eq!(found["seeds"], alone["seeds"], "interleaved, {vanish} {shadows}");
        assert!(lost(&found) > 0, "interleaved, {vanish} {shadows}: {found}");
    }
    // Redundant computation alone is nothing that is done again.
    let found = digits(folder, &[&line[..], &["--set", "workers.redundant=true"]].concat());
    let counts = ["again", "redundant"].map(|key| found["workers"][key].as_u64().unwrap());
    assert!(counts[0] == 0 && counts[1] > 0, "{counts:?}");
}

/// Settings of a run whose workers others start.
pub(crate) const LISTENS: [&str; 4] =
    ["--set", "workers.listen=127.0.0.1:0", "--set", "workers.tokens=tokens"];

/// A run that listens, and its workers.
pub(crate) struct Cluster {
    run: Child,
    lines: BufReader<std::process::ChildStderr>,
    out: BufReader<std::process::ChildStdout>,
    /// The text read of `out` so far.
    told: String,
}

pub(crate) fn binary(folder: &Path, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
    command.env("ECITON_CACHE_DIR", cache).current_dir(folder).stdin(Stdio::null()).args(line);
    command
}

impl Cluster {
    /// Its address is told on standard error.
    pub(crate) fn start(folder: &Path, rest: &[&str]) -> (Self, String) {
        Self::spawn(folder, &[&DIGITS[..], &LISTENS, rest].concat())
    }

    fn spawn(folder: &Path, line: &[&str]) -> (Self, String) {
        Self::of(binary(folder, line))
    }

    /// Starts a command that is a run which listens. Returns the address as well.
    pub(crate) fn of(mut command: Command) -> (Self, String) {
        let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (lines, out) = (run.stderr.take().unwrap(), run.stdout.take().unwrap());
        let (lines, out) = (BufReader::new(lines), BufReader::new(out));
        let mut cluster = Self { run, lines, out, told: String::new() };
        let told = cluster.wait_for("listens at ");
        let address = told.split("listens at ").nth(1).unwrap().split([';', ' ', '\n']).next().unwrap();
        (cluster, address.to_owned())
    }

    pub(crate) fn wait_for(&mut self, words: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "{words} never came: {all}");
            if line.contains(words) {
                return line;
            }
            all += &line;
        }
    }

    pub(crate) fn wait_for_an_epoch(&mut self) {
        self.wait_for_epochs(1);
    }

    pub(crate) fn wait_for_epochs(&mut self, count: usize) {
        while self.told.matches("\"event\":\"epoch\"").count() < count {
            assert_ne!(self.out.read_line(&mut self.told).unwrap(), 0, "{count} epochs: {}", self.told);
        }
    }

    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (self.told, String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.lines.read_to_string(&mut err).unwrap();
        (self.run.wait().unwrap().code(), out, err)
    }
}

/// Starts a worker that ends with its first connection.
pub(crate) fn worker(folder: &Path, address: &str, token: &str, rest: &[&str]) -> Child {
    lasting(folder, address, token, &[&["--once"], rest].concat())
}

/// Starts a worker that connects again after its connection has ended.
pub(crate) fn lasting(folder: &Path, address: &str, token: &str, rest: &[&str]) -> Child {
    let token = PathBuf::from("tokens").join(token);
    let line = ["worker", "--connect", address, "--token-file", token.to_str().unwrap(), "--json"];
    let mut command = binary(folder, &[&line[..], rest].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}

#[test]
fn workers_that_others_start_come_go_and_are_replaced() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let epochs = ["--epochs", "8", "--lanes", "2"];
    let alone = summary(&works(folder, &[&DIGITS[..], &epochs].concat()));
    let (mut cluster, address) = Cluster::start(folder, &[&epochs[..], &["--workers", "2"]].concat());
    let first = worker(folder, &address, "worker-0.token", &["--fail-at", "9"]);
    let second = worker(folder, &address, "worker-1.token", &[]);
    cluster.wait_for("worker 0 was removed from the run");
    // A worker for the place that is free, and one that waits because its token has a place.
    let spare = worker(folder, &address, "worker-0.token", &[]);
    let waits = worker(folder, &address, "worker-1.token", &["--wait", "0"]);
    let (code, out, err) = cluster.end();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(summary(&out)["seeds"], alone["seeds"]);
    assert_eq!(ended(first).0, Some(0), "it vanished as it was told to");
    for child in [second, spare, waits] {
        let (code, told) = ended(child);
        assert!(code == Some(0) && told.contains("the run has ended"), "{told}");
    }
}

/// Workers stay while their host is killed and resumed, with the tokens that they have.
#[test]
fn workers_outlive_hosts_that_are_killed_and_spares_replace_workers() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let shape = ["train", "digits", "--layers", "6", "--batch", "600", "--micro", "4", "--json"];
    let line = [&shape[..], &["--epochs", "16", "--lanes", "2", "--set", "checkpoint.every=1"]].concat();
    let alone = summary(&works(folder, &[&line[..], &["--no-out"]].concat()));
    // A port that is free, because workers know only one address.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let listens = format!("workers.listen={address}");
    let over =
        ["--workers", "2", "--set", "workers.spares=2", "--set", "workers.tokens=tokens", "--set", &listens];
    let start = [&line[..], &over, &["--out", "run"]].concat();
    let (mut cluster, _) = Cluster::spawn(folder, &start);
    let tokens = ["worker-0.token", "worker-1.token", "worker-2.token", "worker-3.token"];
    let mut workers = tokens.map(|token| lasting(folder, &address, token, &["--wait", "60"]));
    for kill in 1..=number("ECITON_KILLS", 2) {
        cluster.wait_for_epochs(1 + kill as usize % 3);
        cluster.run.kill().unwrap();
        cluster.run.wait().unwrap();
        let resumes = folder.join("run.checkpoint").join("config.toml").exists();
        let line = if resumes { vec!["resume", "run", "--json"] } else { start.clone() };
        cluster = Cluster::spawn(folder, &line).0;
    }
    // A worker with a place fails, and one that waited replaces it.
    cluster.wait_for_epochs(1);
    workers[0].kill().unwrap();
    workers[0].wait().unwrap();
    let (code, out, err) = cluster.end();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(summary(&out)["seeds"][0]["model_digest"], alone["seeds"][0]["model_digest"]);
    for worker in workers.into_iter().skip(1) {
        let (code, told) = ended(worker);
        assert!(code == Some(0) && told.contains("the run has ended"), "{told}");
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn a_worker_that_is_told_to_go_ends_its_task_first() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let epochs = ["--epochs", "40", "--lanes", "2"];
    let alone = summary(&works(folder, &[&DIGITS[..], &epochs].concat()));
    let (mut cluster, address) = Cluster::start(folder, &[&epochs[..], &["--workers", "2"]].concat());
    let stays = worker(folder, &address, "worker-0.token", &[]);
    let goes = worker(folder, &address, "worker-1.token", &[]);
    cluster.wait_for_an_epoch();
    let id = goes.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let (code, told) = ended(goes);
    assert!(code == Some(0) && told.contains("the worker was asked to leave"), "{told}");
    let (code, out, err) = cluster.end();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(summary(&out)["seeds"], alone["seeds"]);
    // What was done once more is what its rows went with; no answer was lost.
    let (whole, left) = (digits_on(folder, &epochs), summary(&out));
    let again = left["workers"]["again"].as_u64().unwrap();
    let answered = |of: &Value| tasks(of).iter().sum::<u64>();
    assert_eq!(answered(&left), answered(&whole) + again, "{out}");
    assert_eq!(ended(stays).0, Some(0));
}

#[test]
fn tokens_of_a_killed_run_let_workers_into_its_resumption_and_into_further_runs() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let shape = ["train", "digits", "--layers", "6", "--batch", "600", "--micro", "4", "--json"];
    let line = [&shape[..], &["--epochs", "12", "--lanes", "2", "--set", "checkpoint.every=1"]].concat();
    let alone = summary(&works(folder, &[&line[..], &["--no-out"]].concat()));
    let over = [&line[..], &["--workers", "2"], &LISTENS].concat();
    let (mut cluster, address) = Cluster::spawn(folder, &[&over[..], &["--out", "run"]].concat());
    // The machines of the workers have copies.
    let elsewhere = place.path().join("elsewhere");
    std::fs::create_dir_all(elsewhere.join("tokens")).unwrap();
    for name in ["worker-0.token", "worker-1.token"] {
        std::fs::copy(folder.join("tokens").join(name), elsewhere.join("tokens").join(name)).unwrap();
    }
    let both = |address: &str| {
        ["worker-0.token", "worker-1.token"].map(|token| worker(&elsewhere, address, token, &[]))
    };
    let workers = both(&address);
    // The first epochs have a checkpoint by then.
    cluster.wait_for_epochs(4);
    cluster.run.kill().unwrap();
    cluster.run.wait().unwrap();
    workers.into_iter().for_each(|worker| drop(ended(worker)));
    let again = [&over[..], &["--no-out"]].concat();
    for line in [&["resume", "run", "--json"][..], &again] {
        let (cluster, address) = Cluster::spawn(folder, line);
        let workers = both(&address);
        let (code, out, err) = cluster.end();
        assert_eq!(code, Some(0), "{line:?}: {err}");
        assert_eq!(summary(&out)["seeds"], alone["seeds"], "{line:?}");
        workers.into_iter().for_each(|worker| assert_eq!(ended(worker).0, Some(0), "{line:?}"));
    }
}

/// A run and its workers compute in the run's class, whatever is usual for their processors.
#[test]
fn workers_compute_in_the_class_of_their_run() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let line = [&DIGITS[..], &["--epochs", "1", "--set", "run.numeric_class=portable-1"]].concat();
    let alone = summary(&works(folder, &line));
    for rest in [&["--workers", "2"][..], &["--lanes", "2", "--workers", "2"]] {
        let found = summary(&works(folder, &[&line[..], rest].concat()));
        assert_eq!(found["seeds"], alone["seeds"], "{rest:?}");
        assert!(tasks(&found).iter().all(|tasks| *tasks > 0), "{rest:?}: {found}");
    }
}

/// Every number of workers from 6 to 1 continues, with one replica of the pipeline and with two. With
/// none the run ends after `workers.wait_s`, and goes on from its last step.
#[test]
fn any_number_of_workers_may_remain() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let shape = &DIGITS[..8];
    let alone = digits(folder, &["--epochs", "2"]);
    for (width, task) in [("1", 20), ("2", 45)] {
        for remain in (0..=6).rev().step_by(stride(2)) {
            // Workers fail in the second or third of six updates.
            let fails = |at: u64| if at < remain { 0 } else { task + at / 2 };
            let fail_at = format!("workers.fail_at={:?}", (0..6).map(fails).collect::<Vec<_>>());
            let over = ["--epochs", "2", "--lanes", "6", "--width", width, "--workers", "6", "--json"];
            // All six connect within this time as well.
            let wait = if remain > 0 { "workers.wait_s=60" } else { "workers.wait_s=4" };
            let line = [shape, &over, &["--set", wait, "--set", &fail_at, "--out", "r"]].concat();
            let (code, out, err) = eciton(folder, &line);
            let ended = if remain > 0 {
                assert_eq!(code, Some(0), "{fail_at}: {err}");
                summary(&out)
            } else {
                assert_eq!(code, Some(75), "{err}");
                assert!(
                    err.contains("none has connected for 4 s") && err.contains("eciton resume r"),
                    "{err}"
                );
                let resumed = works(folder, &["resume", "r", "--workers", "0", "--json"]);
                // An update was made before, and is not repeated.
                let event = |line: &str| serde_json::from_str::<Value>(line).unwrap();
                let from = resumed.lines().map(event).find(|line| line["event"] == "resumed").unwrap();
                assert!(from["step"].as_u64().unwrap() > 0, "{from}");
                summary(&resumed)
            };
            assert_eq!(ended["model_digest"], alone["model_digest"], "{fail_at}, width {width}");
            std::fs::remove_dir_all(folder.join("r")).unwrap();
        }
    }
}

#[test]
fn a_run_without_its_workers_ends_in_words() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let fails = |rest: &[&str]| {
        let (code, _, err) = eciton(folder, &[&DIGITS[..], &["--epochs", "2"], rest].concat());
        assert!(code.is_some_and(|code| code > 0), "{rest:?}: {err}");
        err
    };
    let gone = ["--lanes", "2", "--workers", "2", "--set", "workers.wait_s=1"];
    let err = fails(&[&gone[..], &["--set", "workers.fail_at=[3,4]"]].concat());
    assert!(err.contains("all workers have failed, and none has connected for 1 s"), "{err}");
    let listens = ["--set", "workers.listen=127.0.0.1:0"];
    let err = fails(&[&gone[..], &listens, &["--set", "workers.tokens=t"]].concat());
    assert!(
        err.contains("0 of 2 workers are connected after 1 s") && err.contains("--token-file t/worker-0"),
        "{err}"
    );
    std::fs::write(folder.join("t/worker-0.token"), "").unwrap();
    let err = fails(&[&gone[..], &listens, &["--set", "workers.tokens=t"]].concat());
    assert!(err.contains("t/worker-0.token: it is not a token"), "{err}");
    for (line, words) in [
        (&["--workers", "2", "--lanes", "3"][..], "set workers.count to the number of lanes"),
        (&["--executor", "workers"], "set the number of workers"),
        (&["--workers", "2", "--set", "workers.listen=0.0.0.0:1"], "workers.tokens"),
        (&["--workers", "2", "--set", "workers.redundant=true"], "lanes.count"),
        (
            &[
                "--workers",
                "2",
                "--lanes",
                "2",
                "--set",
                "workers.listen=nowhere",
                "--set",
                "workers.tokens=u",
            ],
            "cannot listen at nowhere",
        ),
    ] {
        let err = fails(line);
        assert!(err.contains(words), "{line:?}: {err}");
    }
}

/// Bytes that workers keep, at most: as planned, and refused where they keep less.
#[test]
fn a_worker_keeps_what_was_planned_and_no_run_begins_where_it_cannot() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let shape =
        ["digits", "--layers", "6", "--hidden", "256", "--batch", "600", "--micro", "4", "--lanes", "2"];
    let plan: Value =
        serde_json::from_str(&works(folder, &[&["plan"], &shape[..], &["--json"]].concat())).unwrap();
    let planned: Vec<u64> = plan["lanes"]["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lane| lane["worker_bytes"].as_u64().unwrap())
        .collect();
    let line = [&["--hidden", "256", "--lanes", "2", "--workers", "2", "--epochs", "2"][..]].concat();
    let (cluster, address) = Cluster::start(folder, &line);
    let workers = [0, 1].map(|at| {
        let keep = planned[at].to_string();
        worker(folder, &address, &format!("worker-{at}.token"), &["--cache", &keep])
    });
    let (code, out, err) = cluster.end();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(lost(&summary(&out)), 0, "nothing was missing: {out}");
    for (child, planned) in workers.into_iter().zip(&planned) {
        let (_, told) = ended(child);
        let told: Value =
            serde_json::from_str(told.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
        let kept = told["kept_bytes"].as_u64().unwrap();
        // Small parameters travel with each task; rows of the widest part are planned.
        assert!(kept <= *planned && kept * 10 >= planned * 9, "{kept} of {planned}");
    }
    // A worker that takes the other's lane over has less room than both need: what it lets go of is made again.
    let alone = summary(&works(folder, &[&DIGITS[..], &["--hidden", "256", "--epochs", "2"]].concat()));
    let narrow = format!("workers.cache_bytes={}", planned[0] * 6 / 5);
    let lanes = ["--hidden", "256", "--epochs", "2", "--lanes", "2", "--workers", "2", "--set", &narrow];
    let (code, out, err) =
        eciton(folder, &[&DIGITS[..], &lanes, &["--set", "workers.fail_at=[0,5]"]].concat());
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(summary(&out)["seeds"], alone["seeds"]);
    assert!(err.contains("the cache of worker 0 had no space for rows"), "{err}");
    assert!(summary(&out)["workers"]["again"].as_u64().unwrap() > 0, "{out}");
    let little = (planned[0] - 1).to_string();
    let rest = ["--hidden", "256", "--epochs", "2", "--lanes", "2", "--workers", "2", "--set"];
    let keep = format!("workers.cache_bytes={little}");
    let (code, _, err) = eciton(folder, &[&DIGITS[..], &rest, &[&keep]].concat());
    assert!(code == Some(1) && err.contains(&format!("but the worker has {little};")), "{err}");
}

#[test]
fn a_worker_is_told_what_is_wrong() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    std::fs::create_dir(folder.join("tokens")).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.join("tokens").join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let wrong = write("wrong", "{}".to_owned());
    let (code, told) = ended(worker(folder, "127.0.0.1:1", "wrong", &[]));
    assert!(code == Some(1) && told.contains("tokens/wrong: it is not a token"), "{told}");
    std::fs::set_permissions(&wrong, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, told) = ended(worker(folder, "127.0.0.1:1", "wrong", &[]));
    assert!(code == Some(1) && told.contains("tokens/wrong: other users may access it (mode 644)"), "{told}");
    let (code, told) = ended(worker(folder, "127.0.0.1:1", "none", &[]));
    assert!(code == Some(1) && told.contains("tokens/none"), "{told}");
    let (mut cluster, address) = Cluster::start(folder, &["--epochs", "1", "--lanes", "1", "--workers", "1"]);
    let (code, told) = ended(worker(folder, "127.0.0.1:1", "worker-0.token", &["--wait", "0"]));
    assert!(code == Some(69) && told.contains("cannot connect to 127.0.0.1:1"), "{told}");
    let token = std::fs::read_to_string(folder.join("tokens/worker-0.token")).unwrap();
    let mut other: Value = serde_json::from_str(&token).unwrap();
    other["token"] = Value::from("0".repeat(64));
    write("forged", other.to_string());
    let (code, told) = ended(worker(folder, &address, "forged", &[]));
    assert!(code == Some(77) && told.contains("its token is not one of this run"), "{told}");
    other["certificate_sha256"] = Value::from("0".repeat(64));
    write("elsewhere", other.to_string());
    let (code, told) = ended(worker(folder, &address, "elsewhere", &[]));
    assert!(code == Some(1) && told.contains("not the certificate of the token's run"), "{told}");
    cluster.run.kill().unwrap();
    cluster.run.wait().unwrap();
}
