//! Prices: a dated list, and dollars for counts.
//!
//! The list is `infra/prices.toml`, part of the program; `ECITON_PRICES` names another file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::worker::Architecture;

/// Longer files are not read, bytes.
const MAX_BYTES: u64 = 64 << 10;

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

impl Prices {
    /// The user's list if `ECITON_PRICES` names one, else the program's own.
    ///
    /// # Errors
    /// A file that cannot be read, or is no price list.
    pub fn read() -> Result<Self> {
        match std::env::var_os("ECITON_PRICES").filter(|path| !path.is_empty()) {
            None => Self::parse(Path::new("infra/prices.toml"), super::package::PRICES),
            Some(path) => {
                let path = Path::new(&path);
                let len = std::fs::metadata(path).map_err(Error::file(path, "read"))?.len();
                if len > MAX_BYTES {
                    let reason = format!("{len} bytes; a price list has at most {MAX_BYTES}");
                    return Err(Error::Content { path: path.to_owned(), reason });
                }
                Self::parse(path, &std::fs::read_to_string(path).map_err(Error::file(path, "read"))?)
            }
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        let wrong = |reason: String| Error::Content { path: path.to_owned(), reason };
        let found: Self =
            toml::from_str(text).map_err(|e| wrong(format!("not a price list: {}", e.message())))?;
        let (l, s, t) = (found.lambda, found.s3, found.transfer);
        let all = [
            l.x86_64_gb_second,
            l.arm64_gb_second,
            l.million_requests,
            s.thousand_writes,
            s.thousand_reads,
            s.gb_month,
            t.to_internet_gb,
            t.between_zones_gb,
            found.logs.gb_taken_in,
            found.alarms.each_month,
        ];
        match all.into_iter().find(|price| !(price.is_finite() && *price >= 0.0)) {
            Some(price) => Err(wrong(format!("{price} is no price"))),
            None => Ok(found),
        }
    }

    /// Functions: GiB-seconds and invocations.
    #[must_use]
    pub fn lambda_usd(&self, architecture: Architecture, gb_seconds: f64, invocations: u64) -> f64 {
        let second = match architecture {
            Architecture::X86_64 => self.lambda.x86_64_gb_second,
            Architecture::Arm64 => self.lambda.arm64_gb_second,
        };
        gb_seconds * second + invocations as f64 * self.lambda.million_requests / 1e6
    }

    /// The bucket's requests.
    #[must_use]
    pub fn s3_usd(&self, writes: u64, reads: u64) -> f64 {
        (writes as f64 * self.s3.thousand_writes + reads as f64 * self.s3.thousand_reads) / 1e3
    }

    /// Bytes that leave AWS for a host elsewhere.
    #[must_use]
    pub fn transfer_usd(&self, bytes: u64) -> f64 {
        bytes as f64 / 1e9 * self.transfer.to_internet_gb
    }

    /// A month of so many alarms, if the account has no others.
    #[must_use]
    pub fn alarms_usd(&self, count: u32) -> f64 {
        f64::from(count.saturating_sub(self.alarms.free)) * self.alarms.each_month
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn own() -> Prices {
        Prices::parse(Path::new("p"), crate::deploy::package::PRICES).unwrap()
    }

    #[test]
    fn a_bill_by_hand() {
        let prices = own();
        let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
        near(prices.lambda_usd(Architecture::X86_64, 1000.0, 1_000_000), 0.016_666_7 + 0.20);
        near(prices.lambda_usd(Architecture::Arm64, 1000.0, 0), 0.013_333_4);
        near(prices.s3_usd(2000, 10_000), 0.01 + 0.004);
        near(prices.transfer_usd(310_000_000), 0.0279);
        near(prices.alarms_usd(12), 0.2);
        near(prices.alarms_usd(6), 0.0);
    }

    #[test]
    fn a_list_with_something_wrong_is_refused() {
        let parse = |text: &str| Prices::parse(Path::new("p"), text).unwrap_err().to_string();
        assert!(parse("").contains("not a price list"));
        let text = crate::deploy::package::PRICES;
        assert!(parse(&text.replace("0.20", "-0.20")).contains("is no price"));
        assert!(parse(&text.replace("gb_month", "gb_moth")).contains("not a price list"));
    }
}
