//! Plans: the result of `plan`, and the reason why the second-best plan lost.

use super::machine::Shape;
use super::partition::Planner;
use super::predict::{Candidate, Predicted};

/// The chosen pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Planner that found the stages.
    pub planner: Planner,
    /// Schedule, lanes and micro-batches.
    pub shape: Shape,
    /// Number of rows of the largest micro-batch.
    pub rows: u32,
    /// Stages in topological order.
    pub stages: Vec<PlannedStage>,
    /// Predicted seconds of a round in the steady state.
    pub round_seconds: f64,
    /// Predicted rows per second.
    pub rows_a_second: f64,
    /// Share of the lanes' time in which they are idle.
    pub bubble: f64,
    /// Bytes per update between stages, for rows and gradients.
    pub boundary_bytes: f64,
    /// Bytes per update for weights and their gradients.
    pub weight_bytes: f64,
    /// Bytes of the host's memory. 0 without a host.
    pub host_memory: f64,
    /// Seconds that the slowest lane works in a round.
    pub slowest_seconds: f64,
    /// Seconds of the update between rounds.
    pub update_seconds: f64,
}

/// A stage of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStage {
    /// Operators of the stage, ascending.
    pub operators: Vec<usize>,
    /// Lane of the machine for each replica.
    pub lanes: Vec<usize>,
    /// Stages for which the stage waits, forward.
    pub reads: Vec<usize>,
    /// True if the stage stashes only its inputs and repeats its forward step before its backward
    /// step.
    pub recompute: bool,
    /// Maximum number of micro-batches in flight.
    pub in_flight: u32,
    /// Forward seconds of a micro-batch, on the slowest replica.
    pub forward_seconds: f64,
    /// Backward seconds of a micro-batch, including recomputation.
    pub backward_seconds: f64,
    /// Bytes of memory of the stage.
    pub memory: f64,
}

/// A plan, and the best of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Plan with the highest number of rows per second.
    pub plan: Plan,
    /// Best plan with another width, schedule or stages. `None` if there is no other.
    pub runner_up: Option<Plan>,
    /// Reason why the runner-up lost. Empty if there is no runner-up.
    pub reason: String,
    /// Number of states that the planners visited.
    pub states: u64,
}

impl Plan {
    pub(super) fn from_candidate(candidate: &Candidate<'_>, predicted: Predicted) -> Self {
        let setting = &candidate.setting;
        let stages = candidate.partition.stages.iter().zip(&candidate.counted).enumerate();
        let stages = stages.map(|(at, (stage, counted))| {
            let replicas = (0..setting.shape.width as usize).map(|replica| candidate.seconds(at, replica));
            let slowest = replicas.max_by(|one, other| (one.0 + one.1).total_cmp(&(other.0 + other.1)));
            let (forward_seconds, backward_seconds) = slowest.unwrap_or_default();
            PlannedStage {
                operators: stage.operators.clone(),
                lanes: stage.lanes.clone(),
                reads: counted.reads.iter().map(|(read, _)| *read).collect(),
                recompute: counted.recompute.unwrap_or(true),
                in_flight: counted.in_flight,
                forward_seconds,
                backward_seconds,
                memory: counted.memory,
            }
        });
        let (boundary_bytes, weight_bytes) = candidate.bytes();
        Self {
            planner: candidate.partition.planner,
            shape: Shape { depth: setting.shape.depth.min(candidate.depth() as u32), ..setting.shape },
            rows: setting.rows as u32,
            stages: stages.collect(),
            round_seconds: predicted.round,
            rows_a_second: f64::from(candidate.rows) / predicted.round,
            bubble: predicted.bubble,
            boundary_bytes,
            weight_bytes,
            host_memory: candidate.host_memory(),
            slowest_seconds: candidate.slowest(),
            update_seconds: candidate.update(),
        }
    }

    /// Describes the pipeline: `1f1b, 2 wide, 4 deep, 8 micro-batches, stages of chain`.
    #[must_use]
    pub fn summary(&self) -> String {
        let Shape { schedule, width, depth, micro, chunks } = self.shape;
        let schedule = schedule.name();
        let runs = if chunks > 1 { format!("{chunks} runs of stages a lane, ") } else { String::new() };
        format!(
            "{schedule}, {width} wide, {depth} deep, {runs}{micro} micro-batches, stages of {}",
            self.planner.name()
        )
    }

    /// Returns the seconds of a round in which the slowest lane waits: for rows, for its turn, or
    /// for weights.
    fn waits(&self) -> f64 {
        self.round_seconds - self.slowest_seconds
    }

    /// Returns the reason why this plan loses against another.
    pub(super) fn loses(&self, best: &Self) -> String {
        let percent = 100.0 * (self.round_seconds / best.round_seconds - 1.0);
        let (work, waits) = (self.slowest_seconds - best.slowest_seconds, self.waits() - best.waits());
        let stages = self.stages.iter().filter(|stage| stage.recompute).count();
        let others = best.stages.iter().filter(|stage| stage.recompute).count();
        let again = match stages > others {
            true => format!("; {stages} of its stages recompute forward rows, against {others}"),
            false => String::new(),
        };
        let cause = if percent <= 0.0 {
            format!(
                "it is equally fast but was found later; both take {} per round",
                seconds(self.round_seconds)
            )
        } else if work >= waits {
            let (own, other) = (seconds(self.slowest_seconds), seconds(best.slowest_seconds));
            format!("its slowest lane computes for {own} per round, against {other}{again}")
        } else {
            let update = self.update_seconds - best.update_seconds;
            let (own, other) = (seconds(self.waits()), seconds(best.waits()));
            let of = match update > waits / 2.0 {
                true => format!(
                    ", {} of it for weights against {}",
                    seconds(self.update_seconds),
                    seconds(best.update_seconds)
                ),
                false => {
                    format!(" (bubble {:.1} % against {:.1} %)", 100.0 * self.bubble, 100.0 * best.bubble)
                }
            };
            format!("its slowest lane waits {own} per round, against {other}{of}")
        };
        format!("{:.1} % slower: {cause}", percent.max(0.0))
    }
}

/// Formats seconds for messages.
fn seconds(of: f64) -> String {
    match of {
        of if of >= 1.0 => format!("{of:.3} s"),
        of if of >= 1e-3 => format!("{:.3} ms", of * 1e3),
        of => format!("{:.3} us", of * 1e6),
    }
}
