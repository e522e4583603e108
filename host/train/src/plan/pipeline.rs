//! The pipeline planner, which predicts the throughput of a run on lanes from the measured times of
//! its stages (`eciton profile`).

use eciton_planner::{
    Answer, Failures, Graph, Host, HostWork, Lane, Machine, Plan, Protected, Wanted, plan, protect,
};
use eciton_program::{Profile, Program};
use eciton_recipe::Config;
use eciton_recipe::cluster::REPLACED_AFTER_S;
use serde::Serialize;

use super::lane_needs::{IN_PRODUCTS, IN_TRANSIT, OWNED_SUMS, PROCESS_BYTES};
use crate::error::Result;

/// Assumed bandwidth between two threads of one machine, in bytes per second.
const LINK: f64 = 1e10;
/// Assumed time of a transfer between processes in addition to its bytes divided by the bandwidth,
/// in microseconds.
const TRANSFER_US: u32 = 500;
/// Numbers of micro-batches per batch that the planner tries.
const PARTS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Result of the pipeline planner: the pipeline of the run, compared with the best ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PipelinePlan {
    /// The pipeline with the settings of the run.
    pub own: PlannedPipeline,
    /// The fastest pipeline over all numbers of replicas, numbers of micro-batches, schedules, and
    /// batches of `lanes.batches`.
    pub best: PlannedPipeline,
    /// The second-fastest pipeline, and the reason why it is slower than the fastest one. `None` if
    /// there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<(PlannedPipeline, String)>,
    /// Protections against failures of workers. `None` if none are expected
    /// (`cluster.failures_per_hour`).
    #[serde(skip)]
    pub protections: Option<Protections>,
}

/// Protections against failures of workers, the cheapest per row first.
#[derive(Debug, Clone, PartialEq)]
pub struct Protections {
    /// Plans with their protections.
    pub all: Vec<Protected>,
    /// Operators of the model with their times and sizes.
    pub graph: Graph,
    /// Workers and host.
    pub machine: Machine,
    /// Failures and prices of workers.
    pub failures: Failures,
}

/// A pipeline with its predicted throughput.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedPipeline {
    /// Description of the pipeline, for instance `1f1b, 1 wide, 4 deep, 8 micro-batches, stages of
    /// chain`.
    pub shape: String,
    /// Number of rows per update.
    pub rows: u32,
    /// Predicted throughput in rows per second.
    pub rows_per_second: f64,
    /// Predicted share of time in which lanes are idle, from 0 to 1.
    pub bubble: f64,
    /// Stages of the pipeline. Each has the names of its operators, and its seconds per micro-batch
    /// forward and backward.
    pub stages: Vec<(Vec<String>, f64, f64)>,
}

impl PlannedPipeline {
    fn from_plan(plan: &Plan, graph: &Graph) -> Self {
        let name = |&at: &usize| graph.operators().get(at).map_or_else(String::new, |of| of.name.clone());
        let stages = plan.stages.iter().map(|stage| {
            let operators = stage.operators.iter().map(name).collect();
            (operators, stage.forward_seconds, stage.backward_seconds)
        });
        Self {
            shape: plan.summary(),
            rows: plan.shape.rows,
            rows_per_second: plan.rows_a_second,
            bubble: plan.bubble,
            stages: stages.collect(),
        }
    }
}

/// Input of the pipeline planner.
pub(crate) struct Planning<'a> {
    pub program: &'a Program,
    pub profile: &'a Profile,
    /// Share of the feature values that are stored. It is below 1 for sparse features only.
    pub stored: f64,
    /// Number of rows per update.
    pub rows: u32,
    /// Number of micro-batches per update.
    pub parts: u32,
    /// Number of compute threads on this machine.
    pub threads: u32,
}

/// Returns the numbers of copies of the weights for the planner ([`Wanted::copies`] and
/// [`Wanted::lane_copies`]), as in [`super::lane_needs::needs`].
fn copies(config: &Config) -> (f64, f64) {
    let (versions, moments) =
        (u64::from(config.pipeline.weight_versions()), config.optimiser.algorithm.moments() as u64);
    let peers = u64::from(config.lanes.lanes.width.max(1)) - 1;
    let owned = match config.workers.own() {
        true => moments + (OWNED_SUMS + peers) * versions,
        false => moments + 1,
    };
    (owned as f64, (1 + IN_TRANSIT) as f64)
}

