//! Schedules as data: which lane does which step, and when, if each stage takes a given time.
//!
//! A [`Grid`] follows from a program on lanes, the order and the caps of [`crate::lanes`] alone, apart from any
//! run and from the engine, whose order of steps is held against it. [`Grid::check`] looks at a grid as at a
//! stranger's: every step once, after what it reads, one at a time a lane, within the caps.
//!
//! The *bubble* of a grid is the share of all lanes' time, from the first step to the last, in which a lane
//! does nothing. Of d lanes, m intervals and steps of one length it is (d - 1) / (m + d - 1) where each round
//! drains the pipeline (Huang et al. 2019, section 2.3).

mod draw;

use std::collections::BTreeSet;

use crate::ids::StageId;
use crate::lanes::{Lanes, Order, caps};
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

/// (what comes later, round, interval, stage).
type Ready = (bool, u32, u32, u16);

struct Lane {
    ready: BTreeSet<Ready>,
    free: f64,
    /// Intervals between their first step here and their last, each with what is left.
    open: Vec<(u32, u32, u32)>,
    next: (u32, u32),
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

    fn is_back(&self, stage: u16) -> bool {
        self.program.loss().is_some_and(|loss| stage >= loss.0)
    }

    /// Stages of a lane.
    fn count(&self, lane: usize) -> u32 {
        let depth = self.lanes.depth().max(1) as usize;
        let on = |id: &u16| self.program.place(StageId(*id)) == Place::Lane((lane % depth) as u16);
        (0..self.stages()).filter(on).count() as u32
    }

    fn caps(&self) -> Vec<u32> {
        caps(self.program, &self.lanes, self.intervals.div_ceil(self.lanes.width.max(1)))
    }
}

impl Grid {
    /// The grid of some rounds, if a stage takes `took` on an interval.
    #[must_use]
    pub fn of(shape: &Shape<'_>, took: &dyn Fn(StageId, u32) -> f64) -> Self {
        Making::new(shape).run(took)
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
                return Err(format!("{most} intervals on lane {lane}, whose cap is {cap}"));
            }
        }
        Ok(())
    }

    /// The most intervals between their first and their last step on a lane at once.
    #[must_use]
    pub fn most(&self, lane: u32) -> u32 {
        let of_lane = || self.cells.iter().filter(|cell| cell.lane == lane);
        let span = |cell: &Cell| {
            let same = |other: &&Cell| (other.round, other.interval) == (cell.round, cell.interval);
            let starts = of_lane().filter(same).map(|other| other.time.0).fold(f64::INFINITY, f64::min);
            (starts, of_lane().filter(same).map(|other| other.time.1).fold(0.0, f64::max))
        };
        let inside = |time: f64| {
            let mut open: Vec<(u32, u32)> = of_lane()
                .filter(|cell| {
                    let (start, end) = span(cell);
                    start <= time && time < end
                })
                .map(|cell| (cell.round, cell.interval))
                .collect();
            open.sort_unstable();
            open.dedup();
            open.len() as u32
        };
        of_lane().map(|cell| inside(cell.time.0)).max().unwrap_or(0)
    }
}

/// A grid on its way.
struct Making<'a> {
    shape: &'a Shape<'a>,
    caps: Vec<u32>,
    lanes: Vec<Lane>,
    /// By stage and interval, what the step of the interval's round still waits for.
    waits: Vec<u32>,
    /// By interval: the round that it is in, and what is left of it.
    intervals: Vec<(u32, u32)>,
    /// By round: how many intervals are through.
    through: Vec<u32>,
    /// When a step under way ends.
    going: Vec<Cell>,
    grid: Grid,
}

impl<'a> Making<'a> {
    fn new(shape: &'a Shape<'a>) -> Self {
        let width = shape.lanes.width.max(1);
        let depth = shape.lanes.depth().max(1);
        let lane =
            |number| Lane { ready: BTreeSet::new(), free: 0.0, open: Vec::new(), next: (0, number / depth) };
        let count = width * depth;
        Self {
            shape,
            caps: shape.caps(),
            lanes: (0..count).map(lane).collect(),
            waits: vec![0; usize::from(shape.stages()) * shape.intervals as usize],
            intervals: vec![(0, 0); shape.intervals as usize],
            through: vec![0; shape.rounds as usize],
            going: Vec::new(),
            grid: Grid { cells: Vec::new(), lanes: count, rounds: Vec::new() },
        }
    }

