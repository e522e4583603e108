//! Calls: units of work that one worker or process executes without messages to another.
//!
//! A call is plain data: a list of steps, slots (buffers for rows that steps pass to later steps),
//! and matrices from outside. A step runs a vertex kernel or an edge kernel, or gathers rows along
//! edges. A call gives the same bits in any process, and the same bits as its steps executed one at
//! a time.

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

/// Function of a vertex kernel that a step calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Exported function `forward`, which computes the outputs.
    Forward,
    /// Exported function `backward`, which computes gradients.
    Backward,
    /// Exported function `loss`, which computes the loss and its gradients.
    Loss,
}

impl Kind {
    /// Returns the function's name in the contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Loss => "loss",
        }
    }
}

/// Unit of work for one worker: steps that run in order, with slots for the rows that they pass on.
#[derive(Debug, Default)]
pub struct Call {
    /// Matrices from outside the call. Steps address them by index. Each matrix is listed once.
    pub given: Vec<Given>,
    /// Slots: buffers for rows that a step leaves for later steps.
    pub slots: Vec<Local>,
    /// Steps of the call, in the order in which they run.
    pub steps: Vec<CallStep>,
    /// Slots whose rows leave the call, by index, each with its destination. Exactly one step
    /// writes each of these slots.
    pub outs: Vec<(u32, Target)>,
    /// Slots whose rows the executing worker stores after the call, so that a later call on that
    /// worker can read them.
    pub keeps: Vec<(u32, Kept)>,
    /// Model parameters among the matrices: index in [`Call::given`], and id of the parameter.
    pub parameters: Vec<(u32, ParameterId)>,
    /// Keys of rows that the worker stored for earlier calls, and may delete because no later call
    /// reads them.
    pub frees: Vec<TensorKey>,
    /// Gradient sums that the worker stores instead of returning: the index in [`Call::sums`], and
    /// the id of the parameter. The [`Target::Sums`] of such a sum has no buffers.
    pub holds: Vec<(u32, ParameterId)>,
    /// True if the answer must contain a digest of the rows of each slot that the worker stores
    /// (`keeps`).
    pub digests: bool,
}

/// Matrix that comes from outside a call.
#[derive(Debug)]
pub enum Given {
    /// Matrix in the memory of this process.
    Here(Matrix),
    /// Rows that an earlier call left in the memory of the worker that executes this call.
    Kept(Kept),
}

/// Description of rows that a worker stores between calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Key of the rows, which both the call that writes the rows and the call that reads them use.
    pub key: TensorKey,
    /// Number of rows that the worker stores.
    pub rows: usize,
    /// Extents of one row (its shape without the row dimension).
    pub extents: Vec<u32>,
    /// Workers that the rows are sent to after the call. If the list is empty, the rows stay on the
    /// executing worker.
    pub to: Vec<Location>,
}

/// Slot: buffer for rows inside a call. The rows are zero until a step writes them.
#[derive(Debug)]
pub struct Local {
    /// Number of rows of the slot.
    pub rows: usize,
    /// Number of values per row of the slot.
    pub columns: usize,
    /// True if the values are rounded to bfloat16 after a step has written them.
    pub half: bool,
    /// Initial values, with the same number of rows. If `None`, the slot starts with zeros.
    pub from: Option<Matrix>,
}

/// One step of a call, which runs a kernel or gathers rows.
#[derive(Debug)]
pub enum CallStep {
    /// Step that calls a function of a vertex kernel.
    Vertex(Arc<Layer>, Box<VertexCall<Operand, Write>>),
    /// Step that calls a function of an edge kernel.
    Edges(Arc<Layer>, Box<EdgeCall<Operand, Write>>),
    /// Step that sums rows over adjacency lists. The call contains the lists.
    Gather(GatherStep),
}

/// Rows that a step of a call reads: from outside the call, or from a slot.
#[derive(Debug)]
pub enum Operand {
    /// Rows from outside the call, by their index in [`Call::given`].
    Given(u32),
    /// First `rows` rows of a slot of the call.
    Local {
        /// Index of the slot in [`Call::slots`].
        slot: u32,
        /// Number of rows that the step reads.
        rows: usize,
        /// Extents of one row, as the step reads it.
        extents: Vec<u32>,
    },
}

impl Operand {
    /// Returns the index in [`Call::given`], or `None` if the operand is a slot.
    #[must_use]
    pub fn given(&self) -> Option<usize> {
        match self {
            Self::Given(at) => Some(*at as usize),
            Self::Local { .. } => None,
        }
    }
}

