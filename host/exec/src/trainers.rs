//! Functions that do whole runs: many calls, each of which leaves an object in the store.
//!
//! A call is made again after a crash, a lost answer or throttling, and a second time beside a straggler.
//! Its object is written once, so of several answers all are the same one.

#[cfg(feature = "aws")]
mod pool;
#[cfg(not(feature = "aws"))]
mod without;

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

/// What may be spent, and when to end.
pub struct Rules<'a> {
    /// US dollars, what is under way included; `None`: no limit.
    pub max_usd: Option<f64>,
    /// Asked now and then.
    pub stop: &'a dyn Fn() -> bool,
}
