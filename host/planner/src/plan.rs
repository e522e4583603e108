//! Plans: the result of [`crate::plan`], and the reason why the second-best plan lost.

use super::machine::Shape;
use super::partition::Planner;
use super::predict::{Candidate, Predicted};

/// Plan: a pipeline that the planner chose, with its predicted times and sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Planner that found the stages.
    pub planner: Planner,
    /// Schedule, lanes and micro-batches of the pipeline.
    pub shape: Shape,
    /// Number of rows of the largest micro-batch.
    pub rows: u32,
    /// Stages in topological order.
    pub stages: Vec<PlannedStage>,
    /// Predicted time of a round (update) in the steady state, in seconds.
    pub round_seconds: f64,
    /// Predicted number of rows per second.
    pub rows_a_second: f64,
    /// Share of the lanes' time in which they are idle (bubble).
    pub bubble: f64,
    /// Bytes per update that stages send to each other, for rows and gradients.
    pub boundary_bytes: f64,
    /// Bytes per update that are sent for weights and their gradients.
    pub weight_bytes: f64,
    /// Memory of the host, in bytes. Without a host, it is 0.
    pub host_memory: f64,
    /// Time that the slowest lane computes in a round, in seconds.
    pub slowest_seconds: f64,
    /// Time of the update between rounds, in seconds.
    pub update_seconds: f64,
}

/// Stage of a plan, on one lane in each replica.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStage {
    /// Indices of the operators of the stage, in ascending order.
    pub operators: Vec<usize>,
    /// Index of the machine's lane that runs the stage, for each replica.
    pub lanes: Vec<usize>,
    /// Indices of the stages for whose output this stage waits, forward.
    pub reads: Vec<usize>,
    /// True if the stage stashes only its inputs and repeats its forward step before its backward
    /// step (recomputation).
    pub recompute: bool,
    /// Maximum number of micro-batches in flight in the stage.
    pub in_flight: u32,
    /// Forward time of a micro-batch on the slowest replica, in seconds.
    pub forward_seconds: f64,
    /// Backward time of a micro-batch including recomputation, in seconds.
    pub backward_seconds: f64,
    /// Memory of the stage, in bytes.
    pub memory: f64,
}

/// Answer of the planner: the best plan, and the best other plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Plan with the highest number of rows per second.
    pub plan: Plan,
    /// Best plan with another width, schedule or stages. `None` if there is no other.
    pub runner_up: Option<Plan>,
    /// Reason why the runner-up lost, as text. Empty if there is no runner-up.
    pub reason: String,
    /// Number of states that all planners visited.
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
            rows_a_second: f64::from(setting.shape.rows) / predicted.round,
            bubble: predicted.bubble,
            boundary_bytes,
            weight_bytes,
            host_memory: candidate.host_memory(),
            slowest_seconds: candidate.slowest(),
            update_seconds: candidate.update(),
        }
    }

    /// Returns a description of the pipeline, for instance `1f1b, 2 wide, 4 deep, 8 micro-batches,
    /// stages of chain`.
    #[must_use]
    pub fn summary(&self) -> String {
        let Shape { schedule, width, depth, micro, chunks, .. } = self.shape;
        let schedule = schedule.name();
        let runs = if chunks > 1 { format!("{chunks} runs of stages a lane, ") } else { String::new() };
        format!(
            "{schedule}, {width} wide, {depth} deep, {runs}{micro} micro-batches, stages of {}",
            self.planner.name()
        )
    }

    /// Returns the time in a round in which the slowest lane waits for rows, for its turn, or for
    /// weights, in seconds.
    fn waits(&self) -> f64 {
        self.round_seconds - self.slowest_seconds
    }

    /// Returns the reason why this plan is worse than the best plan, as text.
    pub(super) fn loses(&self, best: &Self) -> String {
        let percent = 100.0 * (best.rows_a_second / self.rows_a_second - 1.0);
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
        } else if self.shape.rows != best.shape.rows {
            format!("its updates have {} rows, against {}", self.shape.rows, best.shape.rows)
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

/// Returns a time in seconds as text with a unit.
fn seconds(of: f64) -> String {
    match of {
        of if of >= 1.0 => format!("{of:.3} s"),
        of if of >= 1e-3 => format!("{:.3} ms", of * 1e3),
        of => format!("{:.3} us", of * 1e6),
    }
}
