//! Residents: rows that stay on the place of a lane, since nobody else reads them.
//!
//! Rows that a lane's forward stages write and its backward stages alone read need not leave the
//! place that does both. A place that is lost takes them along; the forward step makes them again.
//!
//! Where workers own the weights, rows that other lanes read go from place to place
//! ([`Residents::passing`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{OperationId, SlotId, StageId};
use crate::program::{Place, Program};
use crate::span::Spans;

/// The resident slots of a program as spans on lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residents {
    /// The last stage that reads a slot, by slot.
    last: Vec<Option<StageId>>,
    /// Slots that lanes pass to each other, by slot.
    passed: Vec<Option<Passed>>,
    /// Slots that the host has and several stages of a lane read, with the last of these.
    again: BTreeMap<(SlotId, u16), StageId>,
}

/// A slot that one lane writes and others read, and nobody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The lane that writes it.
    pub from: u16,
    /// Lanes that read it, with the last stage of each that does; the writer may be one of them.
    pub readers: BTreeMap<u16, StageId>,
}

impl Residents {
    /// The residents of `program`, cut into `spans`; on their lanes these are the stages of
    /// `schedule`.
    #[must_use]
    pub fn of(program: &Program, spans: &Spans, schedule: &Program) -> Self {
        let whole = whole(program, spans);
        let slots = (0..program.slots.len()).map(|slot| SlotId(slot as u16));
        let last = slots.map(|slot| last_reader(schedule, &whole, slot)).collect();
        let mut found = Self { last, passed: Vec::new(), again: BTreeMap::new() };
        found.again = found.read_again(schedule);
        found
    }

    /// The same, with rows that lanes pass to each other.
    #[must_use]
    pub fn passing(program: &Program, spans: &Spans, schedule: &Program) -> Self {
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

    /// Slots of the host's that several stages of a lane read.
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

    /// The last stage of a lane that reads a slot of the host's, where several do.
    #[must_use]
    pub fn again(&self, slot: SlotId, lane: u16) -> Option<StageId> {
        self.again.get(&(slot, lane)).copied()
    }

    /// Values of one row of each such slot of a lane.
    pub fn again_widths<'a>(&'a self, schedule: &'a Program, lane: u16) -> impl Iterator<Item = u32> + 'a {
        let own = self.again.keys().filter(move |(_, of)| *of == lane);
        own.filter_map(|(slot, _)| schedule.slots.get(slot.index()).map(|spec| spec.width))
    }

    /// The lanes that pass a slot; `None`: none does.
    #[must_use]
    pub fn passed(&self, slot: SlotId) -> Option<&Passed> {
        self.passed.get(slot.index())?.as_ref()
    }

    /// Slots that are passed to a lane: values of a row, and the lane that writes it.
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

    /// The last stage that reads a resident slot; `None`: the host has its rows.
    #[must_use]
    pub fn last_reader(&self, slot: SlotId) -> Option<StageId> {
        self.last.get(slot.index()).copied().flatten()
    }

    /// Values of one row of each slot that a lane of a replica keeps.
    pub fn widths<'a>(&'a self, schedule: &'a Program, lane: u16) -> impl Iterator<Item = u32> + 'a {
        let all = (0u16..).map(SlotId).zip(&self.last).zip(&schedule.slots);
        all.filter_map(move |((_, last), spec)| {
            (schedule.place((*last)?) == Place::Lane(lane)).then_some(spec.width)
        })
    }
}

/// Whether all stages of each span are vertex kernels'.
fn whole(program: &Program, spans: &Spans) -> Vec<bool> {
    let kernel = |id| program.stage(id).is_some_and(|stage| is_kernel(program, stage.operation));
    spans.as_slice().iter().map(|span| span.ids().all(kernel)).collect()
}

/// The lanes that pass a slot, where only lanes have to do with it, and not one alone.
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

/// Returns whether an operation is a vertex kernel's: only its rows stay.
#[must_use]
pub fn is_kernel(program: &Program, id: OperationId) -> bool {
    let operation = program.operations.get(id.index());
    operation.is_some_and(|operation| operation.signature.is_some() && operation.along.is_none())
}

/// The last reader of a slot that a lane's forward stages write and only that lane's backward
/// stages read.
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
