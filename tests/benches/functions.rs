//! What functions cost in bytes and time: one task whose rows are fetched while it computes, and whole
//! epochs over a slow network.
//!
//! `cargo bench -p eciton-tests --profile release --bench functions` needs the worker program
//! (`cargo build --release -p eciton-worker`). `cargo test` runs it with tiny numbers.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod harness;

use std::path::PathBuf;
use std::sync::Arc;

use eciton_exec::emulated::Emulated;
use eciton_exec::functions::Wanted;
use eciton_exec::{Answered, Clock, Completion, Executor as _, LocalPool, Order};
use eciton_kernel::wire::Times;
use eciton_kernel::{Call, Kernel, Kind, Layer, Limits, RowNumbers, Runtime, Settings, Target};
use eciton_plan::signature::{Attribute, Value};
use eciton_plan::{
    Attempt, Config, Emulator, Epoch, Executor, ExecutorKind, IntervalId, OperationId, RowFormat, StageId,
    Task, Transport, Version,
};
use eciton_tensor::{Buffer, Grid, Matrix};

fn worker() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    exe.ancestors().map(|folder| folder.join("bootstrap")).find(|path| path.is_file())
}

fn main() {
    if harness::is_listed("functions") {
        return;
    }
    let full = harness::is_real();
    let Some(worker) = worker() else {
        println!("skipped: no worker program; `cargo build --release -p eciton-worker` makes it");
        return;
    };
    let worker = worker.to_str().unwrap().to_owned();
    harness::heading("functions", 1);
    streaming(full, &worker);
    epochs(full, &worker);
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One forward task of `linear`: [rows, columns] to [rows, width].
struct Product {
    x: Buffer,
    w: Buffer,
    y: Buffer,
}

impl Product {
    fn new(rows: usize, columns: usize, width: usize) -> Self {
        let mut random = eciton_graph::random::SplitMix64::new(1);
        let mut values = |n: usize| -> Vec<f32> {
            (0..n).map(|_| random.next_u64() as u32 as f32 / u32::MAX as f32 - 0.5).collect()
        };
        Self {
            x: Buffer::from_rows(rows, columns, &values(rows * columns)).unwrap(),
            w: Buffer::from_rows(columns, width, &values(columns * width)).unwrap(),
            y: Buffer::zeroed(rows, width).unwrap(),
        }
    }

    fn order(&self, layer: &Arc<Layer>, pass: u32) -> Order {
        let read = |b: &Buffer| Matrix::from(b.read(0..b.rows()).unwrap());
        let rows = self.y.write(0..self.y.rows()).unwrap();
        let call = Call {
            kind: Kind::Forward,
            seed: 1,
            epoch: 0,
            layer: 0,
            training: true,
            grid: Arc::new(Grid::single(self.x.rows())),
            row_numbers: RowNumbers::From(0),
            inputs: vec![read(&self.x)],
            outputs: Vec::new(),
            kept: Vec::new(),
            parameters: vec![read(&self.w)],
            gradients: Vec::new(),
            output_count: 1,
            rows_out: vec![Some(Target::Rows { rows, extents: vec![self.y.columns() as u32] })],
            sums_out: Vec::new(),
            labelled: None,
        };
        let task = Task {
            epoch: Epoch(1),
            stage: StageId(0),
            interval: IntervalId(0),
            attempt: Attempt(0),
            weights: Version(0),
        };
        Order {
            pass,
            task,
            operation: OperationId(0),
            // The weights are the same in every round, and are kept.
            generation: 1,
            layer: layer.clone(),
            call,
            constant_inputs: 0,
            deadline: None,
        }
    }
}

/// An emulated cloud with one function.
struct Cloud {
    cloud: Emulated,
    layer: Arc<Layer>,
    _clock: Clock,
    passes: u32,
}

impl Cloud {
    fn start(worker: &str, product: &Product, stream: bool, mbit_s: f64) -> Self {
        let runtime = Runtime::new(Settings::default()).unwrap();
        let clock = Clock::start(&runtime).unwrap();
        // `linear`, forty times over: a network as fast as one product is none.
        let component = std::fs::read(eciton_tests::test_kernel("slow")).unwrap();
        let kernel: Arc<Kernel> = runtime.load("slow", &component).unwrap();
        let width = Value::Integer(product.y.columns() as i64);
        let attributes = [Attribute::new("out-features", width), Attribute::new("bias", Value::Flag(false))];
        let layer = kernel.open(&[vec![product.x.columns() as u32]], &attributes).unwrap();
        let local = eciton_exec::Settings { threads: 1, fresh_instances: false };
        let wanted = Wanted {
            local: LocalPool::new(local).unwrap(),
            kernels: vec![(kernel, component.into())],
            executor: Executor {
                kind: ExecutorKind::Emulated,
                transport: Transport::S3,
                stream,
                ..Executor::default()
            },
            limits: Limits::default(),
            intervals: 2,
        };
        let emulator = Emulator { mbit_s, worker: Some(worker.to_owned()), ..Emulator::default() };
        Self { cloud: Emulated::start(wanted, &emulator).unwrap(), layer, _clock: clock, passes: 0 }
    }

    /// Milliseconds charged for one warm task, and the worker's times.
    fn run(&mut self, product: &Product) -> (f64, Times) {
        self.passes += 1;
        let before = self.cloud.bill().unwrap().billed_ms;
        self.cloud.submit(product.order(&self.layer, self.passes));
        let mut done = Vec::new();
        while done.is_empty() {
            self.cloud.drain(&mut done, None);
        }
        let Some(Completion::Task { result: Ok(Answered::Apart(answer)), .. }) = done.pop() else {
            panic!("{done:?}");
        };
        let times = answer.meta().times;
        ((self.cloud.bill().unwrap().billed_ms - before) as f64, times)
    }

    /// Medians of warm rounds: billed, fetched, computed, in ms.
    fn measure(&mut self, product: &Product, rounds: usize) -> [f64; 3] {
        self.run(product);
        let (mut billed, mut fetch, mut compute) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (ms, times) = self.run(product);
            billed.push(ms);
            fetch.push(times.fetch_us as f64 / 1000.0);
            compute.push(times.compute_us as f64 / 1000.0);
        }
        [median(&mut billed), median(&mut fetch), median(&mut compute)]
    }
}

