//! Figure of DPFP (Li et al. 2022): inference of VGG-16 on four workers, each with a strip of image
//! rows and fused blocks of layers.

use std::fmt::Write as _;

use eciton_program::receptive::{self, Workers};
use serde::Serialize;

use crate::error::Error;

const SOURCE: &str = "Li, Iosifidis and Zhang 2022 (ICC)";
/// Published maximum reduction of the inference time by four workers, as a share of one worker's
/// time.
const PUBLISHED: f64 = 0.73;
/// Number of workers that share an image.
const WORKERS: usize = 4;
/// Compute rates of a worker, in floating-point operations per second.
const FLOPS_PER_S: [f64; 4] = [5e10, 1e11, 2e11, 1e12];
/// Bandwidths of a worker's link, in gigabits per second.
const GIGABITS_PER_S: [f64; 4] = [1.0, 2.0, 5.0, 10.0];
/// Latency, in seconds, of an exchange of halos (the rows that a strip needs from adjacent strips).
const LATENCY_S: f64 = 1e-4;

/// Inference times for one combination of compute rate and bandwidth.
#[derive(Serialize)]
struct Row {
    flops_per_s: f64,
    gigabits_per_s: f64,
    alone_ms: f64,
    fused_ms: f64,
    fused_saves: f64,
    blocks: usize,
    halo_bytes: u64,
    layers_ms: f64,
    layers_save: f64,
    layers_halo_bytes: u64,
}

/// Table of inference times, as `reproduce dpfp --json` prints it.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    system: &'static str,
    published: f64,
    workers: usize,
    latency_ms: f64,
    rows: &'a [Row],
}

/// Computes the inference times for one combination of compute rate and bandwidth.
fn row(flops_per_s: f64, gigabits_per_s: f64) -> Row {
    let vgg = receptive::vgg16();
    let workers =
        Workers { latency_s: LATENCY_S, ..Workers::alike(WORKERS, flops_per_s, gigabits_per_s * 1.25e8) };
    let alone = receptive::alone(&vgg, &workers);
    let (fused, layers) = (receptive::fuse(&vgg, &workers), receptive::each(&vgg, &workers));
    Row {
        flops_per_s,
        gigabits_per_s,
        alone_ms: 1e3 * alone,
        fused_ms: 1e3 * fused.seconds,
        fused_saves: 1.0 - fused.seconds / alone,
        blocks: fused.blocks.len(),
        halo_bytes: fused.halo_bytes,
        layers_ms: 1e3 * layers.seconds,
        layers_save: 1.0 - layers.seconds / alone,
        layers_halo_bytes: layers.halo_bytes,
    }
}

/// Returns the inference times for all combinations of compute rate and bandwidth, as text or as JSON.
pub(crate) fn reproduced(json: bool) -> Result<String, Error> {
    let links = |flops: f64| GIGABITS_PER_S.map(|gigabits| row(flops, gigabits));
    let rows: Vec<Row> = FLOPS_PER_S.into_iter().flat_map(links).collect();
    let latency_ms = 1e3 * LATENCY_S;
    if json {
        let (event, system) = ("reproduction", "dpfp");
        let line = Line { event, system, published: PUBLISHED, workers: WORKERS, latency_ms, rows: &rows };
        return Ok(serde_json::to_string(&line)? + "\n");
    }
    let mut output = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        let _ = writeln!(output, "{text}"); // Writing into a string cannot fail.
    };
    line(format_args!("system    dpfp: {SOURCE}; published saving up to {:.0} %", 100.0 * PUBLISHED));
    line(format_args!(
        "model     VGG-16 (13 convolutions, 5 poolings), {WORKERS} workers, {latency_ms} ms per exchange"
    ));
    line(format_args!(""));
    line(format_args!(
        "{:>9} {:>7} {:>9} {:>9} {:>7} {:>7} {:>9} {:>13} {:>7} {:>9}",
        "Gflop/s",
        "Gbit/s",
        "alone, ms",
        "fused, ms",
        "saves",
        "blocks",
        "halos, MB",
        "by layer, ms",
        "saves",
        "halos, MB"
    ));
    for row in rows {
        let [fused, layers] =
            [row.fused_saves, row.layers_save].map(|share| format!("{:.1} %", 100.0 * share));
        line(format_args!(
            "{:>9} {:>7} {:>9.1} {:>9.1} {fused:>7} {:>7} {:>9.2} {:>13.1} {layers:>7} {:>9.2}",
            row.flops_per_s / 1e9,
            row.gigabits_per_s,
            row.alone_ms,
            row.fused_ms,
            row.blocks,
            row.halo_bytes as f64 / 1e6,
            row.layers_ms,
            row.layers_halo_bytes as f64 / 1e6,
        ));
    }
    Ok(output)
}
