//! Several hosts in one process: the bits of one host, whatever the model, the number of hosts and the order
//! in which messages arrive.
use eciton_graph::adjacency::{Graph, Options as GraphOptions};
use eciton_graph::dataset::{Dataset, EdgeFeatures, Features, Labels, Split};
use eciton_graph::order::{Order, Permutation};
use eciton_graph::store::Partition;
use eciton_recipe::{Config, Mode, NormaliseFeatures, Pipeline};
use eciton_tests::{Numbers, cora, options, train};
use eciton_train::{Ask, Hosts, InProcess, Options, Silent, Trainer};
use std::time::Duration;

/// Model digest and losses of a run on `count` hosts, which all hosts must agree on.
fn on_hosts(config: &Config, count: u32, seed: u64) -> (String, Vec<u64>) {
    let bits = |losses: Vec<f64>| losses.into_iter().map(f64::to_bits).collect();
    if count == 1 {
        let (summary, losses) = train(config, &options()).unwrap();
        return (summary.model_digest, bits(losses));
    }
    let fabrics = InProcess::connected(count, seed);
    let all: Vec<(String, Vec<u64>)> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..)
            .zip(fabrics)
            .map(|(me, fabric)| {
                scope.spawn(move || {
                    let hosts = Some(Hosts { me, count, here: 1, saves: false, fabric: Some(fabric) });
                    let (summary, losses) = train(config, &Options { hosts, ..options() }).unwrap();
                    (summary.model_digest, bits(losses))
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for other in &all {
        assert_eq!(*other, all[0], "{count} hosts, seed {seed}");
    }
    all[0].clone()
}

#[test]
fn several_hosts_compute_the_bits_of_one() {
    for (model, mode) in [
        (&["model.kind=gcn"][..], Mode::Pipe),
        (&["model.kind=gat"], Mode::Sync),
        (&["model.kind=sage", "model.norm=batch", "run.row_storage=bf16"], Mode::Sync),
        (&["model.kind=gcn", "model.norm=pair", "model.layers=3", "model.residual=true"], Mode::Pipe),
    ] {
        let mut config = cora(6);
        model.iter().for_each(|setting| config.set(setting).unwrap());
        (config.run.threads, config.run.intervals) = (Some(1), Some(8));
        config.pipeline = Pipeline { mode, ..Pipeline::default() };
        let wanted = on_hosts(&config, 1, 0);
        for (count, seed) in [(2, 11), (4, 12)] {
            println!("{model:?}, {mode:?}, {count} hosts, seed {seed}");
            assert_eq!(on_hosts(&config, count, seed), wanted, "{model:?}, {mode:?}, {count} hosts");
        }
    }
}

/// Data sets of the campaign: Cora, which is built in, and others of the data folder.
fn data_sets() -> Vec<String> {
    let others = ["musae-facebook", "graphdata-npz/amazon_photo.npz", "graphdata-npz/coauthor_cs.npz"];
    let found = eciton_tests::data().into_iter().flat_map(|data| others.map(|name| data.join(name)));
    let found = found.filter(|path| path.exists()).map(|path| path.to_string_lossy().into_owned());
    std::iter::once("cora".to_owned()).chain(found).collect()
}

/// The campaign: `ECITON_EVERY_HOST=1 cargo nextest run --release -E 'test(every_model_on_every_number)'`.
/// Without the variable, it has one model and 2 hosts.
#[test]
fn every_model_on_every_number_of_hosts_computes_the_bits_of_one() {
    let all = std::env::var_os("ECITON_EVERY_HOST").is_some();
    let models: &[&str] =
        if all { &["gcn", "sage", "gin", "gat", "gatv2", "appnp", "sgc"] } else { &["sage"] };
    let sets = if all { data_sets() } else { vec!["cora".to_owned()] };
    let counts: &[u32] = if all { &[2, 3, 4, 8] } else { &[2] };
    for (number, source) in sets.iter().enumerate() {
        for (at, model) in models.iter().enumerate() {
            let mut config = cora(4);
            (config.data.source, config.run.intervals) = (source.clone(), Some(11));
            config.set(&format!("run.order={}", ["natural", "rabbit"][at % 2])).unwrap();
            config.set(&format!("model.kind={model}")).unwrap();
            config.set("run.labelled_gathers=always").unwrap();
            config.run.threads = Some(1);
            let wanted = on_hosts(&config, 1, 0);
            for &count in counts {
                config.run.threads = Some(1 + count % 2);
                let seed = (number * 100 + at * 10) as u64 + u64::from(count);
                let found = on_hosts(&config, count, seed);
                assert_eq!(found, wanted, "{source}, {model}, {count} hosts, seed {seed}");
            }
            println!("{source}, {model}: {counts:?} hosts, {}", wanted.0);
        }
    }
}

#[test]
fn weighted_edges_and_their_features_are_those_of_one_host() {
    let (vertices, seed) = (300u32, 31);
    println!("seed {seed}");
    let mut numbers = Numbers(seed);
    let edges: Vec<(u32, u32)> =
        (0..2000).map(|_| (numbers.below(vertices), numbers.below(vertices))).collect();
    let options = GraphOptions { symmetric: false, keep_self_loops: false };
    let graph = Graph::from_edges(vertices.into(), edges.into_iter(), options).unwrap();
    let weights: Vec<f32> = (0..2 * graph.edges()).map(|_| numbers.value().abs()).collect();
    let features: Vec<f32> = (0..vertices * 5).map(|_| numbers.value()).collect();
    let labels = Labels::classes((0..vertices).map(|_| numbers.below(3)).collect(), 3);
    let split =
        Split { train: (0..200).collect(), validation: (200..250).collect(), test: (250..300).collect() };
    let features = Features::dense(5, &features).unwrap();
    let mut dataset = Dataset::new("random".to_owned(), graph, features, labels, split);
    dataset.edge_features = Some(EdgeFeatures::new(2, weights).unwrap());
    for model in ["kind = \"gcn\"\nedge_weights = 1", "kind = \"sage\"\nedge_weights = 0", "kind = \"gcn\""] {
        let digest = |hosts: Option<Hosts>| {
            let mut config = Config::parse(&format!("[model]\n{model}\nhidden = 6\n"), "test").unwrap();
            config.run.intervals = Some(6);
            config.run.threads = Some(1);
            let options = Options { hosts, ..eciton_tests::options() };
            let mut trainer = Trainer::new(&config, &options, dataset.clone()).unwrap();
            trainer.run(4, &mut Silent).unwrap();
            trainer.model_digest().unwrap()
        };
        let wanted = digest(None);
        let count = 3;
        let found: Vec<String> = std::thread::scope(|scope| {
            let all = (0..).zip(InProcess::connected(count, 3));
            let digest = &digest;
            let runs: Vec<_> = all
                .map(|(me, fabric)| {
                    scope.spawn(move || {
                        digest(Some(Hosts { me, count, here: 1, saves: false, fabric: Some(fabric) }))
                    })
                })
                .collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        assert!(found.iter().all(|found| *found == wanted), "{model}: {found:?}, {wanted}");
    }
}

#[test]
fn hosts_that_read_only_their_rows_compute_the_bits_of_one() {
    let (vertices, seed, columns) = (600u32, 41, 9);
    println!("seed {seed}");
    let place = tempfile::tempdir().unwrap();
    for (at, model) in ["gcn", "sage", "gat", "gin", "appnp"].into_iter().enumerate() {
        let mut numbers = Numbers(seed + at as u64);
        let edges: Vec<(u32, u32)> =
            (0..4000).map(|_| (numbers.below(vertices), numbers.below(vertices))).collect();
        let graph_options = GraphOptions { symmetric: at % 2 == 0, keep_self_loops: false };
        let graph = Graph::from_edges(vertices.into(), edges.into_iter(), graph_options).unwrap();
        let features: Vec<f32> = (0..vertices * columns).map(|_| numbers.value()).collect();
        let labels = Labels::classes((0..vertices).map(|_| numbers.below(3)).collect(), 3);
        let split =
            Split { train: (0..400).collect(), validation: (400..500).collect(), test: (500..600).collect() };
        let features = Features::dense(columns, &features).unwrap();
        let dataset = Dataset::new("random".to_owned(), graph, features, labels, split);
        let count = [2, 3, 4][at % 3];
        let order = Permutation::compute(&dataset.graph, Order::Rabbit);
        let partition = Partition { piece_bytes: 1024, ..Partition::equal(&dataset, order, count).unwrap() };
        let path = place.path().join(model);
        partition.write(&path, &dataset).unwrap();
        // The first model has the default settings of the data, which columns of features are scaled by.
        let text = if at == 0 { String::new() } else { format!("[model]\nkind = \"{model}\"\nhidden = 8\n") };
        let mut config = Config::parse(&text, "test").unwrap();
        if at > 0 {
            config.data.normalise_features = Some(NormaliseFeatures::Columns);
        }
        // With one gather before the training, hosts send each other features.
        let sends = ["sage", "gin"].contains(&model);
        if sends {
            config.set("model.dropout=0").unwrap();
            config.set("run.gather_features=once").unwrap();
        }
        config.choices.open = at == 0;
        config.set("run.epochs=5").unwrap();
        config.data.source = path.to_string_lossy().into_owned();
        (config.run.threads, config.run.intervals) = (Some(1), Some(10));
        let hosts = Some(Hosts { me: 0, count, here: 1, saves: false, fabric: None });
        let plan = eciton_train::plan(&config, &Options { hosts, ..options() }).unwrap().hosts.unwrap();
        assert_eq!(plan.hosts[0].start_bytes[1] > 1000, sends, "{model}: {plan:?}");
        let wanted = on_hosts(&config, 1, 0);
        assert_eq!(on_hosts(&config, count, seed), wanted, "{model}, {count} hosts");
    }
}

#[test]
fn a_stop_request_at_any_host_ends_all_after_the_same_step() {
    let count = 3;
    for turn in 0..12u32 {
        let mut config = cora(1_000_000);
        (config.run.threads, config.run.intervals) = (Some(1), Some(6));
        config.pipeline = match turn % 3 {
            2 => Pipeline::asynchronous(1),
            turn => Pipeline { mode: [Mode::Pipe, Mode::Sync][turn as usize], ..Pipeline::default() },
        };
        let fabrics = InProcess::connected(count, turn.into());
        let found: Vec<(String, usize)> = std::thread::scope(|scope| {
            let run = |(me, fabric)| {
                let config = &config;
                scope.spawn(move || {
                    let hosts = Some(Hosts { me, count, here: 1, saves: false, fabric: Some(fabric) });
                    let options = Options { hosts, ..options() };
                    let stop = options.stop.clone();
                    let asks = me == turn % count;
                    let ended = std::thread::spawn(move || {
                        while asks && !stop.is_training() {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        std::thread::sleep(Duration::from_millis(u64::from(turn) * 7));
                        if asks {
                            stop.ask(Ask::Finish);
                        }
                    });
                    let (summary, losses) = train(config, &options).unwrap();
                    ended.join().unwrap();
                    assert!(summary.stopped);
                    (summary.model_digest, losses.len())
                })
            };
            let runs: Vec<_> = (0..).zip(fabrics).map(run).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        assert!(found.iter().all(|of| *of == found[0]), "turn {turn}: {found:?}");
    }
}

#[test]
fn decisions_of_a_run_are_those_of_all_hosts() {
    let mut config = cora(30);
    (config.run.threads, config.run.intervals, config.run.eval_every) = (Some(1), Some(6), 2.into());
    config.pipeline = Pipeline { mode: Mode::Pipe, ..Pipeline::default() };
    for setting in ["run.patience=4", "run.keep=best", "run.until=val_acc=0.6"] {
        let mut config = config.clone();
        config.set(setting).unwrap();
        let wanted = on_hosts(&config, 1, 0);
        let found = on_hosts(&config, 3, 5);
        assert_eq!(found, wanted, "{setting}");
        println!("{setting}: {} reports", wanted.1.len());
    }
    // Weights that are late by one step, and rows that are late.
    config.set("pipeline.weights=2bw").unwrap();
    config.set("run.patience=4").unwrap();
    on_hosts(&config, 3, 6);
    config.run.patience = None;
    assert_eq!(on_hosts(&config, 2, 7), on_hosts(&config, 1, 7));
    for staleness in 0..3 {
        let mut config = cora(12);
        (config.run.threads, config.run.intervals) = (Some(1), Some(6));
        config.pipeline = Pipeline::asynchronous(staleness);
        config.run.eval_every = 3.into();
        config.set("pipeline.synchronous_at=0.3").unwrap();
        for count in [2, 4] {
            let (_, losses) = on_hosts(&config, count, staleness.into());
            assert_eq!(losses.len(), 12);
            assert!(f64::from_bits(losses[11]) < f64::from_bits(losses[0]), "{losses:?}");
        }
    }
}

/// A store whose parts are those of no order: the hosts begin at the parts, and compute the bits of one.
#[test]
fn a_divided_store_is_trained_by_its_parts() {
    let (place, count) = (tempfile::tempdir().unwrap(), 3);
    let path = place.path().join("parts");
    let data = eciton_train::open(&cora(1).data).unwrap();
    let parts: Vec<u32> = (0..data.vertices()).map(|v| if v % 5 == 0 { 0 } else { 1 + v % 2 }).collect();
    let partition = eciton_graph::store::Partition::of_parts(&data, &parts, count).unwrap();
    partition.write(&path, &data).unwrap();
    let mut config = cora(4);
    config.data.source = path.to_string_lossy().into_owned();
    (config.run.threads, config.run.intervals) = (Some(1), Some(24));
    assert_eq!(on_hosts(&config, count, 5), on_hosts(&config, 1, 0));
    let hosts = Some(Hosts { me: 0, count, here: 1, saves: false, fabric: None });
    let planned = eciton_train::plan(&config, &Options { hosts: hosts.clone(), ..options() }).unwrap();
    let rows: Vec<u64> = planned.hosts.unwrap().hosts.iter().map(|host| host.rows).collect();
    let sizes: Vec<u64> = partition.sizes(&data).iter().map(|part| part.rows.into()).collect();
    for (found, wanted) in rows.iter().zip(&sizes) {
        assert!(found.abs_diff(*wanted) <= u64::from(2 * data.vertices() / 24), "{rows:?}, {sizes:?}");
    }
    config.set("run.order=rabbit").unwrap();
    let refused = eciton_train::plan(&config, &Options { hosts, ..options() }).err().unwrap().to_string();
    assert!(refused.contains("in the order of its partition"), "{refused}");
}
