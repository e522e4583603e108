//! Request, which describes a call without the values of its matrices. The module
//! [`steps`](super::steps) contains its steps.

use std::time::Duration;

use eciton_tensor::frame::Encoding;
use eciton_tensor::{Grid, Part};
use eciton_types::{TaskKey, TensorKey};
use serde::{Deserialize, Serialize};

use super::steps::{CallRef, HoldRef, KeepRef, ListsRef, OutRef, SlotRef, StepRef};
use super::{STREAM_BYTES, Source, parse_meta, text, width, wire};
use crate::error::Result;
use crate::limits::Limits;
use crate::runtime::Kernel;

pub(super) const REQUEST: &str = "request";

/// Reference to a kernel by its name and the digest of its component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRef {
    /// Name of the kernel, which error messages contain.
    pub name: String,
    /// SHA-256 digest of the kernel's component, as 64 hexadecimal digits.
    pub digest: String,
}

impl KernelRef {
    /// Creates a reference to the kernel `kernel`.
    pub fn new(kernel: &Kernel) -> Self {
        let digest = kernel.digest().iter().map(|b| format!("{b:02x}")).collect();
        Self { name: kernel.name().to_owned(), digest }
    }

    /// Parses the digest of the kernel's component.
    ///
    /// # Errors
    /// Returns [`Error::Wire`](crate::Error::Wire) unless the digest has 64 lower-case hexadecimal
    /// digits.
    pub fn digest_bytes(&self) -> Result<[u8; 32]> {
        let refuse = || wire(REQUEST, "a kernel's digest is 64 hexadecimal digits, lower case");
        let nibble = |c: u8| match c {
            b'0'..=b'9' => Some(c - b'0'),
            b'a'..=b'f' => Some(c - b'a' + 10),
            _ => None,
        };
        let (pairs, []) = self.digest.as_bytes().as_chunks::<2>() else { return Err(refuse()) };
        let bytes: Option<Vec<u8>> =
            pairs.iter().map(|&[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect();
        bytes.and_then(|b| b.try_into().ok()).ok_or_else(refuse)
    }
}

/// Location of tensors outside of the request's own frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Object {
    /// A frame in an object store, by its key.
    Stored(String),
    /// A tensor in the memory of the worker, by its key.
    Held(TensorKey),
}

impl Object {
    pub(super) fn named(&self) -> Option<(&'static str, &String)> {
        match self {
            Self::Stored(name) => Some(("object", name)),
            Self::Held(_) => None,
        }
    }

    /// Returns the key of the frame in an object store.
    ///
    /// # Errors
    /// Returns [`Error::Wire`](crate::Error::Wire) if a worker holds the tensor.
    pub fn stored(&self) -> Result<&str> {
        match self {
            Self::Stored(name) => Ok(name),
            Self::Held(key) => {
                Err(wire(REQUEST, format!("{key} is in a worker's memory, not in an object store")))
            }
        }
    }

    /// Returns the key of the tensor if a worker holds it, otherwise `None`.
    #[must_use]
    pub const fn held(&self) -> Option<TensorKey> {
        match self {
            Self::Stored(_) => None,
            Self::Held(key) => Some(*key),
        }
    }
}

impl From<String> for Object {
    fn from(name: String) -> Self {
        Self::Stored(name)
    }
}

impl From<TensorKey> for Object {
    fn from(key: TensorKey) -> Self {
        Self::Held(key)
    }
}

/// Reference to a matrix, which gives the location of its values and the shape of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixRef {
    /// Location of the values.
    pub source: Source,
    /// Extents of one row. For a parameter, these are all extents except the first.
    pub extents: Vec<u32>,
    /// Expected encoding of dense rows, or `None` for sparse rows. If the header of the frame's
    /// part gives another encoding, the header is right.
    pub encoding: Option<Encoding>,
}

/// Part of a grid, which is a list of consecutive atoms (runs of rows that are summed as one unit).
/// The first part starts at row 0, and each further part at the end of the previous one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridPart {
    /// Number of levels of the summation tree between the part's node and its atoms.
    pub level: u8,
    /// End of each atom, which is one past its last row.
    pub ends: Vec<u32>,
    /// Number of levels of the summation tree that end with each atom.
    pub closes: Vec<u8>,
}

/// Global vertex ids of the rows of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Numbers {
    /// Consecutive ids, of which this is the first.
    From(u64),
    /// Location of a list of ids. Each 64-bit id is stored as its low and its high 32-bit half.
    List(Source),
}

