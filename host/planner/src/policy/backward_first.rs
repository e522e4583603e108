//! 1F1B: backward steps as early as they can be done.
//!
//! The cap of a lane is the longest path to the last one: d - l of a chain (the warm-up of
//! PipeDream), 1 + the largest of the followers' in a graph (Jeon et al. 2025, GraphPipe, section
//! 5). Source: Narayanan et al. 2021 (PipeDream-2BW), section 3.2.

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
