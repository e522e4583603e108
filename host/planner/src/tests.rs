//! Tests of planners against exhaustive search, published models and an independent recount.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use eciton_recipe::pipeline_schedule::PipelineSchedule;

/// Returns a chain of equal operators, which take 1 s forward and 2 s backward per row.
fn chain(count: usize) -> Graph {
    let operator = |at: usize| Operator {
        name: format!("op {at}"),
        reads: at.checked_sub(1).into_iter().collect(),
        forward: Pace { call: 0.0, row: 1.0 },
        backward: Pace { call: 0.0, row: 2.0 },
        weights: 1.0,
        kept: 1.0,
        output: 0.0,
        data: 0.0,
    };
    Graph::new((0..count).map(operator).collect()).unwrap()
}

fn wanted(rows: u32, schedules: &[PipelineSchedule], micro: &[u32]) -> Wanted {
    Wanted {
        rows: vec![rows],
        schedules: schedules.to_vec(),
        chunks: None,
        widths: vec![1],
        micro: micro.to_vec(),
        recompute: false,
        parallel: true,
        copies: 3.0,
        lane_copies: 1.0,
        work: HostWork::default(),
    }
}

const LANE: Lane = Lane { pace: 1.0, memory: None, link: 1e9 };

#[test]
fn equal_chains_have_the_bubble_of_the_papers() {
    let all = [PipelineSchedule::GPipe, PipelineSchedule::Flush];
    for schedule in all {
        let answer = plan(&chain(8), &Machine::equal(4, LANE), &wanted(8, &[schedule], &[8])).unwrap();
        let plan = answer.plan;
        assert_eq!((plan.shape.depth, plan.stages[0].operators.clone()), (4, vec![0, 1]));
        // Huang et al. 2019: (d - 1) / (m + d - 1).
        assert!((plan.bubble - 3.0 / 11.0).abs() < 1e-12, "{} {}", plan.summary(), plan.bubble);
        assert!((plan.round_seconds - 66.0).abs() < 1e-9);
        assert!(answer.reason.contains("% slower"), "{}", answer.reason);
    }
}

#[test]
fn interleaved_chains_have_the_bubble_of_the_paper() {
    let of = |chunks| Wanted { chunks, ..wanted(8, &[PipelineSchedule::Interleaved], &[8]) };
    let machine = Machine { lanes: vec![Lane { memory: Some(1e3), ..LANE }; 4], host: None, transfer: 0.0 };
    for (chunks, operators) in [(2, vec![0, 1]), (4, vec![0])] {
        let plan = plan(&chain(16), &machine, &of(Some(chunks))).unwrap().plan;
        assert_eq!(
            (plan.shape.depth, plan.shape.chunks, plan.stages.len()),
            (4, chunks, 4 * chunks as usize)
        );
        assert_eq!(plan.stages[0].operators, operators);
        let lanes: Vec<usize> = plan.stages.iter().map(|stage| stage.lanes[0]).collect();
        assert!(lanes.chunks(4).all(|lanes| lanes == [0, 1, 2, 3]), "{lanes:?}");
        // Narayanan et al. 2021 (Megatron-LM), section 2.2: (d - 1) / (v m) of 8 x 12 s.
        let bubble = 3.0 / (8.0 * f64::from(chunks));
        assert!((plan.round_seconds - 96.0 * (1.0 + bubble)).abs() < 1e-9, "{}", plan.round_seconds);
        assert!((plan.bubble - bubble / (1.0 + bubble)).abs() < 1e-12, "{}", plan.summary());
        assert!(plan.summary().contains(&format!("{chunks} runs of stages a lane")), "{}", plan.summary());
    }
    let refused = plan(&chain(3), &machine, &of(Some(4))).unwrap_err().to_string();
    assert!(refused.contains("lanes.chunks is 4, but the model has 3 operators"), "{refused}");
}

#[test]
fn graphs_that_cannot_be_are_refused() {
    let refused = |change: &dyn Fn(&mut Vec<Operator>)| {
        let mut operators = chain(3).operators().to_vec();
        change(&mut operators);
        Graph::new(operators).unwrap_err().to_string()
    };
    assert!(refused(&|of| of.clear()).contains("found no operator"));
    assert!(refused(&|of| of[1].reads.push(1)).contains("operator 1, op 1, reads operator 1"));
    assert!(refused(&|of| of[2].kept = f64::NAN).contains("operator 2, op 2, has the value NaN"));
    assert!(refused(&|of| of[0].forward.row = -1.0).contains("has the value -1"));
    let still = |of: &mut Vec<Operator>| {
        for operator in of {
            (operator.forward, operator.backward) = (Pace::default(), Pace::default());
        }
    };
    assert!(refused(&still).contains("all operators take 0 seconds"));
    let many = |of: &mut Vec<Operator>| *of = vec![of[0].clone(); MAX_OPERATORS + 1];
    assert!(refused(&many).contains("the maximum is 1024"));
}

mod by_hand;
pub(crate) mod defects;
mod exhaustive;
mod limits;
mod models;
mod program;
mod protection;
mod random;
