//! Batches: an update on part of the rows is that of all rows where the part is all of them, and the bits
//! of a run depend on nothing but its settings.

use eciton_graph::generate::ManyGraphs;
use eciton_graph::store;
use eciton_recipe::{Config, Data, GatherFeatures};
use eciton_tests::{cora, options, train, train_reports};
use eciton_train::inspect::{FirstEpoch, first_epoch};
use eciton_train::{Options, Samples, Silent, Trainer, plan};

fn config(epochs: u32, settings: &[&str]) -> Config {
    let mut config = cora(epochs);
    config.run.threads = Some(2);
    settings.iter().for_each(|setting| config.set(setting).unwrap());
    config
}

fn trained(config: &Config) -> Trainer {
    let mut trainer = Trainer::new(config, &options(), eciton_train::load(&config.data).unwrap()).unwrap();
    trainer.run(config.run.epochs, &mut Silent).unwrap();
    trainer
}

fn digest(epochs: u32, settings: &[&str]) -> String {
    trained(&config(epochs, settings)).model_digest().unwrap()
}

/// Settings of models: plain, with what reads all rows, along edges, deep.
const MODELS: [&[&str]; 8] = [
    &["model.kind=gcn"],
    &["model.kind=sage", "model.norm=batch"],
    &["model.kind=gat", "model.heads=2"],
    &["model.kind=gatv2", "model.heads=2"],
    &["model.kind=gin", "model.norm=layer"],
    &["model.kind=appnp"],
    &["model.kind=gcn", "model.layers=3", "model.residual=true", "model.norm=pair"],
    &["model.kind=mlp"],
];

/// How parts may be made of Cora, whose model has two gathers.
const SAMPLERS: [&[&str]; 9] = [
    &["batch.sampler=vertex", "batch.rows=600", "batch.micro=2", "batch.normalise=unbiased"],
    &["batch.sampler=edge", "batch.rows=600", "batch.normalise=unbiased"],
    &["batch.sampler=walk", "batch.rows=600", "batch.walk_length=3"],
    &["batch.sampler=frontier", "batch.rows=600", "batch.normalise=false"],
    &["batch.sampler=neighbours", "batch.rows=50", "batch.fan_out=[5, 3]", "batch.micro=2"],
    &["batch.sampler=shadow-khop", "batch.rows=50", "batch.fan_out=4"],
    &["batch.sampler=vertex", "batch.rows=60", "batch.vertex_weight=degree"],
    &[
        "batch.sampler=neighbours",
        "batch.rows=60",
        "batch.fan_out=3",
        "batch.replace=true",
        "batch.drop_last=true",
    ],
    &["batch.sampler=parts", "batch.micro=3", "batch.drop_edges=0.3"],
];

#[test]
fn one_part_of_all_rows_is_a_run_on_all_rows() {
    for model in MODELS {
        for more in ["run.seed=3", "run.order=rcm", "run.row_storage=bf16"] {
            let whole = digest(2, &[model, &[more, "run.intervals=1"]].concat());
            let part = digest(2, &[model, &[more, "batch.sampler=parts"]].concat());
            assert_eq!(part, whole, "{model:?}, {more}");
        }
    }
}

#[test]
fn threads_and_depths_change_no_bit() {
    for sampler in SAMPLERS {
        let of = |threads, ahead| {
            let prefetch = format!("batch.prefetch={ahead}");
            digest(3, &[sampler, &[threads, &prefetch, "run.gather_features=each-epoch"]].concat())
        };
        let first = of("run.threads=1", 0);
        assert_eq!(of("run.threads=2", 1), first, "{sampler:?}");
        assert_eq!(of("run.threads=2", 4), first, "{sampler:?}");
        assert_ne!(of("run.seed=9", 1), first, "{sampler:?}");
    }
}

#[test]
fn an_evaluation_in_a_file_has_the_bits_of_one_in_memory() {
    for model in MODELS {
        let run = |memory: &str| {
            let config = config(
                3,
                &[model, &["run.intervals=20", "run.eval_every=1", "run.keep=best", memory]].concat(),
            );
            let (summary, losses) = train(&config, &Options { scores: true, ..options() }).unwrap();
            (summary.model_digest, losses, format!("{:?}", summary.seeds[0].metrics))
        };
        assert_eq!(run("evaluation.memory=file"), run("evaluation.memory=resident"), "{model:?}");
    }
}

