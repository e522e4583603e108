//! Prices: a dated list, and dollars for counts. Text in, data out; who reads the file is not here.
//!
//! The form is that of `infra/prices.toml`. Money follows from counts and a list, nowhere else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Longer lists are not read, bytes.
pub const MAX_PRICES_BYTES: usize = 64 << 10;
/// Most machines of a list.
pub const MAX_MACHINES: usize = 1024;

/// Prices, USD.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// When they held: `2026-11`.
    pub date: String,
    /// Where.
    pub region: String,
    /// Where they are from.
    pub source: String,
    /// Functions.
    pub lambda: Lambda,
    /// The bucket.
    pub s3: S3,
    /// Bytes on the move.
    pub transfer: Transfer,
    /// Log lines.
    pub logs: Logs,
    /// Alarms.
    pub alarms: Alarms,
    /// Machines by name (`c5.2xlarge`). Lists of before have none.
    #[serde(default)]
    pub ec2: BTreeMap<String, Machine>,
}

/// Prices of functions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lambda {
    /// 1 GiB for a second on x86-64.
    pub x86_64_gb_second: f64,
    /// 1 GiB for a second on arm64.
    pub arm64_gb_second: f64,
    /// A million invocations.
    pub million_requests: f64,
}

/// Prices of the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3 {
    /// A thousand PUT, COPY, POST or LIST requests.
    pub thousand_writes: f64,
    /// A thousand other requests.
    pub thousand_reads: f64,
    /// 1 GB for a month.
    pub gb_month: f64,
}

/// Prices of bytes on the move.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// 1 GB out of AWS.
    pub to_internet_gb: f64,
    /// 1 GB from one zone to another, each way.
    pub between_zones_gb: f64,
    /// 1 GB within a zone. Lists of before have none: it is free.
    #[serde(default)]
    pub within_zone_gb: f64,
}

/// The place of a host as seen from the functions, which sets the price of its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostPlace {
    /// Outside AWS, or in another region. What comes to it has left the region.
    #[default]
    Home,
    /// In the functions' region; functions may be in other zones of it.
    Region,
    /// In the zone that the functions are in.
    Zone,
}

impl HostPlace {
    /// Words for all.
    pub const ALL: [(&'static str, Self); 3] =
        [("home", Self::Home), ("region", Self::Region), ("zone", Self::Zone)];

    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, place)| *place == self).map_or("", |(name, _)| name)
    }
}

/// Bytes between a host, functions and their bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Requests to functions.
    pub to_functions: u64,
    /// Their replies.
    pub from_functions: u64,
    /// Objects that the host read of the bucket.
    pub objects_to_host: u64,
}

/// Prices of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// 1 GB written.
    pub gb_taken_in: f64,
}

/// Prices of alarms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alarms {
    /// One for a month.
    pub each_month: f64,
    /// How many an account has for nothing.
    pub free: u32,
}

/// A machine, on demand.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// An hour of it; seconds are charged.
    pub hour: f64,
    /// Its vCPUs. On x86-64 two of them are one core.
    pub vcpus: u32,
    /// Its memory, GiB.
    pub gib: f64,
    /// Its network at best, Gbit/s.
    pub gbits: f64,
}

/// A kind of processor that functions run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Processor {
    /// Intel and AMD.
    #[serde(rename = "x86_64")]
    X86_64,
    /// Graviton.
    #[serde(rename = "arm64")]
    Arm64,
}

