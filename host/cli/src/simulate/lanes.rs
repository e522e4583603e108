//! `eciton simulate --pipeline`: a planned pipeline of lanes on simulated workers that may be
//! preempted.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use eciton_engine::Residence;
use eciton_planner::models::{Speed, published};
use eciton_planner::{Graph, Host, HostWork, Lane, Machine, Plan, Wanted, plan};
use eciton_recipe::pipeline_schedule::PipelineSchedule;
use eciton_simulate::pipeline::{Owner, Pipeline, PipelineReport, Places, Preemption, checkpointed};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::{bytes, counted, grouped, percent, seconds};

/// Bytes per second of 1 Gbit/s.
const GBIT: f64 = 1.25e8;
/// Numbers of micro-batches that the planner chooses from.
const MICRO: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Start time of a kernel, seconds.
const START: f64 = 5e-6;
/// Memory besides the weights of 2 bytes, in units of these weights: a gradient of 2 bytes, main
/// weights and two moments of 4 bytes each (mixed precision).
const COPIES: f64 = 7.0;
/// Number of simulated rounds if no duration is given.
const ROUNDS: f64 = 1000.0;
/// Maximum length of a trace, bytes.
const MAX_TRACE_BYTES: u64 = 16 << 20;
/// Rounds between checkpoints, and seconds of a restart, of the run that failures are compared
/// with.
const CHECKPOINT: (u32, f64) = (10, 300.0);

/// Flags of `--pipeline` besides `--seed`, `--machine`, `--jitter` and `--json`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Lanes (--pipeline)")]
pub(super) struct Arguments {
    /// Model of a pipeline, in the place of a graph's shape: gpt-1.3b, gpt-2.2b, gpt-3.9b, dlrm, candle-uno,
    /// transformer-4x8, -8x4, -16x2, or layers-LxW
    #[arg(long, value_name = "MODEL")]
    pub(super) pipeline: Option<String>,
    /// Places, each of which is a lane
    #[arg(long, value_name = "N", default_value_t = 8)]
    lanes: u32,
    /// Replicas of the pipeline [default: as the planner finds best]
    #[arg(long, value_name = "W")]
    width: Option<u32>,
    /// Micro-batches of an update [default: as the planner finds best]
    #[arg(long, value_name = "N")]
    micro: Option<u32>,
    /// Rows of an update
    #[arg(long, value_name = "N", default_value_t = 256)]
    rows: u32,
    /// gpipe, 1f1b, 2bw, interleaved
    #[arg(long, value_name = "NAME", value_parser = schedule, default_value = "1f1b")]
    schedule: PipelineSchedule,
    /// Runs of stages of a lane, with --schedule interleaved [default: 2]
    #[arg(long, value_name = "V", value_parser = clap::value_parser!(u32).range(2..=64))]
    chunks: Option<u32>,
    /// Operations of a place a second, in units of 10^12
    #[arg(long, value_name = "TFLOPS", default_value_t = 50.0)]
    tflops: f64,
    /// Memory of a place [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = crate::data::size)]
    place_memory: Option<u64>,
    /// A place's link, Gbit/s
    #[arg(long, value_name = "GBIT", default_value_t = 100.0)]
    link: f64,
    /// Boundaries and weights go through a host whose link has so many Gbit/s [default: from place to place]
    #[arg(long, value_name = "GBIT")]
    host_link: Option<f64>,
    /// Holder of what forward steps keep
    #[arg(long, value_enum, default_value_t = HoldName::Host)]
    hold: HoldName,
    /// Losses of each place an hour, one by one
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    lost: f64,
    /// Bursts of losses of each zone an hour
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    bursts: f64,
    /// Places that a burst takes at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    burst_places: u32,
    /// Zones; neighbours are in different ones
    #[arg(long, value_name = "N", default_value_t = 3)]
    zones: u32,
    /// Seconds until a lost place is there again
    #[arg(long, value_name = "S", default_value_t = 300.0)]
    back: f64,
    /// Losses as a file: a line each, seconds from the start and the place, as `120.5,3`
    #[arg(long, value_name = "FILE")]
    losses: Option<PathBuf>,
    /// Simulated hours [default: 1,000 rounds as planned]
    #[arg(long, value_name = "H")]
    hours: Option<f64>,
    /// Dollars of a place an hour [default: of --machine in the price list, else p3.2xlarge]
    #[arg(long, value_name = "USD")]
    usd_hour: Option<f64>,
    /// Draw the schedule into a file, as SVG
    #[arg(long, value_name = "FILE")]
    draw: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HoldName {
    /// The host: a loss costs a step
    Host,
    /// The places: rows that went are computed again
    Places,
    /// The places, and each its neighbour's
    Shadowed,
}

fn schedule(text: &str) -> Result<PipelineSchedule, String> {
    let found = PipelineSchedule::named(text).ok().filter(|schedule| *schedule != PipelineSchedule::Naive);
    found.ok_or_else(|| "gpipe, 1f1b, 2bw and interleaved are known".to_owned())
}

/// Reads the failures of a trace, in order.
fn read_losses(path: Option<&Path>) -> Result<Vec<(f64, u32)>, Failure> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let text = eciton_input::file::read_text(path, MAX_TRACE_BYTES)
        .map_err(|e| Failure::Failed(format!("{}: the losses cannot be read: {e}", path.display())))?;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let one = |(at, line): (usize, &str)| {
        let fields = line.split_once(',').map(|(time, place)| (time.trim().parse(), place.trim().parse()));
        match fields {
            Some((Ok(time), Ok(place))) => Ok((time, place)),
            _ => Err(Failure::Usage(format!(
                "{}:{at}: {line:?} is no loss: write seconds from the start and the place, as 120.5,3",
                path.display()
            ))),
        }
    };
    lines.map(one).collect()
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    model: &'a str,
    pipeline: String,
    stages: Vec<PlannedStage<'a>>,
    planned_rows_per_s: f64,
    checkpointed_rows_per_s: Option<f64>,
    usd_hour: f64,
    prices: String,
    seed: u64,
    #[serde(flatten)]
    report: &'a PipelineReport,
    grid: &'a str,
}

