//! 1F1B: a lane runs each backward step as early as possible.
//!
//! The cap of a lane is the length of the longest path of lanes from it to the last one. In a
//! chain, it is d - l, which is the warm-up of PipeDream. In a graph, it is 1 + the largest cap of
//! the lanes that follow (Jeon et al. 2025, GraphPipe, section 5). Source: Narayanan et al. 2021
//! (PipeDream-2BW), section 3.2.

use super::Rules;
use eciton_recipe::lanes::Lanes;

pub(super) struct BackwardFirst;

impl Rules for BackwardFirst {
    fn is_later(&self, back: bool) -> bool {
        !back
    }

    fn cap(&self, _lanes: &Lanes, path: u32) -> u32 {
        path
    }
}
