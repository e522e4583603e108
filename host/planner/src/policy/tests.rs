//! Tests of the rules against published orders, bubbles and warm-ups, and with planted defects in
//! each rule.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::disallowed_macros)]

use super::*;
use crate::schedule::tests::chain;
use crate::schedule::{Cell, Grid, Shape};
use crate::testing::{Planted, Random, plant};

fn interleaved(depth: u32, width: u32, chunks: u32) -> Lanes {
    Lanes { count: depth * width, width, order: Order::Interleaved, chunks: Some(chunks), ..Lanes::default() }
}

/// Returns the grid of equal chunks that take 1 forward and 2 backward, and the errors that
/// [`Grid::check`] finds.
fn grid(lanes: Lanes, micro: u32) -> (Grid, Result<(), String>) {
    let program = chain(lanes.runs() as u32, lanes);
    let loss = program.loss().unwrap();
    let shape = Shape { program: &program, lanes, intervals: micro, rounds: 1, bound: 0 };
    let grid = Grid::from_shape(&shape, &|stage, _| if stage >= loss { 2.0 } else { 1.0 });
    let checked = grid.check(&shape);
    (grid, checked)
}

/// Returns the steps of a lane by Narayanan et al. 2021 (Megatron-LM), section 2.2, as (true if
/// backward, chunk, micro-batch).
fn published(depth: u32, chunks: u32, micro: u32, lane: u32) -> Vec<(bool, u32, u32)> {
    let step = |number: u32, back: bool| {
        let (group, within) = (number / (depth * chunks), number % (depth * chunks));
        let chunk = if back { chunks - 1 - within / depth } else { within / depth };
        (back, chunk, group * depth + within % depth)
    };
    let all = micro * chunks;
    let warm_up = (2 * (depth - lane - 1) + (chunks - 1) * depth).min(all);
    let mut steps: Vec<_> = (0..warm_up).map(|number| step(number, false)).collect();
    for number in 0..all {
        steps.extend(Some(number + warm_up).filter(|&next| next < all).map(|next| step(next, false)));
        steps.push(step(number, true));
    }
    steps
}

/// Returns true if the grids of the published schedules differ from the papers.
fn is_wrong() -> bool {
    let mut wrong = false;
    for (depth, chunks, micro) in [(2, 2, 2), (2, 2, 8), (4, 2, 8), (4, 3, 4), (3, 4, 9)] {
        let (grid, checked) = grid(interleaved(depth, 1, chunks), micro);
        // The time without a bubble, and its share that the bubble takes in addition.
        let ideal = f64::from(3 * micro * chunks);
        let bubble = f64::from(depth - 1) / f64::from(chunks * micro);
        wrong |= checked.is_err() || (grid.span() - ideal * (1.0 + bubble)).abs() > 1e-9;
    }
    // The first lane is so fast that it has no step of the second chunk when it has all visits of
    // the first.
    let lanes = interleaved(2, 1, 2);
    let program = chain(4, lanes);
    let shape = Shape { program: &program, lanes, intervals: 8, rounds: 1, bound: 0 };
    let slow = |stage| if program.place(stage) == Place::Lane(1) { 20.0 } else { 1.0 };
    wrong |= Grid::from_shape(&shape, &|stage, _| slow(stage)).check(&shape).is_err();
    for order in [Order::ForwardFirst, Order::BackwardFirst] {
        let (grid, checked) = grid(Lanes { order, count: 4, ..Lanes::default() }, 8);
        wrong |= checked.is_err() || (grid.bubble() - 3.0 / 11.0).abs() > 1e-9;
    }
    wrong
}

#[test]
fn interleaved_steps_are_the_published_ones() {
    for (depth, chunks, micro) in [(2, 2, 4), (4, 2, 8), (3, 3, 6), (1, 2, 3)] {
        let (grid, checked) = grid(interleaved(depth, 1, chunks), micro);
        checked.unwrap();
        for lane in 0..depth {
            let cells = grid.cells.iter().filter(|cell| cell.lane == lane);
            let found: Vec<_> =
                cells.map(|&Cell { back, chunk, interval, .. }| (back, chunk, interval)).collect();
            assert_eq!(
                found,
                published(depth, chunks, micro, lane),
                "lane {lane} of {depth}\n{}",
                grid.text()
            );
        }
    }
}

#[test]
fn interleaved_caps_are_the_warm_up_and_one_more() {
    let lanes = interleaved(4, 1, 2);
    assert_eq!(caps(&chain(8, lanes), &lanes, 8), [11, 9, 7, 5]);
    // No more visits than there are.
    assert_eq!(caps(&chain(8, lanes), &lanes, 4), [8, 8, 7, 5]);
}

#[test]
fn any_number_of_micro_batches_and_replicas_is_interleaved() {
    let seed = 91;
    let mut random = Random::new(seed);
    for round in 0..300 {
        let (depth, width, chunks) = (1 + random.below32(4), 1 + random.below32(2), 2 + random.below32(3));
        let lanes = interleaved(depth, width, chunks);
        let program = chain(lanes.runs() as u32 + random.below32(3), lanes);
        let (intervals, rounds) = (1 + random.below32(12), 1 + random.below32(3));
        let shape = Shape { program: &program, lanes, intervals, rounds, bound: random.below32(2) };
        let times: Vec<f64> = (0..64).map(|_| 1.0 + f64::from(random.below32(9))).collect();
        let took = |stage: StageId, interval: u32| times[(stage.index() * 7 + interval as usize) % 64];
        let grid = Grid::from_shape(&shape, &took);
        grid.check(&shape).unwrap_or_else(|error| panic!("seed {seed}, {round}: {error}\n{}", grid.text()));
        assert_eq!(grid.rounds.len(), rounds as usize, "seed {seed}, {round}");
    }
}

#[test]
fn lanes_without_steps_of_a_chunk_admit_the_next_one() {
    let lanes = interleaved(2, 1, 3);
    // Lane 1 has no stage of chunk 1.
    let role = |(lane, chunk)| Role { lane, chunk, back: false };
    let roles = [(0, 0), (1, 0), (0, 1), (0, 2), (1, 2)].map(role).to_vec();
    let policy = Policy::new(lanes, 4, roles, vec![8, 8]);
    let mut lane = policy.start(Round(0)).swap_remove(1);
    for (stage, interval) in [(1, 0), (1, 1), (4, 0), (4, 1), (1, 2)] {
        let step = Step { round: Round(0), stage: StageId(stage), interval: IntervalId(interval) };
        lane.insert(policy.visit(step), policy.rank(step));
        let rank = lane.peek(0).unwrap();
        assert_eq!(rank.step(), step);
        policy.begin(&mut lane, rank);
        assert!(policy.done(&mut lane, step));
    }
}

#[test]
fn planted_defects_of_each_rule_are_found() {
    assert!(!is_wrong(), "found wrong without a defect");
    for defect in [Planted::CapOneShort, Planted::AdmittedOutOfOrder, Planted::ChunksNotReversed] {
        plant(Some(defect));
        let found = is_wrong();
        plant(None);
        assert!(found, "{defect:?}");
    }
}
