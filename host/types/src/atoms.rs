//! Atoms, which are runs of consecutive rows. Sums over rows are computed atom by atom in a fixed
//! order.
//! The sum of floating-point numbers depends on the order of the additions. Therefore the rows of a
//! graph are divided into [`Atoms`] (consecutive rows of about equal work), and the division
//! depends on the graph alone. Sums over rows follow a fixed tree over the atoms ([`Tree`]).
//!
//! An interval is a range of consecutive atoms that is scheduled as one unit ([`Intervals`]). The
//! process that computes an interval returns the sums of the largest tree nodes within it
//! ([`Atoms::nodes`]). [`crate::Combine`] adds these sums up. The additions are the same for every
//! number of intervals.

use crate::error::{Error, Result};
use crate::ids::IntervalId;
use std::ops::Range;

/// Maximum number of children per node of the summation tree ([`Tree`]).
pub const FAN_OUT: u32 = 8;
/// Maximum number of atoms per graph. An atom is a run of consecutive rows that is summed as one
/// unit.
pub const MAX_ATOMS: u32 = 256;
/// Minimum number of rows per atom in graphs of at most [`FEW_ATOMS`] atoms. An atom is a run of
/// consecutive rows that is summed as one unit.
pub const ROWS_PER_ATOM: u32 = 32;
/// Number of atoms up to which [`ROWS_PER_ATOM`] rows per atom suffice. A graph has more atoms only
/// if each atom has at least [`ROWS_PER_LATER_ATOM`] rows.
pub const FEW_ATOMS: u32 = 64;
/// Minimum number of rows per atom in graphs of more than [`FEW_ATOMS`] atoms. Each atom may need
/// its own partial sum of every weight gradient, so additional atoms must be large.
pub const ROWS_PER_LATER_ATOM: u32 = 1024;
/// Maximum number of atoms per mini-batch of tabular rows. 512 atoms fill three levels of the
/// summation tree. A micro-batch has at least one atom, so this is also the maximum number of
/// micro-batches per update.
pub const MAX_BATCH_ATOMS: u32 = 512;
/// Minimum number of rows per atom of a mini-batch. A micro-batch consists of whole atoms, so it
/// has at least this number of rows too.
pub const ROWS_PER_BATCH_ATOM: u32 = 8;
/// Amount of work below which a graph is trained as a single interval by default. Work is the
/// number of edges and stored features, plus [`ROW_WORK`] per row.
pub const SMALL_WORK: u64 = 200_000;
/// Work of the matrix products of one row, expressed as a number of edges. It matters for small
/// graphs only, because edges dominate the work of large graphs.
pub const ROW_WORK: u64 = 8;
/// Rules for the default number of intervals, as pairs of (maximum number, work per interval). Each
/// rule divides the graph's work by its work per interval, up to its maximum. The largest result is
/// used.
///
/// Work is the number of rows, edges and stored features. A few intervals let threads balance a
/// load that the work does not predict. More intervals are worthwhile only if each is large,
/// because a large gather reuses each block of source rows more often.
pub const INTERVAL_WORK: [(u64, u64); 3] = [(8, 300_000), (16, 2_000_000), (FEW_ATOMS as u64, 16_000_000)];

/// Node of the summation tree. The nodes of level 0 are the atoms. A node of level `l + 1` is the
/// sum of up to [`FAN_OUT`] nodes of level `l`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    /// Level of the node in the tree. Atoms have level 0.
    pub level: u8,
    /// Index of the node among the nodes of its level, from left to right.
    pub index: u32,
}

impl Node {
    /// Returns the leaf (level 0) of the atom with this index.
    #[must_use]
    pub const fn atom(index: u32) -> Self {
        Self { level: 0, index }
    }
}

/// Shape of the summation tree over a number of atoms. The tree fixes which partial sums are added
/// in which order. It stores no sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    atoms: u32,
}

impl Tree {
    /// Creates the tree over `atoms` atoms. If `atoms` is 0, the tree has one atom.
    #[must_use]
    pub const fn new(atoms: u32) -> Self {
        Self { atoms: if atoms == 0 { 1 } else { atoms } }
    }

