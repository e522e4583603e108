//! Sums of gradients, added along the tree of a batch as the parts arrive. The host and workers that
//! own parameters use the same type.

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

    /// Adds an interval's parts to the sum of a use, and returns the buffers whose values have been added.
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
    ///
    /// # Errors
    /// A buffer that cannot be read.
    pub(crate) fn insert(&mut self, of: (u32, u32), whole: Buffer) -> Result<(), String> {
        self.sums.insert(of, Summing::made(whole, &self.combine)?);
        Ok(())
    }

    /// Removes the sum of a use, and passes it to `then`.
    ///
    /// # Errors
    /// A sum that is missing or incomplete.
    pub(crate) fn remove<T>(&mut self, of: (u32, u32), then: impl FnOnce(&[f32]) -> T) -> Result<T, String> {
        let sum = self.sums.remove(&of).ok_or_else(|| format!("no gradient {} has come", of.1))?;
        sum.whole(&self.combine, then)
    }

    /// Passes the whole gradient of a round to `then`: the sums of a parameter's uses, added in their order.
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
        over.flat_map(|(_, sum)| sum.waiting.into_values()).collect()
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
    levels: Vec<Option<Vec<f32>>>,
}

impl Summing {
    /// Takes part number `index`, and moves the parts that it has added up to `added`.
    fn put(
        &mut self,
        index: usize,
        part: Buffer,
        combine: &Combine,
        added: &mut Vec<Buffer>,
    ) -> Result<(), String> {
        let is_added = |step: &Sum| matches!(step, Sum::AddPartial { partial, .. } if *partial == index);
        let before = combine.steps().get(..self.done).unwrap_or_default();
        if before.iter().any(is_added) || self.waiting.insert(index, part).is_some() {
            return Err(format!("part {index} came twice"));
        }
        while let Some(&step) = combine.steps().get(self.done) {
            match step {
                Sum::Start { level } => {
                    let length = self.length()?;
                    *self.level(level) = Some(vec![0.0; length]);
                }
                Sum::AddPartial { level, partial } => {
                    let Some(part) = self.waiting.remove(&partial) else { break };
                    let values = part.read(0..part.rows()).map_err(|e| e.to_string())?;
                    add(self.level(level).as_mut(), values.view().data())?;
                    drop(values);
                    added.push(part);
                }
                Sum::AddLevel { level, from } => {
                    let below = self.level(from).take().unwrap_or_default();
                    add(self.level(level).as_mut(), &below)?;
                }
            }
            self.done += 1;
        }
        Ok(())
    }

    /// A whole sum that was computed elsewhere.
    fn made(whole: Buffer, combine: &Combine) -> Result<Self, String> {
        if combine.steps().is_empty() {
            return Ok(Self { waiting: BTreeMap::from([(0, whole)]), ..Self::default() });
        }
        let values = whole.read(0..whole.rows()).map_err(|e| e.to_string())?.view().data().to_vec();
        let mut made = Self { done: combine.steps().len(), ..Self::default() };
        *made.level(combine.level()) = Some(values);
        Ok(made)
    }

    /// Values of a part, padding included.
    fn length(&self) -> Result<usize, String> {
        let known = self.levels.iter().flatten().map(Vec::len).next();
        if let Some(known) = known {
            return Ok(known);
        }
        let part = self.waiting.values().next().ok_or("no part is there")?;
        let part = part.read(0..part.rows()).map_err(|e| e.to_string())?;
        Ok(part.view().data().len())
    }

    fn level(&mut self, level: u8) -> &mut Option<Vec<f32>> {
        let level = usize::from(level);
        if self.levels.len() <= level {
            self.levels.resize(level + 1, None);
        }
        &mut self.levels[level]
    }

    /// Passes the whole sum to `then`.
    fn whole<T>(&self, combine: &Combine, then: impl FnOnce(&[f32]) -> T) -> Result<T, String> {
        if combine.steps().is_empty()
            && let Some(only) = self.waiting.get(&0)
        {
            let only = only.read(0..only.rows()).map_err(|e| e.to_string())?;
            return Ok(then(only.view().data()));
        }
        let whole = self.levels.get(usize::from(combine.level())).and_then(Option::as_ref);
        match whole.filter(|_| self.done == combine.steps().len()) {
            Some(whole) => Ok(then(whole)),
            None => Err(format!("{} of {} additions are done", self.done, combine.steps().len())),
        }
    }

    fn bytes(&self) -> u64 {
        let levels: usize = self.levels.iter().flatten().map(|level| level.len() * 4).sum();
        levels as u64 + self.waiting.values().map(|part| part.bytes() as u64).sum::<u64>()
    }
}

fn add(into: Option<&mut Vec<f32>>, values: &[f32]) -> Result<(), String> {
    let into = into.ok_or("a sum was not begun")?;
    if into.len() != values.len() {
        return Err(format!("a part of {} values, not {}", values.len(), into.len()));
    }
    into.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    Ok(())
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
                    summing.put(at, parts[at].clone(), &combine, &mut added).unwrap();
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
