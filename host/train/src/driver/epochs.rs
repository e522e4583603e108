//! Epochs and rounds: a pass over the training rows is as many rounds as there are batches.

use eciton_plan::Round;

/// How many rounds an epoch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epochs(u32);

impl Epochs {
    /// With so many rounds each; at least one.
    pub(crate) fn of(rounds: u32) -> Self {
        Self(rounds.max(1))
    }

    /// Rounds of one.
    pub(crate) fn rounds(self) -> u32 {
        self.0
    }

    /// The epoch of a round; 0 before the first.
    pub(crate) fn at(self, round: Round) -> u32 {
        round.0.div_ceil(self.0)
    }

    /// The last round of an epoch.
    pub(crate) fn last(self, epoch: u32) -> Round {
        Round(epoch.saturating_mul(self.0))
    }

    /// Whether an epoch ends with a round.
    pub(crate) fn ends(self, round: Round) -> bool {
        round.0.is_multiple_of(self.0)
    }
}

/// An epoch as far as it is.
#[derive(Debug, Default, Clone)]
pub(super) struct Sum {
    rounds: u32,
    loss: f64,
    norm: f64,
}

impl Sum {
    /// Counts a round.
    pub(super) fn add(&mut self, loss: f64, norm: Option<f64>) {
        self.rounds += 1;
        self.loss += loss;
        self.norm += norm.unwrap_or(0.0);
    }

    /// Means over its rounds of the loss, and of the gradients' norm where that is known.
    pub(super) fn means(&self, norm: Option<f64>) -> (f64, Option<f64>) {
        let count = f64::from(self.rounds.max(1));
        (self.loss / count, norm.map(|_| self.norm / count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_counted_by_rounds() {
        let epochs = Epochs::of(3);
        assert_eq!([0, 1, 3, 4, 6].map(|round| epochs.at(Round(round))), [0, 1, 1, 2, 2]);
        assert_eq!((epochs.last(2), epochs.ends(Round(6)), epochs.ends(Round(5))), (Round(6), true, false));
        assert_eq!(Epochs::of(0).rounds(), 1);
        let mut sum = Sum::default();
        [(1.0, Some(2.0)), (3.0, Some(4.0))].into_iter().for_each(|(loss, norm)| sum.add(loss, norm));
        assert_eq!((sum.means(Some(4.0)), sum.means(None)), ((2.0, Some(3.0)), (2.0, None)));
    }
}
