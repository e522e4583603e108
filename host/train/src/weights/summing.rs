//! Sums of gradients, which are added along the summation tree of a batch as partial sums arrive.
//! The host uses them, and so does each worker that adds up gradients.
//!
//! The *tops* are the nodes of the tree whose sums one process computes. A process that has all
//! partial sums has the root as its only top. The worker of a pipeline replica has the largest
//! nodes that its micro-batches cover. The process that owns a parameter then adds up the sums of
//! all tops.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use eciton_tensor::{Buffer, ReadRows, parallel};
use eciton_types::{Combine, IntervalId, Node, Sum, Tree};

/// Number of values of a sum that one thread adds at a time.
const PIECE: usize = 1 << 16;
/// Number of multiply-adds that take the time of one addition, whose values are read from memory.
const WORK: usize = 8;

/// Gradient sums of the rounds in flight, for each use of a parameter.
///
/// A weight that several layers share has one sum per use. All sums have the same tree.
#[derive(Debug)]
pub(crate) struct GradientSums {
    /// Index of each interval's first node among all nodes. The last element is the number of
    /// nodes.
    firsts: Vec<usize>,
    /// For each top, the sequence of additions, and the index of the first node below it among all
    /// nodes.
    tops: Vec<(Combine, usize)>,
    /// Sequence of additions over all tops. `None` if the tops do not cover the tree.
    root: Option<Combine>,
    /// Sums of the tops, keyed by round and use of a parameter.
    sums: BTreeMap<(u32, u32), Vec<Summing>>,
}

impl GradientSums {
    /// Creates empty sums for `tops`, from left to right. `nodes` has the tree nodes of each
    /// interval.
    ///
    /// # Errors
    /// Returns [`eciton_types::Error::Cover`] if the nodes do not cover each top exactly.
    pub(crate) fn new(tree: Tree, nodes: &[Vec<Node>], tops: &[Node]) -> Result<Self, eciton_types::Error> {
        let mut firsts = vec![0];
        for nodes in nodes {
            firsts.push(firsts.last().unwrap_or(&0) + nodes.len());
        }
        let mut left: Vec<Node> = nodes.iter().flatten().copied().collect();
        let (mut all, mut first) = (Vec::with_capacity(tops.len()), 0);
        for (at, &top) in tops.iter().enumerate() {
            // The last top gets all remaining nodes, so that its check finds superfluous nodes.
            let end = tree.span(top).end;
            let inside = |node: &&Node| at + 1 == tops.len() || tree.span(**node).end <= end;
            let rest = left.split_off(left.iter().take_while(inside).count());
            all.push((Combine::new(tree, &left, top)?, first));
            first += left.len();
            left = rest;
        }
        let root = Combine::new(tree, tops, tree.root()).ok();
        Ok(Self { firsts, tops: all, root, sums: BTreeMap::new() })
    }

    fn empty(&self) -> Vec<Summing> {
        self.tops.iter().map(|_| Summing::default()).collect()
    }

    /// Returns the indices of an interval's nodes among all nodes. Returns `None` if there is no
    /// such interval.
    pub(crate) fn nodes(&self, interval: IntervalId) -> Option<Range<usize>> {
        Some(*self.firsts.get(interval.index())?..*self.firsts.get(interval.index() + 1)?)
    }

    /// Adds the partial sums `parts` of an interval to the sum of a use. Returns the buffers that
    /// are no longer needed, because sums reuse some of them. Partial sums that arrived before are
    /// ignored, because a repeated step gives the same result.
    ///
    /// # Errors
    /// Returns a message if the interval is unknown, or if the number or length of the partial sums
    /// is wrong.
    pub(crate) fn add(
        &mut self,
        (round, number): (u32, u32),
        interval: IntervalId,
        parts: Vec<Buffer>,
    ) -> Result<Vec<Buffer>, String> {
        let nodes = self.nodes(interval).ok_or_else(|| format!("there is no interval {interval}"))?;
        if parts.len() != nodes.len() {
            return Err(format!("{} partial sums of interval {interval}, not {}", parts.len(), nodes.len()));
        }
        let empty = self.empty();
        let sums = self.sums.entry((round, number)).or_insert(empty);
        let mut added = Vec::new();
        for (index, part) in nodes.zip(parts) {
            let of = self.tops.partition_point(|(_, first)| *first <= index).saturating_sub(1);
            let top = self.tops.get(of).zip(sums.get_mut(of));
            let ((combine, first), sum) = top.ok_or_else(|| format!("partial sum {index} has no sum"))?;
            match sum.has(index - first, combine) {
                true => added.push(part),
                false => sum.put(index - first, part, combine, &mut added)?,
            }
        }
        Ok(added)
    }

