//! Choice of a protection against failures of workers: snapshots, replicas of the weights, replicas
//! of the pipeline, or weights at the host with or without redundant computation.
//!
//! Workers fail at a rate of l per second and return after R seconds, so that a worker is missing
//! for the share q = l R / (1 + l R) of the time. A pipeline of n workers, d deep and w wide, has a
//! round of T seconds, of which its slowest worker computes for S seconds. Then
//!
//! ```text
//! round    T + S (L - 1) + c / k                  seconds
//! L        1 + longest run of missing workers     previous worker: P(run >= j) = 1 - (1 - q^j)^n
//!          w / (w - missing), maximum of d lanes  peers share the lane: binomial
//! rate     E[rows / round] / (1 + n (1 - q) l loss)
//! loss     round / 2                              workers own the weights: the round in flight
//!          + p k round / 2                        and, with probability p, all since a snapshot
//!          f x in flight + S / 2                  the host owns them: the steps of one worker
//! ```
//!
//! Redundant computation adds the forward steps of one stage to T, less a quarter of the time in
//! which the slowest worker waits: max(m f / w - (T - S) / 4, 0).
//!
//! A snapshot takes c seconds after every k rounds, and k is chosen. p is the probability that no
//! other worker has the same weights, q^m for m copies in other replicas of the pipeline, or those
//! at workers that fail within the same round. A worker returns at the end of a round or, without
//! copies, at the next snapshot. Sources: Young 1974 (the interval of snapshots), Thorpe et al. 2023
//! (Bamboo), Gandhi et al. 2024 (ReCycle).

use super::graph::Graph;
use super::machine::{Machine, Wanted, is_above_zero};
use super::plan::Plan;
use super::search::plan;
use crate::error::{Error, Result};
use eciton_recipe::Error as Refused;

/// Numbers of updates between two snapshots from which one is chosen.
const EVERY: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Numbers of workers that replicate the weights of a worker, from which one is chosen.
const REPLICAS: [u32; 2] = [1, 2];

/// Share of a worker's waiting time in which it runs redundant forward steps. In the simulation, it is
/// about the same for 2 to 32 micro-batches per replica and 2 to 8 stages.
const HIDDEN: f64 = 0.25;

/// Failures and prices of workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failures {
    /// Mean number of failures per worker and hour.
    pub per_hour: f64,
    /// Time until a failed worker is replaced, in seconds.
    pub replaced_after: f64,
    /// Price of a worker and hour, in US dollars.
    pub usd_hour: f64,
    /// Price of a worker and hour that does not fail, in US dollars. `None` if there are none.
    pub reliable_usd_hour: Option<f64>,
    /// Bandwidth at which the host reads a snapshot, in bytes per second.
    pub snapshot_link: f64,
}

/// Means by which a run survives failures of workers. Several replicas of the pipeline are part of
/// the plan's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// The workers do not fail.
    Reliable,
    /// The host owns the weights. If `redundant` is true, idle workers also compute the forward
    /// steps of the next worker.
    Host {
        /// True for redundant computation.
        redundant: bool,
    },
    /// The workers own the weights, which `replicas` other workers replicate. A snapshot is written
    /// after each `every` updates.
    Workers {
        /// Number of workers that replicate the weights of a worker.
        replicas: u32,
        /// Number of updates between snapshots.
        every: u32,
    },
}

/// Plan with a protection, and its expected rate and costs under failures.
#[derive(Clone, Debug, PartialEq)]
pub struct Protected {
    /// Plan of the pipeline.
    pub plan: Plan,
    /// Protection against failures.
    pub protection: Protection,
    /// Time for which a snapshot stops the pipeline, in seconds.
    pub snapshot_seconds: f64,
    /// Expected number of rows per second, with failures.
    pub rows_a_second: f64,
    /// Expected price of the workers per million rows, in US dollars.
    pub usd_per_million_rows: f64,
}

impl Failures {
    fn check(&self) -> Result<()> {
        let figures = [
            ("failures per hour", self.per_hour),
            ("seconds until a worker is replaced", self.replaced_after),
            ("US dollars per hour", self.usd_hour),
            ("US dollars per hour of a reliable worker", self.reliable_usd_hour.unwrap_or(0.0)),
        ];
        let wrong = |reason| Err(Error::from(Refused::Content { what: "failures of workers", reason }));
        if let Some((what, figure)) = figures.into_iter().find(|(_, f)| !(f.is_finite() && *f >= 0.0)) {
            return wrong(format!("found {figure} {what}: set a number of at least 0"));
        }
        let link = self.snapshot_link;
        match is_above_zero(link) {
            true => Ok(()),
            false => wrong(format!("found a bandwidth of {link} for snapshots: set a number above 0")),
        }
    }

    /// Returns the share of the time in which a worker is missing, if a failed one returns after
    /// `back` seconds.
    fn missing(&self, back: f64) -> f64 {
        let expected = self.per_hour / 3600.0 * back;
        expected / (1.0 + expected)
    }
}

