//! Settings of the optimiser and of a run's end: clipping, schedules, early stop, the model that is kept.
use eciton_graph::dataset::Dataset;
use eciton_recipe::Config;
use eciton_tests::{cora, options, train, train_reports};
use eciton_train::{EpochReport, Error, Options, Summary, inspect};
use eciton_types::Round;

fn with(epochs: u32, settings: &[&str]) -> Config {
    let mut config = cora(epochs);
    for setting in settings {
        config.set(setting).unwrap_or_else(|error| panic!("{setting}: {error}"));
    }
    config
}

fn run(config: &Config) -> (Summary, Vec<EpochReport>) {
    train_reports(config, &options()).unwrap()
}

fn digest(config: &Config) -> String {
    run(config).0.model_digest
}

pub(crate) fn dataset(config: &Config) -> Dataset {
    eciton_train::load(&config.data).unwrap()
}

#[test]
fn clipping_is_the_same_for_every_cut() {
    // Gradients on Cora are some 0.1 long at first: this clips every epoch.
    let config = with(20, &["optimiser.clip_norm=0.01", "optimiser.clip_value=0.001"]);
    let (wanted, reports) = run(&config);
    let norms =
        |reports: &[EpochReport]| reports.iter().map(|r| r.gradient_norm.unwrap().to_bits()).collect();
    let wanted_norms: Vec<u64> = norms(&reports);
    assert!(reports.iter().all(|r| r.gradient_norm.unwrap() > 0.01), "{reports:?}");
    for (threads, intervals) in [(1, 1), (2, 4), (1, 7), (2, 64)] {
        let mut cut = config.clone();
        (cut.run.threads, cut.run.intervals) = (Some(threads), Some(intervals));
        let (found, reports) = run(&cut);
        let found_norms: Vec<u64> = norms(&reports);
        assert_eq!((found.model_digest, found_norms), (wanted.model_digest.clone(), wanted_norms.clone()));
    }
}

#[test]
fn a_clip_that_nothing_reaches_changes_nothing() {
    let wanted = digest(&with(20, &[]));
    assert_eq!(digest(&with(20, &["optimiser.clip_norm=1e9"])), wanted);
    assert_eq!(digest(&with(20, &["optimiser.clip_value=1e9"])), wanted);
    assert_eq!(digest(&with(20, &["optimiser.clip_norm=1e9", "run.intervals=7"])), wanted);
    assert_ne!(
        digest(&with(20, &["optimiser.kind=sgd", "optimiser.clip_norm=0.01"])),
        digest(&with(20, &["optimiser.kind=sgd"]))
    );
    // Without it no norm is told.
    assert!(run(&with(2, &[])).1.iter().all(|report| report.gradient_norm.is_none()));
}

/// The norm is that of the gradients; a clipped step of plain gradient descent is `lr * factor * g`.
#[test]
fn the_norm_and_the_step_are_the_formulas() {
    let plain = ["optimiser.kind=sgd", "optimiser.lr=0.5", "optimiser.weight_decay=0", "run.intervals=4"];
    let config = with(1, &[&plain[..], &["optimiser.clip_norm=0.02"]].concat());
    let first = inspect::first_epoch(&config, &options(), dataset(&config)).unwrap();
    let squares = first.gradients.iter().flat_map(|t| &t.values).map(|&g| f64::from(g).powi(2));
    let norm = squares.sum::<f64>().sqrt();
    let report = &run(&config).1[0];
    let told = report.gradient_norm.unwrap();
    assert!((told / norm - 1.0).abs() < 1e-12 && norm > 0.02, "{told}, but {norm}");
    // The second epoch starts from what the first one's step left.
    let mut two = config.clone();
    two.run.epochs = 1;
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    eciton_train::train(&two, &Options { out: Some(out.clone()), ..options() }, &mut eciton_train::Silent)
        .unwrap();
    let moved = eciton_train::run_folder::Run::open(&out).unwrap();
    let factor = (0.02 / (norm + 1e-6)) as f32;
    for ((before, gradient), after) in first.parameters.iter().zip(&first.gradients).zip(&moved.tensors) {
        for ((w, g), found) in before.values.iter().zip(&gradient.values).zip(&after.values) {
            let wanted = w - 0.5 * (g * factor);
            assert!((found - wanted).abs() <= 1e-7 * wanted.abs().max(1.0), "{found}, but {wanted}");
        }
    }
}

