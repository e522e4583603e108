//! The stages of one program on their way: what tasks and gathers are made from.
//!
//! A step leases the rows that it reads and writes, so two steps that would touch the same rows are
//! refused rather than torn.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use eciton_exec::{Affinity, Job};
use eciton_kernel::wire::Answer;
use eciton_kernel::{Finished, Layer};
use eciton_plan::{
    Buffers, Domain, DomainId, Hops, IntervalId, Operation, OperationId, ParameterId, Passed, Place, Program,
    Residents, RowFormat, Scope, SlotId, Span, Spans, Stage, StageId, Step, Task, TaskKey, residents,
};
use eciton_tensor::Matrix;

use super::fold::Fold;
use super::op::{self, On, Operator};
use super::rows::RowStore;
use super::span::Thick;
use super::watch::Watch;
use crate::batch::{Batches, Part};
use crate::data::{Inputs, Interval};
use crate::error::{Error, Result};
use crate::weights::Weights;

/// One program on its way: what tasks are made from.
pub(crate) struct Stages<'a> {
    pub program: &'a Program,
    /// What the engine schedules: the program, or its spans.
    pub schedule: &'a Program,
    spans: Option<&'a Spans>,
    pub inputs: &'a Inputs,
    pub rows: &'a RowStore,
    pub layers: &'a [Option<Arc<Layer>>],
    pub training: bool,
    pub seed: u64,
    /// The parts of rounds, where these are not all rows.
    pub batches: Option<Batches>,
    /// How many gathers lie between rows and the loss: rows of parts are in that order.
    hops: Hops,
    operators: Vec<Box<dyn Operator>>,
    /// What steps are of, where that is not the intervals.
    pieces: Option<&'a [Interval]>,
    /// Where scores go that do not stay.
    pub fold: Option<Fold>,
    /// Which rows stay on lanes' places, where these keep any.
    residents: Option<Residents>,
    /// The watch that looks at what steps write; `None`: nobody looks.
    pub(super) watch: Option<&'a Watch>,
}

impl<'a> Stages<'a> {
    /// A program's stages, for a run that trains with `seed`, or evaluates.
    pub(crate) fn new(
        program: &'a Program,
        inputs: &'a Inputs,
        rows: &'a RowStore,
        layers: &'a [Option<Arc<Layer>>],
        trains_with: Option<u64>,
    ) -> Result<Self> {
        let operators = op::open(program, layers)?;
        let (training, seed) = (trains_with.is_some(), trains_with.unwrap_or(0));
        let hops = Hops::of(program);
        let (schedule, spans, batches) = (program, None, None);
        let (pieces, fold) = (None, None);
        Ok(Self {
            program,
            schedule,
            spans,
            inputs,
            rows,
            layers,
            training,
            seed,
            batches,
            hops,
            operators,
            pieces,
            fold,
            residents: None,
            watch: None,
        })
    }

    /// With steps of other rows than intervals': of a program whose rows are all vertices'.
    pub(crate) fn with_pieces(mut self, pieces: Option<&'a [Interval]>) -> Self {
        self.pieces = pieces;
        self
    }

    /// With scores that are folded into a metric.
    pub(crate) fn with_fold(mut self, fold: Option<Fold>) -> Self {
        self.fold = fold;
        self
    }

    /// The same, with a look at all that steps write.
    pub(crate) fn with_watch(mut self, watch: &'a Watch) -> Self {
        self.watch = Some(watch);
        self
    }

    /// What steps on a domain are of.
    fn intervals_of(&self, domain: DomainId) -> &[Interval] {
        let pieces = self.pieces.filter(|_| domain == Domain::VERTICES);
        pieces.unwrap_or_else(|| self.inputs.intervals_of(domain))
    }

    /// As spans, whose program is `schedule`.
    pub(crate) fn with_spans(mut self, spans: &'a Spans, schedule: &'a Program) -> Self {
        (self.spans, self.schedule) = (Some(spans), schedule);
        self
    }

    /// With lanes whose places keep what their forward steps leave for their backward steps alone;
    /// after [`Stages::with_spans`].
    pub(crate) fn with_places(mut self, keeps: bool) -> Self {
        let spans = self.spans.filter(|_| keeps);
        self.residents = spans.map(|spans| Residents::of(self.program, spans, self.schedule));
        self
    }

    /// The same, where rows that other lanes read go from place to place; after
    /// [`Stages::with_spans`].
    pub(crate) fn with_passing(mut self, passes: bool) -> Self {
        if let Some(spans) = self.spans.filter(|_| passes) {
            self.residents = Some(Residents::passing(self.program, spans, self.schedule));
        }
        self
    }

