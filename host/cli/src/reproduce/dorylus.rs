//! Tables of Dorylus (Thorpe et al. 2021), which trains graph networks on functions.

use eciton_exec::Prices;
use eciton_simulate::Kind;
use eciton_simulate::reproduce::dorylus::{
    Compared, Dorylus, Fitted, MachineValue, Row, Run, SOURCE, reproduce,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;

/// Maximum number of possible causes that are printed per large error.
const REASONS: usize = 2;

/// Published and simulated tables, as `eciton reproduce dorylus --json` prints them.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    system: &'static str,
    prices: String,
    #[serde(flatten)]
    found: &'a Dorylus,
}

/// Simulates the tables and prints them.
pub(super) fn run(prices: &Prices, json: bool, output: &mut Output) -> Result<(), Failure> {
    let found = reproduce(prices).map_err(|e| match e {
        eciton_simulate::Error::Plan(_) => Failure::usage(&e),
        other => Failure::Failed(other.to_string()),
    })?;
    let prices = format!("{}, {}", prices.date, prices.region);
    if json {
        output.json(&Line { event: "reproduction", system: "dorylus", prices, found: &found });
        return Ok(());
    }
    output.line(format_args!("system    dorylus: {SOURCE}; prices of {prices}"));
    fitted(&found.fitted, output);
    output.line("");
    values(&found.rows, output);
    output.line("");
    reasons(&found.rows, output);
    output.line("");
    machines(&found.machines, output);
    Ok(())
}

/// Prints the parameters that are fitted to a published row.
fn fitted(found: &Fitted, output: &mut Output) {
    let core = |seconds: f64| format!("{:.2} G/s per core", 1e-9 / seconds);
    output.line(format_args!(
        "fitted    on GCN reddit-small, in {} steps: products {}, gathers {}, functions {:.2} G/s per vCPU, \
         a GPU equals {:.1} cores, {:.1} epochs",
        found.steps,
        core(found.core_seconds_per_flop),
        core(found.core_seconds_per_edge_value),
        1e-9 / found.vcpu_seconds_per_flop,
        found.gpu_cores,
        found.epochs
    ));
}

/// Returns the model and graph of a row, such as `gat amazon`.
fn name(row: &Row) -> String {
    let kind = match row.published.kind {
        Kind::Gcn => "gcn",
        Kind::Gat { .. } => "gat",
    };
    format!("{kind} {}", row.published.graph)
}

/// Prints published and simulated epoch times. Also prints the value V = 1 / (time x cost) of
/// functions, relative to CPUs only and to GPUs only.
fn values(rows: &[Row], output: &mut Output) {
    output.line(format_args!(
        "{:<18} {:>23} {:>31} {:>31}",
        "V = 1 / (T x C)", "seconds per epoch", "V functions / CPUs only", "V functions / GPUs only"
    ));
    output.line(format_args!(
        "{:<18} {:>9} {:>6} {:>6} {:>13} {:>9} {:>7} {:>13} {:>9} {:>7}",
        "", "functions", "CPUs", "GPUs", "published", "simulated", "error", "published", "simulated", "error"
    ));
    for row in rows {
        let compared = |of: &Compared| {
            let error = format!("{:+.0} %", of.error() * 100.0);
            format!("{:>13.2} {:>9.2} {error:>7}", of.published, of.simulated)
        };
        output.line(format_args!(
            "{:<18} {:>9.2} {:>6.2} {:>6.2} {} {}",
            name(row),
            row.functions.seconds,
            row.cpu.seconds,
            row.gpu.seconds,
            compared(&row.against_cpu),
            compared(&row.against_gpu)
        ));
    }
}

/// Prints the parameter changes each of which alone would explain a large error.
fn reasons(rows: &[Row], output: &mut Output) {
    output.line("smallest changes of one parameter that would give the published ratio of a row");
    for row in rows {
        for (compared, other) in [(&row.against_cpu, "CPUs"), (&row.against_gpu, "GPUs")] {
            if !compared.is_large() {
                continue;
            }
            let words: Vec<String> = compared.reasons.iter().take(REASONS).map(ToString::to_string).collect();
            let words = if words.is_empty() { "no varied parameter".to_owned() } else { words.join("; or ") };
            output.line(format_args!("{:<18} against {other}: {words}", name(row)));
        }
    }
}

/// Prints whole runs of GCN Reddit-small on each kind of machine.
fn machines(found: &[MachineValue], output: &mut Output) {
    output.line(format_args!(
        "{:<18} {:>25} {:>29}",
        "gcn reddit-small", "on the machines alone", "with functions"
    ));
    let head = format!("{:>8} {:>8} {:>8}", "seconds", "dollars", "V");
    output.line(format_args!("{:<18} {head} {:>3} {head}", "machine", ""));
    let run = |run: &Run| format!("{:>8.1} {:>8.3} {:>8.5}", run.seconds, run.usd, run.value());
    for one in found {
        let functions = one.functions.as_ref().map_or_else(|| format!("{:>8}", "none"), run);
        output.line(format_args!("{:<18} {} {:>3} {functions}", one.machine, run(&one.alone), ""));
    }
}