/// Rows that a step writes: the leading rows of a slot of the call.
#[derive(Debug)]
pub struct Write {
    /// Index of the slot in [`Call::slots`].
    pub slot: u32,
    /// Extents of one row, as the step writes it.
    pub extents: Vec<u32>,
}

/// Step that gathers rows of one slot over adjacency lists into another slot.
#[derive(Debug)]
pub struct GatherStep {
    /// Normalisation of the sum, which determines the edge weights.
    pub normalisation: Normalisation,
    /// True if the step computes the gradient of a gather, over the reversed edges.
    pub reversed: bool,
    /// Adjacency lists of the gather, with one vertex per source row.
    pub lists: Arc<GatherLists>,
    /// Index of the slot that the gather reads. It uses the slot's first rows, one per vertex of
    /// the lists.
    pub from: u32,
    /// Index of the slot that the gather writes, from its first row on.
    pub into: u32,
    /// Number of rows that the gather writes.
    pub rows: usize,
}

/// Adjacency lists that a gather sums over, with the edge weights in the order of the lists.
#[derive(Debug)]
pub struct GatherLists {
    /// Graph that contains the lists of both directions.
    pub graph: Arc<Graph>,
    /// True if the gather sums over out-neighbours, false for in-neighbours.
    pub outgoing: bool,
    /// Normalisation factor of each vertex: `1 / sqrt(degree + 1)` or `1 / degree`. `None` for sums
    /// without normalisation.
    pub factors: Option<Arc<Vec<f32>>>,
    /// Weight of each edge, in the order of the lists. `None` if the edges have no weights.
    pub weights: Option<Arc<Vec<f32>>>,
}

impl Call {
    /// Creates a call with a single step, which calls a vertex kernel.
    #[must_use]
    pub fn vertex(layer: &Arc<Layer>, call: VertexCall) -> Self {
        let mut made = Self::default();
        let Ok(step) = call.with(&mut made, Self::give, Self::leave);
        made.steps.push(CallStep::Vertex(layer.clone(), Box::new(step)));
        made
    }

    /// Creates a call with a single step, which calls an edge kernel.
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

    /// Returns the matrix at this index in [`Call::given`], or `None` if the worker stores it.
    #[must_use]
    pub fn matrix(&self, given: usize) -> Option<&Matrix> {
        match self.given.get(given) {
            Some(Given::Here(matrix)) => Some(matrix),
            _ => None,
        }
    }

    /// Returns the layer and the arguments if the call's only step calls a vertex kernel, otherwise
    /// `None`.
    #[must_use]
    pub fn only_vertex(&self) -> Option<(&Arc<Layer>, &VertexCall<Operand, Write>)> {
        match &self.steps[..] {
            [CallStep::Vertex(layer, step)] => Some((layer, step)),
            _ => None,
        }
    }

    /// Returns the layer of each kernel step, in the order of the steps.
    pub fn layers(&self) -> impl Iterator<Item = &Arc<Layer>> {
        self.steps.iter().filter_map(|step| match step {
            CallStep::Vertex(layer, _) | CallStep::Edges(layer, _) => Some(layer),
            CallStep::Gather(_) => None,
        })
    }

    /// Returns the targets of the sums that all steps write, in the order of the steps.
    pub fn sums(&self) -> impl Iterator<Item = &Target> {
        self.steps.iter().flat_map(|step| match step {
            CallStep::Vertex(_, step) => &step.sums_out[..],
            CallStep::Edges(_, step) => &step.sums_out,
            CallStep::Gather(_) => &[],
        })
    }
}

impl CallStep {
    /// Calls `see` with the index of every slot that the step reads or writes.
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
    /// Returns the adjacency that lists, for each output row, the source rows of its sum.
    pub(crate) fn adjacency(&self) -> &Adjacency {
        if self.outgoing { self.graph.outgoing() } else { self.graph.incoming() }
    }
}

/// Destination of the rows or sums that a kernel writes.
#[derive(Debug)]
pub enum Target {
    /// Rows of an interval (a run of vertices that is scheduled as one unit). The kernel must write
    /// every row.
    Rows {
        /// Buffer region that receives the rows.
        rows: WriteRows,
        /// Extents of one row.
        extents: Vec<u32>,
    },
    /// Rows of an interval (a run of vertices that is scheduled as one unit), stored as bfloat16.
    /// They are rounded after the kernel has written all of them as f32.
    Half {
        /// Buffer region that receives the rounded rows.
        rows: WriteHalf,
        /// Extents of one row.
        extents: Vec<u32>,
    },
    /// Sum over rows, such as the gradient of a parameter. Each part of the grid has a buffer of
    /// the parameter's shape.
    Sums {
        /// Buffers, one per part of the grid, in the grid's order. Empty if the worker stores the
        /// sum.
        parts: Vec<Buffer>,
        /// Extents of the parameter.
        shape: Vec<u32>,
    },
}