fn streaming(full: bool, worker: &str) {
    let (rows, columns, width, rounds) = if full { (16_384, 1024, 16, 7) } else { (512, 512, 8, 1) };
    let product = Product::new(rows, columns, width);
    let bytes = (rows * columns * 4) as f64;
    println!(
        "# one task by the object store: [{rows}, {columns}] x [{columns}, {width}] forty times, {:.1} MB to fetch",
        bytes / 1e6
    );
    println!("# numeric class {}, medians of {rounds} warm rounds", eciton_tensor::numeric_class());
    let [_, _, compute] = Cloud::start(worker, &product, false, 0.0).measure(&product, rounds);
    // The network is set so that fetching takes as long as computing.
    let mut mbit_s = bytes * 8.0 / 1e6 / (compute / 1e3);
    for _ in 0..if full { 3 } else { 1 } {
        let [_, fetch, compute] = Cloud::start(worker, &product, false, mbit_s).measure(&product, 3);
        mbit_s *= (fetch / compute).clamp(0.5, 2.0);
    }
    let [whole, fetch, compute] = Cloud::start(worker, &product, false, mbit_s).measure(&product, rounds);
    let [streamed, ..] = Cloud::start(worker, &product, true, mbit_s).measure(&product, rounds);
    let larger = fetch.max(compute);
    println!(
        "network {mbit_s:.0} Mbit/s: fetch {fetch:.1} ms, compute {compute:.1} ms ({:.2})",
        fetch / compute
    );
    println!("not streamed {whole:.1} ms, {:.2} of the larger", whole / larger);
    println!("streamed     {streamed:.1} ms, {:.2} of the larger", streamed / larger);
}

fn epochs(full: bool, worker: &str) {
    let mut base = Config::default();
    (base.run.epochs, base.run.eval_every, base.run.intervals) = (if full { 12 } else { 2 }, 0, Some(4));
    (base.executor.kind, base.emulator.mbit_s) = (ExecutorKind::Emulated, if full { 200.0 } else { 0.0 });
    base.emulator.worker = Some(worker.to_owned());
    base.set("model.hidden=64").unwrap();
    println!("# gcn 1433-64-7 on Cora, 4 intervals, {} Mbit/s a function; per epoch", base.emulator.mbit_s);
    println!(
        "{:<44} {:>9} {:>10} {:>8} {:>8} {:>9}",
        "", "ms", "invocations", "MB to", "MB from", "billed ms"
    );
    type Form = (&'static str, fn(&mut Config));
    let forms: [Form; 6] = [
        ("local", |c| c.executor.kind = ExecutorKind::Local),
        ("payload: everything sent each time", |c| c.executor.transport = Transport::Payload),
        ("auto: features and weights kept warm", |c| c.executor.transport = Transport::Auto),
        ("auto, rows as bf16", |c| c.executor.rows = RowFormat::Bf16),
        ("s3, not streamed", |c| (c.executor.transport, c.executor.stream) = (Transport::S3, false)),
        ("s3, streamed", |c| c.executor.transport = Transport::S3),
    ];
    for (name, form) in forms {
        let mut config = base.clone();
        form(&mut config);
        let (_, reports) = eciton_tests::train_reports(&config, &eciton_tests::options()).unwrap();
        // The first epoch has cold starts in it.
        let rest = &reports[1..];
        let mean = |of: &dyn Fn(&eciton_train::EpochReport) -> f64| {
            rest.iter().map(of).sum::<f64>() / rest.len() as f64
        };
        let mut seconds: Vec<f64> = rest.iter().map(|r| r.seconds * 1e3).collect();
        let bill = |of: fn(&eciton_train::Bill) -> f64| mean(&|r| r.bill.as_ref().map_or(0.0, of));
        println!(
            "{name:<44} {:>9.2} {:>10.1} {:>8.3} {:>8.3} {:>9.1}",
            median(&mut seconds),
            bill(|b| b.invocations as f64),
            // What functions read: requests, and objects less what the host moved.
            bill(|b| (b.bytes_to_functions + b.store_bytes_out) as f64 / 1e6),
            bill(|b| (b.bytes_from_functions + b.store_bytes_in) as f64 / 1e6),
            bill(|b| b.billed_ms as f64),
        );
    }
}