impl Protection {
    /// Returns a name, for instance `a snapshot every 16 updates`.
    #[must_use]
    pub fn summary(self) -> String {
        let updates = |every: u32| match every {
            1 => "update".to_owned(),
            _ => format!("{every} updates"),
        };
        match self {
            Self::Reliable => "workers that do not fail".to_owned(),
            Self::Host { redundant: false } => "weights at the host".to_owned(),
            Self::Host { redundant: true } => "weights at the host, redundant computation".to_owned(),
            Self::Workers { replicas: 0, every } => format!("a snapshot every {}", updates(every)),
            Self::Workers { replicas, every } => {
                let workers = if replicas == 1 { "worker" } else { "workers" };
                format!(
                    "weights replicated at {replicas} other {workers}, a snapshot every {}",
                    updates(every)
                )
            }
        }
    }
}

/// Returns the possible work of the most loaded worker, relative to that without failures, with the
/// probability of each. A worker runs its own lane, and those of the missing workers after it.
pub(super) fn previous_loads(missing: f64, workers: u32) -> Vec<(f64, f64)> {
    // Probability that the longest run of missing workers has this length at least.
    let least = |length: u32| match length {
        0 => 1.0,
        _ if length > workers => 0.0,
        _ => 1.0 - (1.0 - missing.powi(length as i32)).powi(workers as i32),
    };
    (0..=workers).map(|length| (least(length) - least(length + 1), 1.0 + f64::from(length))).collect()
}

/// Returns the possible work of the most loaded worker, relative to that without failures, with the
/// probability of each. The remaining workers of each of `depth` lanes share the work of `width`.
pub(super) fn peers_loads(missing: f64, width: u32, depth: u32) -> Vec<(f64, f64)> {
    // Probability that at most `most` of the workers of each lane are missing.
    let within = |most: u32| -> f64 {
        let (mut choose, mut sum) = (1.0, 0.0);
        for failed in 0..=most {
            sum += choose * missing.powi(failed as i32) * (1.0 - missing).powi((width - failed) as i32);
            choose *= f64::from(width - failed) / f64::from(failed + 1);
        }
        sum.powi(depth as i32)
    };
    let exactly = |failed: u32| within(failed) - if failed > 0 { within(failed - 1) } else { 0.0 };
    // If all are missing, workers of the previous lane also run this one.
    let load = |failed: u32| match failed == width {
        true => f64::from(width) + 1.0,
        false => f64::from(width) / f64::from(width - failed),
    };
    (0..=width).map(|failed| (exactly(failed), load(failed))).collect()
}

/// A plan whose rate under failures is computed.
struct Exposed<'a> {
    plan: &'a Plan,
    graph: &'a Graph,
    failures: &'a Failures,
    /// Copies of the weights that a snapshot contains: values and moments.
    logged_copies: f64,
    /// Bandwidth of the slowest worker, in bytes per second.
    link: f64,
}

impl Exposed<'_> {
    fn workers(&self) -> u32 {
        self.plan.shape.width * self.plan.shape.depth
    }

    fn weights(&self, stage: &super::plan::PlannedStage) -> f64 {
        stage.operators.iter().filter_map(|&at| self.graph.operators().get(at)).map(|of| of.weights).sum()
    }

    /// Returns the time for which a snapshot stops the pipeline, in seconds.
    fn snapshot_seconds(&self) -> f64 {
        let weights: f64 = self.plan.stages.iter().map(|stage| self.weights(stage)).sum();
        self.logged_copies * weights / self.failures.snapshot_link
    }

    /// Returns the expected number of rounds per second without losses, and the mean time of a round
    /// in seconds. `extra` are the seconds that protection adds to each round. `shares` is true if
    /// peers take over.
    fn rounds(&self, missing: f64, extra: f64, shares: bool) -> (f64, f64) {
        let (plan, shape) = (self.plan, self.plan.shape);
        let loads = match shape.width > 1 && shares {
            true => peers_loads(missing, shape.width, shape.depth),
            false => previous_loads(missing, self.workers()),
        };
        let round = |load: f64| plan.round_seconds + plan.slowest_seconds * (load - 1.0) + extra;
        let mean = |of: &dyn Fn(f64) -> f64| loads.iter().map(|&(share, load)| share * of(load)).sum::<f64>();
        (mean(&|load| 1.0 / round(load)), mean(&round))
    }

    /// Returns the expected number of rows per second and the share of time in which a worker is
    /// missing.
    fn rate(&self, protection: Protection) -> (f64, f64) {
        let (plan, failures) = (self.plan, self.failures);
        let rows = f64::from(plan.shape.rows);
        let rate = failures.per_hour / 3600.0;
        let failing = |missing: f64| f64::from(self.workers()) * (1.0 - missing) * rate;
        match protection {
            Protection::Reliable => (plan.rows_a_second, 0.0),
            Protection::Host { redundant } => {
                let missing = failures.missing(failures.replaced_after);
                // A worker runs the forward steps of two stages. Some of them fit where it waits.
                let waits = plan.round_seconds - plan.slowest_seconds;
                let forward = plan.stages.iter().map(|of| of.forward_seconds).fold(0.0, f64::max);
                let own = f64::from(plan.shape.micro / plan.shape.width.max(1));
                let extra = if redundant { (own * forward - HIDDEN * waits).max(0.0) } else { 0.0 };
                let (rounds, _) = self.rounds(missing, extra, !redundant);
                let stashed = |of: &super::plan::PlannedStage| f64::from(of.in_flight) * of.forward_seconds;
                let again = if redundant { 0.0 } else { plan.stages.iter().map(stashed).fold(0.0, f64::max) };
                let loss = again + plan.slowest_seconds / 2.0;
                (rows * rounds / (1.0 + failing(missing) * loss), missing)
            }
            Protection::Workers { replicas, every } => {
                let weights = plan.stages.iter().map(|stage| self.weights(stage)).fold(0.0, f64::max);
                let sent = f64::from(replicas) * weights / self.link;
                let extra = sent + self.snapshot_seconds() / f64::from(every);
                let has_copies = replicas > 0 || plan.shape.width > 1;
                let wait = plan.round_seconds * if has_copies { 0.5 } else { f64::from(every) / 2.0 };
                let missing = failures.missing(failures.replaced_after + wait);
                let (rounds, round) = self.rounds(missing, extra, true);
                // Workers that replicate weights fail in the same round, and workers of other
                // replicas of the pipeline are missing.
                let lost = (rate * round).min(1.0).powi(replicas as i32)
                    * missing.powi((plan.shape.width - 1) as i32);
                let loss = round / 2.0 + lost * f64::from(every) * round / 2.0;
                (rows * rounds / (1.0 + failing(missing) * loss), missing)
            }
        }
    }

    fn protected(&self, protection: Protection) -> Protected {
        let (rows_a_second, missing) = self.rate(protection);
        let usd_hour = match protection {
            Protection::Reliable => self.failures.reliable_usd_hour.unwrap_or(self.failures.usd_hour),
            _ => self.failures.usd_hour,
        };
        let available = f64::from(self.workers()) * (1.0 - missing);
        Protected {
            plan: self.plan.clone(),
            protection,
            snapshot_seconds: self.snapshot_seconds(),
            rows_a_second,
            usd_per_million_rows: usd_hour * available / 3600.0 / rows_a_second * 1e6,
        }
    }
}

