//! Evaluations that keep no scores: their metrics are those of evaluations that do, bit for bit.

use eciton_graph::adjacency::{Graph, Options as GraphOptions};
use eciton_graph::dataset::{Dataset, Features, Labels, Split, Values};
use eciton_graph::store;
use eciton_recipe::{Config, Data};
use eciton_tests::{Numbers, options, train_reports};
use eciton_train::run_folder::{Arrays, save_predictions};
use eciton_train::{Options, Plan, Silent, Summary, Trainer, plan};

fn config(source: &str, settings: &[&str]) -> Config {
    let mut config =
        Config { data: Data { source: source.to_owned(), ..Data::default() }, ..Config::default() };
    (config.run.epochs, config.run.threads) = (2, Some(2));
    settings.iter().for_each(|setting| config.set(setting).unwrap());
    config
}

/// What is to be the same.
fn told(config: &Config, options: &Options) -> (Summary, Vec<[Option<u64>; 3]>) {
    let (summary, reports) = train_reports(config, options).unwrap();
    let metrics = reports.iter().map(|report| report.metrics.unwrap());
    let bits = |value: Option<f64>| value.map(f64::to_bits);
    let metrics = metrics.map(|m| [m.train, m.validation, m.test].map(bits)).collect();
    (summary, metrics)
}

/// Rows of numbers without edges, and flags of each; `random` draws which are unknown.
fn flags(seed: u64) -> Dataset {
    let mut random = Numbers(seed);
    let (rows, columns, flags) = (2500u32, 5, 3);
    let values: Vec<f32> = (0..rows * columns).map(|_| random.value()).collect();
    // The first flag of a row is known: a row of a part has one.
    let mut flag =
        |at: u32| [0.0, 1.0, 1.0, f32::NAN][random.below(3 + u32::from(!at.is_multiple_of(flags))) as usize];
    let known = (0..rows * flags).map(&mut flag).collect();
    let mut order: Vec<u32> = (0..rows).collect();
    (1..rows as usize).rev().for_each(|at| order.swap(at, random.below(at as u32 + 1) as usize));
    let part = |from: usize, to: usize| order[from..to].to_vec();
    Dataset::new(
        "flags".to_owned(),
        Graph::from_edges(rows.into(), std::iter::empty(), GraphOptions::default()).unwrap(),
        Features::dense(columns, &values).unwrap(),
        Labels::Flags(Values::new(flags, known).unwrap()),
        Split { train: part(0, 1500), validation: part(1500, 1900), test: part(1900, 2400) },
    )
}

#[test]
fn metrics_of_scores_that_are_kept_are_those_of_scores_that_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let seed = 47;
    println!("seed {seed}");
    let made = folder.path().join("flags.eciton");
    store::write(&made, &flags(seed)).unwrap();
    let made = made.to_str().unwrap();
    let few = ["run.threads=1", "run.intervals=1"];
    let many = ["run.threads=3", "run.intervals=8", "batch.rows=320"];
    for (at, (source, metric)) in [
        ("digits", "accuracy"),
        ("digits", "cross-entropy"),
        ("digits", "f1-micro"),
        (made, "accuracy"),
        (made, "f1-micro"),
        // Not folded: the same in both.
        (made, "roc-auc"),
    ]
    .into_iter()
    .enumerate()
    {
        for (more, settings) in [&few[..], &many].into_iter().enumerate() {
            let metric = format!("run.metric={metric}");
            let settings = [&["model.kind=mlp", &metric][..], settings].concat();
            let config = config(source, &settings);
            let out = folder.path().join(format!("run-{at}-{more}"));
            let kept = told(&config, &Options { out: Some(out.clone()), ..options() });
            let folded = told(&config, &options());
            assert_eq!(kept.1, folded.1, "{settings:?}");
            assert_eq!(kept.0.model_digest, folded.0.model_digest, "{settings:?}");
            assert!(out.join("predictions.npz").is_file(), "{settings:?}");
        }
    }
}

/// A text of so many characters, in lines of 80.
fn text(seed: u64, characters: usize) -> String {
    let mut random = Numbers(seed);
    let mut next = || char::from(b' ' + random.below(70) as u8);
    (1..=characters).map(|at| if at % 80 == 0 { '\n' } else { next() }).collect()
}

