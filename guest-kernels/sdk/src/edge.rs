//! Edge kernels: for each vertex of a block a row from its edges, the rows at their other ends and its own.
//!
//! A task has m edges in n lists, each the edges of one *own* end: of a target in [`EdgeKernel::forward`] and
//! [`EdgeKernel::backward_targets`], of a source in [`EdgeKernel::backward_sources`]. Rows of own ends come with
//! a row a vertex, rows of other ends with a row an edge; [`EdgeTask::to_edges`] and [`EdgeTask::sum`] go from
//! one to the other. What is reduced over rows, parameters' gradients, is reduced over the m edges.
//!
//! ```
//! use eciton_sdk::prelude::*;
//! /// The sum of the sources.
//! struct Add { columns: u32 }
//! impl EdgeKernel for Add {
//!     fn attributes() -> Vec<AttributeSpec> { vec![] }
//!     fn open(source: &[u32], _: &[u32], _: u32, _: &Attributes) -> Result<Self> { Ok(Add { columns: source[0] }) }
//!     fn signature(&self) -> EdgeSignature {
//!         let row = [self.columns];
//!         EdgeSignature::new().source("x", &row).target("t", &row).output("y", &row).pass("dy", &row)
//!     }
//!     fn forward<R: Real>(&self, task: &EdgeTask<'_>, io: EdgeForward<'_>) -> Result<()> {
//!         task.sum(io.source, io.output)
//!     }
//!     fn backward_targets<R: Real>(&self, _: &EdgeTask<'_>, io: BackwardTargets<'_>) -> Result<()> {
//!         if let Some(into) = io.target_gradient {
//!             linalg::axpby(0.0, io.target, 0.0, io.target, into)?;
//!         }
//!         linalg::axpby(1.0, io.gradient, 0.0, io.gradient, io.passed)
//!     }
//!     fn backward_sources<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardSources<'_>) -> Result<()> {
//!         task.sum(io.passed, io.source_gradient)
//!     }
//! }
//! let report = eciton_sdk::check::edge_gradients::<Add>(&[3], &[3], 0, &[], 5, 7).unwrap();
//! assert!(report.worst < 1e-6, "{report:?}");
//! ```

use crate::handles::{Ids, Matrix, Out};
use crate::linalg;
use crate::math::Real;
use crate::signature::{AttributeSpec, Attributes, Initialiser, ParameterSpec, RowsSpec};
use crate::types::{Reduction, Result};

/// What a call is part of, and how its edges and own rows belong together.
#[derive(Debug, Clone, Copy)]
pub struct EdgeTask<'a> {
    /// Whether dropout applies.
    pub training: bool,
    /// From 0.
    pub epoch: u32,
    /// From 0.
    pub layer: u32,
    /// Own rows, n.
    pub rows: u32,
    /// Edges, m.
    pub edges: u32,
    /// n + 1, from 0 to m: the bounds of each own row's edges.
    pub offsets: &'a Ids,
    /// m, ascending: the own row of each edge.
    pub owners: &'a Ids,
    /// [m, features]: what the data set says of each edge; none where the kernel was opened for 0 features.
    pub features: Option<&'a Matrix>,
}

impl EdgeTask<'_> {
    /// The own row of each edge: [m, ..] from x [n, ..].
    pub fn to_edges(&self, x: &Matrix) -> Result<Matrix> {
        let mut shape = x.shape();
        if let Some(rows) = shape.first_mut() {
            *rows = self.edges;
        }
        let into = Out::create(&shape)?;
        linalg::gather_rows(x, self.owners, &into)?;
        into.finish()
    }

    /// into [n, ..] = the sums of x [m, ..] over each own row's edges, zero where there are none.
    pub fn sum(&self, x: &Matrix, into: &Out) -> Result<()> {
        linalg::reduce_segments(x, self.offsets, Reduction::Sum, into)
    }
}

/// What `forward` works on.
#[derive(Debug, Clone, Copy)]
pub struct EdgeForward<'a> {
    /// [m, ..]: by edge.
    pub source: &'a Matrix,
    /// [n, ..]: by own row.
    pub target: &'a Matrix,
    /// As the signature lists them.
    pub parameters: &'a [&'a Matrix],
    /// [n, ..]: to be written whole.
    pub output: &'a Out,
    /// [n, ..]: what `backward_targets` gets back; to be written whole.
    pub kept: &'a [&'a Out],
}

