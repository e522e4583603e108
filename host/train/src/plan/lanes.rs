//! Lanes in the plan of a run. A lane has a sequence of stages and runs on its own thread or
//! worker. The drawn schedule assumes that time is proportional to floating-point operations.

use std::collections::BTreeSet;

use eciton_planner::policy::{self, caps};
use eciton_planner::schedule::{Grid, Shape};
use eciton_program::{Buffers, Place, Program, Residents, SlotSpec, Stage};
use eciton_recipe::{Config, Order, WeightVersions};
use eciton_runs::report::MemoryPlan;
use eciton_tensor::frame::padded_bytes;
use eciton_types::{SlotId, StageId};
use serde::Serialize;

use super::bytes::UpdateBytes;
use super::lane_needs::{Cut, check_workers, needs, parameters, process_bytes};
use crate::error::Result;
use crate::session::Draft;

/// Number of rounds (optimiser steps) that the schedule shows if rounds overlap. Otherwise it shows
/// one.
const ROUNDS: u32 = 3;

/// The lanes of a pipeline, with their schedule and memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LanesPlan {
    /// Number of replicas of the pipeline. Each replica processes other micro-batches.
    pub width: u32,
    /// Number of chunks per lane. A chunk is a sequence of consecutive stages.
    pub chunks: u32,
    /// Rule by which a lane chooses its next step.
    pub order: Order,
    /// Rule that determines which version of the weights a round reads.
    pub weights: WeightVersions,
    /// The lanes of one replica of the pipeline.
    pub lanes: Vec<LanePlan>,
    /// Share of time in which lanes are idle, from 0 to 1, if time is proportional to
    /// floating-point operations.
    pub bubble: f64,
    /// Number of floating-point operations of the busiest lane, divided by the mean over all lanes.
    pub imbalance: f64,
    /// Memory of the host, which is the process that drives the lanes.
    pub host: HostPlan,
    /// The schedule as text, with one line per lane and time from left to right.
    pub grid: String,
    /// The schedule as an SVG picture.
    #[serde(skip)]
    pub picture: String,
}

/// Estimated work and memory of one lane, in one replica of the pipeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LanePlan {
    /// Names of the stages on the lane, in the order forward, loss, backward.
    pub stages: Vec<String>,
    /// Number of floating-point operations per row, forward and backward.
    pub flops: f64,
    /// Number of parameter values that the stages of the lane read.
    pub parameters: u64,
    /// Maximum number of micro-batches in flight per chunk of the lane. A micro-batch is in flight
    /// from its first to its last step on the lane.
    pub cap: u32,
    /// Maximum number of bytes of weights and rows that the worker of this lane stores at once.
    pub worker_bytes: u64,
    /// Planned peak of the memory of the worker process, in bytes. `None` if lanes are threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_bytes: Option<u64>,
    /// Number of bytes that the worker of this lane receives and sends per update. `None` if the
    /// run has no workers, or if the number cannot be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateBytes>,
}

/// Estimated memory of the host, which drives the lanes, for weights, gradients and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HostPlan {
    /// Number of versions of the weights that the host stores. 0 if workers own the weights.
    pub versions: u32,
    /// Size of all versions of the weights, in bytes.
    pub weights_bytes: u64,
    /// Size of the optimiser's moments, in bytes. 0 if workers own the weights.
    pub moments_bytes: u64,
    /// Size of the gradient sums of all micro-batches in flight, in bytes.
    pub gradients_bytes: u64,
    /// Size of the rows that the host passes between lanes, in bytes. If lanes are threads, these
    /// are the rows of micro-batches in flight. If lanes are workers, these are all rows of an
    /// update.
    pub boundary_bytes: u64,
    /// Total size of weights, moments, gradients and rows, in bytes.
    pub total_bytes: u64,
}

impl HostPlan {
    /// Computes the memory of the host from the memory plan of a run. `rows` has the number of rows
    /// of each micro-batch.
    fn new((program, spans, schedule): Cut<'_>, config: &Config, rows: &[usize], plan: &MemoryPlan) -> Self {
        let own = config.workers.own();
        let item = |purpose| {
            let found = plan.items.iter().find(|item| item.purpose == purpose);
            found.map_or(0, |item| item.bytes)
        };
        let values: u64 = schedule.parameters.iter().map(|one| one.len() as u64).sum();
        let versions = if own { 0 } else { config.pipeline.weight_versions() };
        let weights_bytes = 4 * values * u64::from(versions);
        // If workers own the weights, the item of the memory plan is a matrix in transit.
        let moments_bytes = if own { 0 } else { item("weights").saturating_sub(weights_bytes) };
        let residents = own.then(|| Residents::passing(program, spans, schedule));
        let is_here = |slot| residents.as_ref().is_none_or(|residents| residents.passed(slot).is_none());
        let slots = (0u16..).map(SlotId).zip(&schedule.slots);
        let passed = slots.filter(|(slot, _)| passes(schedule, *slot) && is_here(*slot));
        let part = |&rows: &usize, width| padded_bytes(rows as u64, width).unwrap_or(u64::MAX);
        // The cast is lossless, because the number of intervals is limited.
        let (count, format) = (rows.len() as u32, config.run.row_storage);
        let buffers = Buffers::assign(schedule, count, &config.pipeline, format);
        let places = buffers.places(schedule, policy::at_once(schedule, &config.ring_lanes(), count));
        let mut longest = rows.to_vec();
        longest.sort_unstable_by_key(|rows| std::cmp::Reverse(*rows));
        // A buffer that several slots share counts once.
        let mut known = BTreeSet::new();
        let boundary = |(slot, spec): (SlotId, &SlotSpec)| {
            let buffer = buffers.buffer(slot);
            if !known.insert(buffer) {
                return 0;
            }
            let places = buffer.and_then(|buffer| places.get(buffer.index()));
            let at_once = places.map_or(count, |(places, _)| *places) as usize;
            longest.iter().take(at_once).map(|rows| part(rows, spec.width.into())).sum::<u64>()
        };
        let boundary_bytes = passed.map(boundary).fold(0, u64::saturating_add);
        let gradients_bytes = item("gradients");
        let total_bytes = [weights_bytes, moments_bytes, gradients_bytes, boundary_bytes];
        let total_bytes = total_bytes.into_iter().fold(0, u64::saturating_add);
        Self { versions, weights_bytes, moments_bytes, gradients_bytes, boundary_bytes, total_bytes }
    }
}

