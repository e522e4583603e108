//! Operators on their way: what a stage's step does, one file an operator.
//!
//! An operator takes leases of the rows that its step reads and writes and gives back work for a thread or
//! a function. `eciton_plan::op` has the same operators' stages, under the same names. A new one is a file
//! there, a file here, its arithmetic, and a line in [`HOST`].

mod attention;
mod batch_norm;
mod edges;
mod gather;
mod kernel;
mod links;
mod moments;
mod pair_norm;

use std::ops::Range;
use std::sync::Arc;

use eciton_exec::{KernelWork, Work};
use eciton_graph::gather::{Rows, Sources};
use eciton_kernel::wire::Answer;
use eciton_kernel::{AnyCall, Finished, Layer, Target};
use eciton_plan::{IntervalId, Operation, Program, Round, Scope, SlotId, Stage, Step, Task, op};
use eciton_tensor::{Matrix, ReadRows, WriteRows};

use super::rows::{Lease, WriteLease};
use super::stages::Stages;
use crate::data::Interval;
use crate::error::{Error, Result, at};
use crate::relation::Lists;
use crate::weights::Weights;

/// One kind of operation, opened for a program.
pub(crate) trait Operator: std::fmt::Debug {
    /// The work of one step. Its leases last as long as it does.
    ///
    /// # Errors
    /// [`Error::Internal`] where rows are not there, or another step has them.
    fn work(&self, on: &On<'_>) -> Result<Work>;
}

type Open = fn(&Operation) -> Result<Box<dyn Operator>>;

/// The host's operators, by name.
const HOST: [(&str, Open); 5] = [
    (op::gather::NAME, gather::open),
    (op::attention::NAME, attention::open),
    (op::batch_norm::NAME, batch_norm::open),
    (op::links::NAME, links::open),
    (op::pair_norm::NAME, pair_norm::open),
];

/// Opens a program's operations; `layers` are its kernels.
pub(super) fn open(program: &Program, layers: &[Option<Arc<Layer>>]) -> Result<Vec<Box<dyn Operator>>> {
    let mut opened: Vec<Box<dyn Operator>> = Vec::with_capacity(program.operations.len());
    for (operation, layer) in program.operations.iter().zip(layers) {
        opened.push(match (layer, operation.along) {
            (Some(_), Some(along)) => edges::open(operation, along),
            (Some(_), None) => Box::new(kernel::Kernel),
            (None, _) => {
                let known = HOST.iter().find(|(name, _)| *name == operation.kernel);
                let (_, open) = known.ok_or_else(|| unknown(operation))?;
                open(operation)?
            }
        });
    }
    Ok(opened)
}

fn unknown(operation: &Operation) -> Error {
    Error::Internal(format!("operator `{}` of layer {} is not known", operation.kernel, operation.layer))
}

/// A step, and what its work is made from.
pub(crate) struct On<'a> {
    pub stages: &'a Stages<'a>,
    pub stage: &'a Stage,
    pub pass: u32,
    pub task: Task,
    /// How many rounds older than the step the rows are that it reads of each interval; `None`: none is.
    pub ages: Option<&'a [u8]>,
    pub weights: &'a Weights,
}

/// Rows of all intervals, in pieces.
type Pieces = Vec<(Range<usize>, Lease)>;

