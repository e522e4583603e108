//! Lambda worker, which runs kernels on frames (binary messages).
//!
//! A [`Worker`] receives the event of a function ([`eciton_transport::envelope`]). It reads the
//! frame of the request from the event or from the object store. It runs the kernel call
//! ([`eciton_kernel::wire`]) and answers with a frame. Kernels are compiled ahead of time and
//! signed. The binary `bootstrap` runs a worker behind the Runtime API of Lambda.
//!
//! ```text
//! event ─> frame: header, small parts ──────┐
//!          objects: cached, or fetched ─────┼─> compute thread: decode, kernel ─> frame ─> reply
//!          kernel: cache, package, store ───┘        ^
//!          the large part, in a pipeline ────────────┘  (rows as they arrive)
//! ```
//!
//! Between invocations, a worker caches the engine, kernels, layers, instances and shared objects.
//! [`Settings`] contains the limits. Shared objects are written once under their keys and never
//! change.
//!
//! The worker does not trust its input. An event has a size limit, and decoded frames must fit into
//! the function's memory. Object keys must belong to the task and the run of the request. Kernels
//! run only if they are signed with the key of the deployment. An error of a kernel is part of the
//! answer. All other failures are [`Error`]s, whose names tell the caller whether a retry may
//! succeed. The worker contains no compiler.

pub mod cache;
mod caught;
mod clock;
mod compute;
pub mod error;
mod incoming;
mod names;
mod objects;
mod room;
pub mod settings;
mod task;
mod timed;
mod warm;
pub mod worker;

pub use compute::QUEUE;
pub use error::{Error, Result};
pub use incoming::HEAD_BYTES;
pub use settings::Settings;
pub use warm::{KERNELS, LAYERS};
pub use worker::Worker;
