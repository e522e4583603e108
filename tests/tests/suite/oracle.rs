//! Whole small models against `tests/oracle/gcn.py`, an f64 implementation in NumPy: first values,
//! loss, gradients, and the losses of 20 epochs.
//!
//! It needs a python3 with numpy (`ECITON_PYTHON`, else `python3`). Where there is none the tests say
//! that they were skipped; with the variable `CI` set they fail instead.

use crate::numpy::{as_sparse, ask, assert_close, flat, trained};
use eciton_graph::adjacency::{Graph, Options as GraphOptions};
use eciton_graph::dataset::{Dataset, Features, Labels, Split};
use eciton_recipe::{
    Activation, Algorithm, Config, GatherFeatures, LayerSettings, Layers, Pipeline, WeightDecay,
    WeightVersions,
};
use eciton_tests::Numbers;
use eciton_train::Recording;
use eciton_train::inspect::FirstEpoch;
use eciton_types::{Atoms, Intervals};
use serde_json::{Value, json};

/// What relative difference, by norm, f32 may have from f64.
const CLOSE: f64 = 1e-4;

/// The interpreter, or none after saying so.
fn python() -> Option<String> {
    eciton_tests::python("tests/oracle.rs")
}

/// A random data set and its configuration, and the same as the oracle reads it.
struct Case {
    what: String,
    config: Config,
    dataset: Dataset,
    job: Value,
    widths: Vec<u32>,
}

impl Case {
    fn new(
        seed: u64,
        layers: usize,
        dropout: f64,
        bias: bool,
        activation: Activation,
        algorithm: Algorithm,
    ) -> Self {
        let numbers = &mut Numbers(seed);
        let (vertices, columns, classes) =
            (40 + numbers.below(200), 5 + numbers.below(40), 2 + numbers.below(6));
        // The last tenth has no edge; some edges are loops or come twice.
        let linked = vertices - vertices / 10;
        let mut edges: Vec<(u32, u32)> =
            (0..2 * linked).map(|_| (numbers.below(linked), numbers.below(linked))).collect();
        edges.extend([(3, 3), edges[0], (edges[1].1, edges[1].0)]);
        let filled = 1 + numbers.below(4);
        let values: Vec<f32> = (0..vertices * columns)
            .map(|_| if numbers.below(4) < filled { numbers.value() } else { 0.0 })
            .collect();
        let labels: Vec<u32> = (0..vertices).map(|_| numbers.below(classes)).collect();
        let train: Vec<u32> = (0..vertices).filter(|_| numbers.below(3) == 0).collect();
        let rest: Vec<u32> = (0..vertices).filter(|v| !train.contains(v)).collect();
        let (validation, test) = rest.split_at(rest.len() / 2);
        let mut widths = vec![columns];
        widths.extend((1..layers).map(|_| 3 + numbers.below(20)));
        widths.push(classes);

        let mut config = Config::default();
        let layer = |width: Option<u32>| LayerSettings { width, ..LayerSettings::gcn() };
        let hidden = widths[1..layers].iter().map(|&w| layer(Some(w)));
        config.model.layers = Layers::List(hidden.chain([layer(None)]).collect());
        (config.model.dropout, config.model.bias, config.model.activation) =
            (dropout, bias, Some(activation));
        // The slope that `linear` has on its way in: with another one, kernel `activate` stands between the layers.
        config.model.activation_slope = activation.slope().map(|_| 0.2);
        (config.run.seed, config.run.epochs, config.run.eval_every) = (seed, 1, 0.into());
        config.run.intervals = (vertices > 64 && seed.is_multiple_of(2)).then_some(2);
        config.run.threads = Some(1 + numbers.below(2));
        config.optimiser.algorithm = algorithm;
        let decays: Vec<f64> = (0..layers).map(|l| if l == 0 { 5e-3 } else { 0.0 }).collect();
        config.optimiser.weight_decay = WeightDecay::Layers(decays.clone());
        config.optimiser.lr = if matches!(algorithm, Algorithm::Sgd { .. }) { 0.2 } else { 0.01 };
        let optimiser = match algorithm {
            Algorithm::Sgd { momentum, nesterov } => {
                json!({"kind": "sgd", "momentum": momentum, "nesterov": nesterov})
            }
            Algorithm::Adam { beta1, beta2, epsilon } | Algorithm::AdamW { beta1, beta2, epsilon } => {
                json!({"kind": algorithm.name(), "betas": [beta1, beta2], "eps": epsilon})
            }
        };
        let mut job = json!({
            "vertices": vertices, "edges": edges, "labels": labels, "train": train,
            "features": values.chunks(columns as usize).collect::<Vec<_>>(),
            "hidden": widths[1..layers], "classes": classes, "bias": bias,
            "seed": seed, "dropout": dropout, "activation": activation.name(), "slope": f64::from(0.2f32),
            "optimiser": optimiser,
        });
        job["optimiser"]["lr"] = config.optimiser.lr.into();
        job["optimiser"]["weight_decay"] = decays.into();
        // Both kinds of storage, whatever is in them.
        let features = Features::dense(columns, &values).unwrap();
        let features = if seed.is_multiple_of(3) { as_sparse(&features) } else { features };
        let options = GraphOptions { symmetric: true, keep_self_loops: false };
        let graph = Graph::from_edges(u64::from(vertices), edges.into_iter(), options).unwrap();
        let split = Split { train, validation: validation.to_vec(), test: test.to_vec() };
        let dataset =
            Dataset::new("random".to_owned(), graph, features, Labels::classes(labels, classes), split);
        dataset.validate().unwrap();
        let what = format!(
            "seed {seed}, widths {widths:?}, dropout {dropout}, bias {bias}, {activation:?}, {algorithm:?}"
        );
        Self { what, config, dataset, job, widths }
    }

