//! Calls, which are units of work that one worker executes without messages to other workers.
//!
//! A call is plain data. It has a list of steps, slots (buffers for rows that one step passes to
//! later steps), and matrices from outside. A step runs a vertex kernel or an edge kernel, or
//! gathers rows along edges. A call gives the same bits in any process, and the same bits as its
//! steps executed one at a time.

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

/// Exported function of a vertex kernel, which a step of a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The function `forward`, which computes the outputs of the layer.
    Forward,
    /// The function `backward`, which computes the gradients of inputs and parameters.
    Backward,
    /// The function `loss`, which computes the loss and its gradients.
    Loss,
}

impl Kind {
    /// Returns the name of the function in the kernel contract, for instance `forward`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Loss => "loss",
        }
    }
}

/// Unit of work that one worker executes without messages to other workers. Its steps run in order
/// and pass rows to each other through slots, which are row buffers.
#[derive(Debug, Default)]
pub struct Call {
    /// Matrices from outside the call. Steps refer to a matrix by its index in this list.
    pub given: Vec<Given>,
    /// Slots, which are buffers for rows that a step passes to later steps.
    pub slots: Vec<Local>,
    /// Steps of the call, in the order of their execution.
    pub steps: Vec<CallStep>,
    /// Slots whose rows are results of the call, as pairs of slot index and destination. Exactly
    /// one step writes each of these slots.
    pub outs: Vec<(u32, Target)>,
    /// Slots whose rows the executing worker stores after the call, so that a later call on that
    /// worker can read them.
    pub keeps: Vec<(u32, CachedRows)>,
    /// Model parameters among the matrices: index in [`Call::given`], and id of the parameter.
    pub parameters: Vec<(u32, ParameterId)>,
    /// Keys of rows that the worker stored for earlier calls and may now delete, because no later
    /// call reads them.
    pub frees: Vec<TensorKey>,
    /// Gradient sums that the worker stores instead of returning them, as pairs of index in
    /// [`Call::sums`] and parameter id. The [`Target::Sums`] of such a sum has no buffers.
    pub holds: Vec<(u32, ParameterId)>,
    /// True if the answer must contain a digest of the rows of each stored slot ([`Call::keeps`]).
    pub digests: bool,
}

/// Matrix that a call reads from outside.
#[derive(Debug)]
pub enum Given {
    /// A matrix in the memory of this process.
    Here(Matrix),
    /// Rows that an earlier call left in the memory of the worker that executes this call.
    Cached(CachedRows),
}

/// Key, shape and destinations of rows that a worker stores between calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedRows {
    /// Key of the rows, which both the call that writes the rows and the call that reads them use.
    pub key: TensorKey,
    /// Number of rows that the worker stores.
    pub rows: usize,
    /// Extents of one row, which are the shape without the row dimension, for instance `[8, 8, 3]`.
    pub extents: Vec<u32>,
    /// Workers to which the rows are sent after the call. If the list is empty, the executing
    /// worker stores the rows.
    pub to: Vec<Location>,
}

/// Slot of a call, which is a buffer for rows that one step writes and later steps read.
#[derive(Debug)]
pub struct Local {
    /// Number of rows of the slot.
    pub rows: usize,
    /// Number of values per row of the slot.
    pub columns: usize,
    /// True if the values are rounded to bfloat16 after a step has written them, false for f32.
    pub half: bool,
    /// Initial values, with the same number of rows. If `None`, all values are zero until a step
    /// writes them.
    pub from: Option<Matrix>,
}

/// Step of a call, which runs a kernel function or gathers rows.
#[derive(Debug)]
pub enum CallStep {
    /// A call of a vertex kernel's function, for a layer (a configured kernel).
    Vertex(Arc<Layer>, Box<VertexCall<Operand, Write>>),
    /// A call of an edge kernel's function, for a layer (a configured kernel).
    Edges(Arc<Layer>, Box<EdgeCall<Operand, Write>>),
    /// A sum of rows over adjacency lists.
    Gather(GatherStep),
}

/// Source of rows that a step reads, which is a matrix from outside the call or a slot.
#[derive(Debug)]
pub enum Operand {
    /// A matrix from outside the call, by its index in [`Call::given`].
    Given(u32),
    /// The first `rows` rows of a slot of the call.
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
    /// Returns the operand's index in [`Call::given`], or `None` if the operand is a slot.
    #[must_use]
    pub fn given(&self) -> Option<usize> {
        match self {
            Self::Given(at) => Some(*at as usize),
            Self::Local { .. } => None,
        }
    }
}

/// Destination of rows that a step writes. The step fills a slot of the call from its first row on.
#[derive(Debug)]
pub struct Write {
    /// Index of the slot in [`Call::slots`].
    pub slot: u32,
    /// Extents of one row as the step writes it, for instance `[64]`.
    pub extents: Vec<u32>,
}

