//! A request: everything about a call but its matrices' values. What it does is in [`steps`](super::steps).

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

/// A kernel by name and content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRef {
    /// For errors.
    pub name: String,
    /// SHA-256 of its component, 64 hexadecimal digits.
    pub digest: String,
}

impl KernelRef {
    /// Creates the reference to a kernel.
    pub fn new(kernel: &Kernel) -> Self {
        let digest = kernel.digest().iter().map(|b| format!("{b:02x}")).collect();
        Self { name: kernel.name().to_owned(), digest }
    }

    /// The digest's bytes.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) unless it is 64 lower-case hexadecimal digits.
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

/// A tensor, or several, outside of the frame of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Object {
    /// Name in an object store.
    Stored(String),
    /// Address of a tensor that the worker has.
    Held(TensorKey),
}

impl Object {
    pub(super) fn named(&self) -> Option<(&'static str, &String)> {
        match self {
            Self::Stored(name) => Some(("object", name)),
            Self::Held(_) => None,
        }
    }

    /// The name in an object store.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) if it is with a worker.
    pub fn stored(&self) -> Result<&str> {
        match self {
            Self::Stored(name) => Ok(name),
            Self::Held(key) => Err(wire(REQUEST, format!("{key} is no object of a store"))),
        }
    }

    /// The address, if it is with a worker.
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

/// A matrix: where it lies, and what a row of it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixRef {
    /// Location of the values.
    pub source: Source,
    /// Extents of one row; of a parameter all but the first.
    pub extents: Vec<u32>,
    /// Encoding of dense rows, `None` for sparse ones. It is a hint: the header of the frame's part
    /// decides.
    pub encoding: Option<Encoding>,
}

/// One part of a grid. Its first atom begins where the last part ends, the first part's at row 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridPart {
    /// Levels between the node and its atoms.
    pub level: u8,
    /// The row after each atom's last.
    pub ends: Vec<u32>,
    /// Number of levels that end with each atom.
    pub closes: Vec<u8>,
}

/// Global ids of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Numbers {
    /// Consecutive from here.
    From(u64),
    /// A list of ids: each number's low and high half.
    List(Source),
}

/// Targets of the loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetsRef {
    /// Ids: a class a row.
    Classes(Source),
    /// NaN where unknown.
    Values(MatrixRef),
}

/// Targets and weights of the rows, for `loss`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledRef {
    /// Target of each row.
    pub targets: TargetsRef,
    /// Ids: the local rows that count, ascending.
    pub rows: Source,
    /// Factor of each counted row, or of each of its known values.
    #[serde(with = "text::float", rename = "weight_bits")]
    pub weight: f32,
    /// Additional weight of each row, one column. If `None`, each weight is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_weights: Option<MatrixRef>,
}

/// [`Limits`] as numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireLimits {
    /// [`Limits::guest_memory_bytes`]
    pub guest_memory_bytes: u64,
    /// [`Limits::task_time`]
    pub task_time_ms: u64,
    /// [`Limits::matrix_bytes`]
    pub matrix_bytes: u64,
    /// [`Limits::handles`]
    pub handles: u32,
    /// [`Limits::call_bytes`]
    pub call_bytes: u64,
    /// [`Limits::call_work`]
    pub call_work: u64,
    /// [`Limits::arrival`]
    pub arrival_ms: u64,
    /// [`Limits::log_bytes`]
    pub log_bytes: u64,
}

impl From<&Limits> for WireLimits {
    fn from(limits: &Limits) -> Self {
        // Up, so that a limit under a millisecond does not become none at all.
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

/// One call, without the values of its matrices.
///
/// Sources of rows that lie in a slot name an object past those of the request: slot `i` is the object of number
/// `objects + i`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// [`VERSION`](super::VERSION)
    pub version: u32,
    /// The run, for keys and errors.
    pub run: String,
    /// Step and attempt, by which the host finds the answer's task.
    pub key: TaskKey,
    /// Bounds on the task.
    pub limits: WireLimits,
    /// Encoding of the answer's rows. Sums are always f32.
    pub encoding: Encoding,
    /// Tensors outside of the frame, by their number in [`Source::object`].
    pub objects: Vec<Object>,
    /// Rows that steps leave for later ones, or for the answer.
    pub slots: Vec<SlotRef>,
    /// Lists that gathers follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<ListsRef>,
    /// Steps, in order.
    pub steps: Vec<StepRef>,
    /// Rows of the answer.
    pub outs: Vec<OutRef>,
    /// Rows that stay with the worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<KeepRef>,
    /// Rows that stayed there, and that no later task reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frees: Vec<TensorKey>,
    /// Sums that the worker keeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<HoldRef>,
    /// True if the answer has a digest of the rows that stay ([`AnswerMeta::left`](super::AnswerMeta)).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub digests: bool,
}

impl Request {
    /// Reads and checks a request from its frame's meta.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) for what is no request, contradicts itself or is past a limit.
    pub fn parse(meta: &[u8]) -> Result<Self> {
        let request: Self = parse_meta(REQUEST, meta)?;
        request.check()?;
        Ok(request)
    }

    /// Cuts the limits down to what the machine at hand allows.
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

    /// Its calls of kernels, in order.
    pub fn calls(&self) -> impl Iterator<Item = &CallRef> {
        self.steps.iter().filter_map(|step| match step {
            StepRef::Kernel(call) => Some(&**call),
            StepRef::Gather(_) => None,
        })
    }

    /// Dense inputs and gradients of more than [`STREAM_BYTES`] of the only step, in a frame or an object. A
    /// worker that has kept an object may take the next one.
    pub fn streamables(&self) -> impl Iterator<Item = Source> {
        let only = match &self.steps[..] {
            // An edge kernel's rows are brought to edges in any order.
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

/// A grid as its parts.
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

/// Checks that a source is in the frame or in one of the request's objects.
pub(super) fn check_source(objects: usize, what: &str, source: Source) -> Result<()> {
    if source.object.is_some_and(|o| o as usize >= objects) {
        let reason = format!("{source} of {objects} objects");
        return Err(wire(format!("{REQUEST}, {what}"), reason));
    }
    Ok(())
}

pub(super) fn bounded(what: &str, found: usize, allowed: usize) -> Result<()> {
    if found > allowed {
        return Err(wire(REQUEST, format!("{found} {what}; {allowed} are allowed")));
    }
    Ok(())
}

/// Extents of one row: at most three, below 2^32 values.
pub(super) fn check_extents(what: &str, extents: &[u32]) -> Result<u32> {
    let columns = width(extents).filter(|_| extents.len() <= 3);
    columns.ok_or_else(|| {
        let reason = format!("extents {extents:?} of a row; up to three, below 2^32 values, are allowed");
        wire(format!("{REQUEST}, {what}"), reason)
    })
}
