//! `eciton plan`, which equals `eciton train --dry-run`.

mod drawing;

use std::path::{Path, PathBuf};

use eciton_recipe::{HostPlace, Mode, Source, WeightVersions};
use eciton_train::{LanesPlan, LayerFirst, LayerPlan, Options, PipelinePlan, Plan, PlannedPipeline};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::{bytes, counted, grouped, seconds};
use crate::{recipe, train};

/// Arguments of `eciton plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    train: train::Arguments,
    /// Draw the model's layers into a file: DOT (.dot, .gv) or SVG (.svg)
    #[arg(long, value_name = "FILE", value_parser = drawn)]
    draw: Option<PathBuf>,
    /// Draw the schedule of --lanes into a file, as SVG
    #[arg(long, value_name = "FILE")]
    draw_schedule: Option<PathBuf>,
    /// The memory of the host that trains, such as 8GiB; by default this machine's
    #[arg(long, value_name = "SIZE", value_parser = crate::data::size)]
    host_memory: Option<u64>,
}

/// Parses the path of a drawing. The extension decides the format.
fn drawn(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match form(&path) {
        Some(_) => Ok(path),
        None => Err("the ending says how layers are drawn: .dot, .gv or .svg".to_owned()),
    }
}

type Form = fn(&[LayerPlan]) -> String;

fn form(path: &Path) -> Option<Form> {
    let ending = path.extension()?.to_str()?;
    let forms: [(&str, Form); 3] = [("dot", drawing::dot), ("gv", drawing::dot), ("svg", drawing::svg)];
    forms.into_iter().find_map(|(known, form)| known.eq_ignore_ascii_case(ending).then_some(form))
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    #[serde(flatten)]
    plan: &'a Plan,
}

/// Plans, draws, and prints the report.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let Arguments { train, draw, draw_schedule, host_memory } = arguments;
    report(train, (draw.as_deref(), draw_schedule.as_deref()), *host_memory, output)
}

/// Plans, and prints the report.
pub(crate) fn dry_run(arguments: &train::Arguments, output: &mut Output) -> Result<(), Failure> {
    report(arguments, (None, None), None, output)
}

/// Plans for a host with `host_memory` bytes, and prints the report. If the run does not fit, it
/// returns an error after the report.
fn report(
    arguments: &train::Arguments,
    (draw, schedule): (Option<&Path>, Option<&Path>),
    host_memory: Option<u64>,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut config = recipe::configure(&arguments.request()?)?;
    config.run.memory_bytes = host_memory.or(config.run.memory_bytes);
    let (embeddings, scores) = (arguments.embeddings, arguments.scores);
    let plan = eciton_train::plan(&config, &Options { embeddings, scores, ..Options::default() })?;
    if let Some((path, form)) = draw.and_then(|path| Some((path, form(path)?))) {
        write(path, &form(&plan.layers))?;
    }
    if let Some(path) = schedule {
        let Some(lanes) = &plan.lanes else {
            let reason = "there are no lanes, whose schedule it would draw; say --lanes N";
            return Err(Failure::Usage(format!("--draw-schedule {}: {reason}", path.display())));
        };
        write(path, &lanes.picture)?;
    }
    if arguments.json {
        output.json(&Line { event: "plan", plan: &plan });
    } else {
        print(&plan, config.run.memory_bytes, output);
    }
    if plan.fits {
        return Ok(());
    }
    let allowed = config.run.memory_bytes.or(plan.memory.available_bytes).unwrap_or_default();
    Err(Failure::Failed(format!(
        "the run needs {} of memory and {} are to be had",
        bytes(plan.memory.total_bytes),
        bytes(allowed)
    )))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))
}