    fn train(&self, epochs: u32) -> FirstEpoch {
        trained(&self.what, &self.config, &self.dataset, epochs, Recording::default())
    }

    fn oracle(&self, python: &str, epochs: u32) -> Value {
        let mut job = self.job.clone();
        job["epochs"] = epochs.into();
        ask(&self.what, python, "gcn.py", &job)
    }

    /// A run whose intervals run apart, and what the oracle makes of the order of its events.
    fn apart(&self, python: &str, pipeline: Pipeline, epochs: u32) -> (Vec<f64>, Value) {
        let folder = tempfile::tempdir().unwrap();
        let events = folder.path().join("events");
        let (mut config, graph) = (self.config.clone(), &self.dataset.graph);
        let atoms = Atoms::new(graph.offsets()).unwrap();
        let cut = Intervals::new(&atoms, atoms.count()).unwrap();
        config.run.intervals = Some(atoms.count());
        config.run.threads = Some(3);
        config.run.gather_features = GatherFeatures::EachEpoch;
        config.pipeline = pipeline;
        let recording = Recording { events: Some(events.clone()), ..Recording::default() };
        let found = trained(&self.what, &config, &self.dataset, epochs, recording);
        let mut job = self.job.clone();
        let mut cuts: Vec<u32> = cut.ids().map(|id| cut.rows(id).start).collect();
        cuts.push(graph.vertices());
        assert!(cuts.len() > 2, "{}: one interval", self.what);
        (job["cuts"], job["events"]) = (cuts.into(), events.to_str().unwrap().into());
        job["staleness"] = pipeline.staleness.into();
        job["weights"] =
            if pipeline.weights() == WeightVersions::TwoBuffered { "2bw" } else { "stash" }.into();
        (found.losses, ask(&self.what, python, "apart.py", &job))
    }

    /// Has the oracle begin with a run's first values; biases start at zero.
    fn begin_with(&mut self, found: &FirstEpoch) {
        let layer = |l: usize| {
            let name = format!("layers.{l}.weight");
            let weight = found.parameters.iter().find(|tensor| tensor.name == name).unwrap();
            let rows: Vec<&[f32]> = weight.values.chunks(weight.shape[1]).collect();
            json!({"weight": rows, "bias": vec![0.0; weight.shape[1]]})
        };
        self.job["parameters"] = (0..self.widths.len() - 1).map(layer).collect::<Vec<_>>().into();
    }

    /// The value of the oracle at a tensor's name, flat.
    fn expected(&self, of: &Value, name: &str) -> Vec<f64> {
        let layer = (0..self.widths.len() - 1).find(|l| name.split('.').any(|p| p == l.to_string())).unwrap();
        let kind = name.rsplit('.').next().unwrap();
        flat(&of[layer][kind])
    }

