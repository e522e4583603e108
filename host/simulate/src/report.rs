//! Report of a simulated run, with times, costs and counts.

use serde::Serialize;

/// Report of a simulated run. All times are simulated.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Duration of the run up to the end of the last epoch, in seconds.
    pub seconds: f64,
    /// Duration of each epoch in seconds, measured from the end of the previous epoch.
    pub epoch_seconds: Vec<f64>,
    /// Cost of the run in USD, by item.
    pub usd: Dollars,
    /// Value V = 1 / (time x cost), with time in seconds and cost in USD. It is 0 if the run cost
    /// nothing.
    pub value: f64,
    /// Average share of the allowed concurrent functions that were in flight.
    pub functions_busy: f64,
    /// Share of the time during which the hosts' cores were busy.
    pub hosts_busy: f64,
    /// Number of tasks that the hosts' cores ran.
    pub local_tasks: u64,
    /// Usage of functions, as the cloud service charges it.
    pub functions: FunctionCounts,
    /// Numbers of bytes sent, by connection.
    pub bytes: Bytes,
    /// Histogram of the staleness of the rows that asynchronous gathers read. Element `i` counts
    /// the intervals whose rows were `i` epochs old. The gather's own interval is not counted.
    pub ages: Vec<u64>,
    /// Counters of the engine at the end of the run.
    pub engine: EngineCounts,
    /// Decisions of the autotuner, in chronological order. Empty if there is no autotuner.
    pub decisions: Vec<Chosen>,
    /// Number of events that the simulated world processed.
    pub events: u64,
}

/// Cost of a simulated run in USD, by item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Dollars {
    /// Cost of the functions' run time.
    pub functions: f64,
    /// Cost of invoking the functions, charged per invocation.
    pub requests: f64,
    /// Cost of requests to the object store.
    pub store: f64,
    /// Cost of the hosts' machines.
    pub hosts: f64,
    /// Sum of the costs of all items.
    pub total: f64,
}

/// Usage of functions, as the cloud service charges it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FunctionCounts {
    /// Number of invocations that ran.
    pub invocations: u64,
    /// Number of invocations that started cold.
    pub cold_starts: u64,
    /// Number of requests that were throttled.
    pub throttled: u64,
    /// Charged run time, in milliseconds.
    pub billed_ms: u64,
    /// Charged run time multiplied by the memory size, in GiB-seconds.
    pub gb_seconds: f64,
    /// Maximum number of functions that ran concurrently.
    pub most_running: u32,
    /// Maximum number of concurrent invocations in flight, including waits and transfers.
    pub most_in_flight: u32,
    /// Number of objects that were written to the object store.
    pub store_writes: u64,
    /// Number of objects that were read from the object store.
    pub store_reads: u64,
}

/// Numbers of bytes sent during a run, by connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Bytes from hosts to functions.
    pub to_functions: u64,
    /// Bytes from functions to hosts.
    pub from_functions: u64,
    /// Bytes between functions and the object store.
    pub store: u64,
    /// Bytes of rows and weights between hosts.
    pub between_hosts: u64,
}

/// Counters of the engine at the end of a run. They are a subset of `eciton_engine::Counters`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EngineCounts {
    /// Number of events that the engine processed.
    pub events: u64,
    /// Number of tensor tasks, not counting repeated attempts.
    pub tasks: u64,
    /// Number of gathers and other steps that run only on hosts.
    pub gathers: u64,
    /// Number of committed answers, which is one per finished task.
    pub committed: u64,
    /// Number of additional attempts because an attempt failed.
    pub retries: u64,
    /// Number of additional attempts because an attempt exceeded its deadline.
    pub relaunches: u64,
    /// Number of attempts that failed.
    pub failures: u64,
    /// Number of answers to steps that another attempt had already finished.
    pub duplicates: u64,
    /// Number of answers that arrived after the end of their epoch.
    pub late: u64,
}

/// Decision of the autotuner about the number of functions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chosen {
    /// Simulated time of the decision, in seconds.
    pub seconds: f64,
    /// Number of functions before the decision.
    pub from: u32,
    /// Number of functions after the decision.
    pub to: u32,
    /// Human-readable reason for the decision.
    pub why: String,
}
