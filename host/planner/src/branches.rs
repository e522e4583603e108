//! GraphPipe's search: a binary search on the time of the slowest stage, and dynamic programming
//! over the stages of a series-parallel graph.
//!
//! For a target time T, the dynamic program visits the states of the graph's [`Lattice`] from the
//! last operators to the first. It computes the minimum number of lanes. For each operator that
//! others still read, it computes the length of the longest path of stages from it:
//!
//! ```text
//! path(stage) = 1 + max over the stages that read it of path          1 at the end
//! in flight   = path of 1F1B and 2BW, all micro-batches of GPipe      (`cost`)
//! ```
//!
//! A stage is allowed if its cost on a class of lanes is at most T. A partial assignment is dropped
//! if another one uses no more lanes of any class and has no longer path anywhere. Source: Jeon et
//! al. 2025 (GraphPipe).

use super::chain::Price;
use super::lattice::{Lattice, bits};
use super::partition::{Partition, Planner, StageOf};
use super::pool::Pool;

/// Maximum number of partial assignments that the search stores per state. It stores those with the
/// fewest lanes and the shortest paths.
const MOST_WAYS: usize = 24;
/// Number of times that the search doubles the target time. The last doubling allows any cost.
const DOUBLINGS: u32 = 4;
/// Number of times that the search halves the interval of target times. After these, it only lowers
/// the target.
const HALVINGS: u32 = 10;
/// Relative difference below which two costs count as equal.
const NEAR: f64 = 1e-10;

/// Assignment of all operators of a state to stages.
#[derive(Clone, Debug)]
struct Way {
    /// Number of groups of lanes in use, for each class of groups.
    used: Vec<u16>,
    /// Longest path of stages from each atom that reads an operator in no stage yet. It is 0 for
    /// all other atoms.
    paths: Vec<u16>,
    /// Longest path over all stages of the assignment.
    longest: u16,
    /// Cost of the slowest stage, in seconds.
    cost: f64,
    /// Origin of this assignment: (state, assignment of the state, step, class of lanes). `None`
    /// for the empty assignment.
    from: Option<(usize, usize, usize, usize)>,
}

impl Way {
    fn is_no_worse(&self, other: &Self) -> bool {
        let under = |one: &[u16], other: &[u16]| one.iter().zip(other).all(|(one, other)| one <= other);
        self.longest <= other.longest && under(&self.used, &other.used) && under(&self.paths, &other.paths)
    }

    fn lanes(&self) -> u16 {
        self.used.iter().sum()
    }
}

/// Search for one pool of lanes and one price function.
pub(super) struct Branches<'a> {
    lattice: &'a Lattice,
    pool: &'a Pool,
    price: &'a Price<'a>,
    /// Cost of the stage if nothing else is in flight, by state, step and class of lanes.
    least: Vec<Vec<Vec<f64>>>,
    /// Time of the operators that are in no stage yet, on the fastest lane, for each state, in
    /// seconds.
    rest: Vec<f64>,
}

impl<'a> Branches<'a> {
    pub(super) fn new(lattice: &'a Lattice, pool: &'a Pool, price: &'a Price<'a>, rows: f64) -> Self {
        let lanes: Vec<_> = (0..pool.classes.len()).filter_map(|class| pool.lane(class)).collect();
        let least = lattice.states.iter().map(|state| {
            let of =
                |step: &super::lattice::Step| lanes.iter().map(|lane| price(&step.sums, lane, 1)).collect();
            state.steps.iter().map(of).collect()
        });
        let pace = lanes.iter().map(|lane| lane.pace).fold(0.0, f64::max);
        let rest =
            lattice.states.iter().map(|state| (state.rest.forward + state.rest.backward).on(rows) / pace);
        Self { lattice, pool, price, least: least.collect(), rest: rest.collect() }
    }

    /// Returns the best partition of at most `depth` stages, which is the one whose slowest stage
    /// is fastest. Also returns its cost.
    pub(super) fn best(&self, depth: usize, states: &mut u64) -> Option<(f64, Partition)> {
        // The target starts at twice the mean of equal stages and doubles until there is a
        // partition.
        let mut least = self.rest.first().map_or(0.0, |rest| rest / depth as f64) * (1.0 - NEAR);
        let mut best = None;
        for doubling in 1..=DOUBLINGS {
            let target = if doubling == DOUBLINGS { f64::MAX } else { least * 2.0 };
            best = self.within(target, depth, states);
            if best.is_some() {
                break;
            }
            least = target;
        }
        let mut best = best?;
        for _ in 0..HALVINGS {
            let target = f64::midpoint(least.min(best.0), best.0);
            match self.within(target, depth, states) {
                Some(found) => best = found,
                None => least = target,
            }
        }
        // Search for a cost below the one that was found, one step at a time.
        while let Some(found) = self.within(best.0 * (1.0 - NEAR), depth, states) {
            if found.0 >= best.0 {
                break;
            }
            best = found;
        }
        Some(best)
    }

