//! Operators as the driver uses them: the trait [`Operator`], and [`On`], which describes the step
//! that an operator creates work for.
//!
//! An operator takes leases of the rows that its step reads and writes. It returns work for a
//! compute thread or a cloud function.

use std::ops::Range;
use std::sync::Arc;

use eciton_exec::Work;
use eciton_gather::{Rows, Sources};
use eciton_graph::order::Permutation;
use eciton_kernel::wire::Answer;
use eciton_kernel::{Finished, Target};
use eciton_program::{Domain, Operation, Over, Scope, Stage};
use eciton_tensor::{Matrix, ReadRows, WriteRows};
use eciton_types::{IntervalId, Normalisation, Round, SlotId, StageId, Step, Task};

use super::rows::{Lease, WriteLease};
use super::span::Building;
use super::stages::Stages;
use crate::batch::{Part, PartLists};
use crate::data::Interval;
use crate::error::{Error, Result, at};
use crate::relation::Lists;
use crate::weights::Weights;

/// An operator of a program on the host. It creates the work of each step, which a thread, cloud
/// function or worker then runs.
pub(crate) trait Operator: std::fmt::Debug {
    /// Creates the work of the step `on`. The work holds leases of the rows that it reads and
    /// writes until it ends.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if rows are missing, or if another step has leased them.
    fn work(&self, on: &On<'_>) -> Result<Work>;

    /// Returns the new values of the operator's statistics after the update of `round`, with their
    /// numbers among the parameters. `values` returns the values before. Only norms with running moments
    /// have statistics.
    ///
    /// # Errors
    /// Returns the errors of `values`.
    fn updated(
        &self,
        _round: Round,
        _values: &dyn Fn(usize) -> Result<Vec<f32>>,
    ) -> Result<Vec<(usize, Vec<f32>)>> {
        Ok(Vec::new())
    }

    /// Adds the step `on` to a call, which is the content of one task. Kernels support this, and so
    /// do gathers that may be part of a fused stage.
    ///
    /// # Errors
    /// Returns the errors of [`Operator::work`], and [`Error::Internal`] if the operator cannot be
    /// part of a call.
    fn inside(&self, on: &On<'_>, _call: &mut Building) -> Result<()> {
        Err(Error::Internal(format!("the operator of {} cannot be inside a call", on.stage.name)))
    }
}

/// Returns the error for an operation whose operator is not known.
pub(super) fn unknown(operation: &Operation) -> Error {
    Error::Internal(format!("operator `{}` of layer {} is unknown", operation.kernel, operation.layer))
}

/// One stage of a step on one interval in one round, with the data from which an operator creates
/// the work.
pub(crate) struct On<'a> {
    pub stages: &'a Stages<'a>,
    pub stage: &'a Stage,
    /// Index of the stage in the program. If stages are fused, the stage in `task` is another
    /// index, because it refers to the schedule.
    pub id: StageId,
    pub pass: u32,
    pub task: Task,
    /// Age in rounds of each interval's rows that the step reads. If `None`, all rows are of the
    /// step's own round.
    pub ages: Option<&'a [u8]>,
    pub weights: &'a Weights,
    /// Micro-batch of the step, with the loss weight of each of its training rows. If `None`, the
    /// step runs on rows of the data set.
    pub part: Option<(Arc<Part>, f32)>,
}

/// Vertex numbers in the data set, by row.
#[derive(Debug, Clone)]
pub(super) enum Numbers {
    /// Row order of the run, which maps each row to its vertex.
    Order(Arc<Permutation>),
    /// Vertex number of each row of a micro-batch.
    List(Arc<[u32]>),
}

impl Numbers {
    /// Returns the vertex number of each row.
    pub(super) fn of_rows(&self) -> &[u32] {
        match self {
            Self::Order(order) => order.old_of_new(),
            Self::List(list) => list,
        }
    }
}

/// Leases of the rows of all intervals, with the row range of each. Each lease covers a contiguous
/// range.
pub(super) type Pieces = Vec<(Range<usize>, Lease)>;

