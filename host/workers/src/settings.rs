//! Settings of a worker pool.

use std::path::PathBuf;
use std::time::Duration;

use eciton_exec::framed::Framing;

/// Maximum number of tasks that a worker has at one time. While it runs one task, it receives the
/// data of the next one.
pub const CREDIT: u32 = 2;

/// Settings of a [`WorkerPool`](crate::WorkerPool).
#[derive(Debug)]
pub struct Settings {
    /// Name of the run.
    pub run: String,
    /// Row format of the task frames, and limits on the memory and time of tasks.
    pub framing: Framing,
    /// Number of workers of the run, which is the maximum number that the pool admits at the same
    /// time.
    pub count: u32,
    /// Number of further workers that may connect. They wait, and replace workers that fail.
    pub spares: u32,
    /// Address at which the pool listens, in the form `HOST:PORT`.
    pub listen: String,
    /// Folder of the token files. If `None`, the pool uses a temporary folder.
    pub tokens: Option<PathBuf>,
    /// Time without a message after which a worker is considered failed.
    pub silence: Duration,
    /// Maximum time for a worker to answer a task. A slower worker is excluded.
    pub answer: Duration,
    /// Maximum time to wait for workers while fewer than required are connected.
    pub patience: Duration,
    /// The numeric class in which all workers must compute. Machines of one numeric class compute
    /// results with the same bits.
    pub numeric_class: String,
    /// True if each worker computes one lane (a share of the pipeline). Only that worker then runs
    /// the lane's tasks.
    pub lanes: bool,
    /// True if workers send rows directly to each other instead of through the host.
    pub peers: bool,
    /// Maximum number of weight versions that tasks may read at the same time.
    pub weight_versions: u32,
    /// Bytes of weights and bytes of rows that the worker of each lane has to store at one time, by
    /// lane.
    pub needs: Vec<(u64, u64)>,
    /// Fraction of the tasks that the host computes a second time to check the answers, from 0.0 to
    /// 1.0.
    pub audit: f64,
}
