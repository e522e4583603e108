//! Compares planners with exhaustive search on small graphs. The formulas are written again here,
//! independently of the planners.

// Shares of optimal plans are printed.
#![allow(clippy::disallowed_macros, clippy::print_stdout)]

use super::super::branches::Branches;
use super::super::chain::{Runs, cuts};
use super::super::lattice::Lattice;
use super::super::partition::{Partition, StageOf};
use super::super::pool::Pool;
use super::super::predict::Candidate;
use super::super::stage_time::{Setting, Sums};
use super::super::tree::Part;
use super::super::{Graph, Lane, Machine, Planner, Wanted, plan};
use super::random;
use crate::testing::Random;
use eciton_recipe::lanes::Order;
use eciton_recipe::pipeline_schedule::PipelineSchedule;

/// Returns the cost of the slowest stage of a partition on lanes, including transfers and memory.
/// It is infinite if the partition is not valid.
fn slowest(graph: &Graph, machine: &Machine, setting: &Setting, stage_of: &[usize], lanes: &[usize]) -> f64 {
    let count = lanes.len();
    // Longest paths, by as many rounds as there are stages: what still grows after them is a
    // circle.
    let mut path = vec![1u32; count];
    for round in 0..=count {
        let before = path.clone();
        for at in 0..graph.len() {
            for &read in graph.reads(at) {
                let (from, to) = (stage_of[read], stage_of[at]);
                if from != to {
                    path[from] = path[from].max(path[to] + 1);
                }
            }
        }
        if round == count && path != before {
            return f64::INFINITY;
        }
    }
    let rows = setting.rows;
    let versions = if setting.shape.schedule == PipelineSchedule::TwoBuffered { 2.0 } else { 1.0 };
    let copies = if setting.host.is_some() { setting.lane_copies } else { setting.copies };
    let mut worst = 0.0f64;
    for (stage, &lane) in lanes.iter().enumerate() {
        let lane = machine.lanes[lane];
        let (mut forward, mut backward, mut weights, mut kept, mut out) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let mut read = vec![false; graph.len()];
        for (at, operator) in graph.operators().iter().enumerate().filter(|(at, _)| stage_of[*at] == stage) {
            forward += operator.forward.call + rows * operator.forward.row;
            backward += operator.backward.call + rows * operator.backward.row;
            weights += operator.weights;
            kept += operator.kept;
            operator.reads.iter().filter(|&&of| stage_of[of] != stage).for_each(|&of| read[of] = true);
            let leaves = (0..graph.len()).any(|of| stage_of[of] != stage && graph.reads(of).contains(&at));
            out += if leaves { operator.output } else { 0.0 };
        }
        let input: f64 = (0..graph.len()).filter(|&of| read[of]).map(|of| graph.operators()[of].output).sum();
        let flight = match setting.shape.schedule {
            PipelineSchedule::GPipe => setting.shape.micro,
            _ => path[stage].min(setting.shape.micro),
        };
        let flight = f64::from(flight);
        let plain = (versions + copies) * weights + rows * flight * (input + kept);
        let again = (versions + copies) * weights + rows * (flight * input + kept);
        let most = lane.memory.unwrap_or(f64::INFINITY);
        let compute = if plain <= most {
            forward + backward
        } else if setting.recompute && stage_of.last() != Some(&stage) && again <= most {
            2.0 * forward + backward
        } else {
            return f64::INFINITY;
        };
        worst = worst.max(compute / lane.pace).max(rows * input.max(out) / lane.link);
    }
    worst
}

/// Calls `each` for every assignment of some stages to separate lanes.
fn with_lanes(stages: usize, lanes: usize, taken: &mut Vec<usize>, each: &mut dyn FnMut(&[usize])) {
    if taken.len() == stages {
        return each(taken);
    }
    for lane in 0..lanes {
        if !taken.contains(&lane) {
            taken.push(lane);
            with_lanes(stages, lanes, taken, each);
            taken.pop();
        }
    }
}

/// Calls `each` for every partition of the remaining operators into at most `most` sets.
fn with_sets(left: usize, most: usize, stage_of: &mut Vec<usize>, each: &mut dyn FnMut(&[usize], usize)) {
    let sets = stage_of.iter().max().map_or(0, |&of| of + 1);
    if left == 0 {
        return each(stage_of, sets);
    }
    for set in 0..most.min(sets + 1) {
        stage_of.push(set);
        with_sets(left - 1, most, stage_of, each);
        stage_of.pop();
    }
}

