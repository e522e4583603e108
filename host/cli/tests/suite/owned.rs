//! Weights that workers own: the bits of a run whose host has them, whoever vanishes and when.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{eciton, works};
use crate::workers::{Cluster, DIGITS, LISTENS, binary, ended, lost, stride, summary, tasks, worker};

const OWNED: [&str; 2] = ["--set", "workers.owner=worker"];
const REPLICAS: [&str; 2] = ["--set", "workers.replicas=1"];

fn digits(folder: &Path, rest: &[&str]) -> Value {
    summary(&works(folder, &[&DIGITS[..], &["--epochs", "2"], rest].concat()))
}

fn over(lanes: &str) -> Vec<&str> {
    [&OWNED[..], &["--lanes", lanes, "--workers", lanes]].concat()
}

#[test]
fn whoever_owns_the_weights_the_bits_are_the_same() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let shapes: [(&str, &[&str]); 10] = [
        ("1", &["--schedule", "1f1b"]),
        ("2", &["--schedule", "gpipe"]),
        ("3", &["--schedule", "1f1b"]),
        ("6", &["--schedule", "1f1b"]),
        ("3", &["--schedule", "interleaved"]),
        ("3", &REPLICAS),
        ("3", &["--set", "lanes.recompute=[0,1,2]"]),
        ("4", &["--width", "2"]),
        ("4", &["--width", "4"]),
        ("6", &["--width", "2"]),
    ];
    let settings: [&[&str]; 5] = [
        &[],
        &["optimiser.clip_norm=0.01"],
        &["optimiser.kind=sgd", "optimiser.momentum=0.9", "optimiser.clip_value=0.001"],
        &["optimiser.kind=adamw", "optimiser.weight_decay=0.1", "optimiser.clip_norm=0.02"],
        &["optimiser.freeze=[1,4]"],
    ];
    for (at, settings) in settings.into_iter().enumerate() {
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", *setting]).collect();
        let alone = digits(folder, &settings);
        // Every other shape: those with an even number, or those with an odd one.
        let step = stride(2);
        for (lanes, shape) in shapes.into_iter().skip(at % step).step_by(step) {
            let found = digits(folder, &[&settings[..], &over(lanes), shape].concat());
            assert_eq!(found["seeds"], alone["seeds"], "{settings:?} on {lanes}, {shape:?}");
            assert_eq!((&found["workers"]["returns"], lost(&found)), (&Value::from(0), 0), "{shape:?}");
        }
    }
}

/// Several replicas of a pipeline have the same weights, so the failure of one loses no update.
#[test]
fn replicas_of_a_pipeline_own_the_weights() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let all = |found: &Value| tasks(found).into_iter().sum::<u64>();
    let line = [&over("4")[..], &["--width", "2", "--set", "workers.snapshot_every=1000"]].concat();
    for schedule in ["1f1b", "2bw"] {
        let run = |rest: &[&str]| {
            let line = [&DIGITS[..], &["--epochs", "6", "--schedule", schedule], rest].concat();
            summary(&works(folder, &line))
        };
        let (alone, smooth) = (run(&["--lanes", "1"]), run(&line));
        assert_eq!(smooth["seeds"], alone["seeds"], "{schedule}");
        let (mut cheap, mut returns) = (0, 0);
        for (vanish, losses) in [
            ("[0,100,0,0]", 1),
            ("[103,0,0,0]", 1),
            ("[0,0,0,107]", 1),
            ("[0,0,111,0]", 1),
            ("[0,98,0,125]", 2),
            ("[100,101,0,0]", 2),
        ] {
            let set = format!("workers.fail_at={vanish}");
            let found = run(&[&line[..], &["--set", &set]].concat());
            assert_eq!(found["seeds"], alone["seeds"], "{schedule} {vanish}");
            assert_eq!(lost(&found), losses, "{schedule} {vanish}: {found}");
            // The work of a round or two, in place of all updates.
            cheap += u64::from(all(&found) < all(&smooth) + 120);
            returns += found["workers"]["returns"].as_u64().unwrap();
        }
        assert!(cheap >= 4 && returns >= 6, "{schedule}: {cheap} of 6 were cheap, {returns} returns");
    }
}

