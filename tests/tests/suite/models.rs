//! Models that are more than a chain of convolutions: against `tests/oracle/zoo.py`, an f64
//! implementation in NumPy, on random directed graphs; and the same bits whatever the cut.
//!
//! It needs a python3 with numpy (`ECITON_PYTHON`, else `python3`). Where there is none the comparison
//! says that it was skipped; with the variable `CI` set it fails instead.

use crate::numpy::{as_sparse, ask, assert_close, flat, trained};
use eciton_graph::adjacency::{Graph, Options as GraphOptions};
use std::sync::Arc;

use eciton_graph::dataset::{
    Dataset, EdgeFeatures, Features, Labels, Moments, NO_LABEL, Scaling, Split, Values, VertexIds,
};
use eciton_graph::graphs::Graphs;
use eciton_graph::labelled_edges::LabelledEdges;
use eciton_recipe::executor::ExecutorKind;
use eciton_recipe::{
    ClassWeights, Config, EdgePlace, GatherFeatures, LabelledGathers, LayerKind, Links, Loss, Mode, Model,
    ModelSettings, Pipeline, TaskType, WeightDecay,
};
use eciton_tests::{Numbers, cora, options, python, train};
use eciton_train::Recording;
use eciton_train::inspect::FirstEpoch;
use serde_json::{Value, json};

/// What relative difference, by norm, f32 may have from f64.
const CLOSE: f64 = 2e-4;