    fn close(&self, what: &str, found: &[f64], expected: &[f64]) {
        assert_close(CLOSE, &format!("{}: {what}", self.what), found, expected);
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

#[test]
fn loss_and_gradients() {
    let Some(python) = python() else { return };
    let mut seed = 100;
    for (_, activation) in Activation::ALL {
        for layers in [2, 3] {
            let (dropout, bias) = ([0.0, 0.5][seed as usize % 2], seed % 4 < 2);
            let mut case = Case::new(seed, layers, dropout, bias, activation, Algorithm::adam());
            let leaky = activation.slope().filter(|_| layers == 3);
            if let Some(slope) = leaky {
                case.config.model.activation_slope = None;
                case.job["slope"] = f64::from(slope as f32).into();
            }
            let found = case.train(1);
            let smooth = matches!(
                activation,
                Activation::Gelu | Activation::GeluTanh | Activation::Silu | Activation::Softplus
            );
            if smooth || leaky.is_some() {
                // Kernel `activate` has the bias, so that the product's weight is drawn as its first parameter.
                case.begin_with(&found);
            }
            let expected = case.oracle(&python, 0);
            assert_eq!(found.parameters.len(), if bias { 2 * layers } else { layers }, "{}", case.what);
            case.close("loss", &found.losses, &[expected["loss"].as_f64().unwrap()]);
            for (parameter, gradient) in found.parameters.iter().zip(&found.gradients) {
                let name = &parameter.name;
                let first = case.expected(&expected["parameters"], name);
                case.close(&format!("first {name}"), &wide(&parameter.values), &first);
                let want = case.expected(&expected["gradients"], name);
                case.close(&format!("gradient of {name}"), &wide(&gradient.values), &want);
            }
            seed += 1;
        }
    }
}

#[test]
fn curves_of_twenty_epochs() {
    let Some(python) = python() else { return };
    let mut seed = 200;
    let algorithms = [
        Algorithm::adam(),
        Algorithm::adamw(),
        Algorithm::Sgd { momentum: 0.9, nesterov: false },
        Algorithm::Sgd { momentum: 0.8, nesterov: true },
    ];
    for algorithm in algorithms {
        for layers in [2, 3] {
            for dropout in [0.5, 0.0] {
                let activation = Activation::ALL[1 + seed as usize % 5].1;
                let case = Case::new(seed, layers, dropout, seed % 3 != 1, activation, algorithm);
                let expected = case.oracle(&python, 20);
                let found = case.train(20);
                let losses = flat(&expected["losses"]);
                assert_eq!(found.losses.len(), 20, "{}", case.what);
                for (epoch, (found, expected)) in found.losses.iter().zip(&losses).enumerate() {
                    case.close(&format!("loss of epoch {epoch}"), &[*found], &[*expected]);
                }
                assert!(losses[19] < losses[0], "{}: it learns", case.what);
                seed += 1;
            }
        }
    }
}

/// Bounded asynchrony, from the order of events alone: what is read of whom, under which weights.
#[test]
fn runs_whose_intervals_run_apart() {
    let Some(python) = python() else { return };
    let two_buffered = Some(WeightVersions::TwoBuffered);
    let mut ages = std::collections::BTreeSet::new();
    for (round, seed) in (300u64..).enumerate().take(40) {
        let (staleness, weights) = [(0, None), (1, None), (3, None), (1, two_buffered)][round % 4];
        let pipeline = Pipeline { weights, in_flight: Some(0), ..Pipeline::asynchronous(staleness) };
        let activation = Activation::ALL[1 + round % 5].1;
        let algorithm = [Algorithm::Sgd { momentum: 0.9, nesterov: false }, Algorithm::adam()][round % 2];
        let dropout = [0.5, 0.0][round / 2 % 2];
        let case = Case::new(seed, 2 + round % 2, dropout, round % 3 != 1, activation, algorithm);
        // Where a layer widens it gathers first: other stages than the oracle's.
        let widens = case.widths[1..].windows(2).any(|pair| pair[0] < pair[1]);
        if case.dataset.graph.vertices() < 64 || widens {
            continue;
        }
        let (found, expected) = case.apart(&python, pipeline, 20);
        let losses = flat(&expected["losses"]);
        assert_eq!(found.len(), 20, "{}", case.what);
        for (epoch, (found, expected)) in found.iter().zip(&losses).enumerate() {
            case.close(
                &format!("S {staleness}, {weights:?}: loss of epoch {epoch}"),
                &[*found],
                &[*expected],
            );
        }
        ages.extend(expected["ages"].as_object().unwrap().keys().cloned());
    }
    assert!(ages.contains("0") && ages.contains("1"), "{ages:?}");
}
