//! Labels of edges: batches, evaluations on samples, orders and threads give the results of the plain run,
//! and predictions are in the order of the edge table.

use std::path::Path;

use eciton_graph::dataset::VertexIds;
use eciton_recipe::{Config, Data, TaskType};
use eciton_tests::{cora, options};
use eciton_train::inspect::{FirstEpoch, first_epoch};
use eciton_train::{Options, Samples, Silent, Trainer};

/// Number of records in the edge table.
const RECORDS: u32 = 700;

/// Writes a folder whose edge table has features, and labels that depend on both ends and on a feature.
/// Each edge is listed several times, in both directions, and the last records have no label.
fn folder(at: &Path, labels: bool) {
    let vertex = |at: u32| format!("v{}", at % 120);
    let ends = |at: u32| (at, at * 7 + at / 120 + 3);
    let class = |at: u32| {
        let (a, b) = ends(at);
        let kinds = ["low", "mid", "high"];
        if at >= RECORDS - 20 { "" } else { kinds[((a % 120 + b % 120) / 60 + at % 2).min(2) as usize] }
    };
    let record = |at: u32| {
        let ((a, b), amount) = (ends(at), 1000.0 + 500.0 * f64::from(at % 2) + f64::from(at % 13));
        let label = if labels { format!(",{}", class(at)) } else { String::new() };
        format!("{},{},{amount},{}{label}\n", vertex(a), vertex(b), at % 5)
    };
    let head = if labels { "source,target,amount,hour,kind\n" } else { "source,target,amount,hour\n" };
    let write = |name: &str, text: String| std::fs::write(at.join(name), text).unwrap();
    write("edges.csv", head.to_owned() + &(0..RECORDS).map(record).collect::<String>());
    let row = |at: u32| format!("v{at},{},{}\n", f64::from(at % 120) / 60.0 - 1.0, at % 4);
    write("features.csv", format!("id,a,b\n{}", (0..120).map(row).collect::<String>()));
}

fn config(at: &Path, epochs: u32, settings: &[&str]) -> Config {
    let mut config = cora(epochs);
    config.data = Data { source: at.display().to_string(), ..Data::default() };
    config.run.threads = Some(2);
    ["data.edge_label=kind", "model.kind=sage", "model.hidden=8"].iter().chain(settings).for_each(
        |setting| {
            config.set(setting).unwrap();
        },
    );
    config
}

fn first(at: &Path, settings: &[&str]) -> FirstEpoch {
    let config = config(at, 1, settings);
    first_epoch(&config, &options(), eciton_train::load(&config.data).unwrap()).unwrap()
}

#[test]
fn a_batch_of_all_labelled_edges_has_the_gradients_of_the_run_on_all_edges() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path(), true);
    let models: [&[&str]; 5] = [
        &[],
        &["model.readout=source", "model.class_weights=balanced"],
        &["model.kind=gatv2", "model.heads=2", "run.order=degree"],
        &["model.kind=mlp", "model.layers=1"],
        &["run.row_storage=bf16"],
    ];
    for model in models {
        let of = |more: &[&str]| first(dir.path(), &[&["model.dropout=0"], model, more].concat());
        let whole = of(&[]);
        for micro in ["batch.micro=1", "batch.micro=3"] {
            let part = of(&["batch.sampler=neighbours", "batch.rows=1000", "batch.fan_out=-1", micro]);
            assert!((whole.losses[0] - part.losses[0]).abs() < 1e-4, "{model:?} {micro}");
            let mut furthest = (0f32, 0f32);
            for (left, right) in whole.gradients.iter().zip(&part.gradients) {
                for (a, b) in left.values.iter().zip(&right.values) {
                    furthest = (furthest.0.max((a - b).abs()), furthest.1.max(a.abs()));
                }
            }
            let limit = if model.contains(&"run.row_storage=bf16") { 3e-2 } else { 2e-5 };
            assert!(furthest.0 / furthest.1 < limit, "{model:?} {micro}: {furthest:?}");
        }
    }
}

