//! Calls: work that one location executes without messages to another.
//!
//! A call is data: steps in order, slots for rows between them, and matrices from outside. A step
//! calls a vertex kernel or an edge kernel, or gathers rows. A call gives the same bits in any
//! process, and the same bits as its steps one by one.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use eciton_gather::adjacency::{Adjacency, Graph};
use eciton_tensor::half::{HalfBuffer, WriteHalf};
use eciton_tensor::{Buffer, Grid, Matrix, ReadRows, WriteRows};
use eciton_types::{Location, Normalisation, ParameterId, TensorKey};

use crate::error::Result;
use crate::runtime::{Kernel, Layer};
use crate::state::RowNumbers;

/// Function of a vertex layer.
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
    /// Returns the name of the function.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Loss => "loss",
        }
    }
}

/// Steps that run in order, with slots for rows between them.
#[derive(Debug, Default)]
pub struct Call {
    /// Matrices from outside that steps read, each listed once.
    pub given: Vec<Given>,
    /// Slots for rows that steps leave for later steps.
    pub slots: Vec<Local>,
    /// Steps, in order.
    pub steps: Vec<CallStep>,
    /// Slots whose rows leave the call, and the destinations. One step writes each slot.
    pub outs: Vec<(u32, Target)>,
    /// Slots whose rows stay with the worker that makes the call, for a later call there.
    pub keeps: Vec<(u32, Kept)>,
    /// Indices in `given` of the program's parameters, with the ids of the parameters.
    pub parameters: Vec<(u32, ParameterId)>,
    /// Keys of kept rows that no later call reads.
    pub frees: Vec<TensorKey>,
    /// Sums that the worker keeps: the index in [`Call::sums`], and the use of a parameter whose
    /// gradient is summed. Their targets have no parts.
    pub holds: Vec<(u32, ParameterId)>,
    /// True if the answer has a digest of the rows of each slot that stays.
    pub digests: bool,
}

/// Matrix from outside of a call.
#[derive(Debug)]
pub enum Given {
    /// Matrix in the memory of this process.
    Here(Matrix),
    /// Rows that stayed with the worker.
    Kept(Kept),
}

/// Rows that a worker keeps between calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Address of the rows, the same in both calls.
    pub key: TensorKey,
    /// Number of rows.
    pub rows: usize,
    /// Extents of one row.
    pub extents: Vec<u32>,
    /// Workers that the rows are sent to. If the list is empty, the rows stay.
    pub to: Vec<Location>,
}

/// Slot for rows inside a call. The rows are zeros until a step writes them.
#[derive(Debug)]
pub struct Local {
    /// Number of rows.
    pub rows: usize,
    /// Values per row.
    pub columns: usize,
    /// True if the values are rounded to bfloat16.
    pub half: bool,
    /// Initial values with the same number of rows, if they come from outside.
    pub from: Option<Matrix>,
}

/// One step of a call.
#[derive(Debug)]
pub enum CallStep {
    /// Step of a vertex kernel.
    Vertex(Arc<Layer>, Box<VertexCall<Operand, Write>>),
    /// Step of an edge kernel.
    Edges(Arc<Layer>, Box<EdgeCall<Operand, Write>>),
    /// Gather over lists that the call contains.
    Gather(GatherStep),
}

/// Rows that a step reads.
#[derive(Debug)]
pub enum Operand {
    /// Rows from outside, by their index in [`Call::given`].
    Given(u32),
    /// The first `rows` rows of a local slot.
    Local {
        /// Index of the slot in [`Call::slots`].
        slot: u32,
        /// Number of rows.
        rows: usize,
        /// Extents of one row.
        extents: Vec<u32>,
    },
}

impl Operand {
    /// Returns the index in [`Call::given`] of rows from outside.
    #[must_use]
    pub fn given(&self) -> Option<usize> {
        match self {
            Self::Given(at) => Some(*at as usize),
            Self::Local { .. } => None,
        }
    }
}

