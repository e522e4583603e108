//! Contents of a cloud file such as `infra/cloud.toml`, with prices by region, presets of times and
//! limits, and prices of other vendors.
//!
//! This module only parses text, and the caller reads the file. The values are used by the
//! emulator, `simulate`, `cost`, the autotuner and budgets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::prices::{Prices, Processor};

/// Maximum size of a cloud file, in bytes.
pub const MAX_CLOUD_BYTES: usize = 256 << 10;
/// Region whose prices apply if a cloud file has no prices for the region of a deployment.
pub const DEFAULT_REGION: &str = "us-east-1";
/// Name of the preset that applies if a recipe names none.
pub const DEFAULT_PRESET: &str = "lambda-2026";

/// Memory size in MB at which an AWS Lambda function has exactly one vCPU.
pub const VCPU_MB: u32 = 1769;

/// Returns the number of compute threads of a function with `memory_mb` MB, which is its number of
/// vCPUs, rounded up. An excess of less than a tenth of a vCPU does not count.
#[must_use]
pub fn threads(memory_mb: u32) -> u32 {
    // A few MB above a whole number are not worth a thread.
    (memory_mb.saturating_sub(VCPU_MB / 10)).div_ceil(VCPU_MB).max(1)
}

/// Contents of a cloud file, with prices, presets and limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cloud {
    /// Year and month of the file, for instance `2026-11`.
    pub date: String,
    /// Prices of AWS services, by name of the region.
    pub regions: BTreeMap<String, Prices>,
    /// Start time, minimum charge and speed of virtual machines.
    pub fleet: Fleet,
    /// Prices of other vendors' container services, by name of the service.
    #[serde(default)]
    pub services: BTreeMap<String, Service>,
    /// Presets of function times and limits, by name of the preset.
    pub presets: BTreeMap<String, Preset>,
}

/// Start time, minimum charge and speed of virtual machines that are started for one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    /// Date on which these values were collected.
    pub date: String,
    /// Source of these values.
    pub source: String,
    /// Names of fields whose values are assumptions, because only a run at the vendor could measure
    /// them.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// Time from the request for a machine until it starts to work, in seconds.
    pub boot_s: f64,
    /// Share of the boot time that is charged, in seconds.
    pub boot_charged_s: f64,
    /// Minimum charged time per machine, in seconds.
    pub minimum_s: f64,
    /// Time from the request for a GPU machine until it starts to work, in seconds.
    pub gpu_boot_s: f64,
    /// Training speed of a GPU, relative to one core of a c7a machine.
    pub gpu_speed: f64,
}

/// Prices and speed of a service that starts a container for one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Date on which these values were collected.
    pub date: String,
    /// Source of these values.
    pub source: String,
    /// Names of fields whose values are assumptions, because only a run at the vendor could measure
    /// them.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// Price per vCPU and hour, in USD.
    pub vcpu_hour: f64,
    /// Price per GiB of memory and hour, in USD.
    pub gib_hour: f64,
    /// Time from the request for a container until it starts to work, in seconds.
    pub start_s: f64,
    /// Minimum charged time per container, in seconds.
    pub minimum_s: f64,
    /// Number of physical cores per vCPU.
    pub cores: f64,
    /// Speed of a physical core, relative to one core of a c7a machine.
    pub speed: f64,
}

