//! Search for the first value that is not finite, in a round that is repeated.
//!
//! A run only checks its loss and its gradients. If one of them is not finite, the round is
//! repeated with a [`Watch`], which checks all rows and sums of each step before another step
//! overwrites them.

use std::cell::RefCell;

use eciton_types::{IntervalId, StageId, Step};

use crate::nan_trace::NanTrace;

/// The first value that is not finite, as found so far. Values are ordered by stage and then by
/// interval.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    first: RefCell<Option<((StageId, IntervalId), NanTrace)>>,
}

impl Watch {
    /// Returns the first value that is not finite. Returns `None` if the search has found none.
    pub(crate) fn found(self) -> Option<NanTrace> {
        self.first.into_inner().map(|(_, culprit)| culprit)
    }

    /// Records a value that is not finite in `step`. It replaces the one found before.
    pub(super) fn record(&self, step: Step, found: NanTrace) {
        *self.first.borrow_mut() = Some(((step.stage, step.interval), found));
    }

    /// Returns true if a value was already found in `step` or in an earlier stage or interval. The
    /// step then need not be checked.
    pub(super) fn is_before(&self, step: Step) -> bool {
        self.first.borrow().as_ref().is_some_and(|(first, _)| *first <= (step.stage, step.interval))
    }
}