/// Settings of evaluations on samples.
const SAMPLED_EVALUATIONS: [&[&str]; 5] = [
    &["batch.sampler=neighbours", "model.kind=gcn"],
    &["batch.sampler=neighbours", "model.kind=gat", "model.heads=2", "run.order=rabbit"],
    &["batch.sampler=neighbours", "model.kind=sage", "model.norm=batch", "run.row_storage=bf16"],
    &["batch.sampler=neighbours", "model.kind=mlp", "model.layers=1", "data.task=link-prediction"],
    &["batch.sampler=neighbours", "model.kind=sage", "data.task=link-prediction", "batch.micro=6"],
];

#[test]
fn an_evaluation_on_samples_of_all_neighbours_is_that_of_all_rows() {
    for settings in SAMPLED_EVALUATIONS {
        let of = |more: &[&str]| {
            let batch = ["batch.rows=50", "batch.fan_out=-1", "run.eval_every=1"];
            let mut trainer = trained(&config(2, &[settings, &batch, more].concat()));
            let history: Vec<_> = trainer.history().iter().map(|report| report.metrics).collect();
            (trainer.model_digest().unwrap(), history, trainer.predict().unwrap())
        };
        if settings.contains(&"model.kind=mlp") {
            let config = config(2, &[settings, &["batch.rows=50", "evaluation.method=sampled"]].concat());
            let dataset = eciton_train::load(&config.data).unwrap();
            let text = Trainer::new(&config, &options(), dataset).map(|_| ()).unwrap_err().to_string();
            assert!(text.contains("evaluation of this model reads each row alone"), "{text}");
            continue;
        }
        let (digest, full, scores) = of(&[]);
        let sampled = of(&["evaluation.method=sampled", "run.threads=1"]);
        assert_eq!(sampled.0, digest, "{settings:?}");
        let limit = if settings.contains(&"run.row_storage=bf16") { 0.05 } else { 1e-4 };
        let furthest = scores.iter().zip(&sampled.2).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(furthest < limit, "{settings:?}: scores are {furthest} apart");
        for (full, sampled) in full.iter().zip(&sampled.1) {
            let (full, sampled) = (full.unwrap().test.unwrap(), sampled.unwrap().test.unwrap());
            assert!((full - sampled).abs() < 0.01, "{settings:?}: {full} and {sampled}");
        }
        assert_eq!(of(&["evaluation.method=sampled"]), sampled, "{settings:?}");
    }
}

#[test]
fn shadow_is_evaluated_as_it_trains() {
    let of = |more: &[&str]| {
        let shadow = ["batch.sampler=shadow-khop", "batch.rows=70", "batch.fan_out=5", "run.order=degree"];
        let mut trainer = trained(&config(3, &[&shadow, more].concat()));
        (trainer.evaluate().unwrap(), trainer.predict().unwrap())
    };
    let (full, sampled) = (of(&[]), of(&["evaluation.method=sampled"]));
    assert_ne!(full.1, sampled.1);
    assert_eq!(of(&["evaluation.method=sampled", "run.threads=1", "batch.prefetch=0"]), sampled);
    assert!((full.0.test.unwrap() - sampled.0.test.unwrap()).abs() < 0.2, "{full:?} {sampled:?}");
}

#[test]
fn a_run_without_evaluations_has_no_metrics() {
    let none = ["batch.sampler=neighbours", "batch.rows=50", "evaluation.method=none"];
    let (summary, reports) = train_reports(&config(3, &none), &options()).unwrap();
    assert!(reports.len() == 3 && reports.iter().all(|report| report.metrics.is_none()));
    assert!(summary.test_metric.is_none() && !summary.seeds[0].metrics.is_measured());
    assert_eq!(summary.model_digest, digest(3, &none[..2]));
    for (more, part) in [("run.patience=2", "run.patience"), ("run.until=\"test=0.5\"", "run.until")] {
        let text = config(3, &[&none[..], &[more]].concat()).check().unwrap_err().to_string();
        assert!(text.contains(part) && text.contains("requires evaluations"), "{text}");
    }
    let text = config(1, &["evaluation.method=sampled"]).check().unwrap_err().to_string();
    assert!(text.contains("batch.sampler"), "{text}");
}

