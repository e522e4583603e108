//! Edge kernels of a forward pass alone.
//!
//! ```
//! use eciton_sdk::{check, prelude::*};
//! /// y = the sum of tanh(z_u + t_v) over v's edges
//! struct Both { columns: u32 }
//! impl ForwardEdgeKernel for Both {
//!     fn attributes() -> Vec<AttributeSpec> { vec![] }
//!     fn open(source: &[u32], _: &[u32], _: u32, _: &Attributes) -> Result<Self> { Ok(Both { columns: source[0] }) }
//!     fn signature(&self) -> EdgeSignature {
//!         let row = [self.columns];
//!         EdgeSignature::new().source("z", &row).target("t", &row).output("y", &row)
//!     }
//!     fn forward<R: Real>(
//!         &self, task: &EdgeTask<'_>, z: &Matrix, t: &Matrix, _: &[&Matrix], y: &Out,
//!     ) -> Result<()> {
//!         let sum = Out::create(&z.shape())?;
//!         linalg::axpby(1.0, z, 1.0, &task.to_edges(t)?, &sum)?;
//!         let by = Prologue { bias: None, activation: Activation::Tanh, dropout: None };
//!         let tanh = Out::create(&z.shape())?;
//!         linalg::apply(&sum.finish()?, &by, &tanh)?;
//!         task.sum(&tanh.finish()?, y)
//!     }
//! }
//! // export_edge_kernel!(DerivedEdges<Both>);
//! let report = check::edge_gradients::<DerivedEdges<Both>>(&[3], &[3], 0, &[], 5, 7).unwrap();
//! assert!(report.worst < 1e-6, "{report:?}");
//! ```

use std::rc::Rc;

use crate::compose::{scratch, side_by_side};
use crate::edge::{BackwardSources, BackwardTargets, EdgeForward, EdgeKernel, EdgeSignature, EdgeTask};
use crate::handles::{Ids, Matrix, Out};
use crate::math::Real;
use crate::signature::{AttributeSpec, Attributes};
use crate::tape::{Ends, Side, Tape, Walk, fill, zeros_later};
use crate::types::Result;

use super::refs;

/// An edge kernel of a forward pass alone: [`DerivedEdges`] makes an [`EdgeKernel`] of it.
///
/// What holds for [`super::ForwardKernel`] holds here. Own rows go to edges by [`EdgeTask::to_edges`] and edges' rows to
/// own rows by [`EdgeTask::sum`], `reduce_segments` or `softmax_segments` over `task.offsets`; the lists themselves cannot
/// be read. Which operations `forward` does must not depend on `task.rows` or `task.edges`.
pub trait ForwardEdgeKernel: Sized + 'static {
    /// As [`EdgeKernel::attributes`].
    fn attributes() -> Vec<AttributeSpec>;
    /// As [`EdgeKernel::open`].
    fn open(source: &[u32], target: &[u32], features: u32, attributes: &Attributes) -> Result<Self>;
    /// Source, target, parameters and output; what is kept and passed is [`DerivedEdges`]'s to say.
    fn signature(&self) -> EdgeSignature;
    /// source [m, ..] by edge, target [n, ..] and output [n, ..] by own row; parameters as the signature lists them.
    fn forward<R: Real>(
        &self,
        task: &EdgeTask<'_>,
        source: &Matrix,
        target: &Matrix,
        parameters: &[&Matrix],
        output: &Out,
    ) -> Result<()>;
}

/// The [`EdgeKernel`] of a [`ForwardEdgeKernel`], for `export_edge_kernel!(DerivedEdges<Mine>)`.
///
/// Both halves of the backward pass run `forward` again, as far as their gradients need it. A target passes to its
/// sources all own rows that are brought to edges, and the gradient of each sum over edges. In `backward_sources` those
/// rows stand where `forward` brings own rows to edges; what it makes of own rows in between is not looked at.
#[derive(Debug)]
pub struct DerivedEdges<K> {
    kernel: K,
    /// The kernel's own.
    signature: EdgeSignature,
    /// Columns of what is known of each edge.
    features: u32,
    /// Values of a row that is passed.
    passed: u32,
}

/// A matrix of zeros.
fn zeros(rows: u32, extents: &[u32]) -> Result<Matrix> {
    scratch(&[&[rows], extents].concat(), |into| fill(into, 0.0))
}

impl<K: ForwardEdgeKernel> DerivedEdges<K> {
    /// The forward pass on a tape; the output.
    fn recorded<R: Real>(
        &self,
        tape: &Rc<Tape>,
        task: &EdgeTask<'_>,
        source: &Matrix,
        target: &Matrix,
        parameters: &[Matrix],
    ) -> Result<Matrix> {
        tape.record(|| {
            let output = Out::create(&[&[task.rows], &self.signature.output.extents[..]].concat())?;
            self.kernel.forward::<R>(task, source, target, &refs(parameters), &output)?;
            output.finish()
        })
    }

