//! Scores that are folded into a metric as they come.

use std::cell::RefCell;

use eciton_graph::metrics::{Folded, Terms};
use eciton_plan::{IntervalId, Metric};

use super::rows::RowStore;
use crate::data::{Inputs, Interval};
use crate::error::{Error, Result, at};
use crate::report::{Metrics, Quality};

/// What is left of the scores of an evaluation.
#[derive(Debug)]
pub(crate) struct Fold {
    terms: RefCell<Terms>,
}

impl Fold {
    /// Of no scores yet.
    pub(crate) fn new(metric: Folded, inputs: &Inputs) -> Result<Self> {
        let labels = inputs.learnt().0;
        let terms = Terms::new(metric, labels, inputs.shape.rows as usize);
        let terms = terms.ok_or_else(|| Error::Internal(format!("{metric:?} of other labels")))?;
        Ok(Self { terms: RefCell::new(terms) })
    }

    /// Takes a step's scores out of the store, whose place is free then.
    pub(super) fn take(
        &self,
        rows: &RowStore,
        inputs: &Inputs,
        (id, interval): (IntervalId, &Interval),
    ) -> Result<()> {
        let scores = rows.take(id)?;
        let lease = scores.read(0..interval.rows.len()).map_err(at("scores"))?;
        let view = lease.view();
        let labels = inputs.learnt().0;
        self.terms.borrow_mut().take(labels, interval.rows.clone(), view.data(), view.stride());
        drop(lease);
        rows.give_back(scores);
        Ok(())
    }

    /// The tally of a part; `None` where the metric's terms are no classes.
    pub(super) fn quality(&self, inputs: &Inputs, (part, ids): (&str, &[u32])) -> Option<Quality> {
        let tally = self.terms.borrow().tally(inputs.learnt().0, ids)?;
        Some(Quality::of(part, &tally, &inputs.dataset.names))
    }

    /// The metric of all rows.
    pub(super) fn measured(&self, inputs: &Inputs, metric: Metric) -> Metrics {
        let (labels, split) = inputs.learnt();
        let terms = self.terms.borrow();
        let of = |ids: &[u32]| terms.metric(labels, ids);
        Metrics { metric, train: of(&split.train), validation: of(&split.validation), test: of(&split.test) }
    }
}