#[test]
fn a_run_reports_its_batches() {
    let of = |settings: &[&str]| train(&config(1, settings), &options()).unwrap().0.batches;
    assert_eq!(of(&[]), None);
    let neighbours = of(SAMPLERS[4]).unwrap();
    // Cora has 140 training rows. A target of 25 has 5 neighbours, and each of these rows 3.
    let rows = 25 * (1 + 5) * (1 + 3);
    let found = (&neighbours.sampler[..], neighbours.updates, neighbours.micro, neighbours.hops);
    assert_eq!((found, neighbours.counted), (("neighbours", 3, 2, 2), None));
    assert!(neighbours.rows <= rows, "{}", neighbours.rows);
    let vertex = of(SAMPLERS[0]).unwrap();
    // Samples of 300 rows until each row was drawn ten times on average.
    let least = 10 * 2708 / 300;
    assert!(vertex.counted.is_some_and(|counted| counted.samples > least), "{vertex:?}");
    assert_eq!((&vertex.sampler[..], vertex.micro, vertex.rows), ("vertex", 2, 300));
}

#[test]
fn a_round_without_training_rows_is_no_update() {
    // Momentum and weight decay would change the weights.
    let settings = ["batch.sampler=vertex", "batch.rows=1", "optimiser.weight_decay=0.1"];
    let after = |steps: u32| {
        let steps = format!("run.steps={steps}");
        train(&config(1, &[&settings[..], &[&steps]].concat()), &options()).unwrap().0.model_digest
    };
    // 140 of 2708 vertices are training rows, so that nearly all of these rounds have none.
    let few: std::collections::BTreeSet<_> = (1..=12).map(after).collect();
    assert!(few.len() < 5, "{} different models", few.len());
    assert!(!few.contains(&after(100)));
}

#[test]
fn the_last_batch_of_an_epoch_may_be_left_out() {
    let of = |more: &str| {
        let settings = ["batch.sampler=neighbours", "batch.rows=60", more];
        train(&config(1, &settings), &options()).unwrap().0.batches.unwrap().updates
    };
    // Cora has 140 training rows.
    assert_eq!((of("batch.drop_last=false"), of("batch.drop_last=true")), (3, 2));
}

#[test]
fn doubtful_samples_are_warned_of_before_the_training() {
    struct Warnings(Vec<String>, bool);
    impl eciton_train::Observer for Warnings {
        fn warning(&mut self, text: &str) {
            assert!(!self.1, "a warning after the first epoch: {text}");
            self.0.push(text.to_owned());
        }
        fn epoch(&mut self, _: &eciton_train::EpochReport) {
            self.1 = true;
        }
    }
    let of = |settings: &[&str]| {
        let mut warnings = Warnings(Vec::new(), false);
        eciton_train::train(&config(1, settings), &options(), &mut warnings).unwrap();
        warnings.0.concat()
    };
    let vertex = ["batch.sampler=vertex", "batch.rows=300"];
    let text = of(&vertex);
    assert!(text.contains("about 16 of the 140 training rows"), "{text}");
    let text = of(&[&vertex[..], &["batch.normalise=unbiased"]].concat());
    assert!(text.contains("vary by") && text.contains("batch.normalise"), "{text}");
    assert_eq!(of(&["batch.sampler=walk", "batch.rows=300"]), "");
    assert_eq!(of(&["batch.sampler=vertex", "batch.rows=2708", "batch.normalise=none"]), "");
}

#[test]
fn each_seed_of_a_run_is_a_run_of_that_seed() {
    for sampler in SAMPLERS {
        let both = Options { seeds: 2, ..options() };
        let run = eciton_train::train(&config(2, sampler), &both, &mut Silent).unwrap();
        let alone = digest(2, &[sampler, &["run.seed=1"]].concat());
        assert_eq!(run.seeds[1].model_digest, alone, "{sampler:?}");
    }
}

/// The first epoch.
fn first(settings: &[&str]) -> FirstEpoch {
    let config = config(1, settings);
    first_epoch(&config, &options(), eciton_train::load(&config.data).unwrap()).unwrap()
}

/// The largest difference of two epochs' gradients, as a share of the largest of all.
fn apart(left: &FirstEpoch, right: &FirstEpoch) -> f32 {
    let mut largest = (0f32, 0f32);
    for (left, right) in left.gradients.iter().zip(&right.gradients) {
        for (a, b) in left.values.iter().zip(&right.values) {
            largest = (largest.0.max((a - b).abs()), largest.1.max(a.abs()));
        }
    }
    largest.0 / largest.1
}

