//! Functions that do whole runs: many calls, each of which leaves an object in the store.
//!
//! A call is made again after a crash, a lost answer or throttling, and a second time beside a
//! straggler. Its object is written once, so of several answers all are the same one.

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

/// Prefix of answers in a store. The role of functions may write there.
pub const JOBS: &str = "runs/jobs/";
/// Prefix of files in a store. The role of functions may read there.
pub const FILES: &str = "runs/files/";

/// Returns an answer as a reply carries it, in Base64.
#[must_use]
pub fn to_text(answer: &[u8]) -> String {
    STANDARD.encode(answer)
}

/// Requests to the object store of a call, with room for parts of a file and of an answer. A
/// modelled function does not see the waits for them.
pub const REQUESTS: u32 = 15;

/// A call of a function.
#[derive(Debug, Clone)]
pub struct Call {
    /// Event, JSON.
    pub event: Bytes,
    /// Object with the answer. The reply carries the answer as well if it is small.
    pub answer: Key,
    /// Second object of the answer that is fetched. `None` if it stays in the store.
    pub second: Option<Key>,
    /// Objects that the call needs, which are stored before it is made.
    pub files: Vec<(Key, Bytes)>,
}

/// Result of a call.
#[derive(Debug)]
pub enum Ended {
    /// It answered.
    Answered {
        /// Reply, JSON, without the answer that it may have carried.
        reply: Bytes,
        /// Answer.
        object: Bytes,
        /// Second object of the answer, if the call asked for it and the function has left one.
        second: Option<Bytes>,
    },
    /// It failed, in words; another attempt would fail as well, or did.
    Failed(String),
    /// It was not made, or given up: the caller stopped, or the budget was used up.
    Left,
}

/// Hears how a call ended, by its number. Returns the call that continues an answered one, if it
/// needs to be continued: that call takes over the number.
pub type OnEnd<'a> = dyn FnMut(usize, Ended) -> Option<Call> + 'a;

/// Limits of what calls may spend, and the request to stop.
pub struct Rules<'a> {
    /// Maximum of the bill, US dollars. Calls in flight, and the calls of earlier processes by the
    /// record, count.
    pub max_usd: Option<f64>,
    /// Seconds after which no call goes on, those of earlier processes by the record included.
    pub within: Option<f64>,
    /// File of the record that is continued.
    pub record: Option<&'a Path>,
    /// Returns whether to stop. It is called several times a second.
    pub stop: &'a dyn Fn() -> bool,
}
