//! Trains the same model with `eciton train` and with its peers in turns on one machine, and prints
//! comparable figures: epoch time, peak memory, start to finish, accuracy.
//!
//! `cargo run --release -p eciton-tests --example peers -- [OPTIONS] DATA...`, after
//! `cargo build --release`; `--help` lists the options, `docs/research/benchmarks.md` says what is compared
//! and why. In each round every contender runs once, in an order that rotates from round to round,
//! so that a slow spell of the machine meets all of them; figures are medians over rounds.
//!
//! A contender that fails is named with its last words and left out of further rounds on that data
//! set; the others go on, and the exit status is 1 at the end.

mod child;
mod contender;
mod figures;
mod machine;
mod options;
mod table;
mod turn;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use contender::{Contender, Job};
use figures::Figures;
use options::Options;
use serde_json::{Value, json};
use turn::Turn;

/// One run that ended well: what the harness measured, and what the process said of itself.
#[derive(Debug, Clone)]
struct Run {
    measured: child::Measured,
    figures: Figures,
}

/// Where runs are written down, and what is told at the end.
struct Record {
    lines: Option<File>,
    commands: BTreeSet<(usize, String)>,
    versions: BTreeSet<String>,
    failures: Vec<String>,
}

impl Record {
    fn line(&mut self, value: &Value) -> Result<(), String> {
        let Some(file) = &mut self.lines else { return Ok(()) };
        writeln!(file, "{value}").map_err(|e| format!("--out: {e}"))
    }

    /// Runs a contender once and writes it down; none if it failed.
    fn attempt(
        &mut self,
        (at, contender): (usize, &Contender),
        options: &Options,
        job: &Job<'_>,
        (kind, round): (&str, u32),
    ) -> Result<Option<Run>, String> {
        let data = job.data.display().to_string();
        let (command, environment) = (contender.command(options, job)?, contender.environment());
        eprintln!("{kind} {}, {data}, {} epochs, round {}", contender.name, job.epochs, round + 1);
        self.commands.insert((at, child::shown(&command)));
        let mut entry = json!({"kind": kind, "contender": contender.name, "data": data, "round": round + 1,
            "epochs": job.epochs, "seeds": job.seeds, "warmup": job.warmup, "threads": options.threads,
            "hidden": options.hidden, "dropout": options.dropout, "lr": options.lr,
            "weight_decay": options.weight_decay, "command": command, "environment": environment});
        let turn = Turn::take(Duration::from_secs(options.quiet_s));
        let ran = child::run(&command, environment, Duration::from_secs(options.limit_s));
        drop(turn);
        let ran = ran.and_then(|measured| {
            let figures = contender.figures(&measured.stdout, job)?;
            Ok(Run { measured, figures })
        });
        match ran {
            Ok(run) => {
                entry["wall_s"] = json!(run.measured.wall_s);
                entry["peak_memory_bytes"] = json!(run.measured.peak_bytes);
                entry["others_cpu"] = json!(run.measured.others_cpu);
                entry["epoch_s"] = run.figures.epoch_s.json();
                entry["test_accuracy"] = json!(run.figures.accuracy);
                entry["test_accuracy_std"] = json!(run.figures.accuracy_std);
                entry["seeds"] = json!(run.figures.seeds);
                entry["reached"] = json!(run.figures.reached.as_ref().map(figures::Reached::json));
                entry["version"] = json!(run.figures.version);
                self.versions.extend(run.figures.version.clone());
                self.line(&entry)?;
                Ok(Some(run))
            }
            Err(words) => {
                entry["failed"] = json!(words);
                self.line(&entry)?;
                eprintln!("{} on {data} failed: {words}", contender.name);
                self.failures.push(format!("{} on {data}, {} epochs: {words}", contender.name, job.epochs));
                Ok(None)
            }
        }
    }
}

