//! Calls: the steps of one stage or of a fused stage as one task, and the targets of its rows.

use std::collections::BTreeSet;

use eciton_exec::{KernelWork, SharedInput, Work};
use eciton_kernel::wire::Answer;
use eciton_kernel::{Call, CallStep, Finished, Given, Kept, Local, Operand, Target, Write};
use eciton_program::{Buffers, FusedStage, Passed, Place};
use eciton_recipe::RowFormat;
use eciton_tensor::Matrix;
use eciton_types::{Location, OperationId, ParameterId, SlotId, StageId, Task, TensorKey, Via};

use super::operator::{self, On, Operator};
use super::stages::Stages;
use crate::error::{Error, Result, at};
use crate::owned::Owners;
use crate::weights::Weights;

/// A call under construction.
#[derive(Debug, Default)]
pub(crate) struct Building {
    call: Call,
    /// Slots of the program that steps of the call write.
    slots: Places<SlotId>,
    /// Rows from outside the call that gathers read, by slot and number of rows.
    loaded: Places<(SlotId, usize)>,
    /// Rows from outside the call that kernels read, by slot and number of rows, counted from the
    /// first.
    given: Places<(SlotId, usize)>,
    shared: Vec<SharedInput>,
    /// Operation of the first kernel.
    first: Option<OperationId>,
    /// True if the call has one stage, outside of any fused stage.
    alone: bool,
}

/// Indices in a call, by key. A call has few, so lookups scan the list.
#[derive(Debug)]
struct Places<K>(Vec<(K, u32)>);

impl<K> Default for Places<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq> Places<K> {
    /// Returns the newest index of a key.
    fn get(&self, key: &K) -> Option<u32> {
        self.0.iter().rev().find(|(known, _)| known == key).map(|(_, place)| *place)
    }

    fn insert(&mut self, key: K, place: u32) {
        self.0.push((key, place));
    }
}

fn number(count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| Error::Internal(format!("{count} parts of a call")))
}

impl Building {
    /// Returns the operand for the rows of a slot that a kernel reads.
    pub(super) fn operand(&mut self, on: &On<'_>, slot: SlotId) -> Result<Operand> {
        let rows = on.rows()?.len();
        if let Some(slot_here) = self.slots.get(&slot) {
            return Ok(Operand::Local { slot: slot_here, rows, extents: on.stages.extents(slot) });
        }
        if let Some(known) = self.given.get(&(slot, rows)) {
            return Ok(Operand::Given(known));
        }
        let place = number(self.call.given.len())?;
        let kept = match (on.stages.stays(slot), on.stages.passes(slot)) {
            (Some(last), _) => Some((on.kept(slot, rows, Via::Stay), last)),
            (None, Some(passed)) => Some(on.received(slot, rows, passed)?),
            (None, None) => None,
        };
        self.call.given.push(match kept {
            Some((kept, last)) => {
                if last == on.task.stage {
                    self.call.frees.push(kept.key);
                }
                Given::Kept(kept)
            }
            None => {
                let (at, stage) = (self.call.given.len(), on.task.stage);
                let again = on.stages.last_again(slot, stage);
                let shared = |(lane, last)| SharedInput { at, slot, lane: Some(lane), last: last == stage };
                self.shared.extend(again.map(shared));
                // The constants of a micro-batch differ in every round.
                if self.alone && on.part.is_none() && on.constant(slot).is_some() {
                    self.shared.push(SharedInput { at, slot, lane: None, last: false });
                }
                Given::Here(on.read(slot)?)
            }
        });
        self.given.insert((slot, rows), place);
        Ok(Operand::Given(place))
    }

    /// Returns the operand for rows that a kernel reads and that are in no slot.
    pub(super) fn give(&mut self, matrix: Matrix) -> Result<Operand> {
        self.call.given.push(Given::Here(matrix));
        Ok(Operand::Given(number(self.call.given.len() - 1)?))
    }

