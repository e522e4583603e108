//! The commands `eciton kernel check` and `eciton kernel bench`, which execute a component on
//! random rows.

use std::time::Duration;

use eciton_author::{component_digest, version};
use eciton_kernel::Limits;
use eciton_kernel::trial::{Found, Judgement, Timed, Trial, Used};
use serde::Serialize;

use super::layer;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::{bytes, counted, grouped, limit, seconds};

/// Arguments of `eciton kernel check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    layer: layer::Arguments,
    /// Random seed of the rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Arguments of `eciton kernel bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArguments {
    #[command(flatten)]
    layer: layer::Arguments,
    /// Number of rows per call; for an edge kernel, number of vertices
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    rows: u32,
    /// Average number of edges per vertex, for an edge kernel
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    degree: u32,
    /// Duration of the measurement, in seconds, up to 600
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    time: f64,
    /// Random seed of the rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Number of rows and number of edges per vertex of the trials in a check.
const SHAPES: [(u32, u32); 4] = [(1, 1), (2, 1), (37, 3), (300, 9)];
/// Number of rows and number of edges per vertex of the trial whose resource use is compared with
/// the limits. It is the typical size of an interval (a run of vertices that is scheduled as one
/// unit).
const LARGE: (u32, u32) = (16_384, 4);
/// Time budget for the repeated calls in the trial that measures resource use.
const LARGE_TIME: Duration = Duration::from_secs(20);

/// Checks a component against the contract. With `--inputs`, also compares its results with
/// expected values, its gradients with finite differences, and its resource use with the limits.
pub(super) fn check(arguments: &CheckArguments, output: &mut Output) -> Result<(), Failure> {
    let opened = arguments.layer.open()?;
    let file = arguments.layer.file.display();
    let (size, digest) = (bytes(opened.component.len() as u64), component_digest(&opened.component));
    let contract = version(&opened.component);
    output.line(format_args!("{file}: implements kernel contract {contract}, {size}, {digest}"));
    let Some(layer) = &opened.layer else {
        output.line(format_args!(
            "to check the computed values, add --inputs with the extents of a row, for instance --inputs 64"
        ));
        return Ok(());
    };
    let mut worst: Vec<(Judgement, u32)> = Vec::new();
    for (rows, degree) in SHAPES {
        for judged in Trial::new(layer, rows, degree, arguments.seed).check()? {
            let same = |(known, _): &&mut (Judgement, u32)| {
                known.of == judged.of && (judged.of != Found::Gradient || known.place == judged.place)
            };
            match worst.iter_mut().find(same) {
                Some(known) if judged.figure > known.0.figure => *known = (judged, rows),
                Some(_) => {}
                None => worst.push((judged, rows)),
            }
        }
    }
    let mut broken = Vec::new();
    for (judged, rows) in &worst {
        let verdict = if judged.holds { "ok" } else { "BROKEN" };
        let figure = match judged.of {
            Found::Gradient | Found::Weights => {
                format!("difference {:.1e}, {}", judged.figure, counted((*rows).into(), "row"))
            }
            _ if judged.holds => String::new(),
            _ => format!("{:.1} % of the values, {}", judged.figure * 100.0, counted((*rows).into(), "row")),
        };
        output.line(format_args!("  {verdict:<7} {:<46} {:<28} {figure}", judged.of.name(), judged.place));
        if !judged.holds {
            broken.push(format!("{}: {}, {figure}", judged.of.name(), judged.place));
        }
    }
    let (rows, degree) = LARGE;
    let usage = Trial::new(layer, rows, degree, arguments.seed).usage(LARGE_TIME)?;
    let place = format!("limits, {}, {}", counted(rows.into(), "row"), counted(usage.rounds as u64, "time"));
    let (verdict, figure) = match &usage.broken {
        None => ("ok", limits_text(&usage.used, opened.kernel.limits())),
        Some(what) => ("BROKEN", what.clone()),
    };
    output.line(format_args!("  {verdict:<7} {place:<46} {figure}"));
    if usage.broken.is_some() {
        broken.push(format!("{place}: {figure}"));
    }
    if broken.is_empty() {
        return Ok(());
    }
    let seed = arguments.seed;
    Err(Failure::Failed(format!("{file} (seed {seed}):\n  {}", broken.join("\n  "))))
}