impl On<'_> {
    /// Returns the round, the stage and the interval of the task.
    pub(super) fn step(&self) -> Step {
        self.task.step()
    }

    /// Returns the round and the interval of the task.
    pub(super) fn at(&self) -> (Round, IntervalId) {
        (self.task.round, self.task.interval)
    }

    /// Returns the index of the round, counted from 0, which the keys of random numbers contain.
    /// Rounds are counted from 1.
    pub(super) fn round(&self) -> u32 {
        self.task.round.0.saturating_sub(1)
    }

    /// Returns the number of gathers between the rows that this stage writes and the loss.
    pub(super) fn hops(&self) -> usize {
        self.stages.hops().stage(self.id)
    }

    /// Returns the interval of the step. For a micro-batch, it has the rows that this stage
    /// computes.
    pub(super) fn interval(&self) -> Result<&Interval> {
        match &self.part {
            None => self.stages.interval(self.stage.domain, self.task.interval),
            Some((part, _)) => {
                let interval = part.interval(self.stage.domain, self.hops());
                interval.ok_or_else(|| Error::Internal(format!("the batch of {} has no rows", self.step())))
            }
        }
    }

    /// Returns the row ranges of the atoms of the step's interval, in the domain of the first slot that
    /// the stage reads with scope `Own`. They are indices within the interval.
    pub(super) fn atoms(&self) -> Result<Vec<Range<usize>>> {
        let domain = self.stages.program.domain_of(self.slot(Scope::Own, 0)?);
        match &self.part {
            None => Ok(self.stages.interval(domain, self.task.interval)?.atoms()),
            Some((part, _)) => {
                let interval = part.interval(domain, self.hops());
                let missing = || Error::Internal(format!("the batch of {} has no rows", self.step()));
                Ok(interval.ok_or_else(missing)?.atoms())
            }
        }
    }

    /// Returns the weight of each training row in the loss that this stage computes.
    pub(super) fn weight(&self) -> f32 {
        let of_rows = self.part.as_ref().map_or(self.stages.inputs.weight, |(_, weight)| *weight);
        let program = self.stages.program;
        let loss = program.loss_of(self.id).and_then(|loss| program.losses.get(loss));
        loss.map_or(of_rows, |loss| loss.weight * of_rows)
    }

    /// Returns the row range of the step's interval.
    pub(super) fn rows(&self) -> Result<Range<usize>> {
        Ok(self.interval()?.rows.clone())
    }

    /// Returns all rows of a constant slot, such as the features. Returns `None` for a slot that
    /// stages write.
    pub(super) fn constant(&self, slot: SlotId) -> Option<&Matrix> {
        match &self.part {
            None => self.stages.inputs.constant(self.stages.program, slot),
            Some((part, _)) => part.constant(self.stages.program, slot),
        }
    }

    /// Returns the vertex number in the data set of each row. If `None`, row v is vertex v.
    pub(super) fn vertices(&self) -> Option<Numbers> {
        match &self.part {
            None => {
                let inputs = self.stages.inputs;
                let numbers = inputs.numbers().map(Numbers::List);
                numbers.or_else(|| inputs.vertices.permutation().map(Numbers::Order))
            }
            Some((part, _)) => Some(Numbers::List(part.vertices.clone())),
        }
    }

    /// Returns the neighbour lists that this stage reads in the micro-batch `part`. The backward
    /// stage of a gather reads the same lists as its forward stage.
    pub(super) fn part_lists(&self, part: &Part) -> Result<Arc<PartLists>> {
        let reversed = self.stages.program.relation(self.id).is_some_and(|lists| lists.reversed);
        let level = part.level(self.hops().saturating_sub(usize::from(reversed)));
        let lists = level.map(|level| level.lists.clone());
        lists.ok_or_else(|| Error::Internal(format!("the batch of {} has no lists", self.step())))
    }

    /// Returns the neighbour lists that this stage reads, which belong to the data set or to the
    /// step's micro-batch.
    pub(super) fn lists(&self) -> Result<Lists> {
        let relation = self.stages.program.relation(self.id);
        let relation =
            relation.ok_or_else(|| Error::Internal(format!("{} has no adjacency lists", self.step())))?;
        let Some((part, _)) = &self.part else { return self.stages.inputs.lists(*relation) };
        let readout = part.read_out.as_ref().map(|read_out| read_out.readout.clone());
        let lists = Lists::of_part(*relation, self.part_lists(part)?, readout);
        lists.ok_or_else(|| Error::Internal(format!("a micro-batch has no adjacency lists of {relation:?}")))
    }

    /// Returns the normalisation factor of each row for sums over neighbours or in a readout. A plain
    /// sum uses no factors, so its result has no meaning.
    pub(super) fn factors(&self, normalisation: Normalisation, over: Over) -> Result<Arc<Vec<f32>>> {
        let Some((part, _)) = &self.part else { return self.stages.inputs.factors(normalisation, over) };
        if let (Over::Graphs, Normalisation::Mean, Some(graphs)) = (over, normalisation, &part.read_out) {
            return Ok(graphs.inverse.clone());
        }
        let lists = self.part_lists(part)?;
        Ok(if normalisation == Normalisation::Mean { lists.inverse.clone() } else { lists.scale.clone() })
    }

    /// Writes zeros to the rows that later stages read and that this stage does not compute. Only
    /// micro-batches have such rows.
    pub(super) fn clear(&self) -> Result<()> {
        let Some((part, _)) = &self.part else { return Ok(()) };
        let (domain, (round, interval)) = (self.stage.domain, self.at());
        let own = part.rows(domain, self.hops());
        for slot in self.stage.writes() {
            let rows = part.rows(domain, self.stages.hops().slot(slot));
            if rows > own {
                self.stages.rows.clear(slot, round, interval, own..rows)?;
            }
        }
        Ok(())
    }

    /// Returns the slot at index `at` among those that the stage reads with `scope`. The scope is
    /// the step's own interval or all intervals.
    pub(super) fn slot(&self, scope: Scope, at: usize) -> Result<SlotId> {
        let mut slots = self.stage.reads.iter().filter(|read| read.scope == scope);
        let found = slots.nth(at).map(|read| read.slot);
        found.ok_or_else(|| Error::Internal(format!("{} does not read slot {at}, {scope:?}", self.step())))
    }

    /// Leases for reading the rows of all intervals of the first slot that is read with scope
    /// `All`. For a micro-batch, they are the rows of this micro-batch.
    pub(super) fn all(&self) -> Result<Pieces> {
        let slot = self.slot(Scope::All, 0)?;
        if self.part.is_none() {
            return self.stages.rows.read_all(slot, self.task.round, self.ages);
        }
        let count = self.count()?;
        let (round, interval) = self.at();
        if let Some(constant) = self.constant(slot) {
            return Err(Error::Internal(format!("{constant:?} cannot be gathered in {}", self.step())));
        }
        Ok(vec![(0..count, self.stages.rows.lease(slot, round, interval, Some(count))?)])
    }

    /// Returns the total number of rows that [`On::all`] leases.
    pub(super) fn count(&self) -> Result<usize> {
        let program = self.stages.program;
        let domain = program.domain_of(self.slot(Scope::All, 0)?);
        let Some((part, _)) = &self.part else { return Ok(program.rows(domain) as usize) };
        match program.relation(self.id).map(|relation| relation.over) {
            // The lists have one row for each of their vertices.
            Some(Over::Neighbours | Over::Graphs) if domain == Domain::VERTICES => {
                Ok(self.part_lists(part)?.graph.vertices() as usize)
            }
            _ => Ok(part.rows(domain, self.hops())),
        }
    }

    /// Leases for reading the interval's rows of a slot, which must be stored as f32. `at` is the
    /// slot's index among those that the stage reads with scope `Own`.
    pub(super) fn own(&self, at: usize) -> Result<ReadRows> {
        let (round, interval) = self.at();
        let slot = self.slot(Scope::Own, at)?;
        let domain = self.stages.program.domain_of(slot);
        let first = self.part.as_ref().map(|(part, _)| part.rows(domain, self.hops()));
        match self.stages.rows.lease(slot, round, interval, first)? {
            Lease::F32(lease) => Ok(lease),
            Lease::Bf16(_) => Err(Error::Internal(format!("slot {slot} is not stored as f32"))),
        }
    }

    /// Returns the number of rows that this stage computes in a micro-batch. They are the first
    /// rows of its slots. Returns `None` if the step is not on a micro-batch.
    pub(super) fn first(&self) -> Result<Option<usize>> {
        match &self.part {
            None => Ok(None),
            Some(_) => Ok(Some(self.rows()?.len())),
        }
    }

    /// Returns the interval's rows of a slot, as a matrix with the extents of the slot.
    pub(super) fn read(&self, slot: SlotId) -> Result<Matrix> {
        let extents = self.stages.extents(slot);
        let (round, interval) = self.at();
        let matrix = match self.constant(slot) {
            Some(all) => {
                let rows = self.rows()?;
                let first = if self.part.is_none() { self.stages.inputs.first_feature() } else { 0 };
                all.slice_rows(rows.start - first, rows.len()).map_err(at("rows to read"))?
            }
            None => self.stages.rows.lease(slot, round, interval, self.first()?)?.into(),
        };
        matrix.with_extents(&extents).map_err(at("rows to read"))
    }

    /// Returns the slot that the stage writes as its output `at`. Returns `None` if no stage reads
    /// this output.
    pub(super) fn written(&self, at: usize) -> Option<SlotId> {
        self.stage.writes.get(at).copied().flatten()
    }

    /// Leases for writing the interval's rows of the stage's output `at`.
    pub(super) fn write(&self, at: usize) -> Result<WriteLease> {
        let slot = self.written(at);
        let slot = slot.ok_or_else(|| Error::Internal(format!("{} has no output {at}", self.step())))?;
        self.write_slot(slot)
    }

    /// Leases for writing the interval's rows of a slot.
    pub(super) fn write_slot(&self, slot: SlotId) -> Result<WriteLease> {
        let (round, interval) = self.at();
        self.stages.rows.write(slot, round, interval, self.first()?)
    }

    /// Leases for writing the interval's rows of the stage's output `at`, like [`On::write`]. Fails
    /// if they are not stored as f32.
    pub(super) fn write_f32(&self, at: usize) -> Result<WriteRows> {
        match self.write(at)? {
            WriteLease::F32(lease) => Ok(lease),
            WriteLease::Bf16(_) => {
                Err(Error::Internal(format!("slot {at} of {} is not stored as f32", self.step())))
            }
        }
    }

    /// Returns each slot that the stage writes, with the target that a kernel writes the interval's
    /// rows to.
    pub(super) fn targets(&self) -> Result<Vec<(SlotId, Target)>> {
        let target = |slot| Ok((slot, self.write_slot(slot)?.target(self.stages.extents(slot))));
        self.stage.writes().map(target).collect()
    }

    /// Returns the targets that a kernel writes its sums to. These are the gradients of parameters,
    /// followed by the loss if this stage computes it.
    pub(super) fn sums(&self) -> Result<Vec<Target>> {
        let (round, interval) = self.at();
        let program = self.stages.program;
        let mut sums = Vec::with_capacity(self.stage.sums.len() + 1);
        for id in &self.stage.sums {
            // The list of buffers is empty if a worker adds up the gradient.
            let parts = self.weights.gradient(id.index(), round, interval)?;
            let shape = program.parameter(*id).map_or_else(Vec::new, |p| p.shape.clone());
            sums.push(Target::Sums { parts, shape });
        }
        if let Some(loss) = program.loss_of(self.id) {
            let parts = self.weights.loss_parts(loss, round, interval);
            sums.push(Target::Sums { parts, shape: vec![1] });
        }
        Ok(sums)
    }

    /// Creates the work of a step whose interval has no rows, which sets the step's sums to zero.
    pub(super) fn nothing(&self) -> Result<Work> {
        nothing(self.sums()?)
    }

    /// Stores an answer from a worker or function in the rows and sums of the step.
    pub(super) fn commit(&self, answer: Answer) -> Result<Finished> {
        put(answer, self.task, self.targets()?, self.sums()?)
    }
}

