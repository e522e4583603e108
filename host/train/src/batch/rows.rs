//! Batches of rows for models that need no neighbours during training: the training rows of each
//! round, and the division of a batch into micro-batches.
//!
//! Each pass over the training rows visits groups of consecutive rows in a random order that
//! depends on the seed and the pass. The rows of a batch are in ascending order. Micro-batches
//! without adjacency lists share the summation grid of their batch. Therefore their number does not
//! change any bit of a result. An atom is the smallest unit of this grid. Atoms of a small last
//! batch may have no row.

use eciton_graph::shuffle::Shuffle;
use eciton_recipe::Batch as Settings;
use eciton_tensor::Grid;
use eciton_tensor::random::{Key, Purpose};
use eciton_types::{Atoms, IntervalId, Node, Round, Tree};

use crate::data::{Inputs, grid};
use crate::error::{Error, Result};

/// Stream number of the random numbers that shuffle the rows.
const SHUFFLE: u32 = u32::MAX;

/// A micro-batch without adjacency lists: its rows, and its share of the batch's summation grid.
#[derive(Debug)]
pub(super) struct RowCut {
    /// Training rows of the micro-batch, in ascending order.
    pub rows: Vec<u32>,
    pub grid: Grid,
    pub nodes: Vec<Node>,
}

/// First rows of groups, in ascending order.
#[derive(Debug)]
enum Firsts {
    /// All rows below a number, for groups of one row.
    Below(u32),
    List(Vec<u32>),
}

impl Firsts {
    fn len(&self) -> u32 {
        match self {
            Self::Below(count) => *count,
            Self::List(list) => list.len() as u32,
        }
    }

    fn get(&self, at: u32) -> Option<u32> {
        match self {
            Self::Below(count) => Some(at).filter(|at| at < count),
            Self::List(list) => list.get(at as usize).copied(),
        }
    }
}

/// Division of the training rows into batches, and of each batch into micro-batches.
#[derive(Debug)]
pub(crate) struct RowBatches {
    /// First row of each group (consecutive rows that stay together) with a training row. In a data set
    /// of many graphs, the rows are those of graphs, and in link prediction the numbers of links.
    firsts: Firsts,
    /// Number of rows per group. All rows of a group are in the same micro-batch.
    group: u32,
    /// True if each pass visits the groups in another random order, and false if it visits them in
    /// ascending order.
    is_shuffled: bool,
    /// Maximum number of groups per batch. The last batch of a pass may have fewer.
    groups: u32,
    /// True if the last batch of a pass is left out if it has fewer groups.
    drop_last: bool,
    /// Number of micro-batches per batch, as requested by the settings.
    micro: u32,
    /// Number of atoms per batch. An atom is a block of rows, the smallest unit that can be divided
    /// between micro-batches.
    atoms: u32,
}

impl RowBatches {
    /// Divides the training rows of `inputs` into batches of the size that `settings` request.
    pub(crate) fn new(settings: &Settings, inputs: &Inputs) -> Self {
        let group = inputs.shape.group;
        let firsts = match &inputs.links {
            // Chooser::new refuses more links.
            Some(links) => Firsts::Below(u32::try_from(links.trained).unwrap_or(u32::MAX)),
            None => {
                let mut firsts: Vec<u32> =
                    inputs.learnt().1.train.iter().map(|row| row - row % group).collect();
                firsts.dedup();
                Firsts::List(firsts)
            }
        };
        let all = firsts.len();
        let groups = settings.rows.map_or(all, |rows| (rows / group).max(1)).min(all);
        let atoms = Atoms::count_of_batch(groups.saturating_mul(group), group);
        let (drop_last, micro) = (settings.drop_last, settings.micro);
        Self { firsts, group, is_shuffled: true, groups, drop_last, micro, atoms }
    }

    /// Divides `rows`, which ascend, into batches of consecutive rows, of the size that `settings`
    /// request.
    pub(crate) fn in_order(settings: &Settings, rows: Vec<u32>) -> Self {
        let groups = settings.rows.unwrap_or(u32::MAX).min(rows.len() as u32);
        let (firsts, micro) = (Firsts::List(rows), settings.micro);
        Self { firsts, group: 1, is_shuffled: false, groups, drop_last: false, micro, atoms: 0 }
    }

    /// Returns true if each pass visits the rows in another random order.
    pub(super) fn is_shuffled(&self) -> bool {
        self.is_shuffled
    }