#[test]
fn all_neighbours_of_all_training_rows_give_the_gradients_of_all_rows() {
    let exact = ["model.dropout=0", "run.gather_features=each-epoch"];
    for model in MODELS {
        if model.contains(&"model.norm=batch") || model.contains(&"model.norm=pair") {
            // Moments are of a part's own rows.
            continue;
        }
        let whole = first(&[model, &exact].concat());
        for micro in ["batch.micro=1", "batch.micro=2"] {
            let batch = ["batch.sampler=neighbours", micro, "batch.fan_out=-1", "batch.rows=140"];
            let part = first(&[model, &exact, &batch].concat());
            let found = apart(&whole, &part);
            assert!(found < 2e-5, "{model:?} {batch:?}: gradients are {found} apart");
            assert!((whole.losses[0] - part.losses[0]).abs() < 1e-5, "{model:?} {batch:?}");
        }
    }
    // A mean of neighbours does not depend on degrees outside of a neighbourhood.
    let sage = ["model.kind=sage"];
    let whole = first(&[&sage[..], &exact].concat());
    let batch = ["batch.sampler=shadow-khop", "batch.fan_out=2708", "batch.rows=140"];
    let found = apart(&whole, &first(&[&sage[..], &exact, &batch].concat()));
    assert!(found < 2e-5, "shadow: gradients are {found} apart");
}

#[test]
fn rows_of_an_epoch_are_all_training_rows_once() {
    // Without dropout, and at a rate of 0, losses of all batches are those of one model: their mean by rows
    // is the loss of all rows.
    let still = ["model.kind=mlp", "model.dropout=0", "optimiser.lr=1e-30", "optimiser.weight_decay=0"];
    let whole = trained(&config(1, &still));
    let batches = trained(&config(3, &[&still[..], &["batch.rows=70", "batch.micro=2"]].concat()));
    let wanted = whole.history()[0].loss;
    for report in batches.history() {
        // 140 training rows are two batches of 70.
        assert!((report.loss - wanted).abs() < 1e-6, "epoch {}: {} for {wanted}", report.epoch, report.loss);
    }
}

#[test]
fn runs_of_some_epochs_are_one_run() {
    let batch = ["batch.sampler=neighbours", "batch.rows=30", "run.eval_every=2"];
    let whole = trained(&config(6, &batch));
    let config = config(6, &batch);
    let mut trainer = Trainer::new(&config, &options(), eciton_train::load(&config.data).unwrap()).unwrap();
    for epochs in [1, 3, 2] {
        trainer.run(epochs, &mut Silent).unwrap();
    }
    assert_eq!(trainer.model_digest().unwrap(), whole.model_digest().unwrap());
    assert_eq!(trainer.epoch(), 6);
    let losses = |trainer: &Trainer| trainer.history().iter().map(|r| r.loss.to_bits()).collect::<Vec<_>>();
    assert_eq!(losses(&trainer), losses(&whole));
}

#[test]
fn a_run_folder_has_epochs_and_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let mut config = config(6, &["batch.sampler=walk", "batch.rows=64", "checkpoint.every=1"]);
    config.run.eval_every = 1.into();
    let wanted = trained(&config).model_digest().unwrap();
    // Stopped after its second epoch, as by Ctrl-C.
    let stop = std::sync::Arc::new(eciton_train::Stop::default());
    let options = Options { out: Some(out.clone()), stop: stop.clone(), ..options() };
    let mut observer = StopsAfter(2, stop);
    let summary = eciton_train::train(&config, &options, &mut observer).unwrap();
    assert!(summary.stopped && summary.seeds[0].epochs == 2, "{summary:?}");
    let resumed = eciton_train::resume(&out, false, &eciton_tests::options(), &mut Silent).unwrap();
    assert_eq!(resumed.model_digest, wanted);
    let (summary, reports) = train_reports(&config, &eciton_tests::options()).unwrap();
    assert_eq!((summary.model_digest, reports.len()), (wanted, 6));
}

/// Asks to stop after so many epochs.
struct StopsAfter(u32, std::sync::Arc<eciton_train::Stop>);

impl eciton_train::Observer for StopsAfter {
    fn epoch(&mut self, report: &eciton_train::EpochReport) {
        if report.epoch == self.0 {
            self.1.ask(eciton_train::Ask::Finish);
        }
    }
}

