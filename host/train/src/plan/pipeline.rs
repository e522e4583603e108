//! Pipeline planner: predictions for a run on lanes, from measured times of the stages (`eciton
//! profile`).

use eciton_planner::{Answer, Graph, HostWork, Lane, Machine, Plan, Wanted, plan};
use eciton_program::{Profile, Program};
use eciton_recipe::Config;
use serde::Serialize;

use crate::error::Result;

/// Assumed bandwidth between threads of one machine, in bytes per second.
const LINK: f64 = 1e10;
/// Numbers of micro-batches per batch among which the planner selects.
const PARTS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Pipelines that the planner compared: the one of the run, and better ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PipelinePlan {
    /// Pipeline with the run's own settings.
    pub own: PlannedPipeline,
    /// Fastest pipeline over all numbers of replicas, numbers of micro-batches and schedules.
    pub best: PlannedPipeline,
    /// Second-fastest pipeline, and the reason why it is slower than the fastest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<(PlannedPipeline, String)>,
}

/// Pipeline with its predicted throughput.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedPipeline {
    /// Description of the pipeline, for instance `1f1b, 1 wide, 4 deep, 8 micro-batches, stages of
    /// chain`.
    pub shape: String,
    /// Predicted throughput, in rows per second.
    pub rows_per_second: f64,
    /// Predicted share of time in which lanes are idle, from 0 to 1.
    pub bubble: f64,
    /// Names of the operators of each stage, and seconds per micro-batch of the stage, forward and
    /// backward.
    pub stages: Vec<(Vec<String>, f64, f64)>,
}

impl PlannedPipeline {
    fn of(plan: &Plan, graph: &Graph) -> Self {
        let name = |&at: &usize| graph.operators().get(at).map_or_else(String::new, |of| of.name.clone());
        let stages = plan.stages.iter().map(|stage| {
            let operators = stage.operators.iter().map(name).collect();
            (operators, stage.forward_seconds, stage.backward_seconds)
        });
        Self {
            shape: plan.summary(),
            rows_per_second: plan.rows_a_second,
            bubble: plan.bubble,
            stages: stages.collect(),
        }
    }
}

/// Converts a bandwidth from megabits per second to bytes per second.
fn bytes_a_second(mbits: u32) -> f64 {
    f64::from(mbits) * 1e6 / 8.0
}

/// Inputs of the pipeline planner: program and profile of a run, rows of an update, and threads.
pub(crate) struct Planning<'a> {
    pub program: &'a Program,
    pub profile: &'a Profile,
    /// Share of the feature values that are stored, which is below 1 for sparse features.
    pub stored: f64,
    /// Number of rows of an update.
    pub rows: u32,
    /// Number of micro-batches of an update.
    pub parts: u32,
    /// Number of compute threads.
    pub threads: u32,
}

impl Planning<'_> {
    fn graph(&self) -> Result<Graph> {
        Ok(Graph::from_program(self.program, self.profile, self.stored)?)
    }

    /// Describes the lanes to the planner: their relative speed, and the bandwidth of their links.
    fn machine(&self, config: &Config) -> Machine {
        let count = config.lanes.lanes.count;
        let link = config.lanes.link_mbits.map_or(LINK, bytes_a_second);
        // Threads share the cores if there are fewer cores than threads.
        let pace = (f64::from(self.threads) / f64::from(count.max(1))).min(1.0);
        Machine::equal(count, Lane { pace, memory: None, link })
    }

    /// Returns the work of the host's thread (which drives the lanes), computed from the profile.
    fn work(&self, config: &Config) -> HostWork {
        let (host, parts) = (self.profile.host, f64::from(self.parts));
        let values: u64 = self.program.parameters.iter().map(|one| one.len() as u64).sum();
        let update = values as f64 * (host.seconds_per_value_updated + parts * host.seconds_per_value_added);
        let data = config.lanes.link_mbits.map(bytes_a_second);
        HostWork { step: host.seconds_per_step, update, cores: self.threads, data }
    }

    /// Plans the pipeline for the run's own number of replicas, number of micro-batches and
    /// schedule.
    pub(crate) fn own(&self, config: &Config) -> Result<Answer> {
        self.plan(config, &self.wanted(config))
    }

    /// Returns the search space that contains only the run's own settings.
    fn wanted(&self, config: &Config) -> Wanted {
        Wanted {
            rows: self.rows,
            schedules: vec![config.schedule()],
            chunks: config.lanes.lanes.chunks,
            widths: vec![config.lanes.lanes.width],
            micro: vec![self.parts],
            recompute: false,
            parallel: true,
            copies: 3.0,
            work: self.work(config),
        }
    }

    fn plan(&self, config: &Config, wanted: &Wanted) -> Result<Answer> {
        Ok(plan(&self.graph()?, &self.machine(config), wanted)?)
    }

    /// Returns the planner's results for a run: its own pipeline, and the best ones.
    pub(super) fn report(&self, config: &Config) -> Result<PipelinePlan> {
        let count = config.lanes.lanes.count;
        let widths: Vec<u32> = (1..=count).filter(|width| count.is_multiple_of(*width)).collect();
        let micro = PARTS.into_iter().filter(|&parts| parts <= self.rows).collect();
        let (graph, own) = (self.graph()?, self.own(config)?);
        let any = Wanted { widths, micro, schedules: config.schedules(), ..self.wanted(config) };
        let best = self.plan(config, &any)?;
        let told = |plan: &Plan| PlannedPipeline::of(plan, &graph);
        Ok(PipelinePlan {
            own: told(&own.plan),
            best: told(&best.plan),
            runner_up: best.runner_up.as_ref().map(|second| (told(second), best.reason.clone())),
        })
    }
}
