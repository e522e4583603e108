//! The stages of a program, from which the driver creates the work of tasks.
//!
//! A step leases the rows that it reads and writes. If two steps would access the same rows, the
//! second one fails, so that no step reads rows while they are written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use eciton_exec::{Affinity, Job};
use eciton_kernel::wire::Answer;
use eciton_kernel::{Finished, Layer};
use eciton_program::{
    Buffers, Domain, FusedStage, FusedStages, Hops, Operation, Over, Passed, Place, Program, Residents,
    Scope, Stage, residents,
};
use eciton_recipe::RowFormat;
use eciton_tensor::Matrix;
use eciton_types::{
    DomainId, IntervalId, OperationId, ParameterId, Round, SlotId, StageId, Step, Task, TaskKey,
};

use super::fold::Fold;
use super::operator::{self, On, Operator};
use super::rows::RowStore;
use super::span::Thick;
use super::watch::Watch;
use crate::batch::{Batches, Part};
use crate::data::{Inputs, Interval};
use crate::error::{Error, Result};
use crate::evaluation::Sampled;
use crate::hosts::Exchange;
use crate::weights::Weights;

/// Place of the scores of an evaluation.
pub(crate) enum Results<'a> {
    /// The row store. Stages of a training also use this variant.
    Rows,
    /// A metric, to which the scores of each interval are added.
    Folded(Fold),
    /// The matrix of an evaluation on samples.
    Sampled(&'a Sampled),
}

/// A program with its row store, operators and schedule. The driver creates the work of each step
/// from it.
pub(crate) struct Stages<'a> {
    pub program: &'a Program,
    /// Program that the engine schedules. It is `program`, or the program in which each fused stage
    /// is one stage.
    pub schedule: &'a Program,
    spans: Option<&'a FusedStages>,
    pub inputs: &'a Inputs,
    pub rows: &'a RowStore,
    pub layers: &'a [Option<Arc<Layer>>],
    pub training: bool,
    pub seed: u64,
    /// Micro-batches of the training. `None` if each round uses all rows of the data set.
    pub batches: Option<Batches>,
    /// Number of gathers between each stage or slot and the loss. The rows of a micro-batch are
    /// sorted by this number.
    hops: Hops,
    operators: Vec<Box<dyn Operator>>,
    /// Row ranges of steps on vertices. If `None`, the intervals of `inputs` are used.
    pieces: Option<&'a [Interval]>,
    pub results: Results<'a>,
    /// Slots whose rows stay on workers. `None` if workers store no rows.
    residents: Option<Residents>,
    /// Exchange with the other hosts of the run. `None` in a run on one host.
    pub hosts: Option<&'a Exchange>,
    /// Search for values that are not finite. If `None`, the results of steps are not checked.
    pub(super) watch: Option<&'a Watch>,
}

impl<'a> Stages<'a> {
    /// Creates the stages of a program. `layers` has its kernels, and `operators` has the operator
    /// of each operation. If `trains_with` is a seed, the stages train with it. Otherwise they
    /// evaluate.
    pub(super) fn new(
        program: &'a Program,
        inputs: &'a Inputs,
        rows: &'a RowStore,
        layers: &'a [Option<Arc<Layer>>],
        operators: Vec<Box<dyn Operator>>,
        trains_with: Option<u64>,
    ) -> Self {
        let (training, seed) = (trains_with.is_some(), trains_with.unwrap_or(0));
        let hops = Hops::from_program(program);
        let (schedule, spans, batches) = (program, None, None);
        let (pieces, results) = (None, Results::Rows);
        Self {
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
            results,
            residents: None,
            hosts: None,
            watch: None,
        }
    }

    /// Sets the row ranges of steps on vertices. With `None`, the intervals of the inputs are used.
    pub(crate) fn with_pieces(mut self, pieces: Option<&'a [Interval]>) -> Self {
        self.pieces = pieces;
        self
    }

    /// Sets the place of the scores.
    pub(crate) fn with_results(mut self, results: Results<'a>) -> Self {
        self.results = results;
        self
    }

    /// Sets the exchange with the other hosts of the run.
    pub(crate) fn with_hosts(mut self, hosts: Option<&'a Exchange>) -> Self {
        self.hosts = hosts;
        self
    }

