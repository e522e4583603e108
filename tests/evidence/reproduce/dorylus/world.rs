//! Simulation inputs for a published row, with its machines, speeds and edge network. A row has one
//! variant per backend.

use eciton_program::{Phase, Profile, Program, StageProfile};
use eciton_recipe::prices::Machine;
use eciton_recipe::{Mode, Pipeline, Prices};
use eciton_simulate::{
    EpochWork, Functions, Hosts, Kind, Report, Settings, Shape, Transport, epoch_work, simulate,
};

use super::fit::Fitted;
use super::published::{FUNCTION_MB, GPU_MACHINE, Published, Run};
use crate::error::Error;

/// Number of intervals per core in runs without functions.
const INTERVALS_A_CORE: u32 = 4;
/// Number of epochs that are simulated if epochs overlap (asynchronous mode).
const ASYNC_EPOCHS: u32 = 3;
/// Share of additional epochs that asynchronous training with staleness 0 needs for the same
/// accuracy, as published.
const MORE_EPOCHS: f64 = 0.08;
/// Size of the score of one edge and attention head, in bytes. The score's gradient has the same
/// size.
const SCORE_BYTES: f64 = 4.0;

/// Hardware that runs a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    Functions,
    Cpu,
    Gpu,
}

/// Factors by which parameters are multiplied for a single row. All are 1 by default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Varied {
    /// Factor applied to a core's time per edge and value in gathers.
    pub(crate) edge: f64,
    /// Factor applied to a core's time per floating-point operation.
    pub(crate) flop: f64,
    /// Factor applied to a function's time per floating-point operation.
    pub(crate) function: f64,
    /// Factor applied to the number of operations of the edge network (ApplyEdge).
    pub(crate) network: f64,
    /// Factor applied to the number of cores that one GPU is equivalent to.
    pub(crate) gpu: f64,
    /// Factor applied to the share of edges between hosts, relative to a random partition.
    pub(crate) cut: f64,
}

impl Default for Varied {
    fn default() -> Self {
        Self { edge: 1.0, flop: 1.0, function: 1.0, network: 1.0, gpu: 1.0, cut: 1.0 }
    }
}

/// Time and cost of one synchronous epoch. Asynchronous epochs are converted to the number that
/// trains equally far.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    pub(crate) run: Run,
    /// Factor that converts the totals of `report` to one epoch.
    pub(crate) of_all: f64,
    pub(crate) report: Report,
}

/// All inputs of [`simulate`] except the prices.
pub(super) struct World {
    pub(crate) shape: Shape,
    pub(crate) profile: Profile,
    pub(crate) settings: Settings,
}

/// Simulates an epoch of a published row on its own machines.
pub(super) fn epoch(
    row: &Published,
    backend: Backend,
    fitted: &Fitted,
    varied: &Varied,
    prices: &Prices,
) -> Result<Ran, Error> {
    let name = if backend == Backend::Gpu { GPU_MACHINE } else { row.machine };
    let machine = (name, prices.machine(name)?);
    world(row, backend, machine, fitted, varied)?.epoch(prices)
}

/// Returns the simulation inputs for a published row on the machine type `name`, which may differ
/// from the published one.
pub(super) fn world(
    row: &Published,
    backend: Backend,
    (name, machine): (&str, Machine),
    fitted: &Fitted,
    varied: &Varied,
) -> Result<World, Error> {
    let shape = row.shape()?;
    let mut hosts = Hosts::of_machine(row.hosts, name, machine);
    let random = (f64::from(row.hosts) - 1.0) / f64::from(row.hosts);
    hosts.cut = Some(random * varied.cut);
    let mut profile = fitted.profile(varied);
    let functions = row.all_functions();
    let intervals = match backend {
        // One task per function, as in the paper.
        Backend::Functions => functions,
        Backend::Cpu => row.hosts * hosts.cores * INTERVALS_A_CORE,
        Backend::Gpu => {
            hosts.cores = 1;
            let times = fitted.gpu_cores * varied.gpu;
            profile.host.seconds_per_flop /= times;
            profile.host.seconds_per_edge_value /= times;
            row.hosts
        }
    };
    let mut settings = Settings::new(intervals, 1);
    (settings.hosts, settings.jitter, settings.deadlines) = (hosts, 0.0, None);
    // Environments are warm, because an epoch represents many.
    (settings.cloud.cold_us, settings.cloud.init_us) = (0, 0);
    if backend == Backend::Functions {
        settings.functions = Functions {
            count: functions,
            transport: Transport::Direct,
            memory_mb: FUNCTION_MB,
            ..Functions::default()
        };
        (settings.pipeline, settings.epochs) = (Pipeline::asynchronous(0), ASYNC_EPOCHS);
        let limits = &mut settings.cloud;
        (limits.concurrency, limits.burst) = (functions, functions);
    }
    if let Kind::Gat { heads } = shape.kind {
        let program = shape.program(&profile)?;
        profile.stages = with_edge_network(&program, &shape, &profile, intervals, heads, varied)?;
    }
    Ok(World { shape, profile, settings })
}

impl World {
    pub(super) fn epoch(&self, prices: &Prices) -> Result<Ran, Error> {
        let report = simulate(&self.shape, &self.profile, prices, &self.settings)?;
        let more = if self.settings.pipeline.mode == Mode::Async { 1.0 + MORE_EPOCHS } else { 1.0 };
        let of_all = more / f64::from(self.settings.epochs);
        let run = Run { seconds: report.seconds * of_all, usd: report.usd.total * of_all };
        Ok(Ran { run, of_all, report })
    }

    /// Returns the compute times of an epoch.
    pub(super) fn work(&self) -> Result<EpochWork, Error> {
        Ok(epoch_work(&self.shape, &self.profile, &self.settings)?)
    }
}

/// Returns the stage profiles of a GAT whose edge network (ApplyEdge) is part of the tensor stages.
/// Like the released code, it computes a score per edge and head from the vertex's own row, without
/// the source's term.
///
/// For H heads of F values, forward takes `2 F H` operations per edge and sends `4 H` bytes back.
/// Backward takes `4 F H` operations and receives `4 H` bytes. The host only sums the weighted rows
/// once per pass.
fn with_edge_network(
    program: &Program,
    shape: &Shape,
    profile: &Profile,
    intervals: u32,
    heads: u32,
    varied: &Varied,
) -> Result<Vec<StageProfile>, Error> {
    let mut found = profile.stages(program, shape.stored)?;
    let degree = shape.edges as f64 / f64::from(shape.vertices);
    let bytes = shape.edges as f64 / f64::from(intervals) * SCORE_BYTES * f64::from(heads);
    for (counted, stage) in found.iter_mut().zip(&program.stages) {
        counted.gather_width /= 2;
        let operation = program.operations.get(stage.operation.index());
        let Some(operation) = operation.filter(|operation| operation.kernel == "attention") else { continue };
        let values = operation.signature.as_ref().and_then(|signature| signature.outputs.first());
        let width = values.and_then(|rows| rows.extents.first()).copied().unwrap_or_default();
        let flops = degree * 2.0 * f64::from(width.saturating_sub(2 * heads)) * varied.network;
        if stage.phase == Phase::Forward {
            counted.flops_per_row += flops;
            counted.bytes_out_per_task += bytes;
        } else {
            counted.flops_per_row += 2.0 * flops;
            counted.bytes_in_per_task += bytes;
        }
    }
    Ok(found)
}
