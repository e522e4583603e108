//! The option `eciton simulate --pipeline`, which plans a pipeline, and simulates it on workers
//! that may be preempted.
//!
//! A lane is the share of a pipeline that one worker executes.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use eciton_engine::{Residence, Takeover};
use eciton_planner::models::{Speed, published};
use eciton_planner::{Failures, Graph, Host, HostWork, Lane, Machine, Plan, Wanted, plan, protect};
use eciton_recipe::pipeline_schedule::PipelineSchedule;
use eciton_simulate::pipeline::{Known, Owner, Pipeline, PipelineReport, Places, Preemption, checkpointed};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::protection::{self, Compared, Comparison, failed};
use crate::text::{bytes, counted, grouped, percent, seconds};

/// Bytes per second that correspond to 1 Gbit/s.
const GBIT: f64 = 1.25e8;
/// Numbers of micro-batches per update from which the planner chooses the best one.
const MICRO: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Assumed launch time of a kernel on a worker, in seconds.
const START: f64 = 5e-6;
/// Memory of a training in addition to the weights of 2 bytes each, in multiples of these weights.
/// With mixed precision, each weight has a gradient of 2 bytes, and a main weight and two moments
/// of 4 bytes each.
const COPIES: f64 = 7.0;
/// Number of rounds (optimiser steps) that are simulated if `--hours` is not given.
const ROUNDS: f64 = 1000.0;
/// Maximum size of the file of `--failure-trace`, in bytes.
const MAX_TRACE_BYTES: u64 = 16 << 20;
/// Parameters of the checkpointed run that the simulation is compared with. They are the number of
/// rounds (optimiser steps) between checkpoints, and the restart time in seconds.
const CHECKPOINT: (u32, f64) = (10, 300.0);