    /// The last stage that reads a slot whose rows stay on a lane's place; `None`: they do not.
    pub(super) fn stays(&self, slot: SlotId) -> Option<StageId> {
        self.residents.as_ref()?.last_reader(slot)
    }

    /// The lanes that pass a slot to each other; `None`: none does.
    pub(super) fn passes(&self, slot: SlotId) -> Option<&Passed> {
        self.residents.as_ref()?.passed(slot)
    }

    /// A stage's lane with its last stage that reads a slot of the host's, where several do.
    pub(super) fn last_again(&self, slot: SlotId, stage: StageId) -> Option<(u16, StageId)> {
        match self.schedule.place(stage) {
            Place::Lane(lane) => Some((lane, self.residents.as_ref()?.again(slot, lane)?)),
            _ => None,
        }
    }

    /// Returns whether the host has a slot's rows.
    pub(super) fn is_here(&self, slot: SlotId) -> bool {
        self.stays(slot).is_none() && self.passes(slot).is_none()
    }

    /// Returns whether lanes do its stages.
    pub(super) fn is_on_lanes(&self) -> bool {
        self.schedule.stages.iter().any(|stage| matches!(stage.place, Place::Lane(_)))
    }

    /// With rounds of parts.
    pub(crate) fn with_batches(mut self, batches: Option<Batches>) -> Self {
        self.batches = batches;
        self
    }

    /// The stage that the engine knows.
    fn stage(&self, step: Step) -> Result<&Stage> {
        self.schedule.stage(step.stage).ok_or_else(|| Error::Internal(format!("{step}: no such stage")))
    }

    /// The stages of a step.
    fn ids(&self, stage: StageId) -> Vec<StageId> {
        match self.spans.and_then(|spans| spans.get(stage)) {
            Some(span) => span.ids().collect(),
            None => vec![stage],
        }
    }

