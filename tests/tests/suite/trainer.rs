//! Trainers in memory: the bits of a run of `train`, however many epochs at a time, and no panic.
use std::sync::Arc;

use eciton_graph::dataset::{Dataset, Features, Labels, Split};
use eciton_graph::generate::ManyGraphs;
use eciton_graph::store;
use eciton_recipe::{Config, Keep, Mode, TaskType, VertexOrder};
use eciton_tests::{cora, options, train_reports};
use eciton_train::run_folder::{Arrays, NamedTensor, save_predictions};
use eciton_train::{Ask, EpochReport, Error, Observer, Options, Recording, Silent, Stop, Trainer};

fn trainer(config: &Config) -> Trainer {
    Trainer::new(config, &options(), eciton_train::load(&config.data).unwrap()).unwrap()
}

/// Cora's metrics after every epoch.
fn evaluated(epochs: u32) -> Config {
    let mut config = cora(epochs);
    config.run.eval_every = 1.into();
    config
}

fn many() -> Dataset {
    ManyGraphs { graphs: 60, ..ManyGraphs::default() }.generate().unwrap().dataset("made", 1).unwrap()
}

/// A run of `config` with a folder, and trainers of its data in so many runs: the same in all.
fn same_as_a_run(config: &Config, parts: &[&[u32]]) {
    let folder = tempfile::tempdir().unwrap();
    let (out, npz) = (folder.path().join("run"), folder.path().join("p.npz"));
    let options = Options { out: Some(out.clone()), embeddings: true, ..options() };
    let (summary, epochs) = train_reports(config, &options).unwrap();
    let seed = &summary.seeds[0];
    let run = eciton_train::run_folder::Run::open(&out).unwrap();
    let dataset = eciton_train::load(&config.data).unwrap();
    let ids = dataset.graphs.as_ref().map_or(&dataset.ids, |graphs| graphs.ids()).clone();
    for &parts in parts {
        let mut trainer = trainer(config);
        let mut reports = Vec::new();
        for &epochs in parts {
            let done = trainer.epoch();
            let new = trainer.run(epochs, &mut Silent).unwrap();
            assert_eq!(new.len() as u32, trainer.epoch() - done, "{parts:?}");
            reports.extend(new);
        }
        assert_eq!(trainer.history(), reports);
        assert_eq!(trainer.epoch(), seed.epochs, "{parts:?}");
        assert_eq!(trainer.stopped_early(), seed.stopped_early, "{parts:?}");
        let weights = trainer.weights().unwrap();
        assert!(weights == run.tensors, "{parts:?}: other weights");
        assert_eq!(trainer.model_digest().unwrap(), summary.model_digest, "{parts:?}");
        assert_eq!(trainer.evaluate().unwrap(), seed.written(), "{parts:?}");
        let (scores, embeddings) = (trainer.predict().unwrap(), trainer.embeddings().unwrap().unwrap());
        assert_eq!(scores.nrows(), embeddings.nrows());
        let rows = scores.nrows() as u32;
        let embeddings = (embeddings.ncols(), embeddings.as_slice().unwrap());
        let known = trainer.known().unwrap();
        let (scores, known) = (scores.as_slice(), Some((trainer.task(), &known)));
        let arrays = Arrays { ids: &ids, vertices: rows, scores, embeddings: Some(embeddings), known };
        save_predictions(&npz, &arrays).unwrap();
        let [found, wanted] = [&npz, &out.join("predictions.npz")].map(|path| std::fs::read(path).unwrap());
        assert!(found == wanted, "{parts:?}: other predictions");
        std::fs::remove_file(&npz).unwrap();
        // Each report is that of the run but for its times; a run's last epoch is evaluated.
        for (found, wanted) in reports.iter().zip(&epochs) {
            let metrics = wanted.metrics.or(found.metrics);
            let (seconds, rows_per_second) = (found.seconds, found.rows_per_second);
            assert_eq!(found, &EpochReport { seconds, rows_per_second, metrics, ..wanted.clone() });
        }
    }
}

#[test]
fn runs_in_parts_are_one_run() {
    for (mode, order, rate) in
        [(Mode::Sync, VertexOrder::Natural, "constant"), (Mode::Pipe, VertexOrder::Degree, "cosine")]
    {
        let mut config = cora(10);
        config.pipeline.mode = mode;
        config.run.order = order;
        config.set(&format!("optimiser.schedule={rate}")).unwrap();
        (config.run.intervals, config.run.threads) = (Some(3), Some(2));
        same_as_a_run(&config, &[&[10], &[3, 7], &[1, 1, 8]]);
    }
}