/// Returns the cost of the best division of a chain. It is infinite if no division fits.
fn least_of_chain(graph: &Graph, machine: &Machine, setting: &Setting) -> f64 {
    let mut least = f64::INFINITY;
    for cut in 0u32..1 << (graph.len() - 1) {
        let stages = cut.count_ones() as usize + 1;
        let of = |at: usize| (cut & ((1 << at) - 1)).count_ones() as usize;
        let stage_of: Vec<usize> = (0..graph.len()).map(of).collect();
        with_lanes(stages, machine.lanes.len(), &mut Vec::new(), &mut |lanes| {
            least = least.min(slowest(graph, machine, setting, &stage_of, lanes));
        });
    }
    least
}

/// Returns the cost of the best partition of a graph. It is infinite if no partition fits.
fn least_of_graph(graph: &Graph, machine: &Machine, setting: &Setting) -> f64 {
    let mut least = f64::INFINITY;
    with_sets(graph.len(), machine.lanes.len(), &mut Vec::new(), &mut |stage_of, stages| {
        with_lanes(stages, machine.lanes.len(), &mut Vec::new(), &mut |lanes| {
            least = least.min(slowest(graph, machine, setting, stage_of, lanes));
        });
    });
    least
}

/// Returns true if each set of operators follows the sets that it reads. `order` has the sets in their order.
fn is_in_order(graph: &Graph, stage_of: &[usize], order: &[usize]) -> bool {
    let position = |operator: usize| order.iter().position(|&set| set == stage_of[operator]);
    (0..graph.len()).all(|at| graph.reads(at).iter().all(|&read| position(read) <= position(at)))
}

/// Returns the smallest predicted time of a round over all partitions of a graph into stages, and all
/// assignments of stages to lanes. It is infinite if no partition fits.
fn least_round(graph: &Graph, machine: &Machine, setting: Setting) -> (f64, Vec<StageOf>) {
    let mut least = (f64::INFINITY, Vec::new());
    with_sets(graph.len(), machine.lanes.len(), &mut Vec::new(), &mut |stage_of, stages| {
        let operators = |at: usize| (0..graph.len()).filter(|&of| stage_of[of] == at).collect::<Vec<_>>();
        // Orders of sets are drawn like lanes. The order of independent stages decides which of them runs first.
        with_lanes(stages, stages, &mut Vec::new(), &mut |order| {
            if !is_in_order(graph, stage_of, order) {
                return;
            }
            with_lanes(stages, machine.lanes.len(), &mut Vec::new(), &mut |lanes| {
                let stage =
                    |(&at, &lane): (&usize, &usize)| StageOf { operators: operators(at), lanes: vec![lane] };
                let stages = order.iter().zip(lanes).map(stage).collect();
                let partition = Partition { planner: Planner::Chain, stages };
                let counted = partition.count(graph, machine, &setting, true);
                let candidate = Candidate { machine, setting, partition, counted };
                if candidate.fits() && candidate.least() < least.0 {
                    let round_s = candidate.predict().round;
                    if round_s < least.0 {
                        least = (round_s, candidate.partition.stages);
                    }
                }
            });
        });
    });
    least
}

/// Returns the number of graphs to search exhaustively, which the environment may set for a campaign.
fn count(short: u32) -> u32 {
    // The variable only changes the number of graphs.
    #[allow(clippy::disallowed_methods)]
    let wanted = std::env::var("ECITON_PLANNER_GRAPHS").ok();
    wanted.map_or(short, |count| count.parse().unwrap())
}

/// Compares plans with the best of all plans by predicted time. Prints the share of equally fast plans, and fails
/// if it is below 95 % or if a plan is more than 3 % slower.
fn compare_rounds(what: &str, seed: u64, lanes: u64, graph: fn(&mut Random) -> Graph) {
    let mut random = Random::new(seed);
    let (mut found, mut optimal, mut worst) = (0, 0, (0.0, String::new()));
    let count = count(200);
    for round in 0..count {
        let graph = graph(&mut random);
        let machine = random::machine(&mut random, lanes);
        let setting = random::setting(&mut random, &machine);
        let wanted = Wanted {
            rows: vec![setting.shape.rows],
            schedules: vec![setting.shape.schedule],
            chunks: None,
            widths: vec![1],
            micro: vec![setting.shape.micro],
            recompute: setting.recompute,
            parallel: true,
            copies: setting.copies,
            lane_copies: setting.lane_copies,
            work: setting.work,
        };
        let (least, stages) = least_round(&graph, &machine, setting);
        let Ok(answer) = plan(&graph, &machine, &wanted) else { continue };
        let slower = answer.plan.round_seconds / least - 1.0;
        assert!(slower > -1e-9, "seed {seed}, {what} {round}: faster than the best of all plans");
        found += 1;
        optimal += u32::from(slower < 1e-9);
        if slower > worst.0 {
            let plan: Vec<_> =
                answer.plan.stages.iter().map(|stage| (&stage.operators, &stage.lanes)).collect();
            worst = (slower, format!("{what} {round}, {:?}, {plan:?} instead of {stages:?}", setting.shape));
        }
    }
    let share = f64::from(optimal) / f64::from(found);
    println!(
        "seed {seed}: {optimal} of {found} plans of {count} {what}s are optimal ({:.1} %); the slowest is {:.2} % slower: {}",
        100.0 * share,
        100.0 * worst.0,
        worst.1
    );
    assert!(share >= 0.95 && worst.0 <= 0.03);
}

