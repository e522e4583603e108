//! Checks plans of random graphs and machines by an independent recount, and the errors for plans
//! that do not fit.

use super::super::partition::{Partition, StageOf};
use super::super::predict::Candidate;
use super::super::stage_time::Setting;
use super::super::{Graph, Host, Lane, Machine, Plan, Shape, Wanted, plan};
use super::{LANE, chain, random, wanted};
use crate::error::Error;
use crate::testing::Random;
use eciton_recipe::pipeline_schedule::PipelineSchedule;

/// Returns the memory of a plan's stages and of the host in bytes, by formulas that are written
/// again here.
fn recount(graph: &Graph, machine: &Machine, of: &Wanted, plan: &Plan) -> (Vec<f64>, f64) {
    let rows = f64::from(plan.shape.rows.div_ceil(plan.shape.micro));
    let versions = if plan.shape.schedule == PipelineSchedule::TwoBuffered { 2.0 } else { 1.0 };
    let stage_of = |at: usize| plan.stages.iter().position(|stage| stage.operators.contains(&at)).unwrap();
    let own = plan.shape.micro / plan.shape.width;
    // From the last stage to the first: how many follow each other.
    let mut path = vec![1u32; plan.stages.len()];
    let mut between = 0.0;
    let mut held = Vec::new();
    for at in (0..plan.stages.len()).rev() {
        let reads = plan.stages[at].operators.iter().flat_map(|&op| graph.operators()[op].reads.clone());
        let mut outer: Vec<usize> = reads.filter(|&read| stage_of(read) != at).collect();
        outer.sort_unstable();
        outer.dedup();
        for &read in &outer {
            let from = stage_of(read);
            assert!(from < at, "stage {at} reads stage {from}");
            path[from] = path[from].max(path[at] + 1);
        }
        if !of.parallel && at > 0 {
            path[at - 1] = path[at - 1].max(path[at] + 1);
        }
        let flight = match plan.shape.schedule {
            PipelineSchedule::GPipe => own,
            _ => own.min(path[at]),
        };
        assert_eq!(flight, plan.stages[at].in_flight);
        let sum = |of: &dyn Fn(usize) -> f64| plan.stages[at].operators.iter().map(|&op| of(op)).sum::<f64>();
        let weights = sum(&|op| graph.operators()[op].weights);
        let kept = sum(&|op| graph.operators()[op].kept);
        let input: f64 = outer.iter().map(|&read| graph.operators()[read].output).sum();
        let copies = if machine.host.is_some() { 1.0 } else { of.copies };
        let stays = if plan.stages[at].recompute { 1.0 } else { f64::from(flight) };
        held.push((versions + copies) * weights + rows * (f64::from(flight) * input + stays * kept));
        for read in outer {
            between += f64::from(plan.shape.width) * rows * graph.operators()[read].output * {
                let from = stage_of(read);
                // The paths of earlier stages are not done yet: 1F1B's follow at the end.
                f64::from(plan.stages[from].in_flight + 1)
            };
        }
    }
    held.reverse();
    (held, (versions + of.copies) * graph.weights() + between)
}

#[test]
fn no_plan_is_over_a_limit() {
    let seed = 4520;
    let mut random = Random::new(seed);
    let (mut short, mut recomputed, mut hosts) = (0, 0, 0);
    for round in 0..150 {
        let graph = random::series_parallel(&mut random);
        let machine = random::machine(&mut random, 4);
        let of = Wanted {
            widths: vec![1, 2],
            recompute: random.below(3) > 0,
            parallel: random.below(3) > 0,
            copies: random.below(3) as f64,
            lane_copies: 1.0,
            ..wanted(
                1 + random.below32(16),
                &[PipelineSchedule::ALL[random.below(2) as usize].1, PipelineSchedule::TwoBuffered],
                &[1, 2, 4],
            )
        };
        let what = format!("seed {seed}, graph {round}");
        let answer = match plan(&graph, &machine, &of) {
            Ok(answer) => answer,
            Err(Error::Short { need, have, .. }) => {
                assert!(need > have, "{what}: {need} of {have}");
                short += 1;
                continue;
            }
            Err(other) => panic!("{what}: {other}"),
        };
        for plan in [Some(&answer.plan), answer.runner_up.as_ref()].into_iter().flatten() {
            let (held, host) = recount(&graph, &machine, &of, plan);
            let mut operators: Vec<usize> =
                plan.stages.iter().flat_map(|stage| stage.operators.clone()).collect();
            operators.sort_unstable();
            assert!(operators.into_iter().eq(0..graph.operators().len()), "{what}");
            let mut lanes: Vec<usize> = plan.stages.iter().flat_map(|stage| stage.lanes.clone()).collect();
            let count = lanes.len();
            lanes.sort_unstable();
            lanes.dedup();
            assert_eq!((lanes.len(), count as u32), (count, plan.shape.width * plan.shape.depth), "{what}");
            for (stage, bytes) in plan.stages.iter().zip(held) {
                assert!((stage.memory - bytes).abs() < 1e-6, "{what}: {} of {bytes}", stage.memory);
                for &lane in &stage.lanes {
                    assert!(machine.lanes[lane].memory.is_none_or(|most| bytes <= most), "{what}");
                }
                recomputed += u32::from(stage.recompute);
            }
            if let Some(of) = machine.host {
                assert!((plan.host_memory - host).abs() < 1e-6, "{what}: {} of {host}", plan.host_memory);
                assert!(of.memory.is_none_or(|most| host <= most), "{what}");
                hosts += 1;
            }
            assert!(plan.round_seconds >= plan.slowest_seconds * (1.0 - 1e-9), "{what}");
            assert!((0.0..1.0).contains(&plan.bubble), "{what}: {}", plan.bubble);
        }
        if let Some(second) = &answer.runner_up {
            assert!(second.round_seconds >= answer.plan.round_seconds, "{what}");
            assert!(answer.reason.contains("% slower"), "{what}: {}", answer.reason);
        }
    }
    assert!(short > 5 && recomputed > 3 && hosts > 10, "{short} {recomputed} {hosts}");
}