#[test]
fn what_has_no_batches_is_refused_in_words() {
    let refused = |settings: &[&str]| {
        let config = config(1, settings);
        let dataset = eciton_train::load(&config.data).unwrap();
        Trainer::new(&config, &options(), dataset).map(|_| ()).unwrap_err().to_string()
    };
    let text = refused(&["batch.rows=10"]);
    assert!(text.contains("gathers rows of neighbours") && text.contains("--sampler neighbours"), "{text}");
    let text = refused(&["batch.sampler=neighbours", "batch.fan_out=[3, 3, 3]"]);
    assert!(text.contains("2 consecutive gathers"), "{text}");
    let text = refused(&["batch.sampler=frontier", "batch.rows=10", "batch.frontier=20"]);
    assert!(text.contains("20"), "{text}");
    let text = refused(&["batch.rows=10", "pipeline.mode=async"]);
    assert!(text.contains("pipe"), "{text}");
}

/// Stores a data set of 60 graphs in `folder`, and returns the settings of a training on it.
fn of_graphs(folder: &tempfile::TempDir, epochs: u32, settings: &[&str]) -> Config {
    let path = folder.path().join("made.eciton");
    if !path.exists() {
        let graphs = ManyGraphs { graphs: 60, ..ManyGraphs::default() };
        store::write(&path, &graphs.generate().unwrap().dataset("made", 1).unwrap()).unwrap();
    }
    let mut config = config(epochs, settings);
    config.data.source = path.to_str().unwrap().to_owned();
    config
}

/// Settings of models for data sets of many graphs.
const GRAPH_MODELS: [&[&str]; 4] = [
    &["model.kind=gin", "model.readout=sum", "model.norm=layer"],
    &["model.kind=gcn", "model.readout=mean", "model.class_weights=balanced"],
    &["model.kind=gat", "model.heads=2", "model.readout=sum"],
    &["model.kind=sage", "model.readout=mean", "run.row_storage=bf16"],
];

#[test]
fn a_batch_of_all_training_graphs_has_the_gradients_of_the_run_on_all_graphs() {
    let folder = tempfile::tempdir().unwrap();
    let first = |settings: &[&str]| {
        let config = of_graphs(&folder, 1, settings);
        first_epoch(&config, &options(), eciton_train::load(&config.data).unwrap()).unwrap()
    };
    for model in GRAPH_MODELS {
        let whole = first(model);
        for micro in ["batch.micro=1", "batch.micro=3"] {
            // Training graphs of the default split are fewer than 60.
            let part = first(&[model, &["batch.rows=60", micro]].concat());
            let found = apart(&whole, &part);
            let limit = if model.contains(&"run.row_storage=bf16") { 2e-2 } else { 2e-5 };
            assert!(found < limit, "{model:?} {micro}: gradients are {found} apart");
            assert!((whole.losses[0] - part.losses[0]).abs() < 100.0 * f64::from(limit), "{model:?} {micro}");
        }
    }
}

#[test]
fn batches_of_graphs_have_the_bits_of_one_thread_and_every_graph_once() {
    let folder = tempfile::tempdir().unwrap();
    let trained = |settings: &[&str]| {
        let config = of_graphs(&folder, 3, settings);
        let (summary, reports) = train_reports(&config, &options()).unwrap();
        (summary.model_digest, reports.iter().map(|report| report.loss).collect::<Vec<_>>(), summary.batches)
    };
    let batch = ["batch.rows=7", "batch.micro=2"];
    for model in GRAPH_MODELS {
        let of = |more: &[&str]| trained(&[model, &batch, more].concat());
        let one = of(&["run.threads=1", "batch.prefetch=0"]);
        assert_eq!(of(&["run.threads=2", "batch.prefetch=4"]), one, "{model:?}");
        assert_ne!(of(&["run.seed=9"]).0, one.0, "{model:?}");
        // At a rate of 0 and without dropout, the mean of all batches is the loss of all graphs.
        let still = ["model.dropout=0", "optimiser.lr=1e-30", "optimiser.weight_decay=0"];
        let (_, whole, none) = trained(&[model, &still[..]].concat());
        let (_, batches, facts) = of(&still);
        assert!(batches.iter().all(|loss| (loss - whole[0]).abs() < 1e-2 * whole[0].abs()), "{model:?}");
        assert!(none.is_none() && facts.is_some_and(|facts| facts.updates > 3 && facts.micro == 2));
    }
}

/// Models of links, with a gather before the training, along edges, and without gathers.
const LINK_MODELS: [&[&str]; 5] = [
    &["model.kind=gcn"],
    &["model.kind=sage", "run.row_storage=bf16"],
    &["model.kind=gat", "model.heads=2", "links.negatives=3"],
    &["model.kind=gcn", "run.order=rabbit", "links.negative_sampler=degree"],
    &["model.kind=mlp", "links.negative_sampler=in-batch"],
];

