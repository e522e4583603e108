//! Transport of frames through function payloads and object stores, for both ends.
//!
//! A frame (`eciton_tensor::frame`) is sent in one of two ways. A small frame is included in the
//! event or answer of the function as base64, in an [`envelope`]. A large frame is an object of a
//! [`Store`], and the envelope contains only its [`Key`]. The module [`keys`] defines the key of
//! each object of a run, so that both ends derive the same key.
//!
//! There are three stores with the same behaviour, which one test suite checks
//! (`tests/conformance.rs`). [`MemoryStore`] is for tests within a process, [`FolderStore`] for
//! tests with several processes, and [`S3Store`] for S3 and compatible services. Writes can be
//! conditional ([`Condition::IfAbsent`]): exactly one of several writers of a key succeeds. So each
//! step has only one answer. Every HTTP request is [counted](Counts), because each has a price.
//!
//! The module [`fetch`] reads a range in order while it arrives. So a kernel can process the first
//! rows while later ones are in transit.
//!
//! Only this crate, `exec` and `deploy` depend on AWS. This crate prints nothing and does not trust
//! responses: lengths, ranges and texts are checked against the request, within limits.

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
