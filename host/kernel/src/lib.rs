//! The wasmtime host: load, check, cache, limit and run one kernel. Knows nothing of graphs.
//!
//! A [`Runtime`] holds the engine and its settings; [`Runtime::load`] turns a component into a
//! [`Kernel`], through a [`cache`] of compiled code that is authenticated with a key kept elsewhere.
//! Without the feature `compiler` there is only [`Runtime::load_artefact`], which takes an
//! [`artefact`]: code that was compiled ahead of time, elsewhere, and signed. [`Kernel::open`]
//! configures a [`Layer`] and yields its signature.
//!
//! A [`Call`] is one task: steps, each with matrices in, places to write, labels. An [`Instance`] runs
//! steps of one kernel, one at a time; it stays warm between them, loses all handles after each, and is
//! thrown away after any trap. [`Instances`] keeps one for each kernel on a thread, and runs calls.
//!
//! [`wire`] is a call as bytes and back, for kernels that run on another machine.
//!
//! What a kernel may use is bounded by [`Limits`], on its side of the wall and on the host's. A
//! guest's typed error, a trap and a fault of the host stay three things ([`Error`]).

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
    Call, CallStep, EdgeCall, EdgeKind, EdgeLists, GatherLists, GatherStep, Given, Kept, Kind, Labelled,
    Local, Operand, OtherRows, Target, Targets, VertexCall, Write,
};
pub use check::CONTRACT;
pub use edges::BLOCK_EDGES;
pub use error::{Error, GuestError, Result};
pub use instance::{Instance, Instances};
pub use limits::Limits;
pub use runtime::{Kernel, Layer, Runtime, Settings};
pub use state::{Finished, Peak, RowNumbers};

/// The generated side of the contract.
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

    /// The world of edge kernels, over the same imports.
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