/// Preset with the times and limits of cloud functions and of their object store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Date on which these values were collected.
    pub date: String,
    /// Source of these values.
    pub source: String,
    /// Names of fields whose values are assumptions, because only a run at the vendor could measure
    /// them.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// Memory size at which a function has exactly one vCPU, in MB.
    pub vcpu_mb: u32,
    /// Maximum number of vCPUs per function.
    pub max_vcpus: f64,
    /// Speed of an x86-64 vCPU, relative to one core of a c7a machine.
    pub x86_64_cores: f64,
    /// Speed of an arm64 vCPU, relative to one core of a c7a machine.
    pub arm64_cores: f64,
    /// Round-trip time between client and function, in milliseconds. It is not billed.
    pub invoke_ms: f64,
    /// Duration of a cold start before the program begins, in milliseconds. It is not billed.
    pub cold_start_ms: f64,
    /// Duration of the program's initialisation, in milliseconds. It is billed. Plans use this
    /// value, whereas the emulator measures the duration.
    pub init_ms: f64,
    /// Time to the first byte of a reply from the object store, in milliseconds.
    pub first_byte_ms: f64,
    /// Network bandwidth by memory size, as pairs of memory size in MB and bandwidth in MB (10^6
    /// bytes) per second. The memory sizes ascend.
    pub bandwidth: Vec<(u32, f64)>,
    /// Network bandwidth of a function that exchanges data with one host alone, in Mbit/s.
    pub alone_mbit_s: f64,
    /// Network bandwidth per function if a hundred functions exchange data with one host, in
    /// Mbit/s.
    pub hundred_mbit_s: f64,
    /// Time after which the service removes an idle function environment, in seconds.
    pub keep_s: f64,
    /// Maximum number of concurrent invocations per account.
    pub concurrency: u32,
    /// Maximum number of function environments that start within ten seconds.
    pub environments_per_10_s: u32,
    /// Maximum memory size of a function, in MB.
    pub memory_mb: u32,
    /// Maximum memory size of a function in a new account, in MB.
    pub new_account_memory_mb: u32,
    /// Maximum number of concurrent invocations of a new account.
    pub new_account_concurrency: u32,
    /// Maximum run time of a function, in seconds.
    pub time_limit_s: u32,
    /// Maximum size of a request or reply, in bytes.
    pub payload_bytes: u64,
    /// Size of a function's `/tmp` folder, in MB.
    pub tmp_mb: u32,
}

impl Cloud {
    /// Parses the text of a cloud file and checks its values.
    ///
    /// # Errors
    /// Returns [`Error::Content`] if the text is not a valid cloud file or is longer than
    /// [`MAX_CLOUD_BYTES`], or if a value is out of range. The message has the table and the key.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_CLOUD_BYTES {
            return Err(wrong(format!("{} bytes; the maximum is {MAX_CLOUD_BYTES}", text.len())));
        }
        let mut found: Self = toml::from_str(text).map_err(|e| wrong(e.to_string().trim().to_owned()))?;
        for (region, prices) in &mut found.regions {
            prices.region.clone_from(region);
            prices.check(&format!("regions.{region}"))?;
        }
        found.fleet.check()?;
        found.services.iter().try_for_each(|(name, service)| service.check(name))?;
        found.presets.iter().try_for_each(|(name, preset)| preset.check(name))?;
        found.region(DEFAULT_REGION)?;
        Ok(found)
    }

    /// Returns the prices of the region called `name`.
    ///
    /// # Errors
    /// Returns [`Error::Content`] if the file has no prices for the region. The message lists the
    /// regions of the file.
    pub fn region(&self, name: &str) -> Result<&Prices> {
        self.regions.get(name).ok_or_else(|| absent("region", "regions", name, self.regions.keys()))
    }

    /// Returns the times and limits of the preset called `name`.
    ///
    /// # Errors
    /// Returns [`Error::Content`] if the file has no preset of this name. The message lists the
    /// presets of the file.
    pub fn preset(&self, name: &str) -> Result<&Preset> {
        self.presets.get(name).ok_or_else(|| absent("preset", "presets", name, self.presets.keys()))
    }
}

impl Fleet {
    fn check(&self) -> Result<()> {
        let Self { boot_s, boot_charged_s, minimum_s, gpu_boot_s, gpu_speed, .. } = *self;
        finite("fleet", &[("boot_s", boot_s), ("boot_charged_s", boot_charged_s), ("minimum_s", minimum_s)])?;
        finite("fleet", &[("gpu_boot_s", gpu_boot_s)])?;
        positive("fleet", &[("gpu_speed", gpu_speed)])
    }
}