#[test]
fn a_batch_of_all_training_links_has_the_gradients_of_the_run_on_all_links() {
    for model in LINK_MODELS {
        let of = |more: &[&str]| {
            let still =
                ["data.task=link-prediction", "model.dropout=0", "model.hidden=8", "links.embedding=8"];
            first(&[&still, model, more].concat())
        };
        let whole = of(&[]);
        let all = ["batch.rows=5000", "batch.sampler=neighbours", "batch.fan_out=-1"];
        let shadow = ["batch.rows=5000", "batch.sampler=shadow-khop", "batch.fan_out=4"];
        // The negative pairs of a micro-batch are not those of the batch for the sampler in-batch.
        let micro = if model.contains(&"links.negative_sampler=in-batch") { 1 } else { 3 };
        for micro in [1, micro] {
            let part = of(&[&all[..], &[&format!("batch.micro={micro}")]].concat());
            let found = apart(&whole, &part);
            let limit = if model.contains(&"run.row_storage=bf16") { 2e-2 } else { 2e-5 };
            assert!(found < limit, "{model:?} {micro}: gradients are {found} apart");
            assert!((whole.losses[0] - part.losses[0]).abs() < 1e-4, "{model:?} {micro}");
        }
        assert!((whole.losses[0] - of(&shadow).losses[0]).abs() < 0.05, "{model:?}");
    }
}

#[test]
fn batches_of_links_have_the_bits_of_one_thread() {
    for model in LINK_MODELS {
        for sampler in ["batch.sampler=neighbours", "batch.sampler=shadow-khop"] {
            let of = |more: &[&str]| {
                let batch = [
                    "data.task=link-prediction",
                    "batch.rows=1500",
                    "batch.micro=2",
                    "batch.fan_out=2",
                    sampler,
                ];
                let config = config(2, &[&batch, model, more].concat());
                let (summary, reports) = train_reports(&config, &options()).unwrap();
                let losses = reports.iter().map(|report| report.loss).collect::<Vec<_>>();
                (summary.model_digest, losses, summary.batches.map(|facts| (facts.updates, facts.micro)))
            };
            let one = of(&["run.threads=1", "batch.prefetch=0"]);
            assert_eq!(one.2, Some((3, 2)));
            assert_eq!(of(&["run.threads=2", "batch.prefetch=4"]), one, "{model:?}");
            assert_ne!(of(&["run.seed=9"]).0, one.0, "{model:?}");
        }
    }
    for sampler in ["vertex", "parts"] {
        let mut config = config(1, &["data.task=link-prediction", &format!("batch.sampler={sampler}")]);
        config.batch.rows = (sampler == "vertex").then_some(100);
        let text = config.check().unwrap_err().to_string();
        assert!(text.contains(sampler) && text.contains("samples begin at their vertices"), "{text}");
    }
}

#[test]
fn samples_of_links_have_each_training_link_once() {
    let linked = ["data.task=link-prediction", "batch.rows=600", "links.validation=0", "links.test=0"];
    let dataset = eciton_train::load(&cora(1).data).unwrap();
    let all: std::collections::BTreeSet<_> = dataset.graph.edge_list().filter(|(a, b)| a < b).collect();
    for more in [
        &["batch.sampler=neighbours", "batch.fan_out=2", "batch.micro=2"][..],
        &["batch.sampler=shadow-khop", "batch.fan_out=3", "run.order=rabbit"],
        &["batch.sampler=neighbours", "links.negatives=4", "links.negative_sampler=in-batch"],
    ] {
        let config = config(1, &[&linked, more].concat());
        let samples = Samples::new(&config, None, &options()).unwrap();
        let drawn = samples.draw(1..samples.facts().updates + 1).unwrap();
        let (mut found, mut others) = (Vec::new(), 0);
        for sample in &drawn {
            let vertex = |row: u32| sample.vertices[row as usize];
            let pair = |&(a, b): &(u32, u32)| (vertex(a).min(vertex(b)), vertex(a).max(vertex(b)));
            let [links, negatives] = sample.pairs.as_ref().unwrap();
            assert!(sample.targets.is_empty() && sample.vertices.len() >= sample.hops[0] as usize);
            found.extend(links.iter().map(pair));
            others += negatives.len();
            assert!(negatives.iter().map(pair).all(|pair| pair.0 != pair.1 && !all.contains(&pair)));
        }
        found.sort_unstable();
        assert!(found.iter().eq(&all), "{more:?}");
        assert_eq!(others, all.len() * config.links.negatives as usize, "{more:?}");
    }
}

