//! The commands `eciton plan` and `eciton train --dry-run`, which report the work and memory of a
//! run without training.

mod drawing;

use std::path::{Path, PathBuf};

use eciton_planner::Failures;
use eciton_recipe::{HostPlace, Mode, Source, WeightVersions};
use eciton_simulate::pipeline::Preemption;
use eciton_train::{
    Hosts, HostsPlan, LanesPlan, LayerFirst, LayerPlan, Options, PipelinePlan, Plan, PlannedPipeline,
    Protections,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::hosts::Wanted;
use crate::output::Output;
use crate::protection::{self, Compared, Comparison};
use crate::text::{bytes, counted, grouped, seconds};
use crate::{recipe, train};

/// Maximum share by which a simulated step randomly takes longer.
const JITTER: f64 = 0.1;

/// Arguments of `eciton plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    train: train::Arguments,
    /// Write a drawing of the model's layers to this file: DOT (.dot, .gv) or SVG (.svg)
    #[arg(long, value_name = "FILE", value_parser = drawn)]
    draw: Option<PathBuf>,
    /// Write a drawing of the schedule of --lanes to this file (SVG)
    #[arg(long, value_name = "FILE")]
    draw_schedule: Option<PathBuf>,
    /// Memory of the machine that will train, such as 8GiB [default: memory of this machine]
    #[arg(long, value_name = "SIZE", value_parser = crate::data::size)]
    host_memory: Option<u64>,
}

/// Parses the path of a drawing of the model's layers. The extension of the file name determines
/// the format.
fn drawn(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match form(&path) {
        Some(_) => Ok(path),
        None => Err("expected a file name that ends in .dot, .gv or .svg".to_owned()),
    }
}

/// A function that draws the layers of a model in one format.
type Form = fn(&[LayerPlan]) -> String;

/// Returns the drawing function that the extension of a path selects, or `None` for an unknown
/// extension.
fn form(path: &Path) -> Option<Form> {
    let ending = path.extension()?.to_str()?;
    let forms: [(&str, Form); 3] = [("dot", drawing::dot), ("gv", drawing::dot), ("svg", drawing::svg)];
    forms.into_iter().find_map(|(known, form)| known.eq_ignore_ascii_case(ending).then_some(form))
}

/// Plan of a run, which `eciton plan --json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    #[serde(flatten)]
    plan: &'a Plan,
    /// Protections against failures of workers, the cheapest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    protections: Option<&'a [Compared]>,
}

/// Plans the run, writes the drawings that were asked for, and prints the plan.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let Arguments { train, draw, draw_schedule, host_memory } = arguments;
    report(train, (draw.as_deref(), draw_schedule.as_deref()), *host_memory, output)
}

/// Plans the run and prints the plan, for `eciton train --dry-run`.
pub(crate) fn dry_run(arguments: &train::Arguments, output: &mut Output) -> Result<(), Failure> {
    report(arguments, (None, None), None, output)
}

/// Plans the run and prints the plan. `host_memory` is the memory of the machine that will train,
/// in bytes. If `None`, the recipe's value or this machine's memory is used.
///
/// # Errors
/// Returns [`Failure::Failed`] if the run does not fit into the memory. The plan is printed before.
fn report(
    arguments: &train::Arguments,
    (draw, schedule): (Option<&Path>, Option<&Path>),
    host_memory: Option<u64>,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut config = recipe::configure(&arguments.request()?)?;
    config.run.memory_bytes = host_memory.or(config.run.memory_bytes);
    let (embeddings, scores) = (arguments.embeddings, arguments.scores);
    let hosts = match arguments.hosts {
        Some(Wanted::Count(count)) if count > 1 => {
            Some(Hosts { me: 0, count, here: 1, saves: false, fabric: None })
        }
        Some(Wanted::Env) => {
            return Err(Failure::Usage("--hosts env: a plan needs the number of hosts".to_owned()));
        }
        _ => None,
    };
    let options = Options { embeddings, scores, hosts, ..Options::default() };
    let plan = eciton_train::plan(&config, &options)?;
    if let Some((path, form)) = draw.and_then(|path| Some((path, form(path)?))) {
        write(path, &form(&plan.layers))?;
    }
    if let Some(path) = schedule {
        let Some(lanes) = &plan.lanes else {
            let reason = "the run has no pipeline to draw; add --lanes N";
            return Err(Failure::Usage(format!("--draw-schedule {}: {reason}", path.display())));
        };
        write(path, &lanes.picture)?;
    }
    let protections = plan.planned.as_ref().and_then(|planned| planned.protections.as_ref());
    let protections = protections.map(compared).transpose()?;
    if arguments.json {
        let protections = protections.as_ref().map(|(compared, _)| &compared[..]);
        output.json(&Line { event: "plan", plan: &plan, protections });
    } else {
        print(&plan, config.run.memory_bytes, protections, output);
    }
    if plan.fits {
        return Ok(());
    }
    let allowed = config.run.memory_bytes.or(plan.memory.available_bytes).unwrap_or_default();
    Err(Failure::Failed(format!(
        "the run needs {} of memory, but only {} are available",
        bytes(plan.memory.total_bytes),
        bytes(allowed)
    )))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::Failed(format!("{}: cannot be written: {error}", path.display())))
}