    /// Returns the number of micro-batches per batch that the settings request.
    pub(super) fn micro(&self) -> u32 {
        self.micro.max(1)
    }

    /// Returns the number of batches in a pass over the rows.
    pub(crate) fn count(&self) -> u32 {
        self.firsts.len().div_ceil(self.groups.max(1))
    }

    /// Checks that a batch has enough atoms (blocks of rows) for the requested number of
    /// micro-batches.
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

    /// Returns the number of rows in a pass over the training rows. It counts all rows of each
    /// group that has a training row.
    pub(crate) fn rows(&self) -> u32 {
        self.firsts.len().saturating_mul(self.group)
    }

    /// Returns the number of micro-batches per batch, for micro-batches without adjacency lists. It
    /// is at most the number of atoms, because each micro-batch needs an atom.
    pub(crate) fn parts(&self) -> u32 {
        self.micro.min(self.atoms).max(1)
    }

    /// Returns the range of atoms that belong to micro-batch `part`, for micro-batches without
    /// adjacency lists.
    fn run(&self, part: u32) -> std::ops::Range<u32> {
        let cut = |part: u32| (u64::from(self.atoms) * u64::from(part) / u64::from(self.parts())) as u32;
        cut(part)..cut(part + 1)
    }

    /// Returns the nodes of the summation tree that each micro-batch computes, and the tree itself.
    /// This is for micro-batches without adjacency lists.
    pub(crate) fn sums(&self) -> (Vec<Vec<Node>>, Tree) {
        let tree = Tree::new(self.atoms);
        ((0..self.parts()).map(|part| tree.nodes(self.run(part))).collect(), tree)
    }

    /// Returns the maximum number of rows per micro-batch, for micro-batches without adjacency
    /// lists.
    pub(crate) fn capacity(&self) -> u32 {
        let runs = (0..self.parts()).map(|part| self.run(part).len() as u32);
        let widest = u64::from(runs.max().unwrap_or(0));
        // The groups of a run of atoms are proportional to its atoms, rounded by less than one
        // group.
        let groups = (u64::from(self.groups) * widest).div_ceil(u64::from(self.atoms.max(1)));
        (groups as u32).min(self.groups).saturating_mul(self.group)
    }

    /// Returns the shuffled order of all groups in the pass of `round`. Also returns the position
    /// of the round's first group in this order, and the number of its groups.
    fn batch(&self, seed: u64, round: Round) -> (Shuffle, u32, u32) {
        let all = self.firsts.len();
        let (pass, batch) = self.pass(round);
        let from = batch * self.groups;
        let shuffle = Shuffle::new(all, Key::new(seed, Purpose::Sampling, pass, SHUFFLE, 0));
        (shuffle, from, self.groups.min(all.saturating_sub(from)))
    }

    /// Returns the pass over the training rows to which a round belongs, and the number of its batch in
    /// this pass. Both are counted from 0.
    pub(super) fn pass(&self, round: Round) -> (u32, u32) {
        let (all, groups) = (self.firsts.len(), self.groups.max(1));
        let rounds = if self.drop_last { all / groups } else { all.div_ceil(groups) }.max(1);
        let at = round.0.saturating_sub(1);
        (at / rounds, at % rounds)
    }

    /// Returns the training rows of micro-batch `number`, from which a sampler starts. They are in
    /// ascending order.
    pub(super) fn targets(&self, seed: u64, round: Round, number: IntervalId) -> Vec<u32> {
        let (shuffle, from, length) = self.batch(seed, round);
        let cut =
            |part: u32| from + (u64::from(length) * u64::from(part) / u64::from(self.micro.max(1))) as u32;
        let places = cut(number.0)..cut(number.0 + 1);
        self.sorted(shuffle, places)
    }

    /// Returns the first row of each group at the positions `places` of the shuffled order, in
    /// ascending order.
    fn sorted(&self, shuffle: Shuffle, places: std::ops::Range<u32>) -> Vec<u32> {
        let at = |place: u32| if self.is_shuffled { shuffle.at(place) } else { place };
        let first = |place: u32| self.firsts.get(at(place));
        let mut firsts: Vec<u32> = places.filter_map(first).collect();
        firsts.sort_unstable();
        firsts
    }

    /// Returns the rows and the summation grid of micro-batch `number` in `round`, for
    /// micro-batches without adjacency lists.
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
