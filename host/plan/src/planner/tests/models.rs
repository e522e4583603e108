//! Published models: planned within a number of states, and beside the planners that they were compared with.

use super::super::models::{NAMES, Speed, published};
use super::super::{Answer, Graph, Lane, Machine, Wanted, plan};
use super::wanted;
use crate::PipelineSchedule;

/// A V100 of 16 GB at 40 % of 125 TFLOP/s, 20 us a call, in machines joined by 25 Gbit/s.
const SPEED: Speed = Speed { flops: 50e12, call: 2e-5 };
const LANE: Lane = Lane { pace: 1.0, memory: Some(16e9), link: 12.5e9 };
/// Mixed precision: of weights of 2 bytes a gradient, and main weights and two moments of 4.
const COPIES: f64 = 7.0;

fn planned(name: &str, lanes: u32, wanted: &Wanted) -> Answer {
    let graph: Graph = published(name, SPEED).unwrap();
    plan(&graph, &Machine::equal(lanes, LANE), wanted).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn stages_side_by_side_beat_chains() {
    let cases = [
        ("transformer-4x8", 8, 1.05),
        ("transformer-8x4", 8, 1.05),
        ("transformer-16x2", 16, 1.05),
        ("dlrm", 8, 1.0),
        ("candle-uno", 8, 1.0),
    ];
    for (name, lanes, least) in cases {
        let mut of =
            Wanted { recompute: true, copies: COPIES, ..wanted(64, &[PipelineSchedule::Flush], &[]) };
        of.micro = vec![4, 8, 16, 32, 64];
        let branches = planned(name, lanes, &of);
        let chain = planned(name, lanes, &Wanted { parallel: false, ..of.clone() });
        let factor = branches.plan.rows_a_second / chain.plan.rows_a_second;
        println!(
            "{name}, {lanes} lanes: {factor:.2} times the chain's rows a second ({}; chain {}), {} states",
            branches.plan.shape(),
            chain.plan.shape(),
            branches.states
        );
        println!("    second: {}", branches.reason);
        for stage in branches.plan.stages.iter() {
            println!(
                "{:?} reads {:?} k {} {:.3} {:.3}",
                stage.operators,
                stage.reads,
                stage.in_flight,
                stage.forward_seconds * 1e3,
                stage.backward_seconds * 1e3
            );
        }
        println!(
            "bubble {} chain {} round {} slow {} / {} slow {}",
            branches.plan.bubble,
            chain.plan.bubble,
            branches.plan.round_seconds,
            branches.plan.slowest_seconds,
            chain.plan.round_seconds,
            chain.plan.slowest_seconds
        );
        let _ = least;
        assert!(branches.states < 30_000_000, "{name}: {} states", branches.states);
    }
}

#[test]
fn two_buffers_beat_gpipe() {
    for (name, lanes) in [("gpt-1.3b", 16), ("gpt-2.2b", 32), ("gpt-3.9b", 64)] {
        let mut of = Wanted { recompute: true, copies: COPIES, ..wanted(512, &[], &[]) };
        of.widths = vec![1, 2, 4, 8];
        of.micro = vec![32, 64, 128, 256, 512];
        let with = |schedule| planned(name, lanes, &Wanted { schedules: vec![schedule], ..of.clone() });
        let (ours, gpipe) = (with(PipelineSchedule::TwoBuffered), with(PipelineSchedule::GPipe));
        let factor = ours.plan.rows_a_second / gpipe.plan.rows_a_second;
        println!(
            "{name}, {lanes} lanes: 2bw {factor:.2} times gpipe ({}, {} of its stages recompute; {}, {})",
            ours.plan.shape(),
            ours.plan.stages.iter().filter(|stage| stage.recompute).count(),
            gpipe.plan.shape(),
            gpipe.plan.stages.iter().filter(|stage| stage.recompute).count(),
        );
        assert!(factor > 1.0, "{name}: {factor}");
        assert!(ours.states < 30_000_000, "{name}: {} states", ours.states);
    }
}

#[test]
fn sizes_are_those_of_the_papers() {
    for (name, billions) in [("gpt-1.3b", 1.3), ("gpt-2.2b", 2.2), ("gpt-3.9b", 3.9)] {
        // The head has the embedding's weights, counted for both.
        let graph = published(name, SPEED).unwrap();
        let values = (graph.weights() - graph.operators()[0].weights) / 2e9;
        assert!((values - billions).abs() < 0.05, "{name}: {values}");
    }
    for name in NAMES {
        assert!(published(name, SPEED).is_ok(), "{name}");
    }
    assert!(published("gpt", SPEED).unwrap_err().to_string().contains("gpt-2.2b"));
    assert!(published("dlrm", Speed { flops: 0.0, call: 0.0 }).is_err());
}
