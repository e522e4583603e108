//! The stages of one program on their way: what tasks and gathers are made from.
//!
//! Rows live in one buffer a slot; a step leases the rows that it reads and writes, so two steps that
//! would touch the same rows are refused rather than torn.

use std::sync::Arc;
use std::time::Duration;

use eciton_exec::{Compute, Order};
use eciton_graph::gather::gather_symmetric;
use eciton_kernel::wire::Answer;
use eciton_kernel::{Call, Finished, Kind, Labelled, Layer, Target};
use eciton_plan::{
    Buffers, Direction, Gather, IntervalId, Normalisation, Operation, OperationId, Program, SlotId, Stage,
    Step, Task, TaskKey, Tensor,
};
use eciton_tensor::{Buffer, Matrix};

use crate::data::{Interval, Prepared};
use crate::error::{Error, Result, at};
use crate::weights::Weights;

/// Buffers for the slots of one program.
#[derive(Debug)]
pub(crate) struct Slots {
    buffers: Vec<Option<Buffer>>,
}

impl Slots {
    /// Slots that are never needed at the same time share a buffer. Buffers of `others`, programs that
    /// run at other times, are used again.
    pub(crate) fn new(program: &Program, intervals: u32, others: &[&Self]) -> Result<Self> {
        let assigned = Buffers::assign(program, intervals);
        let mut known: Vec<Buffer> = Vec::new();
        for buffer in others.iter().flat_map(|slots| slots.buffers.iter().flatten()) {
            if !known.iter().any(|k| k.is_same(buffer)) {
                known.push(buffer.clone());
            }
        }
        let rows = program.shape.rows as usize;
        let made = assigned.widths().iter().map(|&width| {
            let width = width as usize;
            match known.iter().position(|k| k.columns() == width && k.rows() == rows) {
                Some(found) => Ok(known.swap_remove(found)),
                None => Buffer::zeroed(rows, width).map_err(at("row buffers")),
            }
        });
        let made = made.collect::<Result<Vec<_>>>()?;
        let of = |slot: usize| {
            let buffer = assigned.of(SlotId(u16::try_from(slot).ok()?))?;
            made.get(buffer.index()).cloned()
        };
        Ok(Self { buffers: (0..program.slots.len()).map(of).collect() })
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
    pub(super) fn stage(&self, step: Step) -> Result<&Stage> {
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
            row_numbers: interval.numbers.clone(),
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
    pub(super) fn order(
        &self,
        task: Task,
        weights: &Weights,
        pass: u32,
        deadline: Option<Duration>,
    ) -> Result<Order> {
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
    pub(super) fn commit(&self, key: TaskKey, answer: Answer, weights: &Weights) -> Result<Finished> {
        let Stage::Tensor(tensor) = self.stage(key.step())? else {
            return Err(Error::Internal(format!("{} is no task", key.step())));
        };
        let (rows_out, sums_out) = self.targets(key.interval, tensor, weights)?;
        answer
            .into_targets(rows_out, sums_out)
            .map_err(|source| Error::Step { step: key.to_string(), source: Box::new(source) })
    }

    pub(super) fn gather(
        &self,
        step: Step,
        gather: &Gather,
        compute: &mut (impl Compute + ?Sized),
    ) -> Result<()> {
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
