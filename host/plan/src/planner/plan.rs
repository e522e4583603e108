//! Plans: what `plan` answers, and why the second lost.

use super::machine::Shape;
use super::partition::Planner;
use super::predict::{Candidate, Predicted};

/// A pipeline that was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How its stages were found.
    pub planner: Planner,
    /// Its schedule, lanes and micro-batches.
    pub shape: Shape,
    /// Rows of the largest micro-batch.
    pub rows: u32,
    /// The stages, in topological order.
    pub stages: Vec<PlannedStage>,
    /// Predicted seconds of a round, in the steady state.
    pub round_seconds: f64,
    /// Predicted rows a second.
    pub rows_a_second: f64,
    /// The share of the lanes' time in which they do nothing.
    pub bubble: f64,
    /// Bytes an update between stages, rows and gradients.
    pub boundary_bytes: f64,
    /// Bytes an update of weights and their gradients.
    pub weight_bytes: f64,
    /// Bytes that the host holds; 0 without one.
    pub host_memory: f64,
    /// Seconds that the slowest lane works in a round.
    pub slowest_seconds: f64,
    /// Seconds of the update between rounds.
    pub update_seconds: f64,
}

/// One of its stages.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStage {
    /// Its operators, ascending.
    pub operators: Vec<usize>,
    /// The machine's lanes that do it, by replica.
    pub lanes: Vec<usize>,
    /// The stages that it waits for, forward.
    pub reads: Vec<usize>,
    /// True if it keeps its inputs only, and goes forward again before it goes back.
    pub recompute: bool,
    /// Micro-batches in flight at most.
    pub in_flight: u32,
    /// Seconds forward of a micro-batch, on the slowest replica.
    pub forward_seconds: f64,
    /// Seconds backward, forward again included.
    pub backward_seconds: f64,
    /// Bytes that it holds.
    pub memory: f64,
}

/// A plan, and the best of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The plan of most rows a second.
    pub plan: Plan,
    /// The best of other width, schedule or stages; `None`: there is no other.
    pub runner_up: Option<Plan>,
    /// Why the runner-up lost, in words; empty without one.
    pub reason: String,
    /// States that the planners looked at.
    pub states: u64,
}

impl Plan {
    pub(super) fn of(candidate: &Candidate<'_>, predicted: Predicted) -> Self {
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

    /// Seconds of a round in which the slowest lane waits: for rows, for its turn, for weights.
    fn waits(&self) -> f64 {
        self.round_seconds - self.slowest_seconds
    }

    /// Why this plan loses against another.
    pub(super) fn loses(&self, best: &Self) -> String {
        let percent = 100.0 * (self.round_seconds / best.round_seconds - 1.0);
        let (work, waits) = (self.slowest_seconds - best.slowest_seconds, self.waits() - best.waits());
        let stages = self.stages.iter().filter(|stage| stage.recompute).count();
        let others = best.stages.iter().filter(|stage| stage.recompute).count();
        let again = match stages > others {
            true => format!("; {stages} of its stages go forward again, against {others}"),
            false => String::new(),
        };
        let cause = if percent <= 0.0 {
            format!("it is as quick, found later; both take {} a round", seconds(self.round_seconds))
        } else if work >= waits {
            let (own, other) = (seconds(self.slowest_seconds), seconds(best.slowest_seconds));
            format!("its slowest lane works {own} a round, against {other}{again}")
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
            format!("its slowest lane waits {own} a round, against {other}{of}")
        };
        format!("{:.1} % slower: {cause}", percent.max(0.0))
    }
}

/// Seconds in words.
fn seconds(of: f64) -> String {
    match of {
        of if of >= 1.0 => format!("{of:.3} s"),
        of if of >= 1e-3 => format!("{:.3} ms", of * 1e3),
        of => format!("{:.3} us", of * 1e6),
    }
}
