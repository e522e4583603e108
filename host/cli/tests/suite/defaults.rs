//! Settings that follow from the data: printed, recorded, and the same in plans, sweeps and searches.

use std::fmt::Write as _;
use std::path::Path;

use crate::common::{eciton, works};
use serde_json::Value;

/// The last line of an output, as JSON.
fn last(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// Writes a table of three departments, whose columns have units of their own.
fn people(folder: &Path) {
    let mut text = "age,salary,department\n".to_owned();
    for row in 0..300u32 {
        let department = row % 3;
        let noise = f64::from(row * 7919 % 101) / 101.0;
        let age = 25.0 + 9.0 * f64::from(department) + 8.0 * noise;
        let salary = 30_000 + 9_000 * department + row * 104_729 % 9_001;
        writeln!(text, "{age:.2},{salary},d{department}").unwrap();
    }
    std::fs::write(folder.join("people.csv"), text).unwrap();
}

#[test]
fn settings_follow_from_a_table_and_its_config_repeats_them() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    people(folder);
    let text = works(folder, &["train", "people.csv", "--out", "run"]);
    for line in [
        "model.kind = \"mlp\": default: tabular data",
        "model.hidden = 64: default: 180 training rows, 3 classes",
        "run.keep = \"last-best\": default: there are validation rows",
        "(default: 2 feature columns)",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let config = std::fs::read_to_string(folder.join("run/config.toml")).unwrap();
    assert!(config.contains("(default: 180 training rows, 3 classes)\nhidden = 64\n"), "{config}");
    let summary = |run: &str| -> Value {
        serde_json::from_slice(&std::fs::read(folder.join(run).join("summary.json")).unwrap()).unwrap()
    };
    works(folder, &["train", "run/config.toml", "--out", "again"]);
    let found = summary("run");
    assert_eq!(found["model_digest"], summary("again")["model_digest"]);
    let test = found["seeds"][0]["metrics"]["test"].as_f64().unwrap();
    assert!(test > 0.8, "{test}");
    let plan = works(folder, &["plan", "people.csv"]);
    assert!(plan.contains("model.hidden = 64: default: 180 training rows"), "{plan}");
    // Settings that were asked for stay.
    let asked = ["train", "people.csv", "--hidden", "5", "--epochs", "3", "--no-out"];
    let text = works(folder, &asked);
    assert!(text.contains("linear 2-5-3") && text.contains("after the last epoch (3)"), "{text}");
    assert!(!text.contains("model.hidden =") && !text.contains("run.patience"), "{text}");
}

#[test]
fn a_run_below_its_baseline_names_likely_causes() {
    let place = tempfile::tempdir().unwrap();
    people(place.path());
    let line = ["train", "people.csv", "--set", "data.normalise_features=none", "--epochs", "1", "--no-out"];
    let texts: Vec<String> = ["0", "1", "2", "3"]
        .iter()
        .map(|seed| works(place.path(), &[&line[..], &["--seed", *seed]].concat()))
        .collect();
    let below = texts.iter().find(|text| text.contains("below baseline"));
    let text = below.unwrap_or_else(|| panic!("{texts:?}"));
    assert!(text.contains("data.normalise_features=columns"), "{text}");
    let good = works(place.path(), &["train", "people.csv", "--no-out"]);
    assert!(!good.contains("below baseline"), "{good}");
}

#[test]
fn recipes_of_a_kind_take_any_data() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    works(folder, &["data", "generate", "block-model", "friends", "--vertices", "200", "--edges", "1600"]);
    let text = works(folder, &["train", "friends", "--recipe", "gat", "--epochs", "3", "--no-out"]);
    assert!(text.contains("gat "), "{text}");
    // What the recipe says is not chosen.
    assert!(!text.contains("optimiser.lr =") && text.contains("run.keep ="), "{text}");
    people(folder);
    let text = works(folder, &["train", "people.csv", "--recipe", "mlp", "--epochs", "3", "--no-out"]);
    assert!(text.contains("linear 2-128-3"), "{text}");
    let (code, _, error) = eciton(folder, &["train", "people.csv", "--recipe", "cnn"]);
    assert!(code == Some(2) && error.contains("has no images"), "{error}");
    let (code, _, error) = eciton(folder, &["train", "people.csv", "--recipe", "gta"]);
    assert!(code == Some(2) && error.contains("available: appnp, gat"), "{error}");
}

#[test]
fn a_grid_over_models_leaves_out_keys_that_a_model_does_not_have() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    works(folder, &["data", "generate", "block-model", "friends", "--vertices", "200", "--edges", "1600"]);
    let grid = "data = \"friends\"\n[grid]\n\"model.kind\" = [\"gcn\", \"gat\"]\n\"model.heads\" = [2, 4]\n";
    std::fs::write(folder.join("tries.toml"), grid).unwrap();
    let line = ["sweep", "tries.toml", "--set", "run.epochs=3"];
    let (code, text, notes) = eciton(folder, &line);
    assert_eq!(code, Some(0), "{notes}");
    assert!(notes.contains("model.heads is ignored in trials of gcn"), "{notes}");
    assert!(text.contains("3 trials of friends") && text.contains("3 trained, 0 failed"), "{text}");
    let csv = std::fs::read_to_string(folder.join("sweeps/tries/results.csv")).unwrap();
    let columns = csv.lines().map(|line| line.split(',').count()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!((columns.len(), csv.lines().count()), (1, 4), "{csv}");
    assert!(
        text.contains("train the best choice again: eciton train friends --set")
            && text.contains(" --set model.kind="),
        "{text}"
    );
    // A trial that cannot be trained is refused before the first is.
    let grid = "data = \"friends\"\n[grid]\n\"model.layers\" = [2]\n\"model.heads\" = [2, 4]\n";
    std::fs::write(folder.join("wrong.toml"), grid).unwrap();
    let (code, _, error) = eciton(folder, &["sweep", "wrong.toml"]);
    assert!(code == Some(2) && error.contains("trial 0") && error.contains("`model.heads`"), "{error}");
    assert!(!folder.join("sweeps/wrong").exists());
}

#[test]
fn tune_searches_by_a_sweep_of_its_own() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    people(folder);
    let line = ["tune", "people.csv", "--trials", "4", "--set", "run.epochs=16", "--json"];
    let found = last(&works(folder, &line));
    assert_eq!((&found["trials"], &found["failed"]), (&4.into(), &0.into()), "{found}");
    assert_eq!(found["ranked_by"], "validation");
    let file = std::fs::read_to_string(folder.join("sweeps/tune-people/tune.toml")).unwrap();
    assert!(file.contains("[halving]\neta = 3\nepochs = 2\n"), "{file}");
    // The same command trains nothing again; another search does not take its place.
    assert_eq!(last(&works(folder, &line))["trials"], 4);
    let (code, _, error) = eciton(folder, &["tune", "people.csv", "--trials", "5"]);
    assert!(code == Some(1) && error.contains("contains another search"), "{error}");
}

#[test]
fn a_text_trains_a_character_model() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let mut text = String::new();
    for row in 0..60 {
        writeln!(text, "The rain in Spain stays mainly in the plain, said {row} of them.").unwrap();
    }
    std::fs::write(folder.join("text.txt"), text).unwrap();
    let told = works(folder, &["train", "text.txt", "--epochs", "1", "--no-out"]);
    assert!(told.contains("data.sequence = 64: default: a text") && told.contains("transformer"), "{told}");
}