    /// Sets the search for values that are not finite. It checks all rows and sums that steps
    /// write.
    pub(crate) fn with_watch(mut self, watch: &'a Watch) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Returns the row ranges of steps on the domain `domain` (vertices or graphs).
    fn intervals_of(&self, domain: DomainId) -> &[Interval] {
        let pieces = self.pieces.filter(|_| domain == Domain::VERTICES);
        pieces.unwrap_or_else(|| self.inputs.intervals_of(domain))
    }

    /// Sets the fused stages of the program, and the program `schedule` in which each of them is
    /// one stage.
    pub(crate) fn with_spans(mut self, spans: &'a FusedStages, schedule: &'a Program) -> Self {
        (self.spans, self.schedule) = (Some(spans), schedule);
        self
    }

    /// If `keeps` is true, workers stash the rows that only backward steps of their own lanes read.
    /// Must be called after [`Stages::with_spans`].
    pub(crate) fn with_places(mut self, keeps: bool) -> Self {
        let spans = self.spans.filter(|_| keeps);
        self.residents = spans.map(|spans| Residents::from_program(self.program, spans, self.schedule));
        self
    }

    /// If `passes` is true, workers stash rows, and send rows that other lanes read directly to
    /// each other. Must be called after [`Stages::with_spans`].
    pub(crate) fn with_passing(mut self, passes: bool) -> Self {
        if let Some(spans) = self.spans.filter(|_| passes) {
            self.residents = Some(Residents::passing(self.program, spans, self.schedule));
        }
        self
    }

    /// Returns the last stage that reads `slot` if its rows stay on the worker that computes them.
    /// Otherwise returns `None`.
    pub(super) fn stays(&self, slot: SlotId) -> Option<StageId> {
        self.residents.as_ref()?.last_reader(slot)
    }

    /// Returns the lanes that write and read `slot` if workers send its rows directly to each
    /// other. Otherwise returns `None`.
    pub(super) fn passes(&self, slot: SlotId) -> Option<&Passed> {
        self.residents.as_ref()?.passed(slot)
    }

    /// Returns the lane of `stage`, and the last stage of this lane that reads `slot` from the
    /// host. Returns `None` if fewer than two stages of the lane read the slot.
    pub(super) fn last_again(&self, slot: SlotId, stage: StageId) -> Option<(u16, StageId)> {
        match self.schedule.place(stage) {
            Place::Lane(lane) => Some((lane, self.residents.as_ref()?.again(slot, lane)?)),
            _ => None,
        }
    }

    /// Returns true if the rows of a slot are in the host's row store, and false if they are only
    /// on workers.
    pub(super) fn is_here(&self, slot: SlotId) -> bool {
        self.stays(slot).is_none() && self.passes(slot).is_none()
    }

    /// Returns true if any stage runs on a lane. A lane is a share of the pipeline that one thread
    /// or worker runs.
    pub(super) fn is_on_lanes(&self) -> bool {
        self.schedule.stages.iter().any(|stage| matches!(stage.place, Place::Lane(_)))
    }

    /// Sets the micro-batches of the training. With `None`, each round uses all rows of the data
    /// set.
    pub(crate) fn with_batches(mut self, batches: Option<Batches>) -> Self {
        self.batches = batches;
        self
    }

    /// Returns the stage of the schedule that a step runs.
    fn stage(&self, step: Step) -> Result<&Stage> {
        self.schedule.stage(step.stage).ok_or_else(|| Error::Internal(format!("{step} has no stage")))
    }

    /// Returns the stages of the program that a stage of the schedule consists of. A fused stage
    /// consists of several stages.
    fn ids(&self, stage: StageId) -> Vec<StageId> {
        match self.spans.and_then(|spans| spans.get(stage)) {
            Some(span) => span.ids().collect(),
            None => vec![stage],
        }
    }

    /// Returns the fused stage that `stage` of the schedule stands for. Returns `None` if the stage
    /// runs alone. A fused stage of a single kernel is returned only if its rows may stay on a
    /// worker or are read by no stage.
    fn thick(&self, stage: StageId) -> Option<&'a FusedStage> {
        let span = self.spans.and_then(|spans| spans.get(stage))?;
        let kernel = |id| {
            let stage = self.program.stage(id);
            stage.is_some_and(|stage| residents::is_kernel(self.program, stage.operation))
        };
        // Rows that no stage reads have no buffer.
        let written = |id| self.program.stage(id).map_or(0, |stage| stage.writes().count());
        let drops = || span.writes.len() < span.ids().map(written).sum();
        let stays = (self.residents.is_some() || drops()) && span.ids().all(kernel);
        (span.is_fused() || stays).then_some(span)
    }