/// Models as a user writes them; the last layer's width is the number of classes. Those whose name begins with
/// "links" predict links, and those whose name begins with "edges" labels of edges.
const MODELS: [(&str, &str); 73] = [
    ("gcn", "kind = \"gcn\""),
    ("sage", "kind = \"sage\""),
    ("sage without bias", "kind = \"sage\"\nbias = false\nlayers = 3"),
    ("sage, narrow", "kind = \"sage\"\nhidden = 2\nlayers = 3"),
    ("sage, l2", "kind = \"sage\"\nnorm = \"l2\""),
    ("sage, max", "kind = \"sage\"\naggregator = \"max\""),
    ("sage, max, three layers", "kind = \"sage\"\naggregator = \"max\"\nlayers = 3\nhidden = 5\ndropout = 0"),
    ("gin", "kind = \"gin\""),
    ("gin, trained", "kind = \"gin\"\nepsilon = 0.25\ntrain_epsilon = true\nlayers = 3"),
    ("gin, narrow", "kind = \"gin\"\nhidden = 2\nepsilon = -0.5"),
    ("sgc", "kind = \"sgc\""),
    ("sgc, constant", "kind = \"sgc\"\nhops = 3\ndropout = 0"),
    ("appnp", "kind = \"appnp\""),
    ("appnp, no teleport", "kind = \"appnp\"\nhops = 2\nalpha = 0"),
    ("gat", "kind = \"gat\""),
    ("gat, one head", "kind = \"gat\"\nheads = 1\nhidden = 5\nattention_dropout = 0.0\nlayers = 3"),
    (
        "gat, without bias",
        "kind = \"gat\"\nheads = 2\nbias = false\nnegative_slope = 0.0\nactivation = \"elu\"",
    ),
    (
        "gat, heads averaged",
        "hidden = 8\n[[layers]]\nkernel = \"gat\"\nheads = 4\nattention_dropout = 0.3\n[[layers]]\nkernel = \"gat\"\n\
         heads = 2\naverage = true\nresidual = true\n[[layers]]\nkernel = \"gat\"\nheads = 3\nnegative_slope = 0.05\n",
    ),
    ("gat, jumping", "kind = \"gat\"\nhidden = 6\nheads = 3\njumping = \"concat\"\nnorm = \"layer\""),
    ("gatv2", "kind = \"gatv2\""),
    ("gatv2, one head", "kind = \"gatv2\"\nheads = 1\nhidden = 5\nattention_dropout = 0.0\nlayers = 3"),
    (
        "gatv2, without bias",
        "kind = \"gatv2\"\nheads = 2\nbias = false\nnegative_slope = 0.0\nactivation = \"elu\"",
    ),
    (
        "gatv2, heads averaged",
        "hidden = 8\n[[layers]]\nkernel = \"gatv2\"\nheads = 4\nattention_dropout = 0.3\n[[layers]]\nkernel = \"gatv2\"\n\
         heads = 2\naverage = true\nresidual = true\n[[layers]]\nkernel = \"gatv2\"\nheads = 3\nnegative_slope = 0.05\n",
    ),
    ("mlp", "kind = \"mlp\"\nlayers = 3"),
    ("gcn, narrow", "kind = \"gcn\"\nhidden = 2\nlayers = 3"),
    ("gcn, residual", "kind = \"gcn\"\nlayers = 4\nresidual = true\nactivation = \"elu\""),
    ("gcn, layer norm", "kind = \"gcn\"\nlayers = 3\nnorm = \"layer\""),
    ("gcn, batch norm", "kind = \"gcn\"\nlayers = 3\nnorm = \"batch\""),
    ("gin, batch norm", "kind = \"gin\"\nnorm = \"batch\"\nresidual = true\nlayers = 3"),
    ("gcn, jumping, side by side", "kind = \"gcn\"\nlayers = 2\njumping = \"concat\""),
    ("sage, jumping, added", "kind = \"sage\"\nlayers = 3\njumping = \"sum\"\nactivation = \"tanh\""),
    ("gin, jumping, one layer", "kind = \"gin\"\nlayers = 1\njumping = \"sum\""),
    (
        "all together",
        "hidden = 6\n[[layers]]\nkernel = \"sage\"\nnorm = \"layer\"\n[[layers]]\nkernel = \"gin\"\nresidual = true\n\
         [[layers]]\nkernel = \"gcn\"\nactivation = \"sigmoid\"\nresidual = true\n[[layers]]\nkernel = \"sgc\"\nhops = 2\nwidth = 5\n\
         [[layers]]\nkernel = \"linear\"\njumping = \"concat\"\nactivation = \"identity\"\n[[layers]]\nkernel = \"appnp\"\nhops = 3\n",
    ),
    ("gcn, several labels", "kind = \"gcn\"\nloss = \"binary-cross-entropy\""),
    ("sage, numbers", "kind = \"sage\"\nloss = \"squared-error\""),
    ("gatv2, numbers", "kind = \"gatv2\"\nheads = 2\nloss = \"absolute-error\""),
    (
        "a residual last layer",
        "[[layers]]\nkernel = \"linear\"\nwidth = 4\n[[layers]]\nkernel = \"sage\"\nresidual = true\nnorm = \"l2\"\n",
    ),
    (
        "propagation in the middle",
        "[[layers]]\nkernel = \"linear\"\nwidth = 7\n[[layers]]\nkernel = \"appnp\"\nhops = 2\ndropout = 0.25\nactivation = \"relu\"\n\
         [[layers]]\nkernel = \"gcn\"\n",
    ),
    ("gcn, weighted", "kind = \"gcn\"\nedge_weights = 0"),
    ("gcn, weighted, gathered once", "kind = \"gcn\"\nedge_weights = 1\ndropout = 0"),
    ("sage, weighted", "kind = \"sage\"\nedge_weights = 2\nlayers = 3\nhidden = 3"),
    ("gin, weighted", "kind = \"gin\"\nedge_weights = 2\nepsilon = 0.1"),
    ("sgc, weighted", "kind = \"sgc\"\nedge_weights = 0"),
    ("appnp, weighted", "kind = \"appnp\"\nhops = 3\nedge_weights = 1"),
    ("gatv2, told of edges", "kind = \"gatv2\"\nheads = 2\nedge_features = true"),
    (
        "weights and features of edges",
        "hidden = 6\nedge_weights = 0\n[[layers]]\nkernel = \"gcn\"\n[[layers]]\nkernel = \"gatv2\"\nheads = 3\naverage = true\n\
         attention_dropout = 0.3\nedge_features = true\n[[layers]]\nkernel = \"gatv2\"\nheads = 1\n",
    ),
    ("links, gcn", "kind = \"gcn\""),
    ("links, sage without bias", "kind = \"sage\"\nbias = false\ndropout = 0"),
    ("links, gat", "kind = \"gat\"\nlayers = 1"),
    ("links, gcn, weighted, gathered once", "kind = \"gcn\"\nedge_weights = 0\ndropout = 0"),
    ("links, jumping", "kind = \"gatv2\"\nhidden = 6\nheads = 3\njumping = \"concat\"\nresidual = true"),
    ("graphs, gin, sum", "kind = \"gin\"\nreadout = \"sum\""),
    ("graphs, gcn, mean", "kind = \"gcn\"\nreadout = \"mean\"\nlayers = 3\nhidden = 5"),
    ("graphs, sage, max", "kind = \"sage\"\nreadout = \"max\"\ndropout = 0"),
    (
        "graphs, gat, one layer, jumping",
        "kind = \"gat\"\nheads = 2\nlayers = 1\njumping = \"concat\"\nreadout = \"mean\"",
    ),
    ("graphs, gin, batch norm", "kind = \"gin\"\nreadout = \"sum\"\nnorm = \"batch\""),
    (
        "graphs, batch norm behind the readout",
        "hidden = 6\n[[layers]]\nkernel = \"sage\"\nnorm = \"batch\"\n[[layers]]\nkernel = \"readout\"\nreadout = \"mean\"\n\
         [[layers]]\nkernel = \"linear\"\nnorm = \"batch\"\n[[layers]]\nkernel = \"linear\"\n",
    ),
    (
        "graphs, two layers behind the readout",
        "hidden = 6\n[[layers]]\nkernel = \"linear\"\n[[layers]]\nkernel = \"appnp\"\nhops = 2\n[[layers]]\nkernel = \"readout\"\n\
         readout = \"sum\"\ndropout = 0.25\nactivation = \"tanh\"\n[[layers]]\nkernel = \"linear\"\nnorm = \"layer\"\nresidual = true\n\
         [[layers]]\nkernel = \"linear\"\n",
    ),
    ("sage, weighted, gathered once", "kind = \"sage\"\nedge_weights = 1\ndropout = 0"),
    ("gin, gathered once", "kind = \"gin\"\nepsilon = 0.25\ndropout = 0"),
    ("gcn, pair norm", "kind = \"gcn\"\nlayers = 4\nnorm = \"pair\""),
    (
        "sage, pair norm",
        "kind = \"sage\"\nnorm = \"pair\"\nresidual = true\nlayers = 3\nactivation = \"tanh\"",
    ),
    (
        "graphs, pair norm behind the readout",
        "hidden = 6\n[[layers]]\nkernel = \"gin\"\nnorm = \"pair\"\n[[layers]]\nkernel = \"readout\"\nreadout = \"mean\"\n\
         [[layers]]\nkernel = \"linear\"\nnorm = \"pair\"\n[[layers]]\nkernel = \"linear\"\n",
    ),
    ("gcn, weights of classes", "kind = \"gcn\""),
    ("sage, balanced, focal", "kind = \"sage\"\nclass_weights = \"balanced\"\nfocal = 2"),
    ("gat, focal", "kind = \"gat\"\nheads = 2\nfocal = 0.5"),
    (
        "graphs, gin, balanced, focal",
        "kind = \"gin\"\nreadout = \"sum\"\nclass_weights = \"balanced\"\nfocal = 1",
    ),
    ("edges, sage", "kind = \"sage\"\nreadout = \"ends\"\nedge_features = true"),
    (
        "edges, gcn, balanced",
        "kind = \"gcn\"\nreadout = \"ends\"\nedge_features = false\nclass_weights = \"balanced\"\ndropout = 0",
    ),
    (
        "edges, gatv2, numbers",
        "kind = \"gatv2\"\nhidden = 6\nheads = 3\nreadout = \"ends\"\nedge_features = true\nloss = \"squared-error\"",
    ),
    ("edges, gin, several labels", "kind = \"gin\"\nreadout = \"source\"\nloss = \"binary-cross-entropy\""),
    (
        "edges, targets",
        "hidden = 6\n[[layers]]\nkernel = \"gcn\"\n[[layers]]\nkernel = \"readout\"\nreadout = \"target\"\ndropout = 0.25\n\
         activation = \"tanh\"\n[[layers]]\nkernel = \"linear\"\nnorm = \"layer\"\nresidual = true\n[[layers]]\nkernel = \"linear\"\n",
    ),
    (
        "edges, norms on both sides of the readout",
        "hidden = 6\n[[layers]]\nkernel = \"sage\"\nnorm = \"batch\"\n[[layers]]\nkernel = \"readout\"\nreadout = \"ends\"\n\
         edge_features = true\n[[layers]]\nkernel = \"linear\"\nnorm = \"batch\"\n[[layers]]\nkernel = \"linear\"\n",
    ),
];

