//! Lambda worker, which runs kernels on frames.
//!
//! A [`Worker`] receives a function's event ([`eciton_transport::envelope`]) and reads the
//! request's frame from the event or from the store. It runs the call ([`eciton_kernel::wire`]) on
//! a kernel that was compiled ahead of time and signed, and answers with a frame. The binary
//! `bootstrap` is a worker behind Lambda's Runtime API.
//!
//! ```text
//! event ─> frame: header, small parts ──────┐
//!          objects: cached, or fetched ─────┼─> compute thread: decode, kernel ─> frame ─> reply
//!          kernel: cache, package, store ───┘        ^
//!          the large part, in a pipeline ────────────┘  (rows as they arrive)
//! ```
//!
//! Between invocations a worker caches what they have in common: the engine, kernels, layers,
//! instances, and shared objects. ([`Settings`] sets the limits.) Shared objects are written once
//! under their keys and never change.
//!
//! Input is not trusted. An event has a size limit, and a frame must decode within the function's
//! memory. Keys must belong to the request's own task and run. Kernels run only if they were signed
//! with the deployment's key. An error of a kernel is an answer. Everything else is an [`Error`],
//! whose name tells the caller whether a retry may help. The worker contains no compiler.

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
