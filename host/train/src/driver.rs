//! The driver: carries out the engine's actions on real executors and reports their ends as events.
//!
//! Rows live in one buffer a slot; a step leases the rows that it reads and writes, so two steps that
//! would touch the same rows are refused rather than torn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use eciton_engine::{Action, Engine, Event, Reason};
use eciton_exec::{Answered, Bill, Completion, Compute, Executor, Order};
use eciton_graph::gather::gather_symmetric;
use eciton_graph::metrics::accuracy;
use eciton_kernel::wire::Answer;
use eciton_kernel::{Call, Finished, Kind, Labelled, Layer, RowNumbers, Target};
use eciton_plan::{
    Direction, Epoch, Gather, IntervalId, Normalisation, Operation, OperationId, Optimiser, Program, SlotId,
    Stage, Step, Task, TaskKey, Tensor, Version,
};
use eciton_tensor::{Buffer, Matrix};

use crate::data::{Interval, Prepared};
use crate::error::{Error, Result, at};
use crate::report::{Accuracy, EpochReport, Observer};
use crate::weights::Weights;

/// Buffers for the slots of one program.
#[derive(Debug)]
pub(crate) struct Slots {
    buffers: Vec<Option<Buffer>>,
}

impl Slots {
    pub(crate) fn new(program: &Program) -> Result<Self> {
        let buffer = |(at_slot, spec): (usize, &eciton_plan::SlotSpec)| -> Result<Option<Buffer>> {
            if at_slot == program.features.index() {
                return Ok(None);
            }
            let made = Buffer::zeroed(program.shape.rows as usize, spec.width as usize);
            made.map(Some).map_err(at("row buffers"))
        };
        Ok(Self { buffers: program.slots.iter().enumerate().map(buffer).collect::<Result<_>>()? })
    }

    pub(crate) fn buffer(&self, slot: SlotId) -> Result<&Buffer> {
        let found = self.buffers.get(slot.index()).and_then(Option::as_ref);
        found.ok_or_else(|| Error::Internal(format!("slot {slot} has no buffer")))
    }
}

/// One program on its way: what tasks are made from.
pub(crate) struct Stages<'a> {
    pub program: &'a Program,
    pub prepared: &'a Prepared,
    pub slots: &'a Slots,
    pub layers: &'a [Arc<Layer>],
    pub training: bool,
    pub seed: u64,
}

