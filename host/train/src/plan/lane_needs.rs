//! Parameters that each lane reads, and memory that the worker of each lane needs.

use std::collections::BTreeSet;

use eciton_planner::policy::{self, caps};
use eciton_program::program::Parameter;
use eciton_program::{FusedStages, Place, Program, Residents};
use eciton_recipe::Config;
use eciton_tensor::frame::padded_bytes;
use eciton_types::StageId;

use crate::error::Result;
use crate::owned::{Maker, OwningLanes};

/// A program on lanes. It consists of the program, its fused stages, and the program in which each
/// fused stage is one stage on a lane.
pub(super) type Cut<'a> = (&'a Program, &'a FusedStages, &'a Program);

/// Returns each parameter that the stages of `lane` read, in the order of the program.
pub(super) fn parameters<'a>(
    (program, spans, schedule): Cut<'a>,
    lane: u16,
) -> impl Iterator<Item = &'a Parameter> {
    let all = (0u16..).map(StageId).zip(&schedule.stages);
    let mut read: Vec<_> = all
        .filter(|(_, stage)| stage.place == Place::Lane(lane))
        .filter_map(|(id, _)| spans.get(id))
        .flat_map(|span| span.ids())
        .filter_map(|id| program.operation(id))
        .flat_map(|operation| operation.parameters.iter().map(|&id| program.owner(id)))
        .collect();
    read.sort_unstable();
    read.dedup();
    read.into_iter().filter_map(|id| program.parameter(id))
}

/// Returns the lanes that read each parameter, and the stage of a lane that computes each gradient.
/// A parameter has one gradient per use, because several layers may use it.
pub(crate) fn owning_lanes((program, spans, schedule): Cut<'_>) -> OwningLanes {
    let mut readers = vec![BTreeSet::new(); program.parameters.len()];
    let mut makers = vec![None; program.parameters.len() + program.uses.len()];
    for (number, stage) in (0u16..).map(StageId).zip(&schedule.stages) {
        let Place::Lane(lane) = stage.place else { continue };
        let lane = usize::from(lane);
        for id in spans.get(number).into_iter().flat_map(|span| span.ids()) {
            let read = program.operation(id).into_iter().flat_map(|operation| &operation.parameters);
            for &parameter in read {
                let of = readers.get_mut(program.owner(parameter).index());
                if let Some(of) = of {
                    of.insert(lane);
                }
            }
            for sum in program.stage(id).into_iter().flat_map(|stage| &stage.sums) {
                makers
                    .get_mut(sum.index())
                    .into_iter()
                    .for_each(|maker| *maker = Some(Maker { lane, stage: number }));
            }
        }
    }
    OwningLanes { readers: readers.into_iter().map(|lanes| lanes.into_iter().collect()).collect(), makers }
}

/// Memory of a worker process without rows and weights, in bytes: the program, its kernels and its
/// threads (measured). A worker without stages has [`IDLE_BYTES`].
pub(super) const PROCESS_BYTES: u64 = 40 << 20;
const IDLE_BYTES: u64 = 21 << 20;
/// Number of copies of its weights that a worker stores for transfers, if the host owns the weights:
/// the frames of incoming weights and of outgoing sums, and freed memory between them (measured).
pub(super) const IN_TRANSIT: u64 = 3;
/// Size of the buffers of a matrix product, as a multiple of the parameter: the partial sums of its
/// gradient, and a copy in another layout.
pub(super) const IN_PRODUCTS: u64 = 4;

/// Returns the planned peak of the worker process of a lane, in bytes. `stored` is the lane's value
/// of [`needs`].
pub(super) fn process_bytes(config: &Config, cut: Cut<'_>, lane: u16, stored: u64) -> u64 {
    let sizes: Vec<u64> = parameters(cut, lane).map(|one| 4 * one.len() as u64).collect();
    let transit = if config.workers.own() { 0 } else { IN_TRANSIT * sizes.iter().sum::<u64>() };
    let products = IN_PRODUCTS * sizes.iter().max().copied().unwrap_or(0);
    match stored {
        0 => IDLE_BYTES,
        stored => PROCESS_BYTES + stored + transit + products,
    }
}

