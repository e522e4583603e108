//! Plan of a run: its estimated work and memory, computed without running it.

mod bytes;
mod lane_needs;
mod lanes;
mod pipeline;

use eciton_exec::functions::Outlook;
use eciton_graph::dataset::Dataset;
use eciton_program::{Domain, Profile, Program, Stage};
use eciton_recipe::{Aggregator, Config, FusionChoice, Image, LayerKind, Mode, Pipeline, Source};
use eciton_runs::report::{MemoryPlan, Ordered, ResolvedSetting};
use eciton_types::StageId;
use serde::Serialize;

pub(crate) use self::lane_needs::{check_workers, needs, owning_lanes};
pub use self::lanes::{HostPlan, LanePlan, LanesPlan};
pub(crate) use self::pipeline::Planning;
pub use self::pipeline::{PipelinePlan, PlannedPipeline, Protections};
use crate::batch::RowBatches;
use crate::data::checked;
use crate::defaults;
use crate::driver::stage_bytes;
use crate::error::Result;
use crate::evaluation::Asked;
use crate::hosts::{Hosts, HostsPlan};
use crate::memory;
use crate::options::Options;
use crate::resolved_settings;
use crate::session::{Draft, check_settings};

/// Plan of a run with its estimated work and memory, as `eciton plan` and `eciton train --dry-run`
/// report it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Name of the data set.
    pub dataset: String,
    /// Description of the model: its kind and the widths of its layers, for instance `gcn
    /// 1433-16-7`.
    pub model: String,
    /// Settings that follow from the data set, each with the origin of its value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chosen: Vec<ResolvedSetting>,
    /// Number of vertices in the data set.
    pub vertices: u32,
    /// Number of directed edges in the data set.
    pub edges: u64,
    /// Number of intervals. An interval is a contiguous range of vertices that is scheduled as one
    /// unit.
    pub intervals: u32,
    /// Number of compute threads on this machine.
    pub threads: u32,
    /// Order of the vertices in memory. `None` if it is the order of the data set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Ordered>,
    /// Number of tasks per training epoch, over all intervals.
    pub tasks: u64,
    /// Number of gathers (sums over the neighbours of all vertices) per training epoch.
    pub gathers: u64,
    /// Total row width of an epoch's gathers, which is the number of values that an epoch moves per
    /// edge.
    pub gathered_width: u64,
    /// Number of floating-point operations per training epoch, without evaluation.
    pub epoch_flops: f64,
    /// True if the features are summed over neighbours once before the first epoch, instead of in
    /// each epoch.
    pub gathered_features: bool,
    /// The layers of the model in order.
    pub layers: Vec<LayerPlan>,
    /// Number of edges that the gathers next to the loss follow. `None` if they follow all edges.
    /// Other edges cannot affect the loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labelled_edges: Option<u64>,
    /// Settings of the pipeline, for instance its mode and staleness bound.
    pub pipeline: Pipeline,
    /// Number of epochs whose gathered rows are stored at the same time. It is above 1 if epochs
    /// overlap.
    pub row_versions: u32,
    /// Maximum number of versions of the weights that are in memory at the same time. Each
    /// optimiser step creates a version.
    pub weight_versions: u32,
    /// Stages of an epoch in the order of the program. A stage is one operation of a layer, forward
    /// or backward.
    pub stages: Vec<StagePlan>,
    /// Fused stages, each of which runs as one task. Empty if each stage is a task of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanPlan>,
    /// Lanes of the pipeline. A lane has a sequence of stages and runs on its own thread or worker.
    /// `None` if the run has no lanes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lanes: Option<LanesPlan>,
    /// Results of the pipeline planner. `None` if the run has no lanes, or if `lanes.profile` is
    /// not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned: Option<PipelinePlan>,
    /// Facts about the cloud functions that run tasks. `None` if the run uses no functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<FunctionsPlan>,
    /// Rows and messages of each host. `None` for a run on one host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostsPlan>,
    /// Estimated memory of the run for each purpose.
    pub memory: MemoryPlan,
    /// True if the estimated memory does not exceed `run.memory_bytes`, or the available memory if
    /// this is not set.
    pub fits: bool,
}

/// Facts about a run's cloud functions that are known before the run starts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionsPlan {
    /// Location of the host relative to the functions, and the limit that reduces their number.
    #[serde(flatten)]
    pub outlook: Outlook,
    /// Price of transferring 1 GB between the host and functions, in US dollars.
    pub transfer_gb_usd: f64,
    /// Date and region of the price list.
    pub prices: String,
}

impl FunctionsPlan {
    /// Returns the facts about functions, or `None` if the configuration uses no functions.
    fn from_config(config: &Config, intervals: u32) -> Result<Option<Self>> {
        let Some(outlook) = Outlook::for_executor(&config.executor, &config.emulator, intervals) else {
            return Ok(None);
        };
        let prices = eciton_exec::prices()?;
        let transfer_gb_usd = prices.transfer_gb_usd(outlook.host.place);
        let prices = format!("{}, {}", prices.date, prices.region);
        Ok(Some(Self { outlook, transfer_gb_usd, prices }))
    }
}

