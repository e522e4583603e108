//! The stages of one program on their way: what jobs are made from.
//!
//! A step leases the rows that it reads and writes, so two steps that would touch the same rows are
//! refused rather than torn.

use std::sync::Arc;
use std::time::Duration;

use eciton_exec::{Job, KernelWork, Work};
use eciton_graph::adjacency::Graph;
use eciton_graph::dataset::Dataset;
use eciton_graph::gather::{EdgeWeights, Gather as Sums, Reduce, Sources};
use eciton_graph::graphs::Graphs;
use eciton_kernel::wire::Answer;
use eciton_kernel::{Call, Finished, Kind, Labelled, Layer, Target};
use eciton_plan::{
    Buffers, Direction, Gather, IntervalId, Normalisation, Operation, OperationId, Over, Place, Program,
    RowFormat, Scope, SlotId, Stage, StageId, Step, Task, TaskKey, Tensor,
};
use eciton_tensor::Matrix;

use super::batch_norm::BatchNorms;
use super::rows::{RowStore, WriteLease};
use crate::data::{Interval, Prepared};
use crate::error::{Error, Result, at};
use crate::weights::Weights;

/// One program on its way: what jobs are made from.
pub(crate) struct Stages<'a> {
    pub program: &'a Program,
    pub prepared: &'a Prepared,
    pub rows: &'a RowStore,
    pub layers: &'a [Arc<Layer>],
    pub training: bool,
    pub seed: u64,
    pub batch_norms: BatchNorms,
}

