//! What rows are stored as and which of them are summed, in how many pieces: what may change bits, and what
//! may not.
use eciton_graph::adjacency::{Graph, Options as GraphOptions};
use eciton_graph::dataset::{Dataset, Features, Labels, Split};
use eciton_graph::random::SplitMix64;
use eciton_recipe::executor::ExecutorKind;
use eciton_recipe::{Config, GatherFeatures, LabelledGathers, Mode, Pipeline, RowFormat, VertexOrder};
use eciton_tensor::half;
use eciton_tests::{cora, options, train};
use eciton_train::Options;
use eciton_train::inspect::{FirstEpoch, first_epoch};

/// Digest and losses.
fn run(config: &Config, options: &Options) -> (String, Vec<u64>) {
    let (summary, losses) = train(config, options).unwrap();
    (summary.model_digest, losses.iter().map(|loss| loss.to_bits()).collect())
}

fn cut(config: &Config, threads: u32, intervals: u32) -> Config {
    let mut config = config.clone();
    (config.run.threads, config.run.intervals) = (Some(threads), Some(intervals));
    config
}

#[test]
fn rows_of_bfloat16_do_not_depend_on_the_cut_or_who_computes() {
    for dropout in ["0.5", "0"] {
        let mut config = cora(6);
        config.set(&format!("model.dropout={dropout}")).unwrap();
        config.run.gather_features = if dropout == "0" { GatherFeatures::Once } else { GatherFeatures::Auto };
        let full = run(&config, &options());
        config.run.row_storage = RowFormat::Bf16;
        let wanted = run(&cut(&config, 1, 1), &options());
        assert_ne!(wanted, full, "they are rounded");
        let last = |(_, losses): &(String, Vec<u64>)| f64::from_bits(losses[5]);
        assert!((last(&wanted) / last(&full) - 1.0).abs() < 0.01, "{wanted:?}, {full:?}");
        for (threads, intervals) in [(2, 1), (1, 3), (3, 16), (2, 64)] {
            for mode in [Mode::Sync, Mode::Pipe] {
                let mut config = cut(&config, threads, intervals);
                config.pipeline.mode = mode;
                assert_eq!(run(&config, &options()), wanted, "{mode:?}, {intervals} on {threads}");
            }
        }
        let mut other = cut(&config, 2, 5);
        let fresh = Options { fresh_instances: true, ..options() };
        assert_eq!(run(&other, &fresh), wanted, "fresh instances");
        other.executor.kind = ExecutorKind::Loopback;
        assert_eq!(run(&other, &options()), wanted, "in messages");
        other = cut(&config, 1, 1);
        other.pipeline.mode = Mode::Async;
        assert_eq!(run(&other, &options()), wanted, "one interval has no neighbours to be ahead of");
    }
}