#[derive(Serialize)]
struct PlannedStage<'a> {
    operators: Vec<&'a str>,
    forward_seconds: f64,
    backward_seconds: f64,
    memory_bytes: f64,
}

fn stages<'a>(plan: &Plan, graph: &'a Graph) -> Vec<PlannedStage<'a>> {
    let name = |at: &usize| graph.operators().get(*at).map_or("", |of| &of.name[..]);
    let of = |stage: &eciton_planner::PlannedStage| PlannedStage {
        operators: stage.operators.iter().map(name).collect(),
        forward_seconds: stage.forward_seconds,
        backward_seconds: stage.backward_seconds,
        memory_bytes: stage.memory,
    };
    plan.stages.iter().map(of).collect()
}

impl Arguments {
    fn wanted(&self) -> Wanted {
        Wanted {
            rows: self.rows,
            schedules: vec![self.schedule],
            chunks: self.chunks,
            widths: self.width.map_or_else(|| (1..=self.lanes.min(8)).collect(), |width| vec![width]),
            micro: self.micro.map_or_else(|| MICRO.to_vec(), |micro| vec![micro]),
            recompute: true,
            parallel: true,
            copies: COPIES,
            work: HostWork::default(),
        }
    }

    fn machine(&self) -> Machine {
        let memory = self.place_memory.map(|bytes| bytes as f64);
        let lane = Lane { pace: 1.0, memory, link: self.link * GBIT };
        let host = self.host_link.map(|gbit| Host { link: gbit * GBIT, memory: None });
        Machine { host, ..Machine::equal(self.lanes, lane) }
    }

    fn preemption(&self) -> Preemption {
        Preemption {
            per_hour: self.lost,
            bursts_per_hour: self.bursts,
            burst: self.burst_places,
            zones: self.zones,
            back: self.back,
        }
    }
}

