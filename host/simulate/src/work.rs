//! Times and bytes of each stage for one interval of the simulated world.

use std::collections::BTreeSet;

use eciton_program::{Place, Profile, Program, Scope, SlotOf, Stage};
use eciton_types::SlotId;

use crate::error::Error;
use crate::settings::{Placement, Settings, Transport, VCPU_MB};
use crate::shape::Shape;

/// Size in bytes from which weights are sent through the object store instead of with each task,
/// like in `eciton-exec`.
const OBJECT_BYTES: f64 = 32768.0;
/// Size of one value of a row, in bytes.
const VALUE_BYTES: f64 = 4.0;
/// Memory in MB that a function needs in addition to the matrices of a task.
const RUNTIME_MB: u64 = 64;

/// Times and bytes of one stage for one interval, before jitter is added.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StageWork {
    /// Locations where the stage may run.
    pub place: Place,
    /// Time on one core of the host, in seconds.
    pub host_s: f64,
    /// Compute time in a function, in seconds.
    pub function_s: f64,
    /// Number of bytes sent to a function, excluding constant data.
    pub in_bytes: f64,
    /// Number of bytes of constant rows and large weights, which many tasks read.
    pub constant_bytes: f64,
    /// Number of objects in the object store that hold the constant data.
    pub constant_objects: u32,
    /// Number of bytes that a function sends back.
    pub out_bytes: f64,
    /// Number of bytes sent to other hosts after the stage has finished.
    pub scatter_bytes: f64,
}

/// Times and bytes of all stages, and of the weight update.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub stages: Vec<StageWork>,
    /// Time in seconds from the last gradient to the next version of the weights. It includes
    /// summing, the optimiser, and sending weights to the other hosts.
    pub update_s: f64,
    /// Total size of the weights, in bytes.
    pub weight_bytes: f64,
    /// Number of stages that functions can run.
    pub tensor_stages: u64,
}

impl Work {
    pub(crate) fn new(
        program: &Program,
        shape: &Shape,
        profile: &Profile,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let intervals = f64::from(settings.intervals);
        let (rows, edges) = (f64::from(shape.vertices) / intervals, shape.edges as f64 / intervals);
        let vcpus = f64::from(settings.functions.memory_mb) / f64::from(VCPU_MB);
        let ghosts = ghosts(shape, settings);
        let gathered = gathered_widths(program);
        let (host, function) = (profile.host, profile.function);
        let mut stages = Vec::with_capacity(program.stages.len());
        for (stage, gathered) in profile.stages(program, shape.stored)?.into_iter().zip(gathered) {
            let flops = stage.flops_per_row * rows;
            let gather = f64::from(stage.gather_width) * (edges + rows) * host.seconds_per_edge_value;
            let features = stage.constant_bytes_per_row * rows;
            let auto = settings.functions.transport == Transport::Auto;
            let apart = auto && stage.bytes_in_per_task >= OBJECT_BYTES;
            let (along, weights) =
                if apart { (0.0, stage.bytes_in_per_task) } else { (stage.bytes_in_per_task, 0.0) };
            let out_rows = stage.bytes_out_per_row * rows;
            let counted = flops * host.seconds_per_flop + gather;
            let host_s = stage.host_seconds_per_row.map_or(counted, |seconds| seconds * rows);
            let counted = flops * function.seconds_per_flop;
            let function_s = stage.function_seconds_per_row.map_or(counted, |seconds| seconds * rows);
            let work = StageWork {
                place: program.place(stage.stage),
                host_s: host.seconds_per_step + host_s,
                // A task has one thread, so more memory than that of one vCPU makes it no faster.
                function_s: function.seconds_per_step + function_s / vcpus.min(1.0),
                in_bytes: stage.bytes_in_per_row * rows + along,
                constant_bytes: features + weights,
                constant_objects: u32::from(features > 0.0) + u32::from(apart),
                out_bytes: out_rows + stage.bytes_out_per_task,
                scatter_bytes: gathered * VALUE_BYTES * rows * ghosts,
            };
            let needs = 2.0 * (work.in_bytes + work.constant_bytes + work.out_bytes);
            let needs_mb = RUNTIME_MB + (needs / 1e6).ceil() as u64;
            let memory_mb = settings.functions.memory_mb;
            if settings.functions.count > 0
                && settings.functions.placement == Placement::Functions
                && stage.gather_width == 0
                && needs_mb > u64::from(memory_mb)
            {
                return Err(Error::Memory { stage: stage.stage, needs_mb, memory_mb });
            }
            stages.push(work);
        }
        let values: f64 = program.parameters.iter().map(|parameter| parameter.len() as f64).sum();
        let hosts = f64::from(settings.hosts.count);
        // Each host sums its intervals' gradients; a ring adds these sums and distributes the weights.
        let ring = 2.0 * (hosts - 1.0) / hosts * values * 4.0 / (settings.hosts.mbits * 1e6 / 8.0);
        // Without a measurement, an update takes ten operations per value.
        let updated = match host.seconds_per_value_updated {
            0.0 => 10.0 * host.seconds_per_flop,
            measured => measured,
        };
        let update_s = values * ((intervals / hosts).ceil() * host.seconds_per_value_added + updated) + ring;
        let tensor_stages = program.tasks() as u64;
        Ok(Self { stages, update_s, weight_bytes: 4.0 * values, tensor_stages })
    }
}