/// Returns true if the environment requests the long form of the tests.
fn is_campaign() -> bool {
    std::env::var_os("ECITON_CAMPAIGN").is_some()
}

const CLASSES: u32 = 4;
/// Vertices of a graph, where there are many.
const SIZE: u32 = 9;
/// Features of an edge.
const KNOWN: u32 = 3;

struct Case {
    what: String,
    config: Config,
    dataset: Dataset,
    job: Value,
}

impl Case {
    /// A directed graph whose last tenth has no edge, and whose next tenth has none that comes in.
    fn new(name: &str, text: &str, seed: u64) -> Self {
        let numbers = &mut Numbers(seed);
        let (vertices, columns) = (70 + numbers.below(100), 5 + numbers.below(20));
        let (linked, reached) = (vertices - vertices / 10, vertices - vertices / 5);
        let mut edges: Vec<(u32, u32)> =
            (0..3 * linked).map(|_| (numbers.below(linked), numbers.below(reached))).collect();
        let many = name.starts_with("graphs");
        if many {
            // To a vertex of the same graph.
            edges
                .iter_mut()
                .for_each(|(from, to)| *to = (*from / SIZE * SIZE + *to % SIZE).min(vertices - 1));
        }
        edges.extend([(3, 3), edges[0]]);
        // Two columns of numbers that are not negative, one of any.
        let drawn = &mut Numbers(seed ^ 77);
        let column = |at| if at % KNOWN == 2 { drawn.value() } else { drawn.value().abs() };
        let known_of_edges: Vec<f32> = (0..edges.len() as u32 * KNOWN).map(column).collect();
        let values: Vec<f32> = (0..vertices * columns)
            .map(|_| if numbers.below(3) == 0 { numbers.value() } else { 0.0 })
            .collect();
        let settings = ModelSettings::parse(text, name).unwrap();
        let task = task(name, &settings);
        // Labelled edges may be fewer or more than vertices.
        let labelled = name.starts_with("edges").then(|| labelled_edges(numbers, vertices));
        let rows = labelled.as_ref().map_or(vertices, |of| of.ends.len() as u32);
        let mut labels = labels(numbers, task, rows);
        if let (true, Labels::Classes { of, .. }) = (many, &mut labels) {
            (0..).zip(of).filter(|(v, _)| v % SIZE > 0).for_each(|(_, label)| *label = NO_LABEL);
        }
        let known = |v: &u32| labels.known(*v as usize);
        let train: Vec<u32> = (0..rows).filter(|_| numbers.below(3) == 0).filter(known).collect();
        let rest: Vec<u32> = (0..rows).filter(|v| !train.contains(v)).filter(known).collect();
        let (validation, test) = rest.split_at(rest.len() / 2);

        let mut config = Config { model: settings, ..Config::default() };
        (config.run.seed, config.run.epochs, config.run.eval_every) = (seed, 1, 0.into());
        config.run.intervals = Some(1 + numbers.below(2));
        config.run.threads = Some(1 + numbers.below(2));
        config.optimiser.weight_decay = WeightDecay::All(1e-3);
        if name.ends_with("weights of classes") {
            config.model.class_weights = Some(ClassWeights::Each(vec![1.0, 0.5, 0.0, 3.0]));
        }
        if name.ends_with("gathered once") {
            config.run.gather_features = GatherFeatures::Once;
        }
        if task == TaskType::LinkPrediction {
            config.data.task = Some(task);
            config.links =
                Links { embedding: CLASSES, validation: 0.0, test: 0.0, negatives: 2, ..Links::default() };
        }
        let model = Model::resolve(&config.model, columns, CLASSES, task).unwrap();
        let layers: Vec<Value> = model.layers.iter().map(layer).collect();
        let mut job = json!({
            "vertices": vertices, "edges": edges, "labels": as_json(&labels), "loss": model.loss.name(), "train": train, "layers": layers,
            "features": values.chunks(columns as usize).collect::<Vec<_>>(),
            "edge_features": known_of_edges.chunks(KNOWN as usize).collect::<Vec<_>>(), "edge_weights": model.edge_weights,
            "seed": seed, "slope": f64::from(0.2f32),
            "optimiser": {"kind": "adam", "lr": config.optimiser.lr, "weight_decay": 1e-3},
        });
        job["class_weights"] = serde_json::to_value(&config.model.class_weights).unwrap();
        job["focal"] = model.focal.into();
        if config.predicts_links() {
            job["links"] = json!({"negatives": config.links.negatives});
        }
        if let Some(LabelledEdges { ends, features: Some(features), .. }) = &labelled {
            let Features::Dense(dense) = features else { panic!("{what}", what = name) };
            let rows: Vec<&[f32]> = (0..ends.len()).map(|row| dense.view().row(row)).collect();
            job["labelled_edges"] = json!({"ends": ends, "features": rows});
        }
        let graph_of: Vec<u64> = (0..vertices).map(|v| u64::from(v / SIZE)).collect();
        if many {
            job["graphs"] = json!(graph_of);
        }
        let graphs = many.then(|| Graphs::new(&graph_of).unwrap());
        let features = Features::dense(columns, &values).unwrap();
        let features = if seed.is_multiple_of(2) { as_sparse(&features) } else { features };
        let options = GraphOptions { symmetric: false, keep_self_loops: false };
        let graph = Graph::from_edges(u64::from(vertices), edges.iter().copied(), options).unwrap();
        assert!(!graph.symmetric());
        let edge_features = EdgeFeatures::placed(&graph, &edges, KNOWN, &known_of_edges, options).unwrap();
        let (name, ids) = ("random".to_owned(), VertexIds::Dense);
        let split = Split { train, validation: validation.to_vec(), test: test.to_vec() };
        let edge_features = Some(edge_features);
        let dataset =
            Dataset { edge_features, graphs, ids, ..Dataset::new(name, graph, features, labels, split) };
        let dataset = Dataset { labelled_edges: labelled, ..dataset };
        dataset.validate().unwrap();
        Self { what: format!("{text}, seed {seed}"), config, dataset, job }
    }