impl Stages<'_> {
    pub(super) fn stage(&self, step: Step) -> Result<&Stage> {
        self.program.stage(step.stage).ok_or_else(|| Error::Internal(format!("{step}: no such stage")))
    }

    pub(super) fn layer(&self, operation: OperationId) -> Result<&Arc<Layer>> {
        self.layers
            .get(operation.index())
            .ok_or_else(|| Error::Internal(format!("operation {operation} is not open")))
    }

    /// The rows of a step's interval and epoch in a slot, to read.
    pub(super) fn read(&self, slot: SlotId, step: Step) -> Result<Matrix> {
        let extents = self.program.slots.get(slot.index()).map_or(&[][..], |s| &s.extents);
        let matrix = match self.prepared.constant(self.program, slot) {
            Some(all) => {
                let rows = &self.interval(step.interval)?.rows;
                all.slice_rows(rows.start, rows.len()).map_err(at("rows to read"))?
            }
            None => self.rows.read(slot, step.round, step.interval)?,
        };
        matrix.with_extents(extents).map_err(at("rows to read"))
    }

    pub(super) fn write(&self, slot: SlotId, step: Step) -> Result<Target> {
        let extents = self.program.slots.get(slot.index()).map_or_else(Vec::new, |s| s.extents.clone());
        Ok(match self.rows.write(slot, step.round, step.interval)? {
            WriteLease::F32(rows) => Target::Rows { rows, extents },
            WriteLease::Bf16(rows) => Target::Half { rows, extents },
        })
    }

    pub(super) fn interval(&self, id: IntervalId) -> Result<&Interval> {
        let interval = self.prepared.intervals.get(id.index());
        interval.ok_or_else(|| Error::Internal(format!("no interval {id}")))
    }

    pub(super) fn operation(&self, id: OperationId) -> Result<&Operation> {
        let operation = self.program.operations.get(id.index());
        operation.ok_or_else(|| Error::Internal(format!("no operation {id}")))
    }

    /// Where a step sums up the gradients of an operation's parameters.
    pub(super) fn gradients(
        &self,
        step: Step,
        operation: OperationId,
        weights: &Weights,
    ) -> Result<Vec<Target>> {
        let operation = self.operation(operation)?;
        let each = operation.parameters.iter().zip(&operation.signature.parameters);
        let sums = each.map(|(p, spec)| {
            let parts = weights.gradient(p.index(), step.round, step.interval);
            Target::Sums { parts, shape: spec.shape.clone() }
        });
        Ok(sums.collect())
    }

    /// Where a task writes: rows, then sums.
    fn targets(
        &self,
        step: Step,
        tensor: &Tensor,
        weights: &Weights,
    ) -> Result<(Vec<Option<Target>>, Vec<Target>)> {
        if tensor.direction == Direction::Forward {
            let all = tensor.outputs.iter().chain(&tensor.kept);
            return Ok((all.map(|&s| self.write(s, step).map(Some)).collect::<Result<_>>()?, Vec::new()));
        }
        let write = |s: &Option<SlotId>| s.map(|s| self.write(s, step)).transpose();
        let mut sums = self.gradients(step, tensor.operation, weights)?;
        if tensor.direction == Direction::Loss {
            let parts = weights.loss_parts(step.round, step.interval);
            sums.push(Target::Sums { parts, shape: vec![1] });
        }
        Ok((tensor.input_gradients.iter().map(write).collect::<Result<_>>()?, sums))
    }

    fn call(&self, task: &Task, tensor: &Tensor, weights: &Weights) -> Result<Call> {
        let step = task.step();
        let interval = self.interval(step.interval)?;
        let operation = self.operation(tensor.operation)?;
        let read = |slots: &[SlotId]| slots.iter().map(|&s| self.read(s, step)).collect::<Result<Vec<_>>>();
        let parameters = operation.parameters.iter().map(|p| weights.matrix(p.index(), task.weights));
        let parameters = parameters.collect::<Result<Vec<_>>>()?;
        let kind = match tensor.direction {
            Direction::Forward => Kind::Forward,
            Direction::Loss => Kind::Loss,
            _ => Kind::Backward,
        };
        let (rows_out, sums_out) = self.targets(step, tensor, weights)?;
        let labelled = (kind == Kind::Loss).then(|| Labelled {
            targets: interval.targets.clone(),
            rows: interval.training.clone(),
            weight: self.prepared.weight,
        });
        let backward = kind == Kind::Backward;
        Ok(Call {
            kind,
            seed: self.seed,
            // The engine counts from 1, random numbers from 0.
            epoch: task.round.0.saturating_sub(1),
            layer: operation.draw,
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

    /// A tensor step.
    fn tensor(&self, task: Task, tensor: &Tensor, weights: &Weights) -> Result<Work> {
        let constant = |slot: &SlotId| self.prepared.constant(self.program, *slot).is_some();
        let inputs = tensor.inputs.iter().copied().enumerate();
        Ok(Work::Kernel(KernelWork {
            operation: tensor.operation,
            generation: weights.generation(task.weights)?,
            layer: self.layer(tensor.operation)?.clone(),
            call: self.call(&task, tensor, weights)?.into(),
            constant_inputs: inputs.filter(|(_, slot)| constant(slot)).collect(),
            place: self.program.place(task.stage),
        }))
    }

    /// An attempt as executors take it, in a pass. `ages`: by interval, how many rounds old the rows
    /// are that it reads of all intervals.
    pub(super) fn job(
        &self,
        pass: u32,
        task: Task,
        ages: Option<&[u8]>,
        weights: &Weights,
        deadline: Option<Duration>,
    ) -> Result<Job> {
        let step = task.step();
        let work = match self.stage(step)? {
            Stage::Gather(gather) => self.gather(step, gather, ages)?,
            Stage::Attend(attend) => self.attend(step, attend, ages)?,
            Stage::BatchNorm(batch) => self.batch_norm((pass, step), batch, ages)?,
            Stage::Pairs(pairs) => self.pairs(step, pairs, ages, weights)?,
            Stage::Edges(edges) => self.edges(task, edges, ages, weights)?,
            Stage::Tensor(tensor) => self.tensor(task, tensor, weights)?,
        };
        Ok(Job { pass, task, work, deadline })
    }

    /// Puts an answer that came in a message where its task would have written.
    pub(super) fn commit(&self, key: TaskKey, answer: Answer, weights: &Weights) -> Result<Finished> {
        let step = key.step();
        let (rows_out, sums_out) = match self.stage(step)? {
            Stage::Tensor(tensor) => self.targets(step, tensor, weights)?,
            Stage::Edges(edges) => self.edge_targets(step, edges, weights)?,
            _ => return Err(Error::Internal(format!("{step} is not a kernel's"))),
        };
        answer
            .into_targets(rows_out, sums_out)
            .map_err(|source| Error::Step { step: key.to_string(), source: Box::new(source) })
    }

    /// Whether attempts at a stage are tasks, which a function may do.
    pub(super) fn is_task(&self, stage: StageId) -> bool {
        self.program.place(stage) == Place::Anywhere
    }

    /// How many rows each interval has.
    pub(super) fn rows_by_interval(&self) -> impl Iterator<Item = usize> {
        self.prepared.intervals.iter().map(|interval| interval.rows.len())
    }

    /// Bytes of the rows that a step reads and writes.
    pub(super) fn bytes(&self, step: Step) -> (u64, u64) {
        stage_bytes(self.program, self.prepared, self.rows.format, (step.stage, step.interval))
    }

    /// What a step has written is whole, and counts from now on.
    pub(super) fn publish(&self, step: Step) -> Result<()> {
        let mut slots = self.stage(step)?.writes();
        slots.try_for_each(|slot| self.rows.publish(slot, step.round, step.interval))
    }

    /// Gathers for a step, from rows that are so many epochs old as `ages` says, by interval.
    fn gather(&self, step: Step, gather: &Gather, ages: Option<&[u8]>) -> Result<Work> {
        let rows = self.interval(step.interval)?.rows.clone();
        let pieces = self.rows.read_all(gather.input, step.round, ages)?;
        let output = self.rows.write(gather.output, step.round, step.interval)?;
        let Gather { normalisation, transposed, over, .. } = *gather;
        let (dataset, factors) = (self.prepared.dataset.clone(), self.prepared.factors(normalisation, over)?);
        let labelled = self.prepared.labelled.clone().filter(|_| self.training);
        let edges = self.prepared.edges.clone();
        let work = move || {
            let graph = lists(&dataset, over).ok_or("the data set is one graph")?;
            let all = || if transposed { graph.outgoing() } else { graph.incoming() };
            let few = labelled.as_ref().filter(|lists| lists.concern(step.stage));
            let weights = edges.weights.as_ref().filter(|_| over == Over::Neighbours);
            let weights = || weights.map(|weights| &weights.along(transposed)[..]);
            let (neighbours, weights) = match few {
                Some(few) if transposed => few.transposed(),
                _ => (all(), weights()),
            };
            let parts: Vec<_> = pieces.iter().map(|(rows, lease)| (rows.clone(), lease.rows())).collect();
            let count = graph.vertices() as usize;
            let sources = Sources::pieces(count, &parts).map_err(|error| error.to_string())?;
            let mut sums = match (normalisation, transposed) {
                (Normalisation::Symmetric, _) => {
                    let weights = EdgeWeights::Symmetric(&factors);
                    Sums::new(neighbours, Reduce::Sum).weighted(weights).with_self()
                }
                (Normalisation::Mean, false) => Sums::new(neighbours, Reduce::Mean),
                // Each target's share of the gradient, then the sum over targets.
                (Normalisation::Mean, true) => Sums::new(neighbours, Reduce::Sum).with_source_scale(&factors),
                (Normalisation::Sum, _) => Sums::new(neighbours, Reduce::Sum),
            };
            if let Some(values) = weights {
                sums = sums.weighted(EdgeWeights::Values(values, None));
            }
            if let Some(few) = few.filter(|_| !transposed) {
                sums = sums.of_rows(few.wanted());
            }
            match output {
                WriteLease::F32(mut to) => sums.run(sources, rows, &mut to.view_mut()),
                WriteLease::Bf16(mut to) => {
                    sums.run_half(sources, rows, &mut to.view_mut()).map_err(|error| error.to_string())?
                }
            }
            Ok(())
        };
        Ok(Work::Host(Box::new(work)))
    }
}

/// The lists that a stage follows; `None` for those of graphs where there are none.
pub(crate) fn lists(dataset: &Dataset, over: Over) -> Option<&Graph> {
    match over {
        Over::Neighbours => Some(&dataset.graph),
        Over::Graphs => dataset.graphs.as_ref().map(Graphs::lists),
    }
}

/// Bytes of the rows that a stage reads and writes on an interval; features that are sparse count as they
/// are stored, on average, and what a gather reads once.
pub(crate) fn stage_bytes(
    program: &Program,
    prepared: &Prepared,
    format: RowFormat,
    (stage, interval): (StageId, IntervalId),
) -> (u64, u64) {
    let Some(stage) = program.stage(stage) else { return (0, 0) };
    let all = u64::from(program.shape.rows);
    let own = prepared.intervals.get(interval.index()).map_or(0, |i| i.rows.len() as u64);
    let row = |slot: SlotId| {
        let width = program.slots.get(slot.index()).map_or(0, |spec| u64::from(spec.width));
        // What will be gathered counts as what it is gathered of.
        let constant = slot == program.features || Some(slot) == program.gathered;
        match prepared.constant(program, slot).unwrap_or(&prepared.features) {
            Matrix::Sparse(s) if constant => s.data.stored() as u64 * 8 / all.max(1),
            _ => width * u64::from(Buffers::format(program, slot, format).value_bytes()),
        }
    };
    let read = |(slot, scope)| row(slot) * if scope == Scope::All { all } else { own };
    (stage.reads().map(read).sum(), stage.writes().map(|slot| row(slot) * own).sum())
}