/// Target values with which the loss compares the model's outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetsRef {
    /// Location of a list with the class index of each row.
    Classes(Source),
    /// Matrix with the target numbers of each row. NaN marks an unknown value.
    Values(MatrixRef),
}

/// Target values and loss weights of rows, which are arguments of the function `loss`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledRef {
    /// Target values of all rows.
    pub targets: TargetsRef,
    /// Location of the list of rows that count in the loss, as ascending indices.
    pub rows: Source,
    /// Loss weight of each row that counts. If targets are numbers, it is the weight of each known
    /// value.
    #[serde(with = "text::float", rename = "weight_bits")]
    pub weight: f32,
    /// Additional loss factor of each row, as a matrix with one column. If `None`, every factor is
    /// 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_weights: Option<MatrixRef>,
}

/// Resource limits of a task, as they are sent to a worker. The fields correspond to [`Limits`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireLimits {
    /// Maximum size of the linear memory, in bytes ([`Limits::guest_memory_bytes`]).
    pub guest_memory_bytes: u64,
    /// Maximum time in guest code, in milliseconds ([`Limits::task_time`]).
    pub task_time_ms: u64,
    /// Maximum memory for scratch matrices, in bytes ([`Limits::matrix_bytes`]).
    pub matrix_bytes: u64,
    /// Maximum number of handles at the same time ([`Limits::handles`]).
    pub handles: u32,
    /// Maximum number of bytes that one host call copies ([`Limits::call_bytes`]).
    pub call_bytes: u64,
    /// Maximum number of multiply-add operations in one host call ([`Limits::call_work`]).
    pub call_work: u64,
    /// Maximum time to wait for rows, in milliseconds ([`Limits::arrival`]).
    pub arrival_ms: u64,
    /// Maximum size of the log, in bytes ([`Limits::log_bytes`]).
    pub log_bytes: u64,
}

impl From<&Limits> for WireLimits {
    fn from(limits: &Limits) -> Self {
        // Times are rounded up, so that a limit below one millisecond does not become zero.
        let ms = |d: Duration| u64::try_from(d.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Self {
            guest_memory_bytes: limits.guest_memory_bytes,
            task_time_ms: ms(limits.task_time),
            matrix_bytes: limits.matrix_bytes,
            handles: limits.handles,
            call_bytes: limits.call_bytes,
            call_work: limits.call_work,
            arrival_ms: ms(limits.arrival),
            log_bytes: limits.log_bytes,
        }
    }
}

impl From<&WireLimits> for Limits {
    fn from(limits: &WireLimits) -> Self {
        Self {
            guest_memory_bytes: limits.guest_memory_bytes,
            task_time: Duration::from_millis(limits.task_time_ms),
            matrix_bytes: limits.matrix_bytes,
            handles: limits.handles,
            call_bytes: limits.call_bytes,
            call_work: limits.call_work,
            arrival: Duration::from_millis(limits.arrival_ms),
            log_bytes: limits.log_bytes,
        }
    }
}

/// Description of one call, without the values of its matrices. It is the metadata of a request's
/// frame.
///
/// Objects are numbered in one sequence: first the objects of the request, then its slots. A
/// [`Source`] with object number `objects + i` refers to slot `i`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Version of the wire format, [`VERSION`](super::VERSION).
    pub version: u32,
    /// Name of the run, which is part of object keys and error messages.
    pub run: String,
    /// Task and attempt of the call. The host uses this key to match the answer to its task.
    pub key: TaskKey,
    /// Resource limits of the task, which a worker may reduce.
    pub limits: WireLimits,
    /// Encoding of the rows in the answer. Sums are always f32.
    pub encoding: Encoding,
    /// Objects outside of the request's frame. [`Source::object`] is an index into this list.
    pub objects: Vec<Object>,
    /// Slots, which are buffers for rows that a step passes to later steps or to the answer.
    pub slots: Vec<SlotRef>,
    /// Adjacency lists over which gather steps sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<ListsRef>,
    /// Steps, in the order in which they run.
    pub steps: Vec<StepRef>,
    /// Slots whose rows the answer contains.
    pub outs: Vec<OutRef>,
    /// Slots whose rows the worker stores after the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<KeepRef>,
    /// Keys of stored rows that the worker may delete, because no later call reads them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frees: Vec<TensorKey>,
    /// Gradient sums that the worker stores instead of returning them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<HoldRef>,
    /// True if the answer must contain digests of the stored rows
    /// ([`AnswerMeta::left`](super::AnswerMeta)).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub digests: bool,
}

