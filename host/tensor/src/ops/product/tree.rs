//! A sum over rows on its way up the grid's tree.

use crate::view::ViewMut;

/// One accumulator a level ([`crate::Grid`]).
#[derive(Debug)]
pub struct Tree {
    levels: Vec<f32>,
    len: usize,
}

impl Tree {
    /// A tree over sums of `len` values, reusing memory.
    pub fn new(mut memory: Vec<f32>, len: usize) -> Self {
        memory.clear();
        memory.resize((crate::grid::MAX_LEVEL + 1) * len, 0.0);
        Self { levels: memory, len }
    }

    /// The memory, for another tree.
    pub fn into_memory(self) -> Vec<f32> {
        self.levels
    }

    /// The atom's accumulator.
    pub fn leaf(&mut self) -> &mut [f32] {
        &mut self.levels[..self.len]
    }

    /// An atom ends, and with it `closes` levels above it.
    pub fn close(&mut self, closes: u8) {
        for level in 0..=(closes as usize).min(crate::grid::MAX_LEVEL - 1) {
            let (low, high) = self.levels[level * self.len..].split_at_mut(self.len);
            add_and_clear(low, &mut high[..self.len]);
        }
    }

    /// Writes the part's sum (rows of `stride` values) and starts anew.
    pub fn finish(&mut self, stride: usize, into: &mut ViewMut<'_>) {
        for level in 0..crate::grid::MAX_LEVEL {
            let (low, high) = self.levels[level * self.len..].split_at_mut(self.len);
            add_and_clear(low, &mut high[..self.len]);
        }
        let root = &mut self.levels[crate::grid::MAX_LEVEL * self.len..];
        let columns = into.columns();
        if columns == 1 && into.stride() == 1 && into.rows() == self.len {
            // A vector of one extent: its values are its rows.
            into.data_mut()[..self.len].copy_from_slice(root);
            root.fill(0.0);
            return;
        }
        for i in 0..into.rows() {
            into.row_mut(i).copy_from_slice(&root[i * stride..i * stride + columns]);
        }
        root.fill(0.0);
    }
}

fn add_and_clear(from: &mut [f32], to: &mut [f32]) {
    for (f, t) in from.iter_mut().zip(to) {
        *t += *f;
        *f = 0.0;
    }
}