/// Rows that a step writes: the first rows of a local slot.
#[derive(Debug)]
pub struct Write {
    /// Index of the slot in [`Call::slots`].
    pub slot: u32,
    /// Extents of one row.
    pub extents: Vec<u32>,
}

/// Gather from one local slot to another.
#[derive(Debug)]
pub struct GatherStep {
    /// Normalisation that the edge weights follow.
    pub normalisation: Normalisation,
    /// True for the gradient of a gather.
    pub reversed: bool,
    /// Lists with one vertex per source row.
    pub lists: Arc<GatherLists>,
    /// Slot that the gather reads: its first rows, one per vertex of the lists.
    pub from: u32,
    /// Slot that the gather writes: its first `rows` rows.
    pub into: u32,
    /// Number of rows to write.
    pub rows: usize,
}

/// Lists of one direction of a graph that a gather follows, with weights in the order of the lists.
#[derive(Debug)]
pub struct GatherLists {
    /// Graph with both directions.
    pub graph: Arc<Graph>,
    /// True if the gather follows the out-lists, false for the in-lists.
    pub outgoing: bool,
    /// Factor of each vertex: `1 / sqrt(degree + 1)` or `1 / degree`. `None` for sums.
    pub factors: Option<Arc<Vec<f32>>>,
    /// Weight of each edge.
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

    /// Returns a matrix from outside, if it is in the memory of this process.
    #[must_use]
    pub fn matrix(&self, given: usize) -> Option<&Matrix> {
        match self.given.get(given) {
            Some(Given::Here(matrix)) => Some(matrix),
            _ => None,
        }
    }

    /// Returns the step of the call, if it is the only one and calls a vertex kernel.
    #[must_use]
    pub fn only_vertex(&self) -> Option<(&Arc<Layer>, &VertexCall<Operand, Write>)> {
        match &self.steps[..] {
            [CallStep::Vertex(layer, step)] => Some((layer, step)),
            _ => None,
        }
    }

    /// Returns the layers of the call's kernels, in the order of the steps.
    pub fn layers(&self) -> impl Iterator<Item = &Arc<Layer>> {
        self.steps.iter().filter_map(|step| match step {
            CallStep::Vertex(layer, _) | CallStep::Edges(layer, _) => Some(layer),
            CallStep::Gather(_) => None,
        })
    }

    /// Returns the sums of all steps, in order.
    pub fn sums(&self) -> impl Iterator<Item = &Target> {
        self.steps.iter().flat_map(|step| match step {
            CallStep::Vertex(_, step) => &step.sums_out[..],
            CallStep::Edges(_, step) => &step.sums_out,
            CallStep::Gather(_) => &[],
        })
    }
}

impl CallStep {
    /// Calls `see` with every slot that the step reads or writes.
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
    /// Returns the adjacency that lists, for each row, the rows that its sum is made from.
    pub(crate) fn adjacency(&self) -> &Adjacency {
        if self.outgoing { self.graph.outgoing() } else { self.graph.incoming() }
    }
}

/// Destination of rows or sums that a kernel writes.
#[derive(Debug)]
pub enum Target {
    /// Rows of the interval. The kernel must write each of them.
    Rows {
        /// Destination of the rows.
        rows: WriteRows,
        /// Extents of one row.
        extents: Vec<u32>,
    },
    /// Rows of the interval, rounded to bfloat16 after the kernel has written all of them as f32.
    Half {
        /// Destination of the rows.
        rows: WriteHalf,
        /// Extents of one row.
        extents: Vec<u32>,
    },
    /// Sum over rows: one buffer of the parameter's shape for each part of the grid.
    Sums {
        /// Buffers in the grid's order.
        parts: Vec<Buffer>,
        /// Extents of the parameter.
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

    /// Returns the number of rows, of all parts together, and the values per row.
    pub(crate) fn shape(&self) -> (usize, usize) {
        match self {
            Self::Rows { rows, .. } => (rows.view().rows(), rows.view().columns()),
            Self::Half { rows, .. } => (rows.len(), rows.columns()),
            Self::Sums { parts, .. } => {
                (parts.iter().map(Buffer::rows).sum(), parts.first().map_or(0, Buffer::columns))
            }
        }
    }

    /// Returns the extents of one row, or of a sum.
    pub(crate) fn extents(&self) -> &[u32] {
        match self {
            Self::Rows { extents, .. } | Self::Half { extents, .. } => extents,
            Self::Sums { shape, .. } => shape,
        }
    }
}

/// Targets of an interval's rows, for the loss.
#[derive(Debug, Clone)]
pub enum Targets {
    /// One class per row.
    Classes(Arc<[u32]>),
    /// Values of shape `[rows, t]`. NaN stands for an unknown value.
    Values(Matrix),
}

impl Targets {
    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Classes(classes) => classes.len(),
            Self::Values(values) => values.rows(),
        }
    }
}

