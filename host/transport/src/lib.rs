//! Frames over payload and object stores, both ends.
//!
//! A frame (`eciton_tensor::frame`) travels in one of two ways. Small ones ride in the function's
//! event and answer as base64: the [`envelope`]. Large ones are objects of a [`Store`], and the
//! envelope carries their [`Key`] only. [`keys`] says where each object of a run lies, so that two
//! ends agree on a name without telling each other.
//!
//! Three stores keep one contract, and one suite of tests (`tests/conformance.rs`) holds them to it:
//! [`MemoryStore`] for tests within a process, [`FolderStore`] for tests between processes, and
//! [`S3Store`] for the real thing and everything that speaks its protocol. Writes can be conditional
//! ([`Condition::IfAbsent`]): of many writers of a key exactly one wins, which is what makes the first
//! answer of a step the only one. Every HTTP request is [counted](Counts), because each has a price.
//!
//! [`fetch`] reads a range in order while it is still coming, so that a kernel computes on the first
//! rows while the next ones are on their way.
//!
//! Only this crate, `exec` and `deploy` know AWS. Nothing here prints, and nothing here trusts
//! what comes back: lengths, ranges and texts are checked against what was asked for, within limits.

pub mod envelope;
pub mod error;
pub mod fetch;
pub mod folder;
pub mod key;
pub mod keys;
pub mod memory;
#[cfg(feature = "aws")]
pub mod s3;
pub mod store;

pub use envelope::{Carrier, INLINE_FRAME_BYTES, Invocation, Reply, SYNC_PAYLOAD_BYTES};
pub use error::{Error, Result};
pub use fetch::{Pipeline, Traffic, read_ranges, read_streamed};
pub use folder::FolderStore;
pub use key::Key;
pub use memory::MemoryStore;
#[cfg(feature = "aws")]
pub use s3::{Credentials, S3Settings, S3Store, Secret};
pub use store::{Condition, Counts, Pending, Sink, Store, Stored, put_requests};
