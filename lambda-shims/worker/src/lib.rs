//! The Lambda worker: runs kernels on frames.
//!
//! A [`Worker`] takes a function's event ([`eciton_transport::envelope`]), gets the request's frame
//! from it or from the store, runs the call ([`eciton_kernel::wire`]) on a kernel that was compiled
//! elsewhere and signed, and answers with a frame. The binary `bootstrap` is this behind Lambda's
//! Runtime API.
//!
//! ```text
//! event ─> frame: header, small parts ──────┐
//!          constants: kept, or fetched ─────┼─> compute thread: decode, kernel ─> frame ─> reply
//!          kernel: kept, package, or store ─┘        ^
//!          the large part, in a pipeline ────────────┘  (rows as they arrive)
//! ```
//!
//! Between invocations it keeps what they share ([`Settings`] says how much): the engine, kernels,
//! layers, instances, and constant objects, which are written once under their keys.
//!
//! Nothing that comes in is trusted: an event has a size, a frame must decode within the function's
//! memory, keys must be those of the request's own task and run, kernels run only if they were signed
//! by the deployment's key. What a kernel does wrong is an answer; everything else is an [`Error`],
//! whose name tells the caller whether another try may help. There is no compiler in here.

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
