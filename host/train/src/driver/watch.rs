//! Search for the first value that is not finite, in a round that is repeated.
//!
//! A run checks only its loss and its gradients. If one of them is not finite, the round is
//! repeated with a [`Watch`]. The watch checks all rows and sums of each step before another step
//! overwrites them.

use std::cell::RefCell;

use eciton_types::{IntervalId, StageId, Step};

use crate::nan_trace::NanTrace;

/// Result of the search so far: the finding of the earliest stage and, within that stage, of its
/// first interval.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    first: RefCell<Option<((StageId, IntervalId), NanTrace)>>,
}

impl Watch {
    /// Returns the first value that is not finite, if the search has found one.
    pub(crate) fn found(self) -> Option<NanTrace> {
        self.first.into_inner().map(|(_, culprit)| culprit)
    }

    /// Records a value that is not finite in a step. It replaces an earlier finding.
    pub(super) fn record(&self, step: Step, found: NanTrace) {
        *self.first.borrow_mut() = Some(((step.stage, step.interval), found));
    }

    /// Returns true if there is a finding in an earlier stage or interval than `step`, or in `step`
    /// itself. Then `step` need not be checked.
    pub(super) fn is_before(&self, step: Step) -> bool {
        self.first.borrow().as_ref().is_some_and(|(first, _)| *first <= (step.stage, step.interval))
    }
}
