//! Calls: what is done at one location without talking to another.
//!
//! A call is data: steps in order, slots for rows between them, and matrices that come from outside. A
//! step calls a vertex kernel or an edge kernel, or gathers rows. The same call gives the same bits in any
//! process, and those of its steps one by one.

use std::convert::Infallible;
use std::sync::Arc;

use eciton_gather::adjacency::{Adjacency, Graph};
use eciton_tensor::half::{HalfBuffer, WriteHalf};
use eciton_tensor::{Buffer, Grid, Matrix, WriteRows};
use eciton_types::{Location, Normalisation, ParameterId, TensorKey};

use crate::edges::EdgeCall;
use crate::error::Result;
use crate::runtime::{Kernel, Layer};

/// Which function of the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `forward`
    Forward,
    /// `backward`
    Backward,
    /// `loss`
    Loss,
}

impl Kind {
    /// The function's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Loss => "loss",
        }
    }
}

/// Several steps in order, with rows of their own.
#[derive(Debug, Default)]
pub struct Call {
    /// Matrices from outside that steps read, each once.
    pub given: Vec<Given>,
    /// Rows that steps leave for later ones.
    pub slots: Vec<Local>,
    /// Steps, in order.
    pub steps: Vec<CallStep>,
    /// Slots whose rows leave the call, and where they go. One step writes each.
    pub outs: Vec<(u32, Target)>,
    /// Slots whose rows stay with the worker that makes the call, for a later one there.
    pub keeps: Vec<(u32, Kept)>,
    /// Places in `given` of the program's parameters.
    pub parameters: Vec<(u32, ParameterId)>,
    /// Kept rows that nobody reads after this call.
    pub frees: Vec<TensorKey>,
    /// Sums that the worker keeps: index in [`Call::sums`], and the use of a parameter whose gradient it
    /// is. Their targets have no parts.
    pub holds: Vec<(u32, ParameterId)>,
    /// True if the answer has a digest of each slot's rows that stay.
    pub digests: bool,
}

/// A matrix from outside.
#[derive(Debug)]
pub enum Given {
    /// It is here.
    Here(Matrix),
    /// It stayed with the worker.
    Kept(Kept),
}

/// Rows that a worker keeps between calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Their address, the same in both calls.
    pub key: TensorKey,
    /// Rows.
    pub rows: usize,
    /// Extents of one row.
    pub extents: Vec<u32>,
    /// Workers that they are sent to. If there is none, they stay.
    pub to: Vec<Location>,
}

/// Rows that a call makes for itself: zeros until a step writes them.
#[derive(Debug)]
pub struct Local {
    /// Rows.
    pub rows: usize,
    /// Values a row.
    pub columns: usize,
    /// True if they are rounded to bfloat16.
    pub half: bool,
    /// The first values, where they come from outside: of as many rows.
    pub from: Option<Matrix>,
}

/// One step of a call.
#[derive(Debug)]
pub enum CallStep {
    /// A vertex kernel's.
    Vertex(Arc<Layer>, Box<VertexCall<Operand, Write>>),
    /// An edge kernel's.
    Edges(Arc<Layer>, Box<EdgeCall<Operand, Write>>),
    /// A gather over lists that the call brings along.
    Gather(GatherStep),
}

/// Rows that a step reads.
#[derive(Debug)]
pub enum Operand {
    /// From outside: its place in [`Call::given`].
    Given(u32),
    /// The first `rows` rows of a local slot.
    Local {
        /// Its place in [`Call::slots`].
        slot: u32,
        /// Rows.
        rows: usize,
        /// Extents of one row.
        extents: Vec<u32>,
    },
}

impl Operand {
    /// Returns the place in [`Call::given`] of rows from outside.
    #[must_use]
    pub fn given(&self) -> Option<usize> {
        match self {
            Self::Given(at) => Some(*at as usize),
            Self::Local { .. } => None,
        }
    }
}