#[test]
fn plans_of_chains_are_the_fastest_of_all() {
    compare_rounds("chain", 4504, 4, random::chain);
}

#[test]
fn plans_of_graphs_are_the_fastest_of_all() {
    compare_rounds("graph", 4505, 3, random::series_parallel);
}

fn equal(best: f64, least: f64) -> bool {
    best == least || (best - least).abs() <= 1e-9 * least
}

/// Returns true if the planner for chains finds the best division of one more random chain.
pub(super) fn finds_best_of_chain(random: &mut Random) -> bool {
    let (graph, machine) = (random::chain(random), random::machine(random, 4));
    let setting = random::setting(random, &machine);
    let least = least_of_chain(&graph, &machine, &setting);
    let price = |sums: &Sums, lane: &Lane, path: u32| setting.cost(sums, lane, setting.in_flight(path));
    let found = cuts(&Runs::from_graph(&graph), &Pool::from_machine(&machine, 1), &price, &mut 0);
    equal(found.iter().map(|(cost, _)| *cost).fold(f64::INFINITY, f64::min), least)
}

/// Returns true if the planner for branches finds the best partition of one more random graph.
pub(super) fn finds_best_of_graph(random: &mut Random) -> bool {
    let (graph, machine) = (random::series_parallel(random), random::machine(random, 3));
    let setting = random::setting(random, &machine);
    let least = least_of_graph(&graph, &machine, &setting);
    let pool = Pool::from_machine(&machine, 1);
    let price = |sums: &Sums, lane: &Lane, path: u32| setting.cost(sums, lane, setting.in_flight(path));
    let lattice = Lattice::from_graph(&graph, &Part::from_graph(&graph), &|of| of.len() as f64).unwrap();
    let found = Branches::new(&lattice, &pool, &price, setting.rows).best(machine.lanes.len(), &mut 0);
    equal(found.map_or(f64::INFINITY, |(cost, _)| cost), least)
}

#[test]
fn chains_are_cut_as_well_as_can_be() {
    let seed = 4501;
    let mut random = Random::new(seed);
    let mut none = 0;
    for round in 0..1000 {
        let graph = random::chain(&mut random);
        let machine = random::machine(&mut random, 4);
        let setting = random::setting(&mut random, &machine);
        let least = least_of_chain(&graph, &machine, &setting);
        let pool = Pool::from_machine(&machine, 1);
        let price = |sums: &Sums, lane: &Lane, path: u32| setting.cost(sums, lane, setting.in_flight(path));
        let found = cuts(&Runs::from_graph(&graph), &pool, &price, &mut 0);
        let best = found.iter().map(|(cost, _)| *cost).fold(f64::INFINITY, f64::min);
        assert!(
            equal(best, least),
            "seed {seed}, chain {round}: {best}, exhaustive {least}\n{graph:?}\n{machine:?}"
        );
        for (cost, partition) in found {
            let counted = partition.count(&graph, &machine, &setting, true);
            assert!(counted.iter().all(|of| of.recompute.is_some()), "seed {seed}, chain {round}");
            assert!(cost >= best);
        }
        none += u32::from(least.is_infinite());
    }
    assert!((50..500).contains(&none), "{none} of 1000 chains fit nowhere");
}

