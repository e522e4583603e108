//! Settings of a worker pool.

use std::path::PathBuf;
use std::time::Duration;

use eciton_exec::framed::Framing;

/// Maximum number of tasks that a worker has at one time. It runs one task, and receives the data
/// of the next one meanwhile.
pub const CREDIT: u32 = 2;

/// Settings of a [`WorkerPool`](crate::WorkerPool).
#[derive(Debug)]
pub struct Settings {
    /// Name of the run.
    pub run: String,
    /// Row format and limits of the task frames.
    pub framing: Framing,
    /// Number of workers that the pool admits at the same time.
    pub count: u32,
    /// Address at which the pool listens, in the form `HOST:PORT`.
    pub listen: String,
    /// Folder of tokens. If `None`, tokens are in a folder that is removed at the end of the
    /// process.
    pub tokens: Option<PathBuf>,
    /// Time without a message after which a worker counts as failed.
    pub silence: Duration,
    /// Maximum time to answer a task. A worker that takes longer is excluded.
    pub answer: Duration,
    /// Time to wait for workers while fewer than needed are connected.
    pub patience: Duration,
    /// The numeric class in which all workers must compute. A numeric class is a set of machines
    /// whose arithmetic gives the same bits.
    pub numeric_class: String,
    /// True if each worker computes one lane (share of the pipeline). No other worker then runs the
    /// tasks of that lane.
    pub lanes: bool,
    /// True if workers send rows directly to each other.
    pub peers: bool,
    /// Maximum number of weight versions that tasks read at the same time.
    pub weight_versions: u32,
    /// Bytes of weights and bytes of rows that the worker of each lane stores at one time, by lane.
    pub needs: Vec<(u64, u64)>,
    /// Share of the tasks that the host audits by a second computation, from 0 to 1.
    pub audit: f64,
}
