//! Calls, which are the content of tasks. A call runs the steps of one stage or of one fused stage.

use std::collections::BTreeSet;

use eciton_exec::{KernelWork, SharedInput, Work};
use eciton_kernel::wire::Answer;
use eciton_kernel::{CachedRows, Call, CallStep, Finished, Given, Local, Operand, Target, Write};
use eciton_program::{Buffers, FusedStage, Passed, Place};
use eciton_recipe::RowFormat;
use eciton_tensor::Matrix;
use eciton_types::{Location, OperationId, ParameterId, SlotId, StageId, Task, TensorKey, Via};

use super::operator::{self, On, Operator};
use super::stages::Stages;
use crate::error::{Error, Result, at};
use crate::owned::Owners;
use crate::weights::Weights;

/// Builder of a call, which runs the steps of one stage or fused stage as one task.
#[derive(Debug, Default)]
pub(crate) struct Building {
    call: Call,
    /// Slots of the program that steps of the call write, with the index of each in the call.
    slots: Places<SlotId>,
    /// Rows that gathers read and no step of the call writes. They are keyed by slot and number of
    /// rows.
    loaded: Places<(SlotId, usize)>,
    /// Rows that kernels read and no step of the call writes. They are keyed by slot and number of
    /// rows.
    given: Places<(SlotId, usize)>,
    shared: Vec<SharedInput>,
    /// Operation of the call's first kernel.
    first: Option<OperationId>,
    /// True if the call has a single stage that is not fused with others.
    alone: bool,
}

/// Map from keys to indices in one of the call's lists. A call has only a few entries, so a linear
/// search is used.
#[derive(Debug)]
struct Places<K>(Vec<(K, u32)>);

impl<K> Default for Places<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq> Places<K> {
    /// Returns the index of a key. If the key was inserted more than once, the last index is
    /// returned.
    fn get(&self, key: &K) -> Option<u32> {
        self.0.iter().rev().find(|(known, _)| known == key).map(|(_, place)| *place)
    }

    fn insert(&mut self, key: K, place: u32) {
        self.0.push((key, place));
    }
}

/// Converts an index in a call to `u32`.
fn number(count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| Error::Internal(format!("a call has {count} parts")))
}

impl Building {
    /// Returns the operand through which a kernel reads the interval's rows of a slot. The rows
    /// become an input of the call, unless a step of the call writes them or they already are one.
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
                Given::Cached(kept)
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

    /// Adds a matrix that belongs to no slot to the inputs of the call. Returns the operand through
    /// which a kernel reads it.
    pub(super) fn give(&mut self, matrix: Matrix) -> Result<Operand> {
        self.call.given.push(Given::Here(matrix));
        Ok(Operand::Given(number(self.call.given.len() - 1)?))
    }

    /// Returns the index in the call of a slot whose first `rows` rows a gather reads. If no step
    /// of the call writes them, they are loaded from the host's row store.
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

    /// Adds a slot that the step `on` writes to the call. Returns its index in the call.
    pub(super) fn written(&mut self, on: &On<'_>, slot: SlotId) -> Result<u32> {
        let rows = if self.alone { on.rows()?.len() } else { on.slot_rows(slot)? };
        let place = self.local(on, slot, rows, None)?;
        self.slots.insert(slot, place);
        Ok(place)
    }

    /// Adds the slots that the kernel of `on` writes to the call. Returns one entry per output of
    /// the kernel. It is `None` if no stage reads that output.
    pub(super) fn writes(&mut self, on: &On<'_>) -> Result<Vec<Option<Write>>> {
        let mut write =
            |slot: SlotId| Ok(Write { slot: self.written(on, slot)?, extents: on.stages.extents(slot) });
        on.stage.writes.iter().map(|slot| slot.map(&mut write).transpose()).collect()
    }

    /// Adds a slot of `rows` rows to the call, with the content `from` if this is set. Returns its
    /// index in the call.
    fn local(&mut self, on: &On<'_>, slot: SlotId, rows: usize, from: Option<Matrix>) -> Result<u32> {
        let program = on.stages.program;
        let columns = program.slots.get(slot.index()).map_or(0, |spec| spec.width as usize);
        let half = Buffers::format(program, slot, on.stages.rows.format) == RowFormat::Bf16;
        self.call.slots.push(Local { rows, columns, half, from });
        number(self.call.slots.len() - 1)
    }

