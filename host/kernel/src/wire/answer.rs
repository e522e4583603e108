//! Answer to a call: its outcome, durations and costs, and its rows and sums.

use eciton_tensor::frame::{Encoding, Frame, Header, Kind, PartInfo, Writer};
use eciton_tensor::half::WriteHalf;
use eciton_tensor::{Buffer, WriteRows};
use eciton_types::TaskKey;
use serde::{Deserialize, Serialize};

use super::{VERSION, at, check_version, parse_meta, wire};
use crate::call::{Call, Target};
use crate::error::{Error, GuestError, Result};
use crate::state::Finished;

const ANSWER: &str = "answer";
/// Maximum size of the log lines in an answer, in bytes. If lines are omitted, the last line
/// reports their number.
pub const MAX_LOG_BYTES: usize = 256 << 10;
/// Maximum length of each text of a failure, in bytes. Longer texts are cut.
pub const MAX_TEXT_BYTES: usize = 16 << 10;

/// Outcome of a call on a worker: success, or a failure with its cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The call succeeded, and all its results are in the answer.
    Done,
    /// The call failed. No results may be used.
    Failed(Failure),
}

/// Cause of a failed call, which determines whether a retry may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The kernel returned a typed error.
    Guest,
    /// The kernel trapped.
    Trap,
    /// The kernel broke a promise of its signature.
    Promise,
    /// The worker refused the request or the kernel. A retry gives the same result.
    Refused,
    /// The worker or its machine failed. A retry may succeed.
    Host,
}

/// Description of a failed call: cause, kernel, function and message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Cause of the failure, which determines whether a retry may help.
    pub kind: FailureKind,
    /// Kind of a typed error: `shape`, `argument`, `limit`, ... Empty for other causes.
    pub detail: String,
    /// Name of the kernel that failed.
    pub kernel: String,
    /// Function that failed: `forward`, `open`, ...
    pub place: String,
    /// Error message, cut to [`MAX_TEXT_BYTES`].
    pub message: String,
}

impl Failure {
    /// Creates a failure of the worker itself, after which a retry may succeed.
    pub fn host(place: &str, message: &str) -> Self {
        Self {
            kind: FailureKind::Host,
            detail: String::new(),
            kernel: String::new(),
            place: place.to_owned(),
            message: message.to_owned(),
        }
    }

    /// Returns the failure as an error of this crate.
    pub fn error(&self) -> Error {
        let (kernel, place, reason) = (self.kernel.clone(), self.place.clone(), self.message.clone());
        match self.kind {
            FailureKind::Guest => {
                const KINDS: [&str; 6] = ["shape", "argument", "limit", "deadline", "unsupported", "kernel"];
                let kind = KINDS.into_iter().find(|k| *k == self.detail).unwrap_or("kernel");
                Error::Guest { kernel, place, error: GuestError { kind, text: reason } }
            }
            FailureKind::Trap => Error::Trap { kernel, place, reason },
            FailureKind::Promise => Error::Promise { kernel, place, reason },
            FailureKind::Refused => Error::Wire { place, reason },
            FailureKind::Host => Error::Host { place, reason },
        }
    }

    fn bounded(&self) -> Self {
        Self {
            kind: self.kind,
            detail: cut(&self.detail),
            kernel: cut(&self.kernel),
            place: cut(&self.place),
            message: cut(&self.message),
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let text = |t: &str| t.to_owned();
        match error {
            Error::Guest { kernel, place, error } => Self {
                kind: FailureKind::Guest,
                detail: text(error.kind),
                kernel: text(kernel),
                place: text(place),
                message: text(&error.text),
            },
            Error::Trap { kernel, place, reason } | Error::Promise { kernel, place, reason } => Self {
                kind: if matches!(error, Error::Trap { .. }) {
                    FailureKind::Trap
                } else {
                    FailureKind::Promise
                },
                detail: String::new(),
                kernel: text(kernel),
                place: text(place),
                message: text(reason),
            },
            Error::Wire { place, reason } | Error::Host { place, reason } => {
                let host = Self::host(place, reason);
                let refused = matches!(error, Error::Wire { .. });
                Self { kind: if refused { FailureKind::Refused } else { FailureKind::Host }, ..host }
            }
            other => {
                let host = Self::host("worker", &other.to_string());
                let kind = if other.is_retryable() { FailureKind::Host } else { FailureKind::Refused };
                Self { kind, ..host }
            }
        }
    }
}

/// Durations of the phases of a call, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Time from the start of the process to its first event. It is 0 in later events.
    pub init_us: u64,
    /// Time to fetch the request, shared objects and kernels.
    pub fetch_us: u64,
    /// Time in the kernels, including waits for rows.
    pub compute_us: u64,
    /// Time to encode the answer as a frame.
    pub encode_us: u64,
    /// Time to send the previous answer, until the cloud service had received it. It is 0 for the
    /// first answer. An answer cannot contain its own sending time.
    pub previous_send_us: u64,
}