    fn train(&self, epochs: u32) -> FirstEpoch {
        trained(&self.what, &self.config, &self.dataset, epochs, Recording::default())
    }

    fn oracle(&self, python: &str, first: &FirstEpoch, epochs: u32) -> Value {
        let mut job = self.job.clone();
        job["epochs"] = epochs.into();
        let mut parameters = serde_json::Map::new();
        for tensor in &first.parameters {
            let value = match tensor.shape[..] {
                [_] => json!(tensor.values),
                [_, columns] => json!(tensor.values.chunks(columns).collect::<Vec<_>>()),
                _ => panic!("{:?}", tensor.shape),
            };
            parameters.insert(tensor.name.clone(), value);
        }
        job["parameters"] = parameters.into();
        ask(&self.what, python, "zoo.py", &job)
    }

    fn close(&self, what: &str, found: &[f64], expected: &[f64]) {
        assert_close(CLOSE, &format!("{}: {what}", self.what), found, expected);
    }
}

/// The task that a model is for.
fn task(name: &str, settings: &ModelSettings) -> TaskType {
    match settings.loss {
        None if name.starts_with("links") => TaskType::LinkPrediction,
        None | Some(Loss::CrossEntropy) => TaskType::Classification,
        Some(Loss::BinaryCrossEntropy) => TaskType::MultiLabel,
        Some(Loss::SquaredError | Loss::AbsoluteError) => TaskType::Regression,
    }
}

