//! What the sandbox costs: a kernel call, an instance, a pass over tiles of rows, loading a kernel;
//! and whole epochs of a run with components against the same run with native kernels.
//!
//! `cargo bench -p eciton-tests --profile release --features native-kernels --bench cost`
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod harness;

use std::sync::Arc;

use eciton_kernel::cache::Cache;
use eciton_kernel::{
    Call, Instance, Instances, Kernel, Kind, Labelled, Layer, RowNumbers, Runtime, Settings, Target, Targets,
};
use eciton_plan::signature::{Attribute, Value};
use eciton_tensor::{Buffer, Grid, Matrix};
use harness::{heading, is_listed, seconds, size};

const SEED: u64 = 1;

fn component(name: &str) -> &'static [u8] {
    eciton_train::kernels::builtin().iter().find(|b| b.name == name).unwrap().component
}

fn runtime(cache: Option<Cache>) -> Runtime {
    Runtime::new(Settings { cache, ..Settings::default() }).unwrap()
}

fn attribute(name: &str, value: Value) -> Attribute {
    Attribute { name: name.to_owned(), value }
}

fn values(count: usize) -> Vec<f32> {
    let mut random = eciton_graph::random::SplitMix64::new(SEED);
    (0..count).map(|_| random.next_u64() as u32 as f32 / u32::MAX as f32 - 0.5).collect()
}

fn dense(rows: usize, columns: usize) -> Buffer {
    Buffer::from_rows(rows, columns, &values(rows * columns)).unwrap()
}

fn read(buffer: &Buffer) -> Matrix {
    Matrix::from(buffer.read(0..buffer.rows()).unwrap())
}

fn write(buffer: &Buffer) -> Target {
    Target::Rows { rows: buffer.write(0..buffer.rows()).unwrap(), extents: vec![buffer.columns() as u32] }
}

/// A forward task of `linear` from [n, n] to [n, n].
struct Forward {
    x: Buffer,
    w: Buffer,
    y: Buffer,
    grid: Arc<Grid>,
}

impl Forward {
    fn new(n: usize) -> Self {
        let (x, w, y) = (dense(n, n), dense(n, n), Buffer::zeroed(n, n).unwrap());
        Self { x, w, y, grid: Arc::new(Grid::single(n)) }
    }

    fn layer(&self, kernel: &Arc<Kernel>) -> Arc<Layer> {
        let n = self.x.columns() as u32;
        let attributes =
            [attribute("out-features", Value::Integer(i64::from(n))), attribute("bias", Value::Flag(false))];
        kernel.open(&[vec![n]], &attributes).unwrap()
    }

    fn call(&self) -> Call {
        Call {
            kind: Kind::Forward,
            seed: SEED,
            epoch: 0,
            layer: 0,
            training: true,
            grid: self.grid.clone(),
            row_numbers: RowNumbers::From(0),
            inputs: vec![read(&self.x)],
            outputs: vec![],
            kept: vec![],
            parameters: vec![read(&self.w)],
            gradients: vec![],
            output_count: 1,
            rows_out: vec![Some(write(&self.y))],
            sums_out: vec![],
            labelled: None,
        }
    }
}

/// A loss task of `head` over [rows, classes], every row labelled: each row is read and its
/// gradient written by the guest.
struct Loss {
    x: Buffer,
    gradient: Buffer,
    loss: Buffer,
    labelled: Labelled,
    grid: Arc<Grid>,
}

impl Loss {
    fn new(rows: usize, classes: usize) -> Self {
        let labels: Arc<[u32]> = (0..rows as u32).map(|r| r % classes as u32).collect();
        let targets = Targets::Classes(labels);
        let (counting, weight) = ((0..rows as u32).collect(), 1.0 / rows as f32);
        let labelled = Labelled { targets, rows: counting, weight, row_weights: None };
        let (x, gradient) = (dense(rows, classes), Buffer::zeroed(rows, classes).unwrap());
        Self {
            x,
            gradient,
            loss: Buffer::zeroed(1, 1).unwrap(),
            labelled,
            grid: Arc::new(Grid::single(rows)),
        }
    }

    fn layer(&self, kernel: &Arc<Kernel>) -> Arc<Layer> {
        kernel.open(&[vec![self.x.columns() as u32]], &[attribute("bias", Value::Flag(false))]).unwrap()
    }