/// Rows that a step writes: the first ones of a local slot.
#[derive(Debug)]
pub struct Write {
    /// Its place in [`Call::slots`].
    pub slot: u32,
    /// Extents of one row.
    pub extents: Vec<u32>,
}

/// A gather from one local slot to another.
#[derive(Debug)]
pub struct GatherStep {
    /// Weights of edges.
    pub normalisation: Normalisation,
    /// True if it is the gradient of a gather.
    pub reversed: bool,
    /// Lists of as many vertices as there are source rows.
    pub lists: Arc<GatherLists>,
    /// The slot that it reads: the first rows, as many as lists have vertices.
    pub from: u32,
    /// The slot that it writes: the first `rows` rows.
    pub into: u32,
    /// Rows to write.
    pub rows: usize,
}

/// What a gather follows. One direction of a graph, in the order of its lists.
#[derive(Debug)]
pub struct GatherLists {
    /// The graph.
    pub graph: Arc<Graph>,
    /// True if its out-lists are followed, not its in-lists.
    pub outgoing: bool,
    /// A factor of each vertex: `1 / sqrt(degree + 1)` or `1 / degree`; none for sums.
    pub factors: Option<Arc<Vec<f32>>>,
    /// A weight of each edge.
    pub weights: Option<Arc<Vec<f32>>>,
}

impl Call {
    /// Creates a call whose only step is one of a vertex kernel.
    #[must_use]
    pub fn vertex(layer: &Arc<Layer>, call: VertexCall) -> Self {
        let mut made = Self::default();
        let Ok(step) = call.with(&mut made, Self::give, Self::leave);
        made.steps.push(CallStep::Vertex(layer.clone(), Box::new(step)));
        made
    }

    /// Creates a call whose only step is one of an edge kernel.
    #[must_use]
    pub fn edges(layer: &Arc<Layer>, call: EdgeCall) -> Self {
        let mut made = Self::default();
        let Ok(step) = call.with(&mut made, Self::give, Self::leave);
        made.steps.push(CallStep::Edges(layer.clone(), Box::new(step)));
        made
    }

    fn give(&mut self, matrix: Matrix) -> Result<Operand, Infallible> {
        self.given.push(Given::Here(matrix));
        Ok(Operand::Given(self.given.len() as u32 - 1))
    }

    fn leave(&mut self, target: Target, _: usize) -> Result<Write, Infallible> {
        let (rows, columns) = target.shape();
        let (half, extents) = (matches!(target, Target::Half { .. }), target.extents().to_vec());
        let slot = self.slots.len() as u32;
        self.slots.push(Local { rows, columns, half, from: None });
        self.outs.push((slot, target));
        Ok(Write { slot, extents })
    }

    /// Returns a matrix from outside that is here.
    #[must_use]
    pub fn matrix(&self, given: usize) -> Option<&Matrix> {
        match self.given.get(given) {
            Some(Given::Here(matrix)) => Some(matrix),
            _ => None,
        }
    }

    /// Returns the call's step if it has one only, of a vertex kernel.
    #[must_use]
    pub fn only_vertex(&self) -> Option<(&Arc<Layer>, &VertexCall<Operand, Write>)> {
        match &self.steps[..] {
            [CallStep::Vertex(layer, step)] => Some((layer, step)),
            _ => None,
        }
    }

    /// The layers of its kernels, in order.
    pub fn layers(&self) -> impl Iterator<Item = &Arc<Layer>> {
        self.steps.iter().filter_map(|step| match step {
            CallStep::Vertex(layer, _) | CallStep::Edges(layer, _) => Some(layer),
            CallStep::Gather(_) => None,
        })
    }

    /// Sums of all steps, in order.
    pub fn sums(&self) -> impl Iterator<Item = &Target> {
        self.steps.iter().flat_map(|step| match step {
            CallStep::Vertex(_, step) => &step.sums_out[..],
            CallStep::Edges(_, step) => &step.sums_out,
            CallStep::Gather(_) => &[],
        })
    }
}

