//! Epochs and rounds. An epoch is a pass over the training rows and takes one round (optimizer
//! step) per batch.

use eciton_recipe::Run;
use eciton_types::Round;
use serde::{Deserialize, Serialize};

use crate::batch::RoundRows;

/// Number of rounds per epoch. A round is one optimizer step over all micro-batches of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epochs(u32);

impl Epochs {
    /// Creates epochs of `rounds` rounds each, or of 1 round if `rounds` is 0.
    pub(crate) fn with_rounds(rounds: u32) -> Self {
        Self(rounds.max(1))
    }

    /// Returns the number of rounds per epoch.
    pub(crate) fn rounds(self) -> u32 {
        self.0
    }

    /// Returns the number of the epoch that contains `round`, from 1. Round 0 is before the
    /// training and belongs to epoch 0.
    pub(crate) fn at(self, round: Round) -> u32 {
        round.0.div_ceil(self.0)
    }

    /// Returns the last round of `epoch`.
    pub(crate) fn last(self, epoch: u32) -> Round {
        Round(epoch.saturating_mul(self.0))
    }

    /// Returns the last round of a whole training (`run.steps` or `run.epochs`). Returns `None` if
    /// there are too many rounds.
    pub(crate) fn end(self, run: &Run) -> Option<Round> {
        run.steps.or_else(|| run.epochs.checked_mul(self.0)).map(Round)
    }

    /// Returns the number of epochs that have ended after `round`.
    pub(crate) fn done(self, round: Round) -> u32 {
        round.0 / self.0
    }

    /// Returns true if `round` is the last round of an epoch.
    pub(crate) fn ends(self, round: Round) -> bool {
        round.0.is_multiple_of(self.0)
    }
}

/// Sums of the loss over the finished rounds of the current period. A period is an epoch or a part of
/// it.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sum {
    rounds: u32,
    /// Loss of the latest round. For a period with one round, it is returned unchanged, so that no
    /// rounding occurs.
    only: f64,
    /// Sum of the row losses of the period so far, weighted by the loss weights of the rows.
    losses: f64,
    /// Sum of the loss weights of the rows that `losses` includes.
    weights: f64,
}

impl Sum {
    /// Adds a finished round. `loss` is its mean over the rows that `rows` describes.
    pub(super) fn add(&mut self, loss: f64, rows: RoundRows) {
        self.rounds += 1;
        self.only = loss;
        self.losses += loss * rows.divisor;
        self.weights += rows.weights;
    }

    /// Returns the number of rounds of the period so far.
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Returns the mean loss over the rows of the period. It is 0 if no row has a weight.
    pub(super) fn mean(&self) -> f64 {
        match self.rounds {
            0 | 1 => self.only,
            _ if self.weights > 0.0 => self.losses / self.weights,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eciton_graph::random::SplitMix64;

    /// Returns the last round of a run whose epochs have 3 rounds.
    fn epochs_end(epochs: u32, steps: Option<u32>) -> Option<u32> {
        Epochs::with_rounds(3).end(&Run { epochs, steps, ..Run::default() }).map(|end| end.0)
    }

    #[test]
    fn epochs_are_counted_by_rounds() {
        let epochs = Epochs::with_rounds(3);
        assert_eq!([0, 1, 3, 4, 6].map(|round| epochs.at(Round(round))), [0, 1, 1, 2, 2]);
        assert_eq!((epochs.last(2), epochs.ends(Round(6)), epochs.ends(Round(5))), (Round(6), true, false));
        assert_eq!(Epochs::with_rounds(0).rounds(), 1);
        let mut sum = Sum::default();
        let rows = |rows: f64| RoundRows { divisor: rows, weights: rows };
        [(1.0, 3.0), (3.0, 1.0)].into_iter().for_each(|(loss, count)| sum.add(loss, rows(count)));
        assert_eq!((sum.mean(), sum.rounds()), (1.5, 2));
        let run = |epochs, steps| epochs_end(epochs, steps);
        assert_eq!([run(4, None), run(4, Some(7)), run(u32::MAX, None)], [Some(12), Some(7), None]);
    }

    #[test]
    fn the_loss_of_an_epoch_is_a_mean_over_rows_however_they_are_cut() {
        let seed = 71;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for case in 0..300 {
            let count = 1 + random.below(60) as usize;
            // Weights of 0 are those of classes that do not count.
            let rows: Vec<(f64, f64)> = (0..count)
                .map(|_| (random.below(1000) as f64 / 64.0, random.below(4) as f64 / 2.0))
                .collect();
            let weighted = |rows: &[(f64, f64)]| rows.iter().map(|(loss, weight)| loss * weight).sum::<f64>();
            let weights = |rows: &[(f64, f64)]| rows.iter().map(|(_, weight)| weight).sum::<f64>();
            let mut sum = Sum::default();
            for batch in rows.chunks(1 + random.below(20) as usize) {
                let total = weights(batch);
                // A sampler's rounds have one divisor, others divide by the weights of their rows.
                let divisor = match case % 2 {
                    0 => 7.0,
                    _ if total > 0.0 => total,
                    _ => 1.0,
                };
                sum.add(weighted(batch) / divisor, RoundRows { divisor, weights: total });
            }
            let total = weights(&rows);
            let expected = if total > 0.0 { weighted(&rows) / total } else { 0.0 };
            let found = sum.mean();
            let alone = sum.rounds == 1 && case % 2 == 0;
            assert!(
                alone || (found - expected).abs() < 1e-12 * (1.0 + expected),
                "case {case}: {found}, {expected}"
            );
        }
    }
}
