//! Tests of small plans against results that were computed by hand.

use super::super::balance;
use super::super::blocks;
use super::super::chain::{Runs, cuts};
use super::super::pool::Pool;
use super::super::stage_time::Sums;
use super::super::{Graph, Host, HostWork, Lane, Machine, Operator, Pace, Wanted, plan};
use super::{LANE, chain, random, wanted};
use crate::testing::Random;
use eciton_recipe::pipeline_schedule::PipelineSchedule;

#[test]
fn a_lane_three_times_as_fast_takes_three_quarters() {
    let machine = Machine { lanes: vec![LANE, Lane { pace: 3.0, ..LANE }], host: None, transfer: 0.0 };
    let found = plan(&chain(4), &machine, &wanted(64, &[PipelineSchedule::TwoBuffered], &[64])).unwrap().plan;
    let mut sizes: Vec<_> = found.stages.iter().map(|of| (of.lanes[0], of.operators.len())).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [(0, 1), (1, 3)]);
    assert!((found.round_seconds - 64.0 * 3.0).abs() < 1e-6, "{}", found.round_seconds);
    assert!(found.bubble.abs() < 1e-9, "{}", found.bubble);
}

/// Returns two operators that take 1 s forward and 1 s backward per row. They have 8 bytes per row
/// between them, and 16 bytes of weights each.
fn pair() -> Graph {
    let of = |reads: Vec<usize>| Operator {
        name: "op".to_owned(),
        reads,
        forward: Pace { call: 0.0, row: 1.0 },
        backward: Pace { call: 0.0, row: 1.0 },
        weights: 16.0,
        kept: 0.0,
        output: 8.0,
        data: 0.0,
    };
    Graph::new(vec![of(vec![]), of(vec![0])]).unwrap()
}

#[test]
fn transfers_and_updates_are_counted_by_hand() {
    let lane = Lane { link: 4.0, memory: Some(40.0), ..LANE };
    let of = Wanted { copies: 1.0, ..wanted(2, &[PipelineSchedule::Flush], &[2]) };
    // Each lane holds one operator alone: 2 copies of 16 and a row of 8. A row takes 2 s over a
    // link of 4 bytes a second. Forward 0..1, over 1..3, forward and back 3..5, over 5..7, and so
    // the second row: lane 0 forward 1..2, over 3..5, lane 1 forward and back 5..7, over 7..9, lane
    // 0 back 9..10.
    let machine = Machine { lanes: vec![lane; 2], host: None, transfer: 0.0 };
    let found = plan(&pair(), &machine, &of).unwrap().plan;
    assert_eq!((found.shape.depth, found.round_seconds), (2, 10.0));
    assert_eq!((found.boundary_bytes, found.weight_bytes, found.host_memory), (2.0 * 2.0 * 8.0, 0.0, 0.0));
    // Of the 2 s of 8 bytes of data a row, 1 s is that of a step back. Lane 0 waits for the other: forward 0..2
    // and 2..4, the second row reaches lane 1 at 6, which sends it back 8..10.
    let mut operators = pair().operators().to_vec();
    operators[0].data = 8.0;
    let reads = Graph::new(operators).unwrap();
    let slow = Wanted { work: HostWork { data: Some(4.0), ..HostWork::default() }, ..of.clone() };
    assert_eq!(plan(&reads, &machine, &slow).unwrap().plan.round_seconds, 11.0);
    assert_eq!(plan(&reads, &machine, &of).unwrap().plan.round_seconds, 10.0);
    let none = Wanted { work: HostWork { data: Some(0.0), ..HostWork::default() }, ..of.clone() };
    assert!(plan(&reads, &machine, &none).unwrap_err().to_string().contains("for the data"));
    // A host of 8 bytes a second: (1 + w) |W| = 64 bytes, 8 s, which is what a lane's 2 * 16 bytes
    // take as well; rows as before.
    let host = Host { link: 8.0, memory: None };
    let machine = Machine { host: Some(host), ..machine };
    let found = plan(&pair(), &machine, &of).unwrap().plan;
    assert_eq!((found.shape.depth, found.round_seconds, found.update_seconds), (2, 18.0, 8.0));
    assert_eq!((found.boundary_bytes, found.weight_bytes), (32.0, 64.0));
    // Two replicas share the rows: (1 + 2) |W| over the host's link, 12 s, and twice the lanes.
    let wide = Wanted { widths: vec![2], ..of.clone() };
    let machine = Machine { lanes: vec![lane; 4], ..machine };
    let found = plan(&pair(), &machine, &wide).unwrap().plan;
    assert_eq!((found.shape.width, found.shape.depth, found.weight_bytes), (2, 2, 96.0));
    assert_eq!(found.update_seconds, 12.0);
    // Without one, a ring: 2 (w - 1) |W| in all, of each lane 16 bytes.
    let found = plan(&pair(), &Machine { host: None, ..machine }, &wide).unwrap().plan;
    assert_eq!((found.weight_bytes, found.update_seconds), (64.0, 4.0));
}