impl CallStep {
    /// Calls `see` with every slot that it touches.
    pub(crate) fn slots(&self, mut see: impl FnMut(u32)) {
        let mut read = |operand: &Operand| match operand {
            Operand::Local { slot, .. } => see(*slot),
            Operand::Given(_) => {}
        };
        let written = match self {
            Self::Gather(gather) => return [gather.from, gather.into].into_iter().for_each(see),
            Self::Vertex(_, step) => {
                step.operands().for_each(&mut read);
                &step.rows_out
            }
            Self::Edges(_, step) => {
                step.own.iter().for_each(&mut read);
                &step.rows_out
            }
        };
        written.iter().flatten().for_each(|write| see(write.slot));
    }
}

impl GatherLists {
    /// For each row the rows that its sum is made from.
    pub(crate) fn adjacency(&self) -> &Adjacency {
        if self.outgoing { self.graph.outgoing() } else { self.graph.incoming() }
    }
}

/// Global ids of an interval's rows.
#[derive(Debug, Clone)]
pub enum RowNumbers {
    /// Consecutive from here.
    From(u64),
    /// Listed.
    List(Arc<[u64]>),
}

/// Somewhere a kernel writes.
#[derive(Debug)]
pub enum Target {
    /// Rows of the interval; each must be written.
    Rows {
        /// Where to.
        rows: WriteRows,
        /// Extents of one row.
        extents: Vec<u32>,
    },
    /// The same, rounded to bfloat16 once the kernel has written all of them as f32.
    Half {
        /// Where to.
        rows: WriteHalf,
        /// Extents of one row.
        extents: Vec<u32>,
    },
    /// A sum over rows: one buffer of the parameter's shape for each part of the grid.
    Sums {
        /// In the grid's order.
        parts: Vec<Buffer>,
        /// The parameter's extents.
        shape: Vec<u32>,
    },
}

impl Target {
    /// Returns another target of the same form, for rows that nobody reads.
    ///
    /// # Errors
    /// [`eciton_tensor::Error`] if it does not fit in memory.
    pub fn alike(&self) -> eciton_tensor::Result<Self> {
        let ((rows, columns), extents) = (self.shape(), self.extents().to_vec());
        Ok(match self {
            Self::Rows { .. } => Self::Rows { rows: Buffer::zeroed(rows, columns)?.write(0..rows)?, extents },
            Self::Half { .. } => {
                Self::Half { rows: HalfBuffer::zeroed(rows, columns)?.write(0..rows)?, extents }
            }
            Self::Sums { parts, shape } => Self::Sums { parts: parts.clone(), shape: shape.clone() },
        })
    }

    /// Rows and values a row, of all parts together.
    pub(crate) fn shape(&self) -> (usize, usize) {
        match self {
            Self::Rows { rows, .. } => (rows.view().rows(), rows.view().columns()),
            Self::Half { rows, .. } => (rows.len(), rows.columns()),
            Self::Sums { parts, .. } => {
                (parts.iter().map(Buffer::rows).sum(), parts.first().map_or(0, Buffer::columns))
            }
        }
    }

    /// Extents of one row, or of a sum.
    pub(crate) fn extents(&self) -> &[u32] {
        match self {
            Self::Rows { extents, .. } | Self::Half { extents, .. } => extents,
            Self::Sums { shape, .. } => shape,
        }
    }
}

/// What an interval's rows are compared with.
#[derive(Debug, Clone)]
pub enum Targets {
    /// One class a row.
    Classes(Arc<[u32]>),
    /// `[rows, t]`; NaN is unknown.
    Values(Matrix),
}

impl Targets {
    /// How many rows they are of.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Classes(classes) => classes.len(),
            Self::Values(values) => values.rows(),
        }
    }
}