impl Service {
    fn check(&self, name: &str) -> Result<()> {
        let table = format!("services.{name}");
        let Self { vcpu_hour, gib_hour, start_s, minimum_s, cores, speed, .. } = *self;
        finite(&table, &[("vcpu_hour", vcpu_hour), ("gib_hour", gib_hour)])?;
        finite(&table, &[("start_s", start_s), ("minimum_s", minimum_s)])?;
        positive(&table, &[("cores", cores), ("speed", speed)])
    }
}

impl Preset {
    /// Returns the number of vCPUs of a function with `memory_mb` MB of memory. It may be
    /// fractional.
    #[must_use]
    pub fn vcpus(&self, memory_mb: u32) -> f64 {
        (f64::from(memory_mb) / f64::from(self.vcpu_mb)).min(self.max_vcpus)
    }

    /// Returns the computing speed of a function, relative to one core of a c7a machine. It depends
    /// on the processor and on the memory size in MB.
    #[must_use]
    pub fn cores(&self, processor: Processor, memory_mb: u32) -> f64 {
        let each = match processor {
            Processor::X86_64 => self.x86_64_cores,
            Processor::Arm64 => self.arm64_cores,
        };
        self.vcpus(memory_mb) * each
    }

    /// Returns the network bandwidth of a function with `memory_mb` MB of memory, in bytes per
    /// second. It is interpolated between the memory sizes in the file.
    #[must_use]
    pub fn bytes_per_second(&self, memory_mb: u32) -> f64 {
        let size = f64::from(memory_mb);
        let mut before: Option<(f64, f64)> = None;
        for &(mb, rate) in &self.bandwidth {
            let mb = f64::from(mb);
            if size <= mb {
                return 1e6
                    * before.map_or(rate, |(from, low)| low + (rate - low) * (size - from) / (mb - from));
            }
            before = Some((mb, rate));
        }
        before.map_or(f64::INFINITY, |(_, rate)| rate * 1e6)
    }

    fn check(&self, name: &str) -> Result<()> {
        let table = format!("presets.{name}");
        let Self { invoke_ms, cold_start_ms, init_ms, first_byte_ms, keep_s, .. } = *self;
        finite(&table, &[("invoke_ms", invoke_ms), ("cold_start_ms", cold_start_ms), ("init_ms", init_ms)])?;
        finite(&table, &[("first_byte_ms", first_byte_ms), ("keep_s", keep_s)])?;
        positive(&table, &[("max_vcpus", self.max_vcpus), ("vcpu_mb", f64::from(self.vcpu_mb))])?;
        positive(&table, &[("x86_64_cores", self.x86_64_cores), ("arm64_cores", self.arm64_cores)])?;
        positive(&table, &[("alone_mbit_s", self.alone_mbit_s), ("hundred_mbit_s", self.hundred_mbit_s)])?;
        let counts = [
            ("concurrency", self.concurrency),
            ("environments_per_10_s", self.environments_per_10_s),
            ("memory_mb", self.memory_mb),
            ("new_account_memory_mb", self.new_account_memory_mb),
            ("new_account_concurrency", self.new_account_concurrency),
            ("time_limit_s", self.time_limit_s),
            ("tmp_mb", self.tmp_mb),
        ];
        positive(&table, &counts.map(|(key, count)| (key, f64::from(count))))?;
        positive(&table, &[("payload_bytes", self.payload_bytes as f64)])?;
        let rates: Vec<_> = self.bandwidth.iter().map(|&(_, rate)| ("bandwidth", rate)).collect();
        positive(&table, &rates)?;
        let ascending = self.bandwidth.windows(2).all(|pair| matches!(pair, [a, b] if a.0 < b.0));
        if self.bandwidth.is_empty() || !ascending {
            let reason =
                "must be a list of at least one pair (memory size, rate), with ascending memory sizes";
            return Err(wrong(format!("{table}: `bandwidth` {reason}")));
        }
        Ok(())
    }
}

fn wrong(reason: String) -> Error {
    Error::Content { what: "a cloud file", reason }
}

fn absent<'a>(kind: &str, table: &str, name: &str, known: impl Iterator<Item = &'a String>) -> Error {
    let known: Vec<&str> = known.map(String::as_str).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    wrong(format!("no {kind} {name:?} in [{table}]; the file has: {known}"))
}