/// Step that sums the rows of one slot over adjacency lists, and writes the sums to another slot.
#[derive(Debug)]
pub struct GatherStep {
    /// Normalisation of the sums, for instance the mean. It determines the edge weights.
    pub normalisation: Normalisation,
    /// True if the step computes the gradient of a gather, which follows the edges in reverse.
    pub reversed: bool,
    /// Adjacency lists of the gather. They have one vertex per row of the source slot.
    pub lists: Arc<GatherLists>,
    /// Index of the slot from which rows are gathered. The gather reads one row per vertex,
    /// starting at row 0.
    pub from: u32,
    /// Index of the slot to which the sums are written, starting at row 0.
    pub into: u32,
    /// Number of rows that the gather computes.
    pub rows: usize,
}

/// Adjacency lists that a gather sums over, with edge weights and normalisation factors.
#[derive(Debug)]
pub struct GatherLists {
    /// Graph that contains the lists of in-neighbours and out-neighbours.
    pub graph: Arc<Graph>,
    /// True if the gather sums over out-neighbours, false for in-neighbours.
    pub outgoing: bool,
    /// Normalisation factor of each vertex, `1 / sqrt(degree + 1)` or `1 / degree`. `None` for sums
    /// without normalisation.
    pub factors: Option<Arc<Vec<f32>>>,
    /// Weight of each edge, in the order of the lists. `None` if the edges have no weights.
    pub weights: Option<Arc<Vec<f32>>>,
}

impl Call {
    /// Creates a call with a single step, which calls a function of a vertex kernel.
    #[must_use]
    pub fn vertex(layer: &Arc<Layer>, call: VertexCall) -> Self {
        let mut made = Self::default();
        let Ok(step) = call.with(&mut made, Self::give, Self::leave);
        made.steps.push(CallStep::Vertex(layer.clone(), Box::new(step)));
        made
    }

    /// Creates a call with a single step, which calls a function of an edge kernel.
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

    /// Returns the matrix at index `given` of [`Call::given`]. Returns `None` if the index is out
    /// of range or the worker stores the rows.
    #[must_use]
    pub fn matrix(&self, given: usize) -> Option<&Matrix> {
        match self.given.get(given) {
            Some(Given::Here(matrix)) => Some(matrix),
            _ => None,
        }
    }

    /// Returns the layer and the arguments of the only step if that step calls a vertex kernel,
    /// otherwise `None`.
    #[must_use]
    pub fn only_vertex(&self) -> Option<(&Arc<Layer>, &VertexCall<Operand, Write>)> {
        match &self.steps[..] {
            [CallStep::Vertex(layer, step)] => Some((layer, step)),
            _ => None,
        }
    }

    /// Returns the layers of the steps that call kernels, in the order of the steps.
    pub fn layers(&self) -> impl Iterator<Item = &Arc<Layer>> {
        self.steps.iter().filter_map(|step| match step {
            CallStep::Vertex(layer, _) | CallStep::Edges(layer, _) => Some(layer),
            CallStep::Gather(_) => None,
        })
    }

    /// Returns the destinations of the sums over rows that all steps compute, in the order of the
    /// steps.
    pub fn sums(&self) -> impl Iterator<Item = &Target> {
        self.steps.iter().flat_map(|step| match step {
            CallStep::Vertex(_, step) => &step.sums_out[..],
            CallStep::Edges(_, step) => &step.sums_out,
            CallStep::Gather(_) => &[],
        })
    }
}

impl CallStep {
    /// Calls `see` with the index of each slot that the step reads or writes.
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
    /// Returns the adjacency whose lists name, for each output row, the rows that are summed.
    pub(crate) fn adjacency(&self) -> &Adjacency {
        if self.outgoing { self.graph.outgoing() } else { self.graph.incoming() }
    }
}

/// Destination of the rows or sums that a kernel writes.
#[derive(Debug)]
pub enum Target {
    /// Rows of an interval, which is a contiguous range of vertices. The kernel must write every
    /// row.
    Rows {
        /// Buffer region that receives the rows.
        rows: WriteRows,
        /// Extents of one row.
        extents: Vec<u32>,
    },
    /// Rows of an interval (a contiguous range of vertices) that are stored as bfloat16. They are
    /// rounded after the kernel has written all of them as f32.
    Half {
        /// Buffer region that receives the rounded rows.
        rows: WriteHalf,
        /// Extents of one row.
        extents: Vec<u32>,
    },
    /// Sum over rows, such as the gradient of a parameter. It has one buffer of the parameter's
    /// shape for each part of the [`Grid`].
    Sums {
        /// Buffers, one per part of the grid, in the grid's order. The list is empty if the worker
        /// stores the sum.
        parts: Vec<Buffer>,
        /// Extents of the parameter, for instance `[64, 16]`.
        shape: Vec<u32>,
    },
}