#[test]
fn many_graphs_and_batch_norm_in_parts_are_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.eciton");
    store::write(&path, &many()).unwrap();
    let mut config = cora(10);
    config.data.source = path.to_str().unwrap().to_owned();
    config.set("model.norm=batch").unwrap();
    same_as_a_run(&config, &[&[10], &[3, 7]]);
}

#[test]
fn links_in_parts_are_one_run() {
    let mut config = cora(6);
    config.data.task = Some(TaskType::LinkPrediction);
    config.run.eval_every = 1.into();
    let summary = eciton_train::train(&config, &options(), &mut Silent).unwrap();
    let mut trainer = trainer(&config);
    trainer.run(2, &mut Silent).unwrap();
    trainer.run(4, &mut Silent).unwrap();
    assert_eq!(trainer.model_digest().unwrap(), summary.model_digest);
    assert_eq!(trainer.evaluate().unwrap(), summary.seeds[0].metrics);
    assert_eq!(trainer.predict().unwrap().dim(), (2708, config.links.embedding as usize));
}

#[test]
fn the_best_model_is_kept_and_patience_ends_runs() {
    let mut config = evaluated(60);
    (config.run.keep, config.run.patience) = (Keep::Best, Some(3));
    config.optimiser.lr = 0.1;
    let summary = eciton_train::train(&config, &options(), &mut Silent).unwrap();
    let seed = &summary.seeds[0];
    assert!(seed.stopped_early.is_some() && seed.kept_epoch.is_some(), "{seed:?}");
    same_as_a_run(&config, &[&[60], &[1, 2, 57], &[seed.epochs - 1, 2, 5]]);
    let mut trainer = trainer(&config);
    trainer.run(60, &mut Silent).unwrap();
    assert_eq!(trainer.run(5, &mut Silent).unwrap(), []);
    assert_eq!(trainer.epoch(), seed.epochs);
}

#[test]
fn epochs_after_the_configured_ones_go_on() {
    let mut config = cora(4);
    config.set("optimiser.schedule=linear").unwrap();
    config.set("optimiser.final_lr=0.001").unwrap();
    let mut trainer = trainer(&config);
    let rates: Vec<f64> = trainer.run(7, &mut Silent).unwrap().iter().map(|epoch| epoch.lr).collect();
    assert!(rates[3] > 0.001, "{rates:?}");
    assert!(rates[4..].iter().all(|rate| (rate / 0.001 - 1.0).abs() < 1e-9), "{rates:?}");
    assert_eq!(trainer.epoch(), 7);
}

#[test]
fn trainers_do_not_disturb_each_other() {
    let config = evaluated(5);
    let mut other = evaluated(5);
    other.set("model.layers=3").unwrap();
    other.run.seed = 9;
    let alone = |config: &Config| {
        let mut trainer = trainer(config);
        trainer.run(4, &mut Silent).unwrap();
        (trainer.model_digest().unwrap(), trainer.predict().unwrap())
    };
    let wanted = [alone(&config), alone(&other)];
    let (mut one, mut two) = (trainer(&config), trainer(&other));
    for _ in 0..2 {
        one.run(2, &mut Silent).unwrap();
        two.run(2, &mut Silent).unwrap();
        two.evaluate().unwrap();
    }
    let found = [&mut one, &mut two].map(|t| (t.model_digest().unwrap(), t.predict().unwrap()));
    assert!(found == wanted, "in turn");
    let found = std::thread::scope(|scope| {
        [&config, &other].map(|config| scope.spawn(|| alone(config))).map(|thread| thread.join().unwrap())
    });
    assert!(found == wanted, "at once");
}