    /// Returns the number of atoms, which are the leaves of the tree.
    #[must_use]
    pub const fn atoms(self) -> u32 {
        self.atoms
    }

    /// Returns the number of tree nodes at a level.
    #[must_use]
    pub fn width(self, level: u8) -> u32 {
        (0..level).fold(self.atoms, |width, _| width.div_ceil(FAN_OUT))
    }

    /// Returns the root, which is the node over all atoms. Its level is 0 for one atom, 1 for up to
    /// 8 atoms, 2 for up to 64, and 3 for up to 512.
    #[must_use]
    pub fn root(self) -> Node {
        let mut level = 0;
        while self.width(level) > 1 {
            level += 1;
        }
        Node { level, index: 0 }
    }

    /// Returns the atoms below a node. The range is empty if the tree has no such node.
    #[must_use]
    pub fn span(self, node: Node) -> Range<u32> {
        let wide = u64::from(FAN_OUT).saturating_pow(u32::from(node.level));
        let end = |index: u64| {
            u32::try_from(index.saturating_mul(wide)).map_or(self.atoms, |end| end.min(self.atoms))
        };
        end(u64::from(node.index))..end(u64::from(node.index) + 1)
    }

    /// Returns the children of a node, from left to right. An atom has no children.
    pub fn children(self, node: Node) -> impl Iterator<Item = Node> {
        let below = node.level.checked_sub(1);
        let first = node.index.saturating_mul(FAN_OUT);
        let width = below.map_or(0, |level| self.width(level));
        (first..first.saturating_add(FAN_OUT).min(width))
            .map(move |index| Node { level: below.unwrap_or(0), index })
    }

    /// Returns the largest tree nodes that together cover a range of atoms exactly, from left to
    /// right. Atoms past the end of the tree are ignored.
    #[must_use]
    pub fn nodes(self, run: Range<u32>) -> Vec<Node> {
        let run = run.start..run.end.min(self.atoms);
        let top = self.root().level;
        let mut nodes = Vec::new();
        let mut at = run.start;
        while at < run.end {
            let mut best = Node::atom(at);
            for level in 1..=top {
                let wide = FAN_OUT.saturating_pow(u32::from(level));
                let node = Node { level, index: at / wide };
                let span = self.span(node);
                if span.start != at || span.end > run.end {
                    break;
                }
                best = node;
            }
            at = self.span(best).end;
            nodes.push(best);
        }
        nodes
    }
}

/// Division of a graph's rows into atoms: runs of consecutive rows with about equal work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Atoms {
    /// First row of each atom, followed by the total number of rows. The list is therefore one
    /// element longer than the number of atoms.
    starts: Vec<u32>,
    /// Cumulative work before each atom, followed by the total work. The list is therefore one
    /// element longer than the number of atoms.
    work: Vec<u64>,
}

impl Atoms {
    /// Returns the number of atoms of a graph with `rows` rows, which is the larger of two powers
    /// of two. The first is the largest power up to `rows / 32`, between 1 and 64. The second is
    /// the largest power up to `rows / 1024`, at most 256. For instance, Cora with 2,708 rows has
    /// 64 atoms, and a graph of 131,072 rows has 128.
    #[must_use]
    pub fn count_for(rows: u32) -> u32 {
        let few = (rows / ROWS_PER_ATOM).clamp(1, FEW_ATOMS);
        let many = (rows / ROWS_PER_LATER_ATOM).min(MAX_ATOMS);
        1 << few.max(many).ilog2()
    }

    /// Divides the rows of a graph into atoms of about equal work. The work of a row is its number
    /// of edges plus one. `offsets` are the row offsets of the graph's compressed sparse rows,
    /// which are `rows + 1` ascending values. Each atom has at least one row.
    ///
    /// # Errors
    /// Returns [`Error::Rows`] if there is no row, if there are 2^32 rows or more, or if `offsets`
    /// do not ascend.
    pub fn new(offsets: &[u64]) -> Result<Self> {
        Self::of_groups(offsets, 1)
    }