#[test]
fn a_gradient_that_is_no_number_names_its_epoch() {
    let config = with(200, &["optimiser.kind=sgd", "optimiser.lr=1e30", "optimiser.clip_norm=1e30"]);
    let error = train(&config, &options()).unwrap_err();
    let named = matches!(error, Error::NotFinite { epoch: 2.., .. });
    assert!(named && error.to_string().starts_with("epoch "), "{error}");
}

#[test]
fn each_epoch_tells_its_rate_and_is_trained_at_it() {
    for settings in [
        &["optimiser.schedule=linear", "optimiser.final_lr=0.001"][..],
        &["optimiser.schedule=cosine", "optimiser.warmup=5"],
        &["optimiser.schedule=step", "optimiser.step_every=4", "optimiser.gamma=0.5"],
        &["optimiser.schedule=exponential", "optimiser.gamma=0.9"],
    ] {
        let config = with(12, settings);
        let (summary, reports) = run(&config);
        for report in &reports {
            assert_eq!(report.lr, config.optimiser.rate(Round(report.epoch), 12, 1), "{settings:?}");
        }
        assert_ne!(summary.model_digest, digest(&with(12, &[])), "{settings:?}");
    }
    // Ones that never move are no schedule at all.
    let wanted = digest(&with(12, &[]));
    let still = ["optimiser.schedule=exponential", "optimiser.gamma=1"];
    assert_eq!(digest(&with(12, &still)), wanted);
    assert_eq!(digest(&with(12, &["optimiser.schedule=linear", "optimiser.final_lr=0.01"])), wanted);
    // AdamW shrinks by the epoch's rate: at 0 nothing moves.
    let mut frozen = with(2, &["optimiser.kind=adamw", "optimiser.weight_decay=0.5"]);
    frozen.set("optimiser.schedule=step").unwrap();
    frozen.set("optimiser.step_every=1").unwrap();
    frozen.set("optimiser.gamma=1e-38").unwrap();
    let first = Config { run: eciton_recipe::Run { epochs: 1, ..frozen.run.clone() }, ..frozen.clone() };
    assert_eq!(digest(&frozen), digest(&first));
}

#[test]
fn patience_ends_a_run_and_the_best_model_is_kept() {
    let patient = with(400, &["run.eval_every=1", "run.patience=30", "run.min_delta=0.01"]);
    let (summary, reports) = run(&patient);
    let seed = &summary.seeds[0];
    let without = seed.stopped_early.expect("Cora's accuracy is at its height long before 400 epochs");
    assert!(seed.epochs < 400 && without == 30 && !summary.stopped, "{seed:?}");
    assert_eq!(reports.len() as u32, seed.epochs);
    // What was seen justifies it: the same rule over the reports, in other words.
    let validation = |report: &EpochReport| report.metrics.unwrap().validation.unwrap();
    let (mut reference, mut since) = (validation(&reports[0]), 1);
    for report in &reports {
        if validation(report) > reference + 0.01 {
            (reference, since) = (validation(report), report.epoch);
        }
        assert_eq!(report.epoch - since >= 30, report.epoch == seed.epochs, "epoch {}", report.epoch);
    }
    // Stopping changes nothing of what was before it.
    let short = with(seed.epochs, &[]);
    assert_eq!(digest(&short), summary.model_digest);

    // Evaluated every seven epochs: it can only stop there.
    let (seldom, _) = run(&with(400, &["run.patience=30", "run.min_delta=0.01", "run.eval_every=7"]));
    assert_eq!(seldom.seeds[0].epochs % 7, 0);

    // The best model: that of a run which ends at its epoch.
    let best = with(60, &["run.eval_every=1", "run.keep=best", "run.seed=3"]);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let options = Options { out: Some(out.clone()), seeds: 2, ..options() };
    let (summary, _) = train(&best, &options).unwrap();
    for seed in &summary.seeds {
        let eciton_train::BestEpoch { epoch, metrics: accuracy, .. } = seed.best.unwrap();
        assert_eq!((seed.kept_epoch, seed.written()), ((epoch != 60).then_some(epoch), accuracy));
        let mut ending = best.clone();
        (ending.run.epochs, ending.run.seed) = (epoch, seed.seed);
        assert_eq!(digest(&ending), seed.model_digest, "seed {}", seed.seed);
    }
    assert!(summary.seeds[0].kept_epoch.is_some(), "another seed is needed: {:?}", summary.seeds[0]);
    // The folder's scores and accuracies are that model's.
    let found = eciton_train::evaluate(&out, None, &Options::default()).unwrap();
    assert_eq!(found.recorded.unwrap(), found.metrics);
}

