//! Sweeps: the same weights as single runs, every trial once whatever kills the sweep, and failures that stay alone.

use std::path::Path;
use std::time::SystemTime;

use crate::common::{eciton, killed_after, works};
use serde_json::Value;

fn write(folder: &Path, text: &str) {
    std::fs::write(folder.join("tries.toml"), text).unwrap();
}

/// The last line of a sweep's output.
fn results(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// Number, settings, state and digest of each trial.
fn table(results: &Value) -> Vec<(u64, String, String)> {
    let row = |row: &Value| {
        let digest = row["model_digest"].as_str().unwrap_or_default();
        (row["trial"].as_u64().unwrap(), row["choice"].to_string(), digest.to_owned())
    };
    results["rows"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_trial_has_the_weights_of_a_run_of_its_own() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    write(folder, "recipe = \"cora/gcn\"\nseeds = 2\n[grid]\n\"model.hidden\" = [8, 16]\n");
    let found = results(&works(folder, &["sweep", "tries.toml", "--set", "run.epochs=10", "--json"]));
    assert_eq!((&found["trials"], &found["done"], &found["failed"]), (&4.into(), &4.into(), &0.into()));
    let alone =
        ["train", "cora", "--recipe", "gcn", "--hidden", "16", "--seed", "1", "--epochs", "10", "--json"];
    let alone = results(&works(folder, &[&alone[..], &["--out", "alone"]].concat()));
    assert_eq!(table(&found)[3].2, alone["model_digest"].as_str().unwrap());
    let predicted = works(folder, &["predict", "sweeps/tries/trials/00003"]);
    assert_eq!(predicted, works(folder, &["predict", "alone"]));
    let csv = std::fs::read_to_string(folder.join("sweeps/tries/results.csv")).unwrap();
    assert!(csv.starts_with("trial,model.hidden,run.seed,state,metric,"), "{csv}");
    assert_eq!(csv.lines().count(), 5);
    let picture = std::fs::read_to_string(folder.join("sweeps/tries/sweep.svg")).unwrap();
    assert_eq!(picture.matches("<circle").count(), 4);
    for words in
        ["validation accuracy of each trial", ">validation accuracy (%)<", ">model.hidden (features)<"]
    {
        assert!(picture.contains(words), "no {words} in {picture}");
    }
    assert!(!picture.contains("test"), "{picture}");
    let page = std::fs::read_to_string(folder.join("sweeps/tries/report.html")).unwrap();
    let ranking = "choices are ranked by the mean validation accuracy of their trials";
    assert!(page.contains(ranking) && page.contains("<svg class=\"panel\""), "{page}");
    let (code, _, errors) = eciton(folder, &["report", "sweeps/tries"]);
    assert!(code == Some(1) && errors.contains("is the folder of a sweep, whose report is"), "{errors}");
    let again = works(folder, &["sweep", "tries.toml", "--set", "run.epochs=10"]);
    assert!(again.contains(ranking) && again.contains(": validation "), "{again}");
}

#[test]
fn a_sweep_killed_ten_times_trains_nothing_twice() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    write(folder, "recipe = \"cora/gcn\"\nseeds = 12\n");
    let line = ["sweep", "tries.toml", "--set", "run.epochs=40", "--json"];
    let mut kept: Vec<(usize, SystemTime)> = Vec::new();
    for kill in 0..10 {
        // Killed when so many trials have ended: those of before, and one more every second time.
        killed_after(folder, &line, kept.len() + kill % 2);
        let summary = |trial: &usize| folder.join(format!("sweeps/tries/trials/{trial:05}/summary.json"));
        let written = |trial: &usize| summary(trial).metadata().ok().and_then(|found| found.modified().ok());
        for (trial, time) in &kept {
            assert_eq!(written(trial), Some(*time), "trial {trial} was trained again after kill {kill}");
        }
        kept = (0..12).filter_map(|trial| Some((trial, written(&trial)?))).collect();
    }
    let killed = results(&works(folder, &line));
    let whole = results(&works(folder, &[&line[..], &["--out", "whole"]].concat()));
    assert_eq!(table(&killed), table(&whole));
    assert_eq!(killed["done"], 12);
    let beside = std::fs::read_dir(folder.join("sweeps/tries/trials")).unwrap().count();
    assert_eq!(beside, 12, "no half-written folder stays");
}

/// Nine choices, of which three go on to epoch 6 and one to epoch 20.
const HALVED: &str = "recipe = \"cora/gcn\"\n[grid]\n\"model.hidden\" = [4, 8, 16]\n\"optimiser.lr\" = [0.005, 0.02, 0.08]\n\
                      [halving]\neta = 3\nepochs = 2\n";

/// Trial, rung, epochs and digest of each row.
fn rungs(results: &Value) -> Vec<[String; 4]> {
    let row = |row: &Value| ["trial", "rung", "epochs", "model_digest"].map(|key| row[key].to_string());
    results["rows"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_trial_that_was_halved_has_the_weights_of_an_unbroken_run() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    write(folder, HALVED);
    // The rate of an epoch and the model that is kept depend on what the whole run is.
    let settings = ["run.epochs=20", "optimiser.schedule=cosine", "run.keep=best", "run.eval_every=3"];
    let settings: Vec<&str> = settings.iter().flat_map(|set| ["--set", set]).collect();
    let found = results(&works(folder, &[&["sweep", "tries.toml", "--json"], &settings[..]].concat()));
    let mut counts = [0; 3];
    for row in found["rows"].as_array().unwrap() {
        let (rung, epochs) = (row["rung"].as_u64().unwrap(), row["epochs"].as_u64().unwrap());
        counts[rung as usize - 1] += 1;
        assert_eq!(epochs, [2, 6, 20][rung as usize - 1], "{row}");
        let run = folder.join(format!("sweeps/tries/trials/{:05}", row["trial"].as_u64().unwrap()));
        let lines = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap().lines().count();
        assert_eq!((lines as u64, run.with_extension("checkpoint").exists()), (epochs, rung < 3), "{row}");
        if rung == 3 {
            let choice = row["choice"].as_array().unwrap().iter();
            let own: Vec<String> =
                choice.map(|set| format!("{}={}", set[0], set[1]).replace('"', "")).collect();
            let own: Vec<&str> = own.iter().flat_map(|set| ["--set", set]).collect();
            let line =
                [&["train", "cora", "--recipe", "gcn", "--json", "--no-out"], &settings[..], &own].concat();
            assert_eq!(results(&works(folder, &line))["model_digest"], row["model_digest"], "{row}");
        }
    }
    assert_eq!((counts, &found["epochs"]), ([6, 2, 1], &serde_json::json!([6 * 2 + 2 * 6 + 20, 9 * 20])));
    let picture = std::fs::read_to_string(folder.join("sweeps/tries/sweep.svg")).unwrap();
    assert_eq!(
        (picture.matches("fill=\"none\" stroke=\"#2166ac\"").count(), picture.matches("<circle").count()),
        (16, 18)
    );
    let best = found["groups"][0]["rung"].as_u64();
    assert_eq!(best, Some(3), "the choice that was trained to the end comes first");
    // A trial that went out is a run: it predicts, and it can go on.
    let out = found["rows"].as_array().unwrap().iter().find(|row| row["rung"] == 1).unwrap();
    let run = format!("sweeps/tries/trials/{:05}", out["trial"].as_u64().unwrap());
    works(folder, &["predict", &run]);
    assert_eq!(results(&works(folder, &["resume", &run, "--json"]))["seeds"][0]["epochs"], 20);
}

#[test]
fn a_rung_has_the_weights_of_a_run_of_so_many_epochs() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    write(folder, HALVED);
    let found = results(&works(folder, &["sweep", "tries.toml", "--json", "--set", "run.epochs=20"]));
    for (rung, epochs) in [(1, "2"), (2, "6")] {
        let row = found["rows"].as_array().unwrap().iter().find(|row| row["rung"] == rung).unwrap();
        let choice = row["choice"].as_array().unwrap().iter();
        let own: Vec<String> = choice.map(|set| format!("{}={}", set[0], set[1]).replace('"', "")).collect();
        let own: Vec<&str> = own.iter().flat_map(|set| ["--set", set]).collect();
        let line = ["train", "cora", "--recipe", "gcn", "--json", "--no-out", "--epochs", epochs];
        let alone = results(&works(folder, &[&line[..], &own].concat()));
        assert_eq!(
            (&alone["model_digest"], alone["seeds"][0]["epochs"].to_string()),
            (&row["model_digest"], epochs.to_owned())
        );
    }
}

#[test]
fn a_halved_sweep_killed_ten_times_ends_with_the_same_table() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    write(folder, HALVED);
    let line = ["sweep", "tries.toml", "--set", "run.epochs=20", "--json"];
    for kill in 0..10 {
        killed_after(folder, &line, kill + kill % 2);
    }
    let killed = results(&works(folder, &line));
    let whole = results(&works(folder, &[&line[..], &["--out", "whole"]].concat()));
    assert_eq!(rungs(&killed), rungs(&whole));
    // Once more: nothing is trained, and the table is the same.
    let again = results(&works(folder, &line));
    assert_eq!(rungs(&again), rungs(&whole));
    write(folder, &HALVED.replace("eta = 3", "eta = 2"));
    let (code, _, errors) = eciton(folder, &line);
    assert!(code == Some(1) && errors.contains("contains a sweep with other trials"), "{errors}");
}