    /// Divides rows into atoms like [`Atoms::new`], but never separates the rows of a group.
    /// Groups, for instance sequences, are `group` consecutive rows. Each atom has at least one
    /// group.
    ///
    /// # Errors
    /// Returns [`Error::Rows`] if the number of rows is not a multiple of `group`, and in the cases
    /// of [`Atoms::new`].
    pub fn of_groups(offsets: &[u64], group: u32) -> Result<Self> {
        let rows = offsets.len().saturating_sub(1);
        let count_rows = u32::try_from(rows).ok().filter(|&rows| rows > 0 && rows < u32::MAX);
        let Some(row_count) = count_rows else {
            return Err(Error::Rows {
                found: format!("{rows} rows"),
                allowed: "1 to 2^32 - 2 rows (row offsets hold one value more)".to_owned(),
            });
        };
        if let Some(row) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(Error::Rows {
                found: format!(
                    "row offsets that decrease from {} to {} at row {row}",
                    offsets[row],
                    offsets[row + 1]
                ),
                allowed: "row offsets that ascend".to_owned(),
            });
        }
        let group = group.max(1);
        if !row_count.is_multiple_of(group) {
            return Err(Error::Rows {
                found: format!("{row_count} rows"),
                allowed: format!("whole sequences of {group} rows"),
            });
        }
        let groups = row_count / group;
        // From here on the unit is a group.
        let work_before = |at: u32| {
            let row = at * group;
            (offsets[row as usize] - offsets[0]).saturating_add(u64::from(row))
        };
        let total = work_before(groups);
        let count = Self::count_of(row_count, group);
        let mut starts = Vec::with_capacity(count as usize + 1);
        starts.push(0);
        for atom in 1..count {
            let target = share(total, atom, count);
            let last = starts[atom as usize - 1];
            // This atom and each later one need at least one group.
            let (mut low, mut high) = (last + 1, groups - (count - atom));
            while low < high {
                let middle = low + (high - low) / 2;
                if work_before(middle) < target {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            starts.push(low);
        }
        starts.push(groups);
        let work = starts.iter().map(|&at| work_before(at)).collect();
        starts.iter_mut().for_each(|at| *at *= group);
        Ok(Self { starts, work })
    }

    /// Divides the rows of a mini-batch into `count` atoms with about equal numbers of groups. The
    /// batch has `groups` groups of `group` consecutive rows. With fewer groups than atoms, some
    /// atoms have no row, so batches of all sizes have the same summation tree.
    #[must_use]
    pub fn even(count: u32, groups: u32, group: u32) -> Self {
        let start =
            |atom: u32| (u64::from(groups) * u64::from(atom) / u64::from(count.max(1))) as u32 * group;
        let starts: Vec<u32> = (0..=count.max(1)).map(start).collect();
        let work = starts.iter().map(|&row| u64::from(row)).collect();
        Self { starts, work }
    }

    /// Returns the number of atoms for a mini-batch of `rows` rows. It is the largest power of two
    /// up to `rows / 8` ([`ROWS_PER_BATCH_ATOM`]), between 1 and [`MAX_BATCH_ATOMS`]. It never
    /// exceeds the number of groups of `group` rows, because atoms do not separate the rows of a
    /// group.
    #[must_use]
    pub fn count_of_batch(rows: u32, group: u32) -> u32 {
        let wanted = (rows / ROWS_PER_BATCH_ATOM).min(rows / group.max(1));
        1 << wanted.clamp(1, MAX_BATCH_ATOMS).ilog2()
    }

    /// Returns the number of atoms for `rows` rows in groups of `group` rows, which is
    /// [`Atoms::count_for`] limited to the number of groups.
    #[must_use]
    fn count_of(rows: u32, group: u32) -> u32 {
        let groups = (rows / group.max(1)).max(1);
        Self::count_for(rows).min(1 << groups.ilog2())
    }

    /// Returns the number of atoms into which the rows are divided.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.tree().atoms()
    }