/// Flags of `--pipeline`. `--seed`, `--machine`, `--jitter` and `--json` of `simulate` apply too.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Lanes (--pipeline)")]
pub(super) struct Arguments {
    /// Simulate a pipeline of this model instead of a graph: gpt-1.3b, gpt-2.2b, gpt-3.9b, dlrm,
    /// candle-uno, vgg-16, transformer-4x8, transformer-8x4, transformer-16x2, or layers-LxW
    #[arg(long, value_name = "MODEL")]
    pub(super) pipeline: Option<String>,
    /// Number of workers, with one lane each
    #[arg(long, value_name = "N", default_value_t = 8)]
    lanes: u32,
    /// Number of pipeline replicas [default: chosen by the planner]
    #[arg(long, value_name = "W")]
    width: Option<u32>,
    /// Number of micro-batches per update [default: chosen by the planner]
    #[arg(long, value_name = "N")]
    micro: Option<u32>,
    /// Number of rows per update, or several from which the planner chooses, such as 256,512
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "256")]
    rows: Vec<u32>,
    /// Pipeline schedule: gpipe, 1f1b, 2bw or interleaved
    #[arg(long, value_name = "NAME", value_parser = schedule, default_value = "1f1b")]
    schedule: PipelineSchedule,
    /// Number of chunks of stages per lane, with --schedule interleaved [default: 2]
    #[arg(long, value_name = "V", value_parser = clap::value_parser!(u32).range(2..=64))]
    chunks: Option<u32>,
    /// Compute rate of a worker, in 10^12 operations per second
    #[arg(long, value_name = "TFLOPS", default_value_t = 50.0)]
    tflops: f64,
    /// Memory of a worker, such as 16GiB [default: no limit]
    #[arg(long, alias = "place-memory", value_name = "SIZE", value_parser = crate::data::size)]
    worker_memory: Option<u64>,
    /// Bandwidth of a worker's link, in Gbit/s
    #[arg(long, value_name = "GBIT", default_value_t = 100.0)]
    link: f64,
    /// Bandwidth of a host that relays activations and weights, in Gbit/s [default: workers
    /// exchange them directly]
    #[arg(long, value_name = "GBIT")]
    host_link: Option<f64>,
    /// File with the section [cluster], which describes the workers and their links. It replaces
    /// --worker-memory, --link and --host-link. With host_link_mbits, the host relays rows
    #[arg(long, value_name = "FILE", conflicts_with_all = ["worker_memory", "link", "host_link"])]
    cluster: Option<PathBuf>,
    /// Location of stashed activations. host and redundant need --host-link: the host owns the
    /// weights
    #[arg(long, value_enum, default_value_t = HoldName::Workers)]
    hold: HoldName,
    /// Workers that take over the lanes of a failed worker [default: peers, if the pipeline is at
    /// least 2 wide and --hold is not redundant]
    #[arg(long, value_enum)]
    takeover: Option<TakeoverName>,
    /// Number of updates between snapshots of the weights, which workers own without --host-link. A
    /// failure that costs weights rolls back to the last snapshot
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    snapshot_every: u32,
    /// Number of other workers that replicate the weights of a worker, without --host-link
    #[arg(long, value_name = "N", default_value_t = 0)]
    replicas: u32,
    /// Compare protections against failures (snapshots, replicas, width, redundant computation) by
    /// costs per row, and simulate each with five seeds
    #[arg(long, conflicts_with_all = ["replicas", "takeover", "failure_trace", "draw"])]
    protect: bool,
    /// Price of a worker that does not fail, in US dollars per hour, with --protect [default: no
    /// such workers]
    #[arg(long, value_name = "USD", requires = "protect")]
    reliable_usd_hour: Option<f64>,
    /// Rate of independent failures per worker and hour
    #[arg(long, alias = "lost", value_name = "P", default_value_t = 0.0)]
    failures: f64,
    /// Rate of failure bursts per zone and hour
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    bursts: f64,
    /// Number of workers that fail in a burst
    #[arg(long, alias = "burst-places", value_name = "N", default_value_t = 4)]
    burst_workers: u32,
    /// Number of zones; adjacent workers are in different zones
    #[arg(long, value_name = "N", default_value_t = 3)]
    zones: u32,
    /// Time until a failed worker is replaced, in seconds
    #[arg(long, alias = "back", value_name = "S", default_value_t = 300.0)]
    replaced_after: f64,
    /// File of failures: seconds since the start and worker index, one failure per line, such as
    /// 120.5,3. A line such as 150,3,returns states when the worker returns
    #[arg(long, alias = "losses", value_name = "FILE")]
    failure_trace: Option<PathBuf>,
    /// Simulated time, in hours [default: the planned time of 1,000 rounds]
    #[arg(long, value_name = "H")]
    hours: Option<f64>,
    /// Price of a worker, in US dollars per hour [default: that of --machine, else of p3.2xlarge]
    #[arg(long, value_name = "USD")]
    usd_hour: Option<f64>,
    /// Write a drawing of the schedule to this file (SVG)
    #[arg(long, value_name = "FILE")]
    draw: Option<PathBuf>,
}

/// Value of `--hold`. The comment of a variant is its help text.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum HoldName {
    /// Store on the host: after a failure, one step is repeated
    Host,
    /// Store on the workers: after a failure, activations are recomputed
    #[value(alias = "places")]
    Workers,
    /// Store on the workers, with redundant computation of the next worker's activations
    #[value(alias = "shadowed")]
    Redundant,
}

/// Value of `--takeover`. The comment of a variant is its help text.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TakeoverName {
    /// The worker before the failed one takes over its whole lane
    Previous,
    /// The workers of the same lane in other replicas share its micro-batches
    Peers,
}

/// Parses the value of `--schedule`, for instance `1f1b`.
fn schedule(text: &str) -> Result<PipelineSchedule, String> {
    let found = PipelineSchedule::named(text).ok().filter(|schedule| *schedule != PipelineSchedule::Naive);
    found.ok_or_else(|| "expected gpipe, 1f1b, 2bw or interleaved".to_owned())
}

/// Reads the file of `--failure-trace`. Returns its failures and returns, in the order of the file.
fn read_losses(path: Option<&Path>) -> Result<Vec<Known>, Failure> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let text = eciton_input::file::read_text(path, MAX_TRACE_BYTES).map_err(|e| {
        Failure::Failed(format!("{}: the file of failures cannot be read: {e}", path.display()))
    })?;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let one = |(at, line): (usize, &str)| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let returns = fields.len() == 3 && fields.last() == Some(&"returns");
        let parsed = match fields.as_slice() {
            [seconds, worker] => Some((seconds.parse(), worker.parse())),
            [seconds, worker, _] if returns => Some((seconds.parse(), worker.parse())),
            _ => None,
        };
        match parsed {
            Some((Ok(seconds), Ok(worker))) => Ok(Known { seconds, worker, returns }),
            _ => Err(Failure::Usage(format!(
                "{}:{at}: found {line:?}, expected seconds since the start and a worker index, such as 120.5,3, or 150,3,returns",
                path.display()
            ))),
        }
    };
    lines.map(one).collect()
}