impl Stages<'_> {
    fn stage(&self, step: Step) -> Result<&Stage> {
        self.program.stage(step.stage).ok_or_else(|| Error::Internal(format!("{step}: no such stage")))
    }

    fn layer(&self, operation: OperationId) -> Result<&Arc<Layer>> {
        self.layers
            .get(operation.index())
            .ok_or_else(|| Error::Internal(format!("operation {operation} is not open")))
    }

    /// The rows of an interval in a slot, to read.
    fn read(&self, slot: SlotId, rows: &std::ops::Range<usize>) -> Result<Matrix> {
        let extents = self.program.slots.get(slot.index()).map_or(&[][..], |s| &s.extents);
        let matrix = if slot == self.program.features {
            self.prepared.features.slice_rows(rows.start, rows.len())
        } else {
            self.slots.buffer(slot)?.read(rows.clone()).map(Matrix::from)
        };
        matrix.and_then(|m| m.with_extents(extents)).map_err(at("rows to read"))
    }

    fn write(&self, slot: SlotId, rows: &std::ops::Range<usize>) -> Result<Target> {
        let extents = self.program.slots.get(slot.index()).map_or_else(Vec::new, |s| s.extents.clone());
        let rows = self.slots.buffer(slot)?.write(rows.clone()).map_err(at("rows to write"))?;
        Ok(Target::Rows { rows, extents })
    }

    fn interval(&self, id: IntervalId) -> Result<&Interval> {
        let interval = self.prepared.intervals.get(id.index());
        interval.ok_or_else(|| Error::Internal(format!("no interval {id}")))
    }

    fn operation(&self, id: OperationId) -> Result<&Operation> {
        let operation = self.program.operations.get(id.index());
        operation.ok_or_else(|| Error::Internal(format!("no operation {id}")))
    }

    /// Where a task writes: rows, then sums.
    fn targets(
        &self,
        interval: IntervalId,
        tensor: &Tensor,
        weights: &Weights,
    ) -> Result<(Vec<Option<Target>>, Vec<Target>)> {
        let rows = &self.interval(interval)?.rows;
        let at_interval = interval.index();
        let mut sums = Vec::new();
        if tensor.direction == Direction::Forward {
            let all = tensor.outputs.iter().chain(&tensor.kept);
            return Ok((all.map(|&s| self.write(s, rows).map(Some)).collect::<Result<_>>()?, sums));
        }
        let write = |s: &Option<SlotId>| s.map(|s| self.write(s, rows)).transpose();
        let operation = self.operation(tensor.operation)?;
        for (p, spec) in operation.parameters.iter().zip(&operation.signature.parameters) {
            let parts = weights.gradient(p.index(), at_interval);
            sums.push(Target::Sums { parts, shape: spec.shape.clone() });
        }
        if tensor.direction == Direction::Loss {
            sums.push(Target::Sums { parts: weights.loss_parts(at_interval), shape: vec![1] });
        }
        Ok((tensor.input_gradients.iter().map(write).collect::<Result<_>>()?, sums))
    }

    fn call(&self, task: &Task, tensor: &Tensor, weights: &Weights) -> Result<Call> {
        let interval = self.interval(task.interval)?;
        let rows = &interval.rows;
        let operation = self.operation(tensor.operation)?;
        let read = |slots: &[SlotId]| slots.iter().map(|&s| self.read(s, rows)).collect::<Result<Vec<_>>>();
        let parameters =
            operation.parameters.iter().map(|p| weights.matrix(p.index())).collect::<Result<Vec<_>>>()?;
        let kind = match tensor.direction {
            Direction::Forward => Kind::Forward,
            Direction::Loss => Kind::Loss,
            _ => Kind::Backward,
        };
        let (rows_out, sums_out) = self.targets(task.interval, tensor, weights)?;
        let labelled = (kind == Kind::Loss).then(|| Labelled {
            labels: interval.labels.clone(),
            rows: interval.training.clone(),
            weight: 1.0 / self.prepared.dataset.split.train.len() as f32,
        });
        let backward = kind == Kind::Backward;
        Ok(Call {
            kind,
            seed: self.seed,
            // The engine counts from 1, random numbers from 0.
            epoch: task.epoch.0.saturating_sub(1),
            layer: u32::from(operation.layer.0),
            training: self.training,
            grid: interval.grid.clone(),
            row_numbers: RowNumbers::From(rows.start as u64),
            inputs: read(&tensor.inputs)?,
            outputs: if backward { read(&tensor.outputs)? } else { Vec::new() },
            kept: if backward { read(&tensor.kept)? } else { Vec::new() },
            parameters,
            gradients: if backward { read(&tensor.gradients)? } else { Vec::new() },
            output_count: tensor.outputs.len(),
            rows_out,
            sums_out,
            labelled,
        })
    }

    /// A task as executors take it.
    fn order(&self, task: Task, weights: &Weights, pass: u32, deadline: Option<Duration>) -> Result<Order> {
        let Stage::Tensor(tensor) = self.stage(task.step())? else {
            return Err(Error::Internal(format!("{} is no task", task.step())));
        };
        let features = self.program.features;
        let constant = tensor.inputs.iter().take(32).enumerate().filter(|&(_, &slot)| slot == features);
        Ok(Order {
            pass,
            task,
            operation: tensor.operation,
            generation: weights.generation(),
            layer: self.layer(tensor.operation)?.clone(),
            call: self.call(&task, tensor, weights)?,
            constant_inputs: constant.fold(0, |bits, (at, _)| bits | 1 << at),
            deadline,
        })
    }

    /// Puts an answer that came in a message where its task would have written.
    fn commit(&self, key: TaskKey, answer: Answer, weights: &Weights) -> Result<Finished> {
        let Stage::Tensor(tensor) = self.stage(key.step())? else {
            return Err(Error::Internal(format!("{} is no task", key.step())));
        };
        let (rows_out, sums_out) = self.targets(key.interval, tensor, weights)?;
        answer
            .into_targets(rows_out, sums_out)
            .map_err(|source| Error::Step { step: key.to_string(), source: Box::new(source) })
    }

    fn gather(&self, step: Step, gather: &Gather, compute: &mut (impl Compute + ?Sized)) -> Result<()> {
        let Normalisation::Symmetric = gather.normalisation;
        let interval = self.prepared.intervals.get(step.interval.0 as usize);
        let rows = interval
            .map(|i| i.rows.clone())
            .ok_or_else(|| Error::Internal(format!("{step}: no interval")))?;
        let input = self.slots.buffer(gather.input)?;
        let input = input.read(0..input.rows()).map_err(at("rows to gather"))?;
        let mut output =
            self.slots.buffer(gather.output)?.write(rows.clone()).map_err(at("gathered rows"))?;
        let (dataset, scale, transposed) =
            (self.prepared.dataset.clone(), self.prepared.scale.clone(), gather.transposed);
        compute.work(
            step,
            Box::new(move || {
                let graph = &dataset.graph;
                let neighbours = if transposed { graph.outgoing() } else { graph.incoming() };
                gather_symmetric(neighbours, &scale, input.view(), rows, &mut output.view_mut());
            }),
        );
        Ok(())
    }
}

