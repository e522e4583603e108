//! Sums of gradients, added along the tree of a batch as the parts arrive. The host and workers
//! that own parameters use the same type.

use std::collections::BTreeMap;
use std::ops::Range;

use eciton_plan::{Combine, IntervalId, Node, Sum, Tree};
use eciton_tensor::Buffer;

/// Gradient sums of the rounds in flight, by round and by use of a parameter.
///
/// A weight that several layers share has one sum for each use, and each sum has the same tree.
#[derive(Debug)]
pub(crate) struct GradientSums {
    /// Index of each interval's first node among all nodes, and the number of nodes at the end.
    firsts: Vec<usize>,
    combine: Combine,
    sums: BTreeMap<(u32, u32), Summing>,
}

impl GradientSums {
    /// Sums over `tree`, of which each interval has `nodes`.
    ///
    /// # Errors
    /// [`eciton_plan::Error::Cover`] if the nodes do not cover the tree exactly.
    pub(crate) fn new(tree: Tree, nodes: &[Vec<Node>]) -> Result<Self, eciton_plan::Error> {
        let mut firsts = vec![0];
        for nodes in nodes {
            firsts.push(firsts.last().unwrap_or(&0) + nodes.len());
        }
        let nodes: Vec<Node> = nodes.iter().flatten().copied().collect();
        Ok(Self { firsts, combine: Combine::new(tree, &nodes, tree.root())?, sums: BTreeMap::new() })
    }

    /// Indices of an interval's nodes among all nodes. `None` if there is no such interval.
    pub(crate) fn nodes(&self, interval: IntervalId) -> Option<Range<usize>> {
        Some(*self.firsts.get(interval.index())?..*self.firsts.get(interval.index() + 1)?)
    }

    /// Adds an interval's parts to the sum of a use, and returns the buffers that are not needed
    /// any more. The sums take the buffers of some parts over and write into them.
    ///
    /// # Errors
    /// An unknown interval, another number of parts, parts of another length, a part that came before.
    pub(crate) fn add(
        &mut self,
        (round, number): (u32, u32),
        interval: IntervalId,
        parts: Vec<Buffer>,
    ) -> Result<Vec<Buffer>, String> {
        let nodes = self.nodes(interval).ok_or_else(|| format!("there is no interval {interval}"))?;
        if parts.len() != nodes.len() {
            return Err(format!("{} parts of interval {interval}, not {}", parts.len(), nodes.len()));
        }
        let sum = self.sums.entry((round, number)).or_default();
        let mut added = Vec::new();
        for (index, part) in nodes.zip(parts) {
            sum.put(index, part, &self.combine, &mut added)?;
        }
        Ok(added)
    }

    /// Takes a whole sum that was computed elsewhere.
    pub(crate) fn insert(&mut self, of: (u32, u32), whole: Buffer) {
        self.sums.insert(of, Summing::made(whole, &self.combine));
    }

    /// Removes the sum of a use, and passes it to `then`.
    ///
    /// # Errors
    /// A sum that is missing or incomplete.
    pub(crate) fn remove<T>(&mut self, of: (u32, u32), then: impl FnOnce(&[f32]) -> T) -> Result<T, String> {
        let sum = self.sums.remove(&of).ok_or_else(|| format!("no gradient {} has come", of.1))?;
        sum.whole(&self.combine, then)
    }

    /// Passes the whole gradient of a round to `then`: the sums of a parameter's uses, added in
    /// their order.
    ///
    /// # Errors
    /// A sum that is missing or incomplete.
    pub(crate) fn whole<T>(
        &self,
        round: u32,
        uses: &[u32],
        then: impl FnOnce(&[f32]) -> T,
    ) -> Result<T, String> {
        let (own, further) = uses.split_first().ok_or("a parameter without a use")?;
        let sum = |of: &u32| {
            let found = self.sums.get(&(round, *of));
            found.ok_or_else(|| format!("no gradient of parameter {own} has come"))
        };
        if further.is_empty() {
            return sum(own)?
                .whole(&self.combine, then)
                .map_err(|reason| format!("parameter {own}: {reason}"));
        }
        let mut total = sum(own)?.whole(&self.combine, <[f32]>::to_vec)?;
        for of in further {
            sum(of)?.whole(&self.combine, |sum| {
                total.iter_mut().zip(sum).for_each(|(total, value)| *total += value);
            })?;
        }
        Ok(then(&total))
    }

