//! SDK for kernel authors: the contract `eciton:kernel` as plain Rust.
//!
//! A vertex kernel implements [`Kernel`] and calls [`export_kernel!`]. An edge kernel implements
//! [`EdgeKernel`] and calls [`export_edge_kernel!`]. Both combine operations of the host
//! ([`linalg`], [`dense`]) on opaque [`Matrix`] handles, and compute everything else themselves,
//! tile by tile. The same source compiles
//!
//! * for `wasm32-unknown-unknown`, where every handle is a resource of the host, and
//! * natively, where handles refer to a [`native::Host`]. This is the f64 [`reference`] of this
//!   crate, so that a kernel's tests and [`check`]s of its gradients run with a plain `cargo test`.
//!
//! Arithmetic in the guest is generic over [`Real`], which is f32 in a component and f64 under a
//! gradient check.
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

/// Bindings for the world of edge kernels. Its imports are those of [`bindings`].
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
    Activation, Dropout, Epilogue, Error, Function, Prologue, Reduction, Result, Smooth, Task, Windows,
};

/// Items that most kernels need, for a glob import.
pub mod prelude {
    pub use crate::{
        Activation, AttributeSpec, Attributes, Backward, BackwardSources, BackwardTargets, Derived,
        DerivedEdges, Dropout, EdgeForward, EdgeKernel, EdgeSignature, EdgeTask, Epilogue, Error, Forward,
        ForwardEdgeKernel, ForwardKernel, Function, Ids, Initialiser, Kernel, LastLayer, Matrix, Out,
        Prologue, Real, Result, Signature, Smooth, TargetKind, Targets, Task, Value, Windows, dense, given,
        linalg, scratch, side_by_side,
    };
}

/// Arguments of [`Kernel::forward`].
#[derive(Debug, Clone, Copy)]
pub struct Forward<'a> {
    /// Inputs, in the order of the signature.
    pub inputs: &'a [&'a Matrix],
    /// Parameters, in the order of the signature.
    pub parameters: &'a [&'a Matrix],
    /// Outputs, which must be written completely.
    pub outputs: &'a [&'a Out],
    /// Rows to stash for `backward`, which must be written completely.
    pub kept: &'a [&'a Out],
}

/// Arguments of [`Kernel::backward`].
#[derive(Debug, Clone, Copy)]
pub struct Backward<'a> {
    /// Inputs. Empty unless the signature requests them.
    pub inputs: &'a [&'a Matrix],
    /// Outputs of `forward`. Empty unless the signature requests them.
    pub outputs: &'a [&'a Matrix],
    /// Rows that `forward` stashed for this call.
    pub kept: &'a [&'a Matrix],
    /// Parameters of the layer, as in `forward`.
    pub parameters: &'a [&'a Matrix],
    /// Gradients of the outputs, one matrix per output.
    pub gradients: &'a [&'a Matrix],
    /// Gradients of the inputs. Those that are given must be written.
    pub input_gradients: &'a [Option<&'a Out>],
    /// Gradients of all parameters. Each must be written by a reduction over the rows.
    pub parameter_gradients: &'a [&'a Out],
}

/// Target values with which the rows of a last layer are compared.
#[derive(Debug, Clone, Copy)]
pub enum Targets<'a> {
    /// One class per row.
    Classes(&'a Ids),
    /// Numbers of shape `[n, t]`. NaN marks an unknown value, which does not count.
    Values(&'a Matrix),
}

/// Arguments of [`Kernel::loss`].
#[derive(Debug, Clone, Copy)]
pub struct LastLayer<'a> {
    /// Inputs, in the order of the signature.
    pub inputs: &'a [&'a Matrix],
    /// Parameters, in the order of the signature.
    pub parameters: &'a [&'a Matrix],
    /// Targets of the rows, of the kind that the signature defines.
    pub targets: Targets<'a>,
    /// Rows that count in the loss, as ascending indices within the interval.
    pub rows: &'a Ids,
    /// Weight in the loss of each counted row, or of each of its known values. Rows may have
    /// additional weights: [`given::row_weights`].
    pub weight: f32,
    /// Loss of this interval, of shape [1].
    pub loss: &'a Out,
    /// Gradients of the inputs. Those that are given must be written.
    pub input_gradients: &'a [Option<&'a Out>],
    /// Gradients of all parameters. Each must be written by a reduction over the rows.
    pub parameter_gradients: &'a [&'a Out],
}

/// Vertex kernel: the tensor computation of one layer over a block of rows.
pub trait Kernel: Sized + 'static {
    /// Returns the attributes that [`Kernel::open`] accepts.
    fn attributes() -> Vec<AttributeSpec>;
    /// Configures a layer. `inputs` lists the extents of one row of each input. `attributes` has
    /// every attribute of [`Kernel::attributes`], with the type of its default value.
    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self>;
    /// Returns the signature of the layer.
    fn signature(&self) -> Signature;
    /// Computes the outputs from the inputs.
    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()>;
    /// Computes the gradients of inputs and parameters from those of the outputs.
    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()>;
    /// Computes outputs, loss and gradients of a last layer at once. The host calls it only if the
    /// signature has a loss.
    fn loss<R: Real>(&self, task: &Task, io: LastLayer<'_>) -> Result<()> {
        let _ = (task, io);
        Err(Error::Kernel("this kernel has no loss".to_owned()))
    }
}

/// Exports a [`Kernel`] from the component. Outside of a component it does nothing.
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