/// Some pairs of vertices, in any order, of which some are there several times, with features.
fn labelled_edges(numbers: &mut Numbers, vertices: u32) -> LabelledEdges {
    let count = 30 + numbers.below(2 * vertices);
    let ends = (0..count).map(|_| (numbers.below(vertices), numbers.below(vertices / 2))).collect();
    let values: Vec<f32> = (0..count * KNOWN).map(|_| numbers.value()).collect();
    let features = Some(Features::dense(KNOWN, &values).unwrap());
    // The values are used as they are.
    let moments = Moments { mean: vec![0.0; KNOWN as usize], deviation: vec![1.0; KNOWN as usize] };
    LabelledEdges { ends, features, scaling: Scaling::Columns(Arc::new(moments)) }
}

/// A class a vertex, or values of which a fifth are unknown.
fn labels(numbers: &mut Numbers, task: TaskType, vertices: u32) -> Labels {
    let mut values = |of: fn(&mut Numbers) -> f32| {
        let value = |_| if numbers.below(5) == 0 { f32::NAN } else { of(numbers) };
        Values::new(CLASSES, (0..vertices * CLASSES).map(value).collect()).unwrap()
    };
    match task {
        TaskType::MultiLabel => Labels::Flags(values(|numbers| numbers.below(2) as f32)),
        TaskType::Regression => Labels::Numbers(values(Numbers::value)),
        TaskType::Classification | TaskType::LinkPrediction => {
            Labels::classes((0..vertices).map(|_| numbers.below(CLASSES)).collect(), CLASSES)
        }
    }
}

