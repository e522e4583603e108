//! Conversion of a planner's plan to a simulated pipeline, and schedule grids of pipelines.

use eciton_engine::Residence;
use eciton_planner::schedule::{Grid, Shape};
use eciton_planner::{Graph, Plan, Protected, Protection};
use eciton_types::StageId;

use super::program::program;
use super::{Owner, Pipeline, PipelineReport, Places, Preemption, Stage};
use crate::error::Error;

/// Number of rounds (updates) that a schedule grid shows if rounds overlap. Otherwise it shows a
/// single round.
const ROUNDS: u32 = 3;

impl Pipeline {
    /// Converts the planner's plan for `graph` to a pipeline. `residence` states where stashed rows
    /// are stored.
    #[must_use]
    pub fn planned(plan: &Plan, graph: &Graph, residence: Residence) -> Self {
        let stage_of =
            |operator: usize| plan.stages.iter().position(|stage| stage.operators.contains(&operator));
        let rows = f64::from(plan.rows);
        let stage = |at: usize| {
            let own = plan.stages.get(at).map_or(&[][..], |stage| &stage.operators);
            let mut reads: Vec<(u16, f64)> = Vec::new();
            let mut seen: Vec<usize> = Vec::new();
            for read in own.iter().filter_map(|&op| graph.operators().get(op)).flat_map(|op| &op.reads) {
                let from = stage_of(*read).filter(|&from| from != at);
                let Some(from) = from.filter(|_| !seen.contains(read)) else { continue };
                seen.push(*read);
                let bytes = graph.operators().get(*read).map_or(0.0, |op| op.output * rows);
                match reads.iter_mut().find(|(known, _)| usize::from(*known) == from) {
                    Some((_, sum)) => *sum += bytes,
                    // At most `MAX_LANES`.
                    None => reads.push((from as u16, bytes)),
                }
            }
            let (forward, backward) =
                plan.stages.get(at).map_or((0.0, 0.0), |of| (of.forward_seconds, of.backward_seconds));
            let weights = own.iter().filter_map(|&op| graph.operators().get(op)).map(|op| op.weights).sum();
            Stage { forward, backward, reads, weights }
        };
        let (order, weights) = plan.shape.schedule.settings();
        Self {
            stages: (0..plan.stages.len()).map(stage).collect(),
            chunks: plan.shape.chunks,
            width: plan.shape.width,
            micro: plan.shape.micro,
            rows: plan.rows * plan.shape.micro,
            order,
            weights,
            update: plan.update_seconds,
            residence,
            takeover: None,
        }
    }

    /// Simulates a plan with its protection against failures. `places` describes the workers, and
    /// the protection determines the owner of the weights, snapshots and replicas. Workers send
    /// rows over a host with the bandwidth `host_link` if the host owns the weights.
    ///
    /// # Errors
    /// Returns the errors of [`Pipeline::run`].
    pub fn run_protected(
        of: &Protected,
        graph: &Graph,
        (places, host_link): (&Places, f64),
        seconds: f64,
        seed: u64,
    ) -> Result<PipelineReport, Error> {
        let is_redundant = of.protection == Protection::Host { redundant: true };
        let residence = if is_redundant { Residence::Redundant } else { Residence::Workers };
        let mut pipeline = Self::planned(&of.plan, graph, residence);
        let mut places = Places { owner: Owner::Worker, snapshot_every: None, replicas: 0, ..places.clone() };
        match of.protection {
            Protection::Reliable => (places.preemption, places.trace) = (Preemption::default(), Vec::new()),
            Protection::Host { .. } => {
                // The simulation itself transfers gradients to the host and weights back.
                (places.owner, pipeline.update) = (Owner::Host(host_link), 0.0);
            }
            Protection::Workers { replicas, every } => {
                (places.replicas, places.snapshot_every) = (replicas, Some(every));
                places.snapshot_seconds = of.snapshot_seconds;
            }
        }
        pipeline.run(&places, seconds, seed)
    }

    /// Returns the schedule of the first rounds as a grid, without failures and with instantaneous
    /// transfers.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] if the pipeline has no stage.
    pub fn grid(&self) -> Result<Grid, Error> {
        let program = program(self)?;
        let (depth, lanes) = (self.stages.len() as u16, self.lanes());
        let pipeline =
            eciton_recipe::Pipeline { weights: Some(self.weights), ..eciton_recipe::Pipeline::default() };
        let bound = pipeline.bound();
        let rounds = if bound > 0 { ROUNDS } else { 1 };
        let took = |stage: StageId, _: u32| {
            let back = stage.0 >= depth;
            let number = if back { 2 * depth - 1 - stage.0 } else { stage.0 };
            let of = self.stages.get(usize::from(number));
            of.map_or(0.0, |of| if back { of.backward } else { of.forward })
        };
        Ok(Grid::from_shape(&Shape { program: &program, lanes, intervals: self.micro, rounds, bound }, &took))
    }
}
