//! What a kernel author depends on: the contract `eciton:kernel` as plain Rust.
//!
//! A vertex kernel implements [`Kernel`] and ends with [`export_kernel!`]; an edge kernel implements
//! [`EdgeKernel`] and ends with [`export_edge_kernel!`]. Both compose the host's linear algebra
//! ([`linalg`], [`dense`]) over opaque [`Matrix`] handles and compute what is their own over tiles of rows. The
//! same source compiles
//!
//! * for `wasm32-unknown-unknown`, where every handle is a resource of the host, and
//! * natively, where handles go to a [`native::Host`]: the f64 [`reference`] of this crate, so that a
//!   kernel's tests and [`check`]s of its gradients run with a plain `cargo test`.
//!
//! Arithmetic in the guest is generic over [`Real`]: f32 in a component, f64 under a gradient check.
//!
//! ```
//! use eciton_sdk::{prelude::*, reference};
//! /// y = 2 x
//! struct Double { columns: u32 }
//! impl Kernel for Double {
//!     fn attributes() -> Vec<AttributeSpec> { vec![] }
//!     fn open(inputs: &[Vec<u32>], _: &Attributes) -> Result<Self> { Ok(Double { columns: inputs[0][0] }) }
//!     fn signature(&self) -> Signature {
//!         Signature::new().input("x", &[self.columns]).output("y", &[self.columns])
//!     }
//!     fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
//!         linalg::axpby(2.0, io.inputs[0], 0.0, io.inputs[0], io.outputs[0])
//!     }
//!     fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
//!         let Some(into) = io.input_gradients[0] else { return Ok(()) };
//!         linalg::axpby(2.0, io.gradients[0], 0.0, io.gradients[0], into)
//!     }
//! }
//! let report = eciton_sdk::check::gradients::<Double>(&[vec![3]], &[], 4, 7).unwrap();
//! assert!(report.worst < 1e-6, "{report:?}");
//! ```

#[cfg(not(target_arch = "wasm32"))]
pub mod check;
mod compose;
pub mod dense;
pub mod derive;
pub mod edge;
pub mod given;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod glue;
mod handles;
pub mod linalg;
pub mod math;
#[cfg(not(target_arch = "wasm32"))]
pub mod native;
pub mod op;
#[cfg(not(target_arch = "wasm32"))]
pub mod reference;
mod signature;
mod tape;
mod types;

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
#[allow(missing_docs, unsafe_code, unreachable_pub, clippy::all)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/kernel",
        world: "vertex-kernel",
        pub_export_macro: true,
    });
}

/// The world of edge kernels, whose imports are those of [`bindings`].
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
#[allow(missing_docs, unsafe_code, unreachable_pub, clippy::all)]
pub mod edge_bindings {
    wit_bindgen::generate!({
        path: "../../wit/kernel",
        world: "edge-kernel",
        pub_export_macro: true,
        with: {
            "eciton:kernel/types@0.1.2": crate::bindings::eciton::kernel::types,
            "eciton:kernel/tensors@0.1.2": crate::bindings::eciton::kernel::tensors,
            "eciton:kernel/random@0.1.2": crate::bindings::eciton::kernel::random,
            "eciton:kernel/linalg@0.1.2": crate::bindings::eciton::kernel::linalg,
            "eciton:kernel/dense@0.1.2": crate::bindings::eciton::kernel::dense,
            "eciton:kernel/log@0.1.2": crate::bindings::eciton::kernel::log,
        },
    });
}

pub use compose::{scratch, side_by_side};
pub use derive::{Derived, DerivedEdges, ForwardEdgeKernel, ForwardKernel};
pub use edge::{BackwardSources, BackwardTargets, EdgeForward, EdgeKernel, EdgeSignature, EdgeTask};
pub use handles::{Ids, Matrix, Out, log, random_key, row_ids};
pub use math::Real;
pub use signature::{
    AttributeSpec, Attributes, Initialiser, ParameterSpec, RowsSpec, Signature, TargetKind, Value,
};
pub use types::{
    Activation, Attention, Dropout, Epilogue, Error, Function, Prologue, Reduction, Result, RowScale, Smooth,
    Task, Windows,
};