    /// Returns the parameters whose gradients a stage of the schedule computes.
    pub(super) fn sums(&self, stage: StageId) -> Vec<ParameterId> {
        let stages = self.ids(stage).into_iter().filter_map(|id| self.program.stage(id));
        stages.flat_map(|stage| stage.sums.iter().copied()).collect()
    }

    /// Returns the number of values of these parameters.
    pub(super) fn values(&self, parameters: &[ParameterId]) -> u64 {
        let owned = parameters.iter().filter_map(|&id| self.program.parameter(self.program.owner(id)));
        owned.map(|parameter| parameter.len() as u64).sum()
    }

    /// Returns the operator that creates the work of an operation.
    pub(super) fn operator(&self, id: OperationId) -> Result<&dyn Operator> {
        let operator = self.operators.get(id.index());
        operator.map(|operator| &**operator).ok_or_else(|| Error::Internal(format!("no operator {id}")))
    }

    /// Returns the new values of all statistics after the update of `round`, by their numbers among the
    /// parameters.
    pub(super) fn statistics(&self, round: Round, weights: &Weights) -> Result<BTreeMap<usize, Vec<f32>>> {
        let mut all = BTreeMap::new();
        for operator in &self.operators {
            let new = operator.updated(round, &|parameter| weights.values(parameter))?;
            all.extend(new);
        }
        Ok(all)
    }

    /// Returns the extents of one row of a slot.
    pub(super) fn extents(&self, slot: SlotId) -> Vec<u32> {
        self.program.slots.get(slot.index()).map_or_else(Vec::new, |spec| spec.extents.clone())
    }

    /// Returns the kernel of an operation. Fails if the operation is an operator without a kernel.
    pub(super) fn layer(&self, operation: OperationId) -> Result<&Arc<Layer>> {
        let layer = self.layers.get(operation.index()).and_then(Option::as_ref);
        layer.ok_or_else(|| Error::Internal(format!("operation {operation} has no open kernel")))
    }

    /// Returns the interval `id` of a domain (vertices or graphs). An interval is a contiguous
    /// range of rows that is scheduled as one unit.
    pub(super) fn interval(&self, domain: DomainId, id: IntervalId) -> Result<&Interval> {
        let interval = self.intervals_of(domain).get(id.index());
        interval.ok_or_else(|| Error::Internal(format!("there is no interval {id}")))
    }

    /// Returns the operation `id` of the program.
    pub(super) fn operation(&self, id: OperationId) -> Result<&Operation> {
        let operation = self.program.operations.get(id.index());
        operation.ok_or_else(|| Error::Internal(format!("there is no operation {id}")))
    }

    /// Returns the stages that `task` runs, each in the form that its operator reads.
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

