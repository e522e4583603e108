//! What a run begins with: which rows train, which weights it starts from, and which of them move.
use std::path::Path;

use eciton_graph::generate::ManyGraphs;
use eciton_recipe::{Config, Mode};
use eciton_tests::{Numbers, cora, options, train};
use eciton_train::run_folder::{NamedTensor, Run};
use eciton_train::{Options, Silent, Trainer};

fn with(epochs: u32, settings: &[&str]) -> Config {
    let mut config = cora(epochs);
    settings.iter().for_each(|setting| config.set(setting).unwrap());
    config
}

fn digest(config: &Config) -> String {
    train(config, &options()).unwrap().0.model_digest
}

fn run(config: &Config, out: &Path) -> Run {
    train(config, &Options { out: Some(out.to_owned()), ..options() }).unwrap();
    Run::open(out).unwrap()
}

fn refused(settings: &[&str]) -> String {
    let error = train(&with(2, settings), &options()).unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {source}")
}

#[test]
fn a_split_is_the_same_for_a_run_and_a_trainer_and_another_one_is_not() {
    let split = |rule: &str| with(3, &[&format!("data.split={rule}")[..], "data.split_seed=5"]);
    for rule in [
        "random:0.6/0.2/0.2",
        "stratified:0.5/0.2/0.2",
        "per-class:20/500/1000",
        "folds:5/0",
        "stratified-folds:5/0",
    ] {
        let config = split(rule);
        let loaded = eciton_train::load(&config.data).unwrap();
        assert_ne!(loaded.split, eciton_train::load(&cora(1).data).unwrap().split);
        // The trainer draws it from a data set that has another one.
        let raw = eciton_train::load(&cora(1).data).unwrap();
        let mut trainer = Trainer::new(&config, &options(), raw).unwrap();
        trainer.run(3, &mut Silent).unwrap();
        assert_eq!(trainer.model_digest().unwrap(), digest(&config), "{rule}");
    }
    assert_ne!(digest(&split("folds:5/0")), digest(&split("folds:5/1")));
    let text = refused(&["data.split=per-class:200/500/1000"]);
    assert!(text.contains("per-class:200/500/1000") && text.contains("has only 180"), "{text}");
}

#[test]
fn of_many_graphs_graphs_are_split() {
    let made =
        ManyGraphs { graphs: 60, ..ManyGraphs::default() }.generate().unwrap().dataset("made", 1).unwrap();
    let mut config = with(2, &["data.split=stratified:0.5/0.25/0.25"]);
    let mut trainer = Trainer::new(&config, &options(), made.clone()).unwrap();
    trainer.run(2, &mut Silent).unwrap();
    config.data.split = Some("per-class:61/0/rest".parse().unwrap());
    let error = Trainer::new(&config, &options(), made).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("61 training rows per class"), "{source}");
}

#[test]
fn another_split_does_not_go_on_with_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut config =
        with(8, &["data.split=random:0.6/0.2/0.2", "checkpoint.every=3", "checkpoint.keep_after=true"]);
    run(&config, &out);
    std::fs::remove_dir_all(&out).unwrap();
    let place = eciton_train::checkpoint::folder(&out);
    let text = std::fs::read_to_string(place.join("config.toml")).unwrap();
    std::fs::write(place.join("config.toml"), text.replace("random:0.6/0.2/0.2", "random:0.6/0.2/0.1"))
        .unwrap();
    let error = eciton_train::resume(&out, false, &options(), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("the data's split") && error.contains("config.toml"), "{error}");
    std::fs::write(place.join("config.toml"), text).unwrap();
    let resumed = eciton_train::resume(&out, false, &options(), &mut Silent).unwrap();
    config.checkpoint.every = 0.into();
    assert_eq!(resumed.model_digest, digest(&config));
}

#[test]
fn trials_choose_the_pipeline_and_the_run_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let config = with(30, &["pipeline.staleness=auto", "run.intervals=4", "checkpoint.every=10"]);
    let run = run(&config, &out);
    let trial = run.summary.trial.as_ref().expect("it was tried");
    let names: Vec<_> = trial.tried.iter().map(|tried| (tried.mode, tried.staleness)).collect();
    assert_eq!(names, [(Mode::Pipe, 0), (Mode::Async, 0), (Mode::Async, 1)]);
    assert!(trial.tried.iter().all(|tried| tried.epoch_seconds > 0.0 && tried.loss.is_finite()));
    assert!(trial.chosen.kept_up && trial.tried.contains(&trial.chosen), "{trial:?}");
    // The run folder has the settings, not the question.
    let chosen = run.config.pipeline;
    assert!(!chosen.auto);
    assert_eq!((chosen.mode, chosen.staleness), (trial.chosen.mode, trial.chosen.staleness));
    let last = if chosen.mode == Mode::Async { 3 } else { 0 };
    assert_eq!((chosen.synchronous_last, trial.synchronous_last), (last, last));
    if chosen.mode == Mode::Pipe {
        assert_eq!(run.summary.model_digest, digest(&with(30, &["run.intervals=4"])));
    }
    // A trainer takes settled settings only.
    let data = || eciton_train::load(&config.data).unwrap();
    let refused = Trainer::new(&config, &options(), data()).unwrap_err().to_string();
    assert!(refused.contains("settle_pipeline"), "{refused}");
    let (settled, trial) = eciton_train::settle_pipeline(&config, &options(), Some(&data())).unwrap();
    assert!(trial.is_some() && !settled.pipeline.auto);
    Trainer::new(&settled, &options(), data()).unwrap();
    let (same, none) = eciton_train::settle_pipeline(&settled, &options(), None).unwrap();
    assert!(same == settled && none.is_none());
}

