//! Runs that are killed, at any moment, and go on: the real binary and SIGKILL.
//!
//! Moments are drawn from a seed that is printed (`ECITON_KILL_SEED` sets it). A moment is something
//! that is seen of the process from outside, a number of checkpoints or a file of the run's end, and
//! a number of looks after it; nothing sleeps for a fixed time.
#![cfg(unix)]
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use eciton_graph::random::SplitMix64;
use serde_json::Value;
use tempfile::TempDir;

/// Processes that are killed.
const KILLS: u32 = 20;
/// When a process that shows nothing is given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What every run here is: three seeds, a checkpoint every other epoch, all that a checkpoint can hold.
pub(super) const LINE: &[&str] = &[
    "train",
    "graph",
    "--json",
    "--epochs",
    "70",
    "--seeds",
    "3",
    "--patience",
    "20",
    "--set",
    "run.keep=best",
    "--set",
    "optimiser.schedule=cosine",
    "--set",
    "optimiser.clip_norm=0.05",
    "--set",
    "checkpoint.every=2",
];

pub(super) fn eciton(folder: &Path, line: &[&str]) -> Command {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
    let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
    command.args(line).current_dir(folder).stdin(Stdio::null()).env("ECITON_CACHE_DIR", cache);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(super) fn run(folder: &Path, line: &[&str]) -> Output {
    eciton(folder, line).output().unwrap()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs what must work; its lines of JSON.
pub(super) fn works(folder: &Path, line: &[&str]) -> Vec<Value> {
    let ran = run(folder, line);
    assert_eq!(ran.status.code(), Some(0), "{line:?}\n{}", text(&ran.stderr));
    text(&ran.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Runs what must be refused; what it says.
pub(super) fn fails(folder: &Path, line: &[&str]) -> String {
    let ran = run(folder, line);
    assert_eq!(ran.status.code(), Some(1), "{line:?}\n{}", text(&ran.stdout));
    text(&ran.stderr)
}

pub(super) fn scene() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    works(
        dir.path(),
        &["data", "generate", "block-model", "graph", "--vertices", "300", "--edges", "1500", "--json"],
    );
    dir
}

pub(super) fn digests(summary: &Value) -> Vec<String> {
    assert_eq!(summary["event"], "summary", "{summary}");
    let seeds = summary["seeds"].as_array().unwrap().iter();
    seeds.map(|seed| seed["model_digest"].as_str().unwrap().to_owned()).collect()
}

/// (place of the seed in the run, epoch) of the newest checkpoint.
pub(super) fn newest(folder: &Path) -> Option<(u64, u64)> {
    let names = std::fs::read_dir(folder.join("r.checkpoint")).ok()?;
    let epochs = names.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let (seed, epoch) = name.strip_suffix(".safetensors")?.split_once("epoch-")?;
        let epoch = epoch.split('-').next()?;
        let seed =
            seed.strip_prefix("seed-").map_or(Some(0), |seed| seed.trim_end_matches('-').parse().ok())?;
        Some((seed, epoch.parse().ok()?))
    });
    epochs.max()
}

/// The unfinished run folder of a process that is at work.
pub(super) fn partial(folder: &Path) -> Option<PathBuf> {
    let names = std::fs::read_dir(folder).ok()?;
    let paths = names.filter_map(|entry| Some(entry.ok()?.path()));
    paths.into_iter().find(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(".r.partial-")))
}

/// What a process is killed after.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// Its start.
    Start,
    /// So many checkpoints of its own.
    Checkpoints(u64),
    /// It is writing a checkpoint.
    Writing,
    /// All but the move of the run folder is done, or nearly.
    Summary,
    /// The run folder is in its place.
    Published,
}

impl Moment {
    fn draw(random: &mut SplitMix64) -> Self {
        match random.below(10) {
            0 => Self::Start,
            1 => Self::Writing,
            2 => Self::Summary,
            3 => Self::Published,
            _ => Self::Checkpoints(1 + random.below(25)),
        }
    }

    fn is_there(self, folder: &Path, seen: u64) -> bool {
        match self {
            Self::Start => true,
            Self::Checkpoints(wanted) => seen >= wanted,
            Self::Writing => std::fs::read_dir(folder.join("r.checkpoint")).is_ok_and(|mut names| {
                names.any(|e| {
                    e.is_ok_and(|e| e.file_name().to_string_lossy().ends_with(".safetensors.partial"))
                })
            }),
            Self::Summary => partial(folder).is_some_and(|partial| partial.join("summary.json").exists()),
            Self::Published => folder.join("r").exists(),
        }
    }
}

