//! Planted defects, and random numbers for tests.

use std::cell::Cell;

#[path = "../../recipe/src/testing.rs"]
mod random;
pub(crate) use random::Random;

/// Defect that a test plants in the policy, the list schedule or the planners. A good test must
/// detect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// The cap of a lane is one visit less than its order needs.
    CapOneShort,
    /// A lane admits any visit that has a ready step, out of order.
    AdmittedOutOfOrder,
    /// Backward steps of a group run from the first chunk to the last, which is the wrong
    /// direction.
    ChunksNotReversed,
    /// A stage counts one micro-batch in flight too few.
    PathOneShort,
    /// The planners skip stages with more than two operators.
    LongRunsSkipped,
    /// The rows that a stage reads from other stages are not counted.
    InputForgotten,
    /// Rows that two operators of a stage read from another stage are counted twice.
    ReadTwice,
}

thread_local! {
    static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// Plants a defect in this thread, or removes it if `defect` is `None`.
pub(crate) fn plant(defect: Option<Planted>) {
    PLANTED.set(defect);
}

/// Returns true if this defect is planted in this thread.
pub(crate) fn is_planted(defect: Planted) -> bool {
    PLANTED.get() == Some(defect)
}