/// Plans, simulates, and prints the report.
pub(super) fn run(
    model: &str,
    of: &Arguments,
    (seed, jitter, machine, json): (u64, f64, Option<&str>, bool),
    output: &mut Output,
) -> Result<(), Failure> {
    let refused = |e: eciton_planner::Error| Failure::usage(&e);
    let prices = eciton_exec::prices()?;
    let machine = machine.unwrap_or("p3.2xlarge");
    let usd_hour = match of.usd_hour {
        Some(usd) => usd,
        None => prices.machine(machine).map_err(|e| Failure::usage(&e))?.hour,
    };
    let trace = read_losses(of.losses.as_deref())?;
    let graph = published(model, Speed { flops: of.tflops * 1e12, start: START }).map_err(refused)?;
    let planned = plan(&graph, &of.machine(), &of.wanted()).map_err(refused)?.plan;
    let residence = match of.hold {
        HoldName::Host => Residence::Host,
        HoldName::Places => Residence::Places,
        HoldName::Shadowed => Residence::Shadowed,
    };
    let mut pipeline = Pipeline::planned(&planned, &graph, residence);
    let owner = match of.host_link {
        None => Owner::Worker,
        Some(gbit) => {
            // The simulated pipeline itself transfers gradients to the host and weights back.
            pipeline.update = 0.0;
            Owner::Host(gbit * GBIT)
        }
    };
    let preemption = of.preemption();
    let places =
        Places { link: of.link * GBIT, owner, paces: Vec::new(), usd_hour, jitter, preemption, trace };
    let simulated = of.hours.map_or(ROUNDS * planned.round_seconds, |hours| 3600.0 * hours);
    let failed = |e: eciton_simulate::Error| match e {
        eciton_simulate::Error::Failed { .. } => Failure::Failed(e.to_string()),
        other => Failure::usage(&other),
    };
    let report = pipeline.run(&places, simulated, seed).map_err(failed)?;
    let grid = pipeline.grid().map_err(failed)?;
    if let Some(path) = &of.draw {
        std::fs::write(path, grid.svg())
            .map_err(|e| Failure::Failed(format!("cannot write {}: {e}", path.display())))?;
    }
    let drawn = (preemption.per_hour > 0.0 || preemption.bursts_per_hour > 0.0) && places.trace.is_empty();
    let restarted = drawn.then(|| {
        let count = planned.shape.width * planned.shape.depth;
        let rounds = checkpointed(&preemption, (count, planned.round_seconds), CHECKPOINT, simulated, seed);
        f64::from(rounds) * f64::from(pipeline.rows) / simulated
    });
    let prices = format!("{}, {}", prices.date, prices.region);
    if json {
        output.json(&Line {
            event: "pipeline",
            model,
            pipeline: planned.summary(),
            stages: stages(&planned, &graph),
            planned_rows_per_s: planned.rows_a_second,
            checkpointed_rows_per_s: restarted,
            usd_hour,
            prices,
            seed,
            report: &report,
            grid: &grid.text(),
        });
        return Ok(());
    }
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<12} {text}"));
    row(
        "pipeline",
        format!("{model}: {}, {} rows an update", planned.summary(), grouped(pipeline.rows.into())),
    );
    for (at, stage) in stages(&planned, &graph).iter().enumerate() {
        let operators = match &stage.operators[..] {
            [only] => (*only).to_owned(),
            [first, .., last] => format!("{first} to {last}"),
            [] => String::new(),
        };
        let (forward, back) = (seconds(stage.forward_seconds), seconds(stage.backward_seconds));
        let held = bytes(stage.memory_bytes as u64);
        let name = if at == 0 { "stages" } else { "" };
        row(name, format!("{at} {operators}; {forward} forward, {back} back a part; holds {held}"));
    }
    row(
        "planned",
        format!("{:.1} rows a second, bubble {:.1} %", planned.rows_a_second, 100.0 * planned.bubble),
    );
    row(
        "simulated",
        format!(
            "{:.1} rows a second, {} in {}; places idle {} %",
            report.rows_per_s,
            counted(report.rounds.into(), "round"),
            seconds(report.seconds),
            percent(Some(report.idle))
        ),
    );
    row(
        "losses",
        format!(
            "{}; {} done once more, {} for rows that went; {:.1} places there of {}",
            counted(report.losses, "place"),
            counted(report.retries, "step"),
            report.again,
            report.places,
            planned.shape.width * planned.shape.depth
        ),
    );
    if let Some(rows) = restarted {
        let (every, restart) = CHECKPOINT;
        row(
            "restarts",
            format!(
                "{rows:.1} rows a second by a checkpoint every {every} rounds and {restart:.0} s a restart, in the \
                 same losses"
            ),
        );
    }
    let rows = report.rows_per_s * report.seconds;
    let million = if rows > 0.0 { report.usd / rows * 1e6 } else { f64::INFINITY };
    row(
        "dollars",
        format!("${:.4}, ${million:.4} a million rows, at ${usd_hour} a place an hour", report.usd),
    );
    row("prices", format!("of {prices}"));
    for (at, line) in grid.text().lines().enumerate() {
        row(if at == 0 { "schedule" } else { "" }, line.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn losses_are_lines_of_two_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("losses.csv");
        std::fs::write(&path, "# seconds, place\n1.5, 3\n\n20,0\n").unwrap();
        assert_eq!(read_losses(Some(&path)).unwrap(), [(1.5, 3), (20.0, 0)]);
        std::fs::write(&path, "1.5,3\n2;4\n").unwrap();
        let text = format!("{:?}", read_losses(Some(&path)).unwrap_err());
        assert!(text.contains("losses.csv:2") && text.contains("120.5,3"), "{text}");
        assert_eq!(read_losses(None).unwrap(), []);
    }
}