#[test]
fn a_trial_that_fails_leaves_the_others() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    write(folder, "recipe = \"cora/gcn\"\n[grid]\n\"run.memory_bytes\" = [1048576, 1073741824]\n");
    let line = ["sweep", "tries.toml", "--set", "run.epochs=5"];
    let (code, text, errors) = eciton(folder, &line);
    assert_eq!(code, Some(1), "{errors}");
    assert!(text.contains("1 trained, 1 failed, 0 not run"), "{text}");
    assert!(errors.contains("1 trial of 2 failed") && errors.contains("memory"), "{errors}");
    let csv = std::fs::read_to_string(folder.join("sweeps/tries/results.csv")).unwrap();
    assert!(csv.contains(",failed,") && csv.contains(",done,accuracy,"), "{csv}");
}

#[test]
fn what_cannot_be_tried_is_told_before_the_first_trial() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    for (text, words) in [
        ("recipe = \"cora/gcn\"\n[grid]\n\"model.hiden\" = [16]\n", "did you mean `model.hidden`"),
        ("recipe = \"cora/gcn\"\n[grid]\n\"optimiser.lr\" = [0.1, -1]\n", "tries.toml, trial 1"),
        ("recipe = \"cora/nosuch\"\n", "no recipe `nosuch`"),
        ("recipe = \"cora\"\n", "expected DATASET/MODEL"),
        ("recipe = \"absent.toml\"\n", "absent.toml"),
        ("recipe = \"cora/gcn\"\nseeds = 0\n", "0 trials"),
        ("recipe = \"cora/gcn\"\n[halving]\nepochs = 200\n", "halving.epochs = 200"),
        ("recipe = \"cora/gcn\"\n[halving]\nepochs = 0\n", "epochs at least 1"),
        ("recipe = ", "tries.toml"),
    ] {
        write(folder, text);
        let (code, _, errors) = eciton(folder, &["sweep", "tries.toml"]);
        assert!(code != Some(0) && errors.contains(words), "{text}: {errors}");
        assert!(!folder.join("sweeps").exists());
    }
    write(folder, "recipe = \"cora/gcn\"\n");
    works(folder, &["sweep", "tries.toml", "--set", "run.epochs=2"]);
    let (code, _, errors) = eciton(folder, &["sweep", "tries.toml", "--set", "run.epochs=3"]);
    assert!(code == Some(1) && errors.contains("contains a sweep with other trials"), "{errors}");
}