#[test]
fn weights_go_from_one_trainer_to_another() {
    let config = evaluated(5);
    let mut one = trainer(&config);
    let fresh = one.weights().unwrap();
    one.run(3, &mut Silent).unwrap();
    let (weights, scores) = (one.weights().unwrap(), one.predict().unwrap());
    let mut two = trainer(&config);
    two.run(1, &mut Silent).unwrap();
    two.set_weights(&weights).unwrap();
    assert_eq!((two.epoch(), two.history().len()), (0, 0));
    assert!(two.predict().unwrap() == scores && two.weights().unwrap() == weights);
    // From the same beginning the same end; another seed is another beginning.
    one.set_weights(&fresh).unwrap();
    let again: Vec<_> = one.run(3, &mut Silent).unwrap().iter().map(|e| e.loss).collect();
    assert!(one.weights().unwrap() == weights);
    one.restart(config.run.seed + 1).unwrap();
    assert!(one.weights().unwrap() != fresh);
    one.run(3, &mut Silent).unwrap();
    one.restart(config.run.seed).unwrap();
    assert!(one.weights().unwrap() == fresh);
    let reports = one.run(3, &mut Silent).unwrap();
    assert_eq!(reports.iter().map(|e| e.loss).collect::<Vec<_>>(), again);
    assert!(one.weights().unwrap() == weights);
}

#[test]
fn weights_that_do_not_fit_change_nothing() {
    let mut trainer = trainer(&evaluated(5));
    trainer.run(2, &mut Silent).unwrap();
    let (digest, scores) = (trainer.model_digest().unwrap(), trainer.predict().unwrap());
    let good = trainer.weights().unwrap();
    let name = good[1].name.clone();
    let changed = |change: &dyn Fn(&mut Vec<NamedTensor>)| {
        let mut weights = good.clone();
        change(&mut weights);
        weights
    };
    let wider = changed(&|w| {
        w[0].shape[0] += 1;
        let columns = w[0].shape[1];
        w[0].values.extend(vec![0.0; columns]);
    });
    let faults = [
        (Vec::new(), format!("the weights have no parameter {}", good[0].name)),
        (changed(&|w| drop(w.remove(1))), format!("no parameter {name}, but `cora` has 1433 features")),
        (changed(&|w| w.push(w[1].clone())), format!("two parameters {name}")),
        (changed(&|w| w[1].name = "other".to_owned()), "the weights have other, but".to_owned()),
        (wider, "shape [1434, 16], but `cora` has 1433 features and 7 classes".to_owned()),
        (changed(&|w| w[1].values.truncate(1)), "values, but `cora` has".to_owned()),
    ];
    for (weights, words) in faults {
        let text = trainer.set_weights(&weights).unwrap_err().to_string();
        assert!(text.contains(&words), "{text} does not contain {words}");
        assert_eq!((trainer.epoch(), trainer.model_digest().unwrap()), (2, digest.clone()), "{words}");
        assert!(trainer.predict().unwrap() == scores, "{words}");
    }
    let mut untouched = self::trainer(&evaluated(5));
    untouched.run(5, &mut Silent).unwrap();
    trainer.run(3, &mut Silent).unwrap();
    assert_eq!(trainer.model_digest().unwrap(), untouched.model_digest().unwrap());
}