    /// A step's span, where that has several stages, or a kernel whose rows may stay.
    fn thick(&self, stage: StageId) -> Option<&'a Span> {
        let span = self.spans.and_then(|spans| spans.get(stage))?;
        let kernel = |id| {
            let stage = self.program.stage(id);
            stage.is_some_and(|stage| residents::is_kernel(self.program, stage.operation))
        };
        // Rows that nobody reads have no buffer.
        let written = |id| self.program.stage(id).map_or(0, |stage| stage.writes().count());
        let drops = || span.writes.len() < span.ids().map(written).sum();
        let stays = (self.residents.is_some() || drops()) && span.ids().all(kernel);
        (span.is_thick() || stays).then_some(span)
    }

    /// Uses of parameters whose gradients the stages of a step write.
    pub(super) fn sums(&self, stage: StageId) -> Vec<ParameterId> {
        let stages = self.ids(stage).into_iter().filter_map(|id| self.program.stage(id));
        stages.flat_map(|stage| stage.sums.iter().copied()).collect()
    }

    pub(super) fn operator(&self, id: OperationId) -> Result<&dyn Operator> {
        let operator = self.operators.get(id.index());
        operator.map(|operator| &**operator).ok_or_else(|| Error::Internal(format!("no operator {id}")))
    }

    /// Extents of one row of a slot.
    pub(super) fn extents(&self, slot: SlotId) -> Vec<u32> {
        self.program.slots.get(slot.index()).map_or_else(Vec::new, |spec| spec.extents.clone())
    }

    pub(super) fn layer(&self, operation: OperationId) -> Result<&Arc<Layer>> {
        let layer = self.layers.get(operation.index()).and_then(Option::as_ref);
        layer.ok_or_else(|| Error::Internal(format!("operation {operation} is not open")))
    }

    /// An interval's rows of a domain.
    pub(super) fn interval(&self, domain: DomainId, id: IntervalId) -> Result<&Interval> {
        let interval = self.intervals_of(domain).get(id.index());
        interval.ok_or_else(|| Error::Internal(format!("no interval {id}")))
    }

    pub(super) fn operation(&self, id: OperationId) -> Result<&Operation> {
        let operation = self.program.operations.get(id.index());
        operation.ok_or_else(|| Error::Internal(format!("no operation {id}")))
    }

    /// The stages of a step, for their operators.
    fn on<'s>(
        &'s self,
        (pass, task): (u32, Task),
        ages: Option<&'s [u8]>,
        weights: &'s Weights,
    ) -> Result<Vec<On<'s>>> {
        let part = match &self.batches {
            None => None,
            Some(batches) => Some(batches.part(task.round, task.interval)?),
        };
        let one = |id: StageId| self.of_stage(id, (pass, task), ages, weights, part.clone());
        self.ids(task.stage).into_iter().map(one).collect()
    }

    fn of_stage<'s>(
        &'s self,
        id: StageId,
        (pass, task): (u32, Task),
        ages: Option<&'s [u8]>,
        weights: &'s Weights,
        part: Option<(Arc<Part>, f32)>,
    ) -> Result<On<'s>> {
        let stage = self.program.stage(id);
        let stage = stage.ok_or_else(|| Error::Internal(format!("{}: no stage {id}", task.step())))?;
        Ok(On { stages: self, stage, id, pass, task, ages, weights, part })
    }

    /// The stages of earlier runs that write the rows of a run's own worker that it reads, in
    /// order.
    pub(super) fn before<'s>(&'s self, on: &On<'s>, span: &Span) -> Result<Vec<On<'s>>> {
        let spans = self.spans.map_or(&[][..], Spans::as_slice);
        let (mut wanted, mut runs) = (vec![span], BTreeSet::new());
        while let Some(span) = wanted.pop() {
            for (slot, _) in span.reads.iter().filter(|(slot, _)| self.stays(*slot).is_some()) {
                let writer = spans.iter().position(|span| span.writes.contains(slot));
                let writer = writer.filter(|writer| runs.insert(*writer));
                wanted.extend(writer.and_then(|writer| spans.get(writer)));
            }
        }
        let ids = runs.into_iter().filter_map(|run| spans.get(run)).flat_map(Span::ids);
        let (of, part) = ((on.pass, on.task), &on.part);
        ids.map(|id| self.of_stage(id, of, on.ages, on.weights, part.clone())).collect()
    }

    /// The only stage of a step.
    fn one<'s>(&self, each: Vec<On<'s>>, step: Step) -> Result<On<'s>> {
        each.into_iter().next().ok_or_else(|| Error::Internal(format!("{step} has no stage")))
    }

    /// An attempt as executors take it, in a pass. `ages`: by interval, how many rounds old the
    /// rows are that it reads of all intervals.
    pub(super) fn job(
        &self,
        pass: u32,
        task: Task,
        ages: Option<&[u8]>,
        weights: &Weights,
        deadline: Option<Duration>,
    ) -> Result<Job> {
        let each = self.on((pass, task), ages, weights)?;
        if let Some(span) = self.thick(task.stage) {
            let work = Thick::new(self, span, each, task).work(weights, false)?;
            return Ok(Job { pass, task, work, deadline, affinity: Affinity::Any });
        }
        let on = self.one(each, task.step())?;
        let operator = self.operator(on.stage.operation)?;
        on.clear()?;
        // An interval of vertices may have no graph that stands in it, a part no row.
        let work = if on.rows()?.is_empty() { on.nothing()? } else { operator.work(&on)? };
        let affinity = if on.stage.place.is_task() { Affinity::Any } else { Affinity::HOST };
        Ok(Job { pass, task, work, deadline, affinity })
    }

    /// A step that was done, once more for the rows that stay where it is done.
    pub(super) fn again(&self, pass: u32, task: Task, weights: &Weights) -> Result<Job> {
        let work = match self.thick(task.stage) {
            Some(span) => {
                let each = self.on((pass, task), None, weights)?;
                Thick::new(self, span, each, task).work(weights, true)?
            }
            None => op::nothing(Vec::new())?,
        };
        Ok(Job { pass, task, work, deadline: None, affinity: Affinity::Any })
    }

    /// Returns whether a stage chooses the rows of parts.
    pub(super) fn samples(&self, stage: StageId) -> bool {
        self.schedule.sampling == Some(stage)
    }

    /// How many gathers lie between a stage's rows and the loss.
    pub(super) fn hops(&self) -> &Hops {
        &self.hops
    }

    /// Puts an answer that came in a message where its task would have written.
    pub(super) fn commit(&self, key: TaskKey, answer: Answer, weights: &Weights) -> Result<Finished> {
        let TaskKey { round, stage, interval, attempt } = key;
        let task = Task { round, stage, interval, attempt, weights: weights.newest() };
        let each = self.on((0, task), None, weights)?;
        match self.thick(stage) {
            Some(span) => Thick::new(self, span, each, task).commit(answer),
            None => self.one(each, task.step())?.commit(answer),
        }
    }

    /// Returns whether attempts at a stage are tasks, which a function may do.
    pub(super) fn is_task(&self, stage: StageId) -> bool {
        self.schedule.place(stage).is_task()
    }

    /// How many rows each interval has, of all rows.
    pub(super) fn rows_by_interval(&self) -> impl Iterator<Item = usize> {
        self.intervals_of(Domain::VERTICES).iter().map(|interval| interval.rows.len())
    }

    /// How many rows a step is of.
    pub(super) fn rows_of(&self, step: Step) -> usize {
        if let Some(batches) = &self.batches {
            let part = batches.part(step.round, step.interval);
            let hops = self.ids(step.stage).into_iter().map(|id| self.hops.stage(id)).max().unwrap_or(0);
            return part.map_or(0, |(part, _)| part.rows(hops));
        }
        let domain = self.schedule.stage(step.stage).map_or(Domain::VERTICES, |stage| stage.domain);
        self.intervals_of(domain).get(step.interval.index()).map_or(0, |i| i.rows.len())
    }

    /// Floating-point operations of a step: its products by the rows, two a value that is gathered
    /// by the edges.
    pub(super) fn flops(&self, step: Step) -> u64 {
        let Some(stage) = self.program.stage(step.stage) else { return 0 };
        let stored = match &self.inputs.features {
            Matrix::Sparse(features) => {
                let all = features.data.rows() as f64 * features.data.columns() as f64;
                features.data.stored() as f64 / all.max(1.0)
            }
            Matrix::Dense(_) => 1.0,
        };
        let of_rows = (stage.cost.flops + stage.cost.feature_flops * stored) * self.rows_of(step) as f64;
        let edges = if stage.cost.edge_values == 0 { 0 } else { self.edges_of(step) };
        of_rows as u64 + 2 * u64::from(stage.cost.edge_values) * edges
    }

    /// The entries of the lists that a step follows.
    fn edges_of(&self, step: Step) -> u64 {
        let Some(relation) = self.program.relation(step.stage) else { return 0 };
        if let Some(batches) = &self.batches {
            let hops = self.hops.stage(step.stage).saturating_sub(usize::from(relation.reversed));
            let part = batches.part(step.round, step.interval).ok();
            return part.map_or(0, |(part, _)| part.level(hops).map_or(0, |level| level.lists.graph.edges()));
        }
        let domain = self.program.stage(step.stage).map_or(Domain::VERTICES, |stage| stage.domain);
        let rows = self.interval(domain, step.interval).map_or(0..0, |interval| interval.rows.clone());
        let Ok(lists) = self.inputs.lists(*relation) else { return 0 };
        let offsets = lists.adjacency().offsets();
        let at = |row: usize| offsets.get(row).copied().unwrap_or(0);
        at(rows.end).saturating_sub(at(rows.start))
    }

    /// Bytes of the rows that a step reads and writes.
    pub(super) fn bytes(&self, step: Step) -> (u64, u64) {
        stage_bytes(self.schedule, self.inputs, self.rows.format, (step.stage, self.rows_of(step)))
    }

    /// What a step has written is whole, and counts from now on.
    pub(super) fn publish(&self, step: Step) -> Result<()> {
        let mut slots = self.stage(step)?.writes().filter(|slot| self.is_here(*slot));
        slots.try_for_each(|slot| self.rows.publish(slot, step.round, step.interval))?;
        match &self.fold {
            None => Ok(()),
            Some(fold) => {
                let interval = self.interval(Domain::VERTICES, step.interval)?;
                fold.take(self.rows, self.inputs, (step.interval, interval))
            }
        }
    }
}

