//! Answer to a call, which contains its outcome, its durations and costs, and its rows and sums.

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
/// Maximum length of each text in a [`Failure`], in bytes. Longer texts are cut.
pub const MAX_TEXT_BYTES: usize = 16 << 10;

/// Outcome of a call on a worker, which is success or a failure with its cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The call succeeded, and all its results are in the answer.
    Done,
    /// The call failed. No results may be used.
    Failed(Failure),
}

/// Cause of a failed call. It determines whether a retry can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The kernel returned a typed error.
    Guest,
    /// The kernel trapped, because of a bug or a limit.
    Trap,
    /// The kernel broke a promise of its signature.
    Promise,
    /// The worker refused the request or the kernel. A retry gives the same result.
    Refused,
    /// The worker or its machine failed. A retry may succeed.
    Host,
}

/// Description of a failed call, with its cause, the kernel, the function and a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Cause of the failure, which determines whether a retry can help.
    pub kind: FailureKind,
    /// Kind of the kernel's typed error, for instance `shape` or `argument`. Empty for other
    /// causes.
    pub detail: String,
    /// Name of the kernel that failed.
    pub kernel: String,
    /// Function of the kernel that failed, for instance `forward`.
    pub place: String,
    /// Error message, cut to [`MAX_TEXT_BYTES`].
    pub message: String,
}

impl Failure {
    /// Creates a failure of the worker itself, after which a retry may succeed. `place` names the
    /// task or request that failed.
    pub fn host(place: &str, message: &str) -> Self {
        Self {
            kind: FailureKind::Host,
            detail: String::new(),
            kernel: String::new(),
            place: place.to_owned(),
            message: message.to_owned(),
        }
    }

    /// Converts the failure to an error of this crate.
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

/// Durations of the phases of a call on a worker, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Time from the start of the process to its first event. It is 0 in later events.
    pub init_us: u64,
    /// Time to fetch the request, the shared objects and the kernels.
    pub fetch_us: u64,
    /// Time spent in kernels, including waits for rows that had not arrived.
    pub compute_us: u64,
    /// Time to encode the answer as a frame.
    pub encode_us: u64,
    /// Time to send the previous answer to the cloud service. An answer cannot contain its own
    /// sending time, so it reports that of the previous one. It is 0 for the first answer of a
    /// process.
    pub previous_send_us: u64,
}

/// Description of the worker process that sent an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerInfo {
    /// Random id that the process drew when it started.
    pub id: String,
    /// Process id of the worker in its operating system.
    pub pid: u32,
    /// Number of invocation events that the process has received, including this one.
    pub invocations: u64,
    /// True if the process had answered an earlier event.
    pub warm: bool,
    /// Number of objects for this call that were already in the worker's cache.
    pub cached_objects: u64,
    /// Number of kernels for this call that were already in the worker's cache.
    pub cached_kernels: u64,
}

/// Requests to the object store that a worker made for one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreCounts {
    /// Number of read requests.
    pub gets: u64,
    /// Number of write requests.
    pub puts: u64,
    /// Number of bytes that were read from the store.
    pub bytes_in: u64,
    /// Number of bytes that were written to the store.
    pub bytes_out: u64,
}

/// Metadata of an answer, which is everything except its rows and sums.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerMeta {
    /// Version of the wire format. It equals [`VERSION`] for answers of this build.
    pub version: u32,
    /// Task and attempt to which the answer belongs.
    pub key: TaskKey,
    /// Outcome of the call, which is success or a failure with its cause.
    pub outcome: Outcome,
    /// Lines that the kernels wrote to the log.
    pub log: Vec<String>,
    /// Size of the instance's linear memory, in bytes.
    pub guest_memory_bytes: u64,
    /// Numeric class of the worker. All workers of a numeric class compute the same bits.
    pub numeric_class: String,
    /// Durations of the phases of the call.
    pub times: Times,
    /// Description of the worker process that answered.
    pub worker: WorkerInfo,
    /// Requests to the object store that the worker made for this call.
    pub store: StoreCounts,
    /// SHA-256 digest of the rows of each slot that the worker stores. Empty unless the request
    /// asks for digests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
}

impl AnswerMeta {
    /// Creates the metadata of the answer to the task `key` from the result of the call. Durations,
    /// counts and the description of the worker are empty.
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

    /// Returns the metadata with its texts and log cut to the allowed lengths.
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

/// Encodes the answer to a request that failed. It has no rows and no sums.
///
/// # Errors
/// Returns [`Error::Wire`] if the text does not fit into a frame.
pub fn encode_failure(meta: &AnswerMeta) -> Result<Vec<u8>> {
    Writer::new(meta.bounded().to_json()?).finish().map_err(at(ANSWER))
}

/// Complete answer to a call, of which all bytes have arrived.
#[derive(Debug)]
pub struct Answer {
    bytes: Vec<u8>,
    header: Header,
    meta: AnswerMeta,
}

impl Answer {
    /// Parses the bytes of an answer, and checks the version of its format.
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

    /// Checks that the answer has the expected parts, with the expected shapes.
    ///
    /// # Errors
    /// Returns [`Error::Wire`] with both shapes if one differs.
    pub fn check(&self, expected: &Expected) -> Result<()> {
        expected.check(&self.header.parts)
    }

    /// Verifies the CRC-32 checksum of every part.
    ///
    /// # Errors
    /// Returns [`Error::Host`] if bytes were changed in transit.
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

    /// Returns true if both answers have the same bits in all values and the same digests of stored
    /// rows.
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

    /// Copies the rows and sums of the answer into the output buffers of its call. Everything is
    /// checked first, so that either all values are copied or none.
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

/// Destination of one part of an answer, which is a matrix of rows or the buffers of a sum.
struct Goal {
    leases: Vec<WriteRows>,
    sums: bool,
    /// Destination that stores the rows as bfloat16. `None` if the rows stay f32.
    rounds: Option<WriteHalf>,
}

impl Goal {
    fn shape(&self) -> Shape {
        let rows = self.leases.iter().map(|lease| lease.view().rows() as u64).sum();
        let columns = self.leases.first().map_or(0, |lease| lease.view().columns());
        Shape { rows, columns: columns as u64, sums: self.sums }
    }
}

/// Shape and kind of one part of an answer.
#[derive(Debug, Clone, Copy)]
struct Shape {
    rows: u64,
    columns: u64,
    sums: bool,
}

/// Expected shapes of the parts of an answer, in the order of the parts.
#[derive(Debug, Clone)]
pub struct Expected(Vec<Shape>);

impl Expected {
    /// Computes the expected shapes from the outputs and sums of a call.
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

    /// Compares the parts of an answer with the expected shapes. Rows may be f32 or bfloat16, but
    /// sums must be f32.
    fn check(&self, parts: &[PartInfo]) -> Result<()> {
        if parts.len() != self.0.len() {
            return Err(wire(
                ANSWER,
                format!("it has {} parts, but the call has {} output buffers", parts.len(), self.0.len()),
            ));
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
                    "it has {found:?} of {rows} x {columns}, but the call writes {what} of {} x {}",
                    shape.rows, shape.columns
                );
                return Err(wire(format!("{ANSWER}, part {i}"), reason));
            }
        }
        Ok(())
    }
}
