//! The time that a run will still take, by that of its epochs so far.

use std::time::{Duration, Instant};

use crate::text::seconds;

/// Epochs that are done, and how many there will be.
#[derive(Debug)]
pub(super) struct Pace {
    begun: Instant,
    /// Epochs done before `begun`: those of a process before this one.
    before: u64,
    pub(super) done: u64,
    all: u64,
    /// Share of the epoch in progress that is done.
    inside: f64,
}

impl Pace {
    /// A pace of `all` epochs of all seeds, of which `done` are.
    pub(super) fn new(all: u64, done: u64) -> Self {
        Self { begun: Instant::now(), before: done, done, all, inside: 0.0 }
    }

    /// The time left at the mean of the epochs so far, evaluations included. `None` after the last
    /// epoch, and before the second one unless that takes so long that its own progress is known.
    fn left(&self, gone: Duration) -> Option<f64> {
        let here = self.done.saturating_sub(self.before);
        let left = self.all.saturating_sub(self.done);
        let known = here >= 2 || self.inside > 0.0;
        (known && left > 0)
            .then(|| gone.as_secs_f64() / (here as f64 + self.inside) * (left as f64 - self.inside))
    }

    /// An epoch is over.
    pub(super) fn epoch(&mut self) {
        (self.done, self.inside) = (self.done + 1, 0.0);
    }

    /// Records the share of the current epoch that is done.
    pub(super) fn inside(&mut self, share: f64) {
        self.inside = share.clamp(0.0, 1.0);
    }

    /// Epochs that are done, with the share of the one in progress.
    pub(super) fn epochs(&self) -> f64 {
        self.done as f64 + self.inside
    }

    /// So many epochs were done by a process before this one.
    pub(super) fn go_on(&mut self, done: u64) {
        *self = Self::new(self.all, done);
    }

    /// Returns whether all epochs are done.
    pub(super) fn is_over(&self) -> bool {
        self.done >= self.all
    }

    /// The time left in words; `-` where none is known.
    pub(super) fn told(&self) -> String {
        self.left(self.begun.elapsed()).map_or_else(|| "-".to_owned(), rounded)
    }
}

/// A time that is an estimate: no part of a second.
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
        assert_eq!((pace.left(Duration::from_secs(1)), pace.told()), (None, "-".to_owned()));
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