/// Bytes of the rows that a stage reads and writes on so many rows; features that are sparse count
/// as they are stored, on average, and what a gather reads once.
pub(crate) fn stage_bytes(
    program: &Program,
    inputs: &Inputs,
    format: RowFormat,
    (stage, rows): (StageId, usize),
) -> (u64, u64) {
    let Some(stage) = program.stage(stage) else { return (0, 0) };
    let vertices = u64::from(program.shape.rows);
    let own = rows as u64;
    let row = |slot: SlotId| {
        let width = program.slots.get(slot.index()).map_or(0, |spec| u64::from(spec.width));
        // What will be gathered counts as what it is gathered of.
        let constant = slot == program.features || Some(slot) == program.gathered;
        match inputs.constant(program, slot).unwrap_or(&inputs.features) {
            Matrix::Sparse(s) if constant => s.data.stored() as u64 * 8 / vertices.max(1),
            _ => width * u64::from(Buffers::format(program, slot, format).value_bytes()),
        }
    };
    let all = |slot| u64::from(program.rows(program.domain_of(slot)));
    let wide = |scope| scope == Scope::All && program.apart.is_none();
    let read = |(slot, scope)| row(slot) * if wide(scope) { all(slot) } else { own };
    (stage.reads().map(read).sum(), stage.writes().map(|slot| row(slot) * own).sum())
}
