//! Search for the first value that is not finite, in a round that is repeated.
//!
//! A run checks only its loss and its gradients. If one of them is not finite, the round is
//! repeated with a [`Watch`]. It checks all rows and sums of each step before another step
//! overwrites them.

use std::cell::RefCell;

use eciton_types::{IntervalId, StageId, Step};

use crate::nan_trace::NanTrace;

/// Result of the search so far: the finding of the first stage, and of its first interval.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    first: RefCell<Option<((StageId, IntervalId), NanTrace)>>,
}

impl Watch {
    /// Returns the finding.
    pub(crate) fn found(self) -> Option<NanTrace> {
        self.first.into_inner().map(|(_, culprit)| culprit)
    }

    /// Records a finding in a step.
    pub(super) fn record(&self, step: Step, found: NanTrace) {
        *self.first.borrow_mut() = Some(((step.stage, step.interval), found));
    }

    /// Returns true if the finding precedes a step.
    pub(super) fn is_before(&self, step: Step) -> bool {
        self.first.borrow().as_ref().is_some_and(|(first, _)| *first <= (step.stage, step.interval))
    }
}
