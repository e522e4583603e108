//! Report of a simulated run.

use serde::Serialize;

/// Report of a simulated run. Times are simulated seconds, from the start to the end of the last
/// epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Time of the whole run, in seconds.
    pub seconds: f64,
    /// Time of each epoch, from the end of the previous epoch to its own end, in seconds.
    pub epoch_seconds: Vec<f64>,
    /// Cost of the run, by item.
    pub usd: Dollars,
    /// Value V = 1 / (T x C), with T in seconds and C in USD. It is 0 if the run cost nothing.
    pub value: f64,
    /// Average share of the allowed functions that were in flight.
    pub functions_busy: f64,
    /// Share of the time in which the hosts' cores were busy.
    pub hosts_busy: f64,
    /// Number of tasks that the hosts' cores ran.
    pub local_tasks: u64,
    /// Counts of functions, as they are charged.
    pub functions: FunctionCounts,
    /// Numbers of bytes that were sent.
    pub bytes: Bytes,
    /// Number of intervals whose rows asynchronous gathers read, by age of the rows in epochs. A
    /// gather's own interval is not counted.
    pub ages: Vec<u64>,
    /// Counters of the engine.
    pub engine: EngineCounts,
    /// Decisions of the autotuner, in order. Empty without an autotuner.
    pub decisions: Vec<Chosen>,
    /// Number of events in the simulated world.
    pub events: u64,
}

/// Cost in USD, by item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Dollars {
    /// Cost of the functions' time.
    pub functions: f64,
    /// Cost of the functions' invocations.
    pub requests: f64,
    /// Cost of requests to the object store.
    pub store: f64,
    /// Cost of the hosts.
    pub hosts: f64,
    /// Total cost.
    pub total: f64,
}

/// Counts of functions, as they are charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FunctionCounts {
    /// Number of invocations that ran.
    pub invocations: u64,
    /// Number of these that were cold starts.
    pub cold_starts: u64,
    /// Number of requests that were throttled.
    pub throttled: u64,
    /// Charged time, in milliseconds.
    pub billed_ms: u64,
    /// Product of memory size and charged time, in GiB-seconds.
    pub gb_seconds: f64,
    /// Maximum number of functions that ran at the same time.
    pub most_running: u32,
    /// Maximum number of invocations in flight at the same time, including waits and transfers.
    pub most_in_flight: u32,
    /// Number of objects that were written to the object store.
    pub store_writes: u64,
    /// Number of objects that were read from the object store.
    pub store_reads: u64,
}

/// Numbers of bytes that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Bytes from hosts to functions.
    pub to_functions: u64,
    /// Bytes from functions to hosts.
    pub from_functions: u64,
    /// Bytes between functions and the object store.
    pub store: u64,
    /// Bytes of rows and weights from host to host.
    pub between_hosts: u64,
}

/// Counters of the engine (`eciton_engine::Counters`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EngineCounts {
    /// Number of events that the engine processed.
    pub events: u64,
    /// Number of tensor tasks.
    pub tasks: u64,
    /// Number of gathers.
    pub gathers: u64,
    /// Number of committed answers, which is one per task.
    pub committed: u64,
    /// Number of attempts that were ordered after failures.
    pub retries: u64,
    /// Number of attempts that were ordered after deadlines.
    pub relaunches: u64,
    /// Number of attempts that failed.
    pub failures: u64,
    /// Number of answers to steps that another attempt had finished.
    pub duplicates: u64,
    /// Number of answers after the end of their epoch.
    pub late: u64,
}

/// Decision of the autotuner in a simulated run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chosen {
    /// Time of the decision, in seconds.
    pub seconds: f64,
    /// Number of functions before the decision.
    pub from: u32,
    /// Number of functions after the decision.
    pub to: u32,
    /// Reason for the decision, as text.
    pub why: String,
}
