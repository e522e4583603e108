//! Audits: a worker whose answers are sometimes wrong by a bit, behind a right checksum.

use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use eciton_connect::{Message, Receiver, Sender};
use eciton_graph::random::SplitMix64;
use eciton_tensor::frame::{Decoded, Encoding, Frame, Writer};
use serde_json::Value;

use crate::common::works;
use crate::liars::stand_between;
use crate::workers::{Cluster, DIGITS, LISTENS, binary, ended, summary, worker};

/// Changes a bit of a value in some of the answers that pass.
struct Liar {
    random: SplitMix64,
    /// Number of the answer from which on some are wrong.
    first: u64,
    /// Answers between two wrong ones, on average.
    every: u64,
    answers: u64,
    lies: Arc<AtomicU64>,
}

impl Liar {
    /// Returns an answer, or one that differs from it in a bit.
    fn passes(&mut self, frame: Bytes) -> Bytes {
        self.answers += 1;
        if self.answers < self.first || self.random.below(self.every) > 0 {
            return frame;
        }
        let lie = self.lie(&frame);
        self.lies.fetch_add(u64::from(lie.is_some()), Ordering::Relaxed);
        lie.unwrap_or(frame)
    }

    fn lie(&mut self, frame: &[u8]) -> Option<Bytes> {
        let read = Frame::parse(frame).unwrap();
        let count = read.header().parts.len() as u32;
        let mut meta: Value = serde_json::from_slice(&read.header().meta).unwrap();
        let left = meta.get_mut("left").and_then(Value::as_array_mut);
        let stayed = left.as_ref().map_or(0, |left| left.len() as u64);
        let wrong = self.random.below(u64::from(count) + stayed) as u32;
        if let Some(digest) = left.and_then(|left| left.get_mut(wrong.checked_sub(count)? as usize)) {
            // What stays with the worker has a wrong bit.
            *digest = "0".repeat(64).into();
        }
        let mut writer = Writer::new(serde_json::to_vec(&meta).unwrap());
        for part in 0..count {
            let Decoded::Matrix(matrix) = read.part(part).unwrap() else { return None };
            let (rows, columns) = (matrix.rows(), matrix.columns());
            let mut values = Vec::new();
            matrix.read_rows(0, rows, None, &mut values).unwrap();
            if part == wrong {
                let at = self.random.below(values.len().max(1) as u64) as usize;
                // Of the fraction, so that no training ends with an infinite loss.
                let bit = 1 << self.random.below(23);
                values.get_mut(at).into_iter().for_each(|v| *v = f32::from_bits(v.to_bits() ^ bit));
            }
            let buffer = eciton_tensor::Buffer::from_rows(rows, columns, &values).unwrap();
            let changed = buffer.read(0..rows).unwrap().into();
            writer.matrix(&changed, Encoding::F32).unwrap();
            drop(changed);
        }
        Some(writer.finish().unwrap().into())
    }
}

async fn carry(mut from: Receiver, mut to: Sender, mut liar: Option<Liar>) {
    while let Ok((message, _)) = from.next().await {
        let message = match (message, &mut liar) {
            (Message::Answer { number, frame, passed }, Some(liar)) => {
                Message::Answer { number, frame: liar.passes(frame), passed }
            }
            (other, _) => other,
        };
        if to.send(&message).await.is_err() {
            return;
        }
    }
    to.close().await;
}

/// Stands between the run and the worker that it starts, whose answers it changes.
async fn between(folder: &Path, address: &str, liar: Liar, started: std::sync::mpsc::Sender<Child>) {
    let between = stand_between(folder, address, started).await;
    let ((receiver, sender), (heard, told)) = (between.run, between.worker);
    tokio::join!(carry(receiver, told, None), carry(heard, sender, Some(liar)));
}

/// Result of a run with a liar.
struct Outcome {
    summary: Value,
    err: String,
    lies: u64,
}

/// Trains over two workers, of which the first one is wrong in one of `every` answers.
fn run(rest: &[&str], (every, seed): (u64, u64)) -> Outcome {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_owned();
    let (cluster, address) = Cluster::start(&folder, &[rest, &["--workers", "2"]].concat());
    let lies = Arc::new(AtomicU64::new(0));
    let liar = Liar { random: SplitMix64::new(seed), first: 1, every, answers: 0, lies: lies.clone() };
    let (started, child) = std::sync::mpsc::channel();
    let (of, at) = (folder.clone(), address.clone());
    let proxy = runtime.spawn(async move { between(&of, &at, liar, started).await });
    let honest = worker(&folder, &address, "worker-1.token", &[]);
    let (code, out, err) = cluster.end();
    assert_eq!(code, Some(0), "{err}");
    ended(child.recv().unwrap());
    assert_eq!(ended(honest).0, Some(0), "{err}");
    proxy.abort();
    Outcome { summary: summary(&out), err, lies: lies.load(Ordering::Relaxed) }
}

/// The processes that an audit excluded.
fn excluded(summary: &Value) -> Vec<&str> {
    let all = summary["audit"]["excluded"].as_array().unwrap();
    all.iter().map(|one| one["process"].as_str().unwrap()).collect()
}

