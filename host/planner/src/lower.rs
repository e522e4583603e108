//! Conversion of a training program to a graph of operators.

use super::graph::{Graph, Operator, Pace};
use crate::error::{Error, Result};
use crate::placement::{not_on_lanes, owners};
use eciton_program::profile::{Profile, StageProfile};
use eciton_program::program::{Place, Program, SlotOf};
use eciton_recipe::Error as Refused;
use eciton_types::ids::{SlotId, StageId};

/// Size of a value (f32), in bytes.
const VALUE_BYTES: f64 = 4.0;

impl Graph {
    /// Returns the operators of a training program.
    ///
    /// An operator is a forward stage, or several forward stages of one operation, with all
    /// backward stages of that operation. A loss belongs to the operation that computes its scores.
    /// A sum of gradients belongs to the operation of the stage before it (`lanes`). Times are
    /// those of a core of the profile's host, measured if the profile has measurements. `stored` is
    /// the stored share of the features.
    ///
    /// # Errors
    /// Returns [`Error::Together`] for a program with stages of the host, which lanes cannot run.
    /// Also returns the errors of [`Profile::stages`] and [`Graph::new`].
    pub fn from_program(program: &Program, profile: &Profile, stored: f64) -> Result<Self> {
        let stages = profile.stages(program, stored)?;
        if let Some(stage) = program.stages.iter().find(|stage| stage.place == Place::Host) {
            let (other, other_found, remedy) = not_on_lanes(program, stage);
            let (key, found) = ("lanes.count", "planned".to_owned());
            return Err(Error::from(Refused::Together { key, found, other, other_found, remedy }));
        }
        let end = program.loss().map_or(program.stages.len(), StageId::index);
        let owners = owners(program, end);
        // For each stage, the index of its operator. Operators are the forward stages that own
        // themselves, in order.
        let mut first: Vec<usize> = owners.iter().copied().take(end).collect();
        first.dedup();
        first.sort_unstable();
        first.dedup();
        let operator = |stage: usize| {
            let owner = owners.get(stage).copied().unwrap_or(0);
            first.binary_search(&owner).unwrap_or(0)
        };
        let names = first.iter().map(|&at| program.stages.get(at).map_or("", |stage| stage.name.as_str()));
        let mut operators: Vec<Operator> =
            names.map(|name| Operator { name: name.to_owned(), ..Operator::default() }).collect();
        for (at, (stage, measured)) in program.stages.iter().zip(&stages).enumerate() {
            let own = operator(at);
            let writers = stage.reads().filter_map(|(slot, _)| program.slots.get(slot.index())?.written_by);
            let reads: Vec<usize> = writers.map(|writer| operator(writer.index())).collect();
            let weights = program.operations.get(stage.operation.index()).map(|of| of.parameters.as_slice());
            let values =
                |id: &eciton_types::ids::ParameterId| program.parameter(*id).map_or(0, |of| of.len());
            let weights: usize = weights.unwrap_or_default().iter().map(values).sum();
            let Some(of) = operators.get_mut(own) else { continue };
            let pace = pace(profile, measured);
            if at >= end {
                of.backward = of.backward + pace;
                // The loss is an operation of its own, with weights that no other operation reads.
                if program.loss_of(StageId(at as u16)).is_some() {
                    of.weights += VALUE_BYTES * weights as f64;
                }
                continue;
            }
            of.forward = of.forward + pace;
            if stage.reads().any(|(slot, _)| slot == program.features) {
                let width = program.slots.get(program.features.index()).map_or(0, |slot| slot.width);
                of.data = VALUE_BYTES * f64::from(width) * stored;
            }
            of.reads.extend(reads.into_iter().filter(|&read| read != own));
            if first.binary_search(&at).is_ok() {
                of.weights += VALUE_BYTES * weights as f64;
            }
            for slot in stage.writes() {
                let (kept, output) = readers(program, slot, end, own, &operator);
                let width = program.slots.get(slot.index()).map_or(0.0, |spec| f64::from(spec.width));
                of.kept += if kept { VALUE_BYTES * width } else { 0.0 };
                of.output += if output { VALUE_BYTES * width } else { 0.0 };
            }
        }
        Self::new(operators)
    }
}

/// Returns two conditions on a slot that an operator writes forward: whether backward stages read
/// it, and whether forward stages of another operator read it.
fn readers(
    program: &Program,
    slot: SlotId,
    end: usize,
    own: usize,
    operator: &dyn Fn(usize) -> usize,
) -> (bool, bool) {
    let reads =
        |at: &usize| program.stages.get(*at).is_some_and(|stage| stage.reads().any(|(read, _)| read == slot));
    let activation = program.slots.get(slot.index()).is_some_and(|spec| spec.of == SlotOf::Activation);
    let kept = (end..program.stages.len()).any(|at| reads(&at));
    (kept, activation && (0..end).filter(reads).any(|at| operator(at) != own))
}

/// Returns the time of a stage on one core of the host, while other lanes run.
fn pace(profile: &Profile, stage: &StageProfile) -> Pace {
    let slowdown = profile.lanes.map_or(1.0, |lanes| lanes.slowdown);
    let counted = stage.flops_per_row * profile.host.seconds_per_flop;
    let row = stage.host_seconds_per_row.unwrap_or(counted);
    let call = stage.host_seconds_per_call.unwrap_or(profile.host.seconds_per_step);
    Pace { call: slowdown * call, row: slowdown * row }
}
