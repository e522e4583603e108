//! PairNorm (Zhao and Akoglu 2020): `y = (x - m) / r`, without parameters.
//!
//! m is the mean of all rows by column. r^2 is the mean of |x - m|^2 over all rows, plus 1e-5.
//! Backward takes two steps. The first computes `[dy | dy . y]` by row. The second computes
//! `dx = (dy - mean(dy) - y mean(dy . y)) / r`.

use super::moments::OverRows;
use crate::network::{Network, ValueId};
use eciton_types::ids::Layer;

/// Name of the operator of PairNorm.
pub const NAME: &str = "pair-norm";

impl Network {
    /// Adds a PairNorm, which gives rows mean 0 by column and a mean squared length of 1, and
    /// returns its output.
    pub(crate) fn pair_norm(&mut self, layer: Layer, input: ValueId) -> ValueId {
        let norm = OverRows { name: NAME, word: "pair", turned: |width| width + 1, running: &[] };
        self.add(layer, vec![input], self.width(input), norm)
    }
}
