//! The bill: what a run used of what is charged for.

use serde::{Deserialize, Serialize};

use crate::deploy::{Architecture, Prices};

/// Counts, as the services reported them. Money follows from a dated price list, not from here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bill {
    /// Invocations that the functions' service took: answered, failed, and those without an answer.
    pub invocations: u64,
    /// Of these, cold starts among those that were reported.
    pub cold_starts: u64,
    /// Requests that were throttled; nothing is charged for them.
    pub throttled: u64,
    /// Invocations that failed by crash, time limit or refusal.
    pub failed: u64,
    /// Invocations whose end was never reported (lost, or given up): charged, but not in the figures
    /// below.
    pub unreported: u64,
    /// Milliseconds charged, cold starts included.
    pub billed_ms: u64,
    /// Memory times time charged, GiB-seconds.
    pub gb_seconds: f64,
    /// Bytes of requests to functions.
    pub bytes_to_functions: u64,
    /// Bytes of their replies.
    pub bytes_from_functions: u64,
    /// Object store: PUT, COPY, POST and LIST requests, of the host and of the functions.
    pub store_writes: u64,
    /// Object store: GET and all other requests that are charged.
    pub store_reads: u64,
    /// Object store: bytes written.
    pub store_bytes_in: u64,
    /// Object store: bytes read.
    pub store_bytes_out: u64,
    /// Of the last two, bytes that crossed between the host and the store.
    pub store_bytes_host: u64,
    /// Of these, bytes that the host read.
    pub store_bytes_to_host: u64,
}

/// A bill in money.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// US dollars, all of it.
    pub usd: f64,
    /// For functions: time and requests.
    pub functions_usd: f64,
    /// For requests to the object store. What lies there for a run's time costs next to nothing.
    pub store_usd: f64,
    /// For bytes that leave the region: replies of functions, and objects that the host reads.
    pub transfer_usd: f64,
    /// Date and region of the price list.
    pub prices: String,
}

impl Bill {
    /// In money, for a host outside the functions' region.
    #[must_use]
    pub fn cost(&self, prices: &Prices, architecture: Architecture) -> Cost {
        let functions_usd = prices.lambda_usd(architecture, self.gb_seconds, self.invocations);
        let store_usd = prices.s3_usd(self.store_writes, self.store_reads);
        let transfer_usd = prices.transfer_usd(self.bytes_from_functions + self.store_bytes_to_host);
        Cost {
            usd: functions_usd + store_usd + transfer_usd,
            functions_usd,
            store_usd,
            transfer_usd,
            prices: format!("{}, {}", prices.date, prices.region),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            invocations: self.invocations + other.invocations,
            cold_starts: self.cold_starts + other.cold_starts,
            throttled: self.throttled + other.throttled,
            failed: self.failed + other.failed,
            unreported: self.unreported + other.unreported,
            billed_ms: self.billed_ms + other.billed_ms,
            gb_seconds: self.gb_seconds + other.gb_seconds,
            bytes_to_functions: self.bytes_to_functions + other.bytes_to_functions,
            bytes_from_functions: self.bytes_from_functions + other.bytes_from_functions,
            store_writes: self.store_writes + other.store_writes,
            store_reads: self.store_reads + other.store_reads,
            store_bytes_in: self.store_bytes_in + other.store_bytes_in,
            store_bytes_out: self.store_bytes_out + other.store_bytes_out,
            store_bytes_host: self.store_bytes_host + other.store_bytes_host,
            store_bytes_to_host: self.store_bytes_to_host + other.store_bytes_to_host,
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            invocations: self.invocations - earlier.invocations,
            cold_starts: self.cold_starts - earlier.cold_starts,
            throttled: self.throttled - earlier.throttled,
            failed: self.failed - earlier.failed,
            unreported: self.unreported.saturating_sub(earlier.unreported),
            billed_ms: self.billed_ms - earlier.billed_ms,
            gb_seconds: self.gb_seconds - earlier.gb_seconds,
            bytes_to_functions: self.bytes_to_functions - earlier.bytes_to_functions,
            bytes_from_functions: self.bytes_from_functions - earlier.bytes_from_functions,
            store_writes: self.store_writes - earlier.store_writes,
            store_reads: self.store_reads - earlier.store_reads,
            store_bytes_in: self.store_bytes_in - earlier.store_bytes_in,
            store_bytes_out: self.store_bytes_out - earlier.store_bytes_out,
            store_bytes_host: self.store_bytes_host - earlier.store_bytes_host,
            store_bytes_to_host: self.store_bytes_to_host - earlier.store_bytes_to_host,
        }
    }
}