/// Creates work of the host that sets sums to zero, for steps without rows.
pub(super) fn nothing(sums: Vec<Target>) -> Result<Work> {
    let mut parts = Vec::new();
    for sum in sums {
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

/// Stores an answer from a worker or function in the given rows and sums of a task. Fails if the
/// answer does not fit them.
pub(super) fn put(
    answer: Answer,
    task: Task,
    rows: Vec<(SlotId, Target)>,
    mut sums: Vec<Target>,
) -> Result<Finished> {
    // Sums without buffers on the host stay on the worker.
    sums.retain(|sum| !matches!(sum, Target::Sums { parts, .. } if parts.is_empty()));
    let put = answer.into_targets(rows.into_iter().map(|(_, target)| target).collect(), sums);
    put.map_err(|source| Error::Step { step: task.key().to_string(), source: Box::new(source) })
}

/// Returns work that runs a closure on a thread of the host.
pub(super) fn host(work: impl FnOnce() -> std::result::Result<(), String> + Send + 'static) -> Result<Work> {
    Ok(Work::Host(Box::new(work)))
}

/// Calls `f` with the rows of all pieces, as the sources of a gather. `count` is the total number
/// of rows.
pub(super) fn with_sources<T>(
    pieces: &Pieces,
    count: usize,
    f: impl FnOnce(Sources<'_>) -> T,
) -> std::result::Result<T, String> {
    let parts: Vec<(Range<usize>, Rows<'_>)> =
        pieces.iter().map(|(rows, lease)| (rows.clone(), lease.rows())).collect();
    Ok(f(Sources::pieces(count, &parts).map_err(|error| error.to_string())?))
}

/// Leases for writing all partial sums of one gradient or loss.
pub(super) fn whole(parts: &[eciton_tensor::Buffer]) -> Result<Vec<WriteRows>> {
    let whole = |part: &eciton_tensor::Buffer| part.write(0..part.rows());
    parts.iter().map(whole).collect::<std::result::Result<_, _>>().map_err(at("sums"))
}
