//! Functions that do whole runs: many calls, each of which leaves an object in the store.
//!
//! A call is made again after a crash, a lost answer or throttling, and a second time beside a straggler.
//! Its object is written once, so of several answers all are the same one.

#[cfg(feature = "aws")]
mod pool;
#[cfg(feature = "aws")]
mod record;
#[cfg(feature = "aws")]
mod time;
#[cfg(not(feature = "aws"))]
mod without;

use std::path::Path;

use bytes::Bytes;
use eciton_transport::Key;

#[cfg(feature = "aws")]
pub use pool::Trainers;
#[cfg(not(feature = "aws"))]
pub use without::Trainers;

/// Where answers lie in a store. A function's role may write there.
pub const JOBS: &str = "runs/jobs/";
/// Where files lie in a store. A function's role may read there.
pub const FILES: &str = "runs/files/";

/// A call of a function.
#[derive(Debug, Clone)]
pub struct Call {
    /// JSON.
    pub event: Bytes,
    /// The object that it leaves.
    pub answer: Key,
}

/// How a call ended.
#[derive(Debug)]
pub enum Ended {
    /// It answered.
    Answered {
        /// JSON.
        reply: Bytes,
        /// What lies in the store.
        object: Bytes,
    },
    /// It failed, in words; another attempt would fail as well, or did.
    Failed(String),
    /// It was not made, or given up: the caller stopped, or the budget was used up.
    Left,
}

/// Limits of what calls may spend, and the request to stop.
pub struct Rules<'a> {
    /// Maximum of the bill, US dollars. Calls in flight, and the calls of earlier processes by the record, count.
    pub max_usd: Option<f64>,
    /// Seconds after which no call goes on, those of earlier processes by the record included.
    pub within: Option<f64>,
    /// File of the record that is continued.
    pub record: Option<&'a Path>,
    /// Returns whether to stop. It is called several times a second.
    pub stop: &'a dyn Fn() -> bool,
}
