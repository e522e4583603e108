//! Counters of a simulated run, and the report that is computed from them.

use super::World;
use crate::host::Host;
use crate::report::{Bytes, Chosen, Dollars, EngineCounts, FunctionCounts, Report};
use crate::settings::Settings;

/// Number of different ages of rows that are counted, in epochs. Ages range from 0 to the largest
/// staleness bound.
const AGES: usize = 64;

/// Counters of a simulated run.
#[derive(Debug)]
pub(super) struct Tally {
    pub events: u64,
    pub engine_events: u64,
    pub epoch_ends_us: Vec<u64>,
    pub local_tasks: u64,
    pub decisions: Vec<Chosen>,
    pub functions: FunctionCounts,
    pub bytes: Moved,
    ages: [u64; AGES],
    /// Integral over time of the number of allowed functions. `in_flight` is the integral of the
    /// number of invocations in flight. Both end with the run.
    allowed: Integral,
    in_flight: Integral,
    /// Total busy time of the hosts' cores in microseconds. `None` until the run has ended.
    busy_us: Option<u64>,
}

/// Numbers of bytes sent, like [`Bytes`], but not rounded to whole bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub to_functions: f64,
    pub from_functions: f64,
    pub store: f64,
    pub between_hosts: f64,
}

/// Time integral of a count, in count times microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Integral {
    sum: u128,
    count: u32,
    at_us: u64,
    ended: bool,
}

impl Integral {
    fn set(&mut self, now_us: u64, count: u32) {
        if !self.ended {
            self.sum += u128::from(now_us - self.at_us) * u128::from(self.count);
        }
        (self.at_us, self.count) = (now_us, count);
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            events: 0,
            engine_events: 0,
            epoch_ends_us: Vec::new(),
            local_tasks: 0,
            decisions: Vec::new(),
            functions: FunctionCounts::default(),
            bytes: Moved::default(),
            ages: [0; AGES],
            allowed: Integral::default(),
            in_flight: Integral::default(),
            busy_us: None,
        }
    }
}

impl Tally {
    pub(super) fn set_functions(&mut self, now_us: u64, count: u32) {
        self.allowed.set(now_us, count);
    }

    /// Changes the current number of flights (invocations) by `change`.
    pub(super) fn flights(&mut self, now_us: u64, change: i32) {
        let count = self.in_flight.count.saturating_add_signed(change);
        self.in_flight.set(now_us, count);
        self.functions.most_in_flight = self.functions.most_in_flight.max(count);
    }

    /// Counts the ages of the rows that an asynchronous gather reads. `ages` has one element per
    /// interval, and `own` is the gather's own interval, which is not counted.
    pub(super) fn ages(&mut self, ages: &[u8], own: usize) {
        // Counted in four lanes: a gather reads thousands.
        let mut found = [[0u32; AGES]; 4];
        for four in ages.chunks(4) {
            for (lane, &age) in found.iter_mut().zip(four) {
                lane[usize::from(age) % AGES] += 1;
            }
        }
        if let Some(&age) = ages.get(own) {
            found[0][usize::from(age) % AGES] = found[0][usize::from(age) % AGES].wrapping_sub(1);
        }
        for (age, sum) in self.ages.iter_mut().enumerate() {
            let lanes = found.iter().fold(0u32, |sum, lane| sum.wrapping_add(lane[age]));
            *sum += u64::from(lanes);
        }
    }

    /// Counts the bytes of gradients and weights that hosts exchange in an update.
    pub(super) fn between_hosts(&mut self, settings: &Settings, weight_bytes: f64) {
        self.bytes.between_hosts += 2.0 * (f64::from(settings.hosts.count) - 1.0) * weight_bytes;
    }

    /// Ends the time averages at time `now_us`, the end of the run. Invocations that are still in
    /// flight are charged, but no longer included in the averages.
    pub(super) fn end(&mut self, now_us: u64, hosts: &mut [Host]) {
        for integral in [&mut self.allowed, &mut self.in_flight] {
            integral.set(now_us, integral.count);
            integral.ended = true;
        }
        self.busy_us = Some(hosts.iter().map(|host| host.busy_us).sum());
    }
}

impl World<'_> {
    /// Returns the cost of the run up to time `until_us`, in USD.
    pub(super) fn usd(&self, until_us: u64) -> Dollars {
        let (settings, used) = (self.settings, &self.tally.functions);
        let functions = self.prices.lambda_usd(settings.functions.processor, self.gb_seconds(), 0);
        let requests = self.prices.lambda_usd(settings.functions.processor, 0.0, used.invocations);
        let store = self.prices.s3_usd(used.store_writes, used.store_reads);
        let hours = until_us as f64 / 1e6 / 3600.0;
        let hosts = f64::from(settings.hosts.count) * settings.hosts.hour_usd * hours;
        Dollars { functions, requests, store, hosts, total: functions + requests + store + hosts }
    }

    fn gb_seconds(&self) -> f64 {
        let memory_gb = f64::from(self.settings.functions.memory_mb) / 1024.0;
        memory_gb * self.tally.functions.billed_ms as f64 / 1e3
    }

    pub(super) fn report(&self, ended_us: u64) -> Report {
        let settings = self.settings;
        let tally = &self.tally;
        let seconds = ended_us as f64 / 1e6;
        let usd = self.usd(ended_us);
        let mut functions = tally.functions;
        functions.gb_seconds = self.gb_seconds();
        functions.cold_starts = self.environments.cold_starts;
        functions.throttled = self.environments.throttled;
        functions.most_running = self.environments.most_running;
        let mut begin_us = 0;
        let epoch_seconds = tally.epoch_ends_us.iter().map(|&end_us| {
            let took_us = end_us - begin_us;
            begin_us = end_us;
            took_us as f64 / 1e6
        });
        let whole = |bytes: f64| bytes.round() as u64;
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let cores = f64::from(settings.hosts.count) * f64::from(settings.hosts.cores);
        let last = tally.ages.iter().rposition(|&count| count > 0);
        let counters = self.engine.counters();
        Report {
            seconds,
            epoch_seconds: epoch_seconds.collect(),
            usd,
            value: share(1.0, seconds * usd.total),
            functions_busy: share(tally.in_flight.sum as f64, tally.allowed.sum as f64),
            hosts_busy: share(tally.busy_us.unwrap_or(0) as f64 * 1e-6, cores * seconds),
            local_tasks: tally.local_tasks,
            functions,
            bytes: Bytes {
                to_functions: whole(tally.bytes.to_functions),
                from_functions: whole(tally.bytes.from_functions),
                store: whole(tally.bytes.store),
                between_hosts: whole(tally.bytes.between_hosts),
            },
            ages: tally.ages[..last.map_or(0, |last| last + 1)].to_vec(),
            engine: EngineCounts {
                events: tally.engine_events,
                tasks: counters.tasks,
                gathers: counters.host_steps,
                committed: counters.committed,
                retries: counters.retries,
                relaunches: counters.relaunches,
                failures: counters.failures,
                duplicates: counters.duplicates,
                late: counters.late,
            },
            decisions: tally.decisions.clone(),
            events: tally.events,
        }
    }
}
