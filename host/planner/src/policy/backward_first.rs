//! 1F1B: forward and backward steps of a lane alternate, as soon as it has as many micro-batches in
//! flight as its cap allows. A lane with fewer runs a forward step if one is ready, and a backward
//! step otherwise.
//!
//! The cap of a lane is the length of the longest path of lanes from it to the last one. In a
//! chain, it is d - l, which is the warm-up of PipeDream. In a graph, it is 1 + the largest cap of
//! the lanes that follow (Jeon et al. 2025, GraphPipe, section 5). Source: Narayanan et al. 2021
//! (PipeDream-2BW), section 3.2.

use super::Rules;
use eciton_recipe::lanes::Lanes;

pub(super) struct BackwardFirst;

impl Rules for BackwardFirst {
    fn cap(&self, _lanes: &Lanes, path: u32) -> u32 {
        path
    }
}
