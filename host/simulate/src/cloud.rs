//! Simulated cloud service that runs functions, with warm environments, account limits and
//! throttling.

/// Properties of the simulated cloud service that runs functions. The limits are those that AWS
/// publishes, as listed in `docs/explanation/simulation.md`. Latencies are estimates in the range
/// of published measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cloud {
    /// Maximum number of concurrent invocations per account.
    pub concurrency: u32,
    /// Number of environments that the service can start at once. It is also the capacity of the
    /// allowance that [`Cloud::burst_per_10_s`] refills.
    pub burst: u32,
    /// Number of environments by which the start allowance grows every ten seconds, up to
    /// [`Cloud::burst`].
    pub burst_per_10_s: u32,
    /// Overhead of a warm invocation in microseconds, for request and reply together. It is added
    /// before the function starts.
    pub latency_us: u64,
    /// Unbilled time of a cold start, in microseconds.
    pub cold_us: u64,
    /// Billed time of a cold start (the initialisation of the function), in microseconds.
    pub init_us: u64,
    /// Time after which the service removes an idle environment, in microseconds.
    pub keep_us: u64,
    /// Maximum size of a request or reply after base64 encoding, in bytes.
    pub payload_bytes: u64,
    /// Network bandwidth of a function that exchanges data with the host alone, in Mbit/s.
    pub alone_mbits: f64,
    /// Network bandwidth of each function if a hundred functions exchange data with one host, in
    /// Mbit/s.
    pub hundred_mbits: f64,
    /// Time to the first byte of a request to the object store, in microseconds.
    pub store_us: u64,
    /// Maximum run time of a function, in microseconds.
    pub time_limit_us: u64,
    /// Time after which the executor treats an unanswered invocation as failed, in microseconds.
    pub give_up_us: u64,
}

impl From<&eciton_recipe::Preset> for Cloud {
    fn from(preset: &eciton_recipe::Preset) -> Self {
        let us = |ms: f64| (ms * 1e3).round() as u64;
        Self {
            concurrency: preset.concurrency,
            burst: preset.environments_per_10_s,
            burst_per_10_s: preset.environments_per_10_s,
            latency_us: us(preset.invoke_ms),
            cold_us: us(preset.cold_start_ms),
            init_us: us(preset.init_ms),
            keep_us: us(preset.keep_s * 1e3),
            payload_bytes: preset.payload_bytes,
            alone_mbits: preset.alone_mbit_s,
            hundred_mbits: preset.hundred_mbit_s,
            store_us: us(preset.first_byte_ms),
            time_limit_us: u64::from(preset.time_limit_s) * 1_000_000,
            ..Self::default()
        }
    }
}

impl Default for Cloud {
    /// Returns the default preset of `infra/cloud.toml`, with a limit of 60 s for unanswered
    /// invocations. Reproductions of published systems use these values. A test compares them with
    /// the file.
    fn default() -> Self {
        Self {
            concurrency: 1000,
            burst: 1000,
            burst_per_10_s: 1000,
            latency_us: 10_000,
            cold_us: 150_000,
            init_us: 20_000,
            keep_us: 600_000_000,
            payload_bytes: 6_291_456,
            alone_mbits: 800.0,
            hundred_mbits: 200.0,
            store_us: 20_000,
            time_limit_us: 900_000_000,
            give_up_us: 60_000_000,
        }
    }
}

/// Function environments (containers) of the simulated service.
#[derive(Debug)]
pub(crate) struct Environments {
    cloud: Cloud,
    /// Times at which the idle environments became idle, in microseconds. The newest is last and is
    /// reused first.
    idle: Vec<u64>,
    running: u32,
    /// Number of environments that may be started now, in millionths.
    allowance: u64,
    at_us: u64,
    pub(crate) most_running: u32,
    pub(crate) cold_starts: u64,
    pub(crate) throttled: u64,
}

impl Environments {
    pub(crate) fn new(cloud: Cloud) -> Self {
        let allowance = u64::from(cloud.burst) * 1_000_000;
        let idle = Vec::new();
        Self { cloud, idle, running: 0, allowance, at_us: 0, most_running: 0, cold_starts: 0, throttled: 0 }
    }

    /// Starts an invocation. Returns true for a cold start, false for a warm start, and `None` if
    /// the service throttles the request (status 429).
    pub(crate) fn start(&mut self, now_us: u64) -> Option<bool> {
        let full = u64::from(self.cloud.burst) * 1_000_000;
        let gained = (now_us - self.at_us).saturating_mul(u64::from(self.cloud.burst_per_10_s)) / 10;
        // Whole tenths are lost at most once an arrival.
        self.allowance = self.allowance.saturating_add(gained).min(full);
        self.at_us = now_us;
        if self.running >= self.cloud.concurrency {
            self.throttled += 1;
            return None;
        }
        let warm = self.idle.pop().is_some_and(|since| {
            let kept = now_us.saturating_sub(since) <= self.cloud.keep_us;
            if !kept {
                // The others are older.
                self.idle.clear();
            }
            kept
        });
        if !warm {
            if self.allowance < 1_000_000 {
                self.throttled += 1;
                return None;
            }
            self.allowance -= 1_000_000;
            self.cold_starts += 1;
        }
        self.running += 1;
        self.most_running = self.most_running.max(self.running);
        Some(!warm)
    }

    /// Ends an invocation. If `lives` is true, its environment becomes idle. Otherwise the
    /// environment has crashed and is removed.
    pub(crate) fn end(&mut self, now_us: u64, lives: bool) {
        self.running = self.running.saturating_sub(1);
        if lives {
            self.idle.push(now_us);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn cloud() -> Cloud {
        Cloud { concurrency: 5, burst: 3, burst_per_10_s: 10, keep_us: 1000, ..Cloud::default() }
    }

    #[test]
    fn the_default_is_the_default_preset_of_the_file() {
        let file = eciton_recipe::Cloud::parse(include_str!("../../../infra/cloud.toml")).unwrap();
        assert_eq!(Cloud::default(), Cloud::from(file.preset("lambda-2026").unwrap()));
    }

    #[test]
    fn new_environments_come_at_the_services_pace_and_no_more_run_than_the_account_may() {
        let mut all = Environments::new(cloud());
        assert_eq!(
            [all.start(0), all.start(0), all.start(0), all.start(0)],
            [Some(true), Some(true), Some(true), None]
        );
        // One more a second.
        assert_eq!(
            [all.start(999_990), all.start(1_000_010), all.start(1_000_010)],
            [None, Some(true), None]
        );
        assert_eq!([all.start(5_000_000), all.start(5_000_000)], [Some(true), None], "five run");
        assert_eq!((all.most_running, all.cold_starts, all.throttled), (5, 5, 4));
        all.end(5_000_100, true);
        assert_eq!(all.start(5_000_200), Some(false), "warm, and no allowance needed");
    }

    #[test]
    fn an_environment_is_warm_for_a_while_and_not_after_a_crash() {
        let mut all = Environments::new(cloud());
        all.start(0);
        all.end(10, true);
        assert_eq!(all.start(1010), Some(false));
        all.end(1010, true);
        assert_eq!(all.start(2011), Some(true), "kept for 1000 us");
        all.end(2011, false);
        assert_eq!(all.start(2012), Some(true), "it crashed");
    }
}