/// Prints the work of each lane (a worker's share of the pipeline), the schedule, and the memory of
/// the host.
fn print_lanes(plan: &LanesPlan, row: &mut impl FnMut(&str, String)) {
    for (place, lane) in plan.lanes.iter().enumerate() {
        let name = if place == 0 { "lanes" } else { "" };
        let text = format!(
            "{place} {}; {:.1} Mflop per row, {} parameters, up to {} in flight; worker memory {}",
            lane.stages.join(", "),
            lane.flops / 1e6,
            grouped(lane.parameters),
            match plan.chunks {
                1 => counted(u64::from(lane.cap), "micro-batch").replace("batchs", "batches"),
                _ => format!("{} pairs of micro-batch and chunk", lane.cap),
            },
            match lane.process_bytes {
                Some(process) => {
                    format!("{} of {} of the process", bytes(lane.worker_bytes), bytes(process))
                }
                None => bytes(lane.worker_bytes),
            },
        );
        let text = match &lane.update {
            Some(update) => format!(
                "{text}; traffic per update: {} from the host, {} to the host, {} to other workers",
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
        if plan.chunks > 1 { format!(", {} chunks of stages per lane", plan.chunks) } else { String::new() };
    let text = format!(
        "{}{runs}, weights {}, {}; lanes idle for {:.1} % of the time, largest lane {:.2} times the mean work",
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
            "no weights, moments or gradients (workers own them), {} of activations between lanes",
            bytes(host.boundary_bytes)
        ),
        versions => format!(
            "{} of weights ({}), {} of moments, {} of gradients, {} of activations between lanes: {} of the memory below",
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

/// Prints the rows of each host and the bytes that it sends, and the law of when several hosts are
/// quicker than one.
fn print_hosts(plan: &HostsPlan, row: &mut impl FnMut(&str, String)) {
    for (at, host) in plan.hosts.iter().enumerate() {
        let to = |bytes_to: &[u64]| {
            let others = bytes_to.iter().enumerate().filter(|(to, _)| *to != at);
            others.map(|(to, count)| format!("{} to {to}", bytes(*count))).collect::<Vec<_>>().join(", ")
        };
        let text = format!(
            "{at}: {}, {}, {} of other hosts; at the start {}; per step {}; per evaluation {}",
            counted(host.rows, "row"),
            counted(host.edges, "edge"),
            counted(host.ghosts, "row"),
            to(&host.start_bytes),
            to(&host.step_bytes),
            to(&host.evaluation_bytes)
        );
        row(if at == 0 { "hosts" } else { "" }, text);
    }
    let count = plan.hosts.len();
    let sent = plan.hosts.iter().map(|host| host.step_bytes.iter().sum::<u64>()).max().unwrap_or(0);
    let received = |to: usize| plan.hosts.iter().filter_map(|host| host.step_bytes.get(to)).sum::<u64>();
    let most = sent.max((0..count).map(received).max().unwrap_or(0));
    let text = format!(
        "{count} hosts are quicker than one if {} cross the link of a host in less than {:.0} % of the time that \
         a step takes on one",
        bytes(most),
        100.0 * (1.0 - 1.0 / count as f64)
    );
    row("link", text);
}

/// Prints the throughput that the planner predicts for the configured pipeline, for the best one,
/// and for the second-best one.
fn print_planned(planned: &PipelinePlan, row: &mut impl FnMut(&str, String)) {
    let text = |plan: &PlannedPipeline| {
        let (rows, bubble) = (plan.rows_per_second, 100.0 * plan.bubble);
        let batch = match plan.rows == planned.own.rows {
            true => String::new(),
            false => format!(", {} rows per update", grouped(plan.rows.into())),
        };
        format!("{}{batch}: {rows:.0} rows/s, bubble {bubble:.1} %", plan.shape)
    };
    row("predicted", text(&planned.own));
    row("best", text(&planned.best));
    for (place, (operators, forward, backward)) in planned.best.stages.iter().enumerate() {
        let times = format!("per micro-batch {} forward, {} backward", seconds(*forward), seconds(*backward));
        row("", format!("stage {place}: {}; {times}", operators.join(", ")));
    }
    if let Some((second, reason)) = &planned.runner_up {
        row("runner-up", format!("{}; {reason}", text(second)));
    }
}

/// Returns the protections against failures of workers with their costs. They are simulated, for the
/// returned number of hours, if that does not take too long.
fn compared(of: &Protections) -> Result<(Vec<Compared>, Option<f64>), Failure> {
    let Protections { all, graph, machine, failures } = of;
    let Failures { per_hour, replaced_after, usd_hour, reliable_usd_hour, .. } = *failures;
    let preemption = Preemption { per_hour, back: replaced_after, ..Preemption::default() };
    let comparison =
        Comparison { all, graph, machine, preemption, jitter: JITTER, usd_hour, reliable_usd_hour };
    let hours = comparison.hours();
    Ok((comparison.run(hours)?, hours))
}

/// Prints the plan as text, with one fact per line. `allowed` is the memory of the machine that
/// will train, in bytes. `protections` has the hours for which they were simulated.
fn print(
    plan: &Plan,
    allowed: Option<u64>,
    protections: Option<(Vec<Compared>, Option<f64>)>,
    output: &mut Output,
) {
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
    row("intervals", format!("{pieces} on {}", counted(u64::from(plan.threads), "thread")));
    if let Some(order) = &plan.order {
        row("vertex order", format!("{}, {}", order.name, seconds(order.seconds)));
    }
    let once =
        if plan.gathered_features { "; features are gathered once, before the first epoch" } else { "" };
    row(
        "per epoch",
        format!(
            "{}, {} of {} values per edge in total{once}",
            counted(plan.tasks, "task"),
            counted(plan.gathers, "gather"),
            plan.gathered_width
        ),
    );
    if let Some(edges) = plan.labelled_edges {
        let text =
            format!("the last gathers of training read only {} of labelled vertices", counted(edges, "edge"));
        row("pruned edges", text);
    }
    let versions = |count: u32, what: &str| match count {
        1 => String::new(),
        _ => format!(", {count} {what}"),
    };
    let bound = match (plan.pipeline.mode, plan.pipeline.bound()) {
        (Mode::Sync, _) => "every stage waits for all intervals".to_owned(),
        (Mode::Pipe, 0) => "a gather waits for all intervals".to_owned(),
        (Mode::Pipe, _) => {
            "a gather waits for all intervals, the next epoch starts without waiting".to_owned()
        }
        (Mode::Async, 0) => {
            "a gather reads rows of the previous epoch if current rows are not available".to_owned()
        }
        (Mode::Async, ahead) => {
            format!("up to {} ahead of the slowest interval", counted(ahead.into(), "epoch"))
        }
    };
    row(
        "mode",
        format!(
            "{}: {bound}{}{}",
            plan.pipeline.mode.name(),
            versions(plan.row_versions, "epochs of gathered rows"),
            versions(plan.weight_versions, "versions of the weights")
        ),
    );
    if let Some(functions) = &plan.functions {
        row("host", functions.outlook.host.to_string());
        let charged = match functions.outlook.host.place {
            HostPlace::Home => "per GB of replies and of objects that the host reads",
            HostPlace::Region => "per GB of requests and replies; objects are free",
            HostPlace::Zone => "per GB of requests and replies",
        };
        let usd = functions.transfer_gb_usd;
        row("transfer", format!("${usd:.3} {charged} (prices of {})", functions.prices));
        if let Some(cut) = &functions.outlook.cut {
            row("functions", cut.to_string());
        }
    }
    for (at, chosen) in plan.chosen.iter().enumerate() {
        let text = format!("{} = {}: {}", chosen.key, chosen.value, chosen.from);
        row(if at == 0 { "chosen" } else { "" }, text);
    }
    for (at, layer) in plan.layers.iter().enumerate() {
        let first = match layer.first {
            LayerFirst::Product => ": product first",
            LayerFirst::Gather => ": gather first",
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
                "{:<24} {:<4} {:>9} read, {:>9} written per step",
                stage.name,
                if stage.task { "task" } else { "host" },
                bytes(stage.bytes_read),
                bytes(stage.bytes_written)
            ),
        );
    }
    for (place, span) in plan.spans.iter().enumerate() {
        row(
            if place == 0 { "fused stages" } else { "" },
            format!(
                "{:<40} {:>9} read, {:>9} written per task, {:.0} flop per byte",
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
    if let Some((compared, hours)) = protections {
        protection::print(&compared, hours, &mut row);
    }
    if let Some(hosts) = &plan.hosts {
        print_hosts(hosts, &mut row);
    }
    let memory = &plan.memory;
    if plan.hosts.is_some() {
        row("memory", "of the host with the most rows".to_owned());
    }
    for item in &memory.items {
        let when = match item.during.len() == memory.phases.len() {
            true => String::new(),
            false => format!("; during {}", words(item.during.iter().map(|phase| phase.name()))),
        };
        row(item.purpose, format!("{:>9}  {}{when}", bytes(item.bytes), item.detail));
    }
    if memory.phases.len() > 1 {
        for held in &memory.phases {
            row(held.phase.name(), format!("{:>9}  in this phase", bytes(held.bytes)));
        }
    }
    if let Some(read) = memory.read_bytes.filter(|&read| read > memory.total_bytes) {
        row("reading", format!("{:>9}  peak while the data set was read", bytes(read)));
    }
    if let Some(saved) = memory.bf16_saves_bytes.filter(|&saved| saved > 0) {
        row("rows as bf16", format!("{:>9}  saved in training by --row-storage bf16", bytes(saved)));
    }
    row("total", format!("{:>9}  at the peak", bytes(memory.peak_bytes())));
    if memory.mapped_bytes > 0 {
        let text = "lists and features in mapped files, whose pages are dropped if memory is short";
        row("mapped", format!("{:>9}  {text}", bytes(memory.mapped_bytes)));
    }
    if let Some(available) = allowed.or(plan.memory.available_bytes) {
        row("available", format!("{:>9}", bytes(available)));
    }
}

/// Returns a text on the unusual properties of the layer at index `at`. These are inputs other than
/// the previous layer, a weight shared with another layer, and an additional loss.
fn reads(layers: &[LayerPlan], at: usize) -> String {
    let Some(layer) = layers.get(at) else { return String::new() };
    let usual = match at.checked_sub(1) {
        // An index in a list of layers.
        Some(before) => Source::Layer(before as u32),
        None => Source::Features,
    };
    let one = |source: &Source| match source {
        Source::Features => "the features".to_owned(),
        Source::Layer(index) => match layers.get(*index as usize) {
            Some(LayerPlan { name: Some(name), .. }) => name.clone(),
            _ => index.to_string(),
        },
    };
    let mut text = match layer.inputs[..] {
        [source] if source == usual => String::new(),
        _ => format!("; reads {}", layer.inputs.iter().map(one).collect::<Vec<_>>().join(", ")),
    };
    if let Some(owner) = layer.weights_of {
        text += &format!("; shares the weight of {}", one(&Source::Layer(owner)));
    }
    if let Some(weight) = layer.loss_weight {
        text += &format!("; has a loss of its own with weight {weight}");
    }
    text
}

/// Joins the names with `and`, for instance `ordering and gathering`.
fn words<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(" and ")
}
