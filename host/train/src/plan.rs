//! The plan: what a run will do and hold, told without running it.

mod bytes;
mod lanes;
mod pipeline;

use eciton_exec::functions::Outlook;
use eciton_graph::dataset::Dataset;
use eciton_plan::{
    Aggregator, Config, Domain, Image, LayerKind, Mode, Pipeline, Program, Source, SpanChoice, Stage, StageId,
};
use serde::Serialize;

pub use self::lanes::{HostPlan, LanePlan, LanesPlan};
pub(crate) use self::lanes::{needs, owning_lanes};
pub(crate) use self::pipeline::Planning;
pub use self::pipeline::{PipelinePlan, PlannedPipeline};
use crate::defaults;
use crate::driver::stage_bytes;
use crate::error::Result;
use crate::evaluation::Asked;
use crate::memory::MemoryPlan;
use crate::report::Ordered;
use crate::said::{self, Said};
use crate::session::{Draft, Options, check_settings};
use crate::train::checked;

/// What `eciton plan` and `eciton train --dry-run` report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The data set's name.
    pub dataset: String,
    /// For instance `gcn 1433-16-7`.
    pub model: String,
    /// Settings that followed from the data, with their reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chosen: Vec<Said>,
    /// Vertices.
    pub vertices: u32,
    /// Directed edges.
    pub edges: u64,
    /// Vertex intervals.
    pub intervals: u32,
    /// Compute threads.
    pub threads: u32,
    /// In which order the vertices lie in memory; `None`: the data set's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Ordered>,
    /// Tensor tasks an epoch, all intervals, without evaluation.
    pub tasks: u64,
    /// Gathers an epoch, of all rows.
    pub gathers: u64,
    /// Values a row that these gathers move for each edge.
    pub gathered_width: u64,
    /// Floating-point operations of an epoch's training, without evaluation.
    pub epoch_flops: f64,
    /// True if the features are gathered once, before the first epoch.
    pub gathered_features: bool,
    /// The layers, in order.
    pub layers: Vec<LayerPlan>,
    /// Edges by which the gathers beside the loss go in training, where not by all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labelled_edges: Option<u64>,
    /// What intervals wait for, and how far they run apart.
    pub pipeline: Pipeline,
    /// Epochs that are kept of rows that are gathered.
    pub row_versions: u32,
    /// Versions of the weights that are alive at most.
    pub weight_versions: u32,
    /// An epoch's stages, in order.
    pub stages: Vec<StagePlan>,
    /// Runs of stages that are one task each; empty where a task is a stage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanPlan>,
    /// Lanes, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lanes: Option<LanesPlan>,
    /// What planners say, where stages were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned: Option<PipelinePlan>,
    /// Where the host of functions is, by what their number will be cut, and what a GB costs there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<FunctionsPlan>,
    /// What it holds.
    pub memory: MemoryPlan,
    /// True if that fits: into `run.memory_bytes`, or what there is.
    pub fits: bool,
}

/// Facts of a run's functions that are known before it starts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionsPlan {
    /// The host's place, and the limit by which the number of functions will be cut.
    #[serde(flatten)]
    pub outlook: Outlook,
    /// 1 GB between host and functions, USD, by the price list.
    pub transfer_gb_usd: f64,
    /// Date and region of that list.
    pub prices: String,
}

impl FunctionsPlan {
    fn of(config: &Config, intervals: u32) -> Result<Option<Self>> {
        let Some(outlook) = Outlook::of(&config.executor, &config.emulator, intervals) else {
            return Ok(None);
        };
        let prices = eciton_exec::prices()?;
        let transfer_gb_usd = prices.transfer_gb_usd(outlook.host.place);
        let prices = format!("{}, {}", prices.date, prices.region);
        Ok(Some(Self { outlook, transfer_gb_usd, prices }))
    }
}

/// One layer of the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerPlan {
    /// For instance `sage`.
    pub kind: String,
    /// What other layers call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it reads.
    pub inputs: Vec<Source>,
    /// The layer whose weight is its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights_of: Option<u32>,
    /// What its rows count in the loss, as scores beside the last layer's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_weight: Option<f64>,
    /// Height, width and channels of its rows, where they are images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Columns of its input and of its output.
    pub widths: (u32, u32),
    /// What comes first where both could: by multiply-adds and bytes, forward and back.
    pub first: LayerFirst,
}

/// What a layer does first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerFirst {
    /// Its product; gathers are as wide as its output.
    Product,
    /// Its gathers, which are as wide as its input.
    Gather,
    /// Its gathers, before the first epoch.
    GatheredOnce,
    /// There are not both.
    Fixed,
}

