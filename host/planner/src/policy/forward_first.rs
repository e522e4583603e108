//! GPipe's order: a lane runs all forward steps, and then all backward steps. Source: Huang et al.
//! 2019, section 2.3.

use super::Rules;
use eciton_recipe::lanes::Lanes;

pub(super) struct ForwardFirst;

impl Rules for ForwardFirst {
    fn cap(&self, _lanes: &Lanes, _path: u32) -> u32 {
        u32::MAX
    }
}
