//! PipeDream-2BW's search: stages of equal compute, with variable width (number of replicas) and
//! depth (number of stages).
//!
//! For each width w and depth d, with micro-batches of b rows and m = B / (w b) micro-batches per
//! replica:
//!
//! ```text
//! t(w, d, b)  = max over i of max(T_comp(i, b) + sum over j of T_comm(j to i, b), T_comm(i) / m)
//! throughput  = w b / t
//! memory      = 2 |W| / d + |A| + d |A_in|
//! recomputing = 2 |W| / d + |A| / d + d |A_in|, and T_comp x 4/3
//! ```
//!
//! T_comm(i) is the update of stage i's weights, spread over the m micro-batches. A and A_in are
//! the activations and inputs of one micro-batch. The memory of each stage is counted, which equals
//! the formula if all stages are equal (`cost`). Source: Narayanan et al. 2021, section 4.

use super::chain::Runs;
use super::partition::{Partition, Planner, StageOf};
use super::pool::Pool;
use super::predict::Candidate;
use crate::placement::balanced;

/// Divides the graph into `depth` runs of equal compute, and assigns them to the first groups of
/// lanes.
pub(super) fn equal(runs: &Runs, pool: &Pool, depth: usize, rows: f64) -> Option<Partition> {
    let n = runs.len();
    let costs: Vec<f64> = (0..n)
        .map(|at| {
            let sums = runs.sum(at, at + 1);
            (sums.forward + sums.backward).on(rows)
        })
        .collect();
    let firsts = balanced(&costs, depth)?;
    let ends = firsts.iter().skip(1).copied().chain([n]);
    let stages = firsts.iter().zip(ends).zip(&pool.groups).map(|((&first, end), group)| StageOf {
        operators: (first..end).collect(),
        lanes: group.lanes.clone(),
    });
    let stages: Vec<StageOf> = stages.collect();
    (stages.len() == depth).then_some(Partition { planner: Planner::Blocks, stages })
}

/// Returns the rows per second of a candidate, by PipeDream-2BW's formula.
pub(super) fn throughput(of: &Candidate<'_>) -> f64 {
    let setting = &of.setting;
    let own = f64::from(setting.own().max(1));
    let slowest = (0..of.depth()).map(|stage| {
        let (forward, backward) = of.seconds(stage, 0);
        let Some(counted) = of.counted.get(stage) else { return 0.0 };
        let link = of.partition.stages.get(stage).and_then(|stage| stage.lanes.first());
        let link = link.and_then(|&lane| of.machine.lanes.get(lane)).map_or(f64::INFINITY, |lane| lane.link);
        let arriving: f64 = counted.reads.iter().map(|(_, bytes)| bytes).sum();
        let compute = forward + backward + setting.rows * arriving / link;
        compute.max(of.update_of(stage, 0) / own)
    });
    let slowest = slowest.fold(0.0, f64::max);
    if slowest > 0.0 { f64::from(setting.shape.width) * setting.rows / slowest } else { f64::INFINITY }
}
