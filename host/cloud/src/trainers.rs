//! Functions that compute whole training runs: many calls, each of which writes an object to the
//! store.
//!
//! A call is repeated after a crash, a lost answer or throttling, and while another attempt takes
//! too long. The store writes the object of a call only once, so all attempts have the same answer.

#[cfg(feature = "aws")]
mod answer;
#[cfg(feature = "aws")]
mod late;
#[cfg(feature = "aws")]
mod pool;
#[cfg(feature = "aws")]
mod record;
#[cfg(feature = "aws")]
mod time;
#[cfg(not(feature = "aws"))]
mod without;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use eciton_transport::Key;

#[cfg(feature = "aws")]
pub use pool::Trainers;
#[cfg(not(feature = "aws"))]
pub use without::Trainers;

/// Key prefix of answers in the store. The role of the functions may write there.
pub const JOBS: &str = "runs/jobs/";
/// Key prefix of input files in the store. The role of the functions may read there.
pub const FILES: &str = "runs/files/";

/// Encodes an answer in Base64, the form in which a reply contains it.
#[must_use]
pub fn to_text(answer: &[u8]) -> String {
    STANDARD.encode(answer)
}

/// Estimated number of requests that a call makes to the object store, including parts of a file
/// and of an answer. The waits for these requests are not part of a modelled function's time.
pub const REQUESTS: u32 = 15;

/// A call of a function, which computes one training run or a part of it.
#[derive(Debug, Clone)]
pub struct Call {
    /// Payload of the request, in JSON.
    pub event: Bytes,
    /// Key of the object with the answer. The reply also contains the answer if it is small.
    pub answer: Key,
    /// Key of a second object of the answer, which is fetched. `None` if that object stays in the
    /// store.
    pub second: Option<Key>,
    /// Objects that the call reads. They are stored before the call is made.
    pub files: Vec<(Key, Bytes)>,
}

/// Final result of a call, after all attempts at it.
#[derive(Debug)]
pub enum Ended {
    /// The function answered.
    Answered {
        /// The reply in JSON, without the answer that it may have contained.
        reply: Bytes,
        /// The answer.
        object: Bytes,
        /// Second object of the answer, if the call asked for it and the function has written one.
        second: Option<Bytes>,
    },
    /// The call failed, with the reason as text. Another attempt failed as well, or would fail.
    Failed(String),
    /// The call was not made, or was abandoned in flight, because the caller stopped or the budget
    /// was used up.
    Left,
}

/// Callback for the end of each call. It gets the index of the call, and may return a further call
/// that continues an answered one. The further call then has the same index.
pub type OnEnd<'a> = dyn FnMut(usize, Ended) -> Option<Call> + 'a;

/// Limits on the cost and time of calls, and the caller's request to stop.
pub struct Rules<'a> {
    /// Maximum of the bill in US dollars. It includes calls in flight and, by the record, calls of
    /// earlier processes.
    pub max_usd: Option<f64>,
    /// Time in seconds after which no call continues. It includes, by the record, the time of
    /// earlier processes.
    pub within: Option<f64>,
    /// Path of the file in which costs are recorded across processes. If `None`, nothing is
    /// recorded.
    pub record: Option<&'a Path>,
    /// Returns whether to stop. It is called several times a second.
    pub stop: &'a dyn Fn() -> bool,
}
