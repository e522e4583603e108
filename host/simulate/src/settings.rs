//! Settings of a simulated world.

use eciton_engine::Deadlines;
use eciton_recipe::prices::Machine;
use eciton_recipe::{Pipeline, Processor};
use serde::Serialize;

use crate::cloud::Cloud;
use crate::error::Error;

/// Maximum number of simulated hosts.
pub const MAX_HOSTS: u32 = 1024;
/// Maximum number of concurrent functions in a simulation.
pub const MAX_FUNCTIONS: u32 = 100_000;
/// Maximum number of simulated epochs.
pub const MAX_EPOCHS: u32 = 1_000_000;
/// Memory size in MB at which a function has exactly one vCPU. The service allocates processor time
/// in proportion to memory.
pub const VCPU_MB: u32 = 1769;

/// Settings of a simulation. Shape, profile and prices are separate inputs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seed of the simulation's random numbers.
    pub seed: u64,
    /// Number of training epochs.
    pub epochs: u32,
    /// Number of intervals (ranges of vertices) of the whole graph. All have the same number of
    /// rows and edges, and each is on one host.
    pub intervals: u32,
    /// Mode (synchronous or asynchronous) with its staleness bound, which determine what a step
    /// waits for.
    pub pipeline: Pipeline,
    /// Deadlines after which an attempt is relaunched. `None` if attempts are never relaunched.
    pub deadlines: Option<Deadlines>,
    /// Maximum number of attempts per task.
    pub attempts: u32,
    /// Hosts that run the training.
    pub hosts: Hosts,
    /// Cloud functions that run tensor steps.
    pub functions: Functions,
    /// Properties of the cloud service that runs the functions.
    pub cloud: Cloud,
    /// Probabilities of faults of invocations.
    pub faults: Faults,
    /// Maximum share by which each piece of work randomly takes longer, for instance 0.1 for 10 %.
    pub jitter: f64,
}

/// Hosts of a simulated run. All hosts are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hosts {
    /// Number of hosts. The intervals are divided equally among them.
    pub count: u32,
    /// Number of cores per host that run steps.
    pub cores: u32,
    /// Network bandwidth per host, in Mbit/s.
    pub mbits: f64,
    /// Price per host and hour, in USD.
    pub hour_usd: f64,
    /// Share of edges that connect a vertex to a vertex on another host. If `None`, it is
    /// `(hosts - 1) / hosts`, the share of a random partition.
    pub cut: Option<f64>,
}

/// Cloud functions of a simulated run. All functions are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Functions {
    /// Maximum number of concurrent invocations over all hosts. If 0, the hosts run all steps.
    pub count: u32,
    /// Observations for the autotuner (`eciton_engine::Tuner`), which chooses a number of functions
    /// up to `count`. If `None`, the number is fixed.
    pub auto: Option<Signal>,
    /// Location where tensor steps run if there are functions.
    pub placement: Placement,
    /// Way in which inputs and outputs reach the functions and the host.
    pub transport: Transport,
    /// Memory size per function, in MB.
    pub memory_mb: u32,
    /// Processor architecture of the functions, which determines their price.
    pub processor: Processor,
}

/// Queue length that the autotuner observes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// The actual number of waiting tasks.
    #[default]
    Queue,
    /// A constant number of waiting tasks. It serves to measure the benefit of the actual number.
    Frozen(u64),
}

/// Location where tensor steps run if there are functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// All tensor steps run in functions.
    #[default]
    Functions,
    /// Idle cores of the hosts run some tensor steps, and functions run the others.
    Shared,
}

/// Way in which inputs and outputs of tasks are sent between host and functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Data are part of the request and the reply if they fit. Otherwise they are sent through the
    /// object store. This is the way of Eciton.
    #[default]
    Auto,
    /// Data are sent over a connection from the function to the host, as in Thorpe et al. 2021. The
    /// function is charged during the transfers.
    Direct,
}

/// Probabilities of independent faults of invocations, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// Probability that the function computes `straggle_factor` times as long.
    pub straggle: f64,
    /// Factor by which the compute time of a straggler is longer.
    pub straggle_factor: f64,
    /// Probability that the function crashes before it answers.
    pub crash: f64,
    /// Probability that the answer is lost.
    pub lose: f64,
    /// Probability that the answer arrives twice.
    pub double: f64,
    /// Recurring slow periods of all functions. `None` if there are none.
    pub bursts: Option<Bursts>,
}

/// Recurring slow periods, during which all functions compute more slowly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Time between the starts of two slow periods, in seconds.
    pub period_s: f64,
    /// Duration of a slow period as a share of `period_s`.
    pub share: f64,
    /// Factor by which compute times are longer during slow periods.
    pub factor: f64,
}

impl Hosts {
    /// Creates `count` hosts of the machine type `name`, with the properties `machine` from the
    /// price list. A core has two vCPUs. On Graviton machines (names like `c6g.large`) a core has
    /// one vCPU.
    #[must_use]
    pub fn of_machine(count: u32, name: &str, machine: Machine) -> Self {
        let whole = name.split('.').next().is_some_and(|family| family.ends_with('g'));
        let cores = if whole { machine.vcpus } else { (machine.vcpus / 2).max(1) };
        Self { count, cores, mbits: machine.gbits * 1e3, hour_usd: machine.hour, cut: None }
    }
}

impl Default for Faults {
    /// Returns settings without any faults.
    fn default() -> Self {
        Self { straggle: 0.0, straggle_factor: 10.0, crash: 0.0, lose: 0.0, double: 0.0, bursts: None }
    }
}

impl Default for Functions {
    /// Returns settings with no functions. If the caller sets a count, each function has 1,769 MB
    /// (one vCPU) on x86-64.
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
    /// Returns settings without functions and faults, and with 10 % jitter. The only host has four
    /// cores and 10 Gbit/s, at USD 0.34 per hour.
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

    /// Checks that all values are in their ranges. The engine checks its own settings separately.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] with the allowed range if a value is out of range.
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