    /// Sets the sum of a top to the value that another process has computed.
    ///
    /// # Errors
    /// Returns a message if the tree has no such top.
    pub(crate) fn insert(&mut self, of: (u32, u32), top: usize, whole: Buffer) -> Result<(), String> {
        let empty = self.empty();
        let sums = self.sums.entry(of).or_insert(empty);
        let found = self.tops.get(top).zip(sums.get_mut(top));
        let ((combine, _), sum) = found.ok_or_else(|| format!("there is no sum {top}"))?;
        *sum = Summing::made(whole, combine);
        Ok(())
    }

    /// Returns true if the sum of a top is complete. `of` has the round and the use.
    pub(crate) fn has(&self, of: (u32, u32), top: usize) -> bool {
        let sums = self.sums.get(&of).and_then(|sums| sums.get(top)).zip(self.tops.get(top));
        sums.is_some_and(|(sum, (combine, _))| sum.whole(combine).is_ok())
    }

    /// Returns the sum of a top. `of` has the round and the use.
    ///
    /// # Errors
    /// Returns a message if the sum is missing or incomplete.
    pub(crate) fn top(&self, of: (u32, u32), top: usize) -> Result<ReadRows, String> {
        let sums = self.sums.get(&of).and_then(|sums| sums.get(top)).zip(self.tops.get(top));
        let (sum, (combine, _)) = sums.ok_or_else(|| format!("no gradient {} has arrived", of.1))?;
        let whole = sum.whole(combine)?;
        whole.read(0..whole.rows()).map_err(said)
    }

    /// Calls `then` with the gradient of a parameter in `round`. It is the sum over all `uses` of
    /// the parameter, added in their order.
    ///
    /// # Errors
    /// Returns a message if a sum is missing or incomplete.
    pub(crate) fn whole<T>(
        &self,
        round: u32,
        uses: &[u32],
        then: impl FnOnce(&[f32]) -> T,
    ) -> Result<T, String> {
        let (own, further) = uses.split_first().ok_or("the parameter has no uses")?;
        let named = |reason| format!("parameter {own}: {reason}");
        if further.is_empty() && self.tops.len() == 1 {
            return Ok(then(self.top((round, *own), 0).map_err(named)?.view().data()));
        }
        let mut total = self.total((round, *own)).map_err(named)?;
        for of in further {
            let sum = self.total((round, *of)).map_err(named)?;
            total.iter_mut().zip(&sum).for_each(|(total, value)| *total += value);
        }
        Ok(then(&total))
    }

    /// Returns the gradient of one use, which is the sum over all tops.
    fn total(&self, of: (u32, u32)) -> Result<Vec<f32>, String> {
        let mut all = Vec::new();
        for top in 0..self.tops.len() {
            all.extend_from_slice(self.top(of, top)?.view().data());
        }
        let root = self.root.as_ref().ok_or("the sums do not cover the tree")?;
        let length = all.len() / self.tops.len().max(1);
        let mut scratch = vec![0.0; root.scratch_len(length)];
        Ok(root.sum(&all, length, &mut scratch).map_err(said)?.to_vec())
    }

    /// Removes the sums of all rounds up to and including `round`. Returns their buffers.
    pub(crate) fn forget_through(&mut self, round: u32) -> Vec<Buffer> {
        let over = self.sums.extract_if(..(round.saturating_add(1), 0), |_, _| true);
        over.flat_map(|(_, sums)| sums).flat_map(Summing::buffers).collect()
    }

    /// Returns the size in bytes of all sums, including partial sums that wait for earlier ones.
    pub(crate) fn bytes(&self) -> u64 {
        self.sums.values().flatten().map(Summing::bytes).sum()
    }
}

/// The sum of one top that is being computed, for one use of a parameter in one round. The result
/// has the same bits as [`Combine::sum`].
#[derive(Debug, Default)]
struct Summing {
    /// Number of additions of the sequence that are done.
    done: usize,
    /// Partial sums that must wait for earlier ones, by their index.
    waiting: BTreeMap<usize, Buffer>,
    /// Intermediate sums, by level of the tree.
    levels: BTreeMap<u8, Level>,
}

/// Intermediate sum of one tree level, which starts at 0.
#[derive(Debug)]
enum Level {
    /// No partial sum has been added yet.
    Started,
    /// A single partial sum. It must still be added to 0, which turns -0 into 0.
    One(Buffer),
    /// The sum of 0 and all partial sums so far.
    Sum(Buffer),
}