#[test]
fn predicted_lanes_never_hold_more_than_they_count_with() {
    let seed = 4521;
    let mut random = Random::new(seed);
    for round in 0..200 {
        let graph = random::chain(&mut random);
        let machine = random::machine(&mut random, 4);
        let mut setting = random::setting(&mut random, &machine);
        setting.shape.micro = 1 + random.below32(8);
        setting.shape.rows = 3 * setting.shape.micro;
        let depth = machine.lanes.len().min(graph.operators().len());
        let first = |at: usize| at * graph.operators().len() / depth;
        let stages = (0..depth)
            .map(|at| StageOf { operators: (first(at)..first(at + 1)).collect(), lanes: vec![at] })
            .collect();
        let partition = Partition { planner: super::super::Planner::Chain, stages };
        let counted = partition.count(&graph, &machine, &setting, true);
        let candidate = Candidate { machine: &machine, setting, partition, counted };
        let grid = candidate.grid();
        let what = format!("seed {seed}, {round}");
        for (lane, stage) in (0u32..).zip(&candidate.counted) {
            assert!(grid.most(lane) <= stage.in_flight, "{what}: {} on lane {lane}", grid.most(lane));
        }
        let steps = 2 * depth * setting.shape.micro as usize * grid.rounds.len();
        assert_eq!(grid.cells.len(), steps, "{what}");
        let predicted = candidate.predict();
        assert!(predicted.round >= candidate.slowest() * (1.0 - 1e-9), "{what}");
        if grid.rounds.len() == 1 {
            // The bound by which candidates are left out.
            assert!(grid.rounds[0] >= candidate.least() * (1.0 - 1e-9), "{what}");
        }
    }
}

#[test]
fn what_is_short_is_said() {
    let lane = Lane { memory: Some(10.0), ..LANE };
    let of = wanted(4, &[PipelineSchedule::Flush], &[4]);
    // Four operators on two lanes, each with 4 copies of 2 weights and two rows in flight of 2
    // values.
    let error = plan(&chain(4), &Machine::equal(2, lane), &of).unwrap_err().to_string();
    assert_eq!(
        error,
        "no plan fits into memory: lane 0, with operators `op 0` to `op 1`, needs 12 bytes but has 10 bytes \
         (2 bytes too little); allow recomputation, or use more lanes, lanes with more memory, or smaller \
         micro-batches"
    );
    let again = Wanted { recompute: true, ..of.clone() };
    let found = plan(&chain(4), &Machine::equal(2, lane), &again).unwrap().plan;
    let stages: Vec<_> = found.stages.iter().map(|stage| (stage.recompute, stage.memory)).collect();
    assert_eq!(stages, [(true, 10.0), (false, 10.0)]);
    let small = Host { link: 1.0, memory: Some(15.0) };
    let machine = Machine { host: Some(small), ..Machine::equal(2, LANE) };
    let error = plan(&chain(4), &machine, &of).unwrap_err().to_string();
    // 1 version and 3 copies of 4 weights.
    assert!(error.contains("the host") && error.contains("needs 16 bytes but has 15 bytes"), "{error}");
    let wide = Wanted { widths: vec![3], ..of.clone() };
    let error = plan(&chain(4), &Machine::equal(2, LANE), &wide).unwrap_err().to_string();
    assert!(error.contains("widths [3]") && error.contains("on 2 lanes"), "{error}");
    let many = Wanted { rows: vec![1 << 22], micro: vec![1 << 20], ..of.clone() };
    let error = plan(&chain(4), &Machine::equal(2, LANE), &many).unwrap_err().to_string();
    assert!(error.contains("steps of a prediction: found 20971520"), "{error}");
    let none = Wanted { rows: vec![0], ..of };
    assert!(plan(&chain(4), &Machine::equal(2, LANE), &none).is_err());
    let still = Lane { pace: 0.0, ..LANE };
    let error = plan(&chain(4), &Machine::equal(2, still), &again).unwrap_err().to_string();
    assert!(error.contains("lane 0 has a pace of 0"), "{error}");
}

#[test]
fn settings_hold_the_formulas_of_two_buffers() {
    // Narayanan et al. 2021, section 4: 2 |W| / d + d (|A| / d + |A_in|), recomputing |A| / d
    // once.
    let setting = Setting {
        shape: Shape {
            rows: 16,
            width: 1,
            depth: 4,
            chunks: 1,
            schedule: PipelineSchedule::TwoBuffered,
            micro: 8,
        },
        rows: 2.0,
        recompute: true,
        copies: 0.0,
        lane_copies: 1.0,
        host: None,
        work: crate::HostWork::default(),
    };
    let sums = super::super::stage_time::Sums { weights: 7.0, kept: 5.0, input: 3.0, ..Default::default() };
    assert_eq!(setting.memory(&sums, setting.in_flight(4), false), 2.0 * 7.0 + 4.0 * 2.0 * (5.0 + 3.0));
    assert_eq!(setting.memory(&sums, setting.in_flight(4), true), 2.0 * 7.0 + 4.0 * 2.0 * 3.0 + 2.0 * 5.0);
}