/// Who runs steps.
pub(crate) trait Machine: Executor + Compute {}
impl<T: Executor + Compute> Machine for T {}

/// Counts of one run.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    /// Tasks handed out, attempts included.
    pub tasks: u64,
    /// Engines started: what keeps the answers of one from counting in the next.
    passes: u32,
    /// Answers of a pass that was over.
    pub late: u64,
    /// Tasks under way that a stop ended.
    pub cancelled: u64,
}

/// What a seed's training needs besides its stages.
pub(crate) struct Training<'a> {
    pub stages: Stages<'a>,
    pub evaluation: Stages<'a>,
    pub evaluator: &'a mut Engine,
    pub optimiser: &'a Optimiser,
    pub stop: &'a AtomicBool,
}

/// What [`Training::run`] found.
#[derive(Debug, Default)]
pub(crate) struct Trained {
    pub epochs: Vec<EpochReport>,
    pub stopped: bool,
}

/// Sends one event and runs what follows until the engine has finished; `other` gets the actions
/// that are not steps and answers with events.
struct Loop<'m, M: ?Sized> {
    machine: &'m mut M,
    actions: Vec<Action>,
    done: Vec<Completion>,
    /// Answers that came in messages, until the engine has said which count.
    apart: BTreeMap<TaskKey, Box<Answer>>,
    /// Where tasks can be cancelled: checked while waiting.
    stop: Option<&'m AtomicBool>,
}

/// How long to wait for completions before looking whether to stop.
const LOOK: Duration = Duration::from_millis(50);

impl<'m, M: Machine + ?Sized> Loop<'m, M> {
    fn new(machine: &'m mut M, stop: Option<&'m AtomicBool>) -> Self {
        let stop = stop.filter(|_| machine.is_apart());
        Self { machine, actions: Vec::new(), done: Vec::new(), apart: BTreeMap::new(), stop }
    }

