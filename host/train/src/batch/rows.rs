//! Batches of rows: the training rows of each round, and the cut of a batch into micro-batches
//! ("parts").
//!
//! Each pass over the training rows visits groups of rows that stay together, in a random order
//! that depends on seed and pass. The rows of a batch ascend. If micro-batches have no adjacency
//! lists, all of a batch share one summation grid. Then the number of micro-batches changes no bit
//! of a result. Atoms (smallest units of a cut) of a small last batch may have no row.

use eciton_graph::shuffle::Shuffle;
use eciton_recipe::Batch as Settings;
use eciton_tensor::Grid;
use eciton_tensor::random::{Key, Purpose};
use eciton_types::{Atoms, IntervalId, Node, Round, Tree};

use crate::data::{Inputs, grid};
use crate::error::{Error, Result};

/// Random-number stream of the shuffled order of rows.
const SHUFFLE: u32 = u32::MAX;

/// Micro-batch of a batch without adjacency lists: its rows, and their share of the batch's
/// summation grid.
#[derive(Debug)]
pub(super) struct RowCut {
    /// Training rows, in ascending order.
    pub rows: Vec<u32>,
    pub grid: Grid,
    pub nodes: Vec<Node>,
}

/// Cut of the training rows into batches, and of each batch into micro-batches ("parts").
#[derive(Debug)]
pub(crate) struct RowBatches {
    /// First row of each group that has a training row, in ascending order.
    firsts: Vec<u32>,
    /// Number of rows in a group. Rows of a group are always in the same micro-batch.
    group: u32,
    /// Maximum number of groups in a batch. The last batch of a pass may have fewer.
    groups: u32,
    /// Number of micro-batches per batch that the settings request.
    micro: u32,
    /// Number of atoms (smallest units of a cut) in a batch.
    atoms: u32,
}

impl RowBatches {
    /// Creates the cut of the training rows of `inputs` into batches that the settings request.
    pub(crate) fn new(settings: &Settings, inputs: &Inputs) -> Self {
        let group = inputs.shape.group;
        let mut firsts: Vec<u32> = inputs.dataset.split.train.iter().map(|row| row - row % group).collect();
        firsts.dedup();
        let all = firsts.len() as u32;
        let groups = settings.rows.map_or(all, |rows| (rows / group).max(1)).min(all);
        let atoms = Atoms::count_of_batch(groups.saturating_mul(group), group);
        Self { firsts, group, groups, micro: settings.micro, atoms }
    }

    /// Checks that a batch can be cut into the requested number of micro-batches.
    ///
    /// # Errors
    /// Returns [`Error::Parts`] if a batch has fewer atoms than requested micro-batches.
    pub(crate) fn check(&self) -> Result<()> {
        let (parts, most, rows) = (self.micro, self.parts(), self.groups.saturating_mul(self.group));
        if parts <= most {
            return Ok(());
        }
        Err(Error::Parts { parts, most, rows })
    }

    /// Returns the number of rows in a pass over the training rows: all rows of the groups that
    /// have a training row.
    pub(crate) fn rows(&self) -> u32 {
        (self.firsts.len() as u32).saturating_mul(self.group)
    }

    /// Returns the number of micro-batches of a batch without adjacency lists. Each one has at
    /// least one atom, so there are no more of them than atoms.
    pub(crate) fn parts(&self) -> u32 {
        self.micro.min(self.atoms).max(1)
    }

    /// Returns the range of atoms of micro-batch `part` in a batch without adjacency lists.
    fn run(&self, part: u32) -> std::ops::Range<u32> {
        let cut = |part: u32| (u64::from(self.atoms) * u64::from(part) / u64::from(self.parts())) as u32;
        cut(part)..cut(part + 1)
    }

    /// Returns the nodes of the summation tree that each micro-batch without adjacency lists
    /// computes, and the tree that combines them.
    pub(crate) fn sums(&self) -> (Vec<Vec<Node>>, Tree) {
        let tree = Tree::new(self.atoms);
        ((0..self.parts()).map(|part| tree.nodes(self.run(part))).collect(), tree)
    }

    /// Returns the maximum number of rows in a micro-batch without adjacency lists.
    pub(crate) fn capacity(&self) -> u32 {
        let runs = (0..self.parts()).map(|part| self.run(part).len() as u32);
        let widest = u64::from(runs.max().unwrap_or(0));
        // The groups of a run of atoms are proportional to its atoms, rounded by less than one
        // group.
        let groups = (u64::from(self.groups) * widest).div_ceil(u64::from(self.atoms.max(1)));
        (groups as u32).min(self.groups).saturating_mul(self.group)
    }

    /// Returns the shuffled order of the groups in the pass of `round`. Also returns the position
    /// of the round's first group in this order, and the number of its groups.
    fn batch(&self, seed: u64, round: Round) -> (Shuffle, u32, u32) {
        let all = self.firsts.len() as u32;
        let rounds = all.div_ceil(self.groups.max(1)).max(1);
        let at = round.0.saturating_sub(1);
        let (pass, batch) = (at / rounds, at % rounds);
        let from = batch * self.groups;
        let shuffle = Shuffle::new(all, Key::new(seed, Purpose::Sampling, pass, SHUFFLE, 0));
        (shuffle, from, self.groups.min(all.saturating_sub(from)))
    }

    /// Returns the training rows from which a sampler starts micro-batch `number`, in ascending
    /// order.
    pub(super) fn targets(&self, seed: u64, round: Round, number: IntervalId) -> Vec<u32> {
        let (shuffle, from, length) = self.batch(seed, round);
        let cut =
            |part: u32| from + (u64::from(length) * u64::from(part) / u64::from(self.micro.max(1))) as u32;
        let places = cut(number.0)..cut(number.0 + 1);
        self.sorted(shuffle, places)
    }

    /// Returns the first rows of the groups at these positions of the shuffled order, sorted.
    fn sorted(&self, shuffle: Shuffle, places: std::ops::Range<u32>) -> Vec<u32> {
        let first = |place: u32| self.firsts.get(shuffle.at(place) as usize).copied();
        let mut firsts: Vec<u32> = places.filter_map(first).collect();
        firsts.sort_unstable();
        firsts
    }

    /// Returns micro-batch `number` of a round, without adjacency lists.
    pub(super) fn part(&self, seed: u64, round: Round, number: IntervalId) -> RowCut {
        let (shuffle, from, length) = self.batch(seed, round);
        let firsts = self.sorted(shuffle, from..from + length);
        let atoms = Atoms::even(self.atoms, length, self.group);
        let run = self.run(number.0);
        let nodes = atoms.nodes(run.clone());
        let range = atoms.row_range(run);
        let groups = (range.start / self.group) as usize..(range.end / self.group) as usize;
        let of = firsts.get(groups).unwrap_or_default();
        let rows = of.iter().flat_map(|&first| first..first + self.group).collect();
        RowCut { rows, grid: grid(&atoms, &nodes, range.start), nodes }
    }
}