/// Checks that the planned peak of each worker process does not exceed the memory that the
/// description of the cluster gives it. `needs` has the values of [`needs`].
///
/// # Errors
/// Returns an error for the first worker that has too little memory.
pub(crate) fn check_workers(config: &Config, cut: Cut<'_>, needs: &[(u64, u64)]) -> Result<()> {
    // The cast is lossless: there are at most `MAX_LANES` lanes.
    let depth = config.lanes.lanes.depth().max(1) as usize;
    let all = needs.iter().enumerate().filter(|_| config.has_worker_lanes());
    let short = all.filter_map(|(at, (weights, rows))| {
        let needed = process_bytes(config, cut, (at % depth) as u16, weights + rows);
        let given = config.cluster.memory_bytes(at).filter(|given| needed > *given)?;
        Some((at, needed, given, weights, rows))
    });
    let Some((at, needed, given, weights, rows)) = short.into_iter().next() else { return Ok(()) };
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let reason = format!(
        "worker {at} needs {} MiB ({} MiB of weights and sums, {} MiB of rows, the rest for the process), but \
         cluster.memory_mib gives it {} MiB: list lane {} in lanes.recompute, plan by measured times (--measured), or use \
         more lanes or smaller micro-batches",
        mib(needed),
        mib(*weights),
        mib(*rows),
        mib(given),
        at % depth
    );
    Err(eciton_recipe::Error::Content { what: "a run that fits into the memory of its workers", reason }
        .into())
}

/// Maximum number of partial sums of one gradient that a worker stores, if workers own the weights.
pub(super) const OWNED_SUMS: u64 = 4;

/// Returns the maximum number of bytes that the worker of each lane stores, as a pair of weights
/// with gradient sums and rows. A batch has `parts` micro-batches of at most `rows` rows, and a
/// gradient sum takes `levels` buffers.
pub(crate) fn needs(
    config: &Config,
    cut: Cut<'_>,
    (rows, parts, levels): (usize, u32, u64),
) -> Vec<(u64, u64)> {
    let (program, spans, schedule) = cut;
    let lanes = config.lanes.lanes;
    let of_replica = parts.div_ceil(lanes.width.max(1));
    let caps = caps(schedule, &lanes, of_replica);
    let caps: Vec<u32> =
        caps.into_iter().map(|cap| policy::intervals_at_once(&lanes, cap, of_replica)).collect();
    let residents = match config.workers.own() {
        true => Residents::passing(program, spans, schedule),
        false => Residents::from_program(program, spans, schedule),
    };
    let padded = |rows: u64, columns: u64| padded_bytes(rows, columns).unwrap_or(u64::MAX);
    let versions = u64::from(config.pipeline.weight_versions());
    // The cast is lossless: there are at most `MAX_LANES` lanes.
    let depth = lanes.depth().max(1) as u16;
    let held = |lane: u16| {
        let weights = parameters(cut, lane).map(|one| {
            let (first, rest) = one.shape.split_first().map_or((1, 1), |(first, rest)| {
                (u64::from(*first), rest.iter().map(|extent| u64::from(*extent)).product())
            });
            padded(first, rest)
        });
        weights.sum::<u64>()
    };
    let one = |lane: u16| {
        let kept = residents.widths(schedule, lane).chain(residents.again_widths(schedule, lane));
        let kept: u64 = kept.map(|width| padded(rows as u64, width.into())).sum();
        let cap_of = |lane: u16| caps.get(usize::from(lane)).copied().unwrap_or(1);
        let cap = cap_of(lane);
        // Rows that another lane sends to the worker count once per micro-batch in flight, on the
        // lane that has more of them.
        let passed = residents.passed_widths(schedule, lane);
        let passed =
            passed.map(|(width, from)| padded(rows as u64, width.into()) * u64::from(cap.max(cap_of(from))));
        // For weights that the worker owns, optimiser moments also count, and one sum per level of
        // the tree, and one for the incoming micro-batch.
        let copies = match config.workers.own() {
            true => {
                let others = u64::from(lanes.width.max(1)) - 1;
                versions + config.optimiser.algorithm.moments() as u64 + (OWNED_SUMS + others) * versions
            }
            false if config.pipeline.gradient_versions() == 1 => versions + levels,
            false => versions,
        };
        // The worker also stores replicas of the parameters of the lanes after it.
        let next = (1..depth).map(|by| (by, (lane + by) % depth));
        let next = next.filter(|(by, of)| config.workers.replicas_of((*of).into()) >= u32::from(*by));
        let next = next.map(|(_, of)| held(of));
        let replicas = next.sum::<u64>() * (versions + config.optimiser.algorithm.moments() as u64 + 1);
        (held(lane) * copies + replicas, kept * u64::from(cap) + passed.sum::<u64>())
    };
    (0..lanes.count).map(|lane| one((lane % u32::from(depth)) as u16)).collect()
}