impl Level {
    /// Adds a partial sum, or the sum of the level below. The result reuses the buffer of the first
    /// partial sum. Returns the other buffer, which is no longer needed.
    fn add(self, part: Buffer) -> Result<(Self, Option<Buffer>), String> {
        let (sum, raw) = match self {
            Self::Started => return Ok((Self::One(part), None)),
            Self::One(sum) => (sum, true),
            Self::Sum(sum) => (sum, false),
        };
        {
            let part = part.read(0..part.rows()).map_err(said)?;
            let mut into = sum.write(0..sum.rows()).map_err(said)?;
            let (mut into, part) = (into.view_mut(), part.view());
            let (into, part) = (into.data_mut(), part.data());
            if into.len() != part.len() {
                return Err(format!("a partial sum has {} values, not {}", part.len(), into.len()));
            }
            let work = into.len() * WORK;
            let pieces = into.chunks_mut(PIECE).zip(part.chunks(PIECE)).map(Mutex::new);
            let pieces: Vec<_> = pieces.collect();
            parallel::for_each(pieces.len(), work, &|piece| {
                let (into, part) = &mut *pieces[piece].lock().unwrap_or_else(PoisonError::into_inner);
                match raw {
                    true => into.iter_mut().zip(*part).for_each(|(sum, value)| *sum = 0.0 + *sum + value),
                    false => into.iter_mut().zip(*part).for_each(|(sum, value)| *sum += value),
                }
            });
        }
        Ok((Self::Sum(sum), Some(part)))
    }

    /// Adds 0 if there is only one partial sum, so that -0 becomes 0.
    fn finish(self) -> Result<Self, String> {
        let Self::One(sum) = self else { return Ok(self) };
        let mut values = sum.write(0..sum.rows()).map_err(said)?;
        values.view_mut().data_mut().iter_mut().for_each(|value| *value += 0.0);
        drop(values);
        Ok(Self::Sum(sum))
    }

    fn buffer(self) -> Option<Buffer> {
        match self {
            Self::Started => None,
            Self::One(buffer) | Self::Sum(buffer) => Some(buffer),
        }
    }
}

impl Summing {
    /// Returns true if the partial sum with index `index` has arrived.
    fn has(&self, index: usize, combine: &Combine) -> bool {
        let is_added = |step: &Sum| matches!(step, Sum::AddPartial { partial, .. } if *partial == index);
        let before = combine.steps().get(..self.done).unwrap_or_default();
        before.iter().any(is_added) || self.waiting.contains_key(&index)
    }

    /// Adds the partial sum with index `index`, or stores it until its turn. Buffers that are no
    /// longer needed are appended to `free`.
    fn put(
        &mut self,
        index: usize,
        part: Buffer,
        combine: &Combine,
        free: &mut Vec<Buffer>,
    ) -> Result<(), String> {
        self.waiting.insert(index, part);
        while let Some(&step) = combine.steps().get(self.done) {
            let (level, part) = match step {
                Sum::Start { level } => {
                    self.levels.insert(level, Level::Started);
                    self.done += 1;
                    continue;
                }
                Sum::AddPartial { level, partial } => {
                    let Some(part) = self.waiting.remove(&partial) else { break };
                    (level, Some(part))
                }
                Sum::AddLevel { level, from } => (level, self.levels.remove(&from).and_then(Level::buffer)),
            };
            let (sum, part) = self.levels.remove(&level).zip(part).ok_or("a partial sum is missing")?;
            let (sum, over) = sum.add(part)?;
            free.extend(over);
            self.done += 1;
            let whole = self.done == combine.steps().len();
            self.levels.insert(level, if whole { sum.finish()? } else { sum });
        }
        Ok(())
    }

    /// Creates a complete sum from the value that another process has computed.
    fn made(whole: Buffer, combine: &Combine) -> Self {
        let mut made = Self { done: combine.steps().len(), ..Self::default() };
        match made.done {
            0 => drop(made.waiting.insert(0, whole)),
            _ => drop(made.levels.insert(combine.level(), Level::Sum(whole))),
        }
        made
    }

    /// Returns the complete sum. Fails if additions are missing.
    fn whole(&self, combine: &Combine) -> Result<&Buffer, String> {
        let (done, all) = (self.done, combine.steps().len());
        let whole = match self.levels.get(&combine.level()) {
            _ if all == 0 => self.waiting.get(&0),
            Some(Level::Sum(whole)) => Some(whole).filter(|_| done == all),
            _ => None,
        };
        whole.ok_or_else(|| format!("only {done} of {all} additions are done"))
    }

    /// Returns all buffers of the sum and of the waiting partial sums.
    fn buffers(self) -> impl Iterator<Item = Buffer> {
        self.waiting.into_values().chain(self.levels.into_values().filter_map(Level::buffer))
    }

