//! Schedules as data: which lane does which step, and when, if each stage takes a given time.
//!
//! A [`Grid`] follows from a program on lanes and the rules of [`crate::policy`] alone, apart from
//! any run and from the engine, which follows the same rules.
//!
//! The *bubble* of a grid is the share of all lanes' time, from the first step to the last, in
//! which a lane does nothing. Of d lanes, m intervals and steps of one length it is (d - 1) / (m +
//! d - 1) where each round drains the pipeline (Huang et al. 2019, section 2.3).

mod draw;
pub(crate) mod list;

use list::{List, World};

use crate::ids::StageId;
use crate::lanes::Lanes;
use crate::policy::Policy;
use crate::program::Program;

/// A step of a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The lane, over all replicas.
    pub lane: u32,
    /// Round, from 0.
    pub round: u32,
    /// Which stage.
    pub stage: StageId,
    /// The stage's chunk of the lane.
    pub chunk: u32,
    /// True if the step is the loss or behind it.
    pub back: bool,
    /// On which interval.
    pub interval: u32,
    /// When it begins and ends.
    pub time: (f64, f64),
}

/// The steps of some rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// In the order in which they begin.
    pub cells: Vec<Cell>,
    /// How many lanes there are.
    pub lanes: u32,
    /// When each round is over.
    pub rounds: Vec<f64>,
}

/// What a grid is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// A program whose stages are on lanes.
    pub program: &'a Program,
    /// The lanes.
    pub lanes: Lanes,
    /// Intervals of a round.
    pub intervals: u32,
    /// How many rounds.
    pub rounds: u32,
    /// How many rounds an interval may be ahead ([`crate::Pipeline::bound`]).
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

/// Steps of given lengths, whose rows are at once where they are read.
struct Lengths<'a>(&'a dyn Fn(StageId, u32) -> f64);

impl World for Lengths<'_> {
    fn took(&self, job: u16, interval: u32) -> f64 {
        (self.0)(StageId(job), interval)
    }
}

impl Grid {
    /// The grid of some rounds, if a stage takes `took` on an interval.
    #[must_use]
    pub fn of(shape: &Shape<'_>, took: &dyn Fn(StageId, u32) -> f64) -> Self {
        shape.list().run(&mut Lengths(took))
    }

    /// From the first step to the last.
    #[must_use]
    pub fn span(&self) -> f64 {
        self.cells.iter().map(|cell| cell.time.1).fold(0.0, f64::max)
    }

    /// The share of the lanes' time in which they do nothing, between the ends of the first and the
    /// last round; of one round from its first step on.
    #[must_use]
    pub fn bubble(&self) -> f64 {
        let (from, to) = self.steady();
        let busy = |cell: &Cell| (cell.time.1.min(to) - cell.time.0.max(from)).max(0.0);
        let busy: f64 = self.cells.iter().map(busy).sum();
        let all = f64::from(self.lanes) * (to - from);
        if all > 0.0 { 1.0 - busy / all } else { 0.0 }
    }

    /// How long a round takes where several follow each other.
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