/// What is done first in a layer of a program.
fn first(program: &Program, at: usize, kind: &LayerKind) -> LayerFirst {
    match kind {
        LayerKind::Sage { aggregator: Aggregator::Max } => LayerFirst::Gather,
        LayerKind::Gcn | LayerKind::Sage { .. } | LayerKind::Gin { .. } | LayerKind::Sgc { .. } => {
            chosen(program, at)
        }
        _ => LayerFirst::Fixed,
    }
}

/// The same, where both could come first.
fn chosen(program: &Program, at: usize) -> LayerFirst {
    match at {
        0 if program.savings.gathered_features => LayerFirst::GatheredOnce,
        _ if program.savings.aggregates_first(at) => LayerFirst::Gather,
        _ => LayerFirst::Product,
    }
}

/// One stage of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StagePlan {
    /// For instance `linear 1 backward`.
    pub name: String,
    /// True if its steps are tasks for a kernel; else they are the host's.
    pub task: bool,
    /// Bytes of rows that a step reads, the mean over intervals.
    pub bytes_read: u64,
    /// Bytes of rows that it writes.
    pub bytes_written: u64,
}

/// A run of stages that is one task. Lists of edges, which travel with gathers, are not counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpanPlan {
    /// For instance `linear 0 to linear 0 backward`.
    pub name: String,
    /// How many stages.
    pub stages: usize,
    /// Bytes of rows and parameters that enter a task, the mean over intervals.
    pub bytes_in: u64,
    /// Bytes of rows and of parts of gradients that leave it.
    pub bytes_out: u64,
    /// Floating-point operations of its kernels.
    pub flops: f64,
    /// These, for each byte in or out.
    pub flop_per_byte: f64,
}

/// A program's runs, on intervals of so many rows.
fn spans(draft: &Draft, config: &Config, rows: &[usize]) -> Vec<SpanPlan> {
    let (inputs, program, spans) = (&draft.inputs, &draft.planned.program, &draft.planned.spans);
    if config.executor.spans == SpanChoice::None {
        return Vec::new();
    }
    let schedule = spans.fuse(program);
    let stored = inputs.stored();
    let count = rows.len().max(1) as u64;
    let one = |(id, span): (u16, &eciton_plan::Span)| {
        let id = StageId(id);
        let bytes =
            rows.iter().map(|&rows| stage_bytes(&schedule, inputs, config.run.row_storage, (id, rows)));
        let (read, written) = bytes.fold((0, 0), |sum, (read, written)| (sum.0 + read, sum.1 + written));
        let (values_in, values_out) = span.parameter_values(program);
        let (bytes_in, bytes_out) = (read / count + 4 * values_in, written / count + 4 * values_out);
        let flops = span.row_flops(program, stored) * rows.iter().sum::<usize>() as f64 / count as f64;
        SpanPlan {
            name: schedule.stage_name(id),
            stages: span.stages.len(),
            bytes_in,
            bytes_out,
            flops,
            flop_per_byte: flops / (bytes_in + bytes_out).max(1) as f64,
        }
    };
    (0..).zip(spans.as_slice()).map(one).collect()
}

/// Returns the floating-point operations of an epoch whose rounds have these rows, an interval
/// each, and whose gathers move this many values for each edge.
fn epoch_flops(draft: &Draft, config: &Config, (rows, width): (&[usize], u64)) -> f64 {
    let (inputs, program) = (&draft.inputs, &draft.planned.program);
    let stored = inputs.stored();
    let all = rows.iter().sum::<usize>() as f64;
    let own = |stage: &Stage| {
        let rows = match stage.domain {
            Domain::VERTICES => all,
            other => {
                inputs.intervals_of(other).iter().map(|interval| interval.rows.len()).sum::<usize>() as f64
            }
        };
        rows * (stage.cost.flops + stored * stage.cost.feature_flops)
    };
    let rounds = config.batch.rounds(inputs.shape.rows);
    let edges = match program.apart {
        Some(_) => 0.0,
        None => inputs.dataset.graph.edges() as f64,
    };
    f64::from(rounds) * program.stages.iter().map(own).sum::<f64>() + 2.0 * edges * width as f64
}

/// What planners say of lanes whose stages were measured.
fn planned(draft: &Draft, config: &Config) -> Result<Option<PipelinePlan>> {
    let Some(path) = config.lanes.profile.as_ref().filter(|_| config.lanes.lanes.count > 0) else {
        return Ok(None);
    };
    let profile = crate::profile::read(std::path::Path::new(path))?;
    let (program, inputs) = (&draft.planned.lowered, &draft.inputs);
    let (rows, parts) = crate::session::parts(config, inputs, program);
    let (stored, threads) = (inputs.stored(), draft.threads);
    Planning { program, profile: &profile, stored, rows, parts, threads }.report(config).map(Some)
}