/// Runs of one job: for each contender those that ended well, by round. One that fails is not run again.
fn rounds(
    options: &Options,
    job: &Job<'_>,
    count: u32,
    kind: &str,
    record: &mut Record,
) -> Result<Vec<Vec<Run>>, String> {
    let contenders = &options.contenders;
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); contenders.len()];
    let mut out = vec![false; contenders.len()];
    for round in 0..count {
        for at in 0..contenders.len() {
            let at = (at + round as usize) % contenders.len();
            if out[at] {
                continue;
            }
            match record.attempt((at, &contenders[at]), options, job, (kind, round))? {
                Some(run) => runs[at].push(run),
                None => out[at] = true,
            }
        }
    }
    // Fewer rounds than asked are no row: they would not be paired with the others'.
    for (runs, out) in runs.iter_mut().zip(out) {
        if out {
            runs.clear();
        }
    }
    Ok(runs)
}

/// Prints to standard output; the error in words, since a closed pipe is no reason to panic.
fn say(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| format!("standard output: {e}"))
}

/// The tables of one data set.
fn measure(options: &Options, data: &Path, record: &mut Record) -> Result<(), String> {
    let name = data.file_name().unwrap_or(data.as_os_str()).to_string_lossy();
    let names: Vec<&str> = options.contenders.iter().map(|c| c.name.as_str()).collect();
    if options.rounds > 0 {
        let job = Job { data, epochs: options.epochs, seeds: options.seeds, warmup: options.warmup };
        let runs = rounds(options, &job, options.rounds, "train", record)?;
        let first_peer = options.contenders.iter().position(Contender::is_peer);
        let first_own = options.contenders.iter().position(|c| !c.is_peer());
        let table = match options.target {
            Some(_) => table::target(&names, &runs),
            None => table::training(&names, &runs, &[first_peer, first_own]),
        };
        say(&format!("\n## {name}: {}\n\n{table}", options.task()))?;
    }
    if !options.finish.is_empty() {
        let mut columns = Vec::new();
        for &epochs in &options.finish {
            let job = Job { data, epochs, seeds: 1, warmup: 0 };
            let runs = rounds(options, &job, options.finish_rounds, "start-to-finish", record)?;
            columns.push((epochs, runs));
        }
        let table = table::finish(&names, &columns);
        let rounds = options.finish_rounds;
        say(&format!("\n### {name}: start to finish, s (one seed, median of {rounds} rounds)\n\n{table}"))?;
    }
    Ok(())
}

fn benchmark(options: &Options) -> Result<bool, String> {
    let machine = machine::describe();
    let lines = match &options.out {
        Some(path) => {
            let opened = File::options().create(true).append(true).open(path);
            Some(opened.map_err(|e| format!("--out {}: {e}", path.display()))?)
        }
        None => None,
    };
    let mut record =
        Record { lines, commands: BTreeSet::new(), versions: BTreeSet::new(), failures: Vec::new() };
    if options.contenders.iter().any(|c| !c.is_peer()) {
        let version = machine::own_version(&options.eciton)?;
        record.versions.insert(version.clone());
        record.line(&json!({"kind": "machine", "machine": machine, "eciton": version}))?;
    } else {
        record.line(&json!({"kind": "machine", "machine": machine}))?;
    }
    for data in &options.data {
        measure(options, data, &mut record)?;
    }
    let mut end = format!("\nMachine: {machine}\n");
    for version in &record.versions {
        end += &format!("Version: {version}\n");
    }
    let seeds = if options.seeds == 1 { "0".to_owned() } else { format!("0 to {}", options.seeds - 1) };
    end += &format!("Seeds: {seeds}\n");
    if let Some(peer) = options.contenders.iter().find(|c| c.is_peer()) {
        for (name, value) in peer.environment() {
            end += &format!("Environment of the peers: {name}={value}\n");
        }
    }
    for (_, command) in &record.commands {
        end += &format!("Command: {command}\n");
    }
    for failure in &record.failures {
        end += &format!("Failed: {failure}\n");
    }
    say(&end)?;
    Ok(record.failures.is_empty())
}

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    if arguments.iter().any(|a| a == "--help" || a == "-h") {
        return match say(options::HELP) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let done = Options::parse(&arguments).map_err(|words| (2, words));
    match done.and_then(|options| benchmark(&options).map_err(|words| (1, words))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err((status, words)) => {
            eprintln!("peers: {words}");
            ExitCode::from(status)
        }
    }
}