#[test]
fn a_sampler_of_a_data_set_of_many_graphs_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = of_graphs(&folder, 1, &["model.readout=sum", "batch.sampler=neighbours", "batch.rows=9"]);
    let dataset = eciton_train::load(&config.data).unwrap();
    let text = Trainer::new(&config, &options(), dataset).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("many graphs") && text.contains("number of graphs of an update"), "{text}");
}

#[test]
fn samples_without_a_training_are_those_of_its_batches() {
    let dataset = eciton_train::load(&cora(1).data).unwrap();
    let edges: std::collections::BTreeSet<_> = dataset.graph.edge_list().collect();
    for sampler in SAMPLERS {
        let of = |threads: &str| {
            let config = config(2, &[sampler, &[threads, "run.order=rabbit"]].concat());
            let samples = Samples::new(&config, None, &options()).unwrap();
            let (updates, micro) = (samples.facts().updates, samples.facts().micro);
            (samples.draw(1..updates + 1).unwrap(), samples.draw(2..3).unwrap(), updates, micro)
        };
        let (drawn, second, updates, micro) = of("run.threads=1");
        assert_eq!(of("run.threads=2"), (drawn.clone(), second.clone(), updates, micro), "{sampler:?}");
        assert_eq!(drawn.len() as u32, updates * micro, "{sampler:?}");
        assert!(updates < 2 || second == drawn[micro as usize..2 * micro as usize], "{sampler:?}");
        let mut targets = Vec::new();
        for sample in &drawn {
            let vertex = |row: &u32| sample.vertices[*row as usize];
            targets.extend(sample.targets.iter().map(vertex));
            for (source, end) in sample.sources.iter().zip(&sample.ends) {
                assert!(edges.contains(&(vertex(source), vertex(end))), "{sampler:?}: {source} to {end}");
            }
            let weights = sample.edge_weights.as_ref().map_or(sample.ends.len(), Vec::len);
            assert_eq!(weights, sample.sources.len(), "{sampler:?}");
            assert!(sample.sources.len() > sample.targets.len(), "{sampler:?}");
        }
        if sampler.contains(&"batch.rows=50") {
            targets.sort_unstable();
            let mut training = dataset.split.train.clone();
            training.sort_unstable();
            assert_eq!(targets, training, "{sampler:?}");
        }
    }
    let none = Samples::new(&cora(1), None, &options()).map(|_| ()).unwrap_err().to_string();
    assert!(none.contains("--batch") && none.contains("--sampler"), "{none}");
}

#[test]
fn neighbours_drawn_by_weight_have_the_sum_of_all_weights() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    // Edge weights 0, 0.5, 1 and 1.5.
    let weight = |at: u32| f64::from(at % 4) / 2.0;
    let edge = |at: u32| (at % 60, (at * 7 + 3) % 60, weight(at));
    let edges: String = (0..500)
        .map(|at| {
            let (s, t, w) = edge(at);
            format!("{s},{t},{w}\n")
        })
        .collect();
    write("edges.csv", format!("source,target,strength\n{edges}"));
    write(
        "features.csv",
        format!("id,a\n{}", (0..60).map(|at| format!("{at},{}.5\n", at % 5)).collect::<String>()),
    );
    write(
        "labels.csv",
        format!("id,class\n{}", (0..60).map(|at| format!("{at},c{}\n", at % 2)).collect::<String>()),
    );
    let of = |settings: &[&str]| {
        let mut config = config(1, &["batch.sampler=neighbours", "batch.rows=20", "model.layers=1"]);
        config.data = Data { source: folder.path().display().to_string(), ..Data::default() };
        settings.iter().for_each(|setting| config.set(setting).unwrap());
        let samples = Samples::new(&config, None, &options())?;
        samples.draw(1..samples.facts().updates + 1)
    };
    let weighted = ["model.edge_weights=strength", "batch.by_weight=true"];
    let all = of(&["model.edge_weights=strength", "batch.fan_out=-1"]).unwrap();
    let sums = |samples: &[eciton_train::Sample]| {
        let mut sums = std::collections::BTreeMap::new();
        for sample in samples {
            let weights = sample.edge_weights.as_ref().unwrap();
            for (&end, weight) in sample.ends.iter().zip(weights) {
                *sums.entry(sample.vertices[end as usize]).or_insert(0.0) += f64::from(*weight);
            }
        }
        sums
    };
    let expected = sums(&all);
    for more in [&["batch.fan_out=3"][..], &["batch.fan_out=3", "batch.replace=true"], &["batch.fan_out=-1"]]
    {
        let drawn = of(&[&weighted, more].concat()).unwrap();
        let found = sums(&drawn);
        assert_eq!(found.len(), expected.len());
        for (vertex, sum) in &found {
            assert!((sum - expected[vertex]).abs() < 1e-4, "{more:?}: vertex {vertex}, {sum}");
        }
    }
    let text = of(&["batch.by_weight=true"]).unwrap_err().to_string();
    assert!(text.contains("set model.edge_weights"), "{text}");
}