impl Prices {
    /// Reads a list.
    ///
    /// # Errors
    /// [`Error::Content`] for a text that is no list, is too long, or has a price or size that cannot be.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Content { what: "a price list", reason };
        if text.len() > MAX_PRICES_BYTES {
            return Err(wrong(format!("{} bytes; it has at most {MAX_PRICES_BYTES}", text.len())));
        }
        let found: Self = toml::from_str(text).map_err(|e| wrong(e.message().to_owned()))?;
        let (l, s, t) = (found.lambda, found.s3, found.transfer);
        let prices = [
            l.x86_64_gb_second,
            l.arm64_gb_second,
            l.million_requests,
            s.thousand_writes,
            s.thousand_reads,
            s.gb_month,
            t.to_internet_gb,
            t.between_zones_gb,
            t.within_zone_gb,
            found.logs.gb_taken_in,
            found.alarms.each_month,
        ];
        let hours = found.ec2.values().map(|machine| machine.hour);
        if let Some(price) = prices.into_iter().chain(hours).find(|p| !(p.is_finite() && *p >= 0.0)) {
            return Err(wrong(format!("{price} is no price")));
        }
        if found.ec2.len() > MAX_MACHINES {
            return Err(wrong(format!("{} machines; it has at most {MAX_MACHINES}", found.ec2.len())));
        }
        let sized = |m: &Machine| {
            m.vcpus > 0 && m.gib > 0.0 && m.gib.is_finite() && m.gbits > 0.0 && m.gbits.is_finite()
        };
        match found.ec2.iter().find(|(_, machine)| !sized(machine)) {
            Some((name, machine)) => Err(wrong(format!(
                "the machine {name} has {} vCPUs, {} GiB and {} Gbit/s; each must be above 0",
                machine.vcpus, machine.gib, machine.gbits
            ))),
            None => Ok(found),
        }
    }

    /// Functions: GiB-seconds and invocations.
    #[must_use]
    pub fn lambda_usd(&self, processor: impl Into<Processor>, gb_seconds: f64, invocations: u64) -> f64 {
        let second = match processor.into() {
            Processor::X86_64 => self.lambda.x86_64_gb_second,
            Processor::Arm64 => self.lambda.arm64_gb_second,
        };
        gb_seconds * second + invocations as f64 * self.lambda.million_requests / 1e6
    }

    /// The bucket's requests.
    #[must_use]
    pub fn s3_usd(&self, writes: u64, reads: u64) -> f64 {
        (writes as f64 * self.s3.thousand_writes + reads as f64 * self.s3.thousand_reads) / 1e3
    }

    /// Bytes between a host and functions. What is sent into a region is free, and within one the
    /// bucket is: it lies in all zones. A NAT gateway is not counted.
    #[must_use]
    pub fn transfer_usd(&self, place: HostPlace, moved: &Moved) -> f64 {
        let both_ways = moved.to_functions + moved.from_functions;
        let bytes = match place {
            HostPlace::Home => moved.from_functions + moved.objects_to_host,
            HostPlace::Region | HostPlace::Zone => both_ways,
        };
        bytes as f64 / 1e9 * self.transfer_gb_usd(place)
    }

    /// 1 GB of what is charged at that place.
    #[must_use]
    pub fn transfer_gb_usd(&self, place: HostPlace) -> f64 {
        match place {
            HostPlace::Home => self.transfer.to_internet_gb,
            HostPlace::Region => self.transfer.between_zones_gb,
            HostPlace::Zone => self.transfer.within_zone_gb,
        }
    }

    /// A month of so many alarms, if the account has no others.
    #[must_use]
    pub fn alarms_usd(&self, count: u32) -> f64 {
        f64::from(count.saturating_sub(self.alarms.free)) * self.alarms.each_month
    }

    /// A machine by name.
    ///
    /// # Errors
    /// [`Error::Content`] if the list has none of that name; it says which there are.
    pub fn machine(&self, name: &str) -> Result<Machine, Error> {
        self.ec2.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = self.ec2.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let reason = format!("no machine {name:?} in [ec2]; there are: {known}");
            Error::Content { what: "a price list with it", reason }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const OWN: &str = include_str!("../../../infra/prices.toml");

    fn near(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-9, "{one} {other}");
    }

    #[test]
    fn a_bill_by_hand() {
        let prices = Prices::parse(OWN).unwrap();
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
        let prices = Prices::parse(OWN).unwrap();
        let moved =
            Moved { to_functions: 4_000_000_000, from_functions: 200_000_000, objects_to_host: 110_000_000 };
        near(prices.transfer_usd(HostPlace::Home, &moved), 0.0279);
        // Each way, and no object: the bucket is the region's.
        near(prices.transfer_usd(HostPlace::Region, &moved), 0.042);
        near(prices.transfer_usd(HostPlace::Zone, &moved), 0.0);
        // A list of before has no price within a zone.
        let old = OWN.replace("within_zone_gb", "# within_zone_gb");
        assert_eq!(Prices::parse(&old).unwrap(), prices);
        let dear = OWN.replace("within_zone_gb = 0.0", "within_zone_gb = 1.0");
        near(Prices::parse(&dear).unwrap().transfer_usd(HostPlace::Zone, &moved), 4.2);
    }

    #[test]
    fn a_list_with_something_wrong_is_refused() {
        let refused = |text: &str| Prices::parse(text).unwrap_err().to_string();
        assert!(refused("").contains("not a price list"));
        assert!(refused(&OWN.replace("0.20", "-0.20")).contains("is no price"));
        assert!(refused(&OWN.replace("hour = 0.34", "hour = nan")).contains("is no price"));
        assert!(refused(&OWN.replace("vcpus = 8", "vcpus = 0")).contains("must be above 0"));
        assert!(refused(&OWN.replace("gb_month", "gb_moth")).contains("not a price list"));
        let long = format!("{OWN}\n# {}", "x".repeat(MAX_PRICES_BYTES));
        assert!(refused(&long).contains("at most"));
        let many: String =
            (0..=MAX_MACHINES).map(|i| format!("m{i} = {{hour=1,vcpus=1,gib=1,gbits=1}}\n")).collect();
        let many = format!("{}[ec2]\n{many}", OWN.split("[ec2]").next().unwrap());
        assert!(refused(&many).contains("1024"), "{}", refused(&many));
    }

    #[test]
    fn a_list_without_machines_is_still_one() {
        let old = OWN.split("[ec2]").next().unwrap();
        assert!(Prices::parse(old).unwrap().machine("c5.2xlarge").is_err());
    }
}
