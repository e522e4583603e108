//! Spans: several calls and gathers as one task, whose intermediate rows stay where it runs.
//!
//! A span is data: steps in order, local slots for rows between them, and matrices for rows that come from
//! outside. The same span gives the same bits in any process, and those of its steps one by one.

use std::sync::Arc;

use eciton_graph::adjacency::{Adjacency, Graph};
use eciton_graph::gather::{EdgeWeights, Gather, Reduce, Sources};
use eciton_plan::{Normalisation, ParameterId, TensorKey};
use eciton_tensor::half::HalfBuffer;
use eciton_tensor::{Buffer, Matrix, WriteRows};

use crate::call::{Call, Target};
use crate::error::{Error, Result};
use crate::instance::{Finished, Instances};
use crate::runtime::Layer;

/// Several steps in order, with rows of their own.
#[derive(Debug, Default)]
pub struct SpanCall {
    /// Matrices from outside that steps read, each once.
    pub given: Vec<Given>,
    /// Rows that steps leave for later ones.
    pub slots: Vec<Local>,
    /// What is done, in order.
    pub steps: Vec<SpanStep>,
    /// Slots whose rows leave the span, and where they go.
    pub outs: Vec<(u32, Target)>,
    /// Slots whose rows stay with the worker that does the span, for a later one there.
    pub keeps: Vec<(u32, Kept)>,
    /// Which of `given` are which of the program's parameters.
    pub parameters: Vec<(u32, ParameterId)>,
    /// Kept rows that nobody reads after this span.
    pub frees: Vec<TensorKey>,
    /// Sums that the worker keeps: index in [`SpanCall::sums`], and the use of a parameter whose
    /// gradient it is. Their targets have no parts.
    pub holds: Vec<(u32, ParameterId)>,
}

/// A matrix from outside.
#[derive(Debug)]
pub enum Given {
    /// It is here.
    Here(Matrix),
    /// It stayed with the worker.
    Kept(Kept),
}

/// Rows that a worker keeps between spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Their address, the same in both spans.
    pub key: TensorKey,
    /// Rows.
    pub rows: usize,
    /// Extents of one row.
    pub extents: Vec<u32>,
    /// Places of workers that they are sent to; none: they stay.
    pub to: Vec<u32>,
}

/// Rows that a span makes for itself: zeros until a step writes them.
#[derive(Debug)]
pub struct Local {
    /// Rows.
    pub rows: usize,
    /// Values a row.
    pub columns: usize,
    /// Whether they are rounded to bfloat16.
    pub half: bool,
    /// The first values, where they come from outside: of as many rows.
    pub from: Option<Matrix>,
}

/// One step of a span.
#[derive(Debug)]
pub enum SpanStep {
    /// A call of a vertex kernel.
    Kernel(Box<KernelStep>),
    /// A gather over lists that the span brings along.
    Gather(GatherStep),
}

/// Rows that a step reads.
#[derive(Debug)]
pub enum Operand {
    /// From outside: its place in [`SpanCall::given`].
    Given(u32),
    /// The first `rows` rows of a local slot.
    Local {
        /// Its place in [`SpanCall::slots`].
        slot: u32,
        /// Rows.
        rows: usize,
        /// Extents of one row.
        extents: Vec<u32>,
    },
}

/// A call of a vertex kernel whose rows may be local.
#[derive(Debug)]
pub struct KernelStep {
    /// The kernel, opened.
    pub layer: Arc<Layer>,
    /// The call without matrices and rows to write: these are beside it.
    pub call: Call,
    /// [`Call::parameters`]: places in [`SpanCall::given`].
    pub parameters: Vec<u32>,
    /// [`Call::inputs`]
    pub inputs: Vec<Operand>,
    /// [`Call::outputs`]
    pub outputs: Vec<Operand>,
    /// [`Call::kept`]
    pub kept: Vec<Operand>,
    /// [`Call::gradients`]
    pub gradients: Vec<Operand>,
    /// [`Call::rows_out`]: local slots, with the extents of one row.
    pub writes: Vec<Option<(u32, Vec<u32>)>>,
}

