//! Results pinned to their inputs: changed data, exchanged folders and flipped bits are refused or reported.
//!
//! `ECITON_FLIPS=200` flips that number of bits for each kind of folder; the suite flips fewer.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{eciton, works};
use serde_json::Value;

/// Bits that are flipped for each kind of folder.
const FLIPS: u64 = 12;

fn flips() -> u64 {
    std::env::var("ECITON_FLIPS").map_or(FLIPS, |count| count.parse().unwrap())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => files(&path, found),
            false if path.metadata().unwrap().len() > 0 => found.push(path),
            false => {}
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// A small data set of words, as a folder of tables. `first` is the first feature.
fn tables(folder: &Path, first: &str, last_label: &str) {
    fs::create_dir_all(folder).unwrap();
    let (mut edges, mut features, mut labels) =
        ("source,target\n".to_owned(), "id,x,y\n".to_owned(), "id,class\n".to_owned());
    for v in 0..40u32 {
        edges += &format!("v{v},v{}\nv{v},v{}\n", (v + 1) % 40, (v * 7 + 3) % 40);
        let x = if v == 0 { first.to_owned() } else { format!("0.{}", (v * 37) % 100 + 1) };
        features += &format!("v{v},{x},{}\n", v % 5);
        let label = if v == 39 { last_label } else { ["ant", "bee"][v as usize % 2] };
        labels += &format!("v{v},{label}\n");
    }
    for (name, text) in [("edges.csv", edges), ("features.csv", features), ("labels.csv", labels)] {
        fs::write(folder.join(name), text).unwrap();
    }
}

/// The last line of a command's output.
fn last(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// Flips one bit of one file of `original` after the other, in a copy, and calls `run` with the copy, which
/// returns a result or nothing. Every result must be the expected one, and some flips must be refused.
fn flip(original: &Path, work: &Path, expected: &str, run: impl Fn() -> Option<String>) {
    let seed = 20_261_127;
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut names = Vec::new();
    files(original, &mut names);
    let mut refused = 0;
    for flip in 0..flips() {
        let _ = fs::remove_dir_all(work);
        copy(original, work);
        let name = names[random.below(names.len() as u64) as usize].strip_prefix(original).unwrap();
        let mut bytes = fs::read(work.join(name)).unwrap();
        let (at, bit) = (random.below(bytes.len() as u64) as usize, random.below(8));
        bytes[at] ^= 1 << bit;
        fs::write(work.join(name), bytes).unwrap();
        match run() {
            None => refused += 1,
            Some(found) => {
                let place = name.display();
                assert_eq!(found, expected, "flip {flip}: bit {bit} of byte {at} of {place} was accepted");
            }
        }
    }
    assert!(refused > 0, "no flip was refused");
}

#[test]
fn a_flipped_bit_of_a_store_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    tables(&folder.join("tables"), "0.5", "ant");
    works(folder, &["data", "convert", "tables", "original"]);
    let line = ["train", "store", "--epochs", "2", "--no-out", "--json"];
    let digest = |out: &str| last(out)["model_digest"].to_string();
    let of_original = ["train", "original", "--epochs", "2", "--no-out", "--json"];
    let expected = digest(&works(folder, &of_original));
    let work = folder.join("store");
    flip(&folder.join("original"), &work, &expected, || {
        let (code, out, _) = eciton(folder, &line);
        (code == Some(0)).then(|| digest(&out))
    });
}

/// A run with checkpoints of epochs 4 and 8 whose folder was removed, so that it can go on.
fn broken_off(folder: &Path, data: &str) -> String {
    let run = ["train", data, "--epochs", "10", "--out", "run", "--json"];
    let set = ["--set", "checkpoint.every=4", "--set", "checkpoint.keep_after=true"];
    let out = works(folder, &[&run[..], &set].concat());
    fs::remove_dir_all(folder.join("run")).unwrap();
    last(&out)["model_digest"].to_string()
}

#[test]
fn a_flipped_bit_of_a_checkpoint_is_refused_or_passed_over() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    tables(&folder.join("tables"), "0.5", "ant");
    let expected = broken_off(folder, "tables");
    fs::rename(folder.join("run.checkpoint"), folder.join("original")).unwrap();
    flip(&folder.join("original"), &folder.join("run.checkpoint"), &expected, || {
        let _ = fs::remove_dir_all(folder.join("run"));
        let (code, out, _) = eciton(folder, &["resume", "run", "--json"]);
        (code == Some(0)).then(|| last(&out)["model_digest"].to_string())
    });
}