/// What is known of an interval, for `loss`.
#[derive(Debug, Clone)]
pub struct Labelled {
    /// Of every row.
    pub targets: Targets,
    /// The local rows that count, ascending.
    pub rows: Arc<[u32]>,
    /// What each of them, or each of its known values, contributes.
    pub weight: f32,
    /// What each row counts beside it: `[n, 1]`, finite and not negative; `None`: each 1. Rows that do
    /// not count may have any value. A kernel asks for them: one that cannot is refused
    /// ([`Kernel::weighs_rows`](crate::Kernel::weighs_rows)).
    pub row_weights: Option<Matrix>,
}

/// What a vertex kernel is called with: `M` is a matrix or names one, `W` is a place for rows or names one.
#[derive(Debug)]
pub struct VertexCall<M = Matrix, W = Target> {
    /// Which function.
    pub kind: Kind,
    /// The run's seed.
    pub seed: u64,
    /// From 0.
    pub epoch: u32,
    /// The layer's number for the kernel and its random numbers, from 0.
    pub layer: u32,
    /// True if dropout applies.
    pub training: bool,
    /// The parts in which sums over rows are delivered; covers the interval's rows.
    pub grid: Arc<Grid>,
    /// Numbers of the rows, which address random numbers.
    pub row_numbers: RowNumbers,
    /// Forward inputs (in backward: if the signature needs them).
    pub inputs: Vec<M>,
    /// Forward outputs, in backward if the signature needs them.
    pub outputs: Vec<M>,
    /// Rows that forward kept, in backward.
    pub kept: Vec<M>,
    /// In the signature's order; each with its own extents.
    pub parameters: Vec<M>,
    /// Gradients of the outputs, in backward.
    pub gradients: Vec<M>,
    /// How many of `rows_out` are outputs, in forward.
    pub output_count: usize,
    /// forward: outputs, then kept. backward and loss: gradients of the inputs.
    pub rows_out: Vec<Option<W>>,
    /// backward and loss: gradients of the parameters; loss: then the loss itself.
    pub sums_out: Vec<Target>,
    /// For `loss`.
    pub labelled: Option<Labelled>,
}

impl<M, W> VertexCall<M, W> {
    /// All matrices that it reads.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &M> {
        let rows = self.inputs.iter().chain(&self.outputs).chain(&self.kept).chain(&self.gradients);
        rows.chain(&self.parameters)
    }

    /// The same call with other matrices and places for rows; `write` is told how many rows are written.
    pub(crate) fn with<S, N, X, E>(
        self,
        on: &mut S,
        matrix: impl Fn(&mut S, M) -> Result<N, E>,
        write: impl Fn(&mut S, W, usize) -> Result<X, E>,
    ) -> Result<VertexCall<N, X>, E> {
        let mut all = |matrices: Vec<M>| -> Result<Vec<N>, E> {
            matrices.into_iter().map(|one| matrix(on, one)).collect()
        };
        let (inputs, outputs, kept) = (all(self.inputs)?, all(self.outputs)?, all(self.kept)?);
        let (parameters, gradients) = (all(self.parameters)?, all(self.gradients)?);
        let rows = self.grid.rows();
        let rows_out = self.rows_out.into_iter().map(|one| one.map(|one| write(on, one, rows)).transpose());
        Ok(VertexCall {
            kind: self.kind,
            seed: self.seed,
            epoch: self.epoch,
            layer: self.layer,
            training: self.training,
            row_numbers: self.row_numbers,
            inputs,
            outputs,
            kept,
            parameters,
            gradients,
            output_count: self.output_count,
            rows_out: rows_out.collect::<Result<_, E>>()?,
            grid: self.grid,
            sums_out: self.sums_out,
            labelled: self.labelled,
        })
    }

    /// Refuses rows that do not count alike for a kernel that cannot ask.
    pub(crate) fn check_row_weights(&self, kernel: &Kernel) -> Result<()> {
        match self.labelled.as_ref().and_then(|labelled| labelled.row_weights.as_ref()) {
            Some(_) => kernel.must_weigh_rows(),
            None => Ok(()),
        }
    }
}