/// Waits for the moment and kills the process; `false` if it ended before that.
fn kill(child: &mut Child, folder: &Path, moment: Moment, looks: u64) -> bool {
    let (begun, mut seen, mut last) = (Instant::now(), 0, newest(folder));
    while !moment.is_there(folder, seen) {
        let now = newest(folder);
        if now != last {
            (last, seen) = (now, seen + 1);
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(begun.elapsed() < PATIENCE, "{moment:?} does not come");
        std::thread::yield_now();
    }
    // A part of an epoch more: looking takes some microseconds.
    for _ in 0..looks {
        let _ = newest(folder);
    }
    let alive = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    alive
}

#[test]
fn a_run_that_is_killed_twenty_times_ends_as_if_it_had_not_been() {
    let seed =
        std::env::var("ECITON_KILL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
        });
    println!("ECITON_KILL_SEED={seed}");
    let mut random = SplitMix64::new(seed);
    let dir = scene();
    let folder = dir.path();
    let unbroken = works(folder, &[LINE, &["--out", "unbroken"]].concat());
    let wanted = digests(unbroken.last().unwrap());
    assert_eq!(wanted.len(), 3);
    let early = |seed: &Value| seed["stopped_early"] == 20 && seed["kept_epoch"].is_u64();
    assert!(unbroken.last().unwrap()["seeds"].as_array().unwrap().iter().all(early), "they stop early");
    let files = |run: &str| {
        let read = |file: &str| std::fs::read(folder.join(run).join(file)).unwrap();
        ["config.toml", "versions.json", "model.safetensors", "predictions.npz", "seed-2/model.safetensors"]
            .map(read)
    };
    // (seed, epoch, loss), which tells that every epoch is there once.
    let curve = |run: &str| -> Vec<(u64, u64, String)> {
        let metrics = std::fs::read_to_string(folder.join(run).join("metrics.jsonl")).unwrap();
        let lines = metrics.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .map(|e| (e["seed"].as_u64().unwrap(), e["epoch"].as_u64().unwrap(), e["loss"].to_string()))
            .collect()
    };

    let (mut kills, mut runs, mut went_on) = (0, 0, 0);
    while kills < KILLS {
        runs += 1;
        let mut resumes = 0;
        loop {
            let before = newest(folder);
            let goes_on = before.is_some() || folder.join("r").exists();
            let line = if goes_on { vec!["resume", "r", "--json"] } else { [LINE, &["--out", "r"]].concat() };
            let mut child =
                eciton(folder, &line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let moment = Moment::draw(&mut random);
            let looks = random.below(400);
            if kills < KILLS && kill(&mut child, folder, moment, looks) {
                kills += 1;
                resumes += u32::from(goes_on);
                // Nothing that was written down is lost.
                let (before, after) = (before.unwrap_or_default(), newest(folder).unwrap_or_default());
                assert!(
                    after >= before || folder.join("r").exists(),
                    "{moment:?}: {before:?}, then {after:?}"
                );
                println!("{kills}: {} killed at {moment:?} + {looks}, {before:?} to {after:?}", line[0]);
            } else {
                let ended = child.wait().unwrap();
                assert!(ended.success() || ended.code().is_none(), "{line:?}: {ended}");
            }
            if folder.join("r").exists() || kills >= KILLS {
                break;
            }
        }
        went_on += resumes;
        // To the end: a checkpoint is never found damaged after a kill.
        let before = newest(folder);
        let line = match before {
            None if !folder.join("r").exists() => [LINE, &["--out", "r"]].concat(),
            _ => vec!["resume", "r", "--json"],
        };
        let published = folder.join("r").exists();
        let lines = works(folder, &line);
        if let Some((nth, epoch)) = before.filter(|_| !published) {
            let resumed = lines.iter().find(|line| line["event"] == "resumed").unwrap();
            assert_eq!(
                (resumed["seed"].as_u64(), resumed["epoch"].as_u64()),
                (Some(nth), Some(epoch)),
                "{resumed}"
            );
            assert_eq!(resumed["damaged"], Value::Array(Vec::new()), "{resumed}");
        }
        assert_eq!(digests(lines.last().unwrap()), wanted, "run {runs}");
        assert_eq!((files("r"), curve("r")), (files("unbroken"), curve("unbroken")), "run {runs}");
        let mut left: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["graph", "r", "unbroken"], "nothing is left of {runs} runs and {kills} kills");
        std::fs::remove_dir_all(folder.join("r")).unwrap();
    }
    println!("{runs} runs, {kills} kills, {went_on} of them while a run went on");
    assert!(went_on >= KILLS / 4);
}