/// Two versions of the weights, as PipeDream-2BW's workers have them: the rule's bits, and after losses as well.
#[test]
fn workers_own_both_versions_of_2bw() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let two = ["--schedule", "2bw"];
    for settings in [&[][..], &["optimiser.kind=sgd", "optimiser.momentum=0.9", "optimiser.clip_norm=0.5"]] {
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", *setting]).collect();
        let one = digits(folder, &settings);
        let settings = [&settings[..], &two].concat();
        let alone = digits(folder, &[&settings[..], &["--lanes", "1"]].concat());
        assert_ne!(alone["seeds"], one["seeds"]);
        for lanes in ["1", "2", "3"] {
            let found = digits(folder, &[&settings[..], &over(lanes)].concat());
            assert_eq!(found["seeds"], alone["seeds"], "{settings:?} on {lanes}");
        }
        let mut returns = 0;
        for (vanish, every) in [("[0,30,0]", "1"), ("[24,0,0]", "2"), ("[0,41,41]", "3"), ("[0,0,55]", "16")]
        {
            let (vanish, every) =
                (format!("workers.fail_at={vanish}"), format!("workers.snapshot_every={every}"));
            let line = [&settings[..], &over("3"), &["--set", &vanish, "--set", &every]].concat();
            let found = digits(folder, &line);
            assert_eq!(found["seeds"], alone["seeds"], "{settings:?} {vanish} {every}");
            returns += found["workers"]["returns"].as_u64().unwrap();
        }
        assert!(returns > 0, "what went with a place was in the log");
    }
}

/// A weight that the first and the last lane read: one owns it, the other has a copy.
#[test]
fn lanes_may_have_a_weight_in_common() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    std::fs::write(folder.join("text.txt"), "In the beginning was the word. ".repeat(40)).unwrap();
    let line = [
        "train",
        "text.txt",
        "--recipe",
        "char-lm",
        "--epochs",
        "2",
        "--micro",
        "4",
        "--json",
        "--no-out",
        "--set",
        "batch.rows=256",
    ];
    let train = |rest: &[&str]| summary(&works(folder, &[&line[..], rest].concat()));
    let alone = train(&[]);
    // What is told of classes beside these is not kept where scores are folded.
    let told = |of: &Value| ["model_digest", "loss", "metrics"].map(|key| of["seeds"][0][key].clone());
    for lanes in ["2", "4"] {
        assert_eq!(told(&train(&over(lanes))), told(&alone), "{lanes}");
    }
    // The copy's place is lost, or the owner's: the lanes of both are one's. The first instructions give matrices away.
    let mut returns = 0;
    for vanish in ["[0,20]", "[0,130]", "[130,0]"] {
        let vanish = format!("workers.fail_at={vanish}");
        let found = train(&[&over("2")[..], &["--set", &vanish]].concat());
        assert_eq!(told(&found), told(&alone), "{vanish}");
        returns += found["workers"]["returns"].as_u64().unwrap();
    }
    assert!(returns > 0, "one was lost while it trained");
}

#[test]
fn a_run_folder_has_what_workers_owned() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let line = ["train", "digits", "--layers", "4", "--batch", "600", "--micro", "4", "--epochs", "2"];
    works(folder, &[&line[..], &["--out", "alone", "--embeddings"]].concat());
    works(folder, &[&line[..], &over("2"), &["--out", "over", "--embeddings"]].concat());
    for file in ["model.safetensors", "predictions.npz"] {
        let read = |run: &str| std::fs::read(folder.join(run).join(file)).unwrap();
        assert!(read("alone") == read("over"), "{file}");
    }
    works(folder, &["eval", "over"]);
}

/// A run that is killed, twice, goes on from its checkpoint, which is the log's entry.
#[test]
fn a_killed_run_goes_on_to_the_same_bits() {
    killed_and_resumed(&["--schedule", "1f1b"]);
}

#[test]
fn a_killed_run_of_two_versions_goes_on_to_the_same_bits() {
    killed_and_resumed(&["--schedule", "2bw", "--set", "optimiser.kind=sgd"]);
}

