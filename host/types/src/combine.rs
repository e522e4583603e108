//! Additions that combine partial sums over rows in a fixed order.
//!
//! Each node of the summation tree ([`Tree`]) is the sum of its children in order, starting from
//! +0.0. Any process may compute a node. The process that computes an interval (a range of
//! consecutive rows) sums the nodes within the interval. [`Combine`] lists the additions that
//! remain after all intervals are done.
//!
//! ```
//! use eciton_types::{Combine, Tree};
//! let tree = Tree::new(16);
//! // Two intervals, atoms 0..4 and 4..16: four atoms, then four atoms and a whole group.
//! let parts: Vec<_> = [0..4, 4..16].into_iter().flat_map(|run| tree.nodes(run)).collect();
//! let combine = Combine::new(tree, &parts, tree.root())?;
//! let partials = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 100.0]; // width 1
//! let mut scratch = vec![0.0; combine.scratch_len(1)];
//! assert_eq!(combine.sum(&partials, 1, &mut scratch)?, [136.0]);
//! # Ok::<(), eciton_types::Error>(())
//! ```

use crate::atoms::{Node, Tree};
use crate::error::{Error, Result};

/// One instruction of a [`Combine`] list. There is one accumulator per level of the summation tree,
/// and its index is the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// Sets an accumulator to +0.0 before the sum of a tree node.
    Start {
        /// Index of the accumulator, which is the level of the tree node.
        level: u8,
    },
    /// Adds a partial sum to an accumulator.
    AddPartial {
        /// Index of the accumulator, which is the level of the tree node.
        level: u8,
        /// Index of the partial sum in the list that was passed to [`Combine::new`].
        partial: usize,
    },
    /// Adds the complete sum of one accumulator to the accumulator of a higher level.
    AddLevel {
        /// Index of the accumulator that receives the sum.
        level: u8,
        /// Index of the accumulator that is added, which is `level - 1`.
        from: u8,
    },
}

/// Instructions that compute the sum of one summation-tree node from partial sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combine {
    steps: Vec<Sum>,
    partials: usize,
    level: u8,
}

impl Combine {
    /// Creates the instructions that compute the sum of the tree node `target` from `partials`. The
    /// partial sums must be ordered from left to right and cover `target` exactly, without overlap.
    ///
    /// To sum a whole round, pass the nodes of all intervals as `partials` and the root as
    /// `target`. Within an interval, pass the interval's atoms and one of its nodes.
    ///
    /// # Errors
    /// Returns [`Error::Cover`] if the partial sums have gaps, overlap or are out of order.
    pub fn new(tree: Tree, partials: &[Node], target: Node) -> Result<Self> {
        let mut combine = Self { steps: Vec::new(), partials: partials.len(), level: target.level };
        let mut next = 0;
        if partials == [target] {
            return Ok(combine);
        }
        combine.add(tree, partials, target, &mut next)?;
        if let Some(&node) = partials.get(next) {
            return Err(Error::Cover { wanted: None, found: Some(node), place: next });
        }
        Ok(combine)
    }

    fn add(&mut self, tree: Tree, partials: &[Node], node: Node, next: &mut usize) -> Result<()> {
        let level = node.level;
        self.steps.push(Sum::Start { level });
        let mut children = tree.children(node).peekable();
        if children.peek().is_none() {
            return Err(missing(partials, node, *next));
        }
        for child in children {
            if partials.get(*next) == Some(&child) {
                self.steps.push(Sum::AddPartial { level, partial: *next });
                *next += 1;
            } else if child.level == 0 {
                return Err(missing(partials, child, *next));
            } else {
                self.add(tree, partials, child, next)?;
                self.steps.push(Sum::AddLevel { level, from: child.level });
            }
        }
        Ok(())
    }

    /// Returns the instructions, in order. The list is empty if the only partial sum is the target
    /// itself.
    #[must_use]
    pub fn steps(&self) -> &[Sum] {
        &self.steps
    }

    /// Returns the index of the accumulator that holds the result after all instructions.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Returns the number of partial sums that the instructions read.
    #[must_use]
    pub fn partials(&self) -> usize {
        self.partials
    }

    /// Returns the length of the scratch buffer that [`Combine::sum`] needs. `width` is the number
    /// of values per partial sum.
    #[must_use]
    pub fn scratch_len(&self, width: usize) -> usize {
        (usize::from(self.level) + 1).saturating_mul(width)
    }

    /// Runs the instructions and returns the sum. `partials` concatenates the partial sums, each
    /// with `width` values. The result is a slice of `scratch`, or of `partials` if there is
    /// nothing to add.
    ///
    /// # Errors
    /// Returns [`Error::PartialLength`] if `partials` has the wrong length or `scratch` is too
    /// short.
    pub fn sum<'a>(&self, partials: &'a [f32], width: usize, scratch: &'a mut [f32]) -> Result<&'a [f32]> {
        let wanted = self.partials.saturating_mul(width);
        if partials.len() != wanted {
            return Err(Error::PartialLength { what: "partials", found: partials.len(), wanted });
        }
        if self.steps.is_empty() {
            return Ok(partials);
        }
        let wanted = self.scratch_len(width);
        if scratch.len() < wanted {
            return Err(Error::PartialLength { what: "scratch", found: scratch.len(), wanted });
        }
        for &step in &self.steps {
            match step {
                Sum::Start { level } => accumulator(scratch, level, width).fill(0.0),
                Sum::AddPartial { level, partial } => {
                    let values = &partials[partial * width..][..width];
                    add(accumulator(scratch, level, width), values);
                }
                Sum::AddLevel { level, from } => {
                    let (below, above) = scratch.split_at_mut(usize::from(level) * width);
                    add(&mut above[..width], &below[usize::from(from) * width..][..width]);
                }
            }
        }
        Ok(accumulator(scratch, self.level, width))
    }
}