/// A gather from one local slot to another.
#[derive(Debug)]
pub struct GatherStep {
    /// Weights of edges.
    pub normalisation: Normalisation,
    /// Whether it is the gradient of a gather.
    pub reversed: bool,
    /// Lists of as many vertices as there are source rows.
    pub lists: Arc<SpanLists>,
    /// The slot that it reads: the first rows, as many as lists have vertices.
    pub from: u32,
    /// The slot that it writes: the first `rows` rows.
    pub into: u32,
    /// Rows to write.
    pub rows: usize,
}

/// What a gather follows. One direction of a graph, in the order of its lists.
#[derive(Debug)]
pub struct SpanLists {
    /// The graph.
    pub graph: Arc<Graph>,
    /// Whether its out-lists are followed, not its in-lists.
    pub outgoing: bool,
    /// A factor of each vertex: `1 / sqrt(degree + 1)` or `1 / degree`; none for sums.
    pub factors: Option<Arc<Vec<f32>>>,
    /// A weight of each edge.
    pub weights: Option<Arc<Vec<f32>>>,
}

impl SpanCall {
    /// Sums of all steps, in order.
    pub fn sums(&self) -> impl Iterator<Item = &Target> {
        self.kernels().flat_map(|kernel| &kernel.call.sums_out)
    }

    /// Its calls of kernels, in order.
    pub fn kernels(&self) -> impl Iterator<Item = &KernelStep> {
        self.steps.iter().filter_map(|step| match step {
            SpanStep::Kernel(kernel) => Some(&**kernel),
            SpanStep::Gather(_) => None,
        })
    }

    /// By slot, the last step that touches it; slots that leave the span last beyond all steps.
    fn last_uses(&self) -> Vec<usize> {
        let mut last = vec![0; self.slots.len()];
        for (at, step) in self.steps.iter().enumerate() {
            step.slots(|slot| {
                if let Some(last) = last.get_mut(slot as usize) {
                    *last = at;
                }
            });
        }
        for (slot, _) in &self.outs {
            if let Some(last) = last.get_mut(*slot as usize) {
                *last = usize::MAX;
            }
        }
        last
    }
}

impl SpanStep {
    /// Calls `see` with every slot that it touches.
    fn slots(&self, mut see: impl FnMut(u32)) {
        match self {
            Self::Gather(gather) => [gather.from, gather.into].into_iter().for_each(see),
            Self::Kernel(kernel) => {
                for operand in kernel.operands() {
                    if let Operand::Local { slot, .. } = operand {
                        see(*slot);
                    }
                }
                kernel.writes.iter().flatten().for_each(|(slot, _)| see(*slot));
            }
        }
    }
}

impl KernelStep {
    /// All rows that it reads.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.inputs.iter().chain(&self.outputs).chain(&self.kept).chain(&self.gradients)
    }
}

/// A slot's memory.
#[derive(Debug)]
enum Stored {
    F32(Buffer),
    Half(HalfBuffer),
}

const PLACE: &str = "a span";

fn tensor(source: eciton_tensor::Error) -> Error {
    Error::Tensor { place: PLACE.to_owned(), source }
}

fn no_slot(slot: u32) -> Error {
    Error::Wire { place: PLACE.to_owned(), reason: format!("slot {slot} is not there") }
}

/// Slots on their way: made when a step touches them first, let go of after the last.
struct Slots<'a> {
    given: &'a [Given],
    specs: &'a mut [Local],
    made: Vec<Option<Stored>>,
}

