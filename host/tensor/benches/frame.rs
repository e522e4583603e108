//! Benchmark of writing and reading frames, compared with a plain copy of the same number of bytes.
//!
//! Run it with `cargo bench -p eciton-tensor --profile release --bench frame`. In tests it runs
//! with few rows.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::hint::black_box;
use std::time::Instant;

use eciton_tensor::frame::{Encoding, Frame, RowSink, Writer};
use eciton_tensor::{Buffer, Matrix};

/// Returns the median duration of `runs` runs, in seconds.
fn seconds(runs: usize, mut work: impl FnMut()) -> f64 {
    let mut all: Vec<f64> = (0..runs)
        .map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed().as_secs_f64()
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all[runs / 2]
}

fn main() {
    // A test runner such as cargo-nextest asks for the list of tests.
    let asked = |flag: &str| std::env::args().any(|a| a == flag);
    if asked("--list") || asked("--ignored") {
        if !asked("--ignored") {
            println!("frame: test");
        }
        return;
    }
    // `cargo test` runs benches with --test, `cargo bench` with --bench.
    let real = std::env::args().any(|a| a == "--bench");
    // The system clears new memory page by page, which takes most of the time for large frames.
    // Memory of small frames is reused.
    let sizes: &[(usize, usize)] = if real { &[(4, 101), (64, 15)] } else { &[(1, 1)] };
    for &(mebibytes, runs) in sizes {
        measure(mebibytes, runs);
    }
}

fn measure(mebibytes: usize, runs: usize) {
    let class = eciton_tensor::numeric_class();
    println!("\nGB/s of f32 values ({mebibytes} MiB of them, median of {runs}, {class})");
    println!("{:<22}{:>9}{:>9}{:>9}{:>9}", "", "copy", "write", "read", "stream");
    for columns in [7, 16, 32, 602] {
        let rows = (mebibytes << 18) / columns;
        let values: Vec<f32> = (0..rows * columns).map(|v| v as f32 * 0.37).collect();
        let buffer = Buffer::from_rows(rows, columns, &values).unwrap();
        let matrix = Matrix::from(buffer.read(0..rows).unwrap());
        let gigabytes = (rows * columns * 4) as f64 / 1e9;
        let copy = seconds(runs, || drop(black_box(values.clone())));
        for encoding in [Encoding::F32, Encoding::Bf16] {
            let write = || {
                let mut writer = Writer::new(Vec::new());
                writer.matrix(&matrix, encoding).unwrap();
                writer.finish().unwrap()
            };
            let bytes = write();
            let to = seconds(runs, || drop(black_box(write())));
            let from = seconds(runs, || drop(black_box(Frame::parse(&bytes).unwrap().part(0).unwrap())));
            let frame = Frame::parse(&bytes).unwrap();
            let (part, data) = (&frame.header().parts[0], frame.bytes(0).unwrap());
            let stream = seconds(runs, || {
                let (mut sink, arriving) = RowSink::channel(part).unwrap();
                data.chunks(1 << 20).for_each(|c| sink.push(c).unwrap());
                sink.finish().unwrap();
                drop(black_box(arriving));
            });
            println!(
                "{:<22}{:>9.2}{:>9.2}{:>9.2}{:>9.2}",
                format!("{columns} columns, {encoding:?}"),
                gigabytes / copy,
                gigabytes / to,
                gigabytes / from,
                gigabytes / stream
            );
        }
    }
}
