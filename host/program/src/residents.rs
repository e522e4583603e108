//! Residents: rows that stay on a worker between two tasks, because no other worker reads them.
//!
//! A lane is a worker's share of the pipeline. Rows that only a lane's forward stages write and
//! only its backward stages read need not leave the worker that runs both. If the worker fails,
//! these rows are lost, and another worker repeats the forward step.
//!
//! If workers own the weights, rows that other lanes read are sent directly between workers
//! ([`Residents::passing`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::fused_stages::FusedStages;
use crate::program::{Place, Program};
use eciton_types::ids::{OperationId, SlotId, StageId};

/// Slots (row buffers) whose rows stay on workers between tasks, in a program whose fused stages
/// run on lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residents {
    /// For each slot whose rows stay on a worker, the last stage that reads it. `None` for all
    /// other slots.
    last: Vec<Option<StageId>>,
    /// For each slot whose rows workers send directly to each other, the lanes that write and read
    /// it. `None` for all other slots.
    passed: Vec<Option<Passed>>,
    /// Slots of the host that several stages of a lane read, so that the lane receives their rows
    /// only once. The key is the slot and the lane, and the value is the last of these stages.
    again: BTreeMap<(SlotId, u16), StageId>,
}

/// Lanes between which workers send the rows of a slot directly. One lane writes the slot, and
/// other lanes read it. No stage outside lanes touches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Number of the lane (a worker's share of the pipeline) that writes the slot.
    pub from: u16,
    /// Numbers of the lanes that read the slot, each with its last reading stage. The writing lane
    /// may be among them.
    pub readers: BTreeMap<u16, StageId>,
}

impl Residents {
    /// Finds the slots of `program` whose rows stay on workers. `schedule` is the program as fused
    /// by `fused_stages`, with its stages placed on lanes.
    #[must_use]
    pub fn from_program(program: &Program, fused_stages: &FusedStages, schedule: &Program) -> Self {
        let whole = whole(program, fused_stages);
        let slots = (0..program.slots.len()).map(|slot| SlotId(slot as u16));
        let last = slots.map(|slot| last_reader(schedule, &whole, slot)).collect();
        let mut found = Self { last, passed: Vec::new(), again: BTreeMap::new() };
        found.again = found.read_again(schedule);
        found
    }

    /// Finds the slots whose rows stay on workers, like [`Residents::from_program`]. Also finds the
    /// slots whose rows lanes send directly to each other.
    #[must_use]
    pub fn passing(program: &Program, fused_stages: &FusedStages, schedule: &Program) -> Self {
        let slots = (0..program.slots.len()).map(|slot| SlotId(slot as u16));
        let host: Vec<SlotId> = program.constants().chain(program.scores).chain(program.embeddings).collect();
        let passed = |slot| match host.contains(&slot) {
            true => None,
            false => passed(schedule, &whole(program, fused_stages), slot),
        };
        let mut found = Self {
            passed: slots.map(passed).collect(),
            ..Self::from_program(program, fused_stages, schedule)
        };
        found.again = found.read_again(schedule);
        found
    }

    /// Finds the slots of the host that several stages of a lane read, with the last of these
    /// stages.
    fn read_again(&self, schedule: &Program) -> BTreeMap<(SlotId, u16), StageId> {
        let mut readers: BTreeMap<(SlotId, u16), BTreeSet<StageId>> = BTreeMap::new();
        for (id, stage) in (0u16..).map(StageId).zip(&schedule.stages) {
            let Place::Lane(lane) = stage.place else { continue };
            let here = stage.reads().map(|(slot, _)| slot);
            for slot in here.filter(|slot| self.last_reader(*slot).is_none() && self.passed(*slot).is_none())
            {
                readers.entry((slot, lane)).or_default().insert(id);
            }
        }
        let several = readers.into_iter().filter(|(_, readers)| readers.len() > 1);
        several.filter_map(|(of, readers)| Some((of, *readers.last()?))).collect()
    }

    /// Returns the last stage of a lane that reads a slot of the host. The lane keeps the rows
    /// until this stage. Returns `None` if fewer than two stages of the lane read the slot.
    #[must_use]
    pub fn again(&self, slot: SlotId, lane: u16) -> Option<StageId> {
        self.again.get(&(slot, lane)).copied()
    }