/// Result of the simulation of a pipeline, which `eciton simulate --pipeline MODEL --json` prints.
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

/// A stage of the planned pipeline, which `eciton simulate --pipeline MODEL --json` prints.
#[derive(Serialize)]
struct PlannedStage<'a> {
    operators: Vec<&'a str>,
    forward_seconds: f64,
    backward_seconds: f64,
    memory_bytes: f64,
}

/// Returns the stages of a planned pipeline, each with the names of its operators.
fn stages<'a>(plan: &Plan, graph: &'a Graph) -> Vec<PlannedStage<'a>> {
    let name = |at: &usize| graph.operators().get(*at).map_or("", |of| &of.name[..]);
    let planned = |stage: &eciton_planner::PlannedStage| PlannedStage {
        operators: stage.operators.iter().map(name).collect(),
        forward_seconds: stage.forward_seconds,
        backward_seconds: stage.backward_seconds,
        memory_bytes: stage.memory,
    };
    plan.stages.iter().map(planned).collect()
}

impl Arguments {
    /// Returns the search space that the flags give the planner.
    fn wanted(&self) -> Wanted {
        Wanted {
            rows: self.rows.clone(),
            schedules: vec![self.schedule],
            chunks: self.chunks,
            widths: self.width.map_or_else(|| (1..=self.lanes.min(8)).collect(), |width| vec![width]),
            micro: self.micro.map_or_else(|| MICRO.to_vec(), |micro| vec![micro]),
            recompute: true,
            parallel: true,
            copies: COPIES,
            lane_copies: 1.0,
            work: HostWork::default(),
        }
    }

    /// Returns the description of workers and host that the flags give the planner.
    fn machine(&self) -> Result<Machine, Failure> {
        if let Some(path) = &self.cluster {
            return self.described(path);
        }
        let memory = self.worker_memory.map(|bytes| bytes as f64);
        let lane = Lane { pace: 1.0, memory, link: self.link * GBIT };
        let host = self.host_link.map(|gbit| Host { link: gbit * GBIT, memory: None });
        Ok(Machine { host, ..Machine::equal(self.lanes, lane) })
    }

    /// Returns the workers and host that the file `path` describes. A description of the host's
    /// link means that the host relays rows and weights.
    fn described(&self, path: &Path) -> Result<Machine, Failure> {
        let cluster = crate::recipe::cluster(path)?;
        cluster.check(self.lanes).map_err(|error| Failure::usage(&error))?;
        let lane = |at: usize| Lane {
            pace: cluster.speed(at).unwrap_or(1.0),
            memory: cluster.memory_bytes(at).map(|bytes| bytes as f64),
            link: cluster.link(at).unwrap_or(self.link * GBIT),
        };
        let relays = cluster.host_link_mbits.is_some();
        let host = cluster.host_link().filter(|_| relays).map(|link| Host { link, memory: None });
        let transfer = cluster.transfer_us.map_or(0.0, |us| f64::from(us) * 1e-6);
        Ok(Machine { lanes: (0..self.lanes as usize).map(lane).collect(), host, transfer })
    }

    /// Returns the rates at which simulated workers fail, and the time until they are replaced.
    fn preemption(&self) -> Preemption {
        Preemption {
            per_hour: self.failures,
            bursts_per_hour: self.bursts,
            burst: self.burst_workers,
            zones: self.zones,
            back: self.replaced_after,
        }
    }
}

