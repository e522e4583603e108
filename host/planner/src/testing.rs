//! Planted defects, and random numbers for tests.

use std::cell::Cell;

#[path = "../../recipe/src/testing.rs"]
mod random;
pub(crate) use random::Random;

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