#[test]
fn a_run_ends_at_its_target() {
    let until = with(200, &["run.eval_every=1", "run.until=test_acc=0.78"]);
    let (summary, reports) = run(&until);
    let test = |report: &EpochReport| report.metrics.unwrap().test.unwrap();
    let (seed, last) = (&summary.seeds[0], reports.last().unwrap());
    let target = seed.target.expect("a target was set");
    assert_eq!((target.epoch, seed.epochs, summary.stopped), (Some(last.epoch), last.epoch, false));
    assert!(last.epoch < 200 && reports.iter().all(|of| (test(of) >= 0.78) == (of.epoch == last.epoch)));
    assert_eq!(target.seconds, reports.iter().map(|report| report.seconds).sum::<f64>());
    assert_eq!(target.best, Some(test(last)));
    // Stopping changes nothing of what was before it.
    assert_eq!(digest(&with(seed.epochs, &[])), summary.model_digest);
    // One that is out of reach is told, and the run is whole.
    let (summary, _) = run(&with(6, &["run.eval_every=3", "run.until=test=1"]));
    let target = summary.seeds[0].target.unwrap();
    assert_eq!((target.epoch, summary.seeds[0].epochs), (None, 6));
    // A trainer says the same, and trains no further.
    let mut trainer =
        eciton_train::Trainer::new(&until, &options(), eciton_train::load(&until.data).unwrap()).unwrap();
    while trainer.target().unwrap().epoch.is_none() {
        trainer.run(9, &mut eciton_train::Silent).unwrap();
    }
    assert_eq!((trainer.epoch(), trainer.target().unwrap().epoch), (last.epoch, Some(last.epoch)));
    assert!(trainer.run(9, &mut eciton_train::Silent).unwrap().is_empty());
    let refused =
        |setting: &str| train(&with(5, &["run.eval_every=1", setting]), &options()).unwrap_err().to_string();
    assert!(refused("run.until=test_mae=0.3").contains("the metric of the run is accuracy"));
    assert!(refused("run.until=test=94").contains("accuracy is a share, so the target must be at most 1"));
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let refused = |settings: &[&str]| train(&with(5, settings), &options()).unwrap_err().to_string();
    for (setting, key) in [("run.patience=3", "run.patience"), ("run.keep=best", "run.keep")] {
        let error = refused(&[setting, "run.eval_every=0"]);
        assert!(error.contains(key) && error.contains("run.eval_every"), "{error}");
        // Nobody is there to validate with.
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("edges.csv", "source,target\n0,1\n1,2\n2,3\n3,0\n");
        write("features.csv", "id,a,b\n0,1,0\n1,0,1\n2,1,0\n3,0,1\n");
        write("labels.csv", "id,label\n0,0\n1,1\n2,0\n3,1\n");
        write("split.csv", "id,split\n0,train\n1,train\n2,test\n3,test\n");
        let source = format!("data.source={}", dir.path().display());
        let error = refused(&[setting, "run.eval_every=1", &source]);
        assert!(error.contains(key) && error.contains("no validation rows"), "{error}");
    }
}