/// Estimated work of one layer of the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerPlan {
    /// Kind of the layer, for instance `sage`.
    pub kind: String,
    /// Name by which other layers refer to this layer. `None` if it has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Sources of the layer's inputs, which are the features or earlier layers.
    pub inputs: Vec<Source>,
    /// Index of the layer whose weight this layer shares. `None` if it has its own weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights_of: Option<u32>,
    /// Factor of the layer's own loss, for a layer with additional scores. `None` if only the last
    /// layer has a loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_weight: Option<f64>,
    /// Height, width and number of channels of the output rows. `None` if these are not images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Number of input columns, and number of output columns.
    pub widths: (u32, u32),
    /// Operation that runs first, the product with the weight or the gather. If both orders give
    /// the same result, the cheaper one is chosen.
    pub first: LayerFirst,
}

/// The operation that a layer runs first: the product with its weight, or the gather of neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerFirst {
    /// The product runs first, so the gather has the width of the layer's output.
    Product,
    /// The gather runs first, so it has the width of the layer's input.
    Gather,
    /// The gather runs first, and only once before the first epoch.
    GatheredOnce,
    /// The order is fixed, because the layer has only one of the two operations or allows only one
    /// order.
    Fixed,
}

/// Returns the operation that runs first in layer `at` of the program. `kind` is the kind of this
/// layer.
fn first(program: &Program, at: usize, kind: &LayerKind) -> LayerFirst {
    match kind {
        LayerKind::Sage { aggregator: Aggregator::Max } => LayerFirst::Gather,
        LayerKind::Gcn | LayerKind::Sage { .. } | LayerKind::Gin { .. } | LayerKind::Sgc { .. } => {
            chosen(program, at)
        }
        _ => LayerFirst::Fixed,
    }
}

/// Returns the operation that runs first in layer `at`, for kinds of layers that allow both orders.
fn chosen(program: &Program, at: usize) -> LayerFirst {
    match at {
        0 if program.rewrites.gathered_features => LayerFirst::GatheredOnce,
        _ if program.rewrites.aggregates_first(at) => LayerFirst::Gather,
        _ => LayerFirst::Product,
    }
}

/// Estimated work of one stage of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StagePlan {
    /// Name of the stage, for instance `linear 1 backward`.
    pub name: String,
    /// True if kernels run the steps of the stage as tasks, and false if the host runs them itself.
    pub task: bool,
    /// Number of bytes of rows that a step reads, averaged over the intervals. A step is the stage
    /// on one interval.
    pub bytes_read: u64,
    /// Number of bytes of rows that a step writes, averaged over the intervals. A step is the stage
    /// on one interval.
    pub bytes_written: u64,
}

/// Estimated work of a fused stage, which consists of consecutive stages that run as one task. Edge
/// lists, which are sent along for gathers, are not counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpanPlan {
    /// Name of the fused stage, for instance `linear 0 to linear 0 backward`.
    pub name: String,
    /// Number of stages that it consists of.
    pub stages: usize,
    /// Number of bytes of rows and parameters that a task receives, averaged over the intervals.
    pub bytes_in: u64,
    /// Number of bytes of rows and partial gradients that a task returns, averaged over the
    /// intervals.
    pub bytes_out: u64,
    /// Number of floating-point operations per task, averaged over the intervals.
    pub flops: f64,
    /// Number of floating-point operations per byte that a task receives or returns.
    pub flop_per_byte: f64,
}