    fn bytes(&self) -> u64 {
        let levels = self.levels.values().filter_map(|level| match level {
            Level::Started => None,
            Level::One(buffer) | Level::Sum(buffer) => Some(buffer),
        });
        self.waiting.values().chain(levels).map(|buffer| buffer.bytes() as u64).sum()
    }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn parts_in_any_order_give_the_bits_of_the_whole() {
        for (atoms, cuts) in [(1u32, vec![0, 1]), (3, vec![0, 1, 3]), (24, vec![0, 5, 8, 17, 24])] {
            let tree = Tree::new(atoms);
            let nodes: Vec<Node> = cuts.windows(2).flat_map(|cut| tree.nodes(cut[0]..cut[1])).collect();
            let combine = Combine::new(tree, &nodes, tree.root()).unwrap();
            // Two rows of three columns, which are padded.
            let value = |part: usize, at: usize| ((part * 7 + at * 3) as f32).sin() * 1e3;
            let part = |part| {
                let values: Vec<f32> = (0..6).map(|at| value(part, at)).collect();
                Buffer::from_rows(2, 3, &values).unwrap()
            };
            let parts: Vec<Buffer> = (0..nodes.len()).map(part).collect();
            let data = |buffer: &Buffer| buffer.read(0..2).unwrap().view().data().to_vec();
            let all: Vec<f32> = parts.iter().flat_map(data).collect();
            let width = all.len() / parts.len();
            let mut scratch = vec![0.0; combine.scratch_len(width)];
            let wanted = combine.sum(&all, width, &mut scratch).unwrap().to_vec();
            for turn in 0..parts.len() {
                let (mut summing, mut added) = (Summing::default(), Vec::new());
                assert!(summing.whole(&combine).is_err());
                // From the last on, beginning anywhere.
                for at in (0..parts.len()).rev().map(|at| (at + turn) % parts.len()) {
                    let copy = Buffer::from_rows(2, 3, &parts[at].to_vec().unwrap()).unwrap();
                    summing.put(at, copy, &combine, &mut added).unwrap();
                }
                assert_eq!(data(summing.whole(&combine).unwrap()), wanted, "{atoms} atoms");
                assert!(summing.bytes() > 0);
                assert!((0..parts.len()).all(|part| summing.has(part, &combine)));
            }
        }
    }

    #[test]
    fn sums_of_replicas_give_the_bits_of_the_whole() {
        let values = |at: usize| (0..6).map(|value| ((at * 7 + value * 3) as f32).sin() * 1e3).collect();
        let part = |at| Buffer::from_rows(2, 3, &Vec::<f32>::from_iter::<Vec<f32>>(values(at))).unwrap();
        for (atoms, cuts) in
            [(16u32, vec![0, 8, 16]), (12, vec![0, 3, 12]), (5, vec![0, 5]), (20, vec![0, 7, 9, 20])]
        {
            let tree = Tree::new(atoms);
            let nodes: Vec<Vec<Node>> = (0..atoms).map(|atom| vec![Node::atom(atom)]).collect();
            let runs = cuts.windows(2).map(|cut| tree.nodes(cut[0]..cut[1]));
            let runs: Vec<Vec<Node>> = runs.collect();
            let tops: Vec<Node> = runs.iter().flatten().copied().collect();
            let mut alone = GradientSums::new(tree, &nodes, &[tree.root()]).unwrap();
            let mut made = GradientSums::new(tree, &nodes, &tops).unwrap();
            let mut host = GradientSums::new(tree, &runs, &[tree.root()]).unwrap();
            for atom in (0..atoms).rev() {
                alone.add((1, 7), IntervalId(atom), vec![part(atom as usize)]).unwrap();
                made.add((1, 7), IntervalId(atom), vec![part(atom as usize)]).unwrap();
                // A step that is done again adds nothing.
                made.add((1, 7), IntervalId(atom), vec![part(atom as usize)]).unwrap();
            }
            let mut top = 0;
            for (replica, tops) in runs.iter().enumerate() {
                let copy = |at| {
                    let (copy, sum) = (part(0), made.top((1, 7), at).unwrap());
                    copy.write(0..2).unwrap().view_mut().data_mut().copy_from_slice(sum.view().data());
                    copy
                };
                let parts = (top..top + tops.len()).map(copy).collect();
                host.add((1, 7), IntervalId(replica as u32), parts).unwrap();
                top += tops.len();
            }
            let whole = |sums: &GradientSums| sums.whole(1, &[7], <[f32]>::to_vec).unwrap();
            assert_eq!(whole(&host), whole(&alone), "{atoms} atoms, {cuts:?}");
            assert_eq!(whole(&made), whole(&alone), "{atoms} atoms, {cuts:?}");
        }
        assert!(GradientSums::new(Tree::new(3), &[vec![Node::atom(0)]], &[Tree::new(3).root()]).is_err());
    }
}