    /// Returns the index of the first rows of a slot, for a gather.
    pub(super) fn source(&mut self, on: &On<'_>, slot: SlotId, rows: usize) -> Result<u32> {
        if let Some(known) = self.slots.get(&slot).or_else(|| self.loaded.get(&(slot, rows))) {
            return Ok(known);
        }
        let (round, interval) = on.at();
        let from = on.stages.rows.lease(slot, round, interval, Some(rows))?;
        let place = self.local(on, slot, rows, Some(from.into()))?;
        self.loaded.insert((slot, rows), place);
        Ok(place)
    }

    /// Returns the index of a slot that a step writes.
    pub(super) fn written(&mut self, on: &On<'_>, slot: SlotId) -> Result<u32> {
        let rows = if self.alone { on.rows()?.len() } else { on.slot_rows(slot)? };
        let place = self.local(on, slot, rows, None)?;
        self.slots.insert(slot, place);
        Ok(place)
    }

    /// Returns the slots that a kernel writes.
    pub(super) fn writes(&mut self, on: &On<'_>) -> Result<Vec<Option<Write>>> {
        let mut write =
            |slot: SlotId| Ok(Write { slot: self.written(on, slot)?, extents: on.stages.extents(slot) });
        on.stage.writes.iter().map(|slot| slot.map(&mut write).transpose()).collect()
    }

    fn local(&mut self, on: &On<'_>, slot: SlotId, rows: usize, from: Option<Matrix>) -> Result<u32> {
        let program = on.stages.program;
        let columns = program.slots.get(slot.index()).map_or(0, |spec| spec.width as usize);
        let half = Buffers::format(program, slot, on.stages.rows.format) == RowFormat::Bf16;
        self.call.slots.push(Local { rows, columns, half, from });
        number(self.call.slots.len() - 1)
    }

    /// Returns the operands for the parameters of a stage's kernel.
    pub(super) fn parameters(&mut self, on: &On<'_>) -> Result<Vec<Operand>> {
        let operation = on.stages.operation(on.stage.operation)?;
        let mut places = Vec::with_capacity(operation.parameters.len());
        for id in operation.parameters.iter().map(|&id| on.stages.program.owner(id)) {
            let place = match self.call.parameters.iter().find(|(_, known)| *known == id) {
                Some((known, _)) => *known,
                None => {
                    self.call.given.push(match on.weights.owning_workers() {
                        Some(owners) => Given::Kept(owners.kept(id, on.task.weights)?),
                        None => Given::Here(on.weights.matrix(id.index(), on.task.weights)?),
                    });
                    let place = number(self.call.given.len() - 1)?;
                    self.call.parameters.push((place, id));
                    place
                }
            };
            places.push(Operand::Given(place));
        }
        Ok(places)
    }

    /// Adds the step of a stage.
    pub(super) fn step(&mut self, on: &On<'_>, step: CallStep) {
        if !matches!(step, CallStep::Gather(_)) {
            self.first.get_or_insert(on.stage.operation);
        }
        self.call.steps.push(step);
    }

    fn place(&self, slot: SlotId) -> Result<u32> {
        let place = self.slots.get(&slot);
        place.ok_or_else(|| Error::Internal(format!("slot {slot} is not written")))
    }

    /// Returns the work of one stage alone.
    pub(super) fn alone(operator: &dyn Operator, on: &On<'_>) -> Result<Work> {
        let mut building = Self { alone: true, ..Self::default() };
        operator.inside(on, &mut building)?;
        let targets = on.targets()?;
        building.work(on.task, on.weights, targets)
    }

    /// Returns the work of the call, whose rows go to `targets`.
    fn work(mut self, task: Task, weights: &Weights, targets: Vec<(SlotId, Target)>) -> Result<Work> {
        for (slot, target) in targets {
            self.call.outs.push((self.place(slot)?, target));
        }
        let first = self.first.ok_or_else(|| Error::Internal("a call without a kernel".to_owned()))?;
        Ok(Work::Kernel(KernelWork {
            operation: first,
            generation: weights.generation(task.weights)?,
            call: self.call.into(),
            shared: self.shared,
            twin: None,
        }))
    }
}

