//! Progress within an epoch. Committed steps are counted, and reported to the observer if the epoch
//! takes longer than one second.
//!
//! Counting costs an addition per commit, and a comparison of times whenever the driver wakes up.
//! The results of a run do not depend on it.

use std::time::{Duration, Instant};

use eciton_runs::report::{Activity, Progress};
use eciton_types::Round;

use super::epochs::Epochs;

/// Time between the start of an epoch and its first progress report.
const FIRST: Duration = Duration::from_secs(1);
/// Time between two progress reports in the same epoch.
const EVERY: Duration = Duration::from_millis(500);

/// Progress meter of a pass (one run of the engine). It counts committed steps and decides when a
/// report is due.
#[derive(Debug)]
pub(super) struct Meter {
    /// Number of rounds per epoch. `None` if the pass is an evaluation.
    epochs: Option<Epochs>,
    seed: u64,
    /// Number of steps per round.
    steps: u64,
    /// Last round that was complete before the pass began.
    first: Round,
    /// Number of steps that the pass has committed so far.
    committed: u64,
    /// Number of the epoch in progress, from 1.
    epoch: u32,
    begun: Instant,
    due: Instant,
}

impl Meter {
    /// Creates a meter for a pass that starts after round `first` and has `steps` steps per round.
    pub(super) fn new(epochs: Option<Epochs>, seed: u64, steps: u64, first: Round, now: Instant) -> Self {
        let epoch = epochs.map_or(0, |epochs| epochs.at(Round(first.0.saturating_add(1))));
        Self { epochs, seed, steps, first, committed: 0, epoch, begun: now, due: now + FIRST }
    }

    /// Counts one committed step.
    pub(super) fn commit(&mut self) {
        self.committed += 1;
    }

    /// Returns the progress of the current epoch or evaluation if a report is due. Otherwise
    /// returns `None`. `over` is the last complete round.
    pub(super) fn report(&mut self, over: Round, now: Instant) -> Option<Progress> {
        if now < self.due {
            return None;
        }
        let Some(epochs) = self.epochs else {
            self.due = now + EVERY;
            return self.progress(Activity::Evaluation, (self.first, 1), over, now);
        };
        let epoch = epochs.at(Round(over.0.saturating_add(1)));
        if epoch != self.epoch {
            // The epoch began at some time since the previous call.
            (self.epoch, self.begun, self.due) = (epoch, now, now + FIRST);
            return None;
        }
        self.due = now + EVERY;
        self.progress(
            Activity::Epoch(epoch),
            (epochs.last(epoch.saturating_sub(1)), epochs.rounds()),
            over,
            now,
        )
    }

    /// Returns the progress through the `rounds` rounds that follow round `from`. Returns `None` if
    /// this pass has committed no step of them.
    fn progress(
        &self,
        activity: Activity,
        (from, rounds): (Round, u32),
        over: Round,
        now: Instant,
    ) -> Option<Progress> {
        let steps = self.steps * u64::from(rounds);
        // A resumed run may begin inside an epoch. Steps of later rounds may already be committed.
        let before = u64::from(from.0.saturating_sub(self.first.0)) * self.steps;
        let earlier = u64::from(self.first.0.saturating_sub(from.0)) * self.steps;
        let done = (self.committed + earlier).saturating_sub(before).min(steps);
        (done > earlier).then(|| Progress {
            seed: self.seed,
            activity,
            batches: (over.0.saturating_sub(from.0).min(rounds), rounds),
            steps: (done, steps),
            steps_here: done - earlier,
            seconds: now.saturating_duration_since(self.begun).as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn after(start: Instant, seconds: f64) -> Instant {
        start + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn an_epoch_of_several_batches_is_reported_by_batch() {
        let start = Instant::now();
        let mut meter = Meter::new(Some(Epochs::with_rounds(10)), 3, 4, Round(20), start);
        (0..18).for_each(|_| meter.commit());
        assert_eq!(meter.report(Round(24), after(start, 0.5)), None, "too early");
        let found = meter.report(Round(24), after(start, 2.0)).unwrap();
        assert_eq!((found.seed, found.activity), (3, Activity::Epoch(3)));
        assert_eq!((found.batches, found.steps, found.seconds), ((4, 10), (18, 40), 2.0));
        assert_eq!(found.seconds_left(), Some(2.0 / 18.0 * 22.0));
        assert_eq!(meter.report(Round(24), after(start, 2.1)), None, "reported a moment ago");
        // The next epoch begins anew.
        (0..24).for_each(|_| meter.commit());
        assert_eq!(meter.report(Round(30), after(start, 4.0)), None);
        let found = meter.report(Round(30), after(start, 5.5)).unwrap();
        assert_eq!((found.activity, found.steps, found.seconds), (Activity::Epoch(4), (2, 40), 1.5));
    }

    #[test]
    fn a_run_that_goes_on_inside_an_epoch_counts_the_batches_before() {
        let start = Instant::now();
        let mut meter = Meter::new(Some(Epochs::with_rounds(10)), 0, 2, Round(25), start);
        assert_eq!(meter.report(Round(25), after(start, 2.0)), None, "nothing is known of the pace");
        (0..4).for_each(|_| meter.commit());
        let found = meter.report(Round(27), after(start, 3.0)).unwrap();
        assert_eq!((found.batches, found.steps, found.steps_here), ((7, 10), (14, 20), 4));
        assert_eq!(found.seconds_left(), Some(3.0 / 4.0 * 6.0));
    }

    #[test]
    fn an_evaluation_is_one_round() {
        let start = Instant::now();
        let mut meter = Meter::new(None, 0, 8, Round(7), start);
        (0..6).for_each(|_| meter.commit());
        let found = meter.report(Round(7), after(start, 1.5)).unwrap();
        assert_eq!((found.activity, found.batches, found.steps), (Activity::Evaluation, (0, 1), (6, 8)));
        // More commits than steps are those of steps that were done again.
        (0..6).for_each(|_| meter.commit());
        assert_eq!(meter.report(Round(7), after(start, 3.0)).unwrap().steps, (8, 8));
    }
}
