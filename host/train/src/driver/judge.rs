//! Early stopping, which selects the best model of a seed and ends its training when it no longer
//! improves.
//!
//! The best model is the one with the best validation metric. Among equals it is the first one, or
//! the last one with `run.keep = "last-best"`. The training ends if the metric has not improved by
//! more than `run.min_delta` for `run.patience` epochs. The rule is from Prechelt 1998, in the form
//! of Keras's `EarlyStopping`.
//!
//! The training also ends at the first evaluation that reaches `run.until`.

use eciton_recipe::{Keep, Run, Until};
use eciton_runs::report::Metrics;

/// Decision about the best model and the end of the training, made after an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Judged {
    /// True if the evaluated model is the best so far.
    pub best: bool,
    /// Number of epochs since the metric last improved, if the training should end now. `None` if
    /// it should continue.
    pub stop: Option<u32>,
}

/// State of early stopping for one seed: the settings, and the best validation metrics so far.
#[derive(Debug, Clone)]
pub(super) struct Judge {
    patience: Option<u32>,
    /// Number of steps per epoch.
    rounds: u32,
    until: Option<Until>,
    min_delta: f64,
    /// True if the latest of several equally good models counts as the best (`run.keep =
    /// "last-best"`).
    last: bool,
    highest: Option<f64>,
    /// Latest step after which the metric had improved by more than `min_delta`, and its metric.
    better: Option<(u32, f64)>,
}

impl Judge {
    /// Creates the state before the first evaluation, with the settings in `run` and `rounds` steps
    /// per epoch.
    pub(super) fn new(run: &Run, rounds: u32) -> Self {
        let Run { patience, until, min_delta, keep, .. } = *run;
        let (last, rounds) = (keep == Keep::LastBest, rounds.max(1));
        Self { patience, rounds, until, min_delta, last, highest: None, better: None }
    }

    /// Returns `epoch` if its metrics reach the target `run.until`. Otherwise returns `None`.
    pub(super) fn reached(&self, epoch: u32, metrics: Option<Metrics>) -> Option<u32> {
        let (until, metrics) = self.until.zip(metrics)?;
        let found = metrics.value_on(until.part)?;
        until.is_reached(metrics.metric, found).then_some(epoch)
    }

    /// Decides whether the model after `step` is the best so far and whether the training should
    /// end. `validation` is the validation metric with a sign such that larger is better. Steps
    /// must be passed in ascending order.
    pub(super) fn judge(&mut self, step: u32, validation: Option<f64>) -> Judged {
        let Some(found) = validation else { return Judged { best: false, stop: None } };
        let best = self.highest.is_none_or(|highest| found > highest || self.last && found == highest);
        if best {
            self.highest = Some(found);
        }
        let (since, accuracy) = *self.better.get_or_insert((step, found));
        if found > accuracy + self.min_delta {
            self.better = Some((step, found));
            return Judged { best, stop: None };
        }
        let without = step.saturating_sub(since) / self.rounds;
        Judged { best, stop: self.patience.filter(|&patience| without >= patience).map(|_| without) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_recipe::Metric;

    fn judged(
        patience: Option<u32>,
        min_delta: f64,
        accuracies: &[(u32, f64)],
    ) -> (Vec<u32>, Option<(u32, u32)>) {
        let mut judge = Judge::new(&Run { patience, min_delta, ..Run::default() }, 1);
        let mut best = Vec::new();
        for &(epoch, accuracy) in accuracies {
            let found = judge.judge(epoch, Some(accuracy));
            best.extend(found.best.then_some(epoch));
            if let Some(without) = found.stop {
                return (best, Some((epoch, without)));
            }
        }
        (best, None)
    }

    #[test]
    fn equals_are_no_better() {
        let accuracies = [(1, 0.2), (2, 0.5), (3, 0.5), (4, 0.4), (5, 0.5), (6, 0.6)];
        assert_eq!(judged(Some(3), 0.0, &accuracies), (vec![1, 2], Some((5, 3))));
        assert_eq!(judged(Some(4), 0.0, &accuracies), (vec![1, 2, 6], None));
        assert_eq!(judged(None, 0.0, &accuracies), (vec![1, 2, 6], None));
        assert_eq!(judged(Some(1), 0.0, &accuracies), (vec![1, 2], Some((3, 1))));
    }

    #[test]
    fn the_last_of_equals_is_the_best_where_that_is_asked_for() {
        let mut judge = Judge::new(&Run { patience: Some(3), keep: Keep::LastBest, ..Run::default() }, 1);
        let judged = [0.5, 0.25, 0.5, 0.5].map(Some).into_iter().zip(1..);
        let found = judged.map(|(metric, epoch)| judge.judge(epoch, metric));
        let found: Vec<_> = found.map(|judged| (judged.best, judged.stop)).collect();
        // Patience counts from the first one of equal metrics.
        assert_eq!(found, [(true, None), (false, None), (true, None), (true, Some(3))]);
    }

    #[test]
    fn small_steps_are_best_but_not_better() {
        let creeping: Vec<_> = (1..=9).map(|e| (e, 0.5 + f64::from(e) / 64.0)).collect();
        // 3 / 64 above the first: epoch 4 is not above it, epoch 5 is.
        assert_eq!(judged(Some(3), 3.0 / 64.0, &creeping), (vec![1, 2, 3, 4], Some((4, 3))));
        assert_eq!(judged(Some(4), 3.0 / 64.0, &creeping), ((1..=9).collect(), None));
    }

    #[test]
    fn epochs_count_and_not_evaluations() {
        let every_ten = [(10, 0.5), (20, 0.4), (30, 0.4), (40, 0.4)];
        assert_eq!(judged(Some(15), 0.0, &every_ten), (vec![10], Some((30, 20))));
        assert_eq!(judged(Some(20), 0.0, &every_ten), (vec![10], Some((30, 20))));
        assert_eq!(judged(Some(21), 0.0, &every_ten), (vec![10], Some((40, 30))));
    }

    #[test]
    fn a_target_is_of_its_part_and_from_its_side() {
        let reached = |until: &str, metric, test| {
            let judge = Judge::new(&Run { until: Some(until.parse().unwrap()), ..Run::default() }, 1);
            let metrics = Metrics { metric, train: Some(1.0), validation: None, test: Some(test) };
            judge.reached(7, Some(metrics))
        };
        assert_eq!(reached("test=0.5", Metric::Accuracy, 0.5), Some(7));
        assert_eq!(reached("test=0.5", Metric::Accuracy, 0.49), None);
        assert_eq!(reached("val=0.5", Metric::Accuracy, 0.9), None);
        assert_eq!(reached("test=0.5", Metric::MeanAbsoluteError, 0.51), None);
        assert_eq!(reached("test=0.5", Metric::MeanAbsoluteError, 0.4), Some(7));
        assert_eq!(Judge::new(&Run::default(), 1).reached(7, Some(Metrics::default())), None);
    }

    #[test]
    fn without_an_accuracy_nothing_is_judged() {
        let mut judge = Judge::new(&Run { patience: Some(1), ..Run::default() }, 1);
        for epoch in 1..9 {
            assert_eq!(judge.judge(epoch, None), Judged { best: false, stop: None });
        }
    }
}
