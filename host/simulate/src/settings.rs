//! Settings of a simulated world.

use eciton_engine::Deadlines;
use eciton_recipe::prices::Machine;
use eciton_recipe::{Pipeline, Processor};
use serde::Serialize;

use crate::cloud::Cloud;
use crate::error::Error;

/// Most hosts.
pub const MAX_HOSTS: u32 = 1024;
/// Most functions at once.
pub const MAX_FUNCTIONS: u32 = 100_000;
/// Most epochs.
pub const MAX_EPOCHS: u32 = 1_000_000;
/// Memory of a function with one whole vCPU, MB; its processor's time is proportional.
pub const VCPU_MB: u32 = 1769;

/// Everything but shape, profile and prices.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Random seed.
    pub seed: u64,
    /// Epochs.
    pub epochs: u32,
    /// Intervals of the whole graph: as many rows and edges each, each on one host.
    pub intervals: u32,
    /// Mode of the pipeline, which decides what steps wait for.
    pub pipeline: Pipeline,
    /// Deadlines after which attempts are relaunched.
    pub deadlines: Option<Deadlines>,
    /// Attempts at a task.
    pub attempts: u32,
    /// The hosts.
    pub hosts: Hosts,
    /// The functions.
    pub functions: Functions,
    /// Their service.
    pub cloud: Cloud,
    /// Faults of invocations.
    pub faults: Faults,
    /// Every duration of work is this share longer at most, at random.
    pub jitter: f64,
}

/// Hosts, all alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hosts {
    /// Number of hosts. All have equally many intervals.
    pub count: u32,
    /// Cores of each that do steps.
    pub cores: u32,
    /// Network of each, Mbit/s.
    pub mbits: f64,
    /// An hour of each, USD.
    pub hour_usd: f64,
    /// The share of a row's edges that lead to other hosts; `None`: as in a random partition,
    /// (hosts - 1) / hosts.
    pub cut: Option<f64>,
}

/// Functions, all alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Functions {
    /// Invocations under way at once, of all hosts together; 0: all steps are done on the hosts.
    pub count: u32,
    /// Observations of the autotuner (`eciton_engine::Tuner`) that chooses the number, which is at
    /// most `count`. If `None`, there is no autotuner.
    pub auto: Option<Signal>,
    /// Location of tensor steps, if there are functions.
    pub placement: Placement,
    /// Way in which tasks are sent.
    pub transport: Transport,
    /// Memory of each, MB.
    pub memory_mb: u32,
    /// Whose price is paid.
    pub processor: Processor,
}

/// Observations of the hosts' queues that an autotuner gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// Number of tasks that wait.
    #[default]
    Queue,
    /// Always as much: to see what the signal is worth.
    Frozen(u64),
}

/// Location of tensor steps, if there are functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Functions, all of them.
    #[default]
    Functions,
    /// Cores that have nothing else to do, else functions.
    Shared,
}

/// Way in which tasks are sent to functions and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// In the request and the reply where they fit, else through the object store, as Eciton does.
    #[default]
    Auto,
    /// Over a connection from function to host, as Thorpe et al. do: while bytes move the function is paid.
    Direct,
}

/// Faults of invocations: independent chances from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// It computes `straggle_factor` times as long.
    pub straggle: f64,
    /// Times as long.
    pub straggle_factor: f64,
    /// It dies on the way.
    pub crash: f64,
    /// Its answer never comes.
    pub lose: f64,
    /// Its answer comes twice.
    pub double: f64,
    /// Times in which all functions are slow.
    pub bursts: Option<Bursts>,
}

/// In each period functions compute `factor` times as long for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Seconds from one beginning to the next.
    pub period_s: f64,
    /// The share of it that is slow.
    pub share: f64,
    /// Times as long.
    pub factor: f64,
}

impl Hosts {
    /// Creates `count` machines with this name in the price list. A core has two vCPUs, except for
    /// Graviton machines, whose names have a g after the generation.
    #[must_use]
    pub fn of_machine(count: u32, name: &str, machine: Machine) -> Self {
        let whole = name.split('.').next().is_some_and(|family| family.ends_with('g'));
        let cores = if whole { machine.vcpus } else { (machine.vcpus / 2).max(1) };
        Self { count, cores, mbits: machine.gbits * 1e3, hour_usd: machine.hour, cut: None }
    }
}