impl Target {
    /// Returns a new target of the same shape, for results that are discarded.
    ///
    /// # Errors
    /// Returns [`eciton_tensor::Error`] if the buffers do not fit in memory.
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

    /// Returns the total number of rows, over all buffers, and the number of values per row.
    pub(crate) fn shape(&self) -> (usize, usize) {
        match self {
            Self::Rows { rows, .. } => (rows.view().rows(), rows.view().columns()),
            Self::Half { rows, .. } => (rows.len(), rows.columns()),
            Self::Sums { parts, .. } => {
                (parts.iter().map(Buffer::rows).sum(), parts.first().map_or(0, Buffer::columns))
            }
        }
    }

    /// Returns the extents of one row, or of the parameter whose gradient is summed.
    pub(crate) fn extents(&self) -> &[u32] {
        match self {
            Self::Rows { extents, .. } | Self::Half { extents, .. } => extents,
            Self::Sums { shape, .. } => shape,
        }
    }
}

/// Values that the model is trained to predict for the rows of an interval, read by the loss.
#[derive(Debug, Clone)]
pub enum Targets {
    /// Class index of each row.
    Classes(Arc<[u32]>),
    /// Numbers of shape `[rows, t]`. NaN marks an unknown value, which the loss ignores.
    Values(Matrix),
}

impl Targets {
    /// Returns the number of rows that the targets cover.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Classes(classes) => classes.len(),
            Self::Values(values) => values.rows(),
        }
    }
}

/// Targets and loss weights of an interval's rows, for the function `loss`.
#[derive(Debug, Clone)]
pub struct Labelled {
    /// Target of every row of the interval.
    pub targets: Targets,
    /// Rows that count in the loss, as ascending indices within the interval.
    pub rows: Arc<[u32]>,
    /// Weight in the loss of each counted row, or of each known value of a counted row.
    pub weight: f32,
    /// Additional loss factor per row, of shape `[n, 1]`, finite and not negative. If `None`, every
    /// factor is 1. Factors of rows that do not count are ignored. A kernel reads the factors
    /// through the interface `given`. A kernel that does not import it is refused
    /// ([`Kernel::weighs_rows`](crate::Kernel::weighs_rows)).
    pub row_weights: Option<Matrix>,
}

/// Arguments of a vertex kernel's function. `M` is a matrix or a reference to one. `W` is the
/// destination of written rows or a reference to it.
#[derive(Debug)]
pub struct VertexCall<M = Matrix, W = Target> {
    /// Function of the kernel to call.
    pub kind: Kind,
    /// Random seed of the run, from which dropout masks are derived.
    pub seed: u64,
    /// Training round (one optimizer step), from 0. The contract calls it `epoch`.
    pub epoch: u32,
    /// Index of the layer in the model, from 0. The kernel's random numbers depend on it.
    pub layer: u32,
    /// True in training, when dropout applies. False in evaluation.
    pub training: bool,
    /// Grid of the parts over which sums are accumulated. It covers all rows of the interval.
    pub grid: Arc<Grid>,
    /// Global vertex ids of the rows. Random numbers are derived from them, so that they do not
    /// depend on the partition.
    pub row_numbers: RowNumbers,
    /// Input matrices for `forward`. In `backward` they are present only if the kernel's signature
    /// requests them.
    pub inputs: Vec<M>,
    /// Output matrices of `forward`, which `backward` reads if the kernel's signature requests
    /// them. Otherwise empty.
    pub outputs: Vec<M>,
    /// Stashed rows that `forward` saved for `backward`.
    pub kept: Vec<M>,
    /// Parameters of the layer, in the order of the signature.
    pub parameters: Vec<M>,
    /// Gradients of the layer's outputs, which `backward` reads.
    pub gradients: Vec<M>,
    /// Number of outputs at the start of `rows_out`, in `forward`. The rest are stashed rows.
    pub output_count: usize,
    /// Destinations of rows. In `forward`: outputs, then stashed rows. In `backward` and `loss`:
    /// gradients of the inputs. An entry is `None` if its result is not needed.
    pub rows_out: Vec<Option<W>>,
    /// Destinations of sums. In `backward` and `loss`: gradients of the parameters. In `loss` the
    /// last sum is the loss itself.
    pub sums_out: Vec<Target>,
    /// Targets and weights of the rows, for `loss`. `None` for the other functions.
    pub labelled: Option<Labelled>,
}