#[test]
fn a_worker_with_wrong_bits_is_found_and_the_digest_is_the_honest_one() {
    let place = tempfile::tempdir().unwrap();
    let epochs = ["--epochs", "3"];
    let alone = summary(&works(place.path(), &[&DIGITS[..], &epochs].concat()));
    let found = |rest: &[&str]| {
        let outcome = run(&[&epochs[..], rest].concat(), (4, 3));
        assert!(outcome.lies > 0, "{}", outcome.err);
        assert_eq!(excluded(&outcome.summary), ["worker 0"], "{}", outcome.err);
        outcome
    };
    // All answers are compared, so that nothing is in doubt.
    let Outcome { summary: all, err, .. } = found(&["--audit", "1"]);
    assert_eq!((&all["seeds"], &all["audit"]["returns"]), (&alone["seeds"], &0.into()), "{err}");
    // The answer that the wrong worker was computing when it was excluded is not compared.
    let count = |key: &str| all["audit"][key].as_u64().unwrap();
    assert!((0..=1).contains(&(count("answers") - count("compared"))), "{err}");
    // Half of them are, and the run starts again.
    let Outcome { summary: half, err, .. } = found(&["--audit", "0.5"]);
    assert_eq!((&half["seeds"], &half["audit"]["returns"]), (&alone["seeds"], &1.into()), "{err}");
    assert!(err.contains("the run rolls back to epoch 0"), "{err}");
    // It goes on with what is in doubt, and its result says so.
    let Outcome { summary: kept, err, .. } =
        found(&["--audit", "0.5", "--set", "executor.keep_doubtful=true"]);
    assert_eq!((&kept["audit"]["unverified"], &kept["audit"]["returns"]), (&true.into(), &0.into()), "{err}");
}

/// Answers of lanes are compared with their rows and sums that stay with the worker.
#[test]
fn a_worker_of_a_lane_with_wrong_bits_is_found() {
    let place = tempfile::tempdir().unwrap();
    let epochs = ["--epochs", "3"];
    let alone = summary(&works(place.path(), &[&DIGITS[..], &epochs].concat()));
    // Of nine updates nearly all are drawn, so that a lie is among these.
    for (schedule, audit, returns) in [("1f1b", "1", 0), ("1f1b", "0.9", 1), ("gpipe", "1", 0)] {
        let rest = ["--lanes", "2", "--schedule", schedule, "--audit", audit];
        let Outcome { summary, err, lies } = run(&[&epochs[..], &rest].concat(), (4, 3));
        assert!(lies > 0, "{err}");
        assert_eq!(excluded(&summary), ["worker 0"], "{err}");
        assert_eq!(
            (&summary["seeds"], &summary["audit"]["returns"]),
            (&alone["seeds"], &returns.into()),
            "{err}"
        );
        if audit == "1" {
            assert_eq!(summary["audit"]["answers"], summary["audit"]["compared"]);
        }
    }
}

