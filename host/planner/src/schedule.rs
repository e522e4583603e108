//! Schedules as data: the lane and the time of each step, if each stage takes a given time.
//!
//! A [`Grid`] is computed only from a program on lanes and the rules of [`crate::policy`]. It is
//! independent of any run and of the engine, which follows the same rules. A *lane* is a worker's
//! share of the pipeline.
//!
//! The *bubble* of a grid is the share of all lanes' time, from the first step to the last, in
//! which a lane is idle. With d lanes, m intervals and steps of one length, it is (d - 1) / (m + d
//! - 1) if each round drains the pipeline (Huang et al. 2019, section 2.3).

mod draw;
pub(crate) mod list;

use list::{List, World};

use crate::policy::Policy;
use eciton_program::program::Program;
use eciton_recipe::lanes::Lanes;
use eciton_types::ids::StageId;

/// Cell of a grid: one step on a lane, with its times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Index of the lane, over all replicas.
    pub lane: u32,
    /// Round (update) of the step, from 0.
    pub round: u32,
    /// Stage of the step.
    pub stage: StageId,
    /// Chunk (run of stages) of the lane that has the stage.
    pub chunk: u32,
    /// True if the step is the loss or a backward step.
    pub back: bool,
    /// Interval (micro-batch) of the step.
    pub interval: u32,
    /// Start and end of the step.
    pub time: (f64, f64),
}

/// Grid: the steps of several rounds, each with its lane and its times.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Cells in the order in which their steps begin.
    pub cells: Vec<Cell>,
    /// Number of lanes, over all replicas.
    pub lanes: u32,
    /// End time of each round.
    pub rounds: Vec<f64>,
}

/// Inputs from which a grid is computed.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Program whose stages are on lanes.
    pub program: &'a Program,
    /// Number of lanes, and the order of their steps.
    pub lanes: Lanes,
    /// Number of intervals (micro-batches) per round.
    pub intervals: u32,
    /// Number of rounds (updates).
    pub rounds: u32,
    /// Maximum number of rounds that an interval may be ahead of the slowest
    /// ([`eciton_recipe::Pipeline::bound`]).
    pub bound: u32,
}

impl Shape<'_> {
    fn stages(&self) -> u16 {
        // A program has at most 2^16 stages.
        self.program.stages.len() as u16
    }

    fn list(&self) -> List {
        let reads =
            |id| self.program.dependencies(StageId(id)).into_iter().map(|(before, _)| before.0).collect();
        List {
            policy: Policy::from_program(self.program, self.lanes, self.intervals),
            reads: (0..self.stages()).map(reads).collect(),
            intervals: self.intervals,
            rounds: self.rounds,
            bound: self.bound,
        }
    }
}

/// World in which steps have given lengths, and rows arrive immediately.
struct Lengths<'a>(&'a dyn Fn(StageId, u32) -> f64);

impl World for Lengths<'_> {
    fn took(&self, job: u16, interval: u32) -> f64 {
        (self.0)(StageId(job), interval)
    }
}

impl Grid {
    /// Computes the grid of some rounds. `took` returns the time that a stage takes on an interval.
    #[must_use]
    pub fn from_shape(shape: &Shape<'_>, took: &dyn Fn(StageId, u32) -> f64) -> Self {
        shape.list().run(&mut Lengths(took))
    }

    /// Returns the time from the start of the first step to the end of the last.
    #[must_use]
    pub fn span(&self) -> f64 {
        self.cells.iter().map(|cell| cell.time.1).fold(0.0, f64::max)
    }

    /// Returns the share of the lanes' time in which they are idle, between the ends of the first
    /// and the last round. If there is only one round, the time starts at its first step.
    #[must_use]
    pub fn bubble(&self) -> f64 {
        let (from, to) = self.steady();
        let busy = |cell: &Cell| (cell.time.1.min(to) - cell.time.0.max(from)).max(0.0);
        let busy: f64 = self.cells.iter().map(busy).sum();
        let all = f64::from(self.lanes) * (to - from);
        if all > 0.0 { 1.0 - busy / all } else { 0.0 }
    }

    /// Returns the average time of a round, if there are several.
    #[must_use]
    pub fn round(&self) -> f64 {
        let (from, to) = self.steady();
        (to - from) / self.rounds.len().saturating_sub(1).max(1) as f64
    }

    fn steady(&self) -> (f64, f64) {
        match self.rounds[..] {
            [first, .., last] => (first, last),
            _ => (0.0, self.span()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