    /// Returns the total number of rows of all atoms.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Returns the total work of all atoms, which is the number of rows plus the number of edges.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.work.last().copied().unwrap_or(0)
    }

    /// Returns the first row of each atom, followed by the total number of rows.
    #[must_use]
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// Returns the summation tree over these atoms.
    #[must_use]
    pub fn tree(&self) -> Tree {
        // At most MAX_ATOMS.
        Tree::new(u32::try_from(self.starts.len() - 1).unwrap_or(MAX_ATOMS))
    }

    /// Returns the rows of a range of atoms. Atoms past the last one have no rows.
    #[must_use]
    pub fn row_range(&self, run: Range<u32>) -> Range<u32> {
        let row = |atom: u32| self.starts.get(atom as usize).copied().unwrap_or(self.rows());
        row(run.start)..row(run.end)
    }

    /// Returns the tree nodes that an interval of these atoms sums ([`Tree::nodes`]). `run` is the
    /// range of the interval's atoms.
    #[must_use]
    pub fn nodes(&self, run: Range<u32>) -> Vec<Node> {
        self.tree().nodes(run)
    }
}

/// Division of a graph's atoms into intervals of about equal work. An interval is a range of
/// consecutive atoms that is scheduled as one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// First atom of each interval, followed by the total number of atoms.
    atoms: Vec<u32>,
    /// First row of each interval, followed by the total number of rows.
    rows: Vec<u32>,
}

impl Intervals {
    /// Divides `atoms` into `count` intervals of about equal work. Each interval has at least one
    /// atom.
    ///
    /// # Errors
    /// Returns [`Error::IntervalCount`] if `count` is 0 or more than the number of atoms.
    pub fn new(atoms: &Atoms, count: u32) -> Result<Self> {
        let most = atoms.count();
        if count == 0 || count > most {
            return Err(Error::IntervalCount { found: count, most, rows: atoms.rows() });
        }
        let mut starts = Vec::with_capacity(count as usize + 1);
        starts.push(0u32);
        for interval in 1..count {
            let target = share(atoms.work(), interval, count);
            let (low, high) = (starts[interval as usize - 1] + 1, most - (count - interval));
            // The boundary between atoms that is nearest to the target.
            let over = (low..high).find(|&atom| atoms.work[atom as usize] >= target).unwrap_or(high);
            let distance = |atom: u32| atoms.work[atom as usize].abs_diff(target);
            let nearest = if over > low && distance(over - 1) <= distance(over) { over - 1 } else { over };
            starts.push(nearest);
        }
        starts.push(most);
        let rows = starts.iter().map(|&atom| atoms.starts[atom as usize]).collect();
        Ok(Self { atoms: starts, rows })
    }

    /// Returns the default number of intervals for a graph with `features` stored features. Small
    /// graphs (below [`SMALL_WORK`]) have one interval. Otherwise the number follows
    /// [`INTERVAL_WORK`], and is a power of two from 2 to the number of atoms. It does not depend
    /// on the number of threads or workers.
    #[must_use]
    pub fn default_count(atoms: &Atoms, features: u64) -> u32 {
        let work = atoms.work().saturating_add(features);
        if work.saturating_add((ROW_WORK - 1) * u64::from(atoms.rows())) < SMALL_WORK {
            return 1;
        }
        let wanted = INTERVAL_WORK.iter().map(|&(most, each)| work.div_ceil(each).min(most)).max();
        let wanted = wanted.unwrap_or(1).next_power_of_two().max(2);
        u32::try_from(wanted).unwrap_or(MAX_ATOMS).min(atoms.count())
    }

    /// Returns the number of intervals.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.atoms.len() - 1).unwrap_or(MAX_ATOMS)
    }

    /// Returns the atoms of an interval. The range is empty if the interval does not exist.
    #[must_use]
    pub fn atoms(&self, interval: IntervalId) -> Range<u32> {
        range(&self.atoms, interval)
    }

    /// Returns the rows of an interval. The range is empty if the interval does not exist.
    #[must_use]
    pub fn rows(&self, interval: IntervalId) -> Range<u32> {
        range(&self.rows, interval)
    }

    /// Returns the ids of all intervals, in order.
    pub fn ids(&self) -> impl Iterator<Item = IntervalId> + use<> {
        (0..self.count()).map(IntervalId)
    }
}

fn range(starts: &[u32], interval: IntervalId) -> Range<u32> {
    let at = interval.index();
    match (starts.get(at), starts.get(at.saturating_add(1))) {
        (Some(&start), Some(&end)) => start..end,
        _ => 0..0,
    }
}

