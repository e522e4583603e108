//! One task: what a kernel is called with.

use std::sync::Arc;

use crate::edges::EdgeCall;
use crate::error::Result;
use crate::runtime::Kernel;
use crate::span::SpanCall;
use eciton_tensor::half::WriteHalf;
use eciton_tensor::{Buffer, Grid, Matrix, WriteRows};

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

/// A task of either kind of kernel.
#[derive(Debug)]
pub enum AnyCall {
    /// Of a vertex kernel.
    Rows(Box<Call>),
    /// Of an edge kernel.
    Edges(Box<EdgeCall>),
    /// Several of vertex kernels, with gathers between them.
    Span(Box<SpanCall>),
}

impl From<SpanCall> for AnyCall {
    fn from(span: SpanCall) -> Self {
        Self::Span(Box::new(span))
    }
}

impl From<Call> for AnyCall {
    fn from(call: Call) -> Self {
        Self::Rows(Box::new(call))
    }
}

impl From<EdgeCall> for AnyCall {
    fn from(call: EdgeCall) -> Self {
        Self::Edges(Box::new(call))
    }
}

/// What both kinds of calls say alike.
pub(crate) struct Common<'a> {
    pub(crate) seed: u64,
    pub(crate) epoch: u32,
    pub(crate) layer: u32,
    pub(crate) training: bool,
    pub(crate) grid: &'a Grid,
    pub(crate) rows_out: &'a [Option<Target>],
    pub(crate) sums_out: &'a [Target],
}

macro_rules! common {
    ($call:expr) => {{
        let call = $call;
        let (seed, epoch, layer, training) = (call.seed, call.epoch, call.layer, call.training);
        let (grid, rows_out, sums_out) = (&*call.grid, &call.rows_out[..], &call.sums_out[..]);
        Common { seed, epoch, layer, training, grid, rows_out, sums_out }
    }};
}

impl Call {
    pub(crate) fn common(&self) -> Common<'_> {
        common!(self)
    }
}

impl EdgeCall {
    pub(crate) fn common(&self) -> Common<'_> {
        common!(self)
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

/// One task.
#[derive(Debug)]
pub struct Call {
    /// Which function.
    pub kind: Kind,
    /// The run's seed.
    pub seed: u64,
    /// From 0.
    pub epoch: u32,
    /// The layer's number for the kernel and its random numbers, from 0.
    pub layer: u32,
    /// Whether dropout applies.
    pub training: bool,
    /// The parts in which sums over rows are delivered; covers the interval's rows.
    pub grid: Arc<Grid>,
    /// What random numbers are addressed by.
    pub row_numbers: RowNumbers,
    /// Forward inputs (in backward: if the signature needs them).
    pub inputs: Vec<Matrix>,
    /// Forward outputs, in backward if the signature needs them.
    pub outputs: Vec<Matrix>,
    /// What forward kept, in backward.
    pub kept: Vec<Matrix>,
    /// In the signature's order; each with its own extents.
    pub parameters: Vec<Matrix>,
    /// Gradients of the outputs, in backward.
    pub gradients: Vec<Matrix>,
    /// How many of `rows_out` are outputs, in forward.
    pub output_count: usize,
    /// forward: outputs, then kept. backward and loss: gradients of the inputs.
    pub rows_out: Vec<Option<Target>>,
    /// backward and loss: gradients of the parameters; loss: then the loss itself.
    pub sums_out: Vec<Target>,
    /// For `loss`.
    pub labelled: Option<Labelled>,
}

impl Call {
    /// Refuses rows that do not count alike for a kernel that cannot ask.
    pub(crate) fn check_row_weights(&self, kernel: &Kernel) -> Result<()> {
        match self.labelled.as_ref().and_then(|labelled| labelled.row_weights.as_ref()) {
            Some(_) => kernel.must_weigh_rows(),
            None => Ok(()),
        }
    }
}
