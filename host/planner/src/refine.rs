//! Local search over partitions. It moves operators between stages and exchanges the lanes of
//! stages, and the predicted time of the round decides.
//!
//! The planners minimise the cost of the slowest stage. The time of a round also has the time to
//! fill and drain the pipeline, transfers and the update, so another partition can be faster. The
//! search is best-first: it starts from the partitions of the planners, and repeatedly tries all
//! neighbours of the fastest partition whose neighbours are not yet known. It ends after
//! [`PATIENCE`] partitions in a row without a faster neighbour. The neighbours of a partition are:
//!
//! - one operator of a stage, or the operator with all operators of the stage that precede (follow)
//!   it, moved to another stage or to an unused group of lanes,
//! - in small graphs, one operator of a stage exchanged for such a set of another stage,
//! - two stages with exchanged lanes, and one stage on unused lanes of another class,
//! - two consecutive stages in the other order, if neither reads the other.
//!
//! A stage without operators is removed. Stages on lanes with several runs keep their number and
//! their lanes.

use std::collections::BTreeSet;

use super::graph::Graph;
use super::partition::{Partition, Planner, StageOf};
use super::pool::Pool;

/// Number of partitions in a row without a faster neighbour, after which the search ends.
pub(super) const PATIENCE: usize = 128;
/// Largest time of a partition whose neighbours are tried, relative to the fastest one.
pub(super) const SLACK: f64 = 1.5;
/// Maximum number of operators up to which sets of operators are exchanged between stages.
const EXCHANGED: usize = 16;
/// Number of operators of a stage above which only its first and last operators move, and number of operators
/// at each end that do.
const LARGE_STAGE: usize = 16;
const BOUNDARY: usize = 4;
/// Maximum number of operators times stages up to which an operator may move to any stage. In larger
/// graphs it only moves to stages that it reads or that read it.
const ALL_STAGES: usize = 256;

/// Inputs of the local search that do not depend on the partition.
pub(super) struct Refiner<'a> {
    pub graph: &'a Graph,
    /// Groups of lanes that stages may use.
    pub pool: &'a Pool,
}