/// Description of the worker process that answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerInfo {
    /// Random id, drawn once per process.
    pub id: String,
    /// Process id of the worker.
    pub pid: u32,
    /// Number of events that the process has received, including this one.
    pub invocations: u64,
    /// True if the process answered an earlier event.
    pub warm: bool,
    /// Number of objects for this call that were in the worker's cache.
    pub cached_objects: u64,
    /// Number of kernels for this call that were in the worker's cache.
    pub cached_kernels: u64,
}

/// Requests to the object store that the worker made for this call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreCounts {
    /// Number of read requests.
    pub gets: u64,
    /// Number of write requests.
    pub puts: u64,
    /// Number of bytes read from the store.
    pub bytes_in: u64,
    /// Number of bytes written to the store.
    pub bytes_out: u64,
}

/// Metadata of an answer: everything but its rows and sums.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerMeta {
    /// Version of the wire format, [`VERSION`].
    pub version: u32,
    /// Task and attempt that the answer belongs to.
    pub key: TaskKey,
    /// Outcome of the call: success, or a failure with its cause.
    pub outcome: Outcome,
    /// Lines that the kernels wrote to the log.
    pub log: Vec<String>,
    /// Size of the instance's linear memory, in bytes.
    pub guest_memory_bytes: u64,
    /// Numeric class of the worker. Workers of one class compute the same bits.
    pub numeric_class: String,
    /// Durations of the phases of the call.
    pub times: Times,
    /// Description of the worker process that answered.
    pub worker: WorkerInfo,
    /// Requests to the object store that the worker made for this call.
    pub store: StoreCounts,
    /// SHA-256 digest of each slot's rows that the worker stores, if the request asks for digests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
}

impl AnswerMeta {
    /// Creates the metadata for the result of a call.
    pub fn new(key: TaskKey, result: &Result<Finished>) -> Self {
        let (outcome, log, memory) = match result {
            Ok(f) => (Outcome::Done, f.log.clone(), f.guest_memory_bytes as u64),
            Err(e) => (Outcome::Failed(Failure::from(e)), Vec::new(), 0),
        };
        Self {
            version: VERSION,
            key,
            outcome,
            log,
            guest_memory_bytes: memory,
            numeric_class: eciton_tensor::numeric_class().to_owned(),
            times: Times::default(),
            worker: WorkerInfo::default(),
            store: StoreCounts::default(),
            left: Vec::new(),
        }
    }

    /// Returns the error of a failed call, or `None` if the call succeeded.
    pub fn error(&self) -> Option<Error> {
        match &self.outcome {
            Outcome::Done => None,
            Outcome::Failed(failure) => Some(failure.error()),
        }
    }

    /// Returns the metadata with texts that are cut to the allowed length.
    pub(super) fn bounded(&self) -> Self {
        let mut log = Vec::with_capacity(self.log.len());
        let mut room = MAX_LOG_BYTES;
        for line in &self.log {
            let Some(left) = room.checked_sub(line.len() + 16) else {
                log.push(format!("({} more lines were left out)", self.log.len() - log.len()));
                break;
            };
            room = left;
            log.push(line.clone());
        }
        let outcome = match &self.outcome {
            Outcome::Done => Outcome::Done,
            Outcome::Failed(failure) => Outcome::Failed(failure.bounded()),
        };
        Self { outcome, log, ..self.clone() }
    }