#[test]
fn leaving_out_what_the_loss_does_not_reach_changes_no_bit() {
    let newest = Options { newest_first: true, ..options() };
    let oldest = Pipeline { in_flight: Some(0), ..Pipeline::asynchronous(1) };
    let modes = [
        (Pipeline { mode: Mode::Sync, ..Pipeline::default() }, 4),
        (Pipeline::default(), 1),
        (Pipeline::default(), 16),
        (oldest, 8),
    ];
    for (layers, dropout, rows) in
        [(1, 0.5, RowFormat::F32), (2, 0.5, RowFormat::Bf16), (3, 0.0, RowFormat::F32)]
    {
        for (pipeline, intervals) in modes {
            let mut config = cut(&cora(3), 1, intervals);
            config.set(&format!("model.layers={layers}")).unwrap();
            config.set(&format!("model.dropout={dropout}")).unwrap();
            (config.pipeline, config.run.row_storage) = (pipeline, rows);
            let mut of = |gathers| {
                config.run.labelled_gathers = gathers;
                run(&config, &newest)
            };
            let whole = of(LabelledGathers::Never);
            assert_eq!(of(LabelledGathers::Always), whole, "{layers} layers, {pipeline:?}");
        }
    }
    // Other layers, and kernels between the loss and the gather.
    let behind =
        "layers=[{ kernel = \"gcn\", norm = \"layer\" }, { kernel = \"gcn\" }, { kernel = \"linear\" }]";
    for model in ["kind=\"sage\"", "kind=\"gin\"", "kind=\"appnp\"", behind] {
        for (pipeline, intervals) in modes {
            let mut config = cut(&cora(3), 1, intervals);
            config.set("model.layers=2").unwrap();
            config.set(&format!("model.{model}")).unwrap();
            config.pipeline = pipeline;
            let mut of = |gathers| {
                config.run.labelled_gathers = gathers;
                run(&config, &newest)
            };
            let whole = of(LabelledGathers::Never);
            assert_eq!(of(LabelledGathers::Always), whole, "{model}, {pipeline:?}");
        }
    }
    // Where vertices lie elsewhere, and where both are asked for by themselves.
    let mut config = cut(&cora(5), 2, 4);
    config.run.order = VertexOrder::Rabbit;
    let mut of = |gathers| {
        config.run.labelled_gathers = gathers;
        run(&config, &options())
    };
    assert_eq!(of(LabelledGathers::Auto), of(LabelledGathers::Never));
}

#[test]
fn a_loss_of_the_users_sees_all_rows() {
    let mut config = cora(1);
    config.run.labelled_gathers = LabelledGathers::Always;
    let edges = |config: &Config| eciton_train::plan(config, &options()).unwrap().labelled_edges;
    assert!(edges(&config).is_some_and(|edges| edges < 2_000), "140 of 2,708 are labelled");
    let own = eciton_tests::root().join("guest-kernels/prebuilt/head.wasm");
    config.kernels.insert("head".to_owned(), own.to_str().unwrap().to_owned());
    assert_eq!(edges(&config), None);
}

#[test]
fn what_saves_time_is_given_up_where_memory_is_short() {
    let mut config = cora(1);
    let plan = |config: &Config| eciton_train::plan(config, &options()).unwrap();
    let whole = plan(&config);
    assert!(whole.fits && whole.labelled_edges.is_some());
    config.run.memory_bytes = Some(whole.memory.total_bytes - 1);
    let less = plan(&config);
    assert!(less.fits && less.labelled_edges.is_none(), "{:?}", less.memory);
    assert!(less.memory.total_bytes < whole.memory.total_bytes);
    // Not where it was asked for; nor is it spoken of where its absence does not help.
    config.run.labelled_gathers = LabelledGathers::Always;
    assert!(!plan(&config).fits);
    config.run.labelled_gathers = LabelledGathers::Auto;
    config.run.memory_bytes = Some(1 << 20);
    let none = plan(&config);
    assert!(!none.fits && none.labelled_edges.is_none());
}

#[test]
fn features_are_gathered_in_each_epoch_where_once_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set");
    eciton_graph::store::write(&path, &random_set(7, 500, 4000, 200, 3)).unwrap();
    let mut config = cora(1);
    config.data.source = path.to_str().unwrap().to_owned();
    config.model = eciton_recipe::ModelSettings::parse("kind = \"sage\"\ndropout = 0", "sage").unwrap();
    config.run.labelled_gathers = LabelledGathers::Never;
    let plan = |config: &Config| eciton_train::plan(config, &options()).unwrap();
    let once = plan(&config);
    assert!(once.fits && once.gathered_features, "{:?}", once.memory);
    config.run.memory_bytes = Some(once.memory.total_bytes - 1);
    let each = plan(&config);
    assert!(each.fits && !each.gathered_features, "{:?}", each.memory);
    config.run.gather_features = GatherFeatures::Once;
    let asked = plan(&config);
    assert!(!asked.fits && asked.gathered_features);
}