#[test]
fn data_that_does_not_fit_is_refused_in_words() {
    let cora = eciton_train::load(&Config::default().data).unwrap();
    let refused = |config: &Config, options: &Options, change: &dyn Fn(&mut Dataset)| {
        let mut dataset = cora.clone();
        change(&mut dataset);
        match Trainer::new(config, options, dataset) {
            Ok(mut trainer) => trainer.run(1, &mut Silent).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    };
    let config = evaluated(5);
    let with = |setting: &str| {
        let mut config = config.clone();
        config.set(setting).unwrap();
        config
    };
    type Change = fn(&mut Dataset);
    let data: [(Config, Change, &str); 10] = [
        (config.clone(), |d| (d.labels, d.split) = (Labels::none(2708), Split::default()), "no labels"),
        (config.clone(), |d| d.features = Features::identity(9), "9 feature rows"),
        (config.clone(), |d| d.labels = Labels::classes(vec![0; 9], 2), "9 vertices, but the graph has 2708"),
        (config.clone(), |d| d.split.train.push(4000), "4000"),
        (config.clone(), |d| d.split.train.clear(), "no training rows"),
        (with("run.patience=3"), |d| d.split.validation.clear(), "no validation rows"),
        (with("data.task=regression"), |_| {}, "labels of `cora` are for classification"),
        (with("model.readout=mean"), |_| {}, "`cora` is one graph"),
        (with("model.edge_weights=0"), |_| {}, "edge"),
        (with("run.memory_bytes=1000000"), |_| {}, "bytes of memory"),
    ];
    for (config, change, words) in data {
        let text = refused(&config, &options(), &change);
        assert!(text.contains(words), "{text} does not contain {words}");
    }
    let file = std::path::PathBuf::from("nowhere/file");
    let recording = Recording { trace: Some(file.clone()), ..Recording::default() };
    let given = [
        (Options { out: Some(file), ..options() }, "does not support the option `out`"),
        (Options { recording, ..options() }, "does not support the option `recording`"),
        (Options { seeds: 3, ..options() }, "does not support a number of seeds other than 1"),
    ];
    for (options, words) in given {
        let text = refused(&config, &options, &|_| {});
        assert!(text.contains(words), "{text} does not contain {words}");
    }
}

#[test]
fn impossible_numbers_of_epochs_are_refused() {
    let mut trainer = trainer(&cora(5));
    let refused = trainer.run(0, &mut Silent).unwrap_err();
    assert!(matches!(refused, Error::Epochs { asked: 0, done: 0 }), "{refused}");
    trainer.run(1, &mut Silent).unwrap();
    let text = trainer.run(u32::MAX, &mut Silent).unwrap_err().to_string();
    assert!(text.contains("cannot train 4294967295 epochs after 1"), "{text}");
    assert_eq!(trainer.epoch(), 1);
    let mut none = cora(5);
    none.run.epochs = 0;
    let dataset = eciton_train::load(&none.data).unwrap();
    // The schedule's length, and no limit.
    let mut endless = Trainer::new(&none, &options(), dataset).unwrap();
    assert_eq!(endless.run(2, &mut Silent).unwrap().len(), 2);
}

/// Asks for the end after an epoch.
struct After(u32, Arc<Stop>);

impl Observer for After {
    fn epoch(&mut self, report: &EpochReport) {
        if report.epoch == self.0 {
            self.1.ask(Ask::Leave);
        }
    }
}

#[test]
fn a_stop_ends_after_its_epoch() {
    for mode in [Mode::Sync, Mode::Pipe] {
        let mut config = cora(5);
        config.pipeline.mode = mode;
        let options = options();
        let dataset = eciton_train::load(&config.data).unwrap();
        let mut stopped = Trainer::new(&config, &options, dataset).unwrap();
        let reports = stopped.run(u32::MAX, &mut After(3, options.stop.clone())).unwrap();
        assert!((3..=4).contains(&reports.len()), "{}", reports.len());
        assert_eq!(stopped.run(2, &mut Silent).unwrap(), []);
        let mut whole = trainer(&config);
        whole.run(stopped.epoch(), &mut Silent).unwrap();
        assert_eq!(stopped.model_digest().unwrap(), whole.model_digest().unwrap());
        assert_eq!(stopped.evaluate().unwrap(), whole.evaluate().unwrap());
    }
}

#[test]
fn a_run_that_fails_leaves_the_trainer_as_it_was() {
    for (setting, keep) in [("pipeline.mode=sync", Keep::Last), ("pipeline.mode=async", Keep::Best)] {
        let mut config = evaluated(5);
        config.set(setting).unwrap();
        (config.run.intervals, config.run.threads, config.run.keep) = (Some(4), Some(2), keep);
        config.set("optimiser.kind=sgd").unwrap();
        config.optimiser.lr = 1e30;
        let mut trainer = trainer(&config);
        let before = (trainer.model_digest().unwrap(), trainer.predict().unwrap());
        for _ in 0..3 {
            let text = trainer.run(50, &mut Silent).unwrap_err().to_string();
            assert!(text.contains("the loss is"), "{text}");
            assert_eq!((trainer.epoch(), trainer.history().len()), (0, 0));
            assert!(before == (trainer.model_digest().unwrap(), trainer.predict().unwrap()), "{setting}");
        }
    }
}

#[test]
fn asynchronous_runs_end_with_nothing_under_way() {
    let mut config = evaluated(5);
    config.set("pipeline.mode=async").unwrap();
    (config.run.intervals, config.run.threads) = (Some(4), Some(2));
    let mut trainer = trainer(&config);
    for done in 1..=4 {
        let reports = trainer.run(3, &mut Silent).unwrap();
        assert_eq!((reports.len(), trainer.epoch()), (3, 3 * done));
        assert_eq!(trainer.evaluate().unwrap(), reports[2].metrics.unwrap());
    }
    assert!(trainer.evaluate().unwrap().train > Some(0.5));
}
