//! Estimate of the remaining time of a run, based on the time of its finished epochs.

use std::time::{Duration, Instant};

use crate::text::seconds;

/// Counter of the finished epochs of a run, from which the remaining time is estimated.
#[derive(Debug)]
pub(super) struct Pace {
    /// Time at which this process started to train.
    begun: Instant,
    /// Number of epochs that were finished before `begun`, by earlier processes of a resumed run.
    before: u64,
    /// Number of finished epochs, including those of earlier processes.
    pub(super) done: u64,
    /// Total number of epochs of all seeds of the run.
    all: u64,
    /// Finished share of the epoch in progress, from 0 to 1.
    inside: f64,
}

impl Pace {
    /// Creates an estimate for a run of `all` epochs, of which earlier processes have finished
    /// `done`.
    pub(super) fn new(all: u64, done: u64) -> Self {
        Self { begun: Instant::now(), before: done, done, all, inside: 0.0 }
    }

    /// Returns the estimated remaining time in seconds. It is based on the mean time of an epoch
    /// with its evaluations, where `gone` is the time since this process started to train. Returns
    /// `None` after the last epoch. Also returns `None` if fewer than two epochs are finished and
    /// no progress within an epoch is known.
    fn left(&self, gone: Duration) -> Option<f64> {
        let here = self.done.saturating_sub(self.before);
        let left = self.all.saturating_sub(self.done);
        let known = here >= 2 || self.inside > 0.0;
        (known && left > 0)
            .then(|| gone.as_secs_f64() / (here as f64 + self.inside) * (left as f64 - self.inside))
    }

    /// Records that an epoch has finished.
    pub(super) fn epoch(&mut self) {
        (self.done, self.inside) = (self.done + 1, 0.0);
    }

    /// Records the finished share of the epoch in progress. Values outside the range 0 to 1 are
    /// clamped.
    pub(super) fn inside(&mut self, share: f64) {
        self.inside = share.clamp(0.0, 1.0);
    }

    /// Returns the number of finished epochs plus the finished share of the epoch in progress.
    pub(super) fn epochs(&self) -> f64 {
        self.done as f64 + self.inside
    }

    /// Restarts the estimate for a resumed run, of which earlier processes have finished `done`
    /// epochs.
    pub(super) fn go_on(&mut self, done: u64) {
        *self = Self::new(self.all, done);
    }

    /// Returns true if all epochs of the run are finished.
    pub(super) fn is_over(&self) -> bool {
        self.done >= self.all
    }

    /// Returns the remaining time as text, or `-` if it cannot be estimated yet.
    pub(super) fn text(&self) -> String {
        self.left(self.begun.elapsed()).map_or_else(|| "-".to_owned(), rounded)
    }
}

/// Formats an estimated time in seconds. Below a minute, it is rounded up to whole seconds.
pub(super) fn rounded(left: f64) -> String {
    match left {
        ..60.0 => format!("{:.0} s", left.ceil()),
        ..6000.0 => format!("{} min {:02} s", left as u64 / 60, left as u64 % 60),
        _ => seconds(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_epochs_of_this_process() {
        let mut pace = Pace::new(100, 50);
        assert_eq!((pace.left(Duration::from_secs(1)), pace.text()), (None, "-".to_owned()));
        pace.done = 60;
        assert_eq!(pace.left(Duration::from_secs(5)), Some(20.0));
        pace.inside(0.5);
        assert_eq!((pace.left(Duration::from_secs(21)), pace.epochs()), (Some(79.0), 60.5));
        pace.done = 99;
        pace.epoch();
        assert_eq!((pace.left(Duration::from_secs(25)), pace.epochs()), (None, 100.0));
        let mut first = Pace::new(4, 0);
        first.inside(0.25);
        assert_eq!(first.left(Duration::from_secs(10)), Some(150.0), "known inside of the first epoch");
    }

    #[test]
    fn estimates_have_no_fractions_of_seconds() {
        assert_eq!([0.2, 19.5, 75.0, 7500.0].map(rounded), ["1 s", "20 s", "1 min 15 s", "2 h 05 min"]);
    }
}
