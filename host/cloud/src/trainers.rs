//! Cloud functions that compute whole training runs. Each call writes its answer to the object
//! store.
//!
//! A call is repeated after a crash, a lost answer or throttling, and if it takes too long. The
//! answer object of a call is written only once, so all attempts at the call have the same answer.

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

/// Key prefix of answers in the object store. Functions may write only under this prefix.
pub const JOBS: &str = "runs/jobs/";
/// Key prefix of input files in the object store, which functions may only read.
pub const FILES: &str = "runs/files/";

/// Encodes an answer as Base64 text, the form in which a reply contains it.
#[must_use]
pub fn to_text(answer: &[u8]) -> String {
    STANDARD.encode(answer)
}

/// Estimated number of requests that a call makes to the object store. The emulator does not
/// include the waits for them in a function's modelled time.
pub const REQUESTS: u32 = 15;

/// A call of a function, which computes a training run or a part of one.
#[derive(Debug, Clone)]
pub struct Call {
    /// Payload of the request, a JSON document.
    pub event: Bytes,
    /// Key of the object with the answer. If the answer is small, the reply of the function
    /// contains it as well.
    pub answer: Key,
    /// Key of a second object with results, which is read after the call. If `None`, no second
    /// object is read.
    pub second: Option<Key>,
    /// Objects that the call reads. They are written to the object store before the call.
    pub files: Vec<(Key, Bytes)>,
}

/// Final result of a call after all its attempts.
#[derive(Debug)]
pub enum Ended {
    /// The function answered.
    Answered {
        /// Reply of the function, a JSON document. The answer is removed from it.
        reply: Bytes,
        /// Content of the answer object.
        object: Bytes,
        /// Content of the second object, if the call named one and the function wrote it.
        second: Option<Bytes>,
    },
    /// The call failed with this reason. Further attempts failed as well or were not worthwhile.
    Failed(String),
    /// The call was not made or was abandoned, because the caller asked to stop or the budget was
    /// used up.
    Left,
}

/// Callback that is called at the end of each call with the call's index and result. After an
/// answer, it may return another call that continues the work under the same index.
pub type OnEnd<'a> = dyn FnMut(usize, Ended) -> Option<Call> + 'a;

/// Limits on the cost and time of calls, and the way to stop them.
pub struct Rules<'a> {
    /// Maximum total cost in US dollars, including calls in flight. If there is a record, it also
    /// includes calls of earlier processes.
    pub max_usd: Option<f64>,
    /// Time limit of all calls in seconds. If there is a record, it includes the time of earlier
    /// processes.
    pub within: Option<f64>,
    /// Path of the file that records costs across processes. If `None`, costs are not recorded.
    pub record: Option<&'a Path>,
    /// Function that returns true if the calls have to stop. It is called several times per second.
    pub stop: &'a dyn Fn() -> bool,
}