    #[allow(clippy::too_many_arguments)]
    fn run(
        &mut self,
        engine: &mut Engine,
        stages: &Stages<'_>,
        weights: &mut Weights,
        counts: &mut Counts,
        observer: &mut dyn Observer,
        mut other: impl FnMut(
            &mut M,
            &mut Weights,
            &mut Counts,
            &mut dyn Observer,
            Action,
        ) -> Result<Option<Event>>,
    ) -> Result<Reason> {
        let mut failure: Option<Error> = None;
        counts.passes += 1;
        let pass = counts.passes;
        self.actions.extend(engine.step(Event::Started));
        loop {
            let mut next = 0;
            while let Some(&action) = self.actions.get(next) {
                next += 1;
                match action {
                    Action::Gather(step) => match stages.stage(step)? {
                        Stage::Gather(gather) => stages.gather(step, gather, self.machine)?,
                        Stage::Tensor(_) => return Err(Error::Internal(format!("{step} is no gather"))),
                    },
                    Action::Submit(task) | Action::Retry(task) | Action::Relaunch(task) => {
                        counts.tasks += 1;
                        let deadline = engine.deadline_us(task.stage).map(Duration::from_micros);
                        self.machine.submit(stages.order(task, weights, pass, deadline)?);
                    }
                    Action::Commit(key) => {
                        // Nothing waits where the only attempt alive has written in place.
                        if let Some(answer) = self.apart.remove(&key) {
                            let finished = stages.commit(key, *answer, weights)?;
                            log(stages, observer, key, finished);
                        }
                    }
                    Action::Finished { reason, .. } => {
                        self.actions.clear();
                        return match (reason, failure) {
                            (Reason::Failed { .. }, Some(error)) => Err(error),
                            (reason, _) => Ok(reason),
                        };
                    }
                    action => {
                        if let Some(event) = other(self.machine, weights, counts, observer, action)? {
                            self.actions.extend(engine.step(event));
                        }
                    }
                }
            }
            self.actions.clear();
            // What was not committed came too late.
            self.apart.clear();
            self.machine.drain(&mut self.done, self.stop.map(|_| LOOK));
            if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                counts.cancelled += self.machine.cancel();
                // Answered, but no longer of use: the epoch will not be whole.
                let answered = |c: &Completion| matches!(c, Completion::Task { result: Ok(_), .. });
                // Everything reports or is gone before another pass begins: steps have the same names there.
                loop {
                    counts.late += self.done.drain(..).filter(answered).count() as u64;
                    self.machine.drain(&mut self.done, None);
                    if self.done.is_empty() {
                        break;
                    }
                }
                self.stop = None;
                self.actions.extend(engine.step(Event::Cancelled));
                continue;
            }
            if self.done.is_empty() && self.stop.is_none() {
                return Err(Error::Internal("nothing is under way, and the run is not finished".to_owned()));
            }
            for completion in self.done.drain(..) {
                let event = match completion {
                    Completion::Work { step, failure: None } => Event::Gathered(step),
                    Completion::Work { step, failure: Some(text) } => {
                        return Err(Error::Internal(format!("{step}: the gather panicked: {text}")));
                    }
                    Completion::Task { pass: of, .. } | Completion::Overdue { pass: of, .. }
                        if of != pass =>
                    {
                        counts.late += 1;
                        continue;
                    }
                    Completion::Overdue { key, .. } => Event::Overdue(key),
                    Completion::Task { key, took, result: Ok(answered), .. } => {
                        match answered {
                            Answered::InPlace(finished) => log(stages, observer, key, finished),
                            Answered::Apart(answer) => {
                                self.apart.insert(key, answer);
                            }
                        }
                        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                        Event::Completed { key, took_us }
                    }
                    Completion::Task { key, result: Err(source), .. } => {
                        let retryable = source.is_retryable();
                        failure = Some(Error::Step { step: key.to_string(), source: Box::new(source) });
                        Event::Failed { key, retryable }
                    }
                };
                self.actions.extend(engine.step(event));
            }
        }
    }
}

fn log(stages: &Stages<'_>, observer: &mut dyn Observer, key: TaskKey, finished: Finished) {
    for line in finished.log {
        let operation = stages.program.operation(key.stage);
        observer.log(operation.map_or("", |o| &o.kernel), &line);
    }
}

