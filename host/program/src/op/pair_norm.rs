//! PairNorm (Zhao and Akoglu 2020): `y = (x - m) / r`, without parameters. m is the mean of all rows
//! by column; r^2 is the mean of |x - m|^2 over all rows, 1e-5 added.
//! Backward is two steps: `[dy | dy . y]` by row; then `dx = (dy - mean(dy) - y mean(dy . y)) / r`.

use super::moments::OverRows;
use crate::network::{Network, ValueId};
use eciton_types::ids::Layer;

/// The operator's name.
pub const NAME: &str = "pair-norm";

impl Network {
    /// Rows brought to mean 0 by column, and to a mean square length of 1.
    pub(crate) fn pair_norm(&mut self, layer: Layer, input: ValueId) -> ValueId {
        let norm = OverRows { name: NAME, word: "pair", turned: |width| width + 1 };
        self.add(layer, vec![input], self.width(input), norm)
    }
}