impl Planning<'_> {
    fn graph(&self) -> Result<Graph> {
        Ok(Graph::from_program(self.program, self.profile, self.stored)?)
    }

    /// Returns the share of a core that a lane has, if the recipe does not describe its speed. Lanes
    /// on this machine share the cores if there are fewer cores than lanes.
    pub(crate) fn share(&self, config: &Config) -> f64 {
        let cores = f64::from(self.threads) / f64::from(config.lanes.lanes.count.max(1));
        if config.has_remote_workers() { 1.0 } else { cores.min(1.0) }
    }

    /// Describes the workers and the host to the planner. Values that the recipe does not describe
    /// are those of threads or processes on this machine.
    fn machine(&self, config: &Config) -> Machine {
        let (cluster, count) = (&config.cluster, config.lanes.lanes.count);
        let usual = self.share(config);
        let largest = self.program.parameters.iter().map(|one| 4 * one.len() as u64).max().unwrap_or(0);
        let fixed = PROCESS_BYTES + IN_PRODUCTS * largest;
        let lane = |at: usize| Lane {
            pace: cluster.speed(at).unwrap_or(usual),
            memory: cluster.memory_bytes(at).map(|bytes| bytes.saturating_sub(fixed).max(1) as f64),
            link: cluster.link(at).unwrap_or(LINK),
        };
        let link = cluster.host_link().unwrap_or(LINK);
        let has_host = config.has_worker_lanes() && !config.workers.own();
        let usual_us = if config.has_worker_lanes() { TRANSFER_US } else { 0 };
        Machine {
            lanes: (0..count as usize).map(lane).collect(),
            host: has_host.then_some(Host { link, memory: None }),
            transfer: f64::from(cluster.transfer_us.unwrap_or(usual_us)) * 1e-6,
        }
    }

    /// Returns the work of the host's thread, which drives the lanes, from the measured profile.
    fn work(&self, config: &Config) -> HostWork {
        let (host, lanes) = (self.profile.host, &config.lanes.lanes);
        let values: u64 = self.program.parameters.iter().map(|one| one.len() as u64).sum();
        // Workers that store sums send one sum per replica.
        let sums = if config.sums_stay() { lanes.width } else { self.parts };
        let update =
            values as f64 * (host.seconds_per_value_updated + f64::from(sums) * host.seconds_per_value_added);
        // Workers that own the weights update their shares at the same time.
        let owners = if config.workers.own() { lanes.depth().max(1) } else { 1 };
        HostWork {
            step: self.profile.lanes.map_or(host.seconds_per_step, |lanes| lanes.seconds_per_step),
            update: update / f64::from(owners),
            cores: if config.has_remote_workers() { 0 } else { self.threads },
            data: config.cluster.host_link(),
        }
    }

    /// Plans the pipeline with the run's own number of replicas, number of micro-batches and
    /// schedule.
    pub(crate) fn own(&self, config: &Config) -> Result<Answer> {
        self.plan(config, &self.wanted(config))
    }

    /// Returns the search space that has only the run's own settings.
    fn wanted(&self, config: &Config) -> Wanted {
        let (copies, lane_copies) = copies(config);
        Wanted {
            rows: vec![self.rows],
            schedules: vec![config.schedule()],
            chunks: config.lanes.lanes.chunks,
            widths: vec![config.lanes.lanes.width],
            micro: vec![self.parts],
            recompute: !config.cluster.memory_mib.is_empty(),
            parallel: true,
            copies,
            lane_copies,
            work: self.work(config),
        }
    }

    fn plan(&self, config: &Config, wanted: &Wanted) -> Result<Answer> {
        Ok(plan(&self.graph()?, &self.machine(config), wanted)?)
    }

    /// Plans protections against the failures that the configuration expects. The host may own the
    /// weights in all of them.
    fn protections(&self, config: &Config, graph: &Graph, any: &Wanted) -> Result<Option<Protections>> {
        let cluster = &config.cluster;
        let Some((per_hour, usd_hour)) = cluster.failures_per_hour.zip(cluster.usd_hour) else {
            return Ok(None);
        };
        let link = cluster.host_link().unwrap_or(LINK);
        let failures = Failures {
            per_hour,
            replaced_after: f64::from(cluster.replaced_after_s.unwrap_or(REPLACED_AFTER_S)),
            usd_hour,
            reliable_usd_hour: cluster.reliable_usd_hour,
            snapshot_link: link,
        };
        let machine = Machine { host: Some(Host { link, memory: None }), ..self.machine(config) };
        let all = protect(graph, &machine, any, &failures)?;
        Ok(Some(Protections { all, graph: graph.clone(), machine, failures }))
    }

    /// Compares the run's own pipeline with the best ones.
    pub(super) fn report(&self, config: &Config) -> Result<PipelinePlan> {
        let count = config.lanes.lanes.count;
        let widths: Vec<u32> = (1..=count).filter(|width| count.is_multiple_of(*width)).collect();
        let rows = match &config.lanes.batches[..] {
            [] => vec![self.rows],
            batches => batches.to_vec(),
        };
        let most = rows.iter().copied().max().unwrap_or(1);
        let micro = PARTS.into_iter().filter(|&parts| parts <= most).collect();
        let (graph, own) = (self.graph()?, self.own(config)?);
        let any = Wanted { rows, widths, micro, schedules: config.schedules(), ..self.wanted(config) };
        let best = plan(&graph, &self.machine(config), &any)?;
        let told = |plan: &Plan| PlannedPipeline::from_plan(plan, &graph);
        let protections = self.protections(config, &graph, &any)?;
        Ok(PipelinePlan {
            protections,
            own: told(&own.plan),
            best: told(&best.plan),
            runner_up: best.runner_up.as_ref().map(|second| (told(second), best.reason.clone())),
        })
    }
}