#[test]
fn threads_orders_and_evaluations_on_samples_give_the_same_results() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path(), true);
    let of = |settings: &[&str]| {
        let config = config(dir.path(), 3, &[&["run.eval_every=1"], settings].concat());
        let dataset = eciton_train::load(&config.data).unwrap();
        let mut trainer = Trainer::new(&config, &options(), dataset).unwrap();
        trainer.run(3, &mut Silent).unwrap();
        let scores: Vec<f32> = trainer.predict().unwrap().into_iter().collect();
        (trainer.model_digest().unwrap(), scores, trainer.known().unwrap())
    };
    let apart =
        |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let plain = of(&["run.intervals=1"]);
    let cut = of(&["run.intervals=2", "run.threads=1"]);
    assert_eq!((&cut.0, &cut.1), (&plain.0, &plain.1));
    let ordered = of(&["run.order=rcm"]);
    assert!(apart(&ordered.1, &plain.1) < 1e-4);
    assert_eq!((ordered.2.parts, ordered.2.ends), (plain.2.parts, plain.2.ends));
    for sampler in ["batch.sampler=neighbours", "batch.sampler=shadow-khop"] {
        let batch = [sampler, "batch.rows=100", "batch.micro=2", "batch.fan_out=4"];
        let one = of(&[&batch[..], &["run.threads=1", "batch.prefetch=0"]].concat());
        assert_eq!(of(&[&batch[..], &["batch.prefetch=3"]].concat()).0, one.0, "{sampler}");
    }
    let batch = ["batch.sampler=neighbours", "batch.rows=100", "batch.fan_out=-1"];
    let sampled = of(&[&batch[..], &["evaluation.method=sampled"]].concat());
    let full = of(&batch);
    assert_eq!(full.0, sampled.0);
    assert!(apart(&full.1, &sampled.1) < 1e-4);
    let text =
        Samples::new(&config(dir.path(), 1, &["batch.sampler=walk", "batch.rows=100"]), None, &options());
    let text = text.map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("\"walk\"") && text.contains("labels of edges"), "{text}");
}

#[test]
fn samples_have_each_training_edge_once() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path(), true);
    let config = config(dir.path(), 1, &["batch.sampler=neighbours", "batch.rows=64", "run.order=degree"]);
    let dataset = eciton_train::load(&config.data).unwrap();
    let ends = &dataset.labelled_edges.as_ref().unwrap().ends;
    let samples = Samples::new(&config, None, &options()).unwrap();
    let mut all: Vec<u32> = Vec::new();
    for sample in samples.draw(1..samples.facts().updates + 1).unwrap() {
        let [pairs, none] = sample.pairs.as_ref().unwrap();
        let edges = sample.labelled_edges.as_ref().unwrap();
        assert!(none.is_empty() && pairs.len() == edges.len() && sample.targets.is_empty());
        for ((a, b), &edge) in pairs.iter().zip(edges) {
            let found = (sample.vertices[*a as usize], sample.vertices[*b as usize]);
            assert_eq!(found, ends[edge as usize], "edge {edge}");
        }
        all.extend(edges);
    }
    all.sort_unstable();
    assert_eq!(all, dataset.split.train);
}

#[test]
fn a_model_predicts_the_edges_of_a_table_without_labels() {
    let dir = tempfile::tempdir().unwrap();
    let [known, new] = ["known", "new"].map(|name| dir.path().join(name));
    for (at, labels) in [(&known, true), (&new, false)] {
        std::fs::create_dir(at).unwrap();
        folder(at, labels);
    }
    let run = dir.path().join("run");
    let with = Options { out: Some(run.clone()), ..options() };
    let summary = eciton_train::train(
        &config(&known, 200, &["model.dropout=0", "optimiser.lr=0.02", "model.hidden=32"]),
        &with,
        &mut Silent,
    )
    .unwrap();
    assert!(summary.seeds[0].metrics.test.unwrap() > 0.7, "{:?}", summary.seeds[0].metrics);
    let own = eciton_train::predict(&run, None, &options()).unwrap();
    let found = eciton_train::predict(
        &run,
        Some(&Data { source: new.display().to_string(), ..Data::default() }),
        &options(),
    );
    let found = found.unwrap();
    assert_eq!((found.scores.nrows(), found.task), (RECORDS as usize, TaskType::Classification));
    // Columns of the new table are scaled with the moments of the training edges.
    assert_eq!(found.scores, own.scores);
    assert!(found.known.labels.iter().all(|label| label.is_nan()));
    let [sources, targets] = own.known.ends.as_ref().unwrap();
    assert!(matches!(sources, VertexIds::Words(_)));
    let read = std::fs::read_to_string(known.join("edges.csv")).unwrap();
    for (at, line) in (0u32..).zip(read.lines().skip(1)) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!((&*sources.name(at), &*targets.name(at)), (fields[0], fields[1]));
        let label = own.known.class(at as usize).map(|class| own.known.name(class));
        assert_eq!(label.unwrap_or_default(), fields[4], "record {at}");
    }
    let evaluated = eciton_train::evaluate(&run, None, &options()).unwrap();
    assert_eq!(Some(evaluated.metrics), evaluated.recorded);
    for (setting, expected) in [
        ("data.edge_label=nothing", "a column \"nothing\" with the labels of edges"),
        ("data.edge_label=target", "which has ids of vertices"),
    ] {
        let text = eciton_train::load(&config(&known, 1, &[setting]).data).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    let text = eciton_train::load(&Data { edge_label: Some("x".to_owned()), ..Data::default() });
    assert!(text.unwrap_err().to_string().contains("table of edges with the label column \"x\""));
}
