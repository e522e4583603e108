//! Edge kernels. For each vertex of a block, an edge kernel computes a row. It reads the vertex's
//! edges, the rows at their other ends, and the vertex's own row.
//!
//! A task has m edges in n lists. Each list has the edges of one *own* end. The own ends are
//! targets in [`EdgeKernel::forward`] and [`EdgeKernel::backward_targets`], and sources in
//! [`EdgeKernel::backward_sources`]. There is one row per vertex for the own ends, and one row per
//! edge for the other ends. [`EdgeTask::to_edges`] and [`EdgeTask::sum`] convert between the two.
//! Gradients of parameters are reductions over the m edges.
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

/// Context of a call: the position in the run, and the relation between edges and own rows.
#[derive(Debug, Clone, Copy)]
pub struct EdgeTask<'a> {
    /// True in training, when dropout applies.
    pub training: bool,
    /// Training round (one optimizer step), from 0.
    pub epoch: u32,
    /// Index of the layer in the model, from 0.
    pub layer: u32,
    /// Number of own rows, n. They are the rows of the vertices whose edges are listed.
    pub rows: u32,
    /// Number of edges in all lists, m.
    pub edges: u32,
    /// Offsets of the own rows' edges: n + 1 ascending numbers from 0 to m.
    pub offsets: &'a Ids,
    /// Index of the own row of each edge: m ascending numbers.
    pub owners: &'a Ids,
    /// Features of each edge from the data set, [m, features]. `None` if the kernel was opened for
    /// 0 features.
    pub features: Option<&'a Matrix>,
}

impl EdgeTask<'_> {
    /// Copies own rows to edges: returns [m, ..] from x [n, ..].
    pub fn to_edges(&self, x: &Matrix) -> Result<Matrix> {
        let mut shape = x.shape();
        if let Some(rows) = shape.first_mut() {
            *rows = self.edges;
        }
        let into = Out::create(&shape)?;
        linalg::gather_rows(x, self.owners, &into)?;
        into.finish()
    }

    /// Computes into [n, ..] = the sums of x [m, ..] over the edges of each own row. A row without
    /// edges becomes zero.
    pub fn sum(&self, x: &Matrix, into: &Out) -> Result<()> {
        linalg::reduce_segments(x, self.offsets, Reduction::Sum, into)
    }
}

/// Arguments of [`EdgeKernel::forward`].
#[derive(Debug, Clone, Copy)]
pub struct EdgeForward<'a> {
    /// Rows of the sources, one per edge: [m, ..].
    pub source: &'a Matrix,
    /// Rows of the targets, one per own row: [n, ..].
    pub target: &'a Matrix,
    /// Parameters, in the order of the signature.
    pub parameters: &'a [&'a Matrix],
    /// Output, one row per own row: [n, ..]. It must be written completely.
    pub output: &'a Out,
    /// Rows to stash for `backward_targets`, one per own row: [n, ..]. They must be written
    /// completely.
    pub kept: &'a [&'a Out],
}

/// Arguments of [`EdgeKernel::backward_targets`].
#[derive(Debug, Clone, Copy)]
pub struct BackwardTargets<'a> {
    /// Rows of the sources, one per edge: [m, ..].
    pub source: &'a Matrix,
    /// Rows of the targets, one per own row: [n, ..].
    pub target: &'a Matrix,
    /// Rows that `forward` stashed, one per own row: [n, ..].
    pub kept: &'a [&'a Matrix],
    /// Parameters of the layer, as in `forward`.
    pub parameters: &'a [&'a Matrix],
    /// Gradient of the output, one row per own row: [n, ..].
    pub gradient: &'a Matrix,
    /// Gradient of the target, one row per own row: [n, ..]. It must be written if it is given.
    pub target_gradient: Option<&'a Out>,
    /// Gradients of all parameters. Each must be written by a reduction over the m edges.
    pub parameter_gradients: &'a [&'a Out],
    /// Row per own row that `backward_sources` receives for each edge: [n, ..]. It must be written
    /// completely.
    pub passed: &'a Out,
}