/// All that a kernel usually needs.
pub mod prelude {
    pub use crate::{
        Activation, Attention, AttributeSpec, Attributes, Backward, BackwardSources, BackwardTargets,
        Derived, DerivedEdges, Dropout, EdgeForward, EdgeKernel, EdgeSignature, EdgeTask, Epilogue, Error,
        Forward, ForwardEdgeKernel, ForwardKernel, Function, Ids, Initialiser, Kernel, LastLayer, Matrix,
        Out, Prologue, Real, Result, RowScale, Signature, Smooth, TargetKind, Targets, Task, Value, Windows,
        dense, given, linalg, scratch, side_by_side,
    };
}

/// What `forward` works on.
#[derive(Debug, Clone, Copy)]
pub struct Forward<'a> {
    /// As the signature lists them.
    pub inputs: &'a [&'a Matrix],
    /// As the signature lists them.
    pub parameters: &'a [&'a Matrix],
    /// To be written whole.
    pub outputs: &'a [&'a Out],
    /// What `backward` gets back; to be written whole.
    pub kept: &'a [&'a Out],
}

/// What `backward` works on.
#[derive(Debug, Clone, Copy)]
pub struct Backward<'a> {
    /// Empty unless the signature asks for them.
    pub inputs: &'a [&'a Matrix],
    /// Empty unless the signature asks for them.
    pub outputs: &'a [&'a Matrix],
    /// What `forward` kept.
    pub kept: &'a [&'a Matrix],
    /// The parameters that `forward` saw.
    pub parameters: &'a [&'a Matrix],
    /// Gradients of the outputs.
    pub gradients: &'a [&'a Matrix],
    /// To be written where there is one.
    pub input_gradients: &'a [Option<&'a Out>],
    /// To be reduced into, all of them.
    pub parameter_gradients: &'a [&'a Out],
}

/// What the rows of a last layer are compared with.
#[derive(Debug, Clone, Copy)]
pub enum Targets<'a> {
    /// One class a row.
    Classes(&'a Ids),
    /// `[n, t]`; NaN is unknown and does not count.
    Values(&'a Matrix),
}

/// What `loss` works on.
#[derive(Debug, Clone, Copy)]
pub struct LastLayer<'a> {
    /// As the signature lists them.
    pub inputs: &'a [&'a Matrix],
    /// As the signature lists them.
    pub parameters: &'a [&'a Matrix],
    /// What the rows are compared with, of the signature's kind.
    pub targets: Targets<'a>,
    /// The local rows that count, ascending.
    pub rows: &'a Ids,
    /// What each of them, or each of its known values, contributes to the loss. Rows may count
    /// differently: [`given::row_weights`].
    pub weight: f32,
    /// [1]: the interval's share of the loss.
    pub loss: &'a Out,
    /// To be written where there is one.
    pub input_gradients: &'a [Option<&'a Out>],
    /// To be reduced into, all of them.
    pub parameter_gradients: &'a [&'a Out],
}

/// A vertex kernel: the tensor work of one layer over a block of rows.
pub trait Kernel: Sized + 'static {
    /// The attributes that [`Kernel::open`] takes.
    fn attributes() -> Vec<AttributeSpec>;
    /// Configures a layer. `inputs` gives the extents of one row of each input; `attributes` has
    /// every attribute of [`Kernel::attributes`], with the type of its default.
    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self>;
    /// What the layer reads, writes, learns and needs.
    fn signature(&self) -> Signature;
    /// Inputs to outputs.
    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()>;
    /// Gradients of outputs to those of inputs and parameters.
    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()>;
    /// Forward, loss and backward of a last layer in one; offered if the signature says so.
    fn loss<R: Real>(&self, task: &Task, io: LastLayer<'_>) -> Result<()> {
        let _ = (task, io);
        Err(Error::Kernel("this kernel is no last layer".to_owned()))
    }
}

/// Makes a [`Kernel`] the component's export. Natively it does nothing.
#[macro_export]
macro_rules! export_kernel {
    ($kernel:ty) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, missing_docs)]
        mod eciton_component {
            use super::*;
            type Component = $crate::glue::Glue<$kernel>;
            $crate::bindings::export!(Component with_types_in $crate::bindings);
        }
    };
}