impl Slots<'_> {
    fn get(&mut self, slot: u32) -> Result<&Stored> {
        let at = slot as usize;
        let (spec, place) = self.specs.get_mut(at).zip(self.made.get_mut(at)).ok_or_else(|| no_slot(slot))?;
        if place.is_none() {
            *place = Some(Stored::new(spec)?);
        }
        place.as_ref().ok_or_else(|| no_slot(slot))
    }

    fn matrix(&mut self, operand: Operand) -> Result<Matrix> {
        match operand {
            Operand::Given(at) => self.given(at),
            Operand::Local { slot, rows, extents } => {
                let matrix: Matrix = match self.get(slot)? {
                    Stored::F32(buffer) => buffer.read(0..rows).map_err(tensor)?.into(),
                    Stored::Half(buffer) => buffer.read(0..rows).map_err(tensor)?.into(),
                };
                matrix.with_extents(&extents).map_err(tensor)
            }
        }
    }

    fn given(&self, at: u32) -> Result<Matrix> {
        let refuse = |reason| Err(Error::Wire { place: PLACE.to_owned(), reason });
        match self.given.get(at as usize) {
            Some(Given::Here(matrix)) => Ok(matrix.clone()),
            Some(Given::Kept(kept)) => refuse(format!("{} are a worker's", kept.key)),
            None => refuse(format!("matrix {at} is not there")),
        }
    }

    fn matrices(&mut self, operands: Vec<Operand>) -> Result<Vec<Matrix>> {
        operands.into_iter().map(|operand| self.matrix(operand)).collect()
    }

    fn target(&mut self, (slot, extents): (u32, Vec<u32>), rows: usize) -> Result<Target> {
        Ok(match self.get(slot)? {
            Stored::F32(buffer) => Target::Rows { rows: buffer.write(0..rows).map_err(tensor)?, extents },
            Stored::Half(buffer) => Target::Half { rows: buffer.write(0..rows).map_err(tensor)?, extents },
        })
    }

    /// The step's call, whole.
    fn call(&mut self, step: KernelStep) -> Result<(Arc<Layer>, Call)> {
        let KernelStep { layer, mut call, parameters, inputs, outputs, kept, gradients, writes } = step;
        let rows = call.grid.rows();
        call.parameters = parameters.into_iter().map(|at| self.given(at)).collect::<Result<_>>()?;
        call.inputs = self.matrices(inputs)?;
        call.outputs = self.matrices(outputs)?;
        call.kept = self.matrices(kept)?;
        call.gradients = self.matrices(gradients)?;
        let target = |write: Option<(u32, Vec<u32>)>| write.map(|write| self.target(write, rows)).transpose();
        call.rows_out = writes.into_iter().map(target).collect::<Result<_>>()?;
        Ok((layer, call))
    }

    fn gather(&mut self, step: &GatherStep) -> Result<()> {
        let lists = step.lists.adjacency();
        let count = lists.vertices() as usize;
        let sums = step.sums()?;
        // A slot's rows are leased, so that both may be held at once.
        let from = self.matrix_rows(step.from, count)?;
        let sources: Sources<'_> = match &from {
            Leased::F32(lease) => lease.view().into(),
            Leased::Half(lease) => lease.view().into(),
        };
        match self.get(step.into)? {
            Stored::F32(buffer) => {
                let mut to = buffer.write(0..step.rows).map_err(tensor)?;
                sums.run(sources, 0..step.rows, &mut to.view_mut());
            }
            Stored::Half(buffer) => {
                let mut to = buffer.write(0..step.rows).map_err(tensor)?;
                sums.run_half(sources, 0..step.rows, &mut to.view_mut()).map_err(tensor)?;
            }
        }
        Ok(())
    }

    fn matrix_rows(&mut self, slot: u32, rows: usize) -> Result<Leased> {
        Ok(match self.get(slot)? {
            Stored::F32(buffer) => Leased::F32(buffer.read(0..rows).map_err(tensor)?),
            Stored::Half(buffer) => Leased::Half(buffer.read(0..rows).map_err(tensor)?),
        })
    }

    /// Copies a slot's rows to where they leave the span.
    fn put(&mut self, slot: u32, target: Target) -> Result<()> {
        match (self.get(slot)?, target) {
            (Stored::F32(from), Target::Rows { mut rows, .. }) => {
                let from = from.read(0..rows.view().rows()).map_err(tensor)?;
                copy(&from, &mut rows);
                Ok(())
            }
            (Stored::F32(from), Target::Half { mut rows, .. }) => {
                let from = from.read(0..rows.len()).map_err(tensor)?;
                rows.view_mut().round_from(from.view()).map_err(tensor)
            }
            (Stored::Half(from), Target::Half { mut rows, .. }) => {
                let from = from.read(0..rows.len()).map_err(tensor)?;
                let (from, mut to) = (from.view(), rows.view_mut());
                (0..from.rows()).for_each(|row| to.row_mut(row).copy_from_slice(from.row(row)));
                Ok(())
            }
            (Stored::Half(from), Target::Rows { mut rows, .. }) => {
                let from = from.read(0..rows.view().rows()).map_err(tensor)?;
                from.view().widen_to(&mut rows.view_mut()).map_err(tensor)
            }
            (_, Target::Sums { .. }) => {
                let reason = format!("slot {slot} leaves it as a sum");
                Err(Error::Wire { place: PLACE.to_owned(), reason })
            }
        }
    }
}