/// A fused stage, for one task.
pub(super) struct Thick<'a> {
    stages: &'a Stages<'a>,
    span: &'a FusedStage,
    task: Task,
    /// Stages of the fused stage.
    each: Vec<On<'a>>,
}

impl<'a> Thick<'a> {
    pub(super) fn new(stages: &'a Stages<'a>, span: &'a FusedStage, each: Vec<On<'a>>, task: Task) -> Self {
        Self { stages, span, task, each }
    }

    /// Returns the sums of all stages, in order.
    fn sums(&self) -> Result<Vec<Target>> {
        let sums = self.each.iter().map(On::sums).collect::<Result<Vec<_>>>()?;
        Ok(sums.into_iter().flatten().collect())
    }

    /// Returns the sums that stay on a worker: gradients, not losses.
    fn holds(&self) -> Result<Vec<(u32, ParameterId)>> {
        let mut holds = Vec::new();
        let mut count = 0;
        for on in &self.each {
            for &id in &on.stage.sums {
                holds.push((number(count)?, id));
                count += 1;
            }
            count += usize::from(self.stages.program.loss_of(on.id).is_some());
        }
        Ok(holds)
    }

    /// Returns the stage that writes a slot.
    fn writer(&self, slot: SlotId) -> Result<&On<'a>> {
        let on = self.each.iter().find(|on| on.stage.writes().any(|written| written == slot));
        on.ok_or_else(|| Error::Internal(format!("nobody writes slot {slot}")))
    }

    /// Returns the targets of the rows that go to the host, in order.
    fn targets(&self) -> Result<Vec<(SlotId, Target)>> {
        let mut targets = Vec::with_capacity(self.span.writes.len());
        for &slot in self.span.writes.iter().filter(|slot| self.stages.is_here(**slot)) {
            let on = self.writer(slot)?;
            let (round, interval) = on.at();
            let rows = on.slot_rows(slot)?;
            let lease = self.stages.rows.write(slot, round, interval, Some(rows))?;
            targets.push((slot, lease.target(self.stages.extents(slot))));
        }
        Ok(targets)
    }

    /// Returns the work of the fused stage. If `again`, it recomputes only the rows and sums that
    /// stay on the worker.
    pub(super) fn work(&self, weights: &Weights, again: bool) -> Result<Work> {
        let stay = self.span.writes.iter().filter(|slot| !self.stages.is_here(**slot));
        let stay: Vec<SlotId> = stay.copied().collect();
        let (owners, round) = (weights.owners(), self.task.round);
        let holds = if owners.have_sums(round) { self.holds()? } else { Vec::new() };
        if again && stay.is_empty() && holds.is_empty() {
            return operator::nothing(Vec::new());
        }
        let empty = self.each.iter().map(|on| Ok(on.rows()?.is_empty())).collect::<Result<Vec<_>>>()?;
        if empty.iter().all(|&empty| empty) {
            weights.owners().note_empty(self.task.round, self.task.interval);
            return operator::nothing(self.sums()?);
        }
        if empty.contains(&true) {
            return Err(Error::Internal(format!("some stages of {} have no row", self.task.step())));
        }
        let mut building = self.building(&[], &stay)?;
        building.call.holds = holds;
        let reads_kept = building.call.given.iter().any(|given| matches!(given, Given::Kept(_)));
        let targets = if again { Vec::new() } else { self.targets()? };
        let twin = match owners.audit(round) && reads_kept {
            true => Some(self.twin(&stay, &targets)?),
            false => None,
        };
        let mut work = building.work(self.task, weights, targets)?;
        if let Work::Kernel(work) = &mut work {
            work.call.digests = owners.audit(round);
            work.twin = twin.map(Box::new);
        }
        Ok(work)
    }

    /// Builds the call of the stages, after those of `before`, without the rows that go to the
    /// host.
    fn building(&self, before: &[On<'_>], stay: &[SlotId]) -> Result<Building> {
        let mut building = Building::default();
        for on in before.iter().chain(&self.each) {
            self.stages.operator(on.stage.operation)?.inside(on, &mut building)?;
        }
        for &slot in stay {
            let on = self.writer(slot)?;
            for kept in on.leaves(slot, on.slot_rows(slot)?)? {
                building.call.keeps.push((building.place(slot)?, kept));
            }
        }
        Ok(building)
    }

    /// Returns the audit's twin call. It recomputes the rows that the worker stashed, and then the
    /// same stages.
    fn twin(&self, stay: &[SlotId], targets: &[(SlotId, Target)]) -> Result<Call> {
        let on = self.each.first().ok_or_else(|| Error::Internal("a run without a stage".to_owned()))?;
        let before = self.stages.before(on, self.span)?;
        let building = self.building(&before, stay)?;
        // The answers to the tasks of these stages have their sums.
        let sums = before.iter().map(On::sums).collect::<Result<Vec<_>>>()?;
        let holds = (0..number(sums.iter().flatten().count())?).map(|sum| (sum, ParameterId(0))).collect();
        let mut outs = Vec::with_capacity(targets.len());
        for (slot, target) in targets {
            outs.push((building.place(*slot)?, target.alike().map_err(at("rows to compare"))?));
        }
        Ok(Call { outs, holds, digests: true, ..building.call })
    }

    /// Writes an answer from a message to its rows and sums.
    pub(super) fn commit(&self, answer: Answer) -> Result<Finished> {
        operator::put(answer, self.task, self.targets()?, self.sums()?)
    }
}