fn killed_and_resumed(settings: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let line =
        ["digits", "--layers", "4", "--batch", "512", "--micro", "4", "--epochs", "16", "--seeds", "2"];
    let line = [&["train"], &line[..], &["--json", "--set", "checkpoint.every=1"], settings].concat();
    let alone = summary(&works(folder, &[&line[..], &["--lanes", "1", "--out", "alone"]].concat()));
    let losses = ["--set", "workers.snapshot_every=5", "--set", "workers.fail_at=[0,90]"];
    let mut next = [&line[..], &over("2"), &losses, &["--out", "over"]].concat();
    let mut kills = 0;
    for (seed, epoch) in [(0, 3), (1, 2)] {
        let mut child = binary(folder, &next).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let is_there = |line: &String| {
            let told: Value = serde_json::from_str(line).unwrap();
            told["event"] == "epoch" && told["seed"] == seed && told["epoch"].as_u64() >= Some(epoch)
        };
        assert!(lines.any(|line| is_there(&line)), "seed {seed}, epoch {epoch}");
        child.kill().unwrap();
        child.wait().unwrap();
        kills += u32::from(!folder.join("over").exists());
        next = vec!["resume", "over", "--json"];
    }
    assert_eq!(kills, 2, "it had not ended");
    let found = summary(&works(folder, &next));
    assert_eq!(found["seeds"], alone["seeds"]);
    for file in ["model.safetensors", "predictions.npz", "seed-1/model.safetensors", "seed-1/predictions.npz"]
    {
        let read = |run: &str| std::fs::read(folder.join(run).join(file)).unwrap();
        assert!(read("alone") == read("over"), "{file}");
    }
    let losses = |run: &str| -> Vec<String> {
        let metrics = std::fs::read_to_string(folder.join(run).join("metrics.jsonl")).unwrap();
        let lines = metrics.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|e| format!("{} {} {}", e["seed"], e["epoch"], e["loss"])).collect()
    };
    assert_eq!(losses("over"), losses("alone"));
}

#[test]
fn whoever_vanishes_with_what_it_owned_the_bits_are_those_of_a_run_without_losses() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let alone = digits(folder, &[]);
    let most = tasks(&digits(folder, &over("3"))).into_iter().max().unwrap();
    assert!(most >= 16, "{most}");
    let mut returns = 0;
    let mut check = |vanish: [u64; 3], every: u32, losses: u64| {
        let (vanish, every) =
            (format!("workers.fail_at={vanish:?}"), format!("workers.snapshot_every={every}"));
        let found = digits(folder, &[&over("3")[..], &["--set", &vanish, "--set", &every]].concat());
        assert_eq!(found["seeds"], alone["seeds"], "{vanish} {every}");
        assert_eq!(lost(&found), losses, "{vanish} {every}: {found}");
        returns += found["workers"]["returns"].as_u64().unwrap();
    };
    // One at a task or an instruction of its own; neighbours at once; all but one.
    for at in (1..=most).step_by(stride(9)) {
        check([0, at, 0], 1 + at as u32 % 3, 1);
    }
    for at in (1..=most).step_by(stride(19)) {
        check([at, 0, 0], 2, 1);
        check([0, 0, at + 1], 1, 1);
        check([at, at, 0], 3, 2);
        check([0, at, at + 3], 1, 2);
    }
    assert!(returns > 0, "what went with a place was in the log");
}

/// With replicas a loss costs the round that is under way, but for one amid an update, and for neighbours.
#[test]
fn replicas_lose_no_update() {
    lose_no_update("1f1b", 60);
}

#[test]
fn replicas_of_two_versions_lose_no_update() {
    lose_no_update("2bw", 90);
}

fn lose_no_update(schedule: &str, most: u64) {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let all = |found: &Value| tasks(found).into_iter().sum::<u64>();
    let settings = ["--schedule", schedule, "--set", "workers.snapshot_every=1000"];
    let run = |rest: &[&str]| {
        let line = [&DIGITS[..], &["--epochs", "6"], &over("3"), &settings, rest].concat();
        summary(&works(folder, &line))
    };
    let (alone, smooth) = (run(&[]), run(&REPLICAS));
    assert_eq!(smooth["seeds"], alone["seeds"]);
    let (mut cheap, mut returns) = (0, 0);
    for (vanish, losses) in [
        ("[0,100,0]", 1),
        ("[0,103,0]", 1),
        ("[107,0,0]", 1),
        ("[0,0,105]", 1),
        ("[0,98,125]", 2),
        ("[100,100,0]", 2),
        ("[90,0,110]", 2),
    ] {
        let set = format!("workers.fail_at={vanish}");
        let found = run(&[&REPLICAS[..], &["--set", &set]].concat());
        assert_eq!(found["seeds"], alone["seeds"], "{schedule} {vanish}");
        assert_eq!(lost(&found), losses, "{schedule} {vanish}: {found}");
        cheap += u64::from(all(&found) < all(&smooth) + most);
        returns += found["workers"]["returns"].as_u64().unwrap();
    }
    assert!(cheap >= 3 && returns >= 7, "{schedule}: {cheap} of 7 cost a round, {returns} returns");
    // Of three lanes one has a replica: its loss costs a round but amid an update, that of another always goes
    // back to the log.
    let some = ["--set", "workers.replicas=[0,1,0]"];
    let least = |places: [&str; 3]| {
        let one = |vanish: &str| {
            let found = run(&[&some[..], &["--set", &format!("workers.fail_at={vanish}")]].concat());
            assert_eq!((&found["seeds"], lost(&found)), (&alone["seeds"], 1), "{schedule} {vanish}");
            all(&found)
        };
        places.map(one).into_iter().min().unwrap()
    };
    let cheap = least(["[0,100,0]", "[0,103,0]", "[0,107,0]"]);
    let dear = least(["[0,0,100]", "[0,0,103]", "[0,0,107]"]);
    assert!(cheap < dear, "{schedule}: {cheap} and {dear}");
    // Of three, two at once.
    let both = ["[0,110,110]", "[0,113,113]", "[0,117,117]"].map(|vanish| {
        let vanish = format!("workers.fail_at={vanish}");
        let found = run(&["--set", "workers.replicas=2", "--set", &vanish]);
        assert_eq!((&found["seeds"], lost(&found)), (&alone["seeds"], 2), "{schedule} {vanish}");
        all(&found)
    });
    assert!(both.iter().any(|&tasks| tasks < all(&smooth) + 2 * most), "{schedule}: {both:?}");
}

