//! What functions cost in bytes and time: one task whose rows are fetched while it computes, and whole
//! epochs over a slow network.
//!
//! `cargo bench -p eciton-tests --profile release --bench functions` needs the worker program
//! (`cargo build --release -p eciton-worker`). `cargo test` runs it with tiny numbers.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod harness;

#[path = "../tests/suite/functions/cloud.rs"]
mod cloud;

use std::path::PathBuf;

use cloud::{Cloud, Product};
use eciton_recipe::executor::ExecutorKind;
use eciton_recipe::{Config, Executor, RowFormat, Transport};

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

/// Medians of warm rounds: billed, fetched, computed, in ms.
fn measure(cloud: &mut Cloud, product: &Product, rounds: usize) -> [f64; 3] {
    cloud.run(product);
    let (mut billed, mut fetch, mut compute) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (ms, times) = cloud.run(product);
        billed.push(ms);
        fetch.push(times.fetch_us as f64 / 1000.0);
        compute.push(times.compute_us as f64 / 1000.0);
    }
    [median(&mut billed), median(&mut fetch), median(&mut compute)]
}

/// `linear`, forty times over: a network as fast as one product is none.
fn slow(worker: &str, product: &Product, stream: bool, mbit_s: f64) -> Cloud {
    let executor = Executor { transport: Transport::S3, stream, ..Executor::default() };
    Cloud::start(worker, "slow", product, executor, mbit_s)
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
    let [_, _, compute] = measure(&mut slow(worker, &product, false, 0.0), &product, rounds);
    // The network is set so that fetching takes as long as computing.
    let mut mbit_s = bytes * 8.0 / 1e6 / (compute / 1e3);
    for _ in 0..if full { 3 } else { 1 } {
        let [_, fetch, compute] = measure(&mut slow(worker, &product, false, mbit_s), &product, 3);
        mbit_s *= (fetch / compute).clamp(0.5, 2.0);
    }
    let [whole, fetch, compute] = measure(&mut slow(worker, &product, false, mbit_s), &product, rounds);
    let [streamed, ..] = measure(&mut slow(worker, &product, true, mbit_s), &product, rounds);
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
    (base.run.epochs, base.run.eval_every, base.run.intervals) =
        (if full { 12 } else { 2 }, 0.into(), Some(4));
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
        ("local", |c| c.run_on(ExecutorKind::Local)),
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
