//! Accumulator of a sum over rows, which follows the fixed summation tree of a grid.

use super::lines::Lines;
use crate::grid::MAX_LEVEL;
use crate::view::ViewMut;

/// Accumulator for the sum over one part of a [`crate::Grid`]. It has one sum per level of the
/// summation tree.
///
/// Memory is allocated for the levels that are in use at the same time, and reused for later sums.
#[derive(Debug, Default)]
pub struct Tree {
    /// Sums by level, of which level 0 is the current atom. The content of a level that is not in
    /// use is undefined.
    levels: [Lines; MAX_LEVEL + 1],
    in_use: [bool; MAX_LEVEL + 1],
    len: usize,
}

impl Tree {
    /// Returns an accumulator for sums of `len` values.
    pub fn new(len: usize) -> Self {
        Self { len, ..Self::default() }
    }

    /// Starts a new sum of `len` values, and reuses the memory of earlier sums.
    pub(crate) fn begin(&mut self, len: usize) {
        (self.len, self.in_use) = (len, [false; MAX_LEVEL + 1]);
    }

    /// Returns the sum of the current atom, to which rows are added. [`Tree::close`] ends the atom.
    pub fn leaf(&mut self) -> &mut [f32] {
        self.level(0)
    }

    /// Returns the sum of the current group of atoms. Routines that sum whole atoms themselves add
    /// to it.
    pub(crate) fn group(&mut self) -> &mut [f32] {
        self.level(1)
    }

    /// Returns the sum of a level. If the level is not in use, the sum starts with zeros.
    fn level(&mut self, level: usize) -> &mut [f32] {
        if !self.in_use[level] {
            let free = (0..=MAX_LEVEL).find(|&l| !self.in_use[l] && self.levels[l].has_space(self.len));
            self.levels.swap(level, free.unwrap_or(level));
            self.levels[level].take(self.len).fill(0.0);
            self.in_use[level] = true;
        }
        self.levels[level].take(self.len)
    }

    /// Ends the current atom, and `closes` levels of the tree above it.
    pub fn close(&mut self, closes: u8) {
        for level in 0..=(closes as usize).min(MAX_LEVEL - 1) {
            self.lift(level);
        }
    }

    /// Adds the sum of a level to the sum of the level above, and ends the level.
    fn lift(&mut self, level: usize) {
        if !std::mem::take(&mut self.in_use[level]) {
            return;
        }
        // A sum starts at +0 and is never -0, so adding it to 0 changes no bit.
        if !self.in_use[level + 1] {
            self.levels.swap(level, level + 1);
            self.in_use[level + 1] = true;
        } else if let [from, to, ..] = &mut self.levels[level..] {
            let (to, from) = (to.take(self.len), from.take(self.len));
            to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
        }
    }

    /// Writes the total of the part to `into`, and prepares for the next part. Rows of the sum are
    /// `stride` values apart.
    pub fn finish(&mut self, stride: usize, into: &mut ViewMut<'_>) {
        for level in 0..MAX_LEVEL {
            self.lift(level);
        }
        let root = self.level(MAX_LEVEL);
        let columns = into.columns();
        if columns == 1 && into.stride() == 1 && into.rows() == root.len() {
            // A vector with one extent: each value is a row.
            into.data_mut()[..root.len()].copy_from_slice(root);
        } else {
            for i in 0..into.rows() {
                into.row_mut(i).copy_from_slice(&root[i * stride..i * stride + columns]);
            }
        }
        self.in_use = [false; MAX_LEVEL + 1];
    }
}