const SWEEP: &str = "recipe = \"base.toml\"\n[grid]\n\"model.hidden\" = [4, 8]\n";

fn sweep(folder: &Path) -> (Option<i32>, String, String) {
    eciton(folder, &["sweep", "tries.toml", "--out", "tries", "--workers", "1", "--json"])
}

/// A finished sweep of two trials.
fn swept(folder: &Path) -> String {
    tables(&folder.join("tables"), "0.5", "ant");
    fs::write(folder.join("base.toml"), "[data]\nsource = \"tables\"\n[run]\nepochs = 3\n").unwrap();
    fs::write(folder.join("tries.toml"), SWEEP).unwrap();
    let (code, out, err) = sweep(folder);
    assert_eq!(code, Some(0), "{err}");
    out
}

/// Metrics and digest of each trial.
fn table(out: &str) -> String {
    let row = |row: &Value| format!("{} {} {}", row["val_metric"], row["test_metric"], row["model_digest"]);
    last(out)["rows"].as_array().unwrap().iter().map(row).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_flipped_bit_of_a_trial_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let expected = table(&swept(folder));
    fs::rename(folder.join("tries"), folder.join("original")).unwrap();
    flip(&folder.join("original"), &folder.join("tries"), &expected, || {
        let (code, out, _) = sweep(folder);
        (code == Some(0)).then(|| table(&out))
    });
}

#[test]
fn trials_that_were_exchanged_or_are_of_other_data_are_refused_with_their_settings() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let expected = table(&swept(folder));
    let trial = |name: &str| folder.join("tries/trials").join(name);
    let exchange = || {
        fs::rename(trial("00000"), trial("x")).unwrap();
        fs::rename(trial("00001"), trial("00000")).unwrap();
        fs::rename(trial("x"), trial("00001")).unwrap();
    };
    exchange();
    let (code, out, _) = sweep(folder);
    assert_eq!(code, Some(1));
    let error = last(&out)["rows"][0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("model.hidden is 8 in the run, but 4 in the settings"), "{error}");
    exchange();
    let (code, out, err) = sweep(folder);
    assert_eq!((code, table(&out)), (Some(0), expected.clone()), "{err}");

    // The checkpoints of another model.
    tables(&folder.join("tables"), "0.5", "ant");
    broken_off(folder, "tables");
    fs::remove_dir_all(trial("00000")).unwrap();
    fs::rename(folder.join("run.checkpoint"), trial("00000.checkpoint")).unwrap();
    let (code, out, _) = sweep(folder);
    assert_eq!(code, Some(1));
    let error = last(&out)["rows"][0]["error"].as_str().unwrap().to_owned();
    assert!(
        error.contains("this run does not belong to the trial") && error.contains("run.epochs"),
        "{error}"
    );
    fs::remove_dir_all(trial("00000.checkpoint")).unwrap();
    let (code, out, err) = sweep(folder);
    assert_eq!((code, table(&out)), (Some(0), expected), "{err}");

    // Another label.
    tables(&folder.join("tables"), "0.5", "bee");
    let (code, out, _) = sweep(folder);
    assert_eq!(code, Some(1));
    let error = last(&out)["rows"][1]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("the digest of the data's labels was"), "{error}");
}