    /// Values of a row that is passed: those of a forward pass without any rows.
    fn width(&self) -> Result<u32> {
        let (offsets, owners) = (Ids::create(&[0])?, Ids::create(&[])?);
        let (offsets, owners) = (&offsets, &owners);
        let features = (self.features > 0).then(|| zeros(0, &[self.features])).transpose()?;
        let features = features.as_ref();
        let task =
            EdgeTask { training: false, epoch: 0, layer: 0, rows: 0, edges: 0, offsets, owners, features };
        let tape = Tape::new(Side::new(Ends::Dry, offsets, owners, None));
        let signature = &self.signature;
        let source = tape.input(&zeros(0, &signature.source.extents)?, true);
        let target = tape.input(&zeros(0, &signature.target.extents)?, true);
        let parameters = signature.parameters.iter();
        let parameters = parameters.map(|p| zeros(p.shape[0], &p.shape[1..]));
        let parameters = parameters.collect::<Result<Vec<Matrix>>>()?;
        let parameters: Vec<Matrix> = parameters.iter().map(|p| tape.parameter(p, true)).collect();
        self.recorded::<f32>(&tape, &task, &source, &target, &parameters)?;
        Ok(tape.side().width())
    }
}

#[cfg(target_arch = "wasm32")]
fn on_any_host<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Outside a component there may be no host yet.
#[cfg(not(target_arch = "wasm32"))]
fn on_any_host<T>(work: impl FnOnce() -> T) -> T {
    crate::reference::Reference::new(Default::default()).run(work)
}

impl<K: ForwardEdgeKernel> EdgeKernel for DerivedEdges<K> {
    fn attributes() -> Vec<AttributeSpec> {
        K::attributes()
    }

    fn open(source: &[u32], target: &[u32], features: u32, attributes: &Attributes) -> Result<Self> {
        let kernel = K::open(source, target, features, attributes)?;
        let signature = kernel.signature();
        let mut derived = Self { kernel, signature, features, passed: 0 };
        derived.passed = on_any_host(|| derived.width())?;
        Ok(derived)
    }

    fn signature(&self) -> EdgeSignature {
        EdgeSignature { kept: vec![], ..self.signature.clone() }.pass("passed", &[self.passed])
    }

    fn forward<R: Real>(&self, task: &EdgeTask<'_>, io: EdgeForward<'_>) -> Result<()> {
        self.kernel.forward::<R>(task, io.source, io.target, io.parameters, io.output)
    }

    fn backward_targets<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardTargets<'_>) -> Result<()> {
        let tape = Tape::new(Side::new(Ends::Targets, task.offsets, task.owners, None));
        let source = tape.input(io.source, false);
        let target = tape.input(io.target, io.target_gradient.is_some());
        let parameters: Vec<Matrix> = io.parameters.iter().map(|p| tape.parameter(p, true)).collect();
        let output = self.recorded::<R>(&tape, task, &source, &target, &parameters)?;
        tape.back(|| {
            let mut walk = Walk::new(&tape, &parameters, io.parameter_gradients, task.edges);
            walk.add(&output, io.gradient.shared(0));
            drop(output);
            io.target_gradient.iter().for_each(|into| walk.place(&target, into));
            walk.run()?;
            walk.write_placed()?;
            walk.reduce()?;
            let parts = tape.side().parts(walk.sums()).into_iter();
            let parts = parts.map(|(rows, values)| rows.map_or_else(|| zeros(task.rows, &[values]), Ok));
            side_by_side::<R>(&refs(&parts.collect::<Result<Vec<Matrix>>>()?), io.passed)
        })
    }

    fn backward_sources<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardSources<'_>) -> Result<()> {
        let tape = Tape::new(Side::new(Ends::Sources, task.offsets, task.owners, Some(io.passed)));
        let source = tape.input(&task.to_edges(io.source)?, true);
        let shape = [&[task.rows], &self.signature.target.extents[..]].concat();
        let target = tape.input(&zeros_later(&shape), false);
        let parameters: Vec<Matrix> = io.parameters.iter().map(|p| tape.parameter(p, false)).collect();
        self.recorded::<R>(&tape, task, &source, &target, &parameters)?;
        tape.back(|| {
            let mut walk = Walk::new(&tape, &[], &[], task.edges);
            walk.run()?;
            let sum = |by_edge: Matrix| {
                let shape = [&[task.rows], &by_edge.shape()[1..]].concat();
                scratch(&shape, |into| task.sum(&by_edge, into))
            };
            walk.write(source.node(), io.source_gradient, sum)
        })
    }
}
