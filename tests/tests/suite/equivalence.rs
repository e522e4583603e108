//! The same bits whatever the cut: threads, intervals and instances never change a result.
use eciton_recipe::{Config, GatherFeatures, NormaliseFeatures, VertexOrder};
use eciton_tests::{cora, data, options, train};

const EPOCHS: u32 = 30;
/// Epochs of runs that only have to be equal.
const FEW: u32 = 12;

/// The digest and the bits of the loss curve.
fn run(config: &Config, fresh_instances: bool) -> (String, Vec<u64>) {
    let options = eciton_train::Options { fresh_instances, ..options() };
    let (summary, losses) = train(config, &options).unwrap();
    assert_eq!(losses.len(), config.run.epochs as usize);
    // What was asked for is what was done, or the comparison would show nothing.
    assert!(config.run.intervals.is_none_or(|n| n == summary.intervals), "{} intervals", summary.intervals);
    assert!(config.run.threads.is_none_or(|n| n == summary.threads), "{} threads", summary.threads);
    assert!(losses.iter().all(|l| l.is_finite()), "{losses:?}");
    (summary.model_digest, losses.iter().map(|l| l.to_bits()).collect())
}

fn cut(config: &Config, threads: u32, intervals: u32) -> Config {
    let mut config = config.clone();
    (config.run.threads, config.run.intervals) = (Some(threads), Some(intervals));
    config
}

#[test]
fn cora_does_not_depend_on_threads_intervals_or_instances() {
    let config = cora(FEW);
    let wanted = run(&cut(&config, 1, 1), false);
    assert!(f64::from_bits(*wanted.1.last().unwrap()) < f64::from_bits(wanted.1[0]), "it learns");
    for intervals in [1, 2, 3, 4, 7, 16, 64] {
        for threads in [1, 2] {
            let found = run(&cut(&config, threads, intervals), false);
            assert_eq!(found, wanted, "{threads} threads, {intervals} intervals");
        }
    }
    for (threads, intervals) in [(1, 1), (2, 4), (2, 7)] {
        let found = run(&cut(&config, threads, intervals), true);
        assert_eq!(found, wanted, "fresh instances, {threads} threads, {intervals} intervals");
    }
    // The defaults, run after run.
    for _ in 0..3 {
        assert_eq!(run(&config, false), wanted);
    }
}

#[test]
fn features_gathered_once_are_the_same_model() {
    // Sparse rows, and dense ones.
    let mut dense = cora(EPOCHS);
    dense.data.normalise_features = Some(NormaliseFeatures::Rows);
    let mut sets = vec![dense];
    match data() {
        Some(data) => {
            let mut minesweeper = cora(EPOCHS);
            minesweeper.data.source = data.join("heterophilous/minesweeper.npz").to_str().unwrap().to_owned();
            minesweeper.data.normalise_features = Some(NormaliseFeatures::None);
            sets.push(minesweeper);
        }
        None => println!("skipped: dense features need the published data sets"),
    }
    for mut config in sets {
        // Behind the first layer dropout may stand.
        config.set("model.layers=[{kernel=\"gcn\", width=16, dropout=0.0}, {kernel=\"gcn\"}]").unwrap();
        config.run.gather_features = GatherFeatures::EachEpoch;
        let each = train(&config, &options()).unwrap();
        config.run.gather_features = GatherFeatures::Once;
        let once = train(&config, &options()).unwrap();
        for (a, b) in each.1.iter().zip(&once.1) {
            assert!((a - b).abs() < 1e-3 * a.abs(), "{a} in each epoch, {b} once: {}", config.data.source);
        }
        let wanted = run(&cut(&config, 1, 1), false);
        for (threads, intervals) in [(2, 1), (2, 4), (1, 64)] {
            assert_eq!(run(&cut(&config, threads, intervals), false), wanted, "{threads}, {intervals}");
        }
    }
}