/// Returns the estimated work of the fused stages. Returns an empty list if stages are not fused.
/// `rows` has the number of rows of each interval.
fn spans(draft: &Draft, config: &Config, rows: &[usize]) -> Vec<SpanPlan> {
    let (inputs, program, spans) = (&draft.inputs, &draft.planned.program, &draft.planned.spans);
    if config.executor.fuse == FusionChoice::None {
        return Vec::new();
    }
    let schedule = spans.fuse(program);
    let stored = inputs.stored();
    let count = rows.len().max(1) as u64;
    let one = |(id, span): (u16, &eciton_program::FusedStage)| {
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

/// Returns the number of floating-point operations per training epoch. `rows` has the number of
/// rows of each interval in a round. `width` is the number of values that gathers move per edge.
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
    let rounds = config.batch.rounds(RowBatches::new(&config.batch, inputs).rows());
    let edges = match program.apart {
        Some(_) => 0.0,
        None => inputs.dataset.graph.edges() as f64,
    };
    f64::from(rounds) * program.stages.iter().map(own).sum::<f64>() + 2.0 * edges * width as f64
}

/// Reads the data set once, and passes the input of the pipeline planner to `then`.
pub(crate) fn with_planning<T>(
    config: &Config,
    options: &Options,
    profile: &Profile,
    then: impl FnOnce(&Planning<'_>) -> Result<T>,
) -> Result<T> {
    let draft = Draft::new(config, options, None, Asked::Folder)?;
    then(&planning(&draft, config, profile))
}

/// Returns the input of the pipeline planner.
fn planning<'a>(draft: &'a Draft, config: &Config, profile: &'a Profile) -> Planning<'a> {
    let (program, inputs) = (&draft.planned.lowered, &draft.inputs);
    let (rows, parts) = crate::session::parts(config, inputs, program);
    Planning { program, profile, stored: inputs.stored(), rows, parts, threads: draft.threads }
}

/// Runs the pipeline planner with the profile of `lanes.profile`, and returns its results. Returns
/// `None` if there are no lanes or there is no profile.
fn planned(draft: &Draft, config: &Config) -> Result<Option<PipelinePlan>> {
    let Some(path) = config.lanes.profile.as_ref().filter(|_| config.lanes.lanes.count > 0) else {
        return Ok(None);
    };
    let profile = crate::logs::read_profile(std::path::Path::new(path))?;
    planning(draft, config, &profile).report(config).map(Some)
}

/// Reads the data set, opens the kernels, and plans the run. Rows, weights and gathered features
/// are not allocated.
///
/// # Errors
/// Returns the errors of [`crate::train`] before the first epoch. Insufficient memory is not an
/// error and is reported by [`Plan::fits`].
pub fn plan(config: &Config, options: &Options) -> Result<Plan> {
    plan_data(None, config, options)
}

/// Plans a run on a data set in memory, like [`plan`].
///
/// # Errors
/// Returns the errors of [`plan`].
pub fn plan_on(dataset: Dataset, config: &Config, options: &Options) -> Result<Plan> {
    plan_data(Some(dataset), config, options)
}

/// Plans a run on `dataset`. If it is `None`, the data set of the configuration is read.
fn plan_data(dataset: Option<Dataset>, config: &Config, options: &Options) -> Result<Plan> {
    let (mut config, dataset) = defaults::settled(config, dataset, None)?;
    let dataset = dataset.map(|dataset| checked(&config, dataset)).transpose()?;
    if config.pipeline.auto {
        // The memory is planned for the setting with the largest memory that the trials may select.
        config.pipeline = Pipeline { mode: Mode::Async, staleness: 1, auto: false, ..config.pipeline };
    }
    let config = &config;
    let mut draft = Draft::with_rows(config, options, dataset, (Asked::Folder, false))?;
    let mut hosts = None;
    if let Some(of) = &options.hosts {
        // The rows that hosts send each other follow from the lists.
        draft.inputs = draft.inputs.with_labelled_lists(&draft.planned.program);
        let planned = HostsPlan::new(&draft, config, of.count)?;
        // The memory is that of the host with the most rows.
        let options =
            Options { hosts: Some(Hosts { me: planned.largest(), ..of.clone() }), ..options.clone() };
        let memory = Draft::new(config, &options, None, Asked::Folder)?.planned.memory;
        // This process has read the data of all hosts, and twice.
        draft.planned.memory = MemoryPlan { read_bytes: None, ..memory };
        hosts = Some(planned);
    }
    let batches =
        draft.planned.chooser.as_ref().and_then(|chooser| chooser.batches(&config.batch, &draft.inputs));
    check_settings(&draft.settings, &draft.inputs, batches.as_ref())?;
    let (inputs, program) = (&draft.inputs, &draft.planned.program);
    let intervals = program.apart.unwrap_or(inputs.intervals.len() as u32);
    let gathered = |stage: &Stage| {
        // A batch normalisation reads all rows and no edges.
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
                Some(_) => program.rows(domain) as usize / intervals.max(1) as usize,
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
        model: program.model.name(),
        chosen: resolved_settings::chosen(config),
        vertices: inputs.shape.rows,
        edges: inputs.dataset.graph.edges(),
        intervals,
        threads: draft.threads,
        order: inputs.vertices.ordered.clone(),
        tasks: tasks * u64::from(intervals),
        gathers,
        gathered_width,
        epoch_flops: epoch_flops(&draft, config, (&rows, gathered_width)),
        gathered_features: program.rewrites.gathered_features,
        layers: layers.collect(),
        labelled_edges: draft.planned.labelled.as_ref().map(|labelled| labelled.edges),
        pipeline: config.pipeline,
        row_versions: config.pipeline.row_versions(),
        weight_versions: config.pipeline.weight_versions(),
        stages,
        spans: spans(&draft, config, &rows),
        lanes: LanesPlan::from_draft(&draft, config, &rows)?,
        planned: planned(&draft, config)?,
        functions: FunctionsPlan::from_config(config, intervals)?,
        hosts,
        fits: memory::check(&draft.planned.memory, config.run.memory_bytes).is_ok(),
        memory: draft.planned.memory,
    })
}
