//! Residents: rows that stay on the worker of a lane, because no other lane reads them.
//!
//! Rows that a lane's forward stages write and only its backward stages read need not leave the
//! worker that runs both. If a worker fails, its rows are lost, and the forward step recomputes
//! them.
//!
//! If workers own the weights, rows that other lanes read are sent directly between workers
//! ([`Residents::passing`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::fused_stages::FusedStages;
use crate::program::{Place, Program};
use eciton_types::ids::{OperationId, SlotId, StageId};

/// The resident slots of a program whose spans are on lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residents {
    /// For each slot, the last stage that reads it, if the slot is resident.
    last: Vec<Option<StageId>>,
    /// For each slot, the lanes that pass it to each other.
    passed: Vec<Option<Passed>>,
    /// Slots on the host that several stages of a lane read, with the last of these stages.
    again: BTreeMap<(SlotId, u16), StageId>,
}

/// A slot that one lane writes and other lanes read. Only stages on lanes touch it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Lane that writes the slot.
    pub from: u16,
    /// Lanes that read the slot, each with its last reading stage. The writer may be one of them.
    pub readers: BTreeMap<u16, StageId>,
}

impl Residents {
    /// Returns the residents of `program`, cut into `spans`. `schedule` has these spans as stages,
    /// on their lanes.
    #[must_use]
    pub fn of(program: &Program, spans: &FusedStages, schedule: &Program) -> Self {
        let whole = whole(program, spans);
        let slots = (0..program.slots.len()).map(|slot| SlotId(slot as u16));
        let last = slots.map(|slot| last_reader(schedule, &whole, slot)).collect();
        let mut found = Self { last, passed: Vec::new(), again: BTreeMap::new() };
        found.again = found.read_again(schedule);
        found
    }

    /// Does the same as [`Residents::of`], and adds the rows that lanes pass to each other.
    #[must_use]
    pub fn passing(program: &Program, spans: &FusedStages, schedule: &Program) -> Self {
        let slots = (0..program.slots.len()).map(|slot| SlotId(slot as u16));
        let host = [Some(program.features), program.gathered, program.scores, program.embeddings];
        let passed = |slot| match host.contains(&Some(slot)) {
            true => None,
            false => passed(schedule, &whole(program, spans), slot),
        };
        let mut found = Self { passed: slots.map(passed).collect(), ..Self::of(program, spans, schedule) };
        found.again = found.read_again(schedule);
        found
    }

    /// Returns the slots on the host that several stages of a lane read.
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

    /// Returns the last stage of a lane that reads a slot on the host, if several stages of the
    /// lane read it.
    #[must_use]
    pub fn again(&self, slot: SlotId, lane: u16) -> Option<StageId> {
        self.again.get(&(slot, lane)).copied()
    }

    /// Returns the number of values in one row of each such slot of a lane.
    pub fn again_widths<'a>(&'a self, schedule: &'a Program, lane: u16) -> impl Iterator<Item = u32> + 'a {
        let own = self.again.keys().filter(move |(_, of)| *of == lane);
        own.filter_map(|(slot, _)| schedule.slots.get(slot.index()).map(|spec| spec.width))
    }

    /// Returns the lanes that pass a slot, or `None` if no lane passes it.
    #[must_use]
    pub fn passed(&self, slot: SlotId) -> Option<&Passed> {
        self.passed.get(slot.index())?.as_ref()
    }

    /// Returns for each slot that is passed to a lane the number of values in a row, and the lane
    /// that writes it.
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

    /// Returns the last stage that reads a resident slot, or `None` if the host has its rows.
    #[must_use]
    pub fn last_reader(&self, slot: SlotId) -> Option<StageId> {
        self.last.get(slot.index()).copied().flatten()
    }

    /// Returns the number of values in one row of each slot that stays on a lane of a replica.
    pub fn widths<'a>(&'a self, schedule: &'a Program, lane: u16) -> impl Iterator<Item = u32> + 'a {
        let all = (0u16..).map(SlotId).zip(&self.last).zip(&schedule.slots);
        all.filter_map(move |((_, last), spec)| {
            (schedule.place((*last)?) == Place::Lane(lane)).then_some(spec.width)
        })
    }
}

/// Returns for each span true if all of its stages are vertex kernels.
fn whole(program: &Program, spans: &FusedStages) -> Vec<bool> {
    let kernel = |id| program.stage(id).is_some_and(|stage| is_kernel(program, stage.operation));
    spans.as_slice().iter().map(|span| span.ids().all(kernel)).collect()
}

/// Returns the lanes that pass a slot, if only lanes touch it and at least two of them do.
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

/// Returns true if an operation is a vertex kernel. Only rows of vertex kernels are resident.
#[must_use]
pub fn is_kernel(program: &Program, id: OperationId) -> bool {
    let operation = program.operations.get(id.index());
    operation.is_some_and(|operation| operation.signature.is_some() && operation.along.is_none())
}

/// Returns the last reader of a slot that only a lane's forward stages write and only that lane's
/// backward stages read.
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