#[test]
fn an_order_that_does_not_fit_is_refused_before_anything_moves() {
    let mut config = cora(1);
    config.run.memory_bytes = Some(200_000);
    // What is planned is told, whatever there is.
    assert!(!eciton_train::plan(&config, &options()).unwrap().fits);
    config.run.order = VertexOrder::Degree;
    let error = eciton_train::plan(&config, &options()).unwrap_err().to_string();
    assert!(error.contains("only 200000 bytes are available") && error.contains("run.order"), "{error}");
    config.run.memory_bytes = None;
    assert!(eciton_train::plan(&config, &options()).unwrap().fits);
}

fn random_set(seed: u64, vertices: u32, edges: u32, columns: u32, classes: u32) -> Dataset {
    let mut random = SplitMix64::new(seed);
    let mut below = |limit: u32| random.below(u64::from(limit)) as u32;
    let edges: Vec<(u32, u32)> = (0..edges).map(|_| (below(vertices), below(vertices))).collect();
    let graph = Graph::from_edges(u64::from(vertices), edges.into_iter(), GraphOptions::default()).unwrap();
    let values: Vec<f32> = (0..vertices * columns).map(|_| below(2001) as f32 * 1e-3 - 1.0).collect();
    let labels = Labels::classes((0..vertices).map(|_| below(classes)).collect(), classes);
    let split = Split {
        train: (0..vertices / 2).collect(),
        validation: (vertices / 2..vertices * 3 / 4).collect(),
        test: (vertices * 3 / 4..vertices).collect(),
    };
    let features = Features::dense(columns, &values).unwrap();
    Dataset::new("random".to_owned(), graph, features, labels, split)
}

fn inside(config: &Config, dataset: &Dataset) -> FirstEpoch {
    first_epoch(config, &options(), dataset.clone()).unwrap()
}

#[test]
fn up_to_256_intervals_change_no_bit() {
    let dataset = random_set(3, 262_144, 300_000, 4, 3);
    let mut config = cora(2);
    for setting in ["model.hidden=4", "run.eval_every=0"] {
        config.set(setting).unwrap();
    }
    let bits = |found: FirstEpoch| {
        let losses: Vec<u64> = found.losses.iter().map(|loss| loss.to_bits()).collect();
        let gradients = found.gradients.into_iter().flat_map(|g| g.values).map(f32::to_bits);
        (losses, gradients.collect::<Vec<_>>())
    };
    let wanted = bits(inside(&cut(&config, 2, 1), &dataset));
    for intervals in [3, 16, 100, 256] {
        assert_eq!(bits(inside(&cut(&config, 2, intervals), &dataset)), wanted, "{intervals} intervals");
    }
    config.run.row_storage = RowFormat::Bf16;
    let wanted = bits(inside(&cut(&config, 1, 2), &dataset));
    assert_eq!(bits(inside(&cut(&config, 2, 256), &dataset)), wanted, "bf16");
    let refused = first_epoch(&cut(&config, 1, 257), &options(), dataset).unwrap_err().to_string();
    assert!(refused.contains("257") && refused.contains("256"), "{refused}");
}

/// Rows, row-major, in f64.
#[derive(Clone)]
struct Rows {
    columns: usize,
    values: Vec<f64>,
}

impl Rows {
    fn new(columns: usize, values: &[f32]) -> Self {
        Self { columns, values: values.iter().map(|&v| f64::from(v)).collect() }
    }