/// Plans the pipeline with each protection and each number of replicas that [`Wanted`] allows.
/// Returns the cheapest one per row first; of equally cheap ones, the fastest. Plans with a host are
/// tried only if the machine has one.
///
/// # Errors
/// Returns the errors of [`plan`] if no plan fits, and [`Error::Content`] for invalid failures.
pub fn protect(
    graph: &Graph,
    machine: &Machine,
    wanted: &Wanted,
    failures: &Failures,
) -> Result<Vec<Protected>> {
    failures.check()?;
    let (mut found, mut short) = (Vec::new(), None);
    let link = machine.lanes.iter().map(|lane| lane.link).fold(f64::INFINITY, f64::min);
    // Each list has alternatives of one kind, of which the best is returned.
    let mut add = |machine: &Machine, replicas: u32, width: u32, kinds: &[Vec<Protection>]| {
        // A replica has the values and all that their owner stores with them.
        let copies = wanted.copies + f64::from(replicas) * (1.0 + wanted.copies);
        let of = Wanted { widths: vec![width], copies, ..wanted.clone() };
        if of.shapes(machine).next().is_none() {
            return Ok(());
        }
        match plan(graph, machine, &of) {
            Ok(answer) => {
                // A snapshot has the values in place of the sum of the gradients.
                let logged_copies = wanted.copies.max(1.0);
                let exposed = Exposed { plan: &answer.plan, graph, failures, logged_copies, link };
                let best = |kind: &Vec<Protection>| {
                    let all = kind.iter().map(|&protection| exposed.protected(protection));
                    all.min_by(Protected::order)
                };
                found.extend(kinds.iter().filter_map(best));
                Ok(())
            }
            Err(error @ Error::Short { .. }) => {
                short.get_or_insert(error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    };
    let own = Machine { host: None, ..machine.clone() };
    for &width in &wanted.widths {
        let snapshots = |replicas| EVERY.map(|every| Protection::Workers { replicas, every }).to_vec();
        let reliable = failures.reliable_usd_hour.map(|_| Protection::Reliable);
        add(&own, 0, width, &[snapshots(0), reliable.into_iter().collect()])?;
        let depth = own.lanes.len() as u32 / width.max(1);
        for replicas in REPLICAS.into_iter().filter(|&replicas| replicas < depth) {
            add(&own, replicas, width, &[snapshots(replicas)])?;
        }
        if machine.host.is_some() {
            let of_host = [false, true].map(|redundant| vec![Protection::Host { redundant }]);
            add(machine, 0, width, &of_host)?;
        }
    }
    found.sort_by(Protected::order);
    match (found.is_empty(), short) {
        (true, Some(error)) => Err(error),
        _ => Ok(found),
    }
}

impl Protected {
    /// Orders by costs per row, and then by rate.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let cheaper = self.usd_per_million_rows.total_cmp(&other.usd_per_million_rows);
        cheaper.then(other.rows_a_second.total_cmp(&self.rows_a_second))
    }
}
