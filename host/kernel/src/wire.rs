//! Byte format of calls and answers. A call is the payload that a worker is invoked with, and an
//! answer is the payload that it returns.
//!
//! Both are frames ([`eciton_tensor::frame`]). The metadata of a frame is JSON, a [`Request`] or an
//! [`AnswerMeta`], and its parts are the matrices. The caller writes a call with [`encode`].
//! Matrices that many calls share (weights, features) go into separate frames
//! ([`encode_matrices`]), which requests refer to by key. A worker decodes the call with
//! [`Request::into_call`], runs it, and encodes its [`OutputBuffers`] as the answer.
//! [`Answer::into_targets`] copies the complete answer into the caller's buffers, or nothing if a
//! check fails.
//!
//! ```text
//! Call ─encode─> request's frame ─Request::parse, into_call─> Call, buffers ─Instances::run─┐
//! Targets <─into_targets─ Answer <─parse─ answer's frame <─OutputBuffers::encode────────────┘
//! ```
//!
//! A request is not trusted. Everything in it is checked before it is used. The size of its data
//! and its limits bound the memory that a worker allocates. A worker reduces these limits to its
//! own ([`Request::restrict`]). Numbers are preserved exactly, because floats are written as their
//! bits. With [`Encoding::F32`] a call gives the same bits locally and remotely.

mod answer;
mod edges;
mod encoder;
mod fit;
mod output_buffers;
mod read;
mod request;
mod steps;
mod tensors;
mod text;

use serde::{Deserialize, Serialize};

pub use answer::{
    Answer, AnswerMeta, Expected, Failure, FailureKind, MAX_LOG_BYTES, MAX_TEXT_BYTES, Outcome, StoreCounts,
    Times, WorkerInfo, encode_failure,
};
pub use eciton_tensor::frame::{Decoded, Encoding};
pub use edges::EdgesRef;
pub use encoder::{encode, encode_matrices};
pub use output_buffers::{HeldSums, OutputBuffers, RowsToStore};
pub use request::{
    GridPart, KernelRef, LabelledRef, MatrixRef, Numbers, Object, Request, TargetsRef, WireLimits,
};
pub use steps::{CallRef, GatherRef, HoldRef, KeepRef, ListsRef, OutRef, SlotRef, StepRef, WriteRef};

use crate::error::Error;

/// Version of the format of requests and answers. A worker refuses requests of other versions.
pub const VERSION: u32 = 5;
/// Maximum number of matrices of one kind (for instance inputs) in a step of a request.
pub const MAX_MATRICES: usize = 512;
/// Maximum number of frames with shared matrices that a request may refer to.
pub const MAX_OBJECTS: usize = 1024;
/// Maximum number of atoms (runs of rows that are summed as one unit) in a request's grid.
pub const MAX_ATOMS: usize = 4096;
/// Maximum number of attributes of a layer in a request.
pub const MAX_ATTRIBUTES: usize = 1024;
/// Maximum length of the name of a run, a kernel or an object, in bytes.
pub const MAX_NAME_BYTES: usize = 1024;
/// Minimum size of a matrix that a worker streams, in bytes. The kernel reads the rows of such a
/// matrix while they arrive ([`Request::streamables`]).
pub const STREAM_BYTES: u64 = 256 << 10;

/// Location of a tensor, which is in the request's own frame or in a separate object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Index of the object in [`Request::objects`]. If `None`, the tensor is in the request's own
    /// frame.
    pub object: Option<u32>,
    /// Index of the tensor among the parts of that frame.
    pub part: u32,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.object {
            Some(object) => write!(f, "object {object}, part {}", self.part),
            None => write!(f, "part {}", self.part),
        }
    }
}

fn wire(place: impl Into<String>, reason: impl Into<String>) -> Error {
    Error::Wire { place: place.into(), reason: reason.into() }
}

/// Returns a function that converts an error of a frame. Missing or changed bytes become a fault of
/// the host, so that the transfer may be tried again.
fn at(place: impl Into<String>) -> impl FnOnce(eciton_tensor::Error) -> Error {
    let place = place.into();
    move |e| match e {
        eciton_tensor::Error::Damaged { .. } | eciton_tensor::Error::NotArrived { .. } => {
            Error::Host { place, reason: e.to_string() }
        }
        _ => Error::Wire { place, reason: e.to_string() },
    }
}

/// Returns the number of values in a row with these extents, or `None` if it is 2^32 or more.
fn width(extents: &[u32]) -> Option<u32> {
    extents.iter().try_fold(1u32, |n, &e| n.checked_mul(e))
}

/// Parses the JSON metadata of a frame. If that fails because of an unsupported format version, the
/// error reports the version.
fn parse_meta<'a, T: Deserialize<'a>>(place: &str, meta: &'a [u8]) -> Result<T, Error> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let parsed = serde_json::from_slice::<T>(meta);
    let version = || serde_json::from_slice::<Versioned>(meta).ok().map(|v| v.version);
    parsed.map_err(|e| match version() {
        Some(found) if found != VERSION => version_error(place, found),
        _ => wire(place, format!("its JSON cannot be parsed: {e}")),
    })
}

fn check_version(place: &str, found: u32) -> Result<(), Error> {
    if found == VERSION { Ok(()) } else { Err(version_error(place, found)) }
}

fn version_error(place: &str, found: u32) -> Error {
    let remedy = "deploy workers of the same version as the caller";
    wire(place, format!("format version {found}, but this build supports only version {VERSION}; {remedy}"))
}