/// Plans the pipeline of the named model, simulates it, and prints the report.
pub(super) fn run(
    model: &str,
    arguments: &Arguments,
    (seed, jitter, machine, json): (u64, f64, Option<&str>, bool),
    output: &mut Output,
) -> Result<(), Failure> {
    let refused = |e: eciton_planner::Error| Failure::usage(&e);
    let prices = eciton_exec::prices()?;
    let machine = machine.unwrap_or("p3.2xlarge");
    let usd_hour = match arguments.usd_hour {
        Some(usd) => usd,
        None => prices.machine(machine).map_err(|e| Failure::usage(&e))?.hour,
    };
    let trace = read_losses(arguments.failure_trace.as_deref())?;
    let graph = published(model, Speed { flops: arguments.tflops * 1e12, start: START }).map_err(refused)?;
    let cluster = arguments.machine()?;
    if arguments.protect {
        let prices = format!("{}, {}", prices.date, prices.region);
        return protections(model, arguments, (&graph, &cluster), (usd_hour, jitter, prices, json), output);
    }
    let planned = plan(&graph, &cluster, &arguments.wanted()).map_err(refused)?.plan;
    let residence = match arguments.hold {
        HoldName::Host => Residence::Host,
        HoldName::Workers => Residence::Workers,
        HoldName::Redundant => Residence::Redundant,
    };
    if residence != Residence::Workers && cluster.host.is_none() {
        let name = if residence == Residence::Host { "host" } else { "redundant" };
        return Err(Failure::Usage(format!(
            "--hold {name}: workers own the weights, and stash their activations themselves; for weights that \
             the host owns, add its bandwidth, for instance --host-link 25"
        )));
    }
    let mut pipeline = Pipeline::planned(&planned, &graph, residence);
    pipeline.takeover = arguments.takeover.map(|takeover| match takeover {
        TakeoverName::Previous => Takeover::Previous,
        TakeoverName::Peers => Takeover::Peers,
    });
    let owner = match cluster.host {
        None => Owner::Worker,
        Some(host) => {
            // The simulated pipeline itself transfers gradients to the host and weights back.
            pipeline.update = 0.0;
            Owner::Host(host.link)
        }
    };
    let preemption = arguments.preemption();
    // The simulation has one bandwidth, which is that of the slowest worker.
    let link = cluster.lanes.iter().map(|lane| lane.link).fold(f64::INFINITY, f64::min);
    let places = Places {
        link,
        owner,
        // The times of the planned stages are those on their workers.
        paces: Vec::new(),
        usd_hour,
        jitter,
        preemption,
        trace,
        snapshot_every: Some(arguments.snapshot_every),
        snapshot_seconds: 0.0,
        replicas: arguments.replicas,
    };
    let simulated = arguments.hours.map_or(ROUNDS * planned.round_seconds, |hours| 3600.0 * hours);
    let report = pipeline.run(&places, simulated, seed).map_err(failed)?;
    let grid = pipeline.grid().map_err(failed)?;
    if let Some(path) = &arguments.draw {
        std::fs::write(path, grid.svg())
            .map_err(|e| Failure::Failed(format!("{}: cannot be written: {e}", path.display())))?;
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
        format!("{model}: {}, {} rows per update", planned.summary(), grouped(pipeline.rows.into())),
    );
    for (at, stage) in stages(&planned, &graph).iter().enumerate() {
        let operators = match &stage.operators[..] {
            [only] => (*only).to_owned(),
            [first, .., last] => format!("{first} to {last}"),
            [] => String::new(),
        };
        let (forward, back) = (seconds(stage.forward_seconds), seconds(stage.backward_seconds));
        let memory = bytes(stage.memory_bytes as u64);
        let name = if at == 0 { "stages" } else { "" };
        row(
            name,
            format!("{at} {operators}; per micro-batch {forward} forward, {back} backward; memory {memory}"),
        );
    }
    row("planned", format!("{:.1} rows/s, bubble {:.1} %", planned.rows_a_second, 100.0 * planned.bubble));
    row(
        "simulated",
        format!(
            "{:.1} rows/s, {} in {}; workers idle {} %",
            report.rows_per_s,
            counted(report.rounds.into(), "round"),
            seconds(report.seconds),
            percent(Some(report.idle))
        ),
    );
    row(
        "failures",
        format!(
            "{}; {} repeated, {} recomputed, {} rolled back; on average {:.1} of {} workers available",
            counted(report.losses, "worker failure"),
            counted(report.retries, "step"),
            report.again,
            counted(report.rolled_back, "round"),
            report.places,
            planned.shape.width * planned.shape.depth
        ),
    );
    if let Some(rows) = restarted {
        let (every, restart) = CHECKPOINT;
        row(
            "restarts",
            format!(
                "{rows:.1} rows/s with a checkpoint every {every} rounds and restarts of {restart:.0} s, for the same \
                 failures"
            ),
        );
    }
    let rows = report.rows_per_s * report.seconds;
    let million = if rows > 0.0 { report.usd / rows * 1e6 } else { f64::INFINITY };
    row(
        "dollars",
        format!("${:.4}, ${million:.4} per million rows, at ${usd_hour} per worker and hour", report.usd),
    );
    row("prices", format!("of {prices}"));
    for (at, line) in grid.text().lines().enumerate() {
        row(if at == 0 { "schedule" } else { "" }, line.to_owned());
    }
    Ok(())
}

