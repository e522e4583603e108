//! Batches of rows: which training rows an update has, and where the batch is cut into parts.
//!
//! A pass over the training rows is in an order that a key decides, by groups of rows that stay together. Rows of
//! a batch ascend. Where parts have no lists, a batch has a grid of its own for its sums, which parts share: how
//! many parts there are changes no bit. Atoms of a small last batch may have no row.

use eciton_graph::shuffle::Shuffle;
use eciton_recipe::Batch as Settings;
use eciton_tensor::Grid;
use eciton_tensor::random::{Key, Purpose};
use eciton_types::{Atoms, IntervalId, Node, Round, Tree};

use crate::data::{Inputs, grid};
use crate::error::{Error, Result};

/// The stream of the shuffled order.
const SHUFFLE: u32 = u32::MAX;

/// A part of a batch.
#[derive(Debug)]
pub(super) struct RowCut {
    /// Ascending.
    pub rows: Vec<u32>,
    pub grid: Grid,
    pub nodes: Vec<Node>,
}

/// Batches of training rows.
#[derive(Debug)]
pub(crate) struct RowBatches {
    /// The first row of each group that has a training row, ascending.
    firsts: Vec<u32>,
    /// Rows of a group.
    group: u32,
    /// Groups of a batch, at most.
    groups: u32,
    /// Parts of a batch that are asked for.
    micro: u32,
    /// Atoms of a batch.
    atoms: u32,
}

impl RowBatches {
    pub(crate) fn new(settings: &Settings, inputs: &Inputs) -> Self {
        let group = inputs.shape.group;
        let mut firsts: Vec<u32> = inputs.dataset.split.train.iter().map(|row| row - row % group).collect();
        firsts.dedup();
        let all = firsts.len() as u32;
        let groups = settings.rows.map_or(all, |rows| (rows / group).max(1)).min(all);
        let atoms = Atoms::count_of_batch(groups.saturating_mul(group), group);
        Self { firsts, group, groups, micro: settings.micro, atoms }
    }

    /// Checks that a batch has as many parts as are asked for.
    ///
    /// # Errors
    /// [`Error::Parts`].
    pub(crate) fn check(&self) -> Result<()> {
        let (parts, most, rows) = (self.micro, self.parts(), self.groups.saturating_mul(self.group));
        if parts <= most {
            return Ok(());
        }
        Err(Error::Parts { parts, most, rows })
    }

    /// Rows of a pass: those of all groups that have a training row.
    pub(crate) fn rows(&self) -> u32 {
        (self.firsts.len() as u32).saturating_mul(self.group)
    }

    /// Parts without lists: no more than there are atoms, of which each has one at least.
    pub(crate) fn parts(&self) -> u32 {
        self.micro.min(self.atoms).max(1)
    }

    /// The atoms of a part without lists.
    fn run(&self, part: u32) -> std::ops::Range<u32> {
        let cut = |part: u32| (u64::from(self.atoms) * u64::from(part) / u64::from(self.parts())) as u32;
        cut(part)..cut(part + 1)
    }

    /// The sums of each part without lists, and the tree over them.
    pub(crate) fn sums(&self) -> (Vec<Vec<Node>>, Tree) {
        let tree = Tree::new(self.atoms);
        ((0..self.parts()).map(|part| tree.nodes(self.run(part))).collect(), tree)
    }

    /// Most rows of a part without lists.
    pub(crate) fn capacity(&self) -> u32 {
        let runs = (0..self.parts()).map(|part| self.run(part).len() as u32);
        let widest = u64::from(runs.max().unwrap_or(0));
        // A run's groups are its share of all, but for less than one.
        let groups = (u64::from(self.groups) * widest).div_ceil(u64::from(self.atoms.max(1)));
        (groups as u32).min(self.groups).saturating_mul(self.group)
    }

    /// The first rows of a round's groups, ascending from each of `cuts` to the next: places of the batch, of so many.
    fn batch(&self, seed: u64, round: Round) -> (Shuffle, u32, u32) {
        let all = self.firsts.len() as u32;
        let rounds = all.div_ceil(self.groups.max(1)).max(1);
        let at = round.0.saturating_sub(1);
        let (pass, batch) = (at / rounds, at % rounds);
        let from = batch * self.groups;
        let shuffle = Shuffle::new(all, Key::new(seed, Purpose::Sampling, pass, SHUFFLE, 0));
        (shuffle, from, self.groups.min(all.saturating_sub(from)))
    }

    /// The training rows that a sampler starts from in a part, ascending.
    pub(super) fn targets(&self, seed: u64, round: Round, number: IntervalId) -> Vec<u32> {
        let (shuffle, from, length) = self.batch(seed, round);
        let cut =
            |part: u32| from + (u64::from(length) * u64::from(part) / u64::from(self.micro.max(1))) as u32;
        let places = cut(number.0)..cut(number.0 + 1);
        self.sorted(shuffle, places)
    }

    fn sorted(&self, shuffle: Shuffle, places: std::ops::Range<u32>) -> Vec<u32> {
        let first = |place: u32| self.firsts.get(shuffle.at(place) as usize).copied();
        let mut firsts: Vec<u32> = places.filter_map(first).collect();
        firsts.sort_unstable();
        firsts
    }

    /// A part without lists.
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