    fn call(&self) -> Call {
        Call {
            kind: Kind::Loss,
            seed: SEED,
            epoch: 0,
            layer: 0,
            training: true,
            grid: self.grid.clone(),
            row_numbers: RowNumbers::From(0),
            inputs: vec![read(&self.x)],
            outputs: vec![],
            kept: vec![],
            parameters: vec![],
            gradients: vec![],
            output_count: 0,
            rows_out: vec![Some(write(&self.gradient))],
            sums_out: vec![Target::Sums { parts: vec![self.loss.clone()], shape: vec![1] }],
            labelled: Some(self.labelled.clone()),
        }
    }
}

/// Calls, instances and tiles on one runtime. A native one has no instances to make.
fn parts(runtime: &Runtime, how: &str, is_native: bool) {
    let (linear, cross_entropy) = (
        runtime.load("linear", component("linear")).unwrap(),
        runtime.load("head", component("head")).unwrap(),
    );
    let samples = size(21, 1);
    let forward = Forward::new(4);
    let layer = forward.layer(&linear);
    let mut instances = Instances::new(false);
    let spread = seconds(samples, size(2000, 2), || instances.run(&layer, forward.call()).unwrap());
    spread.times(1e6).row(&format!("{how}: a call, forward on 4 x 4, warm"), "us");
    if !is_native {
        let made = seconds(samples, size(200, 2), || Instance::new(&linear).unwrap());
        made.times(1e6).row(&format!("{how}: an instance"), "us");
        let mut fresh = Instances::new(true);
        let spread = seconds(samples, size(200, 2), || fresh.run(&layer, forward.call()).unwrap());
        spread.times(1e6).row(&format!("{how}: a call on a fresh instance"), "us");
    }
    let (rows, classes) = (size(16384, 64), 64);
    let loss = Loss::new(rows, classes);
    let layer = loss.layer(&cross_entropy);
    let spread = seconds(samples, size(5, 1), || instances.run(&layer, loss.call()).unwrap());
    let what = format!("{how}: a tile pass, head on {rows} x {classes}");
    spread.times(1e3).row(&what, "ms");
    spread.rate((2 * rows * classes * 4) as f64 / 1e9).row("    the same, rows read and written", "GB/s");
}

fn loading() {
    let samples = size(11, 1);
    let bare = runtime(None);
    let spread = seconds(samples, 1, || bare.load("linear", component("linear")).unwrap());
    spread.times(1e3).row("loading `linear`: compiled anew", "ms");
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&folder.path().join("kernels"), &folder.path().join("key")).unwrap();
    let kept = runtime(Some(cache));
    kept.load("linear", component("linear")).unwrap();
    let spread = seconds(samples, size(20, 1), || kept.load("linear", component("linear")).unwrap());
    spread.times(1e3).row("loading `linear`: from the cache", "ms");
    let spread = seconds(samples, 1, || runtime(None));
    spread.times(1e3).row("starting the engine", "ms");
}

/// The floor under a call: making it and the leases it takes, without running it.
fn floor() {
    let forward = Forward::new(4);
    let spread = seconds(size(21, 1), size(20_000, 2), || forward.call());
    spread.times(1e6).row("either: making the call and dropping it", "us");
}

#[cfg(feature = "native-kernels")]
mod epochs {
    use eciton_graph::adjacency::{Graph, Options};
    use eciton_graph::dataset::{Dataset, Features, Labels, Names, Scaling, Split, VertexIds};
    use eciton_graph::random::SplitMix64;
    use eciton_plan::Config;
    use eciton_train::{Silent, Trainer};

    use super::*;
    use crate::harness::{Spread, is_real};