/// Returns true if one lane writes the rows of `slot` and another lane reads them.
fn passes(schedule: &Program, slot: SlotId) -> bool {
    let lanes = |uses: &dyn Fn(&Stage) -> bool| {
        let all = schedule.stages.iter().filter(|stage| uses(stage));
        all.map(|stage| stage.place).collect::<Vec<_>>()
    };
    let writers = lanes(&|stage| stage.writes().any(|written| written == slot));
    let readers = lanes(&|stage| stage.reads().any(|(read, _)| read == slot));
    writers.iter().any(|writer| readers.iter().any(|reader| reader != writer))
}

impl LanesPlan {
    /// Returns the lanes of a run with their schedule, or `None` if the run has no lanes. `rows`
    /// has the number of rows of each micro-batch.
    ///
    /// # Errors
    /// Returns an error if a worker has too little memory ([`check_workers`]).
    pub(super) fn from_draft(draft: &Draft, config: &Config, rows: &[usize]) -> Result<Option<Self>> {
        let (lanes, intervals) = (config.lanes.lanes, u32::try_from(rows.len()).unwrap_or(u32::MAX));
        if lanes.count == 0 {
            return Ok(None);
        }
        let (program, spans) = (&draft.planned.program, &draft.planned.spans);
        let (schedule, stored) = (&draft.planned.schedule, draft.inputs.stored());
        let of_replica = intervals.div_ceil(lanes.width.max(1));
        let caps = caps(schedule, &lanes, of_replica);
        let flops = |id: StageId| spans.get(id).map_or(0.0, |span| span.row_flops(program, stored));
        let on = |lane: u16| {
            let all = (0u16..).map(StageId).zip(&schedule.stages);
            all.filter(move |(_, stage)| stage.place == Place::Lane(lane))
        };
        let most = rows.iter().copied().max().unwrap_or(0);
        let levels = draft.sums(config, rows.len()).levels();
        let needs = needs(config, (program, spans, schedule), (most, intervals, levels));
        check_workers(config, (program, spans, schedule), &needs)?;
        let updates = super::bytes::update_bytes(draft, config, rows);
        let stored = |lane: u16| needs.get(usize::from(lane)).map_or(0, |(weights, rows)| weights + rows);
        let process = |lane: u16| process_bytes(config, (program, spans, schedule), lane, stored(lane));
        let one = |lane: u16| LanePlan {
            stages: on(lane).map(|(_, stage)| stage.name.clone()).collect(),
            flops: on(lane).map(|(id, _)| flops(id)).sum(),
            parameters: parameters((program, spans, schedule), lane).map(|one| one.len() as u64).sum(),
            cap: caps.get(usize::from(lane)).copied().unwrap_or(1),
            worker_bytes: stored(lane),
            process_bytes: config.has_worker_lanes().then(|| process(lane)),
            update: updates.as_ref().and_then(|all| all.get(usize::from(lane))).copied(),
        };
        // The cast is lossless: there are at most `MAX_LANES` lanes.
        let each: Vec<LanePlan> = (0..lanes.depth() as u16).map(one).collect();
        let bound = config.pipeline.bound();
        let rounds = if bound > 0 { ROUNDS } else { 1 };
        let shape = Shape { program: schedule, lanes, intervals, rounds, bound };
        let count = |stage: StageId, interval: u32| {
            flops(stage) * rows.get(interval as usize).map_or(1.0, |&rows| rows.max(1) as f64)
        };
        let grid = Grid::from_shape(&shape, &count);
        let (largest, sum) =
            each.iter().fold((0.0f64, 0.0), |(m, s), lane| (m.max(lane.flops), s + lane.flops));
        Ok(Some(Self {
            width: lanes.width,
            chunks: lanes.chunks(),
            order: lanes.order,
            weights: config.pipeline.weights(),
            imbalance: if sum > 0.0 { largest * each.len() as f64 / sum } else { 1.0 },
            lanes: each,
            bubble: grid.bubble(),
            host: HostPlan::new((program, spans, schedule), config, rows, &draft.planned.memory),
            grid: grid.text(),
            picture: grid.svg(),
        }))
    }
}