/// One that comes later gets its lanes, and what it is to own, when the log has an entry.
#[test]
fn a_spare_owns_what_the_lost_one_did() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let epochs = ["--epochs", "12"];
    let alone = summary(&works(folder, &[&DIGITS[..], &epochs].concat()));
    let line = [&epochs[..], &over("2"), &["--set", "workers.snapshot_every=2"]].concat();
    let (mut cluster, address) = Cluster::start(folder, &line);
    let first = worker(folder, &address, "worker-0.token", &["--fail-at", "40"]);
    let second = worker(folder, &address, "worker-1.token", &[]);
    cluster.wait_for("worker 0 was removed from the run");
    let spare = worker(folder, &address, "worker-0.token", &[]);
    let (code, out, err) = cluster.end();
    assert_eq!(code, Some(0), "{err}");
    let found = summary(&out);
    assert_eq!(found["seeds"], alone["seeds"]);
    for child in [first, second, spare] {
        assert_eq!(ended(child).0, Some(0));
    }
    assert!(found["workers"]["returns"].as_u64().unwrap() >= 1, "{found}");
}

/// Gradients stay where they are made, and weights where they are read.
#[test]
fn what_workers_own_does_not_travel() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let bytes = |rest: &[&str]| {
        let line = ["--hidden", "256", "--eval-every", "0", "--lanes", "2", "--workers", "2"];
        let of = |epochs: &str| {
            let found = summary(&works(folder, &[&DIGITS[..], &line, &["--epochs", epochs], rest].concat()));
            let places = found["workers"]["places"].as_array().unwrap();
            let both =
                |place: &Value| place["bytes_in"].as_u64().unwrap() + place["bytes_out"].as_u64().unwrap();
            places.iter().map(both).sum::<u64>()
        };
        // What epochs add, beside kernels, the first weights and the log at the end.
        of("6") - of("2")
    };
    let (host, owned) =
        (bytes(&[]), bytes(&[&OWNED[..], &["--set", "workers.snapshot_every=1000"]].concat()));
    assert!(owned * 4 < host, "{owned} of {host} bytes");
}

/// An update moves the bytes that its plan says, over every connection.
#[test]
fn an_update_moves_the_bytes_of_the_plan() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    // 1,200 rows train: two whole updates an epoch.
    let made = ["data", "generate", "linear", "made", "--rows", "2000", "--features", "40"];
    works(folder, &made);
    let model =
        ["made", "--model", "mlp", "--layers", "6", "--hidden", "72", "--batch", "600", "--micro", "4"];
    for (lanes, rest) in [
        ("2", &[][..]),
        ("3", &["--schedule", "gpipe"]),
        ("4", &["--width", "2"]),
        ("2", &OWNED),
        ("3", &[&OWNED[..], &REPLICAS].concat()),
        ("3", &[&OWNED[..], &["--set", "workers.replicas=[0,2,1]", "--schedule", "2bw"]].concat()),
        ("4", &[&OWNED[..], &["--width", "2"]].concat()),
        ("4", &[&OWNED[..], &["--width", "4", "--schedule", "2bw"]].concat()),
    ] {
        let line = [&model[..], &["--lanes", lanes, "--workers", lanes], rest].concat();
        let plan: Value =
            serde_json::from_str(&works(folder, &[&["plan"], &line[..], &["--json"]].concat())).unwrap();
        let moved = |epochs: &str| {
            let run = ["--epochs", epochs, "--eval-every", "0", "--no-out", "--json"];
            let found = summary(&works(folder, &[&["train"], &line[..], &run].concat()));
            let places = found["workers"]["places"].as_array().unwrap().clone();
            let of = |place: &Value| {
                ["values_out", "values_in", "values_passed"].map(|key| place[key].as_u64().unwrap())
            };
            places.iter().map(of).collect::<Vec<_>>()
        };
        let (few, many) = (moved("2"), moved("4"));
        let planned = plan["lanes"]["lanes"].as_array().unwrap();
        for (at, (few, many)) in few.iter().zip(&many).enumerate() {
            let update = &planned[at % planned.len()]["update"];
            let planned = ["from_host", "to_host", "to_workers"].map(|key| update[key].as_u64().unwrap());
            let measured = [0, 1, 2].map(|way| (many[way] - few[way]) / 4);
            assert_eq!(measured, planned, "lane {at} of {lanes}, {rest:?}");
        }
    }
}