/// Returns `total * part / parts`, computed without overflow.
fn share(total: u64, part: u32, parts: u32) -> u64 {
    let share = u128::from(total) * u128::from(part) / u128::from(parts.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_gather::random::SplitMix64;

    fn random_offsets(random: &mut SplitMix64, rows: u32) -> Vec<u64> {
        let mut at = 0;
        let heavy = u64::from(random.below(3) == 0) * 500;
        let mut offsets = vec![0];
        for _ in 0..rows {
            at += random.below(8) + if random.below(50) == 0 { heavy } else { 0 };
            offsets.push(at);
        }
        offsets
    }

    #[test]
    fn count_depends_on_rows_alone() {
        let counts = [
            (1, 1),
            (31, 1),
            (63, 1),
            (64, 2),
            (127, 2),
            (128, 4),
            (1023, 16),
            (1024, 32),
            (2047, 32),
            (2048, 64),
            (2708, 64),
            (131_071, 64),
            (131_072, 128),
            (262_143, 128),
            (262_144, 256),
            (u32::MAX - 1, 256),
        ];
        for (rows, atoms) in counts {
            assert_eq!(Atoms::count_for(rows), atoms, "{rows} rows");
        }
    }

    #[test]
    fn atoms_and_intervals_cover_all_rows_once_and_are_never_empty() {
        for seed in 0..200 {
            let random = &mut SplitMix64::new(seed);
            let rows = 1 + random.below(4000) as u32;
            let atoms = Atoms::new(&random_offsets(random, rows)).unwrap();
            assert_eq!(atoms.count(), Atoms::count_for(rows), "seed {seed}");
            assert!(atoms.starts().windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}");
            assert_eq!((atoms.starts()[0], atoms.rows()), (0, rows), "seed {seed}");
            for count in 1..=atoms.count() {
                let intervals = Intervals::new(&atoms, count).unwrap();
                assert_eq!(intervals.count(), count);
                let mut next = 0;
                for interval in intervals.ids() {
                    let rows = intervals.rows(interval);
                    assert_eq!(rows, atoms.row_range(intervals.atoms(interval)));
                    assert!(rows.start == next && rows.end > next, "seed {seed} count {count}");
                    next = rows.end;
                }
                assert_eq!(next, rows, "seed {seed} count {count}");
            }
        }
    }

    #[test]
    fn even_rows_give_even_atoms_and_one_hub_stays_alone() {
        let even: Vec<u64> = (0..=2048).map(|row| row * 3).collect();
        let atoms = Atoms::new(&even).unwrap();
        assert!(atoms.starts().windows(2).all(|pair| pair[1] - pair[0] == 32));
        let four = Intervals::new(&atoms, 4).unwrap();
        assert_eq!(four.rows(IntervalId(1)), 512..1024);
        assert_eq!(four.rows(IntervalId(4)), 0..0);

        let mut hub = vec![0u64, 1_000_000];
        hub.extend((1..64).map(|row| 1_000_000 + row));
        let atoms = Atoms::new(&hub).unwrap();
        assert_eq!(atoms.starts(), [0, 1, 64]);
    }

    #[test]
    fn large_graphs_have_256_intervals_and_no_more() {
        let even: Vec<u64> = (0..=262_144).map(|row| row * 2).collect();
        let atoms = Atoms::new(&even).unwrap();
        assert!(atoms.starts().windows(2).all(|pair| pair[1] - pair[0] == 1024));
        assert_eq!(atoms.tree().root(), Node { level: 3, index: 0 });
        assert_eq!(Intervals::new(&atoms, 256).unwrap().rows(IntervalId(255)), 261_120..262_144);
        assert!(matches!(Intervals::new(&atoms, 257), Err(Error::IntervalCount { most: 256, .. })));
        // As many by default as before there were so many atoms, each of whole groups.
        let all = Intervals::new(&atoms, Intervals::default_count(&atoms, 1 << 40)).unwrap();
        assert_eq!(all.count(), 64);
        let sums = |count| {
            let cut = Intervals::new(&atoms, count).unwrap();
            cut.ids().map(|id| atoms.nodes(cut.atoms(id)).len()).sum::<usize>()
        };
        assert_eq!([1, 4, 16, 32, 64, 256].map(sums), [1, 4, 32, 32, 256, 256]);
    }

    #[test]
    fn groups_stay_whole() {
        for seed in 0..200 {
            let random = &mut SplitMix64::new(seed);
            let (groups, group) = (1 + random.below(200) as u32, 1 + random.below(40) as u32);
            let atoms = Atoms::of_groups(&random_offsets(random, groups * group), group).unwrap();
            assert_eq!(atoms.count(), Atoms::count_of(groups * group, group), "seed {seed}");
            assert!(atoms.starts().iter().all(|start| start.is_multiple_of(group)), "seed {seed}");
            assert!(atoms.starts().windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}");
            let even = Atoms::even(16, groups, group);
            assert_eq!((even.count(), even.rows()), (16, groups * group), "seed {seed}");
            assert!(even.starts().windows(2).all(|pair| pair[0] <= pair[1]), "seed {seed}");
            assert!(even.starts().iter().all(|start| start.is_multiple_of(group)), "seed {seed}");
        }
        let error = Atoms::of_groups(&[0; 8], 3).unwrap_err().to_string();
        assert!(error.contains("whole sequences of 3 rows"), "{error}");
        assert_eq!(
            [(2048, 64), (64, 1), (512, 1), (64, 64), (15, 1), (10_000, 1)]
                .map(|(r, g)| Atoms::count_of_batch(r, g)),
            [32, 8, 64, 1, 1, 512]
        );
    }

    #[test]
    fn wrong_offsets_and_counts_are_refused() {
        assert!(matches!(Atoms::new(&[]), Err(Error::Rows { .. })));
        assert!(matches!(Atoms::new(&[0]), Err(Error::Rows { .. })));
        let error = Atoms::new(&[0, 5, 3]).unwrap_err().to_string();
        assert!(error.contains("from 5 to 3 at row 1"), "{error}");
        let atoms = Atoms::new(&vec![0; 129]).unwrap();
        let error = Intervals::new(&atoms, 5).unwrap_err().to_string();
        assert!(error.contains('5') && error.contains('4'), "{error}");
        assert!(Intervals::new(&atoms, 0).is_err());
    }

    #[test]
    fn default_count_grows_with_work() {
        let with_work = |rows: u32, degree: u64| {
            let offsets: Vec<u64> = (0..=u64::from(rows)).map(|row| row * degree).collect();
            Intervals::default_count(&Atoms::new(&offsets).unwrap(), 0)
        };
        assert_eq!(with_work(2708, 5), 1);
        assert_eq!(with_work(14_000, 5), 1);
        assert_eq!(with_work(16_000, 5), 2);
        assert_eq!(with_work(20_000, 9), 2);
        assert_eq!(with_work(23_000, 490), 8);
        assert_eq!(with_work(100_000, 10_000), 64);
        assert_eq!(with_work(64, 10_000), 2);
        assert_eq!(with_work(63, 10_000), 1);
    }

    #[test]
    fn nodes_are_the_largest_complete_ones() {
        let tree = Tree::new(64);
        let node = |level, index| Node { level, index };
        assert_eq!(tree.nodes(0..64), [node(2, 0)]);
        assert_eq!(tree.nodes(0..32), [node(1, 0), node(1, 1), node(1, 2), node(1, 3)]);
        assert_eq!(tree.nodes(6..17), [node(0, 6), node(0, 7), node(1, 1), node(0, 16)]);
        assert_eq!(tree.nodes(60..99), [node(0, 60), node(0, 61), node(0, 62), node(0, 63)]);
        assert_eq!(Tree::new(1).nodes(0..1), [node(0, 0)]);
        assert_eq!(Tree::new(8).nodes(0..8), [node(1, 0)]);
        assert_eq!(Tree::new(4).root(), node(1, 0));
        assert_eq!(Tree::new(16).root(), node(2, 0));
        assert_eq!(Tree::new(16).nodes(8..16), [node(1, 1)]);
        assert_eq!(Tree::new(4).children(node(1, 0)).count(), 4);
        assert_eq!(tree.children(node(0, 5)).count(), 0);
    }
}
