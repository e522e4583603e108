//! Prices of one cloud region, and functions that convert usage to USD. All costs in the project
//! are computed here.
//!
//! [`crate::Cloud`] parses the prices from `infra/cloud.toml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cloud::{finite, positive};
use crate::error::{Error, Result};

/// Prices of one cloud region, in USD.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Year and month of the prices, for instance `2026-11`.
    pub date: String,
    /// Name of the region, taken from the table's name in the file.
    #[serde(skip)]
    pub region: String,
    /// Source of the prices, for instance a web address.
    pub source: String,
    /// Prices of functions (AWS Lambda).
    pub lambda: Lambda,
    /// Prices of the object store (S3).
    pub s3: S3,
    /// Prices of data transfer.
    pub transfer: Transfer,
    /// Prices of log storage.
    pub logs: Logs,
    /// Prices of alarms.
    pub alarms: Alarms,
    /// Prices and sizes of machines, by name, for instance `c5.2xlarge`.
    #[serde(default)]
    pub ec2: BTreeMap<String, Machine>,
}

/// Prices of functions (AWS Lambda).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lambda {
    /// Price per GiB-second on x86-64.
    pub x86_64_gb_second: f64,
    /// Price per GiB-second on arm64.
    pub arm64_gb_second: f64,
    /// Price per million invocations.
    pub million_requests: f64,
    /// Free GiB-seconds per account and month.
    pub free_gb_seconds: f64,
    /// Free invocations per account and month.
    pub free_requests: f64,
}

/// Prices of the object store (S3).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3 {
    /// Price per thousand PUT, COPY, POST or LIST requests.
    pub thousand_writes: f64,
    /// Price per thousand other requests.
    pub thousand_reads: f64,
    /// Price per GB stored for a month.
    pub gb_month: f64,
}

/// Prices of data transfer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Price per GB that is sent from AWS to the internet.
    pub to_internet_gb: f64,
    /// Price per GB between two zones of a region, for each direction.
    pub between_zones_gb: f64,
    /// Price per GB within a zone.
    pub within_zone_gb: f64,
}

/// Location of the host relative to the functions, which determines the price of traffic between
/// them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostPlace {
    /// Outside AWS, or in another region. Data that functions send to the host leave their region.
    #[default]
    Home,
    /// In the region of the functions, but possibly in another zone.
    Region,
    /// In the same zone as the functions.
    Zone,
}

impl HostPlace {
    /// All locations of the host, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("home", Self::Home), ("region", Self::Region), ("zone", Self::Zone)];

    /// Returns the name of the host's location in recipes, for instance `region`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, place)| *place == self).map_or("", |(name, _)| name)
    }
}

/// Traffic between a host, functions and their object store, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes of requests from the host to functions.
    pub to_functions: u64,
    /// Bytes of replies from functions to the host.
    pub from_functions: u64,
    /// Bytes that the host read from the object store.
    pub objects_to_host: u64,
}

/// Prices of log storage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// Price per GB of ingested log data.
    pub gb_taken_in: f64,
}

/// Prices of alarms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alarms {
    /// Price per alarm and month.
    pub each_month: f64,
    /// Number of free alarms per account.
    pub free: u32,
}

/// Price and sizes of a virtual machine that is rented on demand.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Price per hour, charged by the second.
    pub hour: f64,
    /// Number of vCPUs. On x86-64, a core has two vCPUs.
    pub vcpus: u32,
    /// Size of the memory, in GiB.
    pub gib: f64,
    /// Maximum network bandwidth, in Gbit/s.
    pub gbits: f64,
    /// Number of physical cores. If `None`, it is half the number of vCPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Speed of a core, relative to one core of a c7a machine.
    #[serde(default = "whole")]
    pub speed: f64,
    /// Spot price as a share of the on-demand price, or `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot: Option<f64>,
    /// True if the machine has a GPU.
    #[serde(default)]
    pub gpu: bool,
}

fn whole() -> f64 {
    1.0
}

impl Machine {
    /// Returns the number of physical cores of the machine.
    #[must_use]
    pub fn cores(&self) -> f64 {
        self.cores.map_or(f64::from(self.vcpus) / 2.0, f64::from)
    }
}

/// Processor architecture of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Processor {
    /// Intel and AMD processors.
    #[serde(rename = "x86_64")]
    X86_64,
    /// AWS Graviton processors.
    #[serde(rename = "arm64")]
    Arm64,
}

impl Prices {
    /// Checks that all prices and machine sizes of the region are in range. `table` is the region's
    /// table in the file, for error messages.
    pub(crate) fn check(&self, table: &str) -> Result<()> {
        let Self { lambda, s3, transfer, logs, alarms, ec2, .. } = self;
        let prices = [
            ("x86_64_gb_second", lambda.x86_64_gb_second),
            ("arm64_gb_second", lambda.arm64_gb_second),
            ("million_requests", lambda.million_requests),
            ("free_gb_seconds", lambda.free_gb_seconds),
            ("free_requests", lambda.free_requests),
        ];
        finite(&format!("{table}.lambda"), &prices)?;
        let prices = [
            ("thousand_writes", s3.thousand_writes),
            ("thousand_reads", s3.thousand_reads),
            ("gb_month", s3.gb_month),
        ];
        finite(&format!("{table}.s3"), &prices)?;
        let prices = [
            ("to_internet_gb", transfer.to_internet_gb),
            ("between_zones_gb", transfer.between_zones_gb),
            ("within_zone_gb", transfer.within_zone_gb),
        ];
        finite(&format!("{table}.transfer"), &prices)?;
        finite(&format!("{table}.logs"), &[("gb_taken_in", logs.gb_taken_in)])?;
        finite(&format!("{table}.alarms"), &[("each_month", alarms.each_month)])?;
        for (name, machine) in ec2 {
            let table = format!("{table}.ec2.{name:?}");
            finite(&table, &[("hour", machine.hour)])?;
            let sizes = [
                ("vcpus", f64::from(machine.vcpus)),
                ("gib", machine.gib),
                ("gbits", machine.gbits),
                ("cores", machine.cores()),
                ("speed", machine.speed),
                ("spot", machine.spot.unwrap_or(1.0)),
            ];
            positive(&table, &sizes)?;
        }
        Ok(())
    }