/// Prints the work of each lane, and the schedule.
fn print_lanes(plan: &LanesPlan, row: &mut impl FnMut(&str, String)) {
    for (place, lane) in plan.lanes.iter().enumerate() {
        let name = if place == 0 { "lanes" } else { "" };
        let text = format!(
            "{place} {}; {:.1} Mflop a row, {} parameters, at most {} at once; a worker keeps {}",
            lane.stages.join(", "),
            lane.flops / 1e6,
            grouped(lane.parameters),
            match plan.chunks {
                1 => counted(u64::from(lane.cap), "part"),
                _ => format!("{} pairs of part and run of stages", lane.cap),
            },
            bytes(lane.worker_bytes),
        );
        let text = match &lane.update {
            Some(update) => format!(
                "{text}; an update moves {} from the host, {} to it, {} to other workers",
                bytes(update.from_host),
                bytes(update.to_host),
                bytes(update.to_workers)
            ),
            None => text,
        };
        row(name, text);
    }
    let names = WeightVersions::ALL.into_iter();
    let weights = names.filter(|(_, known)| *known == plan.weights).map(|(name, _)| name).next();
    let runs =
        if plan.chunks > 1 { format!(", {} runs of stages a lane", plan.chunks) } else { String::new() };
    let text = format!(
        "{}{runs}, weights {}, {}; {:.1} % of the lanes' time is idle, the largest lane has {:.2} times the mean's operations",
        plan.order.name(),
        weights.unwrap_or_default(),
        counted(u64::from(plan.width), "replica"),
        100.0 * plan.bubble,
        plan.imbalance
    );
    row("schedule", text);
    let host = &plan.host;
    let text = match host.versions {
        0 => format!(
            "holds no weights, moments or gradients, which workers own, and {} of rows between lanes",
            bytes(host.boundary_bytes)
        ),
        versions => format!(
            "holds {} of weights ({}), {} of moments, {} of gradients, {} of rows between lanes: {} of the memory \
             below",
            bytes(host.weights_bytes),
            counted(u64::from(versions), "version"),
            bytes(host.moments_bytes),
            bytes(host.gradients_bytes),
            bytes(host.boundary_bytes),
            bytes(host.total_bytes),
        ),
    };
    row("host", text);
    plan.grid.lines().for_each(|line| row("", line.to_owned()));
}

/// Prints the planner's predictions for this pipeline, the best one and the runner-up.
fn print_planned(of: &PipelinePlan, row: &mut impl FnMut(&str, String)) {
    let told = |plan: &PlannedPipeline| {
        let (rows, bubble) = (plan.rows_per_second, 100.0 * plan.bubble);
        format!("{}: {rows:.0} rows a second, bubble {bubble:.1} %", plan.shape)
    };
    row("predicted", told(&of.own));
    row("best", told(&of.best));
    for (place, (operators, forward, backward)) in of.best.stages.iter().enumerate() {
        let times = format!("{} forward, {} back a part", seconds(*forward), seconds(*backward));
        row("", format!("stage {place}: {}; {times}", operators.join(", ")));
    }
    if let Some((second, reason)) = &of.runner_up {
        row("runner-up", format!("{}; {reason}", told(second)));
    }
}

