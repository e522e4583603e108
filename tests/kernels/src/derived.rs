//! The plain forms with derived gradients.

use eciton_sdk::Attributes;
use eciton_sdk::prelude::*;

/// `linear`'s forward pass.
#[cfg(not(feature = "edges"))]
#[derive(Debug)]
pub struct Linear(crate::Linear);

#[cfg(not(feature = "edges"))]
impl ForwardKernel for Linear {
    fn attributes() -> Vec<AttributeSpec> {
        crate::Linear::attributes()
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        crate::Linear::open(inputs, attributes).map(Self)
    }

    fn signature(&self) -> Signature {
        self.0.signature()
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        self.0.plain(&io, io.outputs[0])
    }
}

#[cfg(not(feature = "edges"))]
eciton_sdk::export_kernel!(Derived<Linear>);

/// The edge kernel's forward pass.
#[cfg(feature = "edges")]
#[derive(Debug)]
pub struct Along(crate::edges::Along);

#[cfg(feature = "edges")]
impl ForwardEdgeKernel for Along {
    fn attributes() -> Vec<AttributeSpec> {
        crate::edges::Along::attributes()
    }

    fn open(source: &[u32], target: &[u32], known: u32, attributes: &Attributes) -> Result<Self> {
        crate::edges::Along::open(source, target, known, attributes).map(Self)
    }

    fn signature(&self) -> EdgeSignature {
        self.0.signature()
    }

    fn forward<R: Real>(
        &self,
        task: &EdgeTask<'_>,
        source: &Matrix,
        _: &Matrix,
        parameters: &[&Matrix],
        output: &Out,
    ) -> Result<()> {
        task.sum(&crate::edges::weighted(source, parameters[0])?, output)
    }
}

#[cfg(feature = "edges")]
eciton_sdk::export_edge_kernel!(DerivedEdges<Along>);