/// The largest difference of two matrices, value by value.
fn apart<'a>(one: impl IntoIterator<Item = &'a f32>, other: impl IntoIterator<Item = &'a f32>) -> f32 {
    one.into_iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn a_vertex_order_changes_rounding_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    // Without dropout, and with: masks belong to vertices, not to rows. Adam divides gradients by their
    // size, so that where one should vanish and is rounding, the step is not small.
    let cases: [(&[&str], f32); 3] = [
        (&["model.dropout=0", "optimiser.kind=sgd", "optimiser.lr=0.5"], 1e-6),
        (&["model.dropout=0"], 1e-3),
        (&["model.dropout=0.5"], 1e-5),
    ];
    for (at, (settings, allowed)) in cases.into_iter().enumerate() {
        let results = VertexOrder::ALL.map(|(name, order)| {
            let mut config = cora(EPOCHS);
            settings.iter().for_each(|setting| config.set(setting).unwrap());
            config.run.order = order;
            let out = folder.path().join(format!("{name}-{at}"));
            let made = eciton_train::Options { out: Some(out.clone()), embeddings: true, ..options() };
            let (summary, losses) = train(&config, &made).unwrap();
            let told = summary.order.as_ref().map(|order| order.name.as_str());
            assert_eq!(told, (order != VertexOrder::Natural).then_some(name));
            (name, summary, losses, eciton_train::predict(&out, None, &made).unwrap())
        });
        let (_, natural, wanted, predicted) = &results[0];
        for (name, summary, losses, found) in &results[1..] {
            let what = format!("{name}, {settings:?}");
            assert_eq!(losses.len(), wanted.len(), "{what}");
            let loss = losses.iter().zip(wanted).map(|(a, b)| (a - b).abs() / b).fold(0.0, f64::max);
            let scores = apart(&found.scores, &predicted.scores);
            let (ours, theirs) = (&found.embeddings, &predicted.embeddings);
            let embeddings = apart(ours.as_ref().unwrap(), theirs.as_ref().unwrap());
            println!(
                "{what}: losses {loss:.1e} (relative), scores {scores:.1e}, embeddings {embeddings:.1e}"
            );
            assert!(loss < 1e-6, "{what}: losses differ by {loss} of themselves");
            assert!(scores < allowed && embeddings < allowed, "{what}: {scores} in scores, {embeddings}");
            assert_eq!(found.ids, predicted.ids, "{what}");
            let accuracy = |summary: &eciton_train::Summary| summary.seeds[0].metrics;
            assert_eq!(accuracy(summary), accuracy(natural), "{what}");
        }
    }
}

#[test]
fn ordered_runs_do_not_depend_on_the_cut() {
    for (name, order) in VertexOrder::ALL {
        let mut config = cora(FEW);
        config.run.order = order;
        let wanted = run(&cut(&config, 1, 1), false);
        for (threads, intervals, fresh) in [(2, 1, false), (2, 4, false), (1, 7, true), (2, 64, false)] {
            let found = run(&cut(&config, threads, intervals), fresh);
            assert_eq!(found, wanted, "{name}, {threads} threads, {intervals} intervals");
        }
    }
}

#[test]
fn an_odd_model_does_not_depend_on_the_cut() {
    // Three layers, every place for dropout and bias, another optimiser.
    let mut config = cora(5);
    for setting in
        ["model.layers=3", "model.hidden=5", "model.activation=tanh", "optimiser.kind=adamw", "run.seed=3"]
    {
        config.set(setting).unwrap();
    }
    let wanted = run(&cut(&config, 1, 1), false);
    for (threads, intervals) in [(2, 3), (1, 16), (2, 64)] {
        assert_eq!(
            run(&cut(&config, threads, intervals), false),
            wanted,
            "{threads} threads, {intervals} intervals"
        );
    }
}

#[test]
fn evaluation_between_epochs_changes_nothing() {
    let mut config = cora(EPOCHS);
    let wanted = run(&config, false);
    config.run.eval_every = 1.into();
    assert_eq!(run(&config, false), wanted);
}

#[test]
fn seeds_differ_and_follow_each_other() {
    let mut config = cora(5);
    let first = run(&config, false);
    config.run.seed = 1;
    let second = run(&config, false);
    assert_ne!(first.0, second.0);
    assert_ne!(first.1, second.1);
    // Two seeds of one run are the two runs.
    config.run.seed = 0;
    let options = eciton_train::Options { seeds: 2, ..options() };
    let (summary, losses) = train(&config, &options).unwrap();
    let digests: Vec<&str> = summary.seeds.iter().map(|s| s.model_digest.as_str()).collect();
    assert_eq!(digests, [first.0.as_str(), second.0.as_str()]);
    let bits: Vec<u64> = losses.iter().map(|l| l.to_bits()).collect();
    assert_eq!(bits, [first.1, second.1].concat());
}

#[test]
fn more_intervals_than_atoms_are_refused() {
    for intervals in [65, 1000, u32::MAX] {
        let error = train(&cut(&cora(1), 1, intervals), &options()).unwrap_err().to_string();
        assert!(error.contains("64") && error.contains(&intervals.to_string()), "{error}");
    }
}

#[test]
fn larger_graphs_do_not_depend_on_the_cut() {
    let Some(data) = data() else {
        eprintln!("skipped: no data sets (set ECITON_DATA to the folder that holds `planetoid`)");
        return;
    };
    let sets = [("planetoid", Some("pubmed")), ("graphdata-npz/amazon_photo.npz", None)];
    for (path, name) in sets {
        let source = data.join(path);
        if !source.exists() {
            eprintln!("skipped: {path} is not in the folder of data sets");
            continue;
        }
        let mut config = cora(4);
        config.data.source = source.display().to_string();
        config.data.name = name.map(str::to_owned);
        let wanted = run(&cut(&config, 2, 1), false);
        for intervals in [4, 64] {
            assert_eq!(run(&cut(&config, 2, intervals), false), wanted, "{path}, {intervals} intervals");
        }
    }
}