fn print(plan: &Plan, allowed: Option<u64>, output: &mut Output) {
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<18} {text}"));
    row(
        "data and model",
        format!(
            "{}, {}; {} vertices, {} directed edges",
            plan.dataset,
            plan.model,
            grouped(u64::from(plan.vertices)),
            grouped(plan.edges)
        ),
    );
    let pieces = counted(u64::from(plan.intervals), "interval");
    row("pieces", format!("{pieces} on {}", counted(u64::from(plan.threads), "thread")));
    if let Some(order) = &plan.order {
        row("order", format!("{}, {}", order.name, seconds(order.seconds)));
    }
    let once = if plan.gathered_features { "; the features are gathered once, before the first" } else { "" };
    row(
        "an epoch",
        format!(
            "{}, {} of {} values an edge in all{once}",
            counted(plan.tasks, "task"),
            counted(plan.gathers, "gather"),
            plan.gathered_width
        ),
    );
    if let Some(edges) = plan.labelled_edges {
        let text = format!(
            "{} of labelled vertices, in training, for the gathers beside the loss",
            counted(edges, "edge")
        );
        row("only", text);
    }
    let versions = |count: u32, what: &str| match count {
        1 => String::new(),
        _ => format!(", {count} {what}"),
    };
    let apart = match (plan.pipeline.mode, plan.pipeline.bound()) {
        (Mode::Sync, _) => "every stage waits for all intervals".to_owned(),
        (Mode::Pipe, 0) => "a gather waits for all intervals".to_owned(),
        (Mode::Pipe, _) => "a gather waits for all intervals, the next epoch for none".to_owned(),
        (Mode::Async, 0) => "rows of the epoch before where newer ones are not there yet".to_owned(),
        (Mode::Async, bound) => {
            format!("up to {} ahead of the slowest interval", counted(bound.into(), "epoch"))
        }
    };
    row(
        "mode",
        format!(
            "{}: {apart}{}{}",
            plan.pipeline.mode.name(),
            versions(plan.row_versions, "epochs of gathered rows"),
            versions(plan.weight_versions, "versions of the weights")
        ),
    );
    if let Some(functions) = &plan.functions {
        row("host", functions.outlook.host.to_string());
        let charged = match functions.outlook.host.place {
            HostPlace::Home => "a GB of replies and of objects that the host reads",
            HostPlace::Region => "a GB of requests and of replies; objects are free",
            HostPlace::Zone => "a GB of requests and of replies",
        };
        let usd = functions.transfer_gb_usd;
        row("transfer", format!("${usd:.3} {charged} (prices of {})", functions.prices));
        if let Some(cut) = &functions.outlook.cut {
            row("functions", cut.to_string());
        }
    }
    for (at, said) in plan.chosen.iter().enumerate() {
        let text = format!("{} = {}: {}", said.key, said.value, said.from);
        row(if at == 0 { "chosen" } else { "" }, text);
    }
    for (at, layer) in plan.layers.iter().enumerate() {
        let first = match layer.first {
            LayerFirst::Product => ": the product first",
            LayerFirst::Gather => ": the gather first",
            LayerFirst::GatheredOnce => ": gathered before the first epoch",
            LayerFirst::Fixed => "",
        };
        let name = if at == 0 { "layers" } else { "" };
        let reads = reads(&plan.layers, at);
        row(name, format!("{} {}{first}{reads}", drawing::title(at, layer), drawing::shape(layer)));
    }
    for (place, stage) in plan.stages.iter().enumerate() {
        row(
            if place == 0 { "stages" } else { "" },
            format!(
                "{:<24} {:<4} {:>9} in, {:>9} out a step",
                stage.name,
                if stage.task { "task" } else { "host" },
                bytes(stage.bytes_read),
                bytes(stage.bytes_written)
            ),
        );
    }
    for (place, span) in plan.spans.iter().enumerate() {
        row(
            if place == 0 { "spans" } else { "" },
            format!(
                "{:<40} {:>9} in, {:>9} out a task, {:.0} flop a byte",
                format!("{} ({})", span.name, counted(span.stages as u64, "stage")),
                bytes(span.bytes_in),
                bytes(span.bytes_out),
                span.flop_per_byte
            ),
        );
    }
    if let Some(lanes) = &plan.lanes {
        print_lanes(lanes, &mut row);
    }
    if let Some(planned) = &plan.planned {
        print_planned(planned, &mut row);
    }
    let memory = &plan.memory;
    for item in &memory.items {
        let when = match item.during.len() == memory.phases.len() {
            true => String::new(),
            false => format!("; while {}", words(item.during.iter().map(|phase| phase.name()))),
        };
        row(item.purpose, format!("{:>9}  {}{when}", bytes(item.bytes), item.detail));
    }
    if memory.phases.len() > 1 {
        for held in &memory.phases {
            row(held.phase.name(), format!("{:>9}  held meanwhile", bytes(held.bytes)));
        }
    }
    if let Some(read) = memory.read_bytes.filter(|&read| read > memory.total_bytes) {
        row("reading", format!("{:>9}  held at most while the data set was read", bytes(read)));
    }
    if let Some(saved) = memory.bf16_saves_bytes.filter(|&saved| saved > 0) {
        row(
            "rows as bf16",
            format!("{:>9}  would be saved while training, by --row-storage bf16", bytes(saved)),
        );
    }
    row("in all", format!("{:>9}  at the peak", bytes(memory.peak_bytes())));
    if let Some(available) = allowed.or(plan.memory.available_bytes) {
        row("to be had", format!("{:>9}", bytes(available)));
    }
}

/// Returns text on a layer's inputs if it does not read the layer before, on a shared weight, and
/// on its loss weight.
fn reads(layers: &[LayerPlan], at: usize) -> String {
    let Some(layer) = layers.get(at) else { return String::new() };
    let usual = match at.checked_sub(1) {
        // An index in a list of layers.
        Some(before) => Source::Layer(before as u32),
        None => Source::Features,
    };
    let one = |source: &Source| match source {
        Source::Features => "the features".to_owned(),
        Source::Layer(place) => match layers.get(*place as usize) {
            Some(LayerPlan { name: Some(name), .. }) => name.clone(),
            _ => place.to_string(),
        },
    };
    let mut text = match layer.inputs[..] {
        [source] if source == usual => String::new(),
        _ => format!("; reads {}", layer.inputs.iter().map(one).collect::<Vec<_>>().join(", ")),
    };
    if let Some(of) = layer.weights_of {
        text += &format!("; the weight is that of {}", one(&Source::Layer(of)));
    }
    if let Some(weight) = layer.loss_weight {
        text += &format!("; its rows are scores, whose loss counts {weight}");
    }
    text
}

/// Joins names, for instance as `ordering and gathering`.
fn words<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(" and ")
}