fn copy(from: &eciton_tensor::ReadRows, to: &mut WriteRows) {
    let (from, mut to) = (from.view(), to.view_mut());
    (0..from.rows()).for_each(|row| to.row_mut(row).copy_from_slice(from.row(row)));
}

/// Rows to read.
enum Leased {
    F32(eciton_tensor::ReadRows),
    Half(eciton_tensor::half::ReadHalf),
}

impl Stored {
    fn new(spec: &mut Local) -> Result<Self> {
        let wide = || Buffer::zeroed(spec.rows, spec.columns).map_err(tensor);
        let Some(from) = spec.from.take() else {
            return Ok(match spec.half {
                false => Self::F32(wide()?),
                true => Self::Half(HalfBuffer::zeroed(spec.rows, spec.columns).map_err(tensor)?),
            });
        };
        let mut values = Vec::new();
        from.read_rows(0, spec.rows, None, &mut values).map_err(tensor)?;
        Ok(match spec.half {
            false => Self::F32(Buffer::from_rows(spec.rows, spec.columns, &values).map_err(tensor)?),
            true => Self::Half(HalfBuffer::from_rows(spec.rows, spec.columns, &values).map_err(tensor)?),
        })
    }
}

impl SpanLists {
    /// For each row the rows that its sum is made from.
    pub(crate) fn adjacency(&self) -> &Adjacency {
        if self.outgoing { self.graph.outgoing() } else { self.graph.incoming() }
    }
}

impl GatherStep {
    fn sums(&self) -> Result<Gather<'_>> {
        let lists = self.lists.adjacency();
        let factors = || {
            let reason = format!("a gather of normalisation {} has no factors", self.normalisation.name());
            let missing = Error::Wire { place: PLACE.to_owned(), reason };
            self.lists.factors.as_deref().ok_or(missing)
        };
        let sums = match (self.normalisation, self.reversed) {
            (Normalisation::Symmetric, _) => {
                Gather::new(lists, Reduce::Sum).weighted(EdgeWeights::Symmetric(factors()?)).with_self()
            }
            (Normalisation::Mean, false) => Gather::new(lists, Reduce::Mean),
            // Each target's share of the gradient, then the sum over targets.
            (Normalisation::Mean, true) => Gather::new(lists, Reduce::Sum).with_source_scale(factors()?),
            (Normalisation::Sum, _) => Gather::new(lists, Reduce::Sum),
        };
        Ok(match &self.lists.weights {
            None => sums,
            Some(values) => sums.weighted(EdgeWeights::Values(values, None)),
        })
    }
}

impl Instances {
    /// Runs a span's steps one after the other.
    pub(crate) fn run_span(&mut self, span: SpanCall) -> Result<Finished> {
        let last = span.last_uses();
        let SpanCall { given, slots: mut specs, steps, outs, keeps, parameters: _, frees: _, holds } = span;
        if let Some((slot, kept)) = keeps.first() {
            let reason = format!("slot {slot} is to stay as {}, and this is no worker", kept.key);
            return Err(Error::Wire { place: PLACE.to_owned(), reason });
        }
        if let Some((sum, of)) = holds.first() {
            let reason = format!("sum {sum} of weight {of} is to stay, and this is no worker");
            return Err(Error::Wire { place: PLACE.to_owned(), reason });
        }
        let made = specs.iter().map(|_| None).collect();
        let mut slots = Slots { given: &given, specs: &mut specs, made };
        let mut all = Finished::default();
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                SpanStep::Gather(gather) => slots.gather(&gather)?,
                SpanStep::Kernel(step) => {
                    let (layer, call) = slots.call(*step)?;
                    all.add(self.run(&layer, call)?);
                }
            }
            for (place, _) in slots.made.iter_mut().zip(&last).filter(|(_, last)| **last == at) {
                *place = None;
            }
        }
        for (slot, target) in outs {
            slots.put(slot, target)?;
        }
        Ok(all)
    }
}

impl Finished {
    /// With what a further call left.
    fn add(&mut self, other: Self) {
        self.log.extend(other.log);
        self.guest_memory_bytes = self.guest_memory_bytes.max(other.guest_memory_bytes);
        self.copied_bytes += other.copied_bytes;
        self.peak = self.peak.max(other.peak);
    }
}
