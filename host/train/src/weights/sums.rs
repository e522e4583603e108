//! Partial sums of gradients and losses in a round. They are added along a tree over the rows, so
//! that the result does not depend on how the rows are divided into intervals.

use std::ops::Range;

use eciton_recipe::Lanes;
use eciton_types::{Node, Tree};

use crate::data::Interval;

/// Nodes of the summation tree whose partial sums are computed by the intervals of a round.
#[derive(Debug)]
pub(crate) struct Sums {
    /// Nodes of the tree that each interval covers, from left to right.
    pub(super) nodes: Vec<Vec<Node>>,
    pub(super) tree: Tree,
}

impl Sums {
    /// Returns an iterator over the intervals. An item is the number of tree nodes of the interval.
    pub(crate) fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.nodes.iter().map(|nodes| nodes.len() as u64)
    }

    /// Returns the maximum number of buffers that a round needs for each use of a parameter. The
    /// second number is that of the additional buffers for the use with the most values. `steps` is
    /// the maximum number of steps in flight. If it is `None`, all intervals are in flight at once.
    pub(crate) fn buffers(&self, steps: Option<u64>) -> [u64; 2] {
        let parts: u64 = self.counts().sum();
        if parts <= 1 {
            return [parts, 0];
        }
        let levels = self.levels_above();
        match steps {
            // The sums of later steps wait for the sums of an earlier step.
            Some(steps) => {
                let nodes = self.counts().max().unwrap_or(0);
                let waiting = (steps.saturating_sub(1) * nodes).min(parts - 1);
                [levels + waiting, (steps * nodes).min(parts)]
            }
            None => [levels + parts, 0],
        }
    }

    /// Creates the sums of the intervals that the rows of the data set are divided into.
    pub(crate) fn of_intervals(intervals: &[Interval], tree: Tree) -> Self {
        Self { nodes: intervals.iter().map(|interval| interval.nodes.clone()).collect(), tree }
    }

    /// Creates the sums of micro-batches without adjacency lists. The tree is over the atoms of the
    /// batch, which are fixed blocks of rows.
    pub(crate) fn of_runs((nodes, tree): (Vec<Vec<Node>>, Tree)) -> Self {
        Self { nodes, tree }
    }

    /// Returns the intervals of each pipeline replica.
    pub(crate) fn replicas(&self, lanes: &Lanes) -> Vec<Range<u32>> {
        // The cast is lossless, because the number of intervals is limited.
        let intervals = self.nodes.len() as u32;
        (0..lanes.width.max(1)).map(|replica| lanes.run(replica, intervals)).collect()
    }

    /// Returns the largest tree nodes that each run of intervals covers. A run has the intervals of
    /// a pipeline replica or of a host, which computes the sums of these nodes.
    pub(crate) fn tops(&self, runs: &[Range<u32>]) -> Vec<Vec<Node>> {
        let of = |run: &Range<u32>| {
            let nodes = self.nodes.get(run.start as usize..run.end as usize).unwrap_or_default();
            let spans = nodes.iter().flatten().map(|node| self.tree.span(*node));
            let atoms = spans.reduce(|all, span| all.start.min(span.start)..all.end.max(span.end));
            self.tree.nodes(atoms.unwrap_or(0..0))
        };
        runs.iter().map(of).collect()
    }

    /// Returns the number of partial sums that a process stores at once while it adds up all of
    /// them, if they arrive in order.
    pub(crate) fn levels(&self) -> u64 {
        self.levels_above().max(1)
    }

    /// Returns the maximum number of sums that a matrix product over an interval stores at once.
    /// There is one for each level of the highest node, and one for the current atom.
    pub(crate) fn in_products(&self) -> u64 {
        1 + self.nodes.iter().flatten().map(|node| u64::from(node.level)).max().unwrap_or(0)
    }

    /// Returns the number of tree levels above the lowest node of all intervals.
    fn levels_above(&self) -> u64 {
        let lowest = self.nodes.iter().flatten().map(|node| node.level).min().unwrap_or(0);
        u64::from(self.tree.root().level.saturating_sub(lowest))
    }

    /// Returns the sums of runs of intervals. Each run counts as one interval.
    pub(crate) fn joined(&self, runs: &[Range<u32>]) -> Self {
        Self { nodes: self.tops(runs), tree: self.tree }
    }

    /// Returns the number of leaves of the tree, and the tree nodes of each interval.
    pub(crate) fn nodes(&self) -> (u32, &[Vec<Node>]) {
        (self.tree.atoms(), &self.nodes)
    }

    /// Creates sums in which each of `parts` micro-batches is one leaf of the tree.
    pub(crate) fn of_parts(parts: u32) -> Self {
        Self { nodes: (0..parts).map(|part| vec![Node::atom(part)]).collect(), tree: Tree::new(parts) }
    }
}
