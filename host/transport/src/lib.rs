//! Transport of frames (binary messages) between a host and functions, through function calls and
//! object stores.
//!
//! A frame (`eciton_tensor::frame`) is transferred in one of two ways. The event or the answer of a
//! function contains a small frame as base64, in an [`envelope`]. A large frame is an object of a
//! [`Store`], and the envelope contains only its [`Key`]. The module [`keys`] defines the keys of
//! all objects of a run, so that the host and the functions derive the same keys.
//!
//! There are three stores with the same behaviour, which one test suite checks
//! (`tests/suite/conformance.rs`). [`MemoryStore`] is for tests in one process, [`FolderStore`] is
//! for tests with several processes, and [`S3Store`] is for S3 and compatible services. Writes can
//! be conditional ([`Condition::IfAbsent`]), so that exactly one of several concurrent writers of a
//! key succeeds. Each step thus has only one answer. Every HTTP request is [counted](Counts),
//! because requests cost money.
//!
//! The module [`fetch`] reads a byte range in order while it arrives. A kernel can thus process the
//! first rows while later ones are in transit.
//!
//! This crate prints nothing and does not trust responses. It checks lengths, ranges and texts
//! against the request and against limits.

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
