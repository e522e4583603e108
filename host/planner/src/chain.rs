//! Division of operators into contiguous runs, in their order. The best division is the one whose
//! slowest stage is fastest.
//!
//! ```text
//! T(j, U)  = min over classes c in U, ends i of max(t(j..i, c, |U|), T(i, U - c))
//! T(n, {}) = 0
//! ```
//!
//! T(j, U) is the cost of the slowest stage, if operators j and later are on the groups of lanes U.
//! t is the larger of a stage's compute time and its transfer time. It is infinite if the stage
//! does not fit in memory with |U| micro-batches in flight (`cost`). Source: Narayanan et al. 2019
//! (PipeDream), section 3.1, extended to lanes of unequal pace.
//!
//! The time of a round also has the time to fill and drain the pipeline. With m micro-batches it is
//! about
//!
//! ```text
//! sum over stages of t + (m - 1) max over stages of t
//! ```
//!
//! [`fills`] enumerates the maximum: for some limits, it finds the smallest sum of t over divisions in
//! which no stage exceeds the limit. If a schedule separates forward from backward (GPipe), each of the two
//! has its own limit.
//!
//! The search tries all orders of lanes if there are few combinations of used lanes by class (all
//! orders for 8 different lanes). Otherwise, it uses the fastest lanes first.

use super::graph::Graph;
use super::machine::Lane;
use super::partition::{Partition, Planner, StageOf};
use super::pool::Pool;
use super::stage_time::Sums;

/// Maximum depth up to which the search tries every depth. Above it, the search tries only powers
/// of two and the largest depth, because each depth needs its own costs.
const ALL_DEPTHS: usize = 16;

/// Maximum number of limits of the slowest stage that [`fills`] tries, and number of states up to which it
/// tries as many.
const MAX_LIMITS: usize = 16;
const FILL_STATES: usize = 1 << 16;

/// Sums of times and bytes for every run of consecutive operators.
pub(super) struct Runs {
    /// Sums, by the index of the first operator and by the number of operators less one.
    sums: Vec<Vec<Sums>>,
}

/// Cost of a run of operators on a lane. The last argument is the length of the longest path of
/// lanes from this lane to the last one, both included.
pub(super) type Price<'a> = dyn Fn(&Sums, &Lane, u32) -> f64 + 'a;

