//! Settings of a simulated world.

use eciton_engine::Deadlines;
use eciton_recipe::prices::Machine;
use eciton_recipe::{Pipeline, Processor};
use serde::Serialize;

use crate::cloud::Cloud;
use crate::error::Error;

/// Maximum number of hosts.
pub const MAX_HOSTS: u32 = 1024;
/// Maximum number of concurrent functions.
pub const MAX_FUNCTIONS: u32 = 100_000;
/// Maximum number of epochs.
pub const MAX_EPOCHS: u32 = 1_000_000;
/// Memory size of a function with one whole vCPU, in MB. Processor time is proportional to the
/// memory size.
pub const VCPU_MB: u32 = 1769;

/// Settings of a simulation: everything except shape, profile and prices.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Random seed.
    pub seed: u64,
    /// Number of epochs.
    pub epochs: u32,
    /// Number of intervals of the whole graph. Each has the same number of rows and edges, and is
    /// on one host.
    pub intervals: u32,
    /// Mode of the pipeline, which decides what steps wait for.
    pub pipeline: Pipeline,
    /// Deadlines after which attempts are relaunched.
    pub deadlines: Option<Deadlines>,
    /// Maximum number of attempts at a task.
    pub attempts: u32,
    /// Hosts of the simulated run.
    pub hosts: Hosts,
    /// Functions of the simulated run.
    pub functions: Functions,
    /// Properties of the service that runs the functions.
    pub cloud: Cloud,
    /// Chances of faults of invocations.
    pub faults: Faults,
    /// Maximum share by which each piece of work takes longer, at random.
    pub jitter: f64,
}

/// Hosts of a simulated run, which are all equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hosts {
    /// Number of hosts. All have the same number of intervals.
    pub count: u32,
    /// Number of cores of each host that run steps.
    pub cores: u32,
    /// Network bandwidth of each host, in Mbit/s.
    pub mbits: f64,
    /// Price of each host per hour, in USD.
    pub hour_usd: f64,
    /// Share of a row's edges that lead to other hosts. If `None`, it is that of a random
    /// partition, (hosts - 1) / hosts.
    pub cut: Option<f64>,
}

/// Functions of a simulated run, which are all equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Functions {
    /// Maximum number of concurrent invocations, over all hosts. If 0, the hosts run all steps.
    pub count: u32,
    /// Kind of observations for the autotuner (`eciton_engine::Tuner`), which chooses the number of
    /// functions up to `count`. If `None`, there is no autotuner.
    pub auto: Option<Signal>,
    /// Location of tensor steps, if there are functions.
    pub placement: Placement,
    /// Transport of the data of tasks.
    pub transport: Transport,
    /// Memory size of each function, in MB.
    pub memory_mb: u32,
    /// Processor of the functions, which determines their price.
    pub processor: Processor,
}

/// Observations of the hosts' queues that an autotuner gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// The real number of tasks that wait.
    #[default]
    Queue,
    /// Always this number of waiting tasks, to measure the benefit of the real number.
    Frozen(u64),
}

/// Location of tensor steps, if there are functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// All tensor steps run in functions.
    #[default]
    Functions,
    /// Idle cores of the hosts run tensor steps, and functions run the others.
    Shared,
}

/// Transport of the data of tasks to functions and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// In the request and the reply if the data fit, and through the object store otherwise, as
    /// Eciton does.
    #[default]
    Auto,
    /// Over a connection from function to host, as Thorpe et al. do. The function is charged while
    /// bytes are sent.
    Direct,
}

/// Faults of invocations, as independent chances from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// Chance that the function computes `straggle_factor` times as long.
    pub straggle: f64,
    /// Factor of a straggler's compute time.
    pub straggle_factor: f64,
    /// Chance that the function crashes before it answers.
    pub crash: f64,
    /// Chance that the answer is lost.
    pub lose: f64,
    /// Chance that the answer arrives twice.
    pub double: f64,
    /// Periods in which all functions are slow. `None` if there are none.
    pub bursts: Option<Bursts>,
}

/// Periods in which all functions are slow for some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Time from the start of one slow time to the next, in seconds.
    pub period_s: f64,
    /// Share of the period in which functions are slow.
    pub share: f64,
    /// Factor of the compute time in slow times.
    pub factor: f64,
}

impl Hosts {
    /// Creates `count` hosts of the machine type `name`, with the properties in the price list. A
    /// core has two vCPUs, except for Graviton machines, whose names have a g after the generation.
    #[must_use]
    pub fn of_machine(count: u32, name: &str, machine: Machine) -> Self {
        let whole = name.split('.').next().is_some_and(|family| family.ends_with('g'));
        let cores = if whole { machine.vcpus } else { (machine.vcpus / 2).max(1) };
        Self { count, cores, mbits: machine.gbits * 1e3, hour_usd: machine.hour, cut: None }
    }
}

impl Default for Faults {
    /// Returns settings without faults.
    fn default() -> Self {
        Self { straggle: 0.0, straggle_factor: 10.0, crash: 0.0, lose: 0.0, double: 0.0, bursts: None }
    }
}

impl Default for Functions {
    /// Returns settings without functions. If functions are added, each has 1,769 MB (one vCPU) on
    /// x86-64.
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
    /// Returns settings with one host of four cores and 10 Gbit/s at USD 0.34 per hour, no
    /// functions, no faults, and a jitter of a tenth.
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

    /// Checks that the settings describe a possible world. It does not check what the engine
    /// checks.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] for a value out of range.
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