/// Targets and weights of an interval's rows, for `loss`.
#[derive(Debug, Clone)]
pub struct Labelled {
    /// Targets of every row.
    pub targets: Targets,
    /// Local rows that count in the loss, ascending.
    pub rows: Arc<[u32]>,
    /// Weight in the loss of each of these rows, or of each of its known values.
    pub weight: f32,
    /// Further factor of each row in the loss: `[n, 1]`, finite and not negative. If `None`, each
    /// factor is 1. Rows that do not count may have any value. A kernel must ask for the factors;
    /// one that cannot ask is refused ([`Kernel::weighs_rows`](crate::Kernel::weighs_rows)).
    pub row_weights: Option<Matrix>,
}

/// Arguments of a vertex kernel. `M` is a matrix or a reference to one. `W` is a target for rows or
/// a reference to one.
#[derive(Debug)]
pub struct VertexCall<M = Matrix, W = Target> {
    /// Function to call.
    pub kind: Kind,
    /// Seed of the run.
    pub seed: u64,
    /// Round, from 0. The contract calls it `epoch`.
    pub epoch: u32,
    /// Number of the layer for the kernel and its random numbers, from 0.
    pub layer: u32,
    /// True if dropout applies.
    pub training: bool,
    /// Grid of the parts in which sums over rows are delivered. It covers the interval's rows.
    pub grid: Arc<Grid>,
    /// Global ids of the rows, which address random numbers.
    pub row_numbers: RowNumbers,
    /// Inputs of forward. In backward they are present if the signature needs them.
    pub inputs: Vec<M>,
    /// Outputs of forward, for backward, if the signature needs them.
    pub outputs: Vec<M>,
    /// Rows that forward stashed, for backward.
    pub kept: Vec<M>,
    /// Parameters in the signature's order, each with its own extents.
    pub parameters: Vec<M>,
    /// Gradients of the outputs, for backward.
    pub gradients: Vec<M>,
    /// Number of outputs in `rows_out`, for forward.
    pub output_count: usize,
    /// Rows to write. In forward: outputs, then stashed rows. In backward and loss: gradients of
    /// the inputs.
    pub rows_out: Vec<Option<W>>,
    /// Sums to write. In backward and loss: gradients of the parameters. In loss the last sum is
    /// the loss itself.
    pub sums_out: Vec<Target>,
    /// Targets and weights, for `loss`.
    pub labelled: Option<Labelled>,
}

impl<M, W> VertexCall<M, W> {
    /// Returns all matrices that the call reads.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &M> {
        let rows = self.inputs.iter().chain(&self.outputs).chain(&self.kept).chain(&self.gradients);
        rows.chain(&self.parameters)
    }

    /// Converts the matrices and the targets of the call. `write` gets the number of rows that are
    /// written.
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

    /// Refuses a call with row weights if the kernel cannot ask for them.
    pub(crate) fn check_row_weights(&self, kernel: &Kernel) -> Result<()> {
        match self.labelled.as_ref().and_then(|labelled| labelled.row_weights.as_ref()) {
            Some(_) => kernel.must_weigh_rows(),
            None => Ok(()),
        }
    }
}

