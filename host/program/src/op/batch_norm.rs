//! Batch normalisation, up to its scale and shift, which are kernel `normalise`'s: `h = (x - m) / s` by
//! column, with m the mean and s^2 the variance over all rows, 1e-5 added (Ioffe and Szegedy 2015).
//! Backward is two steps. The first writes `[dh | dh h]` side by side, row by row. The second takes the
//! means of these over all rows: `dx = (dh - mean(dh) - h mean(dh h)) / s`.

use super::moments::OverRows;
use crate::network::{Network, ValueId};
use eciton_types::ids::Layer;

/// The operator's name.
pub const NAME: &str = "batch-norm";

impl Network {
    /// Rows brought to mean 0 and variance 1, by column.
    pub(crate) fn batch_norm(&mut self, layer: Layer, input: ValueId) -> ValueId {
        let norm = OverRows { name: NAME, word: "batch", turned: |width| 2 * width };
        self.add(layer, vec![input], self.width(input), norm)
    }
}
