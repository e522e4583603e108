//! Random numbers for tests, from a seed that the test prints, and planted defects.

use std::cell::Cell;

/// A defect that a test switches on, in the policy, the list schedule or the planners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A lane has one visit less than its order needs.
    CapOneShort,
    /// A lane admits any visit that has a ready step.
    AdmittedOutOfOrder,
    /// Backward steps of a group go from the first chunk to the last.
    ChunksNotReversed,
    /// A stage counts one micro-batch in flight too few.
    PathOneShort,
    /// No stage has more than two operators.
    LongRunsSkipped,
    /// Rows that a stage reads of others are not counted.
    InputForgotten,
    /// Rows that two operators of a stage read of another stage are counted twice.
    ReadTwice,
}

thread_local! {
    static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// Switches a defect on in this thread, or all off.
pub(crate) fn plant(defect: Option<Planted>) {
    PLANTED.set(defect);
}

/// Returns whether this defect is switched on in this thread.
pub(crate) fn is_planted(defect: Planted) -> bool {
    PLANTED.get() == Some(defect)
}

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// SplitMix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    #[allow(clippy::unwrap_used)]
    pub(crate) fn below32(&mut self, end: u32) -> u32 {
        u32::try_from(self.below(u64::from(end))).unwrap()
    }
}