    pub(super) fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| wire(ANSWER, e.to_string()))
    }
}

/// Returns the first [`MAX_TEXT_BYTES`] of a text, cut at a character boundary.
fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default().to_owned()
}

/// Encodes the answer to a request that failed, possibly before there were output buffers.
///
/// # Errors
/// Returns [`Error::Wire`] if the text does not fit into a frame.
pub fn encode_failure(meta: &AnswerMeta) -> Result<Vec<u8>> {
    Writer::new(meta.bounded().to_json()?).finish().map_err(at(ANSWER))
}

/// Complete answer to a call, whose bytes have all arrived.
#[derive(Debug)]
pub struct Answer {
    bytes: Vec<u8>,
    header: Header,
    meta: AnswerMeta,
}

impl Answer {
    /// Parses an answer.
    ///
    /// # Errors
    /// Returns [`Error::Host`] if bytes were lost or changed, and [`Error::Wire`] if the bytes are
    /// not an answer.
    pub fn parse(bytes: Vec<u8>) -> Result<Self> {
        let header = Frame::parse(&bytes).map_err(at(ANSWER))?.header().clone();
        let meta: AnswerMeta = parse_meta(ANSWER, &header.meta)?;
        check_version(ANSWER, meta.version)?;
        Ok(Self { bytes, header, meta })
    }

    /// Checks that every part has the expected shape.
    ///
    /// # Errors
    /// Returns [`Error::Wire`] with both shapes if one differs.
    pub fn check(&self, expected: &Expected) -> Result<()> {
        expected.check(&self.header.parts)
    }

    /// Checks the CRC-32 checksum of every part.
    ///
    /// # Errors
    /// Returns [`Error::Host`] if bytes were changed.
    pub fn verify(&self) -> Result<()> {
        let frame = Frame::parse(&self.bytes).map_err(at(ANSWER))?;
        (0..).zip(&self.header.parts).try_for_each(|(i, part)| {
            let place = || format!("{ANSWER}, part {i}");
            part.verify(frame.bytes(i).map_err(at(place()))?).map_err(at(place()))
        })
    }

    /// Returns the metadata of the answer.
    pub fn meta(&self) -> &AnswerMeta {
        &self.meta
    }

    /// Returns the length of the answer's frame, in bytes.
    pub fn bytes_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns true if both answers have the same bits in all values, and the same digests of
    /// stored rows.
    #[must_use]
    pub fn has_values_of(&self, other: &Self) -> bool {
        let (Ok(own), Ok(of_other)) = (Frame::parse(&self.bytes), Frame::parse(&other.bytes)) else {
            return false;
        };
        let shape = |part: &PartInfo| (part.kind, part.rows, part.columns);
        let [mine, others] = [&self.header.parts, &other.header.parts];
        self.meta.left == other.meta.left
            && mine.iter().map(shape).eq(others.iter().map(shape))
            && (0..).zip(mine).all(|(part, _)| match (own.bytes(part), of_other.bytes(part)) {
                (Ok(own), Ok(of_other)) => own == of_other,
                _ => false,
            })
    }