    /// A uniform random graph of this shape, dense features, random labels.
    fn random_dataset(vertices: u32, edges: u64, columns: u32, classes: u32) -> Dataset {
        let mut random = SplitMix64::new(SEED);
        // As many draws of unordered pairs as leave `edges / 2` different ones.
        let pairs = f64::from(vertices) * f64::from(vertices - 1) / 2.0;
        let draws = (-pairs * (1.0 - edges as f64 / 2.0 / pairs).ln()) as usize;
        let n = u64::from(vertices);
        let list: Vec<(u32, u32)> = (0..draws)
            .map(|_| {
                let from = random.below(n);
                (from as u32, ((from + 1 + random.below(n - 1)) % n) as u32)
            })
            .collect();
        let graph = Graph::from_edges(n, list.iter().copied(), Options::default()).unwrap();
        let of = (0..vertices).map(|_| random.below(u64::from(classes)) as u32).collect();
        let labels = Labels::classes(of, classes);
        let split = Split::random(&labels, [0.66, 0.1], SEED);
        let features = Features::dense(columns, &values(vertices as usize * columns as usize)).unwrap();
        let dataset = Dataset::new("random".to_owned(), graph, features, labels, split);
        dataset.validate().unwrap();
        dataset
    }

    /// Median epochs of A and B in turn, A B B A, and their ratio pair by pair.
    fn compare(what: &str, config: &Config, dataset: &Dataset, pairs: usize) {
        let options = eciton_tests::options();
        eciton_kernel::native::set(false);
        let mut wasm = Trainer::new(config, &options, dataset.clone()).unwrap();
        eciton_kernel::native::set(true);
        let native = Trainer::new(config, &options, dataset.clone());
        eciton_kernel::native::set(false);
        let mut native = native.unwrap();
        let epoch = |run: &mut Trainer| {
            run.restart(config.run.seed).unwrap();
            let epochs = run.run(config.run.epochs, &mut Silent).unwrap();
            // The first epochs find cold caches.
            let warm = epochs.iter().skip(epochs.len().div_ceil(5)).map(|epoch| epoch.seconds).collect();
            (Spread::of(warm).median, run.model_digest().unwrap())
        };
        // Once each, not counted.
        assert_eq!(epoch(&mut wasm).1, epoch(&mut native).1, "{what}: the same weights");
        let (mut a, mut b, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..pairs {
            // Whoever goes first finds other caches; they take turns.
            let (x, y) = if pair % 2 == 0 {
                let x = epoch(&mut wasm).0;
                (x, epoch(&mut native).0)
            } else {
                let y = epoch(&mut native).0;
                (epoch(&mut wasm).0, y)
            };
            a.push(x);
            b.push(y);
            ratios.push(x / y);
        }
        let (a, b) = (Spread::of(a), Spread::of(b));
        a.times(1e3).row(&format!("{what}: an epoch with components"), "ms");
        b.times(1e3).row(&format!("{what}: an epoch with native kernels"), "ms");
        Spread::of(ratios).row(&format!("{what}: ratio, {pairs} pairs"), "x");
        // What other processes take is in the medians; least of it is in the quickest.
        println!("{:<58} {:>10.3} x", "    the same, the quickest run of each", a.least / b.least);
    }

    pub fn run() {
        for threads in [1, 2] {
            let mut config = eciton_tests::cora(size(200, 2));
            config.run.threads = Some(threads);
            let cora = eciton_train::load(&config.data).unwrap();
            compare(&format!("Cora, {threads} threads"), &config, &cora, size(20, 1));
        }
        let dataset = match is_real() {
            true => random_dataset(23_297, 11_461_590, 602, 41),
            false => random_dataset(300, 3_000, 20, 5),
        };
        let mut config = eciton_tests::cora(size(4, 2));
        for setting in ["model.hidden=128", "model.dropout=0", "run.threads=2"] {
            config.set(setting).unwrap();
        }
        println!("({} vertices, {} edges, uniform)", dataset.vertices(), dataset.graph.edges());
        compare("a tenth of Reddit, 2 threads", &config, &dataset, size(12, 1));
    }
}

fn main() {
    if is_listed("cost") {
        return;
    }
    heading("What the sandbox costs", SEED);
    floor();
    parts(&runtime(None), "component", false);
    #[cfg(feature = "native-kernels")]
    {
        eciton_kernel::native::set(true);
        let native = runtime(None);
        eciton_kernel::native::set(false);
        parts(&native, "native", true);
    }
    loading();
    #[cfg(feature = "native-kernels")]
    epochs::run();
    #[cfg(not(feature = "native-kernels"))]
    println!("(whole epochs against native kernels: add --features native-kernels)");
}