/// Protections of a pipeline, which `eciton simulate --pipeline MODEL --protect --json` prints.
#[derive(Serialize)]
struct Protections<'a> {
    event: &'static str,
    model: &'a str,
    failures_per_hour: f64,
    replaced_after_s: f64,
    hours: f64,
    seeds: u64,
    usd_hour: f64,
    prices: String,
    /// Share by which the cheapest protection in the simulation is cheaper than the chosen one.
    cheaper_by: f64,
    protections: &'a [Compared],
}

/// Compares protections of the named model, and prints the cheapest first.
fn protections(
    model: &str,
    arguments: &Arguments,
    (graph, machine): (&Graph, &Machine),
    (usd_hour, jitter, prices, json): (f64, f64, String, bool),
    output: &mut Output,
) -> Result<(), Failure> {
    let preemption = arguments.preemption();
    // A burst fails `burst` workers of one zone.
    let bursts = preemption.bursts_per_hour * f64::from(preemption.zones) * f64::from(preemption.burst);
    let slowest = machine.lanes.iter().map(|lane| lane.link).fold(f64::INFINITY, f64::min);
    let failures = Failures {
        per_hour: preemption.per_hour + bursts / f64::from(arguments.lanes.max(1)),
        replaced_after: preemption.back,
        usd_hour,
        reliable_usd_hour: arguments.reliable_usd_hour,
        snapshot_link: machine.host.map_or(slowest, |host| host.link),
    };
    let all = protect(graph, machine, &arguments.wanted(), &failures).map_err(|e| Failure::usage(&e))?;
    let reliable_usd_hour = arguments.reliable_usd_hour;
    let comparison =
        Comparison { all: &all, graph, machine, preemption, jitter, usd_hour, reliable_usd_hour };
    let hours = arguments.hours.unwrap_or(protection::HOURS);
    let compared = comparison.run(Some(hours))?;
    if json {
        output.json(&Protections {
            event: "protections",
            model,
            failures_per_hour: failures.per_hour,
            replaced_after_s: failures.replaced_after,
            hours,
            seeds: protection::SEEDS,
            usd_hour,
            prices,
            cheaper_by: protection::cheapest(&compared).map_or(0.0, |(_, by)| by),
            protections: &compared,
        });
        return Ok(());
    }
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<12} {text}"));
    let replaced = seconds(failures.replaced_after);
    row("failures", format!("{} per worker and hour, replaced after {replaced}", failures.per_hour));
    protection::print(&compared, Some(hours), &mut row);
    row("prices", format!("${usd_hour} per worker and hour; prices of {prices}"));
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
        std::fs::write(&path, "# seconds, place\n1.5, 3\n\n20,0,returns\n").unwrap();
        let known = |seconds, worker, returns| Known { seconds, worker, returns };
        assert_eq!(read_losses(Some(&path)).unwrap(), [known(1.5, 3, false), known(20.0, 0, true)]);
        std::fs::write(&path, "1.5,3,goes\n").unwrap();
        assert!(read_losses(Some(&path)).unwrap_err().words().contains("150,3,returns"));
        std::fs::write(&path, "1.5,3\n2;4\n").unwrap();
        let text = format!("{:?}", read_losses(Some(&path)).unwrap_err());
        assert!(text.contains("losses.csv:2") && text.contains("120.5,3"), "{text}");
        assert_eq!(read_losses(None).unwrap(), []);
    }
}