#[test]
fn series_parallel_graphs_are_cut_as_well_as_can_be() {
    let seed = 4502;
    let mut random = Random::new(seed);
    let (mut none, mut parallel) = (0, 0);
    for round in 0..1000 {
        let graph = random::series_parallel(&mut random);
        let machine = random::machine(&mut random, 3);
        let setting = random::setting(&mut random, &machine);
        let least = least_of_graph(&graph, &machine, &setting);
        let pool = Pool::from_machine(&machine, 1);
        let price = |sums: &Sums, lane: &Lane, path: u32| setting.cost(sums, lane, setting.in_flight(path));
        let lattice = Lattice::from_graph(&graph, &Part::from_graph(&graph), &|of| of.len() as f64).unwrap();
        let found = Branches::new(&lattice, &pool, &price, setting.rows);
        let found = found.best(machine.lanes.len(), &mut 0);
        let best = found.as_ref().map_or(f64::INFINITY, |(cost, _)| *cost);
        assert!(
            equal(best, least),
            "seed {seed}, graph {round}: {best}, exhaustive {least}\n{graph:?}\n{machine:?} {setting:?}"
        );
        none += u32::from(least.is_infinite());
        let Some((cost, partition)) = found else { continue };
        let mut stage_of = vec![usize::MAX; graph.len()];
        for (at, stage) in partition.stages.iter().enumerate() {
            stage.operators.iter().for_each(|&of| stage_of[of] = at);
        }
        let lanes: Vec<usize> = partition.stages.iter().map(|stage| stage.lanes[0]).collect();
        let again = slowest(&graph, &machine, &setting, &stage_of, &lanes);
        assert!((again - cost).abs() <= 1e-9 * cost, "seed {seed}, graph {round}: {cost}, recounted {again}");
        let counted = partition.count(&graph, &machine, &setting, true);
        let backward = setting.order() == Order::BackwardFirst;
        let first = counted.iter().map(|of| of.in_flight).max().unwrap();
        parallel += u32::from(backward && setting.shape.micro > 2 && first < counted.len() as u32);
    }
    assert!((50..500).contains(&none), "{none} of 1000 graphs fit nowhere");
    assert!(parallel > 20, "{parallel} partitions have stages side by side");
}

#[test]
fn equal_branches_are_as_good_as_unlike_ones() {
    let seed = 4503;
    let mut random = Random::new(seed);
    let mut fewer = 0;
    for round in 0..60 {
        let (branches, layers) = (2 + random.below(3) as usize, 1 + random.below(3) as usize);
        let alike = random::branches(&mut random, branches, layers);
        // Seconds too few to matter tell branches from each other.
        let mut unlike = alike.operators().to_vec();
        for (at, operator) in unlike.iter_mut().enumerate() {
            operator.backward.call += at as f64 * 1e-13;
        }
        let unlike = Graph::new(unlike).unwrap();
        let machine = random::machine(&mut random, 6);
        let setting = random::setting(&mut random, &machine);
        let pool = Pool::from_machine(&machine, 1);
        let price = |sums: &Sums, lane: &Lane, path: u32| setting.cost(sums, lane, setting.in_flight(path));
        let what = format!("seed {seed}, {round}: {branches} branches of {layers}");
        let best = |graph: &Graph| {
            let lattice =
                Lattice::from_graph(graph, &Part::from_graph(graph), &|of| of.len() as f64).unwrap();
            let search = Branches::new(&lattice, &pool, &price, setting.rows);
            (search.best(machine.lanes.len(), &mut 0), lattice.states.len())
        };
        let ((found, states), (other, all)) = (best(&alike), best(&unlike));
        fewer += u32::from(states < all);
        assert_eq!(found.is_some(), other.is_some(), "{what}");
        let (Some((cost, partition)), Some((same, _))) = (found, other) else { continue };
        assert!((cost - same).abs() <= 1e-9 * cost, "{what}: {cost}, unlike {same}");
        let mut operators: Vec<usize> =
            partition.stages.iter().flat_map(|stage| stage.operators.clone()).collect();
        operators.sort_unstable();
        assert!(operators.into_iter().eq(0..alike.operators().len()), "{what}: {partition:?}");
        let counted = partition.count(&alike, &machine, &setting, true);
        for (stage, of) in partition.stages.iter().zip(counted) {
            let before = of.reads.iter().all(|&(read, _)| partition.stages[read] != *stage);
            let lane = machine.lanes[stage.lanes[0]];
            let again = of.recompute.map(|_| setting.cost(&of.sums, &lane, of.in_flight));
            assert!(before && again.is_some_and(|again| again <= cost * (1.0 + 1e-9)), "{what}");
        }
    }
    assert!(fewer > 20, "{fewer} of 60 lattices are smaller for equal branches");
}