    /// Returns the stage `id` of the program for `task`, in the form that its operator reads.
    fn of_stage<'s>(
        &'s self,
        id: StageId,
        (pass, task): (u32, Task),
        ages: Option<&'s [u8]>,
        weights: &'s Weights,
        part: Option<(Arc<Part>, f32)>,
    ) -> Result<On<'s>> {
        let stage = self.program.stage(id);
        let stage = stage.ok_or_else(|| Error::Internal(format!("{} has no stage {id}", task.step())))?;
        Ok(On { stages: self, stage, id, pass, task, ages, weights, part })
    }

    /// Returns the earlier stages whose results `span` reads from its own worker, directly or
    /// indirectly. An audit runs them again. The stages are in the order of the program.
    pub(super) fn before<'s>(&'s self, on: &On<'s>, span: &FusedStage) -> Result<Vec<On<'s>>> {
        let spans = self.spans.map_or(&[][..], FusedStages::as_slice);
        let (mut wanted, mut runs) = (vec![span], BTreeSet::new());
        while let Some(span) = wanted.pop() {
            for (slot, _) in span.reads.iter().filter(|(slot, _)| self.stays(*slot).is_some()) {
                let writer = spans.iter().position(|span| span.writes.contains(slot));
                let writer = writer.filter(|writer| runs.insert(*writer));
                wanted.extend(writer.and_then(|writer| spans.get(writer)));
            }
        }
        let ids = runs.into_iter().filter_map(|run| spans.get(run)).flat_map(FusedStage::ids);
        let (of, part) = ((on.pass, on.task), &on.part);
        ids.map(|id| self.of_stage(id, of, on.ages, on.weights, part.clone())).collect()
    }

    /// Returns the number of training rows in a pass over the data. Rows are vertices, tokens,
    /// graphs or links.
    pub(super) fn training_rows(&self) -> usize {
        let links = self.inputs.links.as_ref().map(|links| links.trained as usize);
        links.unwrap_or_else(|| self.inputs.learnt().1.train.len())
    }

    /// Returns the only stage of a step that has a single stage.
    fn one<'s>(&self, each: Vec<On<'s>>, step: Step) -> Result<On<'s>> {
        each.into_iter().next().ok_or_else(|| Error::Internal(format!("{step} has no stage")))
    }

    /// Creates the job for `task` in the pass with number `pass`. If another host runs the task, the
    /// job writes the rows that it has sent. `ages` is the age in rounds of
    /// each interval's rows that the step reads.
    pub(super) fn job(
        &self,
        pass: u32,
        task: Task,
        ages: Option<&[u8]>,
        weights: &Weights,
        deadline: Option<Duration>,
    ) -> Result<Job> {
        if let Some(hosts) = self.hosts.filter(|hosts| !hosts.owns(task.interval)) {
            return hosts.write(pass, self.rows, task);
        }
        let each = self.on((pass, task), ages, weights)?;
        if let Some(span) = self.thick(task.stage) {
            let work = Thick::new(self, span, each, task).work(weights, false)?;
            return Ok(Job { pass, task, work, deadline, affinity: Affinity::Any });
        }
        let on = self.one(each, task.step())?;
        let operator = self.operator(on.stage.operation)?;
        on.clear()?;
        // An interval of vertices may contain no graph, and a micro-batch no row.
        let work = if on.rows()?.is_empty() { on.nothing()? } else { operator.work(&on)? };
        let affinity = if on.stage.place.is_task() { Affinity::Any } else { Affinity::HOST };
        Ok(Job { pass, task, work, deadline, affinity })
    }

    /// Creates the job that repeats a finished step, to restore rows and sums that were stored on a
    /// failed worker. The worker that has taken over the lane runs it.
    pub(super) fn again(&self, pass: u32, task: Task, weights: &Weights) -> Result<Job> {
        let work = match self.thick(task.stage) {
            Some(span) => {
                let each = self.on((pass, task), None, weights)?;
                Thick::new(self, span, each, task).work(weights, true)?
            }
            None => operator::nothing(Vec::new())?,
        };
        Ok(Job { pass, task, work, deadline: None, affinity: Affinity::Any })
    }

    /// Returns true if `stage` samples the rows of micro-batches.
    pub(super) fn samples(&self, stage: StageId) -> bool {
        self.schedule.sampling == Some(stage)
    }

    /// Returns the number of gathers between each stage or slot and the loss.
    pub(super) fn hops(&self) -> &Hops {
        &self.hops
    }

    /// Stores an answer from a worker or function in the rows and sums of the step of `key`.
    pub(super) fn commit(&self, key: TaskKey, answer: Answer, weights: &Weights) -> Result<Finished> {
        let TaskKey { round, stage, interval, attempt } = key;
        let task = Task { round, stage, interval, attempt, weights: weights.newest() };
        let each = self.on((0, task), None, weights)?;
        match self.thick(stage) {
            Some(span) => Thick::new(self, span, each, task).commit(answer),
            None => self.one(each, task.step())?.commit(answer),
        }
    }

    /// Returns true if a function or worker may run `stage`. Other stages run only on the host.
    pub(super) fn is_task(&self, stage: StageId) -> bool {
        self.schedule.place(stage).is_task()
    }

    /// Returns the number of rows in each interval of vertices.
    pub(super) fn rows_by_interval(&self) -> impl Iterator<Item = usize> {
        self.intervals_of(Domain::VERTICES).iter().map(|interval| interval.rows.len())
    }

    /// Returns the number of rows of a step, which are those of its interval, or those that it
    /// computes of its micro-batch.
    pub(super) fn rows_of(&self, step: Step) -> usize {
        let domain = self.schedule.stage(step.stage).map_or(Domain::VERTICES, |stage| stage.domain);
        if let Some(batches) = &self.batches {
            let part = batches.part(step.round, step.interval);
            let hops = self.ids(step.stage).into_iter().map(|id| self.hops.stage(id)).max().unwrap_or(0);
            return part.map_or(0, |(part, _)| part.rows(domain, hops));
        }
        self.intervals_of(domain).get(step.interval.index()).map_or(0, |i| i.rows.len())
    }

    /// Returns the estimated number of floating-point operations of a step. It counts the products
    /// per row, and two operations per gathered value, over all stages of a fused stage.
    pub(super) fn flops(&self, step: Step) -> u64 {
        let stored = match &self.inputs.features {
            Matrix::Sparse(features) => {
                let all = features.data.rows() as f64 * features.data.columns() as f64;
                features.data.stored() as f64 / all.max(1.0)
            }
            Matrix::Dense(_) => 1.0,
        };
        let rows = self.rows_of(step) as f64;
        let of = |id: StageId| {
            let cost = self.program.stage(id).map(|stage| stage.cost).unwrap_or_default();
            let edges = if cost.edge_values == 0 { 0 } else { self.edges_of(Step { stage: id, ..step }) };
            ((cost.flops + cost.feature_flops * stored) * rows) as u64
                + 2 * u64::from(cost.edge_values) * edges
        };
        self.ids(step.stage).into_iter().map(of).sum()
    }

    /// Returns the number of edges in the neighbour lists that a step of one stage reads.
    fn edges_of(&self, step: Step) -> u64 {
        let Some(relation) = self.program.relation(step.stage) else { return 0 };
        if let Some(batches) = &self.batches {
            let hops = self.hops.stage(step.stage).saturating_sub(usize::from(relation.reversed));
            let part = batches.part(step.round, step.interval).ok();
            let rows = |domain| part.as_ref().map_or(0, |(part, _)| part.rows(domain, hops) as u64);
            match relation.over {
                Over::Neighbours => {}
                Over::Graphs => return rows(Domain::VERTICES),
                Over::EdgeSources | Over::EdgeTargets => return rows(Domain::READ_OUT),
            }
            return part.map_or(0, |(part, _)| part.level(hops).map_or(0, |level| level.lists.graph.edges()));
        }
        let domain = self.program.stage(step.stage).map_or(Domain::VERTICES, |stage| stage.domain);
        let rows = self.interval(domain, step.interval).map_or(0..0, |interval| interval.rows.clone());
        let Ok(lists) = self.inputs.lists(*relation) else { return 0 };
        let offsets = lists.adjacency().offsets();
        let at = |row: usize| offsets.get(row).copied().unwrap_or(0);
        at(rows.end).saturating_sub(at(rows.start))
    }

    /// Returns the bytes of the rows that a step reads, and the bytes of those that it writes.
    pub(super) fn bytes(&self, step: Step) -> (u64, u64) {
        stage_bytes(self.schedule, self.inputs, self.rows.format, (step.stage, self.rows_of(step)))
    }

    /// Makes the rows that a step has written available to other steps. If scores are added to a
    /// metric, this is done here.
    pub(super) fn publish(&self, step: Step) -> Result<()> {
        let mut slots = self.stage(step)?.writes().filter(|slot| self.is_here(*slot));
        slots.try_for_each(|slot| self.rows.publish(slot, step.round, step.interval))?;
        match &self.results {
            Results::Rows | Results::Sampled(_) => Ok(()),
            Results::Folded(fold) => {
                let interval = self.interval(Domain::VERTICES, step.interval)?;
                fold.take(self.rows, self.inputs, (step.interval, interval))
            }
        }
    }
}

/// Returns the bytes that a stage reads and the bytes that it writes in a step of `rows` rows.
/// Sparse features count with the average size of a row. A gather counts each source row once.
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
        // Gathered features that are not computed yet count like the features that they are
        // gathered from.
        let constant = program.constants().any(|constant| constant == slot);
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