impl<M, W> VertexCall<M, W> {
    /// Returns all matrices that the function reads.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &M> {
        let rows = self.inputs.iter().chain(&self.outputs).chain(&self.kept).chain(&self.gradients);
        rows.chain(&self.parameters)
    }

    /// Converts the matrices and the destinations of the call to other types. `write` also receives
    /// the number of rows that are written.
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

    /// Refuses a call with row weights if the kernel does not import the interface that reads them.
    pub(crate) fn check_row_weights(&self, kernel: &Kernel) -> Result<()> {
        match self.labelled.as_ref().and_then(|labelled| labelled.row_weights.as_ref()) {
            Some(_) => kernel.must_weigh_rows(),
            None => Ok(()),
        }
    }
}

/// Function of an edge kernel that a step calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeKind {
    /// Exported function `forward`. The interval's own rows are the targets of the edges.
    Forward,
    /// Exported function `backward-targets`. The interval's own rows are the targets of the edges.
    Targets,
    /// Exported function `backward-sources`. The interval's own rows are the sources of the edges.
    Sources,
}

impl EdgeKind {
    /// Returns the function's name in the contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Targets => "backward-targets",
            Self::Sources => "backward-sources",
        }
    }
}

/// Edges of an interval, listed per own row. Indices of own rows count within the interval. Indices
/// of rows at the other ends count over all rows.
pub trait EdgeLists: Send + Sync + std::fmt::Debug {
    /// Returns the rows at the other ends of an own row's edges, in the order of the list.
    fn others(&self, own: usize) -> &[u32];
    /// Returns the row at the other end of an own row's self-loop, which comes after all other
    /// edges. `None` if the row has no self-loop.
    fn itself(&self, own: usize) -> Option<u32>;
    /// Returns the global vertex id of an own row. Random numbers are derived from it.
    fn own_vertex(&self, own: usize) -> u32;
    /// Returns the global vertex id of a row at the other end of an edge.
    fn vertex(&self, row: u32) -> u32;
    /// Returns the number of features per edge. It is 0 if edges have no features or the layer does
    /// not read them.
    fn features(&self) -> usize;
    /// Writes the features of one edge of an own row. `place` is the index of the edge in the row's
    /// list. A self-loop has the last index.
    fn features_of(&self, own: usize, place: usize, into: &mut [f32]);
}

/// Rows at the other ends of edges, as consecutive ascending ranges that cover all of these rows.
pub type OtherRows = Vec<(Range<usize>, ReadRows)>;

/// Arguments of an edge kernel's function. `M` is a matrix or a reference to one. `W` is the
/// destination of written rows or a reference to it.
#[derive(Debug)]
pub struct EdgeCall<M = Matrix, W = Target> {
    /// Function of the kernel to call.
    pub kind: EdgeKind,
    /// Random seed of the run, from which dropout masks are derived.
    pub seed: u64,
    /// Training round (one optimizer step), from 0. The contract calls it `epoch`.
    pub epoch: u32,
    /// Index of the layer in the model, from 0. The kernel's random numbers depend on it.
    pub layer: u32,
    /// True in training, when dropout applies. False in evaluation.
    pub training: bool,
    /// Grid of the parts over which sums over edges are accumulated. It covers the interval's own
    /// rows.
    pub grid: Arc<Grid>,
    /// Edges of the interval, listed per own row.
    pub lists: Arc<dyn EdgeLists>,
    /// Rows at the other ends of the edges: `source`, or `passed` in `backward-sources`.
    pub other: OtherRows,
    /// Matrices of the interval's own rows. `forward`: target. `backward-targets`: target, stashed
    /// rows, gradient. `backward-sources`: source.
    pub own: Vec<M>,
    /// Parameters of the layer, in the order of the signature.
    pub parameters: Vec<M>,
    /// Destinations of rows. `forward`: output, then stashed rows. `backward-targets`: gradient of
    /// the target, then the rows passed to the sources. `backward-sources`: gradient of the source.
    pub rows_out: Vec<Option<W>>,
    /// Destinations of sums, used by `backward-targets` for the gradients of the parameters.
    pub sums_out: Vec<Target>,
}

impl<M, W> EdgeCall<M, W> {
    /// Converts the matrices and the destinations of the call to other types. `write` also receives
    /// the number of rows that are written.
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