impl Target {
    /// Returns a target of the same shape whose results can be discarded.
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

    /// Returns the total number of rows of all buffers, and the number of values per row.
    pub(crate) fn shape(&self) -> (usize, usize) {
        match self {
            Self::Rows { rows, .. } => (rows.view().rows(), rows.view().columns()),
            Self::Half { rows, .. } => (rows.len(), rows.columns()),
            Self::Sums { parts, .. } => {
                (parts.iter().map(Buffer::rows).sum(), parts.first().map_or(0, Buffer::columns))
            }
        }
    }

    /// Returns the extents of one row. For a sum, returns the extents of the parameter.
    pub(crate) fn extents(&self) -> &[u32] {
        match self {
            Self::Rows { extents, .. } | Self::Half { extents, .. } => extents,
            Self::Sums { shape, .. } => shape,
        }
    }
}

/// Target values of an interval's rows, with which the loss compares the model's outputs.
#[derive(Debug, Clone)]
pub enum Targets {
    /// Class index of each row.
    Classes(Arc<[u32]>),
    /// Numbers of shape `[rows, t]`, with `t` values per row. NaN marks an unknown value, which the
    /// loss ignores.
    Values(Matrix),
}

impl Targets {
    /// Returns the number of rows that have targets.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Classes(classes) => classes.len(),
            Self::Values(values) => values.rows(),
        }
    }
}

/// Target values and loss weights of an interval's rows, which are arguments of the function
/// `loss`.
#[derive(Debug, Clone)]
pub struct Labelled {
    /// Target value of every row of the interval.
    pub targets: Targets,
    /// Rows that count in the loss, as ascending indices within the interval.
    pub rows: Arc<[u32]>,
    /// Loss weight of each row that counts. If targets are numbers, it is the weight of each known
    /// value.
    pub weight: f32,
    /// Additional loss factor of each row, of shape `[n, 1]`. Factors are finite and not negative,
    /// and those of rows that do not count are ignored. If `None`, every factor is 1. A kernel
    /// reads the factors through the interface `given`. A kernel that does not import it is refused
    /// ([`Kernel::weighs_rows`](crate::Kernel::weighs_rows)).
    pub row_weights: Option<Matrix>,
}

/// Arguments of a vertex kernel's function. `M` is the type of a matrix or of a reference to one.
/// `W` is the type of a destination for rows or of a reference to one.
#[derive(Debug)]
pub struct VertexCall<M = Matrix, W = Target> {
    /// Function of the kernel that is called.
    pub kind: Kind,
    /// Random seed of the run, from which dropout masks are derived.
    pub seed: u64,
    /// Index of the training round, counted from 0. A round is one optimizer step, and the kernel
    /// contract calls it `epoch`.
    pub epoch: u32,
    /// Index of the layer in the model, counted from 0. The kernel's random numbers depend on it.
    pub layer: u32,
    /// True in training, when dropout applies. False in evaluation.
    pub training: bool,
    /// Division of the interval's rows into parts and atoms, which fixes the order of sums over
    /// rows.
    pub grid: Arc<Grid>,
    /// Global vertex ids of the rows. Random numbers are derived from these ids, so that they do
    /// not depend on how the graph is cut into intervals.
    pub row_numbers: RowNumbers,
    /// Input matrices of the layer. For `backward` they are present only if the kernel's signature
    /// requests them.
    pub inputs: Vec<M>,
    /// Output matrices of `forward`, which `backward` reads if the kernel's signature requests
    /// them. Empty in all other cases.
    pub outputs: Vec<M>,
    /// Stashed rows, which `forward` saved and `backward` reads.
    pub kept: Vec<M>,
    /// Parameters of the layer, in the order of the signature.
    pub parameters: Vec<M>,
    /// Gradients of the layer's outputs, which `backward` reads.
    pub gradients: Vec<M>,
    /// Number of outputs among the destinations of `forward`. The remaining entries of `rows_out`
    /// are stashed rows.
    pub output_count: usize,
    /// Destinations of rows. `forward` writes its outputs and then its stashed rows. `backward` and
    /// `loss` write the gradients of the inputs. An entry is `None` if its result is not needed.
    pub rows_out: Vec<Option<W>>,
    /// Destinations of sums over rows. `backward` and `loss` write the gradients of the parameters.
    /// The last sum of `loss` is the loss itself.
    pub sums_out: Vec<Target>,
    /// Target values and loss weights for the function `loss`. `None` for the other functions.
    pub labelled: Option<Labelled>,
}