    fn run(mut self, took: &dyn Fn(StageId, u32) -> f64) -> Grid {
        for interval in 0..self.shape.intervals {
            self.enter(0, interval);
        }
        let mut now = 0.0;
        loop {
            self.begin(now, took);
            let next = self.going.iter().map(|cell| cell.time.1).fold(f64::INFINITY, f64::min);
            if !next.is_finite() {
                return self.grid;
            }
            now = next;
            let (done, going): (Vec<Cell>, Vec<Cell>) =
                self.going.iter().partition(|cell| cell.time.1 <= now);
            self.going = going;
            for cell in done {
                self.done(&cell, now);
            }
        }
    }

    fn ready(&mut self, round: u32, stage: u16, interval: u32) {
        let back = self.shape.is_back(stage);
        let later = back == (self.shape.lanes.order == Order::ForwardFirst);
        let lane = self.shape.lane(stage, interval);
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.ready.insert((later, round, interval, stage));
        }
    }

    fn waits(&mut self, stage: u16, interval: u32) -> Option<&mut u32> {
        self.waits.get_mut(usize::from(stage) * self.shape.intervals as usize + interval as usize)
    }

    fn enter(&mut self, round: u32, interval: u32) {
        if let Some(of) = self.intervals.get_mut(interval as usize) {
            *of = (round, u32::from(self.shape.stages()));
        }
        for stage in 0..self.shape.stages() {
            let needed = self.shape.program.dependencies(StageId(stage)).len() as u32;
            if let Some(waits) = self.waits(stage, interval) {
                *waits = needed;
            }
            if needed == 0 {
                self.ready(round, stage, interval);
            }
        }
    }

    /// Begins what can be begun.
    fn begin(&mut self, now: f64, took: &dyn Fn(StageId, u32) -> f64) {
        let (depth, width) = (self.shape.lanes.depth().max(1) as usize, self.shape.lanes.width.max(1));
        for number in 0..self.lanes.len() {
            let (cap, count) =
                (self.caps.get(number % depth).copied().unwrap_or(1), self.shape.count(number));
            let Some(lane) = self.lanes.get_mut(number).filter(|lane| lane.free <= now) else { continue };
            let may = |&&(_, round, interval, _): &&Ready| {
                let inside = lane.open.iter().any(|&(r, i, _)| (r, i) == (round, interval));
                inside || (lane.open.len() as u32) < cap && lane.next == (round, interval)
            };
            let Some(found) = lane.ready.iter().find(may).copied() else { continue };
            lane.ready.remove(&found);
            let (_, round, interval, stage) = found;
            if !lane.open.iter().any(|&(r, i, _)| (r, i) == (round, interval)) {
                lane.open.push((round, interval, count));
                let next = interval + width;
                lane.next =
                    if next < self.shape.intervals { (round, next) } else { (round + 1, interval % width) };
            }
            let end = now + took(StageId(stage), interval).max(0.0);
            lane.free = end;
            let (back, stage) = (self.shape.is_back(stage), StageId(stage));
            let cell = Cell { lane: number as u32, round, stage, back, interval, time: (now, end) };
            self.going.push(cell);
            self.grid.cells.push(cell);
        }
    }

    fn done(&mut self, cell: &Cell, now: f64) {
        let Cell { lane, round, stage, interval, .. } = *cell;
        if let Some(lane) = self.lanes.get_mut(lane as usize) {
            for (r, i, left) in &mut lane.open {
                *left -= u32::from((*r, *i) == (round, interval));
            }
            lane.open.retain(|&(_, _, left)| left > 0);
        }
        for follower in 0..self.shape.stages() {
            let reads = self.shape.program.dependencies(StageId(follower));
            if !reads.iter().any(|(before, _)| *before == stage) {
                continue;
            }
            let Some(waits) = self.waits(follower, interval) else { continue };
            *waits -= 1;
            if *waits == 0 {
                self.ready(round, follower, interval);
            }
        }
        if let Some((_, left)) = self.intervals.get_mut(interval as usize) {
            *left -= 1;
            if *left > 0 {
                return;
            }
        }
        if let Some(through) = self.through.get_mut(round as usize) {
            *through += 1;
        }
        // Rounds end in order.
        while self.through.get(self.grid.rounds.len()) == Some(&self.shape.intervals) {
            self.grid.rounds.push(now);
        }
        let over = self.grid.rounds.len() as u32;
        for interval in 0..self.shape.intervals {
            let Some(&(round, left)) = self.intervals.get(interval as usize) else { continue };
            let next = round + 1;
            if left == 0 && next < self.shape.rounds && next <= over + self.shape.bound {
                self.enter(next, interval);
            }
        }
    }
}

#[cfg(test)]
mod tests;