/// Checks the time of the host's thread on two lanes with one row each. Two operators take 1 s
/// forward and 1 s backward, and there are two rows.
#[test]
fn the_hosts_thread_is_counted_by_hand() {
    let machine = Machine { lanes: vec![Lane { link: 1e9, ..LANE }; 2], host: None, transfer: 0.0 };
    let of = |schedule, work| {
        let wish = Wanted { work, ..wanted(2, &[schedule], &[2]) };
        plan(&pair(), &machine, &wish).unwrap().plan
    };
    // 2 (2 + 1) s, each of six steps on the way half a second later, and 3 s of the update.
    let work = HostWork { step: 0.5, update: 3.0, ..HostWork::default() };
    let flush = of(PipelineSchedule::Flush, work);
    assert!((flush.round_seconds - (6.0 + 6.0 * 0.5 + 3.0)).abs() < 1e-6, "{}", flush.round_seconds);
    assert_eq!(flush.update_seconds, 3.0);
    // Rounds that overlap: 2 rows of 2 s a lane. Of a thread that shares the two cores 4 + 3 / 2 s.
    let alone = of(PipelineSchedule::TwoBuffered, HostWork::default());
    assert!((alone.round_seconds - 4.0).abs() < 0.1, "{}", alone.round_seconds);
    let shared = of(PipelineSchedule::TwoBuffered, HostWork { update: 3.0, cores: 2, ..HostWork::default() });
    assert!(shared.round_seconds >= 5.5 - 1e-6, "{}", shared.round_seconds);
    let wish =
        Wanted { work: HostWork { update: -1.0, ..work }, ..wanted(2, &[PipelineSchedule::Flush], &[2]) };
    let error = plan(&pair(), &machine, &wish).unwrap_err().to_string();
    assert!(error.contains("-1 seconds of the host's thread"), "{error}");
}

#[test]
fn stages_side_by_side_need_fewer_rows_in_flight() {
    // A join of three branches of equal length, on four lanes.
    let of = |reads: Vec<usize>| Operator {
        forward: Pace { call: 0.0, row: 1.0 },
        backward: Pace { call: 0.0, row: 1.0 },
        reads,
        ..Operator::default()
    };
    let graph = Graph::new(vec![of(vec![]), of(vec![]), of(vec![]), of(vec![0, 1, 2])]).unwrap();
    let wish = wanted(4, &[PipelineSchedule::Flush], &[4]);
    let found = plan(&graph, &Machine::equal(4, LANE), &wish).unwrap().plan;
    let flights: Vec<u32> = found.stages.iter().map(|stage| stage.in_flight).collect();
    // One forward of fill and one backward of drain: 2 (4 + 1) s in place of 2 (4 + 3).
    assert_eq!((flights, found.round_seconds), (vec![2, 2, 2, 1], 10.0));
    let chain = plan(&graph, &Machine::equal(4, LANE), &Wanted { parallel: false, ..wish }).unwrap().plan;
    let flights: Vec<u32> = chain.stages.iter().map(|stage| stage.in_flight).collect();
    assert_eq!((flights, chain.round_seconds), (vec![4, 3, 2, 1], 14.0));
}

#[test]
fn balancing_lies_between_equal_and_best_cuts() {
    let seed = 4530;
    let mut random = Random::new(seed);
    let mut better = 0;
    for round in 0..300 {
        let graph = random::chain(&mut random);
        let machine = random::machine(&mut random, 4);
        let setting = random::setting(&mut random, &machine);
        let (runs, pool) = (Runs::from_graph(&graph), Pool::from_machine(&machine, 1));
        let depth = pool.groups.len().min(graph.operators().len());
        let equal = blocks::equal(&runs, &pool, depth, setting.rows).unwrap();
        let lanes: Vec<Lane> = pool.groups.iter().map(|group| group.lane).collect();
        let price = |sums: &Sums, lane: &Lane, path: u32| setting.cost(sums, lane, setting.in_flight(path));
        let moved = balance::moved(&runs, &equal, &lanes[..depth], &price, &mut 0);
        let slowest = |of: &super::super::partition::Partition| {
            let mut first = 0;
            let costs = of.stages.iter().zip(&lanes).enumerate().map(|(at, (stage, lane))| {
                let end = first + stage.operators.len();
                let cost = price(&runs.sum(first, end), lane, (depth - at) as u32);
                first = end;
                cost
            });
            costs.fold(0.0, f64::max)
        };
        let (before, after) = (slowest(&equal), slowest(&moved));
        assert!(after <= before, "seed {seed}, {round}: {before} to {after}");
        better += u32::from(after < before);
        let best = cuts(&runs, &pool, &price, &mut 0).into_iter().map(|(cost, _)| cost);
        let best = best.fold(f64::INFINITY, f64::min);
        assert!(after >= best * (1.0 - 1e-9), "seed {seed}, {round}: {after}, best {best}");
    }
    assert!(better > 10, "{better} of 300 cuts are better for moves");
}

#[test]
fn many_unlike_lanes_are_taken_in_their_order() {
    let lanes = (1..=20).map(|pace| Lane { pace: f64::from(pace), ..LANE }).collect();
    let machine = Machine { lanes, host: None, transfer: 0.0 };
    assert_eq!(Pool::from_machine(&machine, 1).shares(), None);
    let found =
        plan(&chain(40), &machine, &wanted(64, &[PipelineSchedule::TwoBuffered], &[64])).unwrap().plan;
    // 40 operators of 3 s on paces that sum to 210.
    let ideal = 64.0 * 120.0 / 210.0;
    assert!(found.round_seconds < 1.5 * ideal, "{} of {ideal}", found.round_seconds);
}