    /// Returns the operands for the kernel parameters of the step `on`. Parameters that the call
    /// lacks are added to its inputs.
    pub(super) fn parameters(&mut self, on: &On<'_>) -> Result<Vec<Operand>> {
        let operation = on.stages.operation(on.stage.operation)?;
        let mut places = Vec::with_capacity(operation.parameters.len());
        for id in operation.parameters.iter().map(|&id| on.stages.program.owner(id)) {
            let place = match self.call.parameters.iter().find(|(_, known)| *known == id) {
                Some((known, _)) => *known,
                None => {
                    self.call.given.push(match on.weights.owning_workers() {
                        Some(owners) => Given::Cached(owners.kept(id, on.task.weights)?),
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

    /// Appends a step to the call. `on` is the stage that the step belongs to.
    pub(super) fn step(&mut self, on: &On<'_>, step: CallStep) {
        if !matches!(step, CallStep::Gather(_)) {
            self.first.get_or_insert(on.stage.operation);
        }
        self.call.steps.push(step);
    }

    /// Returns the index in the call of a slot that one of its steps writes.
    fn place(&self, slot: SlotId) -> Result<u32> {
        let place = self.slots.get(&slot);
        place.ok_or_else(|| Error::Internal(format!("the call does not write slot {slot}")))
    }

    /// Creates the work of a single stage that is not fused with others.
    pub(super) fn alone(operator: &dyn Operator, on: &On<'_>) -> Result<Work> {
        let mut building = Self { alone: true, ..Self::default() };
        operator.inside(on, &mut building)?;
        let targets = on.targets()?;
        building.work(on.task, on.weights, targets)
    }

    /// Completes the call, and returns it as work for a kernel. `targets` are the slots whose rows
    /// leave the call, with their destinations.
    fn work(mut self, task: Task, weights: &Weights, targets: Vec<(SlotId, Target)>) -> Result<Work> {
        for (slot, target) in targets {
            self.call.outs.push((self.place(slot)?, target));
        }
        let first = self.first.ok_or_else(|| Error::Internal("the call has no kernel".to_owned()))?;
        Ok(Work::Kernel(KernelWork {
            operation: first,
            generation: weights.generation(task.weights)?,
            call: self.call.into(),
            shared: self.shared,
            twin: None,
        }))
    }
}

/// The task of a fused stage. A fused stage consists of consecutive stages that run as one task.
pub(super) struct Thick<'a> {
    stages: &'a Stages<'a>,
    span: &'a FusedStage,
    task: Task,
    /// The stages in the order in which they run.
    each: Vec<On<'a>>,
}

impl<'a> Thick<'a> {
    /// Creates the task of the fused stage `span` with the stages `each`.
    pub(super) fn new(stages: &'a Stages<'a>, span: &'a FusedStage, each: Vec<On<'a>>, task: Task) -> Self {
        Self { stages, span, task, each }
    }

    /// Returns the targets of all gradient and loss sums, in the order of the stages.
    fn sums(&self) -> Result<Vec<Target>> {
        let sums = self.each.iter().map(On::sums).collect::<Result<Vec<_>>>()?;
        Ok(sums.into_iter().flatten().collect())
    }

    /// Returns the gradient sums that stay on the worker. An entry has the index of the sum among
    /// all sums of the task, and its parameter.
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

    /// Returns the stage that writes `slot`.
    fn writer(&self, slot: SlotId) -> Result<&On<'a>> {
        let on = self.each.iter().find(|on| on.stage.writes().any(|written| written == slot));
        on.ok_or_else(|| Error::Internal(format!("no stage writes slot {slot}")))
    }

    /// Leases for writing the rows that the fused stage writes to the host's row store. Returns
    /// each slot with its target.
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

    /// Creates the work of the fused stage. If `again` is true, the work only recomputes the rows
    /// and sums that stay on the worker, because a new worker lacks them.
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
            return Err(Error::Internal(format!("some stages of {} have no rows", self.task.step())));
        }
        let mut building = self.building(&[], &stay)?;
        building.call.holds = holds;
        let reads_kept = building.call.given.iter().any(|given| matches!(given, Given::Cached(_)));
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

    /// Builds a call that runs the stages `before` and then those of the fused stage. The rows of
    /// the slots `stay` remain on the worker. The caller adds the rows that go to the host.
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

    /// Builds a second call that computes the same results, for an audit. It recomputes the rows
    /// that the worker has stashed, and then runs the same stages.
    fn twin(&self, stay: &[SlotId], targets: &[(SlotId, Target)]) -> Result<Call> {
        let on = self.each.first().ok_or_else(|| Error::Internal("the task has no stage".to_owned()))?;
        let before = self.stages.before(on, self.span)?;
        let building = self.building(&before, stay)?;
        // The answers to the tasks of the stages in `before` have the sums of these stages. The
        // twin does not return them.
        let sums = before.iter().map(On::sums).collect::<Result<Vec<_>>>()?;
        let holds = (0..number(sums.iter().flatten().count())?).map(|sum| (sum, ParameterId(0))).collect();
        let mut outs = Vec::with_capacity(targets.len());
        for (slot, target) in targets {
            outs.push((building.place(*slot)?, target.alike().map_err(at("rows to compare"))?));
        }
        Ok(Call { outs, holds, digests: true, ..building.call })
    }

    /// Stores an answer from a worker or function in the rows and sums of the fused stage.
    pub(super) fn commit(&self, answer: Answer) -> Result<Finished> {
        operator::put(answer, self.task, self.targets()?, self.sums()?)
    }
}

impl On<'_> {
    /// Describes rows of a slot that a worker stores and the host does not: their key, number and
    /// extents. `via` says how they come to the worker that reads them.
    fn kept(&self, slot: SlotId, rows: usize, via: Via) -> CachedRows {
        let (pass, round, interval) = (self.pass, self.task.round, self.task.interval);
        let key = TensorKey::Rows { pass, slot, round, interval, via };
        CachedRows { key, rows, extents: self.stages.extents(slot), to: Vec::new() }
    }

    /// Describes rows of a slot that a lane (a worker's share of the pipeline) passes to others.
    /// Also returns the last stage that reads the rows on this worker.
    fn received(&self, slot: SlotId, rows: usize, passed: &Passed) -> Result<(CachedRows, StageId)> {
        let owners = self.owners()?;
        let here = match self.stages.schedule.place(self.task.stage) {
            Place::Lane(lane) => owners.location_of(lane, self.task.interval)?,
            _ => return Err(Error::Internal(format!("{} does not run on a lane", self.task.step()))),
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

    /// Describes the rows of a slot that do not go to the host. The first entry has the rows that
    /// stay on this worker. The other has those that it sends to other workers.
    fn leaves(&self, slot: SlotId, rows: usize) -> Result<Vec<CachedRows>> {
        let kept = self.kept(slot, rows, Via::Stay);
        let Some(passed) = self.stages.passes(slot) else { return Ok(vec![kept]) };
        let owners = self.owners()?;
        let here = owners.location_of(passed.from, self.task.interval)?;
        let readers = passed.readers.keys().map(|lane| owners.location_of(*lane, self.task.interval));
        let readers = readers.collect::<Result<BTreeSet<_>>>()?;
        let to: Vec<Location> = readers.iter().copied().filter(|at| *at != here).collect();
        let sent = (!to.is_empty()).then(|| CachedRows { to, ..self.kept(slot, rows, Via::Peer) });
        Ok(readers.contains(&here).then_some(kept).into_iter().chain(sent).collect())
    }

    /// Returns the workers that own weights. Fails if no worker owns weights.
    fn owners(&self) -> Result<&Owners> {
        let owners = self.weights.owning_workers();
        owners.ok_or_else(|| Error::Internal("rows are passed, but no worker owns weights".to_owned()))
    }

    /// Returns the number of rows of a slot that stages may read. For a micro-batch, it includes
    /// the rows of zeros after those that the stage computes.
    pub(super) fn slot_rows(&self, slot: SlotId) -> Result<usize> {
        match &self.part {
            Some((part, _)) => {
                Ok(part.rows(self.stages.program.domain_of(slot), self.stages.hops().slot(slot)))
            }
            None => Ok(self.rows()?.len()),
        }
    }
}