impl<M, W> VertexCall<M, W> {
    /// Returns all matrices that the function reads, parameters included.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &M> {
        let rows = self.inputs.iter().chain(&self.outputs).chain(&self.kept).chain(&self.gradients);
        rows.chain(&self.parameters)
    }

    /// Converts the matrices of the call with `matrix` and its destinations with `write`. The
    /// function `write` also receives the number of rows that are written.
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

    /// Returns an error if the call has row weights but the kernel does not import the interface
    /// `given`, which provides them.
    pub(crate) fn check_row_weights(&self, kernel: &Kernel) -> Result<()> {
        match self.labelled.as_ref().and_then(|labelled| labelled.row_weights.as_ref()) {
            Some(_) => kernel.must_weigh_rows(),
            None => Ok(()),
        }
    }
}

/// Exported function of an edge kernel, which a step of a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeKind {
    /// The function `forward`. The interval's own rows are the targets of the edges.
    Forward,
    /// The function `backward-targets`. The interval's own rows are the targets of the edges.
    Targets,
    /// The function `backward-sources`. The interval's own rows are the sources of the edges.
    Sources,
}

impl EdgeKind {
    /// Returns the name of the function in the kernel contract, for instance `backward-targets`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Targets => "backward-targets",
            Self::Sources => "backward-sources",
        }
    }
}

/// Edge lists of an interval (a contiguous range of rows), one list per row. The interval's rows,
/// called own rows, have indices within the interval. The rows at the other ends of the edges have
/// indices among all rows.
pub trait EdgeLists: Send + Sync + std::fmt::Debug {
    /// Returns the rows at the other ends of the edges of row `own`, in the order of the list.
    fn others(&self, own: usize) -> &[u32];
    /// Returns the index among all rows of row `own` if the row has a self-loop, otherwise `None`.
    /// The self-loop comes after all listed edges.
    fn itself(&self, own: usize) -> Option<u32>;
    /// Returns the global vertex id of row `own`, from which random numbers are derived.
    fn own_vertex(&self, own: usize) -> u32;
    /// Returns the global vertex id of row `row` at the other end of an edge.
    fn vertex(&self, row: u32) -> u32;
    /// Returns the number of features per edge, or 0 if edges have no features or the layer does
    /// not read them.
    fn features(&self) -> usize;
    /// Writes the features of one edge of row `own` to `into`. `place` is the index of the edge in
    /// the row's list, and a self-loop has the last index.
    fn features_of(&self, own: usize, place: usize, into: &mut [f32]);
}

/// Rows at the other ends of edges, in pieces. Each piece is a range of rows with its values, and
/// the ranges are consecutive and ascending.
pub type OtherRows = Vec<(Range<usize>, ReadRows)>;

/// Arguments of an edge kernel's function. `M` is the type of a matrix or of a reference to one.
/// `W` is the type of a destination for rows or of a reference to one.
#[derive(Debug)]
pub struct EdgeCall<M = Matrix, W = Target> {
    /// Function of the kernel that is called.
    pub kind: EdgeKind,
    /// Random seed of the run, from which dropout masks are derived.
    pub seed: u64,
    /// Index of the training round, counted from 0. A round is one optimizer step, and the kernel
    /// contract calls it `epoch`.
    pub epoch: u32,
    /// Index of the layer in the model, counted from 0. The kernel's random numbers depend on it.
    pub layer: u32,
    /// True in training, when dropout applies. False in evaluation.
    pub training: bool,
    /// Division of the interval's own rows into parts and atoms, which fixes the order of sums over
    /// edges.
    pub grid: Arc<Grid>,
    /// Edge lists of the interval, one per own row.
    pub lists: Arc<dyn EdgeLists>,
    /// Rows at the other ends of the edges. These are the argument `source`, or `passed` in
    /// `backward-sources`.
    pub other: OtherRows,
    /// Matrices of the interval's own rows. `forward` reads the target rows. `backward-targets`
    /// reads target rows, stashed rows and gradients. `backward-sources` reads the source rows.
    pub own: Vec<M>,
    /// Parameters of the layer, in the order of the signature.
    pub parameters: Vec<M>,
    /// Destinations of rows. `forward` writes its output and its stashed rows. `backward-targets`
    /// writes the gradient of the target and the rows passed to the sources. `backward-sources`
    /// writes the gradient of the source.
    pub rows_out: Vec<Option<W>>,
    /// Destinations of sums over edges. Only `backward-targets` has sums, which are the gradients
    /// of the parameters.
    pub sums_out: Vec<Target>,
}

impl<M, W> EdgeCall<M, W> {
    /// Converts the matrices of the call with `matrix` and its destinations with `write`. The
    /// function `write` also receives the number of rows that are written.
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