#[test]
fn resume_names_the_part_of_the_data_that_changed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let convert = |first: &str| {
        tables(&folder.join("tables"), first, "ant");
        let _ = fs::remove_dir_all(folder.join("store"));
        works(folder, &["data", "convert", "tables", "store"]);
    };
    convert("0.5");
    let expected = broken_off(folder, "store");
    convert("0.75");
    let (code, _, err) = eciton(folder, &["resume", "run"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("the digest of the data's features was") && err.contains("--force"), "{err}");
    assert!(!err.contains("graph"), "{err}");
    convert("0.5");
    assert_eq!(last(&works(folder, &["resume", "run", "--json"]))["model_digest"].to_string(), expected);

    // A run names its data, whichever way that was read, and its machine.
    let shown = works(folder, &["runs", "show", "run"]);
    let of_store = last(&works(folder, &["runs", "show", "run", "--json"]))["provenance"].clone();
    assert!(shown.contains(of_store["data"]["all"].as_str().unwrap()), "{shown}");
    let line = ["train", "tables", "--epochs", "1", "--out", "other", "--json"];
    let of_tables = last(&works(folder, &line))["provenance"].clone();
    assert_eq!(of_tables["data"], of_store["data"]);
    assert_ne!(of_tables["recipe"], of_store["recipe"]);
    assert!(of_store["machine"]["cores"].as_u64() > Some(0), "{of_store}");

    // Its own data, changed, is no error for who only looks at it.
    convert("0.75");
    let (code, _, err) = eciton(folder, &["eval", "run"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(
        err.contains("is not the data that the model was trained on: the digest of the data's features"),
        "{err}"
    );
    let (_, _, err) = eciton(folder, &["eval", "run", "tables"]);
    assert!(!err.contains("is not the data"), "{err}");
}

#[test]
fn results_of_a_run_that_were_changed_are_refused_with_the_name_of_the_file() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    tables(&folder.join("tables"), "0.5", "ant");
    works(folder, &["train", "tables", "--epochs", "4", "--seeds", "2", "--out", "run"]);
    let commands: [&[&str]; 3] =
        [&["report", "run"], &["runs", "show", "run"], &["runs", "compare", "run", "run"]];
    commands.iter().for_each(|line| drop(works(folder, line)));
    for name in ["metrics.jsonl", "predictions.npz", "seed-1/predictions.npz"] {
        let path = folder.join("run").join(name);
        let before = fs::read(&path).unwrap();
        let mut bytes = before.clone();
        *bytes.iter_mut().rfind(|byte| byte.is_ascii_digit()).unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        for line in commands {
            let (code, _, err) = eciton(folder, line);
            let told =
                err.contains(name) && err.contains("has the digest") && err.contains("summary.json records");
            assert!(code == Some(1) && told, "{line:?}, {name}: {err}");
        }
        fs::write(&path, before).unwrap();
    }
    // A file that was removed is not read.
    fs::remove_file(folder.join("run/predictions.npz")).unwrap();
    works(folder, &["runs", "show", "run"]);
}

#[test]
fn labels_and_split_that_changed_are_reported_where_the_data_is_the_runs_own() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    tables(&folder.join("tables"), "0.5", "ant");
    let train = ["train", "tables", "--epochs", "4", "--out", "run", "--set"];
    works(folder, &[&train[..], &["data.split=[0.6,0.2,0.2]"]].concat());
    let lines: [&[&str]; 4] =
        [&["eval", "run"], &["predict", "run"], &["eval", "run", "tables"], &["predict", "run", "tables"]];
    for line in lines {
        let (code, _, err) = eciton(folder, line);
        assert!(code == Some(0) && !err.contains("is not the data"), "{line:?}: {err}");
    }
    tables(&folder.join("tables"), "0.5", "bee");
    for line in lines {
        let (code, _, err) = eciton(folder, line);
        let told = err.contains("is not the data") && err.contains("the digest of the data's labels was");
        assert!(code == Some(0) && told, "{line:?}: {err}");
    }
}

/// Trains on a store, calls `change` after 20 epochs, and returns exit code and errors at the run's end.
fn changed_while_training(epochs: &str, change: impl Fn(&Path)) -> (Option<i32>, String) {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    tables(&folder.join("tables"), "0.5", "ant");
    works(folder, &["data", "convert", "tables", "store"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
    // Scaled features would be a copy in memory.
    let mapped = ["--set", "data.normalise_features=none"];
    command
        .args(["train", "store", "--epochs", epochs, "--no-out", "--json"])
        .args(mapped)
        .current_dir(folder);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.by_ref().take(20).for_each(|line| drop(line.unwrap()));
    change(&folder.join("store"));
    lines.for_each(|line| drop(line.unwrap()));
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_store_that_changes_during_a_run_ends_it_with_the_name_of_the_file() {
    let flip = |path: &Path| {
        let modified = path.metadata().unwrap().modified().unwrap();
        let mut bytes = fs::read(path).unwrap();
        bytes[0] ^= 1;
        // In place: the file stays the one that is mapped.
        let mut file = File::options().write(true).open(path).unwrap();
        file.write_all(&bytes).unwrap();
        (file, modified)
    };
    let shorten = |store: &Path| drop(File::create(store.join("features.f32")).unwrap());
    let (code, err) = changed_while_training("30000", shorten);
    assert!(code == Some(1) && err.contains("features.f32") && err.contains("do not change data"), "{err}");
    let (code, err) = changed_while_training("30000", |store| drop(flip(&store.join("features.f32"))));
    assert!(code == Some(1) && err.contains("features.f32") && err.contains("do not change data"), "{err}");
    // Without a trace in the file's times, the checksum at the end finds it.
    let hidden = |store: &Path| {
        let (file, modified) = flip(&store.join("features.f32"));
        file.set_modified(modified).unwrap();
    };
    let (code, err) = changed_while_training("3000", hidden);
    assert!(code == Some(1) && err.contains("features.f32: the"), "{err}");
}
