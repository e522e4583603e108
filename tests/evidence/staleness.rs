//! Accuracy against staleness: each data set trained in each mode, over several seeds, under an order of
//! steps that makes rows as old as the bound allows.
//!
//! `cargo run --release -p eciton-tests --example staleness -- --seeds 10 cora pubmed amazon_photo`
//!
//! `--in-flight N` hands out no more than N steps at once in those orders: the fewer, the newer are the rows.
//! Without it there is no limit, and about half of the rows are as old as may be.
//!
//! `--only TEXT`, repeated, leaves out the modes whose names contain none of these; pipe is always there.
//!
//! `--last PERCENT` says how long runs with S = 1 are synchronous at the end, where they are (10).
//!
//! A data set is a name that `eciton train` knows or a path. The target of a data set is the mean
//! validation accuracy at the end of the pipelined runs less half a point; epochs needed are those up to
//! the first at which a run's validation accuracy reaches it.
#![allow(missing_docs, clippy::print_stdout, clippy::print_stderr)]

use std::fmt::Display;

use eciton_recipe::{Config, Pipeline};
use eciton_train::{EpochReport, Observer, Options, SeedReport};

/// Every seed's epochs.
#[derive(Default)]
struct Curves {
    epochs: Vec<EpochReport>,
    seeds: Vec<SeedReport>,
}

impl Observer for Curves {
    fn epoch(&mut self, report: &EpochReport) {
        self.epochs.push(report.clone());
    }

    fn seed(&mut self, report: &SeedReport) {
        self.seeds.push(report.clone());
    }
}

/// So many steps are handed out, the newest first: with no limit (0) each interval goes on as far as it may.
fn aged(staleness: u32, in_flight: u32) -> Pipeline {
    Pipeline { in_flight: Some(in_flight), ..Pipeline::asynchronous(staleness) }
}

fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (mean, if values.len() < 2 { 0.0 } else { (squares / (n - 1.0)).sqrt() })
}

const USAGE: &str = "staleness [--seeds N] [--epochs N] [--intervals N] [--in-flight N] [--last PERCENT] [--only TEXT]... \
[--set SECTION.KEY=VALUE]... DATA...";

fn refuse(what: impl Display) -> ! {
    eprintln!("staleness: {what}\n{USAGE}");
    std::process::exit(2)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut seeds, mut epochs, mut intervals, mut in_flight, mut last) = (10, 200, 8, 0, 10);
    let (mut sets, mut settings, mut only) = (Vec::new(), Vec::new(), Vec::<String>::new());
    while let Some(argument) = arguments.next() {
        let mut value =
            || arguments.next().unwrap_or_else(|| refuse(format_args!("{argument} needs a value")));
        let mut number = || {
            let value = value();
            value.parse().unwrap_or_else(|_| refuse(format_args!("{argument} needs a number, not {value:?}")))
        };
        match argument.as_str() {
            "--seeds" => seeds = number(),
            "--epochs" => epochs = number(),
            "--in-flight" => in_flight = number(),
            "--intervals" => intervals = number(),
            "--last" => last = number(),
            "--only" => only.push(value()),
            "--set" => settings.push(value()),
            "--help" => {
                println!("{USAGE}");
                return;
            }
            _ if argument.starts_with('-') => refuse(format_args!("unknown flag {argument}")),
            _ => sets.push(argument),
        }
    }
    let one_ends = format!("async S=1, last {last} % sync");
    let modes = [
        ("pipe", Pipeline::default()),
        ("async S=0, as it comes", Pipeline::asynchronous(0)),
        ("async S=1, as it comes", Pipeline::asynchronous(1)),
        ("async S=0", aged(0, in_flight)),
        ("async S=1", aged(1, in_flight)),
        (&one_ends, Pipeline { synchronous_last: epochs * last / 100, ..aged(1, in_flight) }),
        ("async S=8", aged(8, in_flight)),
        ("async S=8, last 20 % sync", Pipeline { synchronous_last: epochs / 5, ..aged(8, in_flight) }),
    ];
    if sets.is_empty() {
        refuse("no data set is named");
    }
    println!(
        "{seeds} seeds, {epochs} epochs, {intervals} intervals, one thread that takes the newest step first"
    );
    for set in sets {
        let mut target = None;
        println!(
            "\n{set}\n{:<26} {:>14} {:>14} {:>8} {:>8}  rows read by age, %",
            "mode", "test %", "validation %", "epochs", "reached"
        );
        for (name, pipeline) in modes {
            if name != "pipe" && !only.is_empty() && !only.iter().any(|only| name.contains(&only[..])) {
                continue;
            }
            let mut config = Config::default();
            config.data.source.clone_from(&set);
            settings.iter().for_each(|setting| config.set(setting).unwrap_or_else(|e| refuse(e)));
            (config.run.epochs, config.run.intervals, config.run.threads) =
                (epochs, Some(intervals), Some(1));
            config.pipeline = pipeline;
            let options = Options { seeds, newest_first: pipeline.in_flight.is_some(), ..Options::default() };
            let mut curves = Curves::default();
            let summary = eciton_train::train(&config, &options, &mut curves);
            let summary = summary.unwrap_or_else(|e| refuse(e));
            let percent = |of: &dyn Fn(&SeedReport) -> Option<f64>| {
                mean(&curves.seeds.iter().filter_map(of).map(|share| share * 100.0).collect::<Vec<_>>())
            };
            let (test, validation) = (percent(&|s| s.metrics.test), percent(&|s| s.metrics.validation));
            let best = percent(&|s| s.best?.metrics.test);
            let target = *target.get_or_insert(validation.0 / 100.0 - 0.005);
            let first = |seed: u64| {
                let of = curves.epochs.iter().filter(|e| e.seed == seed);
                let mut reached = of.filter(|e| e.metrics.and_then(|a| a.validation) >= Some(target));
                reached.next().map(|e| f64::from(e.epoch))
            };
            let needed: Vec<f64> = curves.seeds.iter().filter_map(|s| first(s.seed)).collect();
            let ages = summary.rows_by_age.map_or_else(String::new, |ages| {
                ages.shares.iter().map(|share| format!("{:.1} ", share * 100.0)).collect()
            });
            let epochs_needed =
                if needed.is_empty() { "-".to_owned() } else { format!("{:.0}", mean(&needed).0) };
            println!(
                "{name:<26} {:>7.2} ± {:<4.2} {:>7.2} ± {:<4.2} {:>7.2} ± {:<4.2} {epochs_needed:>8} {:>5}/{seeds}  {ages}",
                test.0,
                test.1,
                best.0,
                best.1,
                validation.0,
                validation.1,
                needed.len()
            );
        }
    }
}
