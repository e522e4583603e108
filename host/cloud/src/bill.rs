//! Bills, which count the billable usage of cloud services.

use eciton_recipe::{Moved, Prices};
use serde::{Deserialize, Serialize};

use crate::architecture::Architecture;
use crate::host::Host;

/// Billable usage of cloud services by a run, as the services reported it. [`Bill::cost`] converts
/// it to dollars with a price list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bill {
    /// Number of invocations that the function service accepted, whether or not they were answered.
    pub invocations: u64,
    /// Number of cold starts among the reported invocations.
    pub cold_starts: u64,
    /// Number of throttled requests, which are not charged.
    pub throttled: u64,
    /// Number of invocations that failed because of a crash, a time limit or a rejection by the
    /// function.
    pub failed: u64,
    /// Number of invocations whose end was never reported, because they were lost or abandoned.
    /// They are charged, but the counts of time below do not include them.
    pub unreported: u64,
    /// Total time charged, in milliseconds, including cold starts.
    pub billed_ms: u64,
    /// Total time of cold starts, in milliseconds, as the function service reported it.
    #[serde(default)]
    pub init_ms: f64,
    /// Sum over all invocations of memory multiplied by charged time, in GiB-seconds.
    pub gb_seconds: f64,
    /// Total size of requests to functions, in bytes.
    pub bytes_to_functions: u64,
    /// Total size of replies of functions, in bytes.
    pub bytes_from_functions: u64,
    /// Number of PUT, COPY, POST and LIST requests to the object store, from the host and the
    /// functions.
    pub store_writes: u64,
    /// Number of GET requests and all other charged requests to the object store.
    pub store_reads: u64,
    /// Bytes written to the object store.
    pub store_bytes_in: u64,
    /// Bytes read from the object store.
    pub store_bytes_out: u64,
    /// Bytes transferred between the host and the object store, in both directions.
    /// `store_bytes_in` and `store_bytes_out` include them.
    pub store_bytes_host: u64,
    /// Bytes that the host read from the object store. `store_bytes_host` includes them.
    pub store_bytes_to_host: u64,
}

/// Origin of the charged times in a bill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeOrigin {
    /// Real time measured on this machine, which depends on the machine's load.
    #[default]
    Measured,
    /// Virtual time according to a preset of the cloud file: processor time plus modelled waits.
    Modelled,
    /// Times that the function service reported.
    Charged,
}

/// Cost of a [`Bill`], in US dollars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Total cost in US dollars.
    pub usd: f64,
    /// Cost of the functions, for their time and their requests, in US dollars.
    pub functions_usd: f64,
    /// Cost of requests to the object store, in US dollars. The cost of storage during a run is
    /// negligible and not included.
    pub store_usd: f64,
    /// Cost of data transfer between the host and the functions' region, in US dollars. It depends
    /// on the location of the host.
    pub transfer_usd: f64,
    /// Location of the host, which determines the cost of data transfer.
    #[serde(default)]
    pub host: Host,
    /// Date and region of the price list, for instance `2026-11, us-east-1`.
    pub prices: String,
    /// Origin of the charged times.
    #[serde(default)]
    pub times: TimeOrigin,
}

impl Bill {
    /// Returns the cost of this usage, for functions of the given architecture and a host at the
    /// given location.
    #[must_use]
    pub fn cost(&self, prices: &Prices, architecture: Architecture, host: &Host) -> Cost {
        let functions_usd = prices.lambda_usd(architecture, self.gb_seconds, self.invocations);
        let store_usd = prices.s3_usd(self.store_writes, self.store_reads);
        let moved = Moved {
            to_functions: self.bytes_to_functions,
            from_functions: self.bytes_from_functions,
            objects_to_host: self.store_bytes_to_host,
        };
        let transfer_usd = prices.transfer_usd(host.place, &moved);
        Cost {
            usd: functions_usd + store_usd + transfer_usd,
            functions_usd,
            store_usd,
            transfer_usd,
            host: host.clone(),
            prices: format!("{}, {}", prices.date, prices.region),
            times: TimeOrigin::default(),
        }
    }

    /// Returns the sum of this bill and `other`.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            invocations: self.invocations + other.invocations,
            cold_starts: self.cold_starts + other.cold_starts,
            throttled: self.throttled + other.throttled,
            failed: self.failed + other.failed,
            unreported: self.unreported + other.unreported,
            billed_ms: self.billed_ms + other.billed_ms,
            init_ms: self.init_ms + other.init_ms,
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

    /// Returns the usage since `earlier`, an earlier bill of the same run.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            invocations: self.invocations - earlier.invocations,
            cold_starts: self.cold_starts - earlier.cold_starts,
            throttled: self.throttled - earlier.throttled,
            failed: self.failed - earlier.failed,
            unreported: self.unreported.saturating_sub(earlier.unreported),
            billed_ms: self.billed_ms - earlier.billed_ms,
            init_ms: self.init_ms - earlier.init_ms,
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use eciton_recipe::HostPlace;

    use super::*;

    /// Costs that `tests/infra/bill.py --json` computes from the price list, without code of this
    /// program.
    #[derive(Deserialize)]
    struct Independent {
        usage: Usage,
        usd: BTreeMap<String, f64>,
        log_lines_usd: f64,
    }

    #[derive(Deserialize)]
    struct Usage {
        gb_seconds: f64,
        invocations: u64,
        store_writes: u64,
        store_reads: u64,
        bytes_to_functions: u64,
        bytes_from_functions: u64,
        store_bytes_to_host: u64,
    }

    #[test]
    fn a_host_in_the_region_was_billed_as_one_at_home() {
        let text = include_str!("../../../tests/infra/bill.json");
        let runs: BTreeMap<String, Independent> = serde_json::from_str(text).unwrap();
        let prices = crate::prices().unwrap();
        assert_eq!(runs.len(), 2, "by the store, and by payload");
        for (transport, Independent { usage, usd, log_lines_usd }) in runs {
            let bill = Bill {
                gb_seconds: usage.gb_seconds,
                invocations: usage.invocations,
                store_writes: usage.store_writes,
                store_reads: usage.store_reads,
                bytes_to_functions: usage.bytes_to_functions,
                bytes_from_functions: usage.bytes_from_functions,
                store_bytes_to_host: usage.store_bytes_to_host,
                ..Bill::default()
            };
            assert_eq!(usd.len(), HostPlace::ALL.len());
            for (name, place) in HostPlace::ALL {
                let cost = bill.cost(&prices, Architecture::X86_64, &Host::set(place));
                let wanted = usd.get(name).copied().unwrap();
                assert!((cost.usd / wanted - 1.0).abs() < 1e-9, "{transport}, {name}: {} {wanted}", cost.usd);
                assert_eq!(cost.host.place, place);
            }
            // The sum in the guide also has log lines, which the bill of a run does not count.
            let region = bill.cost(&prices, Architecture::X86_64, &Host::set(HostPlace::Region)).usd;
            let guide = usd.get("region").copied().unwrap() + log_lines_usd;
            assert!((region / guide - 1.0).abs() < 0.01, "{transport}: {region} {guide}");
        }
    }

    #[test]
    fn a_summary_of_before_was_of_a_host_at_home() {
        let old = r#"{"usd":1.0,"functions_usd":1.0,"store_usd":0.0,"transfer_usd":0.0,"prices":"2026-11"}"#;
        let cost: Cost = serde_json::from_str(old).unwrap();
        assert_eq!(cost.host.place, HostPlace::Home);
    }
}