impl Training<'_> {
    /// Trains one seed from the values that `weights` has.
    pub(crate) fn run<M: Machine + ?Sized>(
        &mut self,
        machine: &mut M,
        engine: &mut Engine,
        weights: &mut Weights,
        counts: &mut Counts,
        observer: &mut dyn Observer,
    ) -> Result<Trained> {
        let mut trained = Trained::default();
        let mut begun = Instant::now();
        let mut report: Option<EpochReport> = None;
        let mut billed: Option<Bill> = machine.bill();
        let (seed, stop) = (self.stages.seed, self.stop);
        let (evaluation, evaluator, optimiser) = (&self.evaluation, &mut *self.evaluator, self.optimiser);
        let mut work = Loop::new(machine, Some(stop));
        let reason = work.run(
            engine,
            &self.stages,
            weights,
            counts,
            observer,
            |machine, weights, counts, observer, action| match action {
                Action::Update { epoch } => {
                    weights.step(optimiser)?;
                    let seconds = begun.elapsed().as_secs_f64();
                    let loss = weights.loss()?;
                    if !loss.is_finite() {
                        return Err(Error::NotFinite { epoch: epoch.0, loss });
                    }
                    report =
                        Some(EpochReport { seed, epoch: epoch.0, loss, accuracy: None, seconds, bill: None });
                    Ok(Some(Event::Updated { epoch }))
                }
                Action::Evaluate { epoch } => {
                    let found =
                        evaluate(machine, evaluator, evaluation, weights, counts, observer, epoch, stop)?;
                    if let Some(report) = &mut report {
                        report.accuracy = Some(found);
                    }
                    Ok(Some(Event::Evaluated { epoch }))
                }
                Action::EpochFinished { .. } => {
                    if let Some(mut report) = report.take() {
                        if let (Some(now), Some(before)) = (machine.bill(), &mut billed) {
                            report.bill = Some(now.since(&std::mem::replace(before, now)));
                        }
                        observer.epoch(&report);
                        trained.epochs.push(report);
                    }
                    let stopping = stop.load(Ordering::Relaxed) && !trained.stopped;
                    trained.stopped |= stopping;
                    begun = Instant::now();
                    Ok(stopping.then_some(Event::StopRequested))
                }
                other => Err(Error::Internal(format!("unexpected {other:?}"))),
            },
        )?;
        trained.stopped = matches!(reason, Reason::Stopped);
        Ok(trained)
    }
}

/// Runs the evaluation program once; the class scores lie in its slot afterwards.
#[allow(clippy::too_many_arguments)]
pub(crate) fn forward<M: Machine + ?Sized>(
    machine: &mut M,
    engine: &mut Engine,
    stages: &Stages<'_>,
    weights: &mut Weights,
    counts: &mut Counts,
    observer: &mut dyn Observer,
    epoch: Epoch,
    stop: Option<&AtomicBool>,
) -> Result<()> {
    engine.restart(epoch, epoch, Version(u64::from(epoch.0)));
    let mut work = Loop::new(machine, stop);
    let reason = work.run(engine, stages, weights, counts, observer, |_, _, _, _, action| match action {
        Action::Update { epoch } => Ok(Some(Event::Updated { epoch })),
        Action::Evaluate { epoch } => Ok(Some(Event::Evaluated { epoch })),
        _ => Ok(None),
    })?;
    if reason == Reason::Stopped && stop.is_some() {
        // Cancelled: tasks run on this machine now.
        return forward(machine, engine, stages, weights, counts, observer, epoch, None);
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn evaluate<M: Machine + ?Sized>(
    machine: &mut M,
    engine: &mut Engine,
    stages: &Stages<'_>,
    weights: &mut Weights,
    counts: &mut Counts,
    observer: &mut dyn Observer,
    epoch: Epoch,
    stop: &AtomicBool,
) -> Result<Accuracy> {
    forward(machine, engine, stages, weights, counts, observer, epoch, Some(stop))?;
    scores_accuracy(stages)
}

/// Accuracies of the scores that the evaluation program left.
pub(crate) fn scores_accuracy(stages: &Stages<'_>) -> Result<Accuracy> {
    let slot = stages.program.scores.ok_or_else(|| Error::Internal("no scores".to_owned()))?;
    let buffer = stages.slots.buffer(slot)?;
    let lease = buffer.read(0..buffer.rows()).map_err(at("scores"))?;
    let view = lease.view();
    let dataset = &stages.prepared.dataset;
    let of = |ids: &[u32]| {
        let found = || accuracy(view.data(), view.stride(), view.columns(), &dataset.labels, ids);
        (!ids.is_empty()).then(found)
    };
    let split = &dataset.split;
    Ok(Accuracy { train: of(&split.train), validation: of(&split.validation), test: of(&split.test) })
}