/// Starts a run that takes longer than any test, and waits for its first checkpoint.
pub(super) fn under_way(folder: &Path) -> Child {
    let line = ["train", "graph", "--epochs", "100000000", "--set", "checkpoint.every=5", "--out", "r"];
    let child = eciton(folder, &line).stdout(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while newest(folder).is_none() {
        assert!(begun.elapsed() < PATIENCE, "no checkpoint comes");
        std::thread::yield_now();
    }
    child
}

/// Rows of earlier epochs are not kept: the first epoch after is synchronous, whatever the bound; then
/// rows are old again, and the run gets as far as an unbroken one.
#[test]
fn an_asynchronous_run_that_is_killed_goes_on_synchronously_at_first() {
    let dir = scene();
    let folder = dir.path();
    // Some hundred epochs: it is alive after a few checkpoints.
    let line = [
        "train",
        "graph",
        "--json",
        "--epochs",
        "400",
        "--mode",
        "async",
        "--staleness",
        "2",
        "--intervals",
        "8",
        "--threads",
        "1",
        "--set",
        "checkpoint.every=10",
    ];
    let unbroken = works(folder, &[&line[..], &["--out", "unbroken"]].concat());
    let accuracy = |lines: &[Value]| lines.last().unwrap()["test_metric"].as_f64().unwrap();
    let (mut killed, mut rest) = (false, None);
    for looks in 0..20 {
        std::fs::remove_dir_all(folder.join("r")).ok();
        std::fs::remove_dir_all(folder.join("r.checkpoint")).ok();
        let mut child = eciton(folder, &[&line[..], &["--out", "r"]].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        killed = kill(&mut child, folder, Moment::Checkpoints(3), looks);
        if killed && !folder.join("r").exists() {
            let (_, epoch) = newest(folder).unwrap();
            let trace = folder.join("trace.json");
            let lines = works(folder, &["resume", "r", "--json", "--trace", "trace.json"]);
            rest = Some((epoch, lines, std::fs::read_to_string(trace).unwrap()));
            break;
        }
        child.wait().unwrap();
    }
    assert!(killed, "twenty runs ended before they could be killed");
    let (epoch, lines, trace) = rest.unwrap();
    let resumed = lines.iter().find(|line| line["event"] == "resumed").unwrap();
    assert_eq!(resumed["epoch"].as_u64(), Some(epoch));
    let epochs: Vec<u64> = lines
        .iter()
        .filter(|line| line["event"] == "epoch")
        .filter_map(|line| line["epoch"].as_u64())
        .collect();
    assert_eq!(epochs, (epoch + 1..=400).collect::<Vec<_>>());
    let trace: Vec<Value> = serde_json::from_str(&trace).unwrap();
    let oldest = |of: u64| {
        let gathers = trace.iter().filter(move |e| e["args"]["epoch"] == of && e["cat"] == "step");
        gathers.filter_map(|e| e["args"]["oldest_rows_epochs"].as_u64()).max()
    };
    assert_eq!(oldest(epoch + 1), None, "nothing older was there to read");
    assert!((epoch + 2..=400).any(|epoch| oldest(epoch) >= Some(1)), "rows are old again");
    assert!(lines.last().unwrap()["rows_by_age"]["shares"].as_array().unwrap().len() <= 4);
    let (found, wanted) = (accuracy(&lines), accuracy(&unbroken));
    assert!((found - wanted).abs() < 0.1 && found > 0.6, "{found} after a kill, {wanted} without");
}

#[test]
fn a_second_process_is_refused_and_a_dead_one_is_not_in_the_way() {
    let dir = scene();
    let folder = dir.path();
    let mut child = under_way(folder);
    for line in [&["resume", "r"][..], &["train", "graph", "--out", "r"]] {
        let error = fails(folder, line);
        assert!(error.contains("another process is working on this run"), "{error}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // It is not thrown away by the way; both ways on are named.
    let error = fails(folder, &["train", "graph", "--out", "r"]);
    assert!(error.contains("`eciton resume r`") && error.contains("rm -r r.checkpoint"), "{error}");
    // What was asked for cannot be finished here: it goes on, and is stopped as one stops a run.
    let mut child = eciton(folder, &["resume", "r", "--json"]).spawn().unwrap();
    let (begun, before) = (Instant::now(), newest(folder));
    while newest(folder) <= before {
        assert!(begun.elapsed() < PATIENCE, "no further checkpoint comes");
        std::thread::yield_now();
    }
    let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let mut out = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let summary: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(summary["stopped"], true);
    assert!(folder.join("r/summary.json").exists() && newest(folder).is_some());
    // Without its checkpoints it has nothing to go on from.
    std::fs::remove_dir_all(folder.join("r.checkpoint")).unwrap();
    let error = fails(folder, &["resume", "r"]);
    assert!(error.contains("the run was stopped, and r.checkpoint is missing"), "{error}");
}

/// Starts a run and sends it both signals at once; its exit code.
fn quit(folder: &Path, settings: &str, checkpoints: bool) -> Option<i32> {
    let line = ["train", "graph", "--json", "--epochs", "100000000", "--set", settings, "--out", "r"];
    let mut child = eciton(folder, &line).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let begun = Instant::now();
    lines.next().unwrap().unwrap();
    while checkpoints && newest(folder).is_none() {
        assert!(begun.elapsed() < PATIENCE, "no checkpoint comes");
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    let both = format!("kill -STOP {pid}; kill -INT {pid}; kill -TERM {pid}; kill -CONT {pid}");
    assert!(Command::new("sh").args(["-c", &both]).status().unwrap().success());
    drop(lines);
    child.wait().unwrap().code()
}

#[test]
fn quitting_at_once_leaves_only_checkpoints() {
    let dir = scene();
    let folder = dir.path();
    for (settings, left) in
        [("checkpoint.seconds=0", vec!["graph"]), ("checkpoint.every=3", vec!["graph", "r.checkpoint"])]
    {
        // The first signal is obeyed at the end of an epoch, which may come before the second is heard.
        let quit_at_once = (0..20).any(|_| {
            let code = quit(folder, settings, left.len() > 1);
            let ended = folder.join("r").exists();
            assert!(matches!(code, Some(130 | 143)), "{code:?}");
            if ended {
                std::fs::remove_dir_all(folder.join("r")).unwrap();
                std::fs::remove_dir_all(folder.join("r.checkpoint")).ok();
            }
            !ended
        });
        assert!(quit_at_once, "twenty runs ended before the second signal was heard");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, left);
    }
}

#[test]
fn a_run_of_batches_that_is_killed_goes_on() {
    let dir = scene();
    let folder = dir.path();
    let batches = ["--sampler", "neighbours", "--batch", "16", "--micro", "2", "--epochs", "60"];
    let line = |out| {
        let start = ["train", "graph", "--json", "--set", "checkpoint.every=1", "--out", out];
        [&start[..], &batches].concat()
    };
    let wanted = digests(works(folder, &line("unbroken")).last().unwrap());
    let mut kills = 0;
    for checkpoints in [1, 3, 2] {
        let goes_on = newest(folder).is_some();
        let line = if goes_on { vec!["resume", "r", "--json"] } else { line("r") };
        let mut child = eciton(folder, &line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        kills += u32::from(kill(&mut child, folder, Moment::Checkpoints(checkpoints), 0));
        if folder.join("r").exists() {
            break;
        }
    }
    println!("{kills} kills");
    assert!(kills > 0);
    assert_eq!(digests(works(folder, &["resume", "r", "--json"]).last().unwrap()), wanted);
}

#[test]
fn a_language_model_on_lanes_that_is_killed_goes_on_to_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    std::fs::write(folder.join("rose.txt"), "a rose is a rose is a rose. ".repeat(30)).unwrap();
    let line = [
        "train",
        "rose.txt",
        "--recipe",
        "char-lm",
        "--sequence",
        "16",
        "--batch",
        "512",
        "--micro",
        "4",
        "--lanes",
        "2",
        "--schedule",
        "1f1b",
        "--epochs",
        "5",
        "--json",
        "--set",
        "checkpoint.every=1",
    ];
    let unbroken = works(folder, &[&line[..], &["--out", "unbroken"]].concat());
    let mut child = eciton(folder, &[&line[..], &["--out", "r"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(kill(&mut child, folder, Moment::Checkpoints(2), 0), "it ended before its second checkpoint");
    let resumed = works(folder, &["resume", "r", "--json"]);
    assert!(resumed.iter().any(|line| line["event"] == "resumed"), "{resumed:?}");
    assert_eq!(digests(resumed.last().unwrap()), digests(unbroken.last().unwrap()));
}

/// Both versions of the weights are in the checkpoint: the first update after it reads the one before the last, as it
/// would have.
#[test]
fn two_buffered_weights_go_on_to_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let line =
        ["train", "digits", "--json", "--layers", "4", "--batch", "512", "--micro", "4", "--lanes", "2"];
    let line = [&line[..], &["--schedule", "2bw", "--epochs", "80", "--set", "checkpoint.every=1"]].concat();
    let of = |lines: &[Value]| {
        let epochs = lines.iter().filter(|line| line["loss"].is_f64() && line["epoch"].is_u64());
        let losses: Vec<_> = epochs.map(|line| (line["epoch"].clone(), line["loss"].clone())).collect();
        (losses, lines.last().unwrap()["model_digest"].clone())
    };
    let (losses, digest) = of(&works(folder, &[&line[..], &["--out", "whole"]].concat()));
    for epochs in [3, 40] {
        let out = format!("broken-{epochs}");
        crate::common::killed_after(folder, &[&line[..], &["--out", &out]].concat(), epochs);
        let (rest, found) = of(&works(folder, &["resume", &out, "--json"]));
        assert_eq!(found, digest, "killed after {epochs} epochs");
        assert!(!rest.is_empty() && losses.ends_with(&rest), "{rest:?}\n{losses:?}");
    }
}
