//! Times of a kernel call, an instance, a pass over tiles of rows, and of loading a kernel.
//!
//! `cargo bench -p eciton-tests --profile release --bench cost`
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod harness;

use std::sync::Arc;

use eciton_kernel::cache::Cache;
use eciton_kernel::{
    Call, Instance, Instances, Kernel, Kind, Labelled, Layer, RowNumbers, Runtime, Settings, Target, Targets,
    VertexCall,
};
use eciton_tensor::{Buffer, Grid, Matrix};
use eciton_types::signature::{Attribute, Value};
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

    fn call(&self) -> VertexCall {
        VertexCall {
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

    fn call(&self) -> VertexCall {
        VertexCall {
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

/// Calls, instances and tiles.
fn parts(runtime: &Runtime) {
    let (linear, cross_entropy) = (
        runtime.load("linear", component("linear")).unwrap(),
        runtime.load("head", component("head")).unwrap(),
    );
    let samples = size(21, 1);
    let forward = Forward::new(4);
    let layer = forward.layer(&linear);
    let mut instances = Instances::new(false);
    let spread =
        seconds(samples, size(2000, 2), || instances.run(Call::vertex(&layer, forward.call())).unwrap());
    spread.times(1e6).row("a call, forward on 4 x 4, warm", "us");
    let made = seconds(samples, size(200, 2), || Instance::new(&linear).unwrap());
    made.times(1e6).row("an instance", "us");
    let mut fresh = Instances::new(true);
    let spread = seconds(samples, size(200, 2), || fresh.run(Call::vertex(&layer, forward.call())).unwrap());
    spread.times(1e6).row("a call on a fresh instance", "us");
    let (rows, classes) = (size(16384, 64), 64);
    let loss = Loss::new(rows, classes);
    let layer = loss.layer(&cross_entropy);
    let spread = seconds(samples, size(5, 1), || instances.run(Call::vertex(&layer, loss.call())).unwrap());
    let what = format!("a tile pass, head on {rows} x {classes}");
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
    spread.times(1e6).row("making the call and dropping it", "us");
}

fn main() {
    if is_listed("cost") {
        return;
    }
    heading("What the sandbox costs", SEED);
    floor();
    parts(&runtime(None));
    loading();
}