/// Reads the data set and opens the kernels, and plans the run. Rows, weights and gathered features
/// are not allocated.
///
/// # Errors
/// As [`crate::train`], up to the first epoch; not that it does not fit, which is a figure here.
pub fn plan(config: &Config, options: &Options) -> Result<Plan> {
    plan_data(None, config, options)
}

/// [`plan`] of a run on a data set in memory.
///
/// # Errors
/// As [`plan`].
pub fn plan_on(dataset: Dataset, config: &Config, options: &Options) -> Result<Plan> {
    plan_data(Some(dataset), config, options)
}

fn plan_data(dataset: Option<Dataset>, config: &Config, options: &Options) -> Result<Plan> {
    let (mut config, dataset) = defaults::settled(config, dataset)?;
    let dataset = dataset.map(|dataset| checked(&config, dataset)).transpose()?;
    if config.pipeline.auto {
        // What holds most of all that trials may choose.
        config.pipeline = Pipeline { mode: Mode::Async, staleness: 1, auto: false, ..config.pipeline };
    }
    let config = &config;
    let draft = Draft::new(config, options, dataset, Asked::Folder)?;
    let batches =
        draft.planned.chooser.as_ref().and_then(|chooser| chooser.batches(&config.batch, &draft.inputs));
    check_settings(&draft.settings, &draft.inputs, batches.as_ref())?;
    let (inputs, program) = (&draft.inputs, &draft.planned.program);
    let intervals = program.apart.unwrap_or(inputs.intervals.len() as u32);
    let gathered = |stage: &Stage| {
        // A batch normalisation reads all rows and follows no edge.
        let slot = stage.all().next().filter(|_| stage.cost.edge_values > 0);
        let slot = slot.and_then(|slot| program.slots.get(slot.index()));
        slot.map(|slot| u64::from(slot.width))
    };
    let widths = program.stages.iter().filter_map(gathered);
    let tasks = program.tasks() as u64;
    let (gathers, gathered_width) = (widths.clone().count() as u64, widths.sum());
    let format = config.run.row_storage;
    let stage = |id: u16| {
        let rows = |interval: u32| {
            let domain = program.stage(StageId(id)).map_or(Domain::VERTICES, |stage| stage.domain);
            match program.apart {
                Some(_) => program.rows(Domain::VERTICES) as usize / intervals.max(1) as usize,
                None => inputs.intervals_of(domain).get(interval as usize).map_or(0, |i| i.rows.len()),
            }
        };
        let each = (0..intervals).map(|i| stage_bytes(program, inputs, format, (StageId(id), rows(i))));
        let (read, written) = each.fold((0, 0), |sum, (read, written)| (sum.0 + read, sum.1 + written));
        let mean = |bytes: u64| bytes / u64::from(intervals.max(1));
        StagePlan {
            name: program.stage_name(StageId(id)),
            task: program.place(StageId(id)).is_task(),
            bytes_read: mean(read),
            bytes_written: mean(written),
        }
    };
    let layers = program.model.layers.iter().enumerate().map(|(at, layer)| LayerPlan {
        kind: layer.kind.name().to_owned(),
        name: layer.name.clone(),
        inputs: program.model.sources(at),
        weights_of: layer.weights_of.map(|tied| tied.layer),
        loss_weight: layer.loss_weight,
        image: layer.image,
        widths: (program.model.input_width(at), layer.width),
        first: first(program, at, &layer.kind),
    });
    let stages = (0..).take(program.stages.len()).map(stage).collect();
    let rows: Vec<usize> = match program.apart {
        Some(_) => {
            vec![program.rows(Domain::VERTICES) as usize / intervals.max(1) as usize; intervals as usize]
        }
        None => inputs.intervals.iter().map(|interval| interval.rows.len()).collect(),
    };
    Ok(Plan {
        dataset: inputs.dataset.name.clone(),
        model: crate::train::model_name(program),
        chosen: said::chosen(config),
        vertices: inputs.shape.rows,
        edges: inputs.dataset.graph.edges(),
        intervals,
        threads: draft.threads,
        order: inputs.vertices.ordered.clone(),
        tasks: tasks * u64::from(intervals),
        gathers,
        gathered_width,
        epoch_flops: epoch_flops(&draft, config, (&rows, gathered_width)),
        gathered_features: program.savings.gathered_features,
        layers: layers.collect(),
        labelled_edges: draft.planned.labelled.as_ref().map(|labelled| labelled.edges),
        pipeline: config.pipeline,
        row_versions: config.pipeline.row_versions(),
        weight_versions: config.pipeline.weight_versions(),
        stages,
        spans: spans(&draft, config, &rows),
        lanes: LanesPlan::of(&draft, config, &rows),
        planned: planned(&draft, config)?,
        functions: FunctionsPlan::of(config, intervals)?,
        fits: draft.planned.memory.check(config.run.memory_bytes).is_ok(),
        memory: draft.planned.memory,
    })
}
