//! Number of bytes that the workers of lanes send and receive per update, for the values of rows,
//! weights, gradients and losses.

use std::collections::BTreeSet;

use eciton_program::program::Parameter;
use eciton_program::{Place, Residents, Stage};
use eciton_recipe::{Config, RowFormat};
use eciton_types::{ParameterId, SlotId, StageId};
use serde::Serialize;

use super::lane_needs::{Cut, owning_lanes};
use crate::owned::{Maker, OwningLanes};
use crate::session::Draft;

/// Size in bytes from which on a weight is sent once per update. Smaller weights are sent with each
/// task.
const TRAVELS: u64 = eciton_workers::OBJECT_BYTES as u64;

/// Number of bytes that the worker of a lane receives and sends per update (optimiser step). Only
/// values count, without shapes, row numbers and labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UpdateBytes {
    /// Number of bytes of rows and weights that the worker receives from the host.
    pub from_host: u64,
    /// Number of bytes of rows, gradients and losses that the worker sends to the host.
    pub to_host: u64,
    /// Number of bytes of rows and gradient sums that the worker sends to other workers.
    pub to_workers: u64,
}

/// Returns the bytes per update of each lane in one replica of the pipeline. Returns `None` without
/// workers, with relations of the graph, and for values that are sparse or not f32.
pub(super) fn update_bytes(draft: &Draft, config: &Config, rows: &[usize]) -> Option<Vec<UpdateBytes>> {
    let planned = &draft.planned;
    let half = [config.run.row_storage, config.executor.rows].contains(&RowFormat::Bf16);
    if !config.executor.kind.has_workers()
        || half
        || draft.inputs.stored() < 1.0
        || !planned.program.relations.is_empty()
    {
        return None;
    }
    let cut: Cut<'_> = (&planned.program, &planned.spans, &planned.schedule);
    let sums = draft.sums(config, rows.len());
    let parts: Vec<(u64, u64)> = rows.iter().map(|&rows| rows as u64).zip(sums.counts()).collect();
    let (depth, width) = (config.lanes.lanes.depth(), u64::from(config.lanes.lanes.width.max(1)));
    let gradients = match config.sums_stay() {
        true => sums.joined(&sums.replicas(&config.lanes.lanes)),
        false => sums,
    };
    let gradients = gradients.counts().sum::<u64>() / width;
    // The cast is lossless: there are at most `MAX_LANES` lanes.
    Some((0..depth as u16).map(|lane| of_lane(cut, config, lane, (&parts, gradients))).collect())
}

/// Returns the bytes per update of one lane. `parts` has the number of rows and of gradient sums of
/// each micro-batch. `gradients` is the number of sums of one gradient that the lane sends.
fn of_lane(
    (program, spans, schedule): Cut<'_>,
    config: &Config,
    lane: u16,
    (parts, gradients): (&[(u64, u64)], u64),
) -> UpdateBytes {
    let own = config.workers.own();
    let width = u64::from(config.lanes.lanes.width.max(1));
    // A replica processes the mean number of micro-batches per replica.
    let rows: u64 = parts.iter().map(|(rows, _)| rows).sum::<u64>() / width;
    let nodes: u64 = parts.iter().map(|(_, nodes)| nodes).sum::<u64>() / width;
    let tasks = parts.len() as u64 / width;
    let residents = match own {
        true => Residents::passing(program, spans, schedule),
        false => Residents::from_program(program, spans, schedule),
    };
    let columns = |slot: SlotId| schedule.slots.get(slot.index()).map_or(0, |spec| u64::from(spec.width));
    let is_here = |slot| residents.last_reader(slot).is_none() && residents.passed(slot).is_none();
    let mut found = UpdateBytes::default();
    let mut large = BTreeSet::new();
    let on = |stage: &Stage| stage.place == Place::Lane(lane);
    for (id, stage) in (0u16..).map(StageId).zip(&schedule.stages).filter(|(_, stage)| on(stage)) {
        for (slot, _) in stage.reads().filter(|(slot, _)| is_here(*slot)) {
            // The lane receives a slot once, even if several of its steps read it. The last of
            // these steps counts the bytes.
            if residents.again(slot, lane).is_none_or(|last| last == id) {
                found.from_host += 4 * rows * columns(slot);
            }
        }
        for slot in stage.writes() {
            match residents.passed(slot) {
                Some(passed) => {
                    let others = passed.readers.keys().filter(|reader| **reader != lane).count() as u64;
                    found.to_workers += 4 * rows * columns(slot) * others;
                }
                None if is_here(slot) => found.to_host += 4 * rows * columns(slot),
                None => {}
            }
        }
        let inside: Vec<StageId> = spans.get(id).into_iter().flat_map(|span| span.ids()).collect();
        found.to_host +=
            4 * nodes * inside.iter().filter(|id| program.loss_of(**id).is_some()).count() as u64;
        if own {
            continue;
        }
        let values = |id| program.parameter(id).map_or(0, |one: &Parameter| 4 * one.len() as u64);
        let mut read = BTreeSet::new();
        for stage in inside.iter().filter_map(|id| program.stage(*id)) {
            let is_sent = |id: &&ParameterId| {
                let layer = program.parameter(program.owner(**id)).map(|one| one.layer);
                !config.sums_stay() || layer.is_none_or(|layer| !config.optimiser.freezes(layer))
            };
            found.to_host += gradients * stage.sums.iter().filter(is_sent).map(|id| values(*id)).sum::<u64>();
            let operation = program.operations.get(stage.operation.index());
            read.extend(operation.into_iter().flat_map(|of| &of.parameters).map(|id| program.owner(*id)));
        }
        for id in read {
            match values(id) {
                bytes if bytes < TRAVELS => found.from_host += tasks * bytes,
                bytes => found.from_host += if large.insert(id) { bytes } else { 0 },
            }
        }
    }
    if own {
        found.to_workers += shared((program, spans, schedule), config, lane, gradients);
    }
    found
}

/// Returns the number of bytes of gradient sums that the worker of a lane sends to other workers
/// per update. It sends them to all workers that update the parameter. `gradients` is the number of
/// sums of one gradient.
fn shared(cut: Cut<'_>, config: &Config, lane: u16, gradients: u64) -> u64 {
    let (program, lanes) = (cut.0, config.lanes.lanes);
    let OwningLanes { readers, makers } = owning_lanes(cut);
    let of_use = |(number, maker): (usize, &Option<Maker>)| {
        maker.filter(|maker| maker.lane == usize::from(lane))?;
        // The cast is lossless, because a program has at most 2^16 uses of parameters.
        let parameter = program.owner(ParameterId(number as u16));
        let one = program.parameter(parameter).filter(|one| !config.optimiser.freezes(one.layer))?;
        let owner = readers.get(parameter.index())?.first().copied()?;
        let most = u64::from(lanes.depth().saturating_sub(1));
        let replicas = u64::from(config.workers.replicas_of(owner as u32)).min(most);
        let others = u64::from(lanes.width.max(1)) - u64::from(owner == usize::from(lane)) + replicas;
        Some(gradients * others * 4 * one.len() as u64)
    };
    makers.iter().enumerate().filter_map(of_use).sum()
}
