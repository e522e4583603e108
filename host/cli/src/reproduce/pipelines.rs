//! Tables of pipelines: PipeDream-2BW, GraphPipe, Bamboo.

use eciton_exec::Prices;
use eciton_simulate::reproduce::pipelines::{HOURS, Line, branches, preempted, two_buffers};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;

/// Published and simulated table of a system, as `eciton reproduce SYSTEM --json` prints it.
#[derive(Serialize)]
struct Table<'a> {
    event: &'static str,
    system: &'static str,
    lines: &'a [Line],
}

/// Prints the lines of a table: published value, simulated value and explanation.
fn print(
    system: &'static str,
    lines: Result<Vec<Line>, eciton_simulate::Error>,
    json: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let lines = lines.map_err(|error| Failure::Failed(error.to_string()))?;
    if json {
        output.json(&Table { event: "reproduction", system, lines: &lines });
        return Ok(());
    }
    for Line { what, published, ours, why } in &lines {
        output.line(what);
        output.line(format_args!("    published {published}, simulated {ours}"));
        output.line(format_args!("    {why}"));
    }
    Ok(())
}

/// Prints the table of PipeDream-2BW against GPipe.
pub(super) fn two(_: &Prices, json: bool, output: &mut Output) -> Result<(), Failure> {
    print("pipedream-2bw", two_buffers(), json, output)
}

/// Prints the table of GraphPipe, which runs branches of a model in parallel stages.
pub(super) fn graph(_: &Prices, json: bool, output: &mut Output) -> Result<(), Failure> {
    print("graphpipe", branches(), json, output)
}

/// Prints the table of Bamboo, which trains on preemptible instances.
pub(super) fn spot(_: &Prices, json: bool, output: &mut Output) -> Result<(), Failure> {
    print("bamboo", preempted(HOURS), json, output)
}