#[test]
fn rows_without_a_graph_take_models_that_gather_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = "a,b,label\n".to_owned();
    let mut numbers = Numbers(3);
    for _ in 0..300 {
        let (a, b) = (numbers.value(), numbers.value());
        text += &format!("{a},{b},{}\n", u8::from(a + b > 0.0));
    }
    let path = dir.path().join("halves.csv");
    std::fs::write(&path, text).unwrap();
    let source = format!("data.source={}", path.display());
    let mlp = with(
        60,
        &[&source[..], "model.kind=mlp", "model.dropout=0", "optimiser.lr=0.05", "run.eval_every=1"],
    );
    let (summary, _) = train(&mlp, &options()).unwrap();
    assert!(summary.test_metric.unwrap() > 0.9, "{:?}", summary.test_metric);
    for kind in ["gcn", "sage", "gin", "sgc", "appnp", "gat"] {
        let text = refused(&[&source, &format!("model.kind={kind}")]);
        assert!(text.contains("has no graph") && text.contains("--model mlp"), "{kind}: {text}");
    }
    train(&with(2, &[&source[..], "data.without_edges=true"]), &options()).unwrap();
}

fn find<'a>(tensors: &'a [NamedTensor], name: &str) -> &'a NamedTensor {
    tensors.iter().find(|tensor| tensor.name == name).unwrap()
}

#[test]
fn a_run_begins_from_a_models_weights() {
    let dir = tempfile::tempdir().unwrap();
    let first = run(&with(9, &[]), &dir.path().join("first"));
    let folder = dir.path().join("first").display().to_string();
    let file = format!("run.init={folder}/model.safetensors");
    // From a file, from a run folder and by hand: the same.
    let warm = digest(&with(4, &[&file[..]]));
    assert_eq!(warm, digest(&with(4, &[&format!("run.init={folder}")[..]])));
    let mut trainer = Trainer::new(&cora(4), &options(), eciton_train::load(&cora(4).data).unwrap()).unwrap();
    trainer.set_weights(&first.tensors).unwrap();
    trainer.run(4, &mut Silent).unwrap();
    assert_eq!(trainer.model_digest().unwrap(), warm);
    assert_ne!(warm, digest(&cora(4)));
    // The recipe in the run folder knows which weights they were.
    let second = run(&with(4, &[&file[..]]), &dir.path().join("second"));
    assert_eq!(second.config.run.init_digest.as_deref(), Some(&first.summary.model_digest[..]));
    let other = format!("run.init_digest={}", "0".repeat(64));
    assert!(refused(&[&file, &other]).contains(&first.summary.model_digest));
    // What does not fit is listed: expected and found. A layer may stay fresh where that is said.
    let text = refused(&[&file, "model.hidden=8"]);
    assert!(
        text.contains("expected [1433, 8], found [1433, 16]") && text.contains("expected [8, 7]"),
        "{text}"
    );
    let text = refused(&[&file, "model.layers=3"]);
    assert!(text.contains("layers.2.weight: expected [16, 7], found no such parameter"), "{text}");
    let fresh = with(1, &[&file[..], "model.layers=3", "run.init_fresh=1,2"]);
    let mut trainer = Trainer::new(&fresh, &options(), eciton_train::load(&fresh.data).unwrap()).unwrap();
    let begun = trainer.weights().unwrap();
    assert_eq!(find(&begun, "layers.0.weight"), find(&first.tensors, "layers.0.weight"));
    trainer.run(1, &mut Silent).unwrap();
    assert!(refused(&[&file, "run.init_fresh=2"]).contains("names layer 2"));
    assert!(refused(&["run.init=no/such.safetensors"]).contains("no/such.safetensors"));
}

#[test]
fn frozen_layers_stay_as_they_are() {
    for settings in [
        &["optimiser.freeze=0"][..],
        &["optimiser.freeze=[0]", "optimiser.kind=sgd", "optimiser.momentum=0.9", "optimiser.lr=0.5"],
        &[
            "optimiser.freeze=0",
            "optimiser.kind=adamw",
            "optimiser.clip_norm=0.1",
            "optimiser.weight_decay=0.5",
        ],
        &["optimiser.freeze=0", "pipeline.mode=async", "pipeline.staleness=1", "run.intervals=3"],
    ] {
        let config = with(5, settings);
        let mut trainer =
            Trainer::new(&config, &options(), eciton_train::load(&config.data).unwrap()).unwrap();
        let before = trainer.weights().unwrap();
        trainer.run(5, &mut Silent).unwrap();
        let after = trainer.weights().unwrap();
        for (before, after) in before.iter().zip(&after) {
            let frozen = before.name.starts_with("layers.0.");
            assert_eq!(before == after, frozen, "{settings:?}: {}", before.name);
        }
        if config.pipeline.staleness == 0 {
            // Two runs of one epoch and four: the state of what is frozen is nothing to carry on.
            let mut parts =
                Trainer::new(&config, &options(), eciton_train::load(&config.data).unwrap()).unwrap();
            parts.run(1, &mut Silent).unwrap();
            parts.run(4, &mut Silent).unwrap();
            assert_eq!(parts.model_digest().unwrap(), trainer.model_digest().unwrap());
        }
    }
    assert!(refused(&["optimiser.freeze=2"]).contains("has layers 0 to 1"));
    assert!(refused(&["optimiser.freeze=0,1"]).contains("remove at least one layer"));
}