/// Compute times of one epoch, in seconds, before jitter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochWork {
    /// Time of one host core for gathers.
    pub gather_s: f64,
    /// Time of one host core for tensor steps.
    pub tensor_s: f64,
    /// Time of one function for tensor steps, without the exchange of rows.
    pub function_s: f64,
}

/// Returns the compute times of one epoch of [`simulate`](crate::simulate) with the same arguments.
///
/// # Errors
/// Returns [`Error::Memory`] if a task does not fit into a function, and [`Error::Plan`] if the shape
/// is not valid.
pub fn epoch_work(shape: &Shape, profile: &Profile, settings: &Settings) -> Result<EpochWork, Error> {
    let program = shape.program(profile)?;
    let work = Work::new(&program, shape, profile, settings)?;
    let intervals = f64::from(settings.intervals);
    let mut found = EpochWork { gather_s: 0.0, tensor_s: 0.0, function_s: 0.0 };
    for stage in work.stages {
        if stage.place.is_task() {
            found.tensor_s += stage.host_s * intervals;
            found.function_s += stage.function_s * intervals;
        } else {
            found.gather_s += stage.host_s * intervals;
        }
    }
    Ok(found)
}

/// Returns, for each stage, the number of values per row that other intervals read. Rows that
/// depend only on the features and not on weights count as 0, because all hosts have them from the
/// start.
fn gathered_widths(program: &Program) -> Vec<f64> {
    let is_features = |slot: usize| program.slots.get(slot).is_some_and(|slot| slot.of == SlotOf::Features);
    let is_constant = |stage: &Stage| {
        let weights = program.operations.get(stage.operation.index()).map(|of| of.parameters.len());
        weights == Some(0) && stage.reads().all(|(slot, _)| is_features(slot.index()))
    };
    let mut slots: BTreeSet<SlotId> = BTreeSet::new();
    for stage in &program.stages {
        slots.extend(stage.reads().filter(|(_, scope)| *scope == Scope::All).map(|(slot, _)| slot));
    }
    let width = |slot: SlotId| program.slots.get(slot.index()).map_or(0.0, |slot| f64::from(slot.width));
    let of = |stage: &Stage| {
        if is_constant(stage) {
            0.0
        } else {
            stage.writes().filter(|slot| slots.contains(slot)).map(width).sum()
        }
    };
    program.stages.iter().map(of).collect()
}