impl Default for Faults {
    /// None.
    fn default() -> Self {
        Self { straggle: 0.0, straggle_factor: 10.0, crash: 0.0, lose: 0.0, double: 0.0, bursts: None }
    }
}

impl Default for Functions {
    /// None; 1,769 MB (one vCPU) each, x86-64.
    fn default() -> Self {
        Self {
            count: 0,
            auto: None,
            placement: Placement::default(),
            transport: Transport::default(),
            memory_mb: VCPU_MB,
            processor: Processor::X86_64,
        }
    }
}

impl Settings {
    /// One host of four cores and 10 Gbit/s at $0.34 an hour, no functions, no faults, a tenth of jitter.
    #[must_use]
    pub fn new(intervals: u32, epochs: u32) -> Self {
        Self {
            seed: 0,
            epochs,
            intervals,
            pipeline: Pipeline::default(),
            deadlines: Some(Deadlines::default()),
            attempts: 4,
            hosts: Hosts { count: 1, cores: 4, mbits: 10_000.0, hour_usd: 0.34, cut: None },
            functions: Functions::default(),
            cloud: Cloud::default(),
            faults: Faults::default(),
            jitter: 0.1,
        }
    }

    /// Checks that the settings describe a possible world.
    ///
    /// # Errors
    /// [`Error::Setting`]. (What the engine checks is not checked here.)
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |what, found: String, allowed: String| Err(Error::Setting { what, found, allowed });
        let counts: [(&str, u64, u64, u64); 9] = [
            ("hosts", self.hosts.count.into(), 1, u64::from(MAX_HOSTS.min(self.intervals))),
            ("cores of a host", self.hosts.cores.into(), 1, 4096),
            ("functions", self.functions.count.into(), 0, MAX_FUNCTIONS.into()),
            ("epochs", self.epochs.into(), 1, MAX_EPOCHS.into()),
            ("memory of a function, MB", self.functions.memory_mb.into(), 128, 10_240),
            ("concurrent functions of the account", self.cloud.concurrency.into(), 1, MAX_FUNCTIONS.into()),
            ("new functions at once", self.cloud.burst.into(), 1, MAX_FUNCTIONS.into()),
            ("new functions in 10 s", self.cloud.burst_per_10_s.into(), 1, MAX_FUNCTIONS.into()),
            ("bytes of a payload", self.cloud.payload_bytes, 1, 1 << 40),
        ];
        for (what, found, least, most) in counts {
            if !(least..=most).contains(&found) {
                return refuse(what, found.to_string(), format!("{least} to {most}"));
            }
        }
        let faults = self.faults;
        let bursts = faults.bursts.unwrap_or(Bursts { period_s: 1.0, share: 0.0, factor: 1.0 });
        let figures: [(&str, f64, f64, f64); 13] = [
            ("share of jitter", self.jitter, 0.0, 10.0),
            ("share of cut edges", self.hosts.cut.unwrap_or(0.0), 0.0, 1.0),
            ("dollars per hour", self.hosts.hour_usd, 0.0, 1e6),
            ("network of a host, Mbit/s", self.hosts.mbits, 1.0, 1e12),
            ("network of a function alone, Mbit/s", self.cloud.alone_mbits, 1.0, 1e12),
            (
                "network of each of 100 functions, Mbit/s",
                self.cloud.hundred_mbits,
                1.0,
                self.cloud.alone_mbits,
            ),
            ("chance of a straggler", faults.straggle, 0.0, 1.0),
            ("a straggler's factor", faults.straggle_factor, 1.0, 1e6),
            ("chance of a crash", faults.crash, 0.0, 1.0),
            ("chance of a lost answer", faults.lose, 0.0, 1.0),
            ("chance of a doubled answer", faults.double, 0.0, 1.0),
            ("share of slow times", bursts.share, 0.0, 1.0),
            ("factor of slow times", bursts.factor, 1.0, 1e6),
        ];
        for (what, found, least, most) in figures {
            if !(least..=most).contains(&found) {
                return refuse(what, found.to_string(), format!("{least} to {most}"));
            }
        }
        if !(bursts.period_s >= 1e-3 && bursts.period_s <= 1e9) {
            return refuse(
                "period of slow times, s",
                bursts.period_s.to_string(),
                "0.001 to 10^9".to_owned(),
            );
        }
        Ok(())
    }
}
