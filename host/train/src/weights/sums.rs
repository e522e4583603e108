//! Partial sums of a round: nodes of the summation tree, by interval.

use eciton_recipe::Lanes;
use eciton_types::{Node, Tree};

use crate::data::Interval;

/// Partial sums of a round, and the tree that adds them up.
#[derive(Debug)]
pub(crate) struct Sums {
    /// Nodes of the tree that each interval covers.
    pub(super) nodes: Vec<Vec<Node>>,
    pub(super) tree: Tree,
}

impl Sums {
    /// Returns the number of nodes of each interval.
    pub(crate) fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.nodes.iter().map(|nodes| nodes.len() as u64)
    }

    /// Returns how many buffers of each use of a parameter a round holds at most, and how many more
    /// of the use with the most values. `steps` is the maximum number of steps in flight. If
    /// `None`, all intervals are in flight at once.
    pub(crate) fn buffers(&self, steps: Option<u64>) -> [u64; 2] {
        let parts: u64 = self.counts().sum();
        if parts <= 1 {
            return [parts, 0];
        }
        let levels = self.levels_above();
        match steps {
            // A late step delays the sums of later steps.
            Some(steps) => {
                let nodes = self.counts().max().unwrap_or(0);
                let waiting = (steps.saturating_sub(1) * nodes).min(parts - 1);
                [levels + waiting, (steps * nodes).min(parts)]
            }
            None => [levels + parts, 0],
        }
    }

    /// Creates the sums of the intervals that all rows are cut into.
    pub(crate) fn of_intervals(intervals: &[Interval], tree: Tree) -> Self {
        Self { nodes: intervals.iter().map(|interval| interval.nodes.clone()).collect(), tree }
    }

    /// Creates the sums of the micro-batches of a batch, in the tree over the atoms of the batch.
    pub(crate) fn of_runs((nodes, tree): (Vec<Vec<Node>>, Tree)) -> Self {
        Self { nodes, tree }
    }

    /// Returns the nodes that each replica of a pipeline sums: the largest ones that its intervals
    /// cover.
    pub(crate) fn tops(&self, lanes: &Lanes) -> Vec<Vec<Node>> {
        // At most as many as there may be intervals.
        let intervals = self.nodes.len() as u32;
        let of = |replica| {
            let run = lanes.run(replica, intervals);
            let nodes = self.nodes.get(run.start as usize..run.end as usize).unwrap_or_default();
            let spans = nodes.iter().flatten().map(|node| self.tree.span(*node));
            let atoms = spans.reduce(|all, span| all.start.min(span.start)..all.end.max(span.end));
            self.tree.nodes(atoms.unwrap_or(0..0))
        };
        (0..lanes.width.max(1)).map(of).collect()
    }

    /// Returns the number of partial sums that a location with all parts holds at once, if parts
    /// arrive in order.
    pub(crate) fn levels(&self) -> u64 {
        self.levels_above().max(1)
    }

    /// Returns the number of sums that a product over an interval has at once: one for each level
    /// of its highest node, and one for the atom.
    pub(crate) fn in_products(&self) -> u64 {
        1 + self.nodes.iter().flatten().map(|node| u64::from(node.level)).max().unwrap_or(0)
    }

    /// Returns the number of tree levels above the lowest part.
    fn levels_above(&self) -> u64 {
        let lowest = self.nodes.iter().flatten().map(|node| node.level).min().unwrap_or(0);
        u64::from(self.tree.root().level.saturating_sub(lowest))
    }

    /// Returns the sums of replicas, as parts of the whole.
    pub(crate) fn of_replicas(&self, lanes: &Lanes) -> Self {
        Self { nodes: self.tops(lanes), tree: self.tree }
    }

    /// Returns the number of leaves of the tree and the nodes of the intervals.
    pub(crate) fn nodes(&self) -> (u32, &[Vec<Node>]) {
        (self.tree.atoms(), &self.nodes)
    }

    /// Creates sums with one node for each micro-batch of a batch.
    pub(crate) fn of_parts(parts: u32) -> Self {
        Self { nodes: (0..parts).map(|part| vec![Node::atom(part)]).collect(), tree: Tree::new(parts) }
    }
}