    /// Returns the number of values per row of each slot of the host that several stages of a lane
    /// read. The lane keeps these rows between the stages.
    pub fn again_widths<'a>(&'a self, schedule: &'a Program, lane: u16) -> impl Iterator<Item = u32> + 'a {
        let own = self.again.keys().filter(move |(_, of)| *of == lane);
        own.filter_map(|(slot, _)| schedule.slots.get(slot.index()).map(|spec| spec.width))
    }

    /// Returns the lanes that send a slot's rows directly to each other. Returns `None` if lanes do
    /// not send the slot.
    #[must_use]
    pub fn passed(&self, slot: SlotId) -> Option<&Passed> {
        self.passed.get(slot.index())?.as_ref()
    }

    /// Returns the number of values per row of each slot that a lane receives directly, and the
    /// lane that writes the slot.
    pub fn passed_widths<'a>(
        &'a self,
        schedule: &'a Program,
        lane: u16,
    ) -> impl Iterator<Item = (u32, u16)> + 'a {
        let all = self.passed.iter().zip(&schedule.slots);
        all.filter_map(move |(passed, spec)| {
            let passed = passed.as_ref().filter(|passed| passed.readers.contains_key(&lane))?;
            Some((spec.width, passed.from))
        })
    }

    /// Returns the last stage that reads a slot whose rows stay on a worker. Returns `None` for all
    /// other slots.
    #[must_use]
    pub fn last_reader(&self, slot: SlotId) -> Option<StageId> {
        self.last.get(slot.index()).copied().flatten()
    }

    /// Returns the number of values per row of each slot whose rows stay on the worker of a lane.
    pub fn widths<'a>(&'a self, schedule: &'a Program, lane: u16) -> impl Iterator<Item = u32> + 'a {
        let all = (0u16..).map(SlotId).zip(&self.last).zip(&schedule.slots);
        all.filter_map(move |((_, last), spec)| {
            (schedule.place((*last)?) == Place::Lane(lane)).then_some(spec.width)
        })
    }
}

/// For each fused stage, returns true if all of its stages are vertex kernels.
fn whole(program: &Program, fused_stages: &FusedStages) -> Vec<bool> {
    let kernel = |id| program.stage(id).is_some_and(|stage| is_kernel(program, stage.operation));
    fused_stages.as_slice().iter().map(|run| run.ids().all(kernel)).collect()
}

/// Returns the lanes that send a slot's rows directly to each other. Returns `None` if a stage
/// outside lanes touches the slot, or if only one lane does.
fn passed(schedule: &Program, whole: &[bool], slot: SlotId) -> Option<Passed> {
    let mut from = None;
    let mut readers = BTreeMap::new();
    for (id, stage) in (0u16..).map(StageId).zip(&schedule.stages) {
        let writes = stage.writes().any(|written| written == slot);
        let reads = stage.reads().any(|(read, _)| read == slot);
        if !writes && !reads {
            continue;
        }
        let Place::Lane(lane) = stage.place else { return None };
        if whole.get(id.index()) != Some(&true) || writes && (reads || from.is_some()) {
            return None;
        }
        if writes {
            from = Some(lane);
        } else {
            readers.insert(lane, id);
        }
    }
    let from = from?;
    readers.keys().any(|lane| *lane != from).then_some(Passed { from, readers })
}

/// Returns true if an operation is a vertex kernel. Only rows that vertex kernels compute can stay
/// on a worker.
#[must_use]
pub fn is_kernel(program: &Program, id: OperationId) -> bool {
    let operation = program.operations.get(id.index());
    operation.is_some_and(|operation| operation.signature.is_some() && operation.along.is_none())
}

/// Returns the last stage that reads a slot, if the slot's rows can stay on a worker. Such a slot
/// is written only by forward stages of a lane and read only by backward stages of the same lane.
fn last_reader(schedule: &Program, whole: &[bool], slot: SlotId) -> Option<StageId> {
    let loss = schedule.loss()?;
    let (mut lane, mut last) = (None, None);
    for (id, stage) in (0u16..).map(StageId).zip(&schedule.stages) {
        let writes = stage.writes().any(|written| written == slot);
        let reads = stage.reads().any(|(read, _)| read == slot);
        if !writes && !reads {
            continue;
        }
        let Place::Lane(at) = stage.place else { return None };
        let right = if id < loss { writes && !reads } else { reads && !writes };
        if !right || lane.is_some_and(|lane| lane != at) || whole.get(id.index()) != Some(&true) {
            return None;
        }
        lane = Some(at);
        last = (id >= loss).then_some(id).or(last);
    }
    last
}
