//! Text and JSON of the tables of Dorylus.

use std::fmt::Write as _;

use eciton_recipe::Prices;
use eciton_simulate::Kind;
use serde::Serialize;

use super::{Compared, Dorylus, Fitted, MachineValue, Row, Run, SOURCE, reproduce};
use crate::error::Error;

/// Maximum number of possible causes that are printed per large error.
const REASONS: usize = 2;

/// Published and simulated tables, as `reproduce dorylus --json` prints them.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    system: &'static str,
    prices: String,
    #[serde(flatten)]
    found: &'a Dorylus,
}

/// Simulates the tables, and returns them as text or as JSON.
pub(crate) fn reproduced(prices: &Prices, json: bool) -> Result<String, Error> {
    let found = reproduce(prices)?;
    let prices = format!("{}, {}", prices.date, prices.region);
    if json {
        let line = Line { event: "reproduction", system: "dorylus", prices, found: &found };
        return Ok(serde_json::to_string(&line)? + "\n");
    }
    let mut output = String::new();
    line(&mut output, format_args!("system    dorylus: {SOURCE}; prices of {prices}"));
    fitted(&found.fitted, &mut output);
    output.push('\n');
    values(&found.rows, &mut output);
    output.push('\n');
    reasons(&found.rows, &mut output);
    output.push('\n');
    machines(&found.machines, &mut output);
    Ok(output)
}

/// Appends a line to the text.
fn line(output: &mut String, text: impl std::fmt::Display) {
    let _ = writeln!(output, "{text}"); // Writing into a string cannot fail.
}

/// Appends the parameters that are fitted to a published row.
fn fitted(found: &Fitted, output: &mut String) {
    let core = |seconds: f64| format!("{:.2} G/s per core", 1e-9 / seconds);
    line(
        output,
        format_args!(
            "fitted    on GCN reddit-small, in {} steps: products {}, gathers {}, functions {:.2} G/s per vCPU, \
         a GPU equals {:.1} cores, {:.1} epochs",
            found.steps,
            core(found.core_seconds_per_flop),
            core(found.core_seconds_per_edge_value),
            1e-9 / found.vcpu_seconds_per_flop,
            found.gpu_cores,
            found.epochs
        ),
    );
}

/// Returns the model and graph of a row, such as `gat amazon`.
fn name(row: &Row) -> String {
    let kind = match row.published.kind {
        Kind::Gcn => "gcn",
        Kind::Gat { .. } => "gat",
    };
    format!("{kind} {}", row.published.graph)
}

/// Appends published and simulated epoch times. Also appends the value V = 1 / (time x cost) of
/// functions, relative to CPUs only and to GPUs only.
fn values(rows: &[Row], output: &mut String) {
    line(
        output,
        format_args!(
            "{:<18} {:>23} {:>31} {:>31}",
            "V = 1 / (T x C)", "seconds per epoch", "V functions / CPUs only", "V functions / GPUs only"
        ),
    );
    line(
        output,
        format_args!(
            "{:<18} {:>9} {:>6} {:>6} {:>13} {:>9} {:>7} {:>13} {:>9} {:>7}",
            "",
            "functions",
            "CPUs",
            "GPUs",
            "published",
            "simulated",
            "error",
            "published",
            "simulated",
            "error"
        ),
    );
    for row in rows {
        let compared = |of: &Compared| {
            let error = format!("{:+.0} %", of.error() * 100.0);
            format!("{:>13.2} {:>9.2} {error:>7}", of.published, of.simulated)
        };
        line(
            output,
            format_args!(
                "{:<18} {:>9.2} {:>6.2} {:>6.2} {} {}",
                name(row),
                row.functions.seconds,
                row.cpu.seconds,
                row.gpu.seconds,
                compared(&row.against_cpu),
                compared(&row.against_gpu)
            ),
        );
    }
}

/// Appends the parameter changes each of which alone would explain a large error.
fn reasons(rows: &[Row], output: &mut String) {
    line(output, "smallest changes of one parameter that would give the published ratio of a row");
    for row in rows {
        for (compared, other) in [(&row.against_cpu, "CPUs"), (&row.against_gpu, "GPUs")] {
            if !compared.is_large() {
                continue;
            }
            let words: Vec<String> = compared.reasons.iter().take(REASONS).map(ToString::to_string).collect();
            let words = if words.is_empty() { "no varied parameter".to_owned() } else { words.join("; or ") };
            line(output, format_args!("{:<18} against {other}: {words}", name(row)));
        }
    }
}

/// Appends whole runs of GCN Reddit-small on each kind of machine.
fn machines(found: &[MachineValue], output: &mut String) {
    line(
        output,
        format_args!("{:<18} {:>25} {:>29}", "gcn reddit-small", "on the machines alone", "with functions"),
    );
    let head = format!("{:>8} {:>8} {:>8}", "seconds", "dollars", "V");
    line(output, format_args!("{:<18} {head} {:>3} {head}", "machine", ""));
    let run = |run: &Run| format!("{:>8.1} {:>8.3} {:>8.5}", run.seconds, run.usd, run.value());
    for one in found {
        let functions = one.functions.as_ref().map_or_else(|| format!("{:>8}", "none"), run);
        line(output, format_args!("{:<18} {} {:>3} {functions}", one.machine, run(&one.alone), ""));
    }
}