impl Runs {
    pub(super) fn from_graph(graph: &Graph) -> Self {
        let run = |first: usize, end: usize| {
            Sums::from_operators(graph, first..end, |at| (first..end).contains(&at))
        };
        let from = |first: usize| (first + 1..=graph.len()).map(|end| run(first, end)).collect();
        Self { sums: (0..graph.len()).map(from).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.sums.len()
    }

    /// Returns the sums of times and bytes of operators `first..end`.
    pub(super) fn sum(&self, first: usize, end: usize) -> Sums {
        let found = self.sums.get(first).and_then(|from| from.get(end.checked_sub(first + 1)?));
        found.copied().unwrap_or_default()
    }
}

/// Cost of a division, from the costs of its stages.
#[derive(Clone, Copy, Debug)]
enum Goal {
    /// Cost of the slowest stage.
    Slowest,
    /// Sum over the stages.
    Sum,
}

impl Goal {
    /// Returns the cost of a division whose first stage costs `first` and whose other stages cost `rest`.
    fn add(self, first: f64, rest: f64) -> f64 {
        match self {
            Self::Slowest => first.max(rest),
            Self::Sum => first + rest,
        }
    }
}

/// Returns the best division for each possible number of stages, with the cost of its slowest stage. It adds
/// the number of visited states to `states`.
pub(super) fn cuts(runs: &Runs, pool: &Pool, price: &Price<'_>, states: &mut u64) -> Vec<(f64, Partition)> {
    divisions(runs, pool, price, Goal::Slowest, states)
}

fn divisions(
    runs: &Runs,
    pool: &Pool,
    price: &Price<'_>,
    goal: Goal,
    states: &mut u64,
) -> Vec<(f64, Partition)> {
    match pool.shares() {
        Some(shares) => any_order(runs, pool, shares, price, goal, states),
        None => fastest_first(runs, pool, price, goal, states),
    }
}

/// Costs of the phases of a run of operators on a lane: forward and backward if the schedule separates them,
/// otherwise their sum and 0. The last argument is that of [`Price`].
pub(super) type Phases<'a> = dyn Fn(&Sums, &Lane, u32) -> [f64; 2] + 'a;

/// Returns the divisions with the smallest sum of costs, for each possible number of stages and for some limits
/// of the slowest stage in each phase.
pub(super) fn fills(runs: &Runs, pool: &Pool, phases: &Phases<'_>, states: &mut u64) -> Vec<Partition> {
    let n = runs.len();
    let tries = FILL_STATES / (n * n * pool.groups.len()).max(1);
    let is_separate = pool.groups.first().is_some_and(|of| phases(&runs.sum(0, n), &of.lane, 1)[1] > 0.0);
    let count = if is_separate { tries.isqrt() } else { tries }.min(MAX_LIMITS);
    let [forward, backward] =
        [0, 1].map(|phase| limits(runs, pool, &|sums, lane| phases(sums, lane, 1)[phase], count));
    let mut found = Vec::new();
    for &first in &forward {
        for &second in &backward {
            let price = |sums: &Sums, lane: &Lane, path: u32| {
                let [one, other] = phases(sums, lane, path);
                if one <= first && other <= second { one + other } else { f64::INFINITY }
            };
            let cuts = divisions(runs, pool, &price, Goal::Sum, states);
            found.extend(cuts.into_iter().map(|(_, cut)| cut));
        }
    }
    found
}

/// Returns at most `count` limits of the slowest stage: costs of runs of operators, from the smallest limit that
/// can hold to three times that.
fn limits(runs: &Runs, pool: &Pool, cost: &dyn Fn(&Sums, &Lane) -> f64, count: usize) -> Vec<f64> {
    let n = runs.len();
    let lanes =
        || pool.classes.iter().filter_map(|(first, _)| pool.groups.get(*first)).map(|group| &group.lane);
    let fastest =
        |first, end| lanes().map(|lane| cost(&runs.sum(first, end), lane)).fold(f64::INFINITY, f64::min);
    let single = (0..n).map(|at| fastest(at, at + 1)).fold(0.0, f64::max);
    let least = single.max(fastest(0, n) / pool.groups.len().max(1) as f64);
    let all = (0..n).flat_map(|first| (first + 1..=n).map(move |end| (first, end)));
    let all = all.flat_map(|(first, end)| lanes().map(move |lane| cost(&runs.sum(first, end), lane)));
    let mut known: Vec<f64> = all.filter(|cost| (least..=3.0 * least).contains(cost)).collect();
    known.sort_by(f64::total_cmp);
    known.dedup();
    let count = count.min(known.len());
    (0..count).filter_map(|at| known.get(at * known.len() / count)).copied().collect()
}

/// Returns the numbers of stages to try, from 1 to `most`.
pub(super) fn depths(most: usize) -> impl Iterator<Item = usize> {
    (1..=most).filter(move |depth| *depth <= ALL_DEPTHS || depth.is_power_of_two() || *depth == most)
}

/// Best assignment of the last operators to stages.
#[derive(Clone, Copy)]
struct Best {
    cost: f64,
    /// End of the first stage in the list of operators, and the class of its lanes.
    end: usize,
    class: usize,
}

const NONE: Best = Best { cost: f64::INFINITY, end: 0, class: 0 };

fn any_order(
    runs: &Runs,
    pool: &Pool,
    shares: usize,
    price: &Price<'_>,
    goal: Goal,
    states: &mut u64,
) -> Vec<(f64, Partition)> {
    let n = runs.len();
    // A share is a number in a mixed radix. Its digits are the numbers of groups in use, by class.
    let mut radix = Vec::with_capacity(pool.classes.len());
    let mut weight = 1usize;
    for (_, count) in &pool.classes {
        radix.push((weight, count + 1));
        weight *= count + 1;
    }
    let used = |share: usize| radix.iter().map(|(weight, of)| share / weight % of).sum::<usize>();
    let mut best = vec![vec![NONE; shares]; n + 1];
    best[n][0].cost = 0.0;
    for share in 1..shares {
        let path = used(share) as u32;
        if path as usize > n {
            continue;
        }
        for (class, &(weight, of)) in radix.iter().enumerate() {
            let Some(lane) = pool.lane(class).filter(|_| share / weight % of > 0) else { continue };
            let rest = share - weight;
            for first in 0..=n - path as usize {
                for end in first + 1..=n {
                    let behind = best[end][rest].cost;
                    if behind >= best[first][share].cost {
                        continue;
                    }
                    if planted!(LongRunsSkipped) && end - first > 2 {
                        continue;
                    }
                    *states += 1;
                    let flight = path - u32::from(planted!(PathOneShort));
                    let cost = goal.add(price(&runs.sum(first, end), lane, flight), behind);
                    if cost < best[first][share].cost {
                        best[first][share] = Best { cost, end, class };
                    }
                }
            }
        }
    }
    let mut found = Vec::new();
    for depth in 1..=pool.groups.len().min(n) {
        let of_depth = (1..shares).filter(|&share| used(share) == depth);
        let least = of_depth.min_by(|&one, &other| best[0][one].cost.total_cmp(&best[0][other].cost));
        let Some(mut share) = least.filter(|&share| best[0][share].cost.is_finite()) else { continue };
        let cost = best[0][share].cost;
        let mut taken = vec![0; pool.classes.len()];
        let (mut first, mut stages) = (0, Vec::new());
        while first < n {
            let Best { end, class, .. } = best[first][share];
            let group = pool.classes.get(class).and_then(|(first, _)| pool.groups.get(first + taken[class]));
            let Some(group) = group.filter(|_| end > first) else { break };
            stages.push(StageOf { operators: (first..end).collect(), lanes: group.lanes.clone() });
            taken[class] += 1;
            share -= radix[class].0;
            first = end;
        }
        found.push((cost, Partition { planner: Planner::Chain, stages }));
    }
    found
}

fn fastest_first(
    runs: &Runs,
    pool: &Pool,
    price: &Price<'_>,
    goal: Goal,
    states: &mut u64,
) -> Vec<(f64, Partition)> {
    let (n, most) = (runs.len(), pool.groups.len().min(runs.len()));
    let mut found = Vec::new();
    for depth in depths(most) {
        let mut best = vec![vec![NONE; n + 1]; depth + 1];
        best[depth][n].cost = 0.0;
        for (at, group) in pool.groups.iter().enumerate().take(depth).rev() {
            let path = (depth - at) as u32;
            for first in 0..n {
                for end in first + 1..=n {
                    let behind = best[at + 1][end].cost;
                    if behind >= best[at][first].cost {
                        continue;
                    }
                    *states += 1;
                    let cost = goal.add(price(&runs.sum(first, end), &group.lane, path), behind);
                    if cost < best[at][first].cost {
                        best[at][first] = Best { cost, end, class: 0 };
                    }
                }
            }
        }
        let cost = best[0][0].cost;
        if cost.is_finite() {
            let (mut first, mut stages) = (0, Vec::new());
            for (of, group) in best.iter().zip(&pool.groups).take(depth) {
                let end = of[first].end;
                stages.push(StageOf { operators: (first..end).collect(), lanes: group.lanes.clone() });
                first = end;
            }
            found.push((cost, Partition { planner: Planner::Chain, stages }));
        }
    }
    found
}