impl Request {
    /// Parses the metadata of a request's frame, and checks the request.
    ///
    /// # Errors
    /// Returns [`Error::Wire`](crate::Error::Wire) if the metadata is not a request, is
    /// inconsistent, or exceeds a limit.
    pub fn parse(meta: &[u8]) -> Result<Self> {
        let request: Self = parse_meta(REQUEST, meta)?;
        request.check()?;
        Ok(request)
    }

    /// Reduces the limits of the request to the limits `ceiling` of this worker.
    pub fn restrict(&mut self, ceiling: &Limits) {
        let (own, most) = (&mut self.limits, WireLimits::from(ceiling));
        own.guest_memory_bytes = own.guest_memory_bytes.min(most.guest_memory_bytes);
        own.task_time_ms = own.task_time_ms.min(most.task_time_ms);
        own.matrix_bytes = own.matrix_bytes.min(most.matrix_bytes);
        own.handles = own.handles.min(most.handles);
        own.call_bytes = own.call_bytes.min(most.call_bytes);
        own.call_work = own.call_work.min(most.call_work);
        own.arrival_ms = own.arrival_ms.min(most.arrival_ms);
        own.log_bytes = own.log_bytes.min(most.log_bytes);
    }

    /// Returns the steps that call kernels, in order.
    pub fn calls(&self) -> impl Iterator<Item = &CallRef> {
        self.steps.iter().filter_map(|step| match step {
            StepRef::Kernel(call) => Some(&**call),
            StepRef::Gather(_) => None,
        })
    }

    /// Returns the matrices that a worker may stream to the kernel. They are the dense inputs and
    /// gradients with more than [`STREAM_BYTES`] in a request with a single step. If the first of
    /// them is in the worker's cache, the next one may be streamed.
    pub fn streamables(&self) -> impl Iterator<Item = Source> {
        let only = match &self.steps[..] {
            // An edge kernel reads rows in arbitrary order, so they cannot be streamed.
            [StepRef::Kernel(call)] if call.edges.is_none() => Some(call),
            _ => None,
        };
        let large = |rows: u64, m: &MatrixRef| {
            let (Some(encoding), Some(columns)) = (m.encoding, width(&m.extents)) else { return false };
            rows.saturating_mul(encoding.row_bytes(columns as usize) as u64) > STREAM_BYTES
        };
        let rows = |call: &CallRef| call.rows();
        only.into_iter().flat_map(move |call| {
            let all = call.inputs.iter().chain(&call.gradients);
            all.filter(move |m| large(rows(call), m)).map(|m| m.source)
        })
    }
}

/// Converts a grid to the parts that a request contains.
pub(super) fn grid_parts(grid: &Grid) -> Result<Vec<GridPart>> {
    if !grid.is_consecutive() {
        return Err(wire(REQUEST, "a grid's atoms must follow each other from row 0"));
    }
    let part = |p: &Part| GridPart {
        level: p.level,
        ends: p.atoms.iter().map(|a| a.rows.end).collect(),
        closes: p.atoms.iter().map(|a| a.closes).collect(),
    };
    Ok(grid.parts().iter().map(part).collect())
}

/// Checks that the location `source` is in the request's frame or in one of its `objects` objects.
pub(super) fn check_source(objects: usize, what: &str, source: Source) -> Result<()> {
    if source.object.is_some_and(|o| o as usize >= objects) {
        let reason = format!("{source} does not exist; the request has {objects} objects");
        return Err(wire(format!("{REQUEST}, {what}"), reason));
    }
    Ok(())
}

pub(super) fn bounded(what: &str, found: usize, allowed: usize) -> Result<()> {
    if found > allowed {
        return Err(wire(REQUEST, format!("it has {found} {what}, but the maximum is {allowed}")));
    }
    Ok(())
}

/// Returns the number of values in a row. Returns an error for more than three extents, and for
/// 2^32 or more values.
pub(super) fn check_extents(what: &str, extents: &[u32]) -> Result<u32> {
    let columns = width(extents).filter(|_| extents.len() <= 3);
    columns.ok_or_else(|| {
        let reason = format!("a row has the extents {extents:?}, but must have at most three extents and fewer than 2^32 values");
        wire(format!("{REQUEST}, {what}"), reason)
    })
}