    /// Copies the values of the answer into the buffers of its call. Everything is checked first,
    /// so the function copies all values or none.
    ///
    /// # Errors
    /// Returns the error of the call if it failed, and [`Error::Host`] if bytes were changed.
    /// Returns [`Error::Wire`] if shapes differ or a buffer is in use.
    pub fn into_targets(self, rows_out: Vec<Target>, sums_out: Vec<Target>) -> Result<Finished> {
        if let Some(error) = self.meta.error() {
            return Err(error);
        }
        let frame = Frame::parse(&self.bytes).map_err(at(ANSWER))?;
        let mut targets: Vec<Goal> = Vec::new();
        for target in rows_out.into_iter().chain(sums_out) {
            targets.push(match target {
                Target::Rows { rows, .. } => Goal { leases: vec![rows], sums: false, rounds: None },
                Target::Half { rows, .. } => {
                    let wide = Buffer::zeroed(rows.len(), rows.columns()).map_err(at(ANSWER))?;
                    let lease = wide.write(0..rows.len()).map_err(at(ANSWER))?;
                    Goal { leases: vec![lease], sums: false, rounds: Some(rows) }
                }
                Target::Sums { parts, .. } => {
                    let leases = parts.iter().map(|p| p.write(0..p.rows()).map_err(at(ANSWER)));
                    Goal { leases: leases.collect::<Result<_>>()?, sums: true, rounds: None }
                }
            });
        }
        Expected(targets.iter().map(Goal::shape).collect()).check(&self.header.parts)?;
        self.verify()?;
        for (i, (part, to)) in self.header.parts.iter().zip(&mut targets).enumerate() {
            let place = format!("{ANSWER}, part {i}");
            let (bytes, mut first) = (frame.bytes(i as u32).map_err(at(&place))?, 0);
            for lease in &mut to.leases {
                part.copy_rows(bytes, first, &mut lease.view_mut()).map_err(at(&place))?;
                first += lease.view().rows() as u64;
            }
            if let (Some(rounds), Some(lease)) = (&mut to.rounds, to.leases.first()) {
                rounds.view_mut().round_from(lease.view()).map_err(at(&place))?;
            }
        }
        let guest_memory_bytes = usize::try_from(self.meta.guest_memory_bytes).unwrap_or(usize::MAX);
        Ok(Finished { log: self.meta.log, guest_memory_bytes, ..Finished::default() })
    }
}

/// Destination of one part of an answer: rows, or one buffer of a sum.
struct Goal {
    leases: Vec<WriteRows>,
    sums: bool,
    /// bfloat16 destination of the rows, if they are rounded.
    rounds: Option<WriteHalf>,
}

impl Goal {
    fn shape(&self) -> Shape {
        let rows = self.leases.iter().map(|lease| lease.view().rows() as u64).sum();
        let columns = self.leases.first().map_or(0, |lease| lease.view().columns());
        Shape { rows, columns: columns as u64, sums: self.sums }
    }
}

/// Shape of one part of an answer.
#[derive(Debug, Clone, Copy)]
struct Shape {
    rows: u64,
    columns: u64,
    sums: bool,
}

/// Expected shapes of the parts of an answer, in order.
#[derive(Debug, Clone)]
pub struct Expected(Vec<Shape>);

impl Expected {
    /// Computes the shapes from a call.
    #[must_use]
    pub fn new(call: &Call) -> Self {
        let shape = |target: &Target| {
            let (rows, columns) = target.shape();
            Shape { rows: rows as u64, columns: columns as u64, sums: matches!(target, Target::Sums { .. }) }
        };
        // The worker adds these sums to its parameter shard instead of returning them.
        let held = |sum: usize| call.holds.iter().any(|(at, _)| *at as usize == sum);
        let sums = call.sums().enumerate().filter(|(sum, _)| !held(*sum)).map(|(_, target)| target);
        Self(call.outs.iter().map(|(_, target)| target).chain(sums).map(shape).collect())
    }

    /// Compares the parts of an answer with the expected shapes. Sums are always f32.
    fn check(&self, parts: &[PartInfo]) -> Result<()> {
        if parts.len() != self.0.len() {
            return Err(wire(ANSWER, format!("{} parts for {} output buffers", parts.len(), self.0.len())));
        }
        for (i, (part, shape)) in parts.iter().zip(&self.0).enumerate() {
            let kind = match part.kind {
                Kind::Rows(Encoding::F32) => true,
                Kind::Rows(Encoding::Bf16) => !shape.sums,
                _ => false,
            };
            if !kind || part.rows != shape.rows || u64::from(part.columns) != shape.columns {
                let what = if shape.sums { "f32 sums" } else { "rows" };
                let (found, rows, columns) = (part.kind, part.rows, part.columns);
                let reason = format!(
                    "{found:?} of {rows} x {columns} for {what} of {} x {}",
                    shape.rows, shape.columns
                );
                return Err(wire(format!("{ANSWER}, part {i}"), reason));
            }
        }
        Ok(())
    }
}