fn accumulator(scratch: &mut [f32], level: u8, width: usize) -> &mut [f32] {
    &mut scratch[usize::from(level) * width..][..width]
}

fn add(into: &mut [f32], values: &[f32]) {
    for (sum, value) in into.iter_mut().zip(values) {
        *sum += value;
    }
}

fn missing(partials: &[Node], wanted: Node, place: usize) -> Error {
    Error::Cover { wanted: Some(wanted), found: partials.get(place).copied(), place }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_gather::random::SplitMix64;

    /// Returns a random number in [0, 1).
    fn unit(random: &mut SplitMix64) -> f32 {
        (random.next_u64() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// Divides 0..atoms into `count` random runs.
    fn random_runs(random: &mut SplitMix64, atoms: u32, count: u32) -> Vec<std::ops::Range<u32>> {
        let mut cuts: Vec<u32> = (1..atoms).collect();
        random.shuffle(&mut cuts);
        cuts.truncate(count as usize - 1);
        cuts.extend([0, atoms]);
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// Sums as a training run does: each interval sums its atoms into nodes, and then all nodes are
    /// combined.
    fn reduce(tree: Tree, runs: &[std::ops::Range<u32>], atoms: &[f32], width: usize) -> Vec<f32> {
        let mut scratch = vec![f32::NAN; 4 * width];
        let (mut nodes, mut partials) = (Vec::new(), Vec::new());
        for run in runs {
            for node in tree.nodes(run.clone()) {
                let span = tree.span(node);
                let leaves: Vec<Node> = span.clone().map(Node::atom).collect();
                let within = Combine::new(tree, &leaves, node).unwrap();
                let values = &atoms[span.start as usize * width..span.end as usize * width];
                partials.extend_from_slice(within.sum(values, width, &mut scratch).unwrap());
                nodes.push(node);
            }
        }
        let combine = Combine::new(tree, &nodes, tree.root()).unwrap();
        combine.sum(&partials, width, &mut scratch).unwrap().to_vec()
    }

    #[test]
    fn any_partition_gives_the_bits_of_one_interval() {
        let mut differs_from_plain_order = false;
        for seed in 0..500 {
            let random = &mut SplitMix64::new(seed);
            let atoms = 1u32 << random.below(7);
            let width = 1 + random.below(5) as usize;
            let tree = Tree::new(atoms);
            let values: Vec<f32> = (0..atoms as usize * width)
                .map(|_| match random.below(20) {
                    0 => -0.0,
                    1 => 1e30 * unit(random),
                    2 => 1e-42,
                    _ => unit(random) - 0.5,
                })
                .collect();
            let bits = |sums: &[f32]| sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>();
            #[allow(clippy::single_range_in_vec_init)]
            let whole = bits(&reduce(tree, &[0..atoms], &values, width));
            for _ in 0..20 {
                let count = 1 + random.below(atoms.into()) as u32;
                let runs = random_runs(random, atoms, count);
                let cut = bits(&reduce(tree, &runs, &values, width));
                assert_eq!(cut, whole, "seed {seed}, atoms {atoms}, runs {runs:?}");
            }
            let mut plain = vec![0.0; width];
            values.chunks(width).for_each(|atom| add(&mut plain, atom));
            differs_from_plain_order |= bits(&plain) != whole;
        }
        assert!(differs_from_plain_order, "the test's values are too tame to tell orders apart");
    }

    #[test]
    fn order_is_groups_in_order_of_atoms_in_order() {
        let tree = Tree::new(16);
        let parts: Vec<Node> = [0..9, 9..16].into_iter().flat_map(|run| tree.nodes(run)).collect();
        let combine = Combine::new(tree, &parts, tree.root()).unwrap();
        let mut wanted =
            vec![Sum::Start { level: 2 }, Sum::AddPartial { level: 2, partial: 0 }, Sum::Start { level: 1 }];
        wanted.extend((1..9).map(|partial| Sum::AddPartial { level: 1, partial }));
        wanted.push(Sum::AddLevel { level: 2, from: 1 });
        assert_eq!(combine.steps(), wanted);
    }

    #[test]
    fn partials_that_do_not_cover_are_refused() {
        let tree = Tree::new(16);
        let group = |index| Node { level: 1, index };
        let root = tree.root();
        assert!(Combine::new(tree, &[root], root).unwrap().steps().is_empty());
        assert!(Combine::new(tree, &[group(0), group(1)], root).is_ok());
        for parts in [
            vec![],
            vec![group(0)],
            vec![group(1), group(0)],
            vec![group(0), group(0)],
            vec![group(0), group(1), group(1)],
            vec![Node::atom(0), group(0), group(1)],
        ] {
            let error = Combine::new(tree, &parts, root).unwrap_err();
            assert!(matches!(error, Error::Cover { .. }), "{parts:?}: {error}");
        }
        let combine = Combine::new(tree, &[group(0), group(1)], root).unwrap();
        assert!(combine.sum(&[1.0], 1, &mut [0.0; 9]).is_err());
        assert!(combine.sum(&[1.0, 2.0], 1, &mut [0.0; 2]).is_err());
    }
}
