//! Evaluation without a score matrix. Scores are added to a metric as soon as steps have written
//! them.

use std::cell::RefCell;

use eciton_graph::dataset::Split;
use eciton_graph::metrics::{Folded, Terms};
use eciton_recipe::Metric;
use eciton_runs::report::{Metrics, Quality};
use eciton_types::IntervalId;

use super::rows::RowStore;
use crate::data::{Inputs, Interval};
use crate::error::{Error, Result, at};

/// A metric that is accumulated from the scores of an evaluation, interval by interval. The scores
/// are not stored, which saves the memory of a full score matrix.
#[derive(Debug)]
pub(crate) struct Fold {
    terms: RefCell<Terms>,
    /// Rows on which the metric is computed, if these are not all rows of the split.
    limited: Option<Split>,
}

impl Fold {
    /// Creates an accumulator for `metric` without any scores. If `limited` is given, the metric is
    /// computed on its rows only.
    pub(crate) fn new(metric: Folded, inputs: &Inputs, limited: Option<Split>) -> Result<Self> {
        let labels = inputs.learnt().0;
        let terms = Terms::new(metric, labels, inputs.shape.rows as usize);
        let terms = terms.ok_or_else(|| Error::Internal(format!("{metric:?} does not fit the labels")))?;
        Ok(Self { terms: RefCell::new(terms), limited })
    }

    /// Adds the scores that a step has written for `interval` to the metric. Their buffer then
    /// returns to the row store for use by other intervals.
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

    /// Returns the quality on the vertices `ids`. Returns `None` if the metric is not computed from
    /// classes. `part` is the name of this part of the split.
    pub(super) fn quality(&self, inputs: &Inputs, (part, ids): (&str, &[u32])) -> Option<Quality> {
        let tally = self.terms.borrow().tally(inputs.learnt().0, ids)?;
        Some(Quality::from_tally(part, &tally, &inputs.dataset.names))
    }

    /// Computes the metric on the training, validation and test rows from the scores so far.
    pub(super) fn measured(&self, inputs: &Inputs, metric: Metric) -> Metrics {
        let (labels, split) = inputs.learnt();
        let split = self.limited.as_ref().unwrap_or(split);
        let terms = self.terms.borrow();
        let of = |ids: &[u32]| terms.metric(labels, ids);
        Metrics { metric, train: of(&split.train), validation: of(&split.validation), test: of(&split.test) }
    }
}