    /// Removes the sums of all rounds up to `round`, and returns the buffers that they held.
    pub(crate) fn forget_through(&mut self, round: u32) -> Vec<Buffer> {
        let over = self.sums.extract_if(..(round.saturating_add(1), 0), |_, _| true);
        over.flat_map(|(_, sum)| sum.buffers()).collect()
    }

    /// Bytes of all sums and of the parts that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.sums.values().map(Summing::bytes).sum()
    }
}

/// The sum of one use of a parameter in one round. The bits are those of [`Combine::sum`].
#[derive(Debug, Default)]
struct Summing {
    /// Number of additions that are done.
    done: usize,
    /// Parts whose turn has not come, by index.
    waiting: BTreeMap<usize, Buffer>,
    /// Sums by level.
    levels: BTreeMap<u8, Level>,
}

/// A sum of one level, which starts at 0.
#[derive(Debug)]
enum Level {
    /// Nothing has been added.
    Started,
    /// One part has come, and 0 has not been added to it yet (which turns -0 into 0).
    One(Buffer),
    /// The sum.
    Sum(Buffer),
}

impl Level {
    /// Adds a part or the sum of the level below. Returns the buffer of the one that is not needed
    /// any more: the first part's buffer becomes that of the sum.
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
                return Err(format!("a part of {} values, not {}", part.len(), into.len()));
            }
            match raw {
                true => into.iter_mut().zip(part).for_each(|(sum, value)| *sum = 0.0 + *sum + value),
                false => into.iter_mut().zip(part).for_each(|(sum, value)| *sum += value),
            }
        }
        Ok((Self::Sum(sum), Some(part)))
    }

    /// Adds 0 to a part that is alone.
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
    /// Takes part number `index`. Moves buffers that are not needed any more to `free`.
    fn put(
        &mut self,
        index: usize,
        part: Buffer,
        combine: &Combine,
        free: &mut Vec<Buffer>,
    ) -> Result<(), String> {
        let is_added = |step: &Sum| matches!(step, Sum::AddPartial { partial, .. } if *partial == index);
        let before = combine.steps().get(..self.done).unwrap_or_default();
        if before.iter().any(is_added) || self.waiting.insert(index, part).is_some() {
            return Err(format!("part {index} came twice"));
        }
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
            let (sum, part) = self.levels.remove(&level).zip(part).ok_or("a sum was not begun")?;
            let (sum, over) = sum.add(part)?;
            free.extend(over);
            self.done += 1;
            let whole = self.done == combine.steps().len();
            self.levels.insert(level, if whole { sum.finish()? } else { sum });
        }
        Ok(())
    }

    /// A whole sum that was computed elsewhere.
    fn made(whole: Buffer, combine: &Combine) -> Self {
        let mut made = Self { done: combine.steps().len(), ..Self::default() };
        match made.done {
            0 => drop(made.waiting.insert(0, whole)),
            _ => drop(made.levels.insert(combine.level(), Level::Sum(whole))),
        }
        made
    }

    /// Passes the whole sum to `then`.
    fn whole<T>(&self, combine: &Combine, then: impl FnOnce(&[f32]) -> T) -> Result<T, String> {
        let (done, all) = (self.done, combine.steps().len());
        let whole = match self.levels.get(&combine.level()) {
            _ if all == 0 => self.waiting.get(&0),
            Some(Level::Sum(whole)) => Some(whole).filter(|_| done == all),
            _ => None,
        };
        let whole = whole.ok_or_else(|| format!("{done} of {all} additions are done"))?;
        let whole = whole.read(0..whole.rows()).map_err(said)?;
        Ok(then(whole.view().data()))
    }

    /// All of its buffers.
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
                assert!(summing.whole(&combine, |_| ()).is_err());
                // From the last on, beginning anywhere.
                for at in (0..parts.len()).rev().map(|at| (at + turn) % parts.len()) {
                    let copy = Buffer::from_rows(2, 3, &parts[at].to_vec().unwrap()).unwrap();
                    summing.put(at, copy, &combine, &mut added).unwrap();
                }
                assert_eq!(summing.whole(&combine, <[f32]>::to_vec).unwrap(), wanted, "{atoms} atoms");
                assert!(summing.bytes() > 0);
                // A part that was added before is refused as one that waits is.
                for (at, part) in parts.iter().enumerate() {
                    let twice = summing.put(at, part.clone(), &combine, &mut added).unwrap_err();
                    assert_eq!(twice, format!("part {at} came twice"));
                }
            }
        }
    }
}