/// Labels as the oracle reads them: `null` is unknown.
fn as_json(labels: &Labels) -> Value {
    match (labels.as_classes(), labels.as_values()) {
        (Some(classes), _) => json!(classes),
        (_, Some(values)) => (0..values.rows()).map(|row| json!(values.row(row))).collect(),
        _ => Value::Null,
    }
}

/// A layer as the oracle reads it.
fn layer(layer: &eciton_recipe::ModelLayer) -> Value {
    let mut value = json!({
        "kernel": layer.kind.name(), "width": layer.width, "activation": layer.activation.name(),
        "dropout": layer.dropout, "bias": layer.bias, "norm": layer.norm.name(), "residual": layer.residual,
        "edge_features": layer.edge_features,
    });
    match layer.kind {
        LayerKind::Sage { aggregator } => value["aggregator"] = serde_json::to_value(aggregator).unwrap(),
        LayerKind::Gin { epsilon, trained } => {
            (value["epsilon"], value["train_epsilon"]) = (epsilon.into(), trained.into());
        }
        LayerKind::Sgc { hops } => value["hops"] = hops.into(),
        LayerKind::Readout(readout) => value["readout"] = serde_json::to_value(readout).unwrap(),
        LayerKind::Appnp { hops, alpha } => (value["hops"], value["alpha"]) = (hops.into(), alpha.into()),
        LayerKind::Gat(of) | LayerKind::Gatv2(of) => {
            (value["heads"], value["average"]) = (of.heads.into(), of.average.into());
            (value["slope"], value["attention_dropout"]) = (of.slope.into(), of.dropout.into());
        }
        LayerKind::Linear { jumping: Some(jumping) } => {
            value["jumping"] = serde_json::to_value(jumping).unwrap();
        }
        _ => {}
    }
    value
}

