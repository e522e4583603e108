//! Report of a simulated run.

use serde::Serialize;

/// A simulated run. Times are simulated seconds, from the start to the last epoch's end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The whole run.
    pub seconds: f64,
    /// From each epoch's end to the next's.
    pub epoch_seconds: Vec<f64>,
    /// Cost.
    pub usd: Dollars,
    /// V = 1 / (T x C), T in seconds and C in dollars; 0 if it cost nothing.
    pub value: f64,
    /// Functions under way, of those allowed.
    pub functions_busy: f64,
    /// The hosts' cores at work.
    pub hosts_busy: f64,
    /// Tasks done by the hosts' cores.
    pub local_tasks: u64,
    /// Functions, as charged.
    pub functions: FunctionCounts,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Rows of other intervals that asynchronous gathers read: how many intervals' at each age in epochs.
    pub ages: Vec<u64>,
    /// Counts of the engine.
    pub engine: EngineCounts,
    /// Decisions of the autotuner, in order. Empty without an autotuner.
    pub decisions: Vec<Chosen>,
    /// Things that happened in the world.
    pub events: u64,
}

/// Dollars by item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Dollars {
    /// Functions' time.
    pub functions: f64,
    /// Their invocations.
    pub requests: f64,
    /// Requests to the object store.
    pub store: f64,
    /// Hosts.
    pub hosts: f64,
    /// All.
    pub total: f64,
}

/// Functions, as charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FunctionCounts {
    /// Invocations that ran.
    pub invocations: u64,
    /// Number of these that were cold starts.
    pub cold_starts: u64,
    /// Requests refused.
    pub throttled: u64,
    /// Milliseconds billed.
    pub billed_ms: u64,
    /// GiB-seconds billed.
    pub gb_seconds: f64,
    /// Most that ran at once.
    pub most_running: u32,
    /// Most that were under way at once, waits and transfers included.
    pub most_in_flight: u32,
    /// Objects written and read.
    pub store_writes: u64,
    /// Objects read.
    pub store_reads: u64,
}

/// Bytes moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Over the hosts' links to functions.
    pub to_functions: u64,
    /// Over the hosts' links from functions.
    pub from_functions: u64,
    /// Between functions and the object store.
    pub store: u64,
    /// From host to host: rows and weights.
    pub between_hosts: u64,
}

/// Counts of the engine (`eciton_engine::Counters`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EngineCounts {
    /// Events taken.
    pub events: u64,
    /// Tensor tasks.
    pub tasks: u64,
    /// Gathers.
    pub gathers: u64,
    /// Answers committed: as many as tasks.
    pub committed: u64,
    /// Attempts after failures.
    pub retries: u64,
    /// Attempts after deadlines.
    pub relaunches: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Answers to steps that another attempt had done.
    pub duplicates: u64,
    /// Answers after their epoch.
    pub late: u64,
}

/// A decision of the autotuner.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chosen {
    /// Time, in seconds.
    pub seconds: f64,
    /// Functions so far.
    pub from: u32,
    /// Functions from then on.
    pub to: u32,
    /// Why.
    pub why: String,
}