/// Formats the amount of each resource that a kernel used, next to the limit of that resource.
fn limits_text(used: &Used, limits: &Limits) -> String {
    let peak = &used.peak;
    format!(
        "guest memory {} of {}, scratch {} of {}, {} of {} handles, {} of {} copied at once, {} of {} s",
        bytes(used.guest_memory_bytes as u64),
        limit(limits.guest_memory_bytes),
        bytes(peak.matrix_bytes),
        limit(limits.matrix_bytes),
        peak.handles,
        grouped(limits.handles.into()),
        bytes(peak.call_bytes),
        limit(limits.call_bytes),
        seconds(used.seconds),
        limits.task_time.as_secs(),
    )
}

/// Result of a measurement, which `eciton kernel bench --json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    file: &'a str,
    rows: usize,
    edges: usize,
    instance_seconds: f64,
    guest_memory_bytes: usize,
    functions: Vec<Function>,
}

/// Measured times of one function of the component.
#[derive(Serialize)]
struct Function {
    name: &'static str,
    calls: usize,
    /// Median, 10th and 90th percentile of the time of a call on all rows, in seconds.
    seconds: [f64; 3],
    /// Median time of a call on a single row, in seconds.
    call_seconds: f64,
    copied_bytes: u64,
}

/// Returns the median, the 10th and the 90th percentile of the measured times, in seconds.
fn quantiles(timed: &Timed) -> [f64; 3] {
    [0.5, 0.1, 0.9].map(|share| timed.quantile(share))
}

/// Measures the times of a component's functions on random rows, and prints them.
pub(super) fn bench(arguments: &BenchArguments, output: &mut Output) -> Result<(), Failure> {
    let opened = arguments.layer.open()?;
    let usage = |what: &str| Failure::Usage(what.to_owned());
    let layer = opened.layer.as_ref();
    let layer = layer.ok_or_else(|| {
        usage("--inputs is required: the extents of a row of each input, for instance --inputs 64")
    })?;
    if !(arguments.time > 0.0 && arguments.time <= 600.0) {
        return Err(usage("--time: expected a number of seconds above 0, at most 600"));
    }
    let budget = Duration::from_secs_f64(arguments.time);
    let trial = Trial::new(layer, arguments.rows, arguments.degree, arguments.seed);
    let whole = trial.bench(budget)?;
    let one = Trial::new(layer, 1, 1, arguments.seed).bench(budget / 8)?;
    let functions = whole.functions.iter().map(|timed| {
        let small = one.functions.iter().find(|small| small.function == timed.function);
        Function {
            name: timed.function,
            calls: timed.seconds.len(),
            seconds: quantiles(timed),
            call_seconds: small.map_or(0.0, |small| small.quantile(0.5)),
            copied_bytes: timed.copied_bytes,
        }
    });
    let file = arguments.layer.file.display().to_string();
    let line = Line {
        event: "bench",
        file: &file,
        rows: trial.rows(),
        edges: trial.edges(),
        instance_seconds: whole.instance_seconds,
        guest_memory_bytes: whole.guest_memory_bytes,
        functions: functions.collect(),
    };
    if arguments.json {
        output.json(&line);
        return Ok(());
    }
    let edges =
        if line.edges > 0 { format!(", {} edges", grouped(line.edges as u64)) } else { String::new() };
    output.line(format_args!("{file}: {}{edges}, one thread", counted(line.rows as u64, "row")));
    output.line(format_args!(
        "  {:<18} {:>10} {:>23} {:>12} {:>12} {:>12}",
        "function", "median", "10 % to 90 %", "one row", "copied", "throughput"
    ));
    for f in &line.functions {
        let [median, low, high] = f.seconds;
        let (work, what) = if line.edges > 0 { (line.edges, "edges") } else { (line.rows, "rows") };
        output.line(format_args!(
            "  {:<18} {:>10} {:>23} {:>12} {:>12} {:>8.1} M {what}/s",
            f.name,
            seconds(median),
            format!("{} to {}", seconds(low), seconds(high)),
            seconds(f.call_seconds),
            bytes(f.copied_bytes),
            work as f64 / median / 1e6
        ));
    }
    let (fresh, memory) = (seconds(line.instance_seconds), bytes(line.guest_memory_bytes as u64));
    output.line(format_args!("  new instance {fresh}; guest memory {memory}"));
    Ok(())
}