#[test]
fn losses_and_gradients_are_the_oracles() {
    let Some(python) = python("tests/models.rs") else { return };
    for (at, (name, text)) in (0u64..).zip(MODELS) {
        // Features are sparse where the seed is even, and dense where it is odd.
        let seeds = [2 * at, 2 * at + 1];
        for seed in if is_campaign() { &seeds[..] } else { &seeds[at as usize % 2..][..1] } {
            let case = Case::new(name, text, 500 + seed);
            let found = case.train(1);
            let curve = case.train(10);
            let expected = case.oracle(&python, &found, 10);
            case.close("loss", &found.losses, &[expected["loss"].as_f64().unwrap()]);
            let named = expected["gradients"].as_object().unwrap();
            assert_eq!(named.len(), found.gradients.len(), "{}", case.what);
            let losses = flat(&expected["losses"]);
            for gradient in &found.gradients {
                let values: Vec<f64> = gradient.values.iter().map(|&v| f64::from(v)).collect();
                case.close(&gradient.name, &values, &flat(&named[&gradient.name]));
            }
            for (epoch, (found, expected)) in curve.losses.iter().zip(&losses).enumerate() {
                case.close(&format!("loss of epoch {epoch}"), &[*found], &[*expected]);
            }
        }
    }
}

#[test]
fn first_values_of_a_layers_products_differ() {
    let found = Case::new("sage", "kind = \"sage\"", 3).train(1);
    let named = |name: &str| found.parameters.iter().find(|p| p.name == name).unwrap();
    let (own, neighbour) = (named("layers.0.self.weight"), named("layers.0.neighbour.weight"));
    assert_eq!(own.shape, neighbour.shape);
    let same = own.values.iter().zip(&neighbour.values).filter(|(a, b)| a == b).count();
    assert_eq!(same, 0, "of {}", own.values.len());
}

fn bits(config: &Config, what: &str) -> (String, Vec<u64>) {
    let (summary, losses) = train(config, &options()).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(losses.iter().all(|l| l.is_finite()), "{what}: {losses:?}");
    (summary.model_digest, losses.iter().map(|l| l.to_bits()).collect())
}

fn with((name, text): (&str, &str), intervals: u32, threads: u32, mode: Mode, epochs: u32) -> Config {
    let mut config = cora(epochs);
    config.model = ModelSettings::parse(text, "model").unwrap();
    config.data.task = Some(task(name, &config.model));
    (config.run.threads, config.run.intervals) = (Some(threads), Some(intervals));
    config.pipeline = Pipeline { mode, ..Pipeline::default() };
    config
}

/// Those that fit Cora: 7 classes, which can be taken for numbers; it is one graph, and nothing is known of its
/// edges.
fn fitting() -> impl Iterator<Item = (&'static str, &'static str)> {
    let others = ["a residual last layer", "gcn, several labels"];
    let fits = move |(name, text): &(&str, &str)| {
        !others.contains(name) && !text.contains("edge_") && !text.contains("readout")
    };
    MODELS.into_iter().filter(fits)
}