    fn rows(&self) -> usize {
        self.values.len() / self.columns
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    fn from(rows: usize, columns: usize, of: impl Fn(usize, usize) -> f64) -> Self {
        let values = (0..rows * columns).map(|i| of(i / columns, i % columns)).collect();
        Self { columns, values }
    }

    fn times(&self, other: &Self) -> Self {
        let sum = |r, c| (0..self.columns).map(|k| self.at(r, k) * other.at(k, c)).sum();
        Self::from(self.rows(), other.columns, sum)
    }

    fn transposed(&self) -> Self {
        Self::from(self.columns, self.rows(), |r, c| self.at(c, r))
    }

    fn sum(&self) -> Vec<f64> {
        (0..self.columns).map(|c| (0..self.rows()).map(|r| self.at(r, c)).sum()).collect()
    }

    /// As a slot keeps them.
    fn stored(&self) -> Self {
        let round = |&v: &f64| f64::from(half::widen(half::round(v as f32)));
        Self { columns: self.columns, values: self.values.iter().map(round).collect() }
    }
}

/// The formulas of `tests/oracle/gcn.py` with a rounding at every slot; none at sums over rows, which are
/// taken before rows are stored.
#[test]
fn bfloat16_rows_are_rounded_at_the_slots_and_nowhere_else() {
    let (seed, vertices, hidden, classes) = (17, 60, 4, 3);
    println!("seed {seed}");
    let dataset = random_set(seed, vertices, 150, 6, classes);
    let mut config = cora(1);
    for setting in ["model.dropout=0", "run.gather_features=each-epoch", "data.normalise_features=false"] {
        config.set(setting).unwrap();
    }
    config.set(&format!("model.hidden={hidden}")).unwrap();
    (config.run.row_storage, config.run.labelled_gathers) = (RowFormat::Bf16, LabelledGathers::Never);
    let found = inside(&config, &dataset);
    let parameter = |name: &str| {
        let tensor = found.parameters.iter().find(|p| p.name == name).unwrap();
        Rows::new(*tensor.shape.last().unwrap(), &tensor.values)
    };
    let Features::Dense(x) = &dataset.features else { panic!("dense") };
    let x = Rows::from(vertices as usize, 6, |r, c| f64::from(x.view().row(r)[c]));
    let scale = |v: u32| 1.0 / (f64::from(dataset.graph.in_degree(v)) + 1.0).sqrt();
    let gather = |rows: &Rows| {
        let of = |r: usize, c: usize| {
            let v = r as u32;
            let terms = dataset.graph.in_neighbours(v).iter().chain([&v]);
            scale(v) * terms.map(|&u| scale(u) * rows.at(u as usize, c)).sum::<f64>()
        };
        Rows::from(rows.rows(), rows.columns, of).stored()
    };
    let (w0, w1) = (parameter("layers.0.weight"), parameter("layers.1.weight"));
    let h = gather(&x.times(&w0).stored());
    let u = Rows::from(h.rows(), h.columns, |r, c| h.at(r, c).max(0.0));
    let scores = gather(&u.times(&w1).stored());
    let train = dataset.split.train.len();
    let share =
        |r: usize, c: usize| scores.at(r, c).exp() / (0..3).map(|k| scores.at(r, k).exp()).sum::<f64>();
    let labels = dataset.labels.as_classes().unwrap();
    let label = |r: usize| labels[r] as usize;
    let loss = -(0..train).map(|r| share(r, label(r)).ln()).sum::<f64>() / train as f64;
    let gradient = Rows::from(scores.rows(), scores.columns, |r, c| match r < train {
        true => (share(r, c) - f64::from(u8::from(label(r) == c))) / train as f64,
        false => 0.0,
    });
    let z1 = gather(&gradient.stored());
    let back = z1.times(&w1.transposed());
    let back = Rows::from(h.rows(), h.columns, |r, c| if h.at(r, c) > 0.0 { back.at(r, c) } else { 0.0 });
    let z0 = gather(&back.stored());
    assert!((found.losses[0] / loss - 1.0).abs() < 1e-5, "{} and {loss}", found.losses[0]);
    let wanted = [
        ("layers.0.weight", x.transposed().times(&z0).values),
        ("layers.0.bias", back.sum()),
        ("layers.1.weight", u.transposed().times(&z1).values),
        ("layers.1.bias", gradient.sum()),
    ];
    for (name, wanted) in wanted {
        let found = found.gradients.iter().find(|g| g.name == name).unwrap();
        let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
        let apart = norm(&mut found.values.iter().zip(&wanted).map(|(&a, b)| f64::from(a) - b));
        let whole = norm(&mut wanted.iter().copied());
        assert!(apart < 1e-5 * whole, "{name}: {apart} of {whole}");
    }
}