#[test]
fn what_does_not_go_with_owners_is_refused_in_words() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let four = ["--lanes", "4", "--workers", "4"];
    for (rest, words) in [
        (&["--workers", "2"][..], "set the number of lanes"),
        (&[&four[..], &["--width", "2"], &REPLICAS].concat(), "remove workers.replicas"),
        (&[&four[..], &["--set", "workers.redundant=true"]].concat(), "remove workers.redundant"),
        (&[&four[..], &["--set", "run.keep=best"]].concat(), "run.keep = \"last\""),
        (&[&four[..], &REPLICAS, &["--set", "workers.owner=host"]].concat(), "the host already has all"),
        (&[&four[..], &["--set", "workers.replicas=[1,2]"]].concat(), "one number per lane"),
        (&[&four[..], &["--set", "workers.snapshot_every=0"]].concat(), "1 to"),
        (
            &[&four[..], &["--set", "workers.cache_bytes=1048576", "--hidden", "512"]].concat(),
            "the lane of worker",
        ),
    ] {
        let line = [&DIGITS[..], &["--epochs", "1"], &OWNED, rest].concat();
        let (code, _, err) = eciton(folder, &line);
        assert!(code.is_some_and(|code| code > 0) && err.contains(words), "{rest:?}: {err}");
    }
}

/// Memory of the host's group: less than the host would need if it had the weights.
const GROUP_BYTES: u64 = 240 << 20;

/// A host whose workers own the weights trains in a control group that has no room for these.
#[test]
fn a_host_without_weights_trains_with_little_memory() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let model = ["--hidden", "1024", "--lanes", "2", "--workers", "2", "--threads", "8", "--epochs", "1"];
    let group = Path::new("/sys/fs/cgroup/memory").join(format!("eciton-test-{}", std::process::id()));
    let limit = group.join("memory.limit_in_bytes");
    let made = std::fs::create_dir(&group).and_then(|()| std::fs::write(&limit, GROUP_BYTES.to_string()));
    if let Err(error) = made {
        eprintln!("skipped: a control group of version 1 takes root and {}: {error}", limit.display());
        drop(std::fs::remove_dir(&group));
        return;
    }
    let grouped = |rest: &[&str]| {
        let line = [&DIGITS[..], &LISTENS, &model, rest].concat();
        let inner = binary(folder, &line);
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\"/tasks && exec \"$@\""]).arg(&group);
        command.arg(inner.get_program()).args(inner.get_args()).current_dir(folder).stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
    };
    // The host has the weights: it is refused, with the figures.
    let refused = grouped(&[]).output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    let (cluster, address) = Cluster::of(grouped(&OWNED));
    let workers = [0, 1].map(|at| worker(folder, &address, &format!("worker-{at}.token"), &[]));
    let (code, out, err) = cluster.end();
    let peak = std::fs::read_to_string(group.join("memory.max_usage_in_bytes")).unwrap();
    std::fs::remove_dir(&group).unwrap();
    assert!(refused.status.code() == Some(1) && text.contains("memory"), "{text}");
    assert_eq!(code, Some(0), "{err}");
    println!("the group used {} of {GROUP_BYTES} bytes", peak.trim());
    workers.into_iter().for_each(|worker| assert_eq!(ended(worker).0, Some(0)));
    let alone = summary(&works(folder, &[&DIGITS[..], &["--hidden", "1024", "--epochs", "1"]].concat()));
    assert_eq!(summary(&out)["seeds"], alone["seeds"]);
}
