//! Tests of grids against published ones, and by a check that is independent of the order of steps.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use super::*;
use crate::placement::Placement;
use crate::policy::caps;
use crate::sample_programs::signature;
use crate::testing::Random;
use eciton_program::program::Place;
use eciton_program::{DataShape, FusedStages, Rewrites};
use eciton_recipe::lanes::LaneSettings;
use eciton_recipe::lanes::Order;
use eciton_recipe::{Model, ModelSettings, TaskType};

impl Shape<'_> {
    fn lane(&self, stage: u16, interval: u32) -> usize {
        match self.program.place(StageId(stage)) {
            Place::Lane(lane) => {
                let replica = self.lanes.replica(interval, self.intervals);
                (replica * self.lanes.depth() + u32::from(lane)) as usize
            }
            _ => 0,
        }
    }

    fn caps(&self) -> Vec<u32> {
        caps(self.program, &self.lanes, self.intervals.div_ceil(self.lanes.width.max(1)))
    }
}

impl Grid {
    /// Checks that every step occurs once, after all steps that it reads, on its own lane, and
    /// within the caps.
    ///
    /// # Errors
    /// Returns a description of the first violation.
    pub(crate) fn check(&self, shape: &Shape<'_>) -> Result<(), String> {
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
                return Err(format!("{most} visits on lane {lane}, whose cap is {cap}"));
            }
        }
        Ok(())
    }

    /// Returns the maximum number of visits that are between their first and their last step on a
    /// lane at the same time. If a lane has one chunk, these are intervals.
    pub(crate) fn most(&self, lane: u32) -> u32 {
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

/// Returns the program of a perceptron with `layers` layers on lanes.
pub(crate) fn chain(layers: u32, lanes: Lanes) -> Program {
    let settings =
        ModelSettings::parse(&format!("kind = \"mlp\"\nhidden = 8\nlayers = {layers}"), "m").unwrap();
    let model = Model::resolve(&settings, 8, 8, TaskType::Classification).unwrap();
    let shape = DataShape { rows: 64, features: 8, classes: 8, edge_features: 0, read_out: 0, group: 1 };
    let mut program = Program::build(&model, shape, Rewrites::default(), &signature).unwrap();
    program.set_apart(1, 64, 0);
    let placement =
        Placement::from_program(&program, &LaneSettings { lanes, ..LaneSettings::default() }, false).unwrap();
    let spans = FusedStages::from_program(&program, &placement.spans(&program)).unwrap();
    let mut fused = spans.fuse(&program);
    placement.place(&mut fused, &spans);
    fused
}

fn lanes(count: u32, width: u32, order: Order) -> Lanes {
    Lanes { count, width, order, ..Lanes::default() }
}

/// Returns step lengths of 1 forward and 2 backward.
fn units(program: &Program) -> impl Fn(StageId, u32) -> f64 {
    let loss = program.loss().unwrap();
    move |stage, _| if stage >= loss { 2.0 } else { 1.0 }
}

#[test]
fn four_lanes_draw_what_the_papers_do() {
    let of = lanes(4, 1, Order::BackwardFirst);
    let program = chain(4, of);
    let shape = Shape { program: &program, lanes: of, intervals: 4, rounds: 1, bound: 0 };
    let grid = Grid::from_shape(&shape, &units(&program));
    grid.check(&shape).unwrap();
    // Narayanan et al. 2021, figure 2 (b), with backward twice as long.
    assert_eq!(
        grid.text(),
        "lane 0 | 0  1  2  3  .  .  .  .  .  .  0' 0' .  1' 1' .  2' 2' .  3' 3'\n\
         lane 1 | .  0  1  2  .  .  .  .  0' 0' 3  1' 1' .  2' 2' .  3' 3'\n\
         lane 2 | .  .  0  1  .  .  0' 0' 2  1' 1' 3  2' 2' .  3' 3'\n\
         lane 3 | .  .  .  0  0' 0' 1  1' 1' 2  2' 2' 3  3' 3'\n"
    );
    let of = Lanes { order: Order::ForwardFirst, ..of };
    let shape = Shape { lanes: of, ..shape };
    let grid = Grid::from_shape(&shape, &units(&program));
    grid.check(&shape).unwrap();
    let forward = grid.cells.iter().filter(|cell| !cell.back).map(|cell| cell.time.1).fold(0.0, f64::max);
    let back = grid.cells.iter().filter(|cell| cell.back && cell.lane == 3).map(|cell| cell.time.0);
    assert_eq!((forward, back.fold(f64::INFINITY, f64::min)), (7.0, 7.0));
    assert_eq!((grid.span(), grid.most(0)), (21.0, 4));
    // Huang et al. 2019: (d - 1) / (m + d - 1).
    assert!((grid.bubble() - 3.0 / 7.0).abs() < 1e-12, "{}", grid.bubble());
    assert!(grid.svg().matches("<title>").count() == 32);
}

#[test]
fn two_buffers_have_no_bubble_in_the_steady_state() {
    let of = lanes(4, 1, Order::BackwardFirst);
    let program = chain(4, of);
    let shape = Shape { program: &program, lanes: of, intervals: 4, rounds: 12, bound: 1 };
    let grid = Grid::from_shape(&shape, &units(&program));
    grid.check(&shape).unwrap();
    // All that is idle is the drain of the last round.
    assert!(grid.bubble() < 0.04 && (grid.round() - 12.0).abs() < 1e-9, "{} {}", grid.bubble(), grid.round());
    assert!((0..4).all(|lane| grid.most(lane) <= 4 - lane));
}

#[test]
fn every_grid_is_one_that_a_stranger_takes() {
    let seed = 77;
    let mut random = Random::new(seed);
    for round in 0..200 {
        let (depth, width) = (1 + random.below32(4), 1 + random.below32(3));
        let order = Order::ALL[random.below(2) as usize].1;
        let cap = Some(1 + random.below32(5)).filter(|_| random.below(3) == 0);
        let of = Lanes { cap, ..lanes(depth * width, width, order) };
        let program = chain(depth + random.below32(3), of);
        let (intervals, rounds) = (width * (1 + random.below32(4)), 1 + random.below32(3));
        let shape = Shape { program: &program, lanes: of, intervals, rounds, bound: random.below32(2) };
        let times: Vec<f64> = (0..64).map(|_| 1.0 + f64::from(random.below32(9))).collect();
        let took = |stage: StageId, interval: u32| times[(stage.index() * 7 + interval as usize) % 64];
        let grid = Grid::from_shape(&shape, &took);
        grid.check(&shape).unwrap_or_else(|error| panic!("seed {seed}, {round}: {error}\n{}", grid.text()));
        assert_eq!(grid.rounds.len(), rounds as usize, "seed {seed}, {round}");
    }
}

#[test]
fn a_wrong_grid_is_refused_in_words() {
    let of = lanes(2, 1, Order::BackwardFirst);
    let program = chain(3, of);
    let shape = Shape { program: &program, lanes: of, intervals: 3, rounds: 1, bound: 0 };
    let right = Grid::from_shape(&shape, &units(&program));
    let refused = |change: &dyn Fn(&mut Grid)| {
        let mut wrong = right.clone();
        change(&mut wrong);
        wrong.check(&shape).unwrap_err()
    };
    assert!(refused(&|grid| grid.cells.truncate(1)).contains("cells for"));
    assert!(refused(&|grid| grid.cells[0].lane = 1).contains("is on lane 1"));
    assert!(refused(&|grid| grid.cells[0].time = (90.0, 91.0)).contains("begins before stage"));
    let clash = refused(&|grid| {
        let last = grid.cells.len() - 1;
        let before = grid
            .cells
            .iter()
            .rposition(|cell| cell.lane == grid.cells[last].lane && *cell != grid.cells[last]);
        let start = grid.cells[before.unwrap()].time.0;
        grid.cells[last].time.0 = start;
    });
    assert!(clash.contains("on one lane") || clash.contains("begins before"), "{clash}");
}