    /// Returns the price of functions in USD, given their GiB-seconds and number of invocations.
    #[must_use]
    pub fn lambda_usd(&self, processor: impl Into<Processor>, gb_seconds: f64, invocations: u64) -> f64 {
        let second = match processor.into() {
            Processor::X86_64 => self.lambda.x86_64_gb_second,
            Processor::Arm64 => self.lambda.arm64_gb_second,
        };
        gb_seconds * second + invocations as f64 * self.lambda.million_requests / 1e6
    }

    /// Returns the price of object store requests in USD, given the numbers of writes and reads.
    #[must_use]
    pub fn s3_usd(&self, writes: u64, reads: u64) -> f64 {
        (writes as f64 * self.s3.thousand_writes + reads as f64 * self.s3.thousand_reads) / 1e3
    }

    /// Returns the price of traffic between a host and functions, in USD. Traffic into a region is
    /// free, and so is the object store within a region. A NAT gateway is not included.
    #[must_use]
    pub fn transfer_usd(&self, place: HostPlace, moved: &Moved) -> f64 {
        self.moved_bytes(place, moved) as f64 / 1e9 * self.transfer_gb_usd(place)
    }

    /// Returns the number of charged bytes for a host at this location.
    #[must_use]
    pub fn moved_bytes(&self, place: HostPlace, moved: &Moved) -> u64 {
        match place {
            HostPlace::Home => moved.from_functions + moved.objects_to_host,
            HostPlace::Region | HostPlace::Zone => moved.to_functions + moved.from_functions,
        }
    }

    /// Returns the price per GB of charged traffic for a host at this location, in USD.
    #[must_use]
    pub fn transfer_gb_usd(&self, place: HostPlace) -> f64 {
        match place {
            HostPlace::Home => self.transfer.to_internet_gb,
            HostPlace::Region => self.transfer.between_zones_gb,
            HostPlace::Zone => self.transfer.within_zone_gb,
        }
    }

    /// Returns the monthly price of `count` alarms in USD, for an account that has no other alarms.
    #[must_use]
    pub fn alarms_usd(&self, count: u32) -> f64 {
        f64::from(count.saturating_sub(self.alarms.free)) * self.alarms.each_month
    }

    /// Returns the machine type called `name`, for instance `c5.2xlarge`.
    ///
    /// # Errors
    /// Returns [`Error::Content`] if the region has no machine type of this name. The message lists
    /// the known ones.
    pub fn machine(&self, name: &str) -> Result<Machine> {
        self.ec2.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = self.ec2.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let reason = format!("no machine {name:?} in [ec2]; the file has: {known}");
            Error::Content { what: "a price list with it", reason }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn own() -> Prices {
        crate::Cloud::parse(include_str!("../../../infra/cloud.toml"))
            .unwrap()
            .region("us-east-1")
            .unwrap()
            .clone()
    }

    fn near(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-9, "{one} {other}");
    }

    #[test]
    fn a_bill_by_hand() {
        let prices = own();
        near(prices.lambda_usd(Processor::X86_64, 1000.0, 1_000_000), 0.016_666_7 + 0.20);
        near(prices.lambda_usd(Processor::Arm64, 1000.0, 0), 0.013_333_4);
        near(prices.s3_usd(2000, 10_000), 0.01 + 0.004);
        near(prices.alarms_usd(12), 0.2);
        near(prices.alarms_usd(6), 0.0);
        near(prices.machine("c5.2xlarge").unwrap().hour, 0.34);
        // Two vCPUs of c5n for an hour.
        let c5n = prices.machine("c5n.2xlarge").unwrap();
        near(c5n.hour / f64::from(c5n.vcpus), 0.054);
        let unknown = prices.machine("c9.huge").unwrap_err().to_string();
        assert!(unknown.contains("c9.huge") && unknown.contains("c5.2xlarge"), "{unknown}");
    }

    #[test]
    fn a_host_in_the_region_was_charged_for_the_internet() {
        let prices = own();
        let moved =
            Moved { to_functions: 4_000_000_000, from_functions: 200_000_000, objects_to_host: 110_000_000 };
        near(prices.transfer_usd(HostPlace::Home, &moved), 0.0279);
        // Both directions are charged. Objects are free within the region.
        near(prices.transfer_usd(HostPlace::Region, &moved), 0.042);
        near(prices.transfer_usd(HostPlace::Zone, &moved), 0.0);
        let mut dear = own();
        dear.transfer.within_zone_gb = 1.0;
        near(dear.transfer_usd(HostPlace::Zone, &moved), 4.2);
    }
}
