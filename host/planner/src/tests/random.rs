//! Random graphs, machines and settings for tests, drawn from a seed.

use super::super::stage_time::Setting;
use super::super::{Graph, Host, Lane, Machine, Operator, Pace, Shape};
use crate::testing::Random;
use eciton_recipe::pipeline_schedule::PipelineSchedule;

fn whole(random: &mut Random, from: u64, end: u64) -> f64 {
    (from + random.below(end - from)) as f64
}

fn operator(random: &mut Random, at: usize, reads: Vec<usize>) -> Operator {
    Operator {
        name: format!("op {at}"),
        reads,
        forward: Pace { call: whole(random, 0, 3), row: whole(random, 1, 9) },
        backward: Pace { call: whole(random, 0, 3), row: whole(random, 1, 17) },
        weights: whole(random, 0, 30),
        kept: whole(random, 0, 5),
        output: whole(random, 0, 5),
        data: 0.0,
    }
}

pub(super) fn chain(random: &mut Random) -> Graph {
    let count = 1 + random.below(8) as usize;
    let operators = (0..count).map(|at| operator(random, at, at.checked_sub(1).into_iter().collect()));
    Graph::new(operators.collect()).unwrap()
}

/// Returns a series-parallel graph with edges that skip operators. Some of its branches are equal.
pub(super) fn series_parallel(random: &mut Random) -> Graph {
    let count = 2 + random.below(7) as usize;
    let mut operators: Vec<Operator> = Vec::new();
    part(random, count, &[], &mut operators);
    let mut reached = vec![vec![false; count]; count];
    for at in 0..count {
        for read in operators[at].reads.clone() {
            let earlier = reached[read].clone();
            reached[at].iter_mut().zip(earlier).for_each(|(own, of)| *own |= of);
            reached[at][read] = true;
        }
        for (read, is_before) in reached[at].clone().into_iter().enumerate() {
            if is_before && !operators[at].reads.contains(&read) && random.below(6) == 0 {
                operators[at].reads.push(read);
            }
        }
    }
    if random.below(3) == 0 {
        // All alike: exchanges of branches.
        let of = operators[0].clone();
        for operator in &mut operators {
            *operator = Operator { reads: operator.reads.clone(), name: operator.name.clone(), ..of.clone() };
        }
    }
    Graph::new(operators).unwrap()
}

/// Returns equal branches of `layers` layers, which start after one operator and end before
/// another.
pub(super) fn branches(random: &mut Random, branches: usize, layers: usize) -> Graph {
    let layer: Vec<Operator> = (0..layers).map(|at| operator(random, at, Vec::new())).collect();
    let mut operators = vec![operator(random, 0, Vec::new())];
    let mut ends = Vec::new();
    for _ in 0..branches {
        let mut last = 0;
        for of in &layer {
            operators.push(Operator { reads: vec![last], ..of.clone() });
            last = operators.len() - 1;
        }
        ends.push(last);
    }
    operators.push(operator(random, 0, ends));
    Graph::new(operators).unwrap()
}

/// Adds a part of `count` operators after the operators `behind`. Returns its last operators.
fn part(random: &mut Random, count: usize, behind: &[usize], to: &mut Vec<Operator>) -> Vec<usize> {
    if count == 1 {
        let made = operator(random, to.len(), behind.to_vec());
        to.push(made);
        return vec![to.len() - 1];
    }
    let first = 1 + random.below(count as u64 - 1) as usize;
    if random.below(2) == 0 {
        let last = part(random, first, behind, to);
        return part(random, count - first, &last, to);
    }
    let mut last = part(random, first, behind, to);
    last.extend(part(random, count - first, behind, to));
    last
}

/// Returns a machine of at most `most` lanes, which are either all equal or all different.
pub(super) fn machine(random: &mut Random, most: u64) -> Machine {
    let limited = random.below(2) == 0;
    let lane = |random: &mut Random| Lane {
        pace: whole(random, 1, 4),
        memory: Some(whole(random, 30, 500)).filter(|_| limited),
        link: whole(random, 1, 9),
    };
    let (count, alike) = (1 + random.below(most), random.below(2) == 0);
    let first = lane(random);
    let lanes = (0..count).map(|_| if alike { first } else { lane(random) });
    let lanes = lanes.collect();
    let memory = Some(whole(random, 100, 2000)).filter(|_| limited);
    let host = Host { link: whole(random, 1, 30), memory };
    Machine { lanes, host: Some(host).filter(|_| random.below(3) == 0), transfer: 0.0 }
}

pub(super) fn setting(random: &mut Random, machine: &Machine) -> Setting {
    let micro = 1 + random.below32(5);
    let schedule = PipelineSchedule::ALL[random.below(3) as usize].1;
    let rows = whole(random, 1, 5);
    Setting {
        shape: Shape {
            rows: rows as u32 * micro,
            width: 1,
            depth: machine.lanes.len() as u32,
            chunks: 1,
            schedule,
            micro,
        },
        rows,
        recompute: random.below(2) == 0,
        copies: whole(random, 0, 4),
        lane_copies: 1.0,
        host: machine.host,
        work: crate::HostWork::default(),
    }
}