#[test]
fn samples_of_many_graphs_have_whole_graphs() {
    let folder = tempfile::tempdir().unwrap();
    let config = of_graphs(&folder, 1, &["model.readout=sum", "batch.rows=9"]);
    let dataset = eciton_train::load(&config.data).unwrap();
    let samples = Samples::new(&config, None, &options()).unwrap();
    let drawn = samples.draw(1..samples.facts().updates + 1).unwrap();
    let mut graphs = 0;
    for sample in &drawn {
        let of = sample.graphs.as_ref().unwrap();
        assert_eq!(of.len(), sample.vertices.len());
        assert!(sample.sources.iter().zip(&sample.ends).all(|(s, t)| of[*s as usize] == of[*t as usize]));
        let degrees = sample.vertices.iter().map(|&vertex| dataset.graph.in_degree(vertex) as usize);
        assert_eq!(degrees.sum::<usize>(), sample.sources.len());
        graphs += of.iter().max().unwrap() + 1;
    }
    assert_eq!(graphs as usize, dataset.split.train.len());
}

#[test]
fn a_model_of_samples_predicts_a_graph_without_labels() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    for (name, labels) in [("known", true), ("new", false)] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        let edges: String = (0..400).map(|at| format!("{},{}\n", at % 90, (at * 7 + 3) % 90)).collect();
        write(&format!("{name}/edges.csv"), format!("source,target\n{edges}"));
        let row = |at: u32| format!("{at},{},{}\n", f64::from(at % 3) + 0.1 * f64::from(at % 7), at % 5);
        write(&format!("{name}/features.csv"), format!("id,a,b\n{}", (0..90).map(row).collect::<String>()));
        if labels {
            let classes: String = (0..90).map(|at| format!("{at},c{}\n", at % 3)).collect();
            write(&format!("{name}/labels.csv"), format!("id,class\n{classes}"));
        }
    }
    for (at, sampler) in SAMPLERS.into_iter().enumerate() {
        let mut config = config(1, &[sampler, &["batch.rows=30"]].concat());
        if sampler.contains(&"batch.sampler=parts") {
            config.batch.rows = None;
        }
        let of = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        config.data = Data { source: of("known"), ..Data::default() };
        let out = folder.path().join(format!("run-{at}"));
        eciton_train::train(&config, &Options { out: Some(out.clone()), ..options() }, &mut Silent).unwrap();
        let data = Data { source: of("new"), ..Data::default() };
        let found = eciton_train::predict(&out, Some(&data), &options()).unwrap();
        let own = eciton_train::predict(&out, None, &options()).unwrap();
        assert_eq!((found.scores.dim(), found.scores), ((90, 3), own.scores), "{sampler:?}");
    }
}

/// The plan counts the rows of trial samples, not the bound in which all drawn neighbours differ.
#[test]
fn the_memory_plan_counts_the_rows_that_samples_have() {
    let links =
        ["batch.sampler=neighbours", "batch.rows=300", "batch.fan_out=3", "data.task=link-prediction"];
    for settings in SAMPLERS.iter().copied().chain([&links[..]]) {
        let mut config = config(1, settings);
        config.run.gather_features = GatherFeatures::EachEpoch;
        let memory = plan(&config, &options()).unwrap().memory;
        let detail = &memory.items.iter().find(|item| item.purpose == "batches").unwrap().detail;
        let planned = detail.split("times about ").nth(1).and_then(|rest| rest.split(' ').next());
        let planned: usize = planned.unwrap().parse().unwrap();
        let samples = Samples::new(&config, None, &options()).unwrap();
        let micro = samples.facts().micro as usize;
        let drawn = samples.draw(1..samples.facts().updates + 1).unwrap();
        let most = drawn.iter().map(|sample| sample.vertices.len() * micro).max().unwrap();
        assert!(most <= planned && planned * 3 < most * 4, "{settings:?}: {most} drawn, {detail}");
    }
}