impl On<'_> {
    /// Returns the description of the rows of a slot that a worker stores and the host does not.
    fn kept(&self, slot: SlotId, rows: usize, via: Via) -> Kept {
        let (pass, round, interval) = (self.pass, self.task.round, self.task.interval);
        let key = TensorKey::Rows { pass, slot, round, interval, via };
        Kept { key, rows, extents: self.stages.extents(slot), to: Vec::new() }
    }

    /// Returns the rows of a slot that another lane writes, and the last stage that reads them on
    /// this worker.
    fn received(&self, slot: SlotId, rows: usize, passed: &Passed) -> Result<(Kept, StageId)> {
        let owners = self.owners()?;
        let here = match self.stages.schedule.place(self.task.stage) {
            Place::Lane(lane) => owners.location_of(lane, self.task.interval)?,
            _ => return Err(Error::Internal(format!("{} is on no lane", self.task.step()))),
        };
        let mut last = self.task.stage;
        for (lane, reader) in &passed.readers {
            if owners.location_of(*lane, self.task.interval)? == here {
                last = last.max(*reader);
            }
        }
        let made_here = owners.location_of(passed.from, self.task.interval)? == here;
        Ok((self.kept(slot, rows, if made_here { Via::Stay } else { Via::Peer }), last))
    }

    /// Returns the rows of a slot that do not go to the host: those that stay on this worker, and
    /// those that go to others.
    fn leaves(&self, slot: SlotId, rows: usize) -> Result<Vec<Kept>> {
        let kept = self.kept(slot, rows, Via::Stay);
        let Some(passed) = self.stages.passes(slot) else { return Ok(vec![kept]) };
        let owners = self.owners()?;
        let here = owners.location_of(passed.from, self.task.interval)?;
        let readers = passed.readers.keys().map(|lane| owners.location_of(*lane, self.task.interval));
        let readers = readers.collect::<Result<BTreeSet<_>>>()?;
        let to: Vec<Location> = readers.iter().copied().filter(|at| *at != here).collect();
        let sent = (!to.is_empty()).then(|| Kept { to, ..self.kept(slot, rows, Via::Peer) });
        Ok(readers.contains(&here).then_some(kept).into_iter().chain(sent).collect())
    }

    fn owners(&self) -> Result<&Owners> {
        let owners = self.weights.owning_workers();
        owners.ok_or_else(|| Error::Internal("rows are passed, and no worker owns any weights".to_owned()))
    }

    /// Returns the number of rows of a slot that readers may read: the rows of the writer, then
    /// zeros.
    pub(super) fn slot_rows(&self, slot: SlotId) -> Result<usize> {
        match &self.part {
            Some((part, _)) => Ok(part.rows(self.stages.hops().slot(slot))),
            None => Ok(self.rows()?.len()),
        }
    }
}
