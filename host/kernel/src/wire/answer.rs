//! An answer: how a call ended, what it cost, and its rows and sums.

use eciton_plan::TaskKey;
use eciton_tensor::frame::{Encoding, Frame, Header, Kind, PartInfo, Writer};
use eciton_tensor::half::WriteHalf;
use eciton_tensor::{Buffer, WriteRows};
use serde::{Deserialize, Serialize};

use super::{VERSION, at, check_version, parse_meta, wire};
use crate::call::Target;
use crate::error::{Error, GuestError, Result};
use crate::instance::Finished;

const ANSWER: &str = "answer";
/// Bytes of log lines that travel with an answer; the last line says what was left out.
pub const MAX_LOG_BYTES: usize = 256 << 10;
/// Bytes of each text of a failure; longer ones are cut.
pub const MAX_TEXT_BYTES: usize = 16 << 10;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Everything was written.
    Done,
    /// Nothing of its output may be used.
    Failed(Failure),
}

/// Whose fault a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The kernel answered with a typed error.
    Guest,
    /// It trapped.
    Trap,
    /// It broke a promise of its signature.
    Promise,
    /// The worker refused the request or the kernel; it would again.
    Refused,
    /// The worker's own: may be tried again.
    Host,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Whose fault it is.
    pub kind: FailureKind,
    /// Of a guest's error: `shape`, `argument`, `limit`, ...
    pub detail: String,
    /// The kernel.
    pub kernel: String,
    /// Where: `forward`, `open`, ...
    pub place: String,
    /// What.
    pub message: String,
}

impl Failure {
    /// A failure of the worker's own, which may be tried again.
    pub fn host(place: &str, message: &str) -> Self {
        Self {
            kind: FailureKind::Host,
            detail: String::new(),
            kernel: String::new(),
            place: place.to_owned(),
            message: message.to_owned(),
        }
    }

    /// The error that it was.
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

/// Where the time went, microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Start of the process until it took its first event; 0 in later ones.
    pub init_us: u64,
    /// Getting the request, constants and the kernel.
    pub fetch_us: u64,
    /// In the kernel.
    pub compute_us: u64,
    /// Writing the answer.
    pub encode_us: u64,
    /// Sending the answer before this one, from when it was whole to when the service had taken it;
    /// 0: there was none. An answer cannot know its own.
    pub previous_send_us: u64,
}

/// Who answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerInfo {
    /// Drawn once a process.
    pub id: String,
    /// Its process.
    pub pid: u32,
    /// How many events it has taken, this one included.
    pub invocations: u64,
    /// Whether it had answered before.
    pub warm: bool,
    /// Constant objects of this call that it had kept.
    pub cached_objects: u64,
    /// Kernels of this call that it had kept.
    pub cached_kernels: u64,
}

/// Requests to the store for this call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreCounts {
    /// Reads.
    pub gets: u64,
    /// Writes.
    pub puts: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
}

/// Everything about an answer but its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerMeta {
    /// [`VERSION`]
    pub version: u32,
    /// Which attempt of which step.
    pub key: TaskKey,
    /// How it ended.
    pub outcome: Outcome,
    /// Lines that the kernel logged.
    pub log: Vec<String>,
    /// Linear memory that its instance has grown to.
    pub guest_memory_bytes: u64,
    /// The worker's numeric class.
    pub numeric_class: String,
    /// Where the time went.
    pub times: Times,
    /// Who answered.
    pub worker: WorkerInfo,
    /// What was asked of the store.
    pub store: StoreCounts,
}

impl AnswerMeta {
    /// The answer of a call that came to its end, or did not.
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
        }
    }

    /// The error of a call that failed.
    pub fn error(&self) -> Option<Error> {
        match &self.outcome {
            Outcome::Done => None,
            Outcome::Failed(failure) => Some(failure.error()),
        }
    }

    /// The same with texts of bounded length.
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

/// The first [`MAX_TEXT_BYTES`] of a text.
fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default().to_owned()
}

/// The answer to a request that failed, maybe before there were places to write.
///
/// # Errors
/// [`Error::Wire`] if the text does not fit a frame.
pub fn encode_failure(meta: &AnswerMeta) -> Result<Vec<u8>> {
    Writer::new(meta.bounded().to_json()?).finish().map_err(at(ANSWER))
}

/// An answer whose bytes are all there.
#[derive(Debug)]
pub struct Answer {
    bytes: Vec<u8>,
    header: Header,
    meta: AnswerMeta,
}

impl Answer {
    /// Reads an answer.
    ///
    /// # Errors
    /// [`Error::Host`] for bytes that were lost or changed, [`Error::Wire`] for what is no answer.
    pub fn parse(bytes: Vec<u8>) -> Result<Self> {
        let header = Frame::parse(&bytes).map_err(at(ANSWER))?.header().clone();
        let meta: AnswerMeta = parse_meta(ANSWER, &header.meta)?;
        check_version(ANSWER, meta.version)?;
        Ok(Self { bytes, header, meta })
    }

    /// Everything but the values.
    pub fn meta(&self) -> &AnswerMeta {
        &self.meta
    }

    /// Length of its frame.
    pub fn bytes_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Copies its values into a call's own targets, after everything was checked: all or nothing.
    ///
    /// # Errors
    /// The call's own error if it failed, [`Error::Host`] for bytes that were changed,
    /// [`Error::Wire`] for rows or sums of other shapes, or places that are being used.
    pub fn into_targets(self, rows_out: Vec<Option<Target>>, sums_out: Vec<Target>) -> Result<Finished> {
        if let Some(error) = self.meta.error() {
            return Err(error);
        }
        let frame = Frame::parse(&self.bytes).map_err(at(ANSWER))?;
        let mut targets: Vec<Goal> = Vec::new();
        for target in rows_out.into_iter().flatten().chain(sums_out) {
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
        if targets.len() != self.header.parts.len() {
            let reason = format!("{} parts for {} places to write", self.header.parts.len(), targets.len());
            return Err(wire(ANSWER, reason));
        }
        for (i, (part, to)) in self.header.parts.iter().zip(&targets).enumerate() {
            let place = format!("{ANSWER}, part {i}");
            to.fit(part).map_err(|reason| wire(&place, reason))?;
            part.verify(frame.bytes(i as u32).map_err(at(&place))?).map_err(at(&place))?;
        }
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

/// Where one part of an answer goes: rows, or the parts of a sum.
struct Goal {
    leases: Vec<WriteRows>,
    sums: bool,
    /// Where the rows go from there, rounded.
    rounds: Option<WriteHalf>,
}

impl Goal {
    /// Whether a part has exactly these rows; sums are f32 always.
    fn fit(&self, part: &PartInfo) -> std::result::Result<(), String> {
        let columns = self.leases.first().map_or(0, |l| l.view().columns());
        let rows: usize = self.leases.iter().map(|l| l.view().rows()).sum();
        let alike = self.leases.iter().all(|l| l.view().columns() == columns);
        let kind = match part.kind {
            Kind::Rows(Encoding::F32) => true,
            Kind::Rows(Encoding::Bf16) => !self.sums,
            _ => false,
        };
        if !kind || !alike || part.rows != rows as u64 || u64::from(part.columns) != columns as u64 {
            let what = if self.sums { "f32 sums" } else { "rows" };
            return Err(format!(
                "{:?} of {} x {} for {what} of {rows} x {columns}",
                part.kind, part.rows, part.columns
            ));
        }
        Ok(())
    }
}