/// A worker that comes late and is wrong later, of two seeds in the second one.
#[test]
fn a_run_goes_back_to_the_checkpoint_before_the_first_answer_of_a_wrong_worker() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_owned();
    let base = ["train", "digits", "--layers", "6", "--batch", "600", "--micro", "4", "--json"];
    let base = [&base[..], &["--epochs", "20", "--seeds", "2"]].concat();
    let alone = summary(&works(&folder, &[&base[..], &["--out", "alone"]].concat()));
    let saved = ["--out", "run", "--set", "checkpoint.every=1", "--set", "checkpoint.keep=100"];
    let over = [&LISTENS[..], &["--workers", "2", "--audit", "0.5"]].concat();
    let (mut cluster, address) = Cluster::of(binary(&folder, &[&base[..], &saved, &over].concat()));
    let mut first = worker(&folder, &address, "worker-0.token", &[]);
    let honest = worker(&folder, &address, "worker-1.token", &[]);
    cluster.wait_for_epochs(4);
    first.kill().unwrap();
    first.wait().unwrap();
    let lies = Arc::new(AtomicU64::new(0));
    // An epoch has about 70 answers of this worker.
    let liar = Liar { random: SplitMix64::new(5), first: 1500, every: 3, answers: 0, lies: lies.clone() };
    let (started, child) = std::sync::mpsc::channel();
    let (of, at) = (folder.clone(), address.clone());
    let proxy = runtime.spawn(async move { between(&of, &at, liar, started).await });
    let (code, out, err) = cluster.end();
    proxy.abort();
    assert_eq!(code, Some(0), "{err}");
    ended(child.recv().unwrap());
    assert_eq!(ended(honest).0, Some(0), "{err}");
    let found = summary(&out);
    assert_eq!(excluded(&found), ["worker 0"], "{err}");
    let since = &found["audit"]["excluded"][0]["since"];
    let (seed, epoch) = (since[0].as_u64().unwrap(), since[1].as_u64().unwrap());
    println!("in doubt since epoch {epoch} of seed {seed}: {}", found["audit"]);
    assert!(seed == 0 && epoch > 4, "{err}");
    assert_eq!(found["audit"]["excluded"][0]["rounds"][0][0], 1, "the other seed");
    assert!(err.contains(&format!("rolls back to epoch {} of seed 0", epoch - 1)), "{err}");
    let digests = |summary: &Value| {
        let seeds = summary["seeds"].as_array().unwrap();
        seeds.iter().map(|seed| seed["model_digest"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(digests(&found), digests(&alone), "{err}");
    // The records are those of the run without the worker.
    let losses = |run: &str| {
        let text = std::fs::read_to_string(folder.join(run).join("metrics.jsonl")).unwrap();
        let of = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            (line["seed"].as_u64(), line["epoch"].as_u64(), line["loss"].to_string())
        };
        text.lines().map(of).collect::<Vec<_>>()
    };
    assert_eq!(losses("run"), losses("alone"));
    assert!(!folder.join("run.checkpoint").exists(), "the run has finished");
}

#[test]
fn honest_workers_stay_and_an_audit_without_tasks_to_compare_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (folder, epochs) = (place.path(), ["--epochs", "2"]);
    let alone = summary(&works(folder, &[&DIGITS[..], &epochs].concat()));
    let line = [&DIGITS[..], &epochs, &["--workers", "2", "--audit", "0.3"]].concat();
    let audited = summary(&works(folder, &line));
    assert_eq!(audited["seeds"], alone["seeds"]);
    assert_eq!(excluded(&audited), Vec::<&str>::new());
    let count = |key: &str| audited["audit"][key].as_u64().unwrap();
    assert!(count("compared") > 0 && count("compared") < count("answers"), "{audited}");
    for more in [
        &["--lanes", "2", "--audit", "1"][..],
        &["--lanes", "2", "--schedule", "interleaved", "--audit", "1"],
    ] {
        let lanes = summary(&works(folder, &[&DIGITS[..], &epochs, &["--workers", "2"], more].concat()));
        assert_eq!(lanes["seeds"], alone["seeds"]);
        assert_eq!(excluded(&lanes), Vec::<&str>::new());
        assert_eq!(lanes["audit"]["answers"], lanes["audit"]["compared"]);
    }
    for (rest, words) in [
        (&["--audit", "0.1"][..], "executor.kind"),
        (
            &["--audit", "0.1", "--workers", "2", "--lanes", "2", "--schedule", "2bw"],
            "one version of the weights",
        ),
        (
            &["--audit", "0.1", "--workers", "2", "--lanes", "2", "--set", "workers.owner=worker"],
            "recompute the tasks of lanes",
        ),
        (&["--audit", "1.5", "--workers", "2"], "a number from 0 to 1"),
    ] {
        let (code, _, err) = crate::common::eciton(folder, &[&DIGITS[..], rest].concat());
        assert!(code == Some(2) && err.contains(words), "{rest:?}: {code:?} {err}");
    }
    let recorded = ["--audit", "0.1", "--workers", "2", "--record-events", "events.jsonl"];
    let (code, _, err) = crate::common::eciton(folder, &[&DIGITS[..], &recorded].concat());
    assert!(code == Some(1) && err.contains("cannot roll back"), "{code:?} {err}");
}

/// A short run. The campaign: `ECITON_AUDIT_RUNS=50 ECITON_AUDIT_EPOCHS=200`, over lanes with
/// `ECITON_AUDIT_LANES=2`.
#[test]
fn an_audit_of_a_tenth_finds_a_worker_that_is_seldom_wrong() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (runs, seed) = (number("ECITON_AUDIT_RUNS").unwrap_or(1), number("ECITON_SEED").unwrap_or(1));
    let epochs = std::env::var("ECITON_AUDIT_EPOCHS").unwrap_or_else(|_| "4".to_owned());
    let place = tempfile::tempdir().unwrap();
    let epochs = ["--epochs", &epochs];
    let alone = summary(&works(place.path(), &[&DIGITS[..], &epochs].concat()));
    let lanes = std::env::var("ECITON_AUDIT_LANES").ok();
    let lanes = lanes.iter().flat_map(|count| ["--lanes", count]).collect::<Vec<_>>();
    let rest = [&epochs[..], &["--audit", "0.1"], &lanes].concat();
    let (mut named, mut wrong) = (0, 0);
    for seed in seed..seed + runs {
        let Outcome { summary, lies, err } = run(&rest, (200, seed));
        let (who, honest) = (excluded(&summary), summary["seeds"] == alone["seeds"]);
        let audit = &summary["audit"];
        println!("seed {seed}: {lies} lies, excluded {who:?}, honest digest {honest}, {audit}");
        assert!(who.iter().all(|process| *process == "worker 0"), "{err}");
        assert!(honest || who.is_empty(), "{err}");
        named += u64::from(!who.is_empty());
        wrong += u64::from(!honest);
    }
    println!("{named} of {runs} liars are named; {wrong} runs end with another digest");
    assert!(runs < 20 || 10 * named >= 9 * runs, "{named} of {runs}");
}
