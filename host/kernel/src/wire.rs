//! Calls and answers as bytes: what a function is invoked with, and what it sends back.
//!
//! Both are frames ([`eciton_tensor::frame`]) whose meta is JSON: a [`Request`] or an
//! [`AnswerMeta`], and whose parts are the matrices. A caller writes a call with [`encode`];
//! what many calls share (weights, features) it puts into frames of its own ([`encode_matrices`]), which
//! requests name by key. A worker reads it back with [`Request::into_call`],
//! runs it, and writes its [`Places`] as the answer; [`Answer::into_targets`] copies that into the
//! caller's places, all of it or nothing.
//!
//! ```text
//! Call ─encode─> request's frame ─Request::parse, into_call─> Call + Places ─Instances::run─┐
//! Targets <─into_targets─ Answer <─parse─ answer's frame <─Places::encode───────────────────┘
//! ```
//!
//! A request is not trusted: whatever it says is checked before it is used, and what it makes a
//! worker allocate is bounded by the bytes that are there and by its limits, which the worker cuts
//! down to its own ([`Request::restrict`]). Numbers survive exactly: floats travel as their bits.
//! With [`Encoding::F32`] a call gives the same bits here and there.

mod answer;
mod edges;
mod encoder;
mod fit;
mod places;
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
pub use places::{HeldSums, KeptRows, Places};
pub use request::{
    GridPart, KernelRef, LabelledRef, MatrixRef, Numbers, Object, Request, TargetsRef, WireLimits,
};
pub use steps::{CallRef, GatherRef, HoldRef, KeepRef, ListsRef, OutRef, SlotRef, StepRef, WriteRef};

use crate::error::Error;

/// The version of requests and answers.
pub const VERSION: u32 = 5;
/// Matrices of one kind (inputs, outputs, ...) in a request.
pub const MAX_MATRICES: usize = 512;
/// Constant frames that a request names.
pub const MAX_OBJECTS: usize = 1024;
/// Atoms of a request's grid, all parts together.
pub const MAX_ATOMS: usize = 4096;
/// Attributes of a layer.
pub const MAX_ATTRIBUTES: usize = 1024;
/// Bytes of a name: a run's, a kernel's, an object's key.
pub const MAX_NAME_BYTES: usize = 1024;
/// Rows of more bytes than this are worth streaming ([`Request::streamables`]).
pub const STREAM_BYTES: u64 = 256 << 10;

/// Location of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Index into [`Request::objects`]. If `None`, the tensor is in the request's own frame.
    pub object: Option<u32>,
    /// Index of the part of that frame.
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

/// Whose fault an error of a frame is: bytes that were lost or changed may come whole next time.
fn at(place: impl Into<String>) -> impl FnOnce(eciton_tensor::Error) -> Error {
    let place = place.into();
    move |e| match e {
        eciton_tensor::Error::Damaged { .. } | eciton_tensor::Error::NotArrived { .. } => {
            Error::Host { place, reason: e.to_string() }
        }
        _ => Error::Wire { place, reason: e.to_string() },
    }
}

/// Values in a row of these extents, below 2^32.
fn width(extents: &[u32]) -> Option<u32> {
    extents.iter().try_fold(1u32, |n, &e| n.checked_mul(e))
}

/// Reads a meta; names the version where that is why it cannot be read.
fn parse_meta<'a, T: Deserialize<'a>>(place: &str, meta: &'a [u8]) -> Result<T, Error> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let parsed = serde_json::from_slice::<T>(meta);
    let version = || serde_json::from_slice::<Versioned>(meta).ok().map(|v| v.version);
    parsed.map_err(|e| match version() {
        Some(found) if found != VERSION => version_error(place, found),
        _ => wire(place, format!("its text cannot be read: {e}")),
    })
}

fn check_version(place: &str, found: u32) -> Result<(), Error> {
    if found == VERSION { Ok(()) } else { Err(version_error(place, found)) }
}

fn version_error(place: &str, found: u32) -> Error {
    let remedy = "deploy workers of the caller's own version";
    wire(place, format!("version {found}, but only {VERSION} is understood; {remedy}"))
}