#[test]
fn scores_of_tokens_are_written_where_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let seed = 9;
    println!("seed {seed}");
    let path = folder.path().join("text.txt");
    std::fs::write(&path, text(seed, 20_000)).unwrap();
    let settings = ["data.sequence=40", "model.kind=mlp", "batch.rows=800", "run.metric=cross-entropy"];
    let config = config(path.to_str().unwrap(), &settings);
    let run = |name: &str, scores: bool| {
        let out = folder.path().join(name);
        let told = told(&config, &Options { out: Some(out.clone()), scores, ..options() });
        (out.join("predictions.npz"), told)
    };
    let (none, (left_out, metrics)) = run("none", false);
    let (npz, (with, wanted)) = run("scores", true);
    assert!(left_out.without_predictions && !none.exists());
    assert!(!with.without_predictions && npz.is_file());
    assert_eq!((left_out.model_digest, metrics), (with.model_digest, wanted));
    // In memory nothing is kept, and what is asked for is made.
    let dataset = eciton_train::load(&config.data).unwrap();
    let ids = dataset.ids.clone();
    let mut trainer = Trainer::new(&config, &options(), dataset).unwrap();
    trainer.run(2, &mut Silent).unwrap();
    let scores = trainer.predict().unwrap();
    let again = folder.path().join("again.npz");
    let known = trainer.known().unwrap();
    let arrays = Arrays {
        ids: &ids,
        vertices: scores.nrows() as u32,
        scores: scores.as_slice(),
        embeddings: None,
        known: Some((trainer.task(), &known)),
    };
    save_predictions(&again, &arrays).unwrap();
    assert!(std::fs::read(&npz).unwrap() == std::fs::read(&again).unwrap(), "other predictions");
    assert_eq!(trainer.embeddings().unwrap().unwrap().nrows(), scores.nrows());
    assert_eq!(trainer.evaluate().unwrap(), with.seeds[0].metrics);
    // A run folder without them gives the same.
    let found = eciton_train::predict(&folder.path().join("none"), None, &options()).unwrap();
    assert!(found.scores == scores && found.embeddings.is_none());
}

#[test]
fn a_language_model_takes_little_besides_its_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    std::fs::write(&path, text(5, 800_000)).unwrap();
    let recipe = eciton_tests::root().join("docs/recipes/any/char-lm.toml");
    let mut config = Config::parse(&std::fs::read_to_string(recipe).unwrap(), "char-lm").unwrap();
    (config.data.source, config.run.threads) = (path.to_str().unwrap().to_owned(), Some(2));
    let memory = plan(&config, &options()).unwrap().memory;
    assert!(memory.total_bytes < 280_000_000, "{memory:?}");
}

#[test]
fn scores_that_are_not_kept_are_not_planned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    std::fs::write(&path, text(3, 60_000)).unwrap();
    let settings = ["data.sequence=40", "model.kind=mlp", "batch.rows=800", "run.metric=cross-entropy"];
    let planned = |scores: bool, metric: &str| {
        let config = config(path.to_str().unwrap(), &[&settings[..], &[metric]].concat());
        plan(&config, &Options { scores, ..options() }).unwrap()
    };
    let bytes = |plan: &Plan, purpose: &str| {
        let item = plan.memory.items.iter().find(|item| item.purpose == purpose);
        item.map_or(0, |item| item.bytes)
    };
    let (folded, kept) =
        (planned(false, "run.metric=cross-entropy"), planned(true, "run.metric=cross-entropy"));
    let all = 60_000 * 70 * 4;
    assert!(bytes(&kept, "rows") > bytes(&folded, "rows") + all, "{:?} {:?}", kept.memory, folded.memory);
    assert!(folded.memory.total_bytes + all / 2 < kept.memory.total_bytes);
    // A limit between the two refuses one of them, unless its scores are in a file.
    let limit = format!("run.memory_bytes={}", folded.memory.total_bytes + 1);
    assert!(planned(false, &limit).fits && planned(true, &limit).fits);
    let resident = |scores: bool| {
        let limits = [&limit[..], "evaluation.memory=resident"];
        let config = config(path.to_str().unwrap(), &[&settings[..], &limits].concat());
        plan(&config, &Options { scores, ..options() }).unwrap()
    };
    assert!(resident(false).fits && !resident(true).fits);
}