/// Checks that all numbers are finite and at least 0. `found` has pairs of key and number, and
/// `table` is the name of the table for error messages.
pub(crate) fn finite(table: &str, found: &[(&str, f64)]) -> Result<()> {
    match found.iter().find(|(_, number)| !(number.is_finite() && *number >= 0.0)) {
        Some((key, number)) => Err(wrong(format!("{table}: `{key}` is {number}, but must be 0 or more"))),
        None => Ok(()),
    }
}

/// Checks that all numbers are finite and above 0. `found` has pairs of key and number, and `table`
/// is the name of the table for error messages.
pub(crate) fn positive(table: &str, found: &[(&str, f64)]) -> Result<()> {
    match found.iter().find(|(_, number)| !(number.is_finite() && *number > 0.0)) {
        Some((key, number)) => Err(wrong(format!("{table}: `{key}` is {number}, but must be above 0"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const OWN: &str = include_str!("../../../infra/cloud.toml");

    #[test]
    fn the_file_of_the_repository_is_read() {
        let cloud = Cloud::parse(OWN).unwrap();
        let preset = cloud.preset(DEFAULT_PRESET).unwrap();
        assert_eq!(preset.vcpus(1769), 1.0);
        assert_eq!(preset.vcpu_mb, VCPU_MB);
        assert_eq!([128, 512, 1769, 1800, 3008, 3538, 10_240].map(threads), [1, 1, 1, 1, 2, 2, 6]);
        assert_eq!(preset.cores(Processor::X86_64, 3538), 1.0);
        assert_eq!(preset.vcpus(10_240), 10_240.0 / 1769.0);
        // Linear between 20 MB/s at 128 MB and 75 MB/s at 512 MB, and constant outside.
        assert_eq!(
            [64, 128, 320, 512, 10_240].map(|mb| preset.bytes_per_second(mb) / 1e6),
            [20.0, 20.0, 47.5, 75.0, 75.0]
        );
        let ideal = cloud.preset("ideal").unwrap();
        assert_eq!((ideal.first_byte_ms, ideal.cores(Processor::Arm64, 1769)), (0.0, 1.0));
    }

    #[test]
    fn a_file_with_a_wrong_figure_is_refused_by_table_and_key() {
        let refused = |text: &str| Cloud::parse(text).unwrap_err().to_string();
        for (from, to, message) in [
            ("first_byte_ms = 20.0", "first_byte_ms = nan", "presets.lambda-2026: `first_byte_ms` is NaN"),
            ("vcpu_mb = 1769", "vcpu_mb = 0", "`vcpu_mb` is 0"),
            ("boot_s = 30.0", "boot_s = -1.0", "fleet: `boot_s` is -1"),
            ("gpu_speed = 20.0", "gpu_speed = 0.0", "fleet: `gpu_speed` is 0"),
            ("start_s = 2.0", "start_s = inf", "services.modal: `start_s` is inf"),
            ("[[128, 20.0], [512, 75.0]", "[[512, 75.0], [128, 20.0]", "ascending memory sizes"),
            ("million_requests = 0.20", "million_requests = -0.20", "regions.us-east-1.lambda"),
            ("gb_month", "gb_moth", "gb_moth"),
        ] {
            assert!(OWN.contains(from), "{from}");
            let said = refused(&OWN.replace(from, to));
            assert!(said.contains(message), "{said}");
        }
        assert!(refused("").contains("not a cloud file"));
        assert!(refused(&format!("{OWN}\n# {}", "x".repeat(MAX_CLOUD_BYTES))).contains("maximum"));
        let elsewhere = OWN.replace("regions.us-east-1", "regions.eu-west-1");
        assert!(refused(&elsewhere).contains("no region \"us-east-1\""), "{}", refused(&elsewhere));
    }

    #[test]
    fn an_unknown_preset_is_refused_with_those_of_the_file() {
        let said = Cloud::parse(OWN).unwrap().preset("lambda").unwrap_err().to_string();
        assert!(said.contains("ideal, lambda-2026"), "{said}");
    }
}