/// Arguments of [`EdgeKernel::backward_sources`].
#[derive(Debug, Clone, Copy)]
pub struct BackwardSources<'a> {
    /// Rows of the sources, one per own row: [n, ..].
    pub source: &'a Matrix,
    /// Rows that `backward_targets` passed, one per edge: [m, ..].
    pub passed: &'a Matrix,
    /// Parameters of the layer, as in `forward`.
    pub parameters: &'a [&'a Matrix],
    /// Gradient of the source, one row per own row: [n, ..]. It must be written completely.
    pub source_gradient: &'a Out,
}

/// Signature of an edge layer: the rows that it reads, writes and passes, and its parameters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EdgeSignature {
    /// Row of the vertex where an edge starts.
    pub source: RowsSpec,
    /// Row of the vertex where an edge ends.
    pub target: RowsSpec,
    /// Trainable parameters of the layer.
    pub parameters: Vec<ParameterSpec>,
    /// Rows that `forward` writes, one per target.
    pub output: RowsSpec,
    /// Rows that `forward` stashes for `backward_targets`, one per target.
    pub kept: Vec<RowsSpec>,
    /// Rows that `backward_targets` writes for `backward_sources`, one per target.
    pub passed: RowsSpec,
}

impl EdgeSignature {
    /// Creates an empty signature, to which rows and parameters are added.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the rows that are read of an edge's source.
    pub fn source(mut self, name: &str, extents: &[u32]) -> Self {
        self.source = RowsSpec::new(name, extents);
        self
    }

    /// Sets the rows that are read of an edge's target.
    pub fn target(mut self, name: &str, extents: &[u32]) -> Self {
        self.target = RowsSpec::new(name, extents);
        self
    }

    /// Sets the rows that `forward` writes, one per target.
    pub fn output(mut self, name: &str, extents: &[u32]) -> Self {
        self.output = RowsSpec::new(name, extents);
        self
    }

    /// Adds rows that `forward` stashes for `backward_targets`.
    pub fn keep(mut self, name: &str, extents: &[u32]) -> Self {
        self.kept.push(RowsSpec::new(name, extents));
        self
    }

    /// Sets the rows that `backward_targets` passes to `backward_sources`.
    pub fn pass(mut self, name: &str, extents: &[u32]) -> Self {
        self.passed = RowsSpec::new(name, extents);
        self
    }

    /// Adds a trainable parameter.
    pub fn parameter(mut self, name: &str, shape: &[u32], initialiser: Initialiser) -> Self {
        self.parameters.push(ParameterSpec { name: name.to_owned(), shape: shape.to_vec(), initialiser });
        self
    }
}

/// Edge kernel: the tensor computation of one layer over a block of edges.
pub trait EdgeKernel: Sized + 'static {
    /// Returns the attributes that [`EdgeKernel::open`] accepts.
    fn attributes() -> Vec<AttributeSpec>;
    /// Configures a layer. `source` and `target` are the extents of one row of each. `features` is
    /// the number of columns of [`EdgeTask::features`], or 0. `attributes` has every attribute of
    /// [`EdgeKernel::attributes`], with the type of its default value.
    fn open(source: &[u32], target: &[u32], features: u32, attributes: &Attributes) -> Result<Self>;
    /// Returns the signature of the layer.
    fn signature(&self) -> EdgeSignature;
    /// Computes the outputs from the sources and targets of edges. The own rows are targets.
    fn forward<R: Real>(&self, task: &EdgeTask<'_>, io: EdgeForward<'_>) -> Result<()>;
    /// Computes the gradients of targets and parameters from those of the outputs. The own rows are
    /// targets.
    fn backward_targets<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardTargets<'_>) -> Result<()>;
    /// Computes the gradients of sources from the rows that targets passed. The own rows are
    /// sources.
    fn backward_sources<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardSources<'_>) -> Result<()>;
}

/// Exports an [`EdgeKernel`](crate::EdgeKernel) from the component. Outside of a component it does
/// nothing.
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
