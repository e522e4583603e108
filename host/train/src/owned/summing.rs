//! A gradient while its parts come: added up in the order of the tree, as far as they are there.

use std::collections::BTreeMap;

use eciton_plan::{Combine, Sum};
use eciton_tensor::Buffer;

/// The sum of one use of a parameter. The bits are those of [`Combine::sum`].
#[derive(Debug, Default)]
pub(super) struct Summing {
    /// Steps that are done.
    done: usize,
    /// Parts whose turn has not come, by place.
    waiting: BTreeMap<usize, Buffer>,
    /// Sums by level.
    levels: Vec<Option<Vec<f32>>>,
}

impl Summing {
    /// Takes a part.
    pub(super) fn put(&mut self, place: usize, part: Buffer, combine: &Combine) -> Result<(), String> {
        if self.waiting.insert(place, part).is_some() {
            return Err(format!("part {place} came twice"));
        }
        while let Some(&step) = combine.steps().get(self.done) {
            match step {
                Sum::Start { level } => {
                    let length = self.length()?;
                    *self.level(level) = Some(vec![0.0; length]);
                }
                Sum::AddPartial { level, partial } => {
                    let Some(part) = self.waiting.remove(&partial) else { break };
                    let part = part.read(0..part.rows()).map_err(|e| e.to_string())?;
                    add(self.level(level).as_mut(), part.view().data())?;
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

    /// A whole sum that was made elsewhere.
    pub(super) fn made(whole: Buffer, combine: &Combine) -> Result<Self, String> {
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

    /// Hands the whole sum to `then`.
    pub(super) fn whole<T>(&self, combine: &Combine, then: impl FnOnce(&[f32]) -> T) -> Result<T, String> {
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

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
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
    use eciton_plan::{Node, Tree};

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
                let mut summing = Summing::default();
                assert!(summing.whole(&combine, |_| ()).is_err());
                // From the last on, beginning anywhere.
                for at in (0..parts.len()).rev().map(|at| (at + turn) % parts.len()) {
                    summing.put(at, parts[at].clone(), &combine).unwrap();
                }
                assert_eq!(summing.whole(&combine, <[f32]>::to_vec).unwrap(), wanted, "{atoms} atoms");
                assert!(summing.bytes() > 0);
            }
        }
    }
}