impl On<'_> {
    fn step(&self) -> Step {
        self.task.step()
    }

    fn at(&self) -> (Round, IntervalId) {
        (self.task.round, self.task.interval)
    }

    /// The round from 0, as random numbers count.
    fn round(&self) -> u32 {
        self.task.round.0.saturating_sub(1)
    }

    fn interval(&self) -> Result<&Interval> {
        self.stages.interval(self.stage.domain, self.task.interval)
    }

    pub(super) fn rows(&self) -> Result<Range<usize>> {
        Ok(self.interval()?.rows.clone())
    }

    /// The lists that the stage follows.
    fn lists(&self) -> Result<Lists> {
        let relation = self.stages.program.relation(self.task.stage);
        let relation =
            relation.ok_or_else(|| Error::Internal(format!("{} follows no lists", self.step())))?;
        self.stages.inputs.lists(*relation)
    }

    /// The slot that the stage reads as number `at` of a scope.
    fn slot(&self, scope: Scope, at: usize) -> Result<SlotId> {
        let mut slots = self.stage.reads.iter().filter(|read| read.scope == scope);
        let found = slots.nth(at).map(|read| read.slot);
        found.ok_or_else(|| Error::Internal(format!("{} reads no slot {at}, {scope:?}", self.step())))
    }

    /// Rows of all intervals, of the stage's first such slot.
    fn all(&self) -> Result<Pieces> {
        self.stages.rows.read_all(self.slot(Scope::All, 0)?, self.task.round, self.ages)
    }

    /// How many rows there are in all of the stage's first slot that it reads all rows of.
    fn count(&self) -> Result<usize> {
        let program = self.stages.program;
        Ok(program.rows(program.domain_of(self.slot(Scope::All, 0)?)) as usize)
    }

    /// The interval's rows of the stage's own slot number `at`, as f32.
    fn own(&self, at: usize) -> Result<ReadRows> {
        let (round, interval) = self.at();
        self.stages.rows.read_f32(self.slot(Scope::Own, at)?, round, interval)
    }

    /// The interval's rows of a slot.
    fn read(&self, slot: SlotId) -> Result<Matrix> {
        self.stages.read(slot, self.step())
    }

    /// The slot that the stage writes as number `at`; `None` where nobody reads it.
    fn written(&self, at: usize) -> Option<SlotId> {
        self.stage.writes.get(at).copied().flatten()
    }

    /// The interval's rows to write, of the slot that the stage writes as number `at`.
    fn write(&self, at: usize) -> Result<WriteLease> {
        let slot = self.written(at);
        let slot = slot.ok_or_else(|| Error::Internal(format!("{} writes no slot {at}", self.step())))?;
        let (round, interval) = self.at();
        self.stages.rows.write(slot, round, interval)
    }

    /// [`On::write`] of a slot that is stored as f32.
    fn write_f32(&self, at: usize) -> Result<WriteRows> {
        match self.write(at)? {
            WriteLease::F32(lease) => Ok(lease),
            WriteLease::Bf16(_) => {
                Err(Error::Internal(format!("slot {at} of {} is not stored as f32", self.step())))
            }
        }
    }

    /// Where a kernel writes its rows.
    fn targets(&self) -> Result<Vec<Option<Target>>> {
        let write = |slot: &Option<SlotId>| slot.map(|s| self.stages.write(s, self.step())).transpose();
        self.stage.writes.iter().map(write).collect()
    }

    /// Where a kernel writes its sums: gradients of parameters, then the loss.
    fn sums(&self) -> Result<Vec<Target>> {
        let (round, interval) = self.at();
        let parameters = &self.stages.program.parameters;
        let mut sums = Vec::with_capacity(self.stage.sums.len() + 1);
        for id in &self.stage.sums {
            let parts = self.weights.gradient(id.index(), round, interval);
            let shape = parameters.get(id.index()).map_or_else(Vec::new, |p| p.shape.clone());
            sums.push(Target::Sums { parts, shape });
        }
        if self.stages.program.loss == Some(self.task.stage) {
            let parts = self.weights.loss_parts(round, interval);
            sums.push(Target::Sums { parts, shape: vec![1] });
        }
        Ok(sums)
    }

    /// The work of a step without rows: its sums are zero.
    pub(super) fn nothing(&self) -> Result<Work> {
        let mut parts = Vec::new();
        for sum in self.sums()? {
            if let Target::Sums { parts: of, .. } = sum {
                parts.extend(whole(&of)?);
            }
        }
        host(move || {
            for part in &mut parts {
                let mut part = part.view_mut();
                (0..part.rows()).for_each(|row| part.row_mut(row).fill(0.0));
            }
            Ok(())
        })
    }

    /// Puts an answer that came in a message where a kernel would have written.
    pub(super) fn commit(&self, answer: Answer) -> Result<Finished> {
        let put = answer.into_targets(self.targets()?, self.sums()?);
        put.map_err(|source| Error::Step { step: self.task.key().to_string(), source: Box::new(source) })
    }

    /// A kernel's work: a call, and which of its inputs are the same in every round.
    fn kernel(&self, call: AnyCall, constant_inputs: Vec<(usize, SlotId)>) -> Result<Work> {
        Ok(Work::Kernel(KernelWork {
            operation: self.stage.operation,
            generation: self.weights.generation(self.task.weights)?,
            layer: self.stages.layer(self.stage.operation)?.clone(),
            call,
            constant_inputs,
            place: self.stage.place,
        }))
    }

    /// The values of a kernel's parameters.
    fn parameters(&self) -> Result<Vec<Matrix>> {
        let operation = self.stages.operation(self.stage.operation)?;
        operation.parameters.iter().map(|p| self.weights.matrix(p.index(), self.task.weights)).collect()
    }
}

/// Work of the host without a kernel.
fn host(work: impl FnOnce() -> std::result::Result<(), String> + Send + 'static) -> Result<Work> {
    Ok(Work::Host(Box::new(work)))
}

/// Calls `f` with rows of all intervals, `count` in all.
fn with_sources<T>(
    pieces: &Pieces,
    count: usize,
    f: impl FnOnce(Sources<'_>) -> T,
) -> std::result::Result<T, String> {
    let parts: Vec<(Range<usize>, Rows<'_>)> =
        pieces.iter().map(|(rows, lease)| (rows.clone(), lease.rows())).collect();
    Ok(f(Sources::pieces(count, &parts).map_err(|error| error.to_string())?))
}

/// Parts of a sum, to write.
fn whole(parts: &[eciton_tensor::Buffer]) -> Result<Vec<WriteRows>> {
    let whole = |part: &eciton_tensor::Buffer| part.write(0..part.rows());
    parts.iter().map(whole).collect::<std::result::Result<_, _>>().map_err(at("sums"))
}
