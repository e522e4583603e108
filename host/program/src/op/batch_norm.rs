//! Batch normalisation (Ioffe and Szegedy 2015), without scale and shift, which kernel `normalise`
//! applies.
//!
//! It computes `h = (x - m) / s` by column. m is the mean, and s^2 is the variance plus 1e-5, both
//! over all rows. Backward takes two steps. The first writes the columns `[dh | dh h]`, row by row.
//! The second computes `dx = (dh - mean(dh) - h mean(dh h)) / s`, with means over all rows.
//!
//! Evaluations take m and s^2 from running moments, as in PyTorch. Each update of the weights moves
//! them towards the moments of its batch.

use super::moments::OverRows;
use crate::network::{Network, ValueId};
use eciton_types::ids::Layer;

/// Name of the operator of batch normalisation.
pub const NAME: &str = "batch-norm";
/// Names of the running moments in a layer, and their values before the first update.
const RUNNING: [(&str, f32); 2] = [("norm.running_mean", 0.0), ("norm.running_var", 1.0)];

impl Network {
    /// Adds a batch normalisation, which gives each column mean 0 and variance 1, and returns its
    /// output.
    pub(crate) fn batch_norm(&mut self, layer: Layer, input: ValueId) -> ValueId {
        let norm = OverRows { name: NAME, word: "batch", turned: |width| 2 * width, running: &RUNNING };
        self.add(layer, vec![input], self.width(input), norm)
    }
}
