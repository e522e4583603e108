//! Schedules as data: which lane does which step, and when, if each stage takes a given time.
//!
//! A [`Grid`] follows from a program on lanes and the rules of [`crate::policy`] alone, apart from any run and from
//! the engine, which follows the same rules. [`Grid::check`] looks at a grid as at a
//! stranger's: every step once, after what it reads, one at a time a lane, within the caps.
//!
//! The *bubble* of a grid is the share of all lanes' time, from the first step to the last, in which a lane
//! does nothing. Of d lanes, m intervals and steps of one length it is (d - 1) / (m + d - 1) where each round
//! drains the pipeline (Huang et al. 2019, section 2.3).

mod draw;
pub(crate) mod list;

use std::collections::BTreeMap;

use list::{List, World};

use crate::ids::StageId;
use crate::lanes::Lanes;
use crate::policy::{Policy, caps};
use crate::program::{Place, Program};

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
    /// Whether the step is the loss or behind it.
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

    fn lane(&self, stage: u16, interval: u32) -> usize {
        match self.program.place(StageId(stage)) {
            Place::Lane(lane) => self.lanes.of(u32::from(lane), interval) as usize,
            _ => 0,
        }
    }

    fn caps(&self) -> Vec<u32> {
        caps(self.program, &self.lanes, self.intervals.div_ceil(self.lanes.width.max(1)))
    }

    fn list(&self) -> List {
        let reads = |id| self.program.dependencies(StageId(id)).into_iter().map(|(before, _)| before.0).collect();
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

    /// The share of the lanes' time in which they do nothing, between the ends of the first and the last
    /// round; of one round from its first step on.
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

    /// Whether every step is there once, after all that it reads, on its lane alone, within the caps.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self, shape: &Shape<'_>) -> Result<(), String> {
        let steps = shape.rounds as usize * shape.intervals as usize * usize::from(shape.stages());
        if self.cells.len() != steps {
            return Err(format!("{} cells for {steps} steps", self.cells.len()));
        }
        let at = |round: u32, stage: u16, interval: u32| {
            let same = |cell: &&Cell| (cell.round, cell.stage.0, cell.interval) == (round, stage, interval);
            self.cells.iter().find(same)
        };
        for cell in &self.cells {
            let what = format!("stage {} of interval {} in round {}", cell.stage, cell.interval, cell.round);
            if cell.lane as usize != shape.lane(cell.stage.0, cell.interval) {
                return Err(format!("{what} is on lane {}", cell.lane));
            }
            for (before, _) in shape.program.dependencies(cell.stage) {
                let read = at(cell.round, before.0, cell.interval);
                if read.is_none_or(|read| read.time.1 > cell.time.0) {
                    return Err(format!("{what} begins before stage {before} is done"));
                }
            }
            let clash = |other: &&Cell| {
                other.lane == cell.lane
                    && *other != cell
                    && other.time.0 < cell.time.1
                    && cell.time.0 < other.time.1
            };
            if let Some(other) = self.cells.iter().find(clash) {
                return Err(format!("{what} goes with stage {} on one lane", other.stage));
            }
        }
        let depth = shape.lanes.depth().max(1);
        let caps = shape.caps();
        for lane in 0..self.lanes {
            let cap = caps.get((lane % depth) as usize).copied().unwrap_or(1);
            let most = self.most(lane);
            if most > cap {
                return Err(format!("{most} passes on lane {lane}, whose cap is {cap}"));
            }
        }
        Ok(())
    }

    /// Returns the maximum number of passes between their first and their last step on a lane at once: of intervals,
    /// where a lane has one chunk.
    #[must_use]
    pub fn most(&self, lane: u32) -> u32 {
        let mut spans: BTreeMap<(u32, u32, u32), (f64, f64)> = BTreeMap::new();
        for cell in self.cells.iter().filter(|cell| cell.lane == lane) {
            let span = spans.entry((cell.round, cell.interval, cell.chunk)).or_insert(cell.time);
            *span = (span.0.min(cell.time.0), span.1.max(cell.time.1));
        }
        let starts = spans.values().map(|span| span.0);
        let inside = |time: f64| spans.values().filter(|&&(from, to)| from <= time && time < to).count();
        starts.map(|start| inside(start) as u32).max().unwrap_or(0)
    }
}

#[cfg(test)]
pub(crate) mod tests;