/// Returns the average number of other hosts that need a copy of a row (ghost vertices). It is
/// `(H - 1) (1 - (1 - cut / (H - 1))^d)` for H hosts and d edges per vertex. Each edge leads to a
/// given other host with probability `cut / (H - 1)`.
fn ghosts(shape: &Shape, settings: &Settings) -> f64 {
    let others = f64::from(settings.hosts.count) - 1.0;
    if others < 1.0 {
        return 0.0;
    }
    let cut = settings.hosts.cut.unwrap_or(others / (others + 1.0));
    let degree = (shape.edges as f64 / f64::from(shape.vertices)).round().min(1e6) as u32;
    let stays = (0..degree).fold(1.0, |stays: f64, _| stays * (1.0 - cut / others));
    others * (1.0 - stays)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::shape::{Kind, LayerOrder, Named};

    #[test]
    fn ghosts_by_hand() {
        let shape = Shape { vertices: 10, edges: 20, ..Named::find("amazon").unwrap().shape() };
        let of = |count, cut| {
            let mut settings = Settings::new(64, 1);
            settings.hosts.count = count;
            settings.hosts.cut = cut;
            ghosts(&shape, &settings)
        };
        assert_eq!(of(1, None), 0.0);
        // Two edges, each to the other host with 1/2: 1 - 1/4.
        assert!((of(2, None) - 0.75).abs() < 1e-12);
        // Two edges, each to one of three others with 1/4: 3 (1 - (3/4)^2).
        assert!((of(4, None) - 3.0 * (1.0 - 0.5625)).abs() < 1e-12);
        assert_eq!(of(4, Some(0.0)), 0.0);
    }

    /// Returns the number of values per row that are sent to other hosts, by stage.
    fn sent(kind: Kind, order: LayerOrder) -> Vec<f64> {
        let shape = Shape { kind, order, ..Named::find("amazon").unwrap().shape() };
        gathered_widths(&shape.program(&Profile::default()).unwrap())
    }

    #[test]
    fn only_what_other_intervals_read_goes_to_other_hosts_and_features_never() {
        let product_first = LayerOrder::default();
        // T0, T1, the loss's gradient, T1'; the rows of the gathers between are their own interval's.
        let plain = [64.0, 0.0, 25.0, 0.0, 25.0, 0.0, 64.0, 0.0, 0.0];
        assert_eq!(sent(Kind::Gcn, product_first), plain);
        // Features are on all hosts. Hidden rows, without stashed rows, and their gradient are sent.
        let gather_first = LayerOrder { gather_first: true, fused: true };
        let sent_first: Vec<f64> = sent(Kind::Gcn, gather_first).into_iter().filter(|w| *w > 0.0).collect();
        assert_eq!(sent_first, [64.0, 64.0]);
        // [z | s | t] forward; the gradient and five values of each target backward, which hosts compute.
        let gat = sent(Kind::Gat { heads: 1 }, product_first);
        let gat: Vec<f64> = gat.into_iter().filter(|width| *width > 0.0).collect();
        assert_eq!(gat, [66.0, 27.0, 30.0, 69.0]);
    }

    #[test]
    fn what_was_measured_takes_the_place_of_what_is_counted() {
        let shape = Named::find("amazon").unwrap().shape();
        let program = shape.program(&Profile::default()).unwrap();
        let settings = Settings::new(128, 1);
        let mut profile = Profile::default();
        let mut stage = profile.stages(&program, 1.0).unwrap()[0];
        (stage.host_seconds_per_row, stage.function_seconds_per_row) = (Some(1e-3), Some(2e-3));
        profile.stages = vec![stage];
        let rows = f64::from(shape.vertices) / 128.0;
        let work = Work::new(&program, &shape, &profile, &settings).unwrap();
        let counted = Work::new(&program, &shape, &Profile::default(), &settings).unwrap();
        assert!((work.stages[0].host_s - (profile.host.seconds_per_step + 1e-3 * rows)).abs() < 1e-9);
        assert!((work.stages[0].function_s - (profile.function.seconds_per_step + 2e-3 * rows)).abs() < 1e-9);
        assert_eq!(work.stages[1].host_s, counted.stages[1].host_s);
    }

    #[test]
    fn a_task_that_a_function_cannot_hold_is_refused_with_figures() {
        let shape = Named::find("amazon").unwrap().shape();
        let program = shape.program(&Profile::default()).unwrap();
        let mut settings = Settings::new(2, 1);
        settings.functions.count = 1;
        let refused = Work::new(&program, &shape, &Profile::default(), &settings).unwrap_err().to_string();
        // 4.6 million rows of 300 features alone are 5.5 GB.
        assert!(refused.contains("stage 0") && refused.contains("1769"), "{refused}");
        settings.intervals = 128;
        assert!(Work::new(&program, &shape, &Profile::default(), &settings).is_ok());
    }
}