    /// Returns the partition with the shortest longest path whose stages each cost at most
    /// `target`.
    fn within(&self, target: f64, depth: usize, states: &mut u64) -> Option<(f64, Partition)> {
        let first = Way {
            used: vec![0; self.pool.classes.len()],
            paths: vec![0; self.lattice.atoms.len()],
            longest: 0,
            cost: 0.0,
            from: None,
        };
        let mut ways: Vec<Vec<Way>> = vec![Vec::new(); self.lattice.states.len()];
        ways.first_mut()?.push(first);
        for (at, state) in self.lattice.states.iter().enumerate() {
            let own = std::mem::take(ways.get_mut(at)?);
            if !own.is_empty() {
                for (number, step) in state.steps.iter().enumerate() {
                    for class in 0..self.pool.classes.len() {
                        if self.least[at][number][class] > target {
                            continue;
                        }
                        for (from, way) in own.iter().enumerate() {
                            *states += 1;
                            let next = self.with(way, (at, from, number, class), step, target, depth);
                            if let (Some(next), Some(to)) = (next, ways.get_mut(step.to)) {
                                keep(to, next);
                            }
                        }
                    }
                }
            }
            ways[at] = own;
        }
        let last = ways.last()?;
        let best = last.iter().min_by_key(|way| (way.longest, way.lanes()))?;
        Some((best.cost, self.partition(best, &ways)))
    }

    /// Returns an assignment with one more stage.
    fn with(
        &self,
        way: &Way,
        from: (usize, usize, usize, usize),
        step: &super::lattice::Step,
        target: f64,
        depth: usize,
    ) -> Option<Way> {
        let class = from.3;
        let (_, count) = self.pool.classes.get(class)?;
        if usize::from(*way.used.get(class)?) >= *count || usize::from(way.lanes()) >= depth {
            return None;
        }
        let path = 1 + bits(step.readers).filter_map(|at| way.paths.get(at)).copied().max().unwrap_or(0);
        let flight = u32::from(path) - u32::from(planted!(PathOneShort));
        let cost = (self.price)(&step.sums, self.pool.lane(class)?, flight);
        // The remaining operators have to fit on the remaining lanes.
        let left = depth.saturating_sub(usize::from(way.lanes()) + 1) as f64;
        if cost > target || self.rest.get(step.to)? * (1.0 - NEAR) > left * target {
            return None;
        }
        let mut used = way.used.clone();
        used[class] += 1;
        let frontier = self.lattice.states.get(step.to)?.frontier;
        let mut paths = vec![0; way.paths.len()];
        for (at, place) in step.places.iter().map(|&place| usize::from(place)).enumerate() {
            if frontier >> place & 1 == 1 {
                paths[place] = if step.stage >> at & 1 == 1 { path } else { way.paths[at] };
            }
        }
        let (longest, cost) = (way.longest.max(path), way.cost.max(cost));
        Some(Way { used, paths, longest, cost, from: Some(from) })
    }

    fn partition(&self, last: &Way, ways: &[Vec<Way>]) -> Partition {
        // States, steps and classes, from the first operators back to the last.
        let mut steps = Vec::new();
        let mut way = last;
        while let Some((state, number, step, class)) = way.from {
            steps.push((state, step, class));
            let Some(before) = ways.get(state).and_then(|ways| ways.get(number)) else { break };
            way = before;
        }
        // Atom at each index of a state's numbering of branches.
        let mut atoms: Vec<usize> = (0..self.lattice.atoms.len()).collect();
        let mut taken = vec![0; self.pool.classes.len()];
        let mut stages = Vec::new();
        for &(state, step, class) in steps.iter().rev() {
            let Some(of) = self.lattice.states.get(state) else { break };
            let Some(found) = of.steps.get(step) else { break };
            let stage = bits(found.stage).fold(0, |all, at| all | 1 << atoms[at]);
            let mut operators: Vec<usize> = self.lattice.operators(stage).collect();
            operators.sort_unstable();
            let group =
                self.pool.classes.get(class).and_then(|(at, _)| self.pool.groups.get(at + taken[class]));
            stages
                .push(StageOf { operators, lanes: group.map_or_else(Vec::new, |group| group.lanes.clone()) });
            taken[class] += 1;
            let mut renamed = atoms.clone();
            for (&place, &atom) in found.places.iter().zip(&atoms) {
                renamed[usize::from(place)] = atom;
            }
            atoms = renamed;
        }
        stages.reverse();
        Partition { planner: Planner::Branches, stages }
    }
}

/// Adds an assignment to those of a state, unless an existing one is at least as good.
fn keep(ways: &mut Vec<Way>, next: Way) {
    if ways.iter().any(|way| way.is_no_worse(&next)) {
        return;
    }
    ways.retain(|way| !next.is_no_worse(way));
    let key =
        |way: &Way| (way.lanes(), way.longest, way.paths.iter().map(|&path| u32::from(path)).sum::<u32>());
    let at = ways.partition_point(|way| key(way) <= key(&next));
    ways.insert(at, next);
    ways.truncate(MOST_WAYS);
}