#[test]
fn edges_that_are_known_and_many_graphs_are_the_same_for_any_cut() {
    let others = |(_, (_, text)): &(u64, (&str, &str))| text.contains("edge_") || text.contains("readout");
    for (at, (name, text)) in (0u64..).zip(MODELS).filter(others) {
        let mut case = Case::new(name, text, 900 + at);
        let mut run = |intervals, threads, executor, labelled| {
            let of = &mut case.config;
            (of.run.intervals, of.run.threads) = (Some(intervals), Some(threads));
            (of.executor.kind, of.run.labelled_gathers) = (executor, labelled);
            if executor == ExecutorKind::Loopback {
                of.executor.edge_kernels = EdgePlace::Functions;
            }
            let found = case.train(4);
            let gradients = found.gradients.iter().flat_map(|gradient| &gradient.values);
            let bits: Vec<u32> = gradients.map(|value| value.to_bits()).collect();
            (found.losses.iter().map(|loss| loss.to_bits()).collect::<Vec<_>>(), bits)
        };
        let (always, never) = (LabelledGathers::Always, LabelledGathers::Never);
        let wanted = run(1, 1, ExecutorKind::Local, never);
        assert_eq!(run(2, 2, ExecutorKind::Local, never), wanted, "{name}");
        assert_eq!(run(2, 1, ExecutorKind::Local, always), wanted, "{name}, labelled lists");
        assert_eq!(run(2, 2, ExecutorKind::Loopback, always), wanted, "{name}, in messages");
    }
}

#[test]
fn no_model_depends_on_threads_intervals_barriers_or_functions() {
    for (at, (name, text)) in fitting().enumerate() {
        let wanted = bits(&with((name, text), 1, 1, Mode::Pipe, 2), name);
        let cuts = [(64, 2, Mode::Pipe), (7, 2, Mode::Sync)];
        for &(intervals, threads, mode) in if is_campaign() { &cuts[..] } else { &cuts[at % 2..][..1] } {
            let found = bits(&with((name, text), intervals, threads, mode, 2), name);
            assert_eq!(found, wanted, "{name}: {intervals} intervals, {threads} threads, {mode:?}");
        }
        let mut config = with((name, text), 3, 2, Mode::Pipe, 2);
        (config.executor.kind, config.executor.edge_kernels) = (ExecutorKind::Loopback, EdgePlace::Functions);
        assert_eq!(bits(&config, name), wanted, "{name}, in messages");
    }
}

#[test]
fn intervals_that_run_apart_learn_all_the_same() {
    for (name, text) in fitting() {
        // Embeddings grow before they tell anything, and each epoch has other pairs.
        let (epochs, share) = if name.starts_with("links") { (60, 0.9998) } else { (12, 1.0) };
        let mut config = with((name, text), 6, 2, Mode::Async, epochs);
        (config.pipeline.staleness, config.model.dropout) = (1, 0.0);
        let (_, losses) = train(&config, &options()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let least = losses[losses.len() / 2..].iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least < share * losses[0], "{name}: {losses:?}");
    }
}

#[test]
fn features_gathered_before_are_the_same_model() {
    let models = [
        ("sgc", "kind = \"sgc\"\nhops = 3\ndropout = 0"),
        ("sage", "kind = \"sage\"\ndropout = 0"),
        ("gin", "kind = \"gin\"\nepsilon = 0.5\ndropout = 0"),
    ];
    for model in models {
        let run = |when, executor| {
            let mut config = with(model, 2, 2, Mode::Pipe, 20);
            (config.run.gather_features, config.executor.kind) = (when, executor);
            let (summary, losses) = train(&config, &options()).unwrap_or_else(|e| panic!("{}: {e}", model.0));
            (summary.model_digest, losses)
        };
        let (weights, once) = run(GatherFeatures::Once, ExecutorKind::Local);
        let each = run(GatherFeatures::EachEpoch, ExecutorKind::Local).1;
        assert!(once[19] < once[0], "{}", model.0);
        assert_ne!(once, each, "{}: sums in another order", model.0);
        for (a, b) in once.iter().zip(&each) {
            assert!((a - b).abs() <= 1e-5 * a.abs(), "{}: {once:?}, {each:?}", model.0);
        }
        assert_eq!(run(GatherFeatures::Once, ExecutorKind::Loopback), (weights, once), "{}", model.0);
    }
}