/// What `backward_targets` works on.
#[derive(Debug, Clone, Copy)]
pub struct BackwardTargets<'a> {
    /// [m, ..]: by edge.
    pub source: &'a Matrix,
    /// [n, ..]: by own row.
    pub target: &'a Matrix,
    /// [n, ..]: what `forward` kept.
    pub kept: &'a [&'a Matrix],
    /// The parameters that `forward` saw.
    pub parameters: &'a [&'a Matrix],
    /// [n, ..]: of the output.
    pub gradient: &'a Matrix,
    /// [n, ..]: to be written where there is one.
    pub target_gradient: Option<&'a Out>,
    /// To be reduced into over the m edges, all of them.
    pub parameter_gradients: &'a [&'a Out],
    /// [n, ..]: what `backward_sources` gets, a row for each edge; to be written whole.
    pub passed: &'a Out,
}

/// What `backward_sources` works on.
#[derive(Debug, Clone, Copy)]
pub struct BackwardSources<'a> {
    /// [n, ..]: by own row.
    pub source: &'a Matrix,
    /// [m, ..]: by edge, what `backward_targets` passed.
    pub passed: &'a Matrix,
    /// The parameters that `forward` saw.
    pub parameters: &'a [&'a Matrix],
    /// [n, ..]: to be written whole.
    pub source_gradient: &'a Out,
}

/// What an edge layer reads, writes, learns and passes on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EdgeSignature {
    /// Of the vertex where an edge starts.
    pub source: RowsSpec,
    /// Of the vertex where it ends.
    pub target: RowsSpec,
    /// Learned.
    pub parameters: Vec<ParameterSpec>,
    /// Written by forward, by target.
    pub output: RowsSpec,
    /// Written by forward for `backward_targets`, by target.
    pub kept: Vec<RowsSpec>,
    /// Written by `backward_targets` for `backward_sources`, by target.
    pub passed: RowsSpec,
}

impl EdgeSignature {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is read of an edge's source.
    pub fn source(mut self, name: &str, extents: &[u32]) -> Self {
        self.source = RowsSpec::new(name, extents);
        self
    }

    /// What is read of an edge's target.
    pub fn target(mut self, name: &str, extents: &[u32]) -> Self {
        self.target = RowsSpec::new(name, extents);
        self
    }

    /// The output.
    pub fn output(mut self, name: &str, extents: &[u32]) -> Self {
        self.output = RowsSpec::new(name, extents);
        self
    }

    /// Adds rows that `forward` keeps for `backward_targets`.
    pub fn keep(mut self, name: &str, extents: &[u32]) -> Self {
        self.kept.push(RowsSpec::new(name, extents));
        self
    }

    /// The rows that `backward_targets` passes to `backward_sources`.
    pub fn pass(mut self, name: &str, extents: &[u32]) -> Self {
        self.passed = RowsSpec::new(name, extents);
        self
    }

    /// Adds a parameter.
    pub fn parameter(mut self, name: &str, shape: &[u32], initialiser: Initialiser) -> Self {
        self.parameters.push(ParameterSpec { name: name.to_owned(), shape: shape.to_vec(), initialiser });
        self
    }
}

/// An edge kernel: the tensor work of one layer over a block of edges.
pub trait EdgeKernel: Sized + 'static {
    /// The attributes that [`EdgeKernel::open`] takes.
    fn attributes() -> Vec<AttributeSpec>;
    /// Configures a layer. `source` and `target` give the extents of one row of each, `features` the columns of
    /// [`EdgeTask::features`], 0 for none; `attributes` has every attribute of [`EdgeKernel::attributes`], with the
    /// type of its default.
    fn open(source: &[u32], target: &[u32], features: u32, attributes: &Attributes) -> Result<Self>;
    /// What the layer reads, writes, learns and passes on.
    fn signature(&self) -> EdgeSignature;
    /// Sources by edge and targets to outputs; own rows are targets.
    fn forward<R: Real>(&self, task: &EdgeTask<'_>, io: EdgeForward<'_>) -> Result<()>;
    /// Gradients of outputs to those of targets and parameters; own rows are targets.
    fn backward_targets<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardTargets<'_>) -> Result<()>;
    /// What targets passed to gradients of sources; own rows are sources.
    fn backward_sources<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardSources<'_>) -> Result<()>;
}

/// Makes an [`EdgeKernel`](crate::EdgeKernel) the component's export. Natively it does nothing.
#[macro_export]
macro_rules! export_edge_kernel {
    ($kernel:ty) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, missing_docs)]
        mod eciton_component {
            use super::*;
            type Component = $crate::glue::edge::Glue<$kernel>;
            $crate::edge_bindings::export!(Component with_types_in $crate::edge_bindings);
        }
    };
}