impl Refiner<'_> {
    /// Returns the neighbours of a partition, in an order that depends only on the inputs.
    pub(super) fn neighbours(&self, of: &Partition, chunks: u32) -> Vec<Partition> {
        let mut found = Vec::new();
        let everywhere = self.graph.len() * of.stages.len() <= ALL_STAGES;
        for (from, stage) in of.stages.iter().enumerate() {
            for operators in self.movable(stage) {
                let near = self.near(of, &operators);
                let targets =
                    (0..of.stages.len()).filter(|&to| to != from && (everywhere || near.contains(&to)));
                found
                    .extend(targets.filter_map(|to| self.moved(of, from, &operators, To::Stage(to), chunks)));
                if chunks == 1 && operators.len() < stage.operators.len() {
                    let unused = self.unused(of, None);
                    found.extend(
                        unused.filter_map(|group| self.moved(of, from, &operators, To::Group(group), chunks)),
                    );
                }
            }
        }
        if chunks == 1 && self.graph.len() <= EXCHANGED {
            found.extend(self.with_operators_exchanged(of));
        }
        if chunks == 1 {
            found.extend(self.exchanged(of));
            found.extend((1..of.stages.len()).filter_map(|at| self.reordered(of, at)));
        }
        found
    }

    /// Returns the sets of operators of a stage that may move together: each operator alone, and each
    /// operator with all that precede or all that follow it in the stage.
    fn movable(&self, stage: &StageOf) -> BTreeSet<Vec<usize>> {
        let mut sets = BTreeSet::new();
        let count = stage.operators.len();
        for (at, &operator) in stage.operators.iter().enumerate() {
            if count <= LARGE_STAGE {
                sets.insert(vec![operator]);
                sets.insert(self.closure(&stage.operators[..=at], operator, |read, reader| (reader, read)));
                sets.insert(self.closure(&stage.operators[at..], operator, |read, reader| (read, reader)));
            } else if at >= BOUNDARY && at + BOUNDARY < count {
                continue;
            }
            sets.insert(stage.operators[..=at].to_vec());
            sets.insert(stage.operators[at..].to_vec());
        }
        sets
    }

    /// Returns the operators among `operators` that are connected with `first` by edges in one direction.
    /// `step` maps an edge (read operator, reader) to its ends in the direction of the search.
    fn closure(
        &self,
        operators: &[usize],
        first: usize,
        step: fn(usize, usize) -> (usize, usize),
    ) -> Vec<usize> {
        let mut found = BTreeSet::from([first]);
        loop {
            let before = found.len();
            for &reader in operators {
                for &read in self.graph.reads(reader) {
                    let (from, to) = step(read, reader);
                    if found.contains(&from) && operators.contains(&to) {
                        found.insert(to);
                    }
                }
            }
            if found.len() == before {
                return found.into_iter().collect();
            }
        }
    }

    /// Returns the stages that read one of the operators, or that one of them reads.
    fn near(&self, of: &Partition, operators: &[usize]) -> BTreeSet<usize> {
        let edges = |&at: &usize| self.graph.reads(at).iter().chain(self.graph.readers(at));
        let ends: BTreeSet<usize> = operators.iter().flat_map(edges).copied().collect();
        let touches = |(_, stage): &(usize, &StageOf)| stage.operators.iter().any(|at| ends.contains(at));
        of.stages.iter().enumerate().filter(touches).map(|(at, _)| at).collect()
    }

    /// Returns one unused group of lanes per class, without the class that equals `except`.
    fn unused<'s>(
        &'s self,
        of: &'s Partition,
        except: Option<&'s [usize]>,
    ) -> impl Iterator<Item = &'s [usize]> {
        let is_used = |lanes: &[usize]| of.stages.iter().any(|stage| stage.lanes == lanes);
        let lane = |lanes: &[usize]| {
            self.pool.groups.iter().find(|group| group.lanes == lanes).map(|group| group.lane)
        };
        let except = except.and_then(lane);
        let classes = self.pool.groups.chunk_by(|one, other| one.lane == other.lane);
        classes
            .filter(move |class| class.first().map(|group| group.lane) != except)
            .filter_map(move |class| class.iter().find(|group| !is_used(&group.lanes)))
            .map(|group| group.lanes.as_slice())
    }

    /// Returns the partition with some operators of a stage moved. Returns `None` if stages would wait for
    /// each other.
    fn moved(
        &self,
        of: &Partition,
        from: usize,
        operators: &[usize],
        to: To<'_>,
        chunks: u32,
    ) -> Option<Partition> {
        let mut stages = of.stages.clone();
        stages.get_mut(from)?.operators.retain(|at| !operators.contains(at));
        match to {
            To::Stage(to) => {
                let target = &mut stages.get_mut(to)?.operators;
                target.extend(operators);
                target.sort_unstable();
            }
            To::Group(lanes) => stages.push(StageOf { operators: operators.to_vec(), lanes: lanes.to_vec() }),
        }
        if chunks > 1 {
            let in_order =
                stages.windows(2).all(|two| match (two[0].operators.last(), two[1].operators.first()) {
                    (Some(last), Some(first)) => last < first,
                    _ => false,
                });
            return in_order.then_some(Partition { planner: Planner::Refined, stages });
        }
        stages.retain(|stage| !stage.operators.is_empty());
        self.in_topological_order(stages)
    }

    /// Returns the partitions in which an operator of a stage is exchanged for a set of operators of another one.
    fn with_operators_exchanged(&self, of: &Partition) -> Vec<Partition> {
        let mut found = Vec::new();
        for (one, stage) in of.stages.iter().enumerate() {
            for (other, others) in of.stages.iter().enumerate().filter(|(other, _)| *other != one) {
                for set in self.movable(others) {
                    for operator in &stage.operators {
                        let mut stages = of.stages.clone();
                        for (at, without, with) in
                            [(one, &[*operator][..], &set[..]), (other, &set[..], &[*operator][..])]
                        {
                            let operators = &mut stages[at].operators;
                            operators.retain(|of| !without.contains(of));
                            operators.extend(with);
                            operators.sort_unstable();
                        }
                        found.extend(self.in_topological_order(stages));
                    }
                }
            }
        }
        found
    }

    /// Returns the partitions in which two stages have exchanged lanes, or a stage has unused lanes.
    fn exchanged(&self, of: &Partition) -> Vec<Partition> {
        let lane = |at: usize| {
            let lanes = &of.stages.get(at)?.lanes;
            self.pool.groups.iter().find(|group| group.lanes == *lanes).map(|group| group.lane)
        };
        let mut found = Vec::new();
        for one in 0..of.stages.len() {
            for other in one + 1..of.stages.len() {
                if lane(one) != lane(other) {
                    let mut stages = of.stages.clone();
                    let (left, right) = stages.split_at_mut(other);
                    std::mem::swap(&mut left[one].lanes, &mut right[0].lanes);
                    found.push(Partition { planner: Planner::Refined, stages });
                }
            }
            for lanes in self.unused(of, Some(&of.stages[one].lanes)) {
                let mut stages = of.stages.clone();
                stages[one].lanes = lanes.to_vec();
                found.push(Partition { planner: Planner::Refined, stages });
            }
        }
        found
    }

    /// Returns the partition in which a stage precedes the stage before it. Returns `None` if it reads that
    /// stage.
    fn reordered(&self, of: &Partition, at: usize) -> Option<Partition> {
        let (before, stage) = (of.stages.get(at.checked_sub(1)?)?, of.stages.get(at)?);
        let mut reads = stage.operators.iter().flat_map(|&operator| self.graph.reads(operator));
        if reads.any(|read| before.operators.contains(read)) {
            return None;
        }
        let mut stages = of.stages.clone();
        stages.swap(at - 1, at);
        Some(Partition { planner: Planner::Refined, stages })
    }

    /// Sorts stages so that each follows the stages that it reads. Returns `None` if that is not possible.
    fn in_topological_order(&self, mut stages: Vec<StageOf>) -> Option<Partition> {
        stages.sort_by_key(|stage| stage.operators.first().copied());
        let mut stage_of = vec![0; self.graph.len()];
        for (at, stage) in stages.iter().enumerate() {
            stage.operators.iter().for_each(|&operator| stage_of[operator] = at);
        }
        let reads = |at: usize| -> BTreeSet<usize> {
            let reads = stages[at].operators.iter().flat_map(|&operator| self.graph.reads(operator));
            reads.map(|&read| stage_of[read]).filter(|&read| read != at).collect()
        };
        let waits: Vec<BTreeSet<usize>> = (0..stages.len()).map(reads).collect();
        let mut order: Vec<usize> = Vec::with_capacity(stages.len());
        while order.len() < stages.len() {
            let is_next =
                |at: &usize| !order.contains(at) && waits[*at].iter().all(|read| order.contains(read));
            let next = (0..stages.len()).find(is_next)?;
            order.push(next);
        }
        let stages = order.into_iter().map(|at| stages[at].clone()).collect();
        Some(Partition { planner: Planner::Refined, stages })
    }
}

/// Target of moved operators.
#[derive(Clone, Copy)]
enum To<'a> {
    /// Index of another stage of the partition.
    Stage(usize),
    /// Unused group of lanes, by the lane of each replica. The operators become a stage.
    Group(&'a [usize]),
}
