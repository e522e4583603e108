//! BaPipe's balancing: starts from stages of equal compute, and moves operators at stage boundaries
//! away from the slowest lane.
//!
//! The slowest stage gives its boundary operator to the adjacent stage with the most slack. This
//! repeats while the slowest cost decreases and memory suffices. The list schedule decides between
//! GPipe and 1F1B: the one with the smaller bubble (idle share) wins. Source: Zhao et al. 2020
//! (BaPipe).

use super::chain::{Price, Runs};
use super::machine::Lane;
use super::partition::{Partition, Planner, StageOf};

/// Moves boundary operators between adjacent stages until no move helps. `lanes` has the lane of
/// each stage.
pub(super) fn moved(
    runs: &Runs,
    start: &Partition,
    lanes: &[Lane],
    price: &Price<'_>,
    states: &mut u64,
) -> Partition {
    let depth = start.stages.len();
    let mut ends: Vec<usize> = Vec::with_capacity(depth + 1);
    ends.push(0);
    for stage in &start.stages {
        ends.push(ends.last().copied().unwrap_or(0) + stage.operators.len());
    }
    let costs = |ends: &[usize]| -> Vec<f64> {
        let runs = ends.windows(2).map(|two| runs.sum(two[0], two[1]));
        let priced = runs.zip(lanes).enumerate();
        priced.map(|(at, (sums, lane))| price(&sums, lane, (depth - at) as u32)).collect()
    };
    let mut now = costs(&ends);
    while let Some(slowest) = (0..depth).max_by(|&one, &other| now[one].total_cmp(&now[other])) {
        // A stage has at least one operator.
        if ends[slowest + 1] - ends[slowest] < 2 {
            break;
        }
        let mut neighbours: Vec<usize> = Vec::new();
        neighbours.extend(slowest.checked_sub(1));
        neighbours.extend(Some(slowest + 1).filter(|&next| next < depth));
        neighbours.sort_by(|&one, &other| now[one].total_cmp(&now[other]));
        let better = neighbours.into_iter().find_map(|to| {
            *states += 1;
            let mut moved = ends.clone();
            if to < slowest {
                moved[slowest] += 1;
            } else {
                moved[to] -= 1;
            }
            let then = costs(&moved);
            (worst(&then) < worst(&now)).then_some((moved, then))
        });
        let Some((moved, then)) = better else { break };
        (ends, now) = (moved, then);
    }
    let runs = ends.windows(2).zip(&start.stages);
    let stages = runs
        .map(|(two, stage)| StageOf { operators: (two[0]..two[1]).collect(), lanes: stage.lanes.clone() });
    Partition { planner: Planner::Balanced, stages: stages.collect() }
}

/// Returns the number of stages that do not fit into memory, and the cost of the slowest of all
/// other stages.
fn worst(costs: &[f64]) -> (usize, f64) {
    let (fit, not): (Vec<f64>, Vec<f64>) = costs.iter().partition(|cost| cost.is_finite());
    (not.len(), fit.into_iter().fold(0.0, f64::max))
}