/// Function of an edge layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeKind {
    /// `forward`: own ends are targets.
    Forward,
    /// `backward-targets`: own ends are targets.
    Targets,
    /// `backward-sources`: own ends are sources.
    Sources,
}

impl EdgeKind {
    /// Returns the name of the function.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Targets => "backward-targets",
            Self::Sources => "backward-sources",
        }
    }
}

/// Edges of an interval's rows. Indices of own rows are local to the interval, those of rows at
/// other ends are not.
pub trait EdgeLists: Send + Sync + std::fmt::Debug {
    /// Returns the rows at the other ends of a row's edges, in order.
    fn others(&self, own: usize) -> &[u32];
    /// Returns the row at the other end of a row's edge to itself, which follows the others. `None`
    /// if the row has no such edge.
    fn itself(&self, own: usize) -> Option<u32>;
    /// Returns the vertex of an own row, which addresses random numbers.
    fn own_vertex(&self, own: usize) -> u32;
    /// Returns the vertex of a row at other ends.
    fn vertex(&self, row: u32) -> u32;
    /// Returns the number of features per edge. It is 0 if there are none, or if the layer does not
    /// ask for them.
    fn features(&self) -> usize;
    /// Writes the features of an own row's edge. `place` is the index of the edge in the row. The
    /// edge to itself is the last one.
    fn features_of(&self, own: usize, place: usize, into: &mut [f32]);
}

/// Rows of all other ends, as ranges in ascending order that cover them.
pub type OtherRows = Vec<(Range<usize>, ReadRows)>;

/// Arguments of an edge kernel. `M` is a matrix or a reference to one. `W` is a target for rows or
/// a reference to one.
#[derive(Debug)]
pub struct EdgeCall<M = Matrix, W = Target> {
    /// Function to call.
    pub kind: EdgeKind,
    /// Seed of the run.
    pub seed: u64,
    /// Round, from 0. The contract calls it `epoch`.
    pub epoch: u32,
    /// Number of the layer for the kernel and its random numbers, from 0.
    pub layer: u32,
    /// True if dropout applies.
    pub training: bool,
    /// Grid of the parts in which sums over edges are delivered. It covers the own rows.
    pub grid: Arc<Grid>,
    /// Edges of the own rows.
    pub lists: Arc<dyn EdgeLists>,
    /// Rows of other ends: `source`, or `passed` in `backward-sources`.
    pub other: OtherRows,
    /// Rows of own ends. forward: target. targets: target, stashed rows, gradient. sources: source.
    pub own: Vec<M>,
    /// Parameters in the signature's order, each with its own extents.
    pub parameters: Vec<M>,
    /// Rows to write. forward: output, then stashed rows. targets: the target's gradient, then the
    /// rows that are passed. sources: the source's gradient.
    pub rows_out: Vec<Option<W>>,
    /// Sums to write. targets: gradients of the parameters.
    pub sums_out: Vec<Target>,
}

impl<M, W> EdgeCall<M, W> {
    /// Converts the matrices and the targets of the call. `write` gets the number of rows that are
    /// written.
    pub(crate) fn with<S, N, X, E>(
        self,
        on: &mut S,
        matrix: impl Fn(&mut S, M) -> Result<N, E>,
        write: impl Fn(&mut S, W, usize) -> Result<X, E>,
    ) -> Result<EdgeCall<N, X>, E> {
        let mut all = |matrices: Vec<M>| -> Result<Vec<N>, E> {
            matrices.into_iter().map(|one| matrix(on, one)).collect()
        };
        let (own, parameters) = (all(self.own)?, all(self.parameters)?);
        let rows = self.grid.rows();
        let rows_out = self.rows_out.into_iter().map(|one| one.map(|one| write(on, one, rows)).transpose());
        Ok(EdgeCall {
            kind: self.kind,
            seed: self.seed,
            epoch: self.epoch,
            layer: self.layer,
            training: self.training,
            lists: self.lists,
            other: self.other,
            own,
            parameters,
            rows_out: rows_out.collect::<Result<_, E>>()?,
            grid: self.grid,
            sums_out: self.sums_out,
        })
    }
}
