//! Interleaved 1F1B: each lane has v chunks (runs of stages), so that a micro-batch passes over all
//! lanes v times in each direction.
//!
//! Micro-batches pass in groups of d, where d is the number of lanes of a replica. A lane runs
//! forward steps in the order of group, chunk and micro-batch. It runs backward steps in the order
//! of group, chunk from the last one on, and micro-batch. The cap is the warm-up of lane l and one
//! more visit:
//!
//! ```text
//! warm-up   2 (d - l - 1) + (v - 1) d     visits
//! bubble    (d - 1) / (v m)               of the time of m micro-batches without a bubble
//! ```
//!
//! The last group may have fewer than d micro-batches. v - 1 chunks of a group have at most (v - 1)
//! d visits, which is less than the cap. Each lane therefore admits a visit of the last chunk, and
//! the group can start its backward steps. Source: Narayanan et al. 2021 (Megatron-LM), section
//! 2.2.

use super::Rules;
use eciton_recipe::lanes::Lanes;

pub(super) struct Interleaved;

impl Rules for Interleaved {
    fn group(&self, lanes: &Lanes) -> u32 {
        lanes.depth()
    }

    fn cap(&self, lanes: &Lanes, path: u32) -> u32 {
        2 * path.saturating_sub(1) + (lanes.chunks() - 1) * lanes.depth() + 1
    }
}
