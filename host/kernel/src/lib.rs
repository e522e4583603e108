//! Host of WebAssembly kernels: it loads, checks, caches, limits and runs one kernel, and knows
//! nothing of graphs.
//!
//! A [`Runtime`] holds the engine and its settings. [`Runtime::load`] turns a component into a
//! [`Kernel`]. Compiled code is stored in a [`cache`], which is authenticated with a key that lies
//! elsewhere. A build without the feature `compiler` has only [`Runtime::load_artefact`], which
//! loads an [`artefact`]: code that was compiled ahead of time on another machine, and signed.
//! [`Kernel::open`] configures a [`Layer`] and returns its signature.
//!
//! A [`Call`] is one task: a list of steps with input matrices, output buffers and labels. An
//! [`Instance`] runs steps of one kernel, one at a time. It is reused for later steps, loses all
//! handles after each step, and is dropped after a trap. [`Instances`] holds one instance per
//! kernel for a thread, and runs calls.
//!
//! [`wire`] encodes calls as bytes and decodes them, for kernels that run on another machine.
//!
//! [`Limits`] bounds the resources that a kernel uses, in the guest and on the host. [`Error`]
//! distinguishes a typed error of the guest, a trap, and a fault of the host.

pub mod artefact;
pub mod cache;
mod call;
mod check;
#[cfg(feature = "compiler")]
mod compile;
mod edges;
mod engine;
mod error;
mod imports;
mod instance;
mod lend;
mod limits;
mod log;
mod operations;
mod outs;
mod runtime;
mod secret;
#[cfg(feature = "compiler")]
mod size;
mod slots;
mod state;
pub mod trial;
pub mod wire;

pub use call::{
    CachedRows, Call, CallStep, EdgeCall, EdgeKind, EdgeLists, GatherLists, GatherStep, Given, Kind,
    Labelled, Local, Operand, OtherRows, Target, Targets, VertexCall, Write,
};
pub use check::CONTRACT;
pub use edges::BLOCK_EDGES;
pub use error::{Error, GuestError, Result};
pub use instance::{Instance, Instances};
pub use limits::Limits;
pub use runtime::{Kernel, Layer, Runtime, Settings};
pub use state::{Finished, Peak, RowNumbers};

/// Rust bindings for vertex kernels, generated from the kernel contract.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub(crate) mod bindings {
    wasmtime::component::bindgen!({
        path: "../../wit/kernel",
        world: "vertex-kernel",
        with: {
            "eciton:kernel/tensors.matrix": crate::state::MatrixHandle,
            "eciton:kernel/tensors.out": crate::state::OutHandle,
            "eciton:kernel/tensors.ids": crate::state::IdsHandle,
        },
        imports: { default: trappable },
    });

    /// Rust bindings for edge kernels, generated from the kernel contract. They share the imports
    /// of vertex kernels.
    pub(crate) mod edge {
        wasmtime::component::bindgen!({
            path: "../../wit/kernel",
            world: "edge-kernel",
            with: {
                "eciton:kernel/types": crate::bindings::eciton::kernel::types,
                "eciton:kernel/tensors": crate::bindings::eciton::kernel::tensors,
                "eciton:kernel/random": crate::bindings::eciton::kernel::random,
                "eciton:kernel/linalg": crate::bindings::eciton::kernel::linalg,
                "eciton:kernel/dense": crate::bindings::eciton::kernel::dense,
                "eciton:kernel/log": crate::bindings::eciton::kernel::log,
            },
            imports: { default: trappable },
        });
    }
}
