//! Estimate of the remaining time of a run, based on the time of its finished steps (weight updates).

use std::time::{Duration, Instant};

use eciton_train::{Activity, EpochReport, Progress, Started};

use crate::text::seconds;

/// Counter of the finished steps of a run, from which the remaining time is estimated.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Time at which this process started to train. `None` before that.
    begun: Option<Instant>,
    /// Number of steps that were finished before `begun`, by earlier processes of a resumed run.
    before: f64,
    /// Number of finished steps of all seeds, including those of earlier processes. It has a
    /// fraction while a step is in progress.
    done: f64,
    /// Seeds of the run, in their order.
    seeds: Vec<u64>,
    /// Number of steps of each seed, and of those per epoch.
    steps: (u32, u32),
}

impl Pace {
    /// Creates an estimate for a run that has just started.
    pub(super) fn new(started: &Started) -> Self {
        let (seeds, steps) = (started.seeds.clone(), started.steps);
        Self { begun: Some(Instant::now()), before: 0.0, done: 0.0, seeds, steps }
    }

    /// Returns the number of steps of all seeds.
    pub(super) fn all(&self) -> u64 {
        u64::from(self.steps.0) * self.seeds.len() as u64
    }

    /// Returns the number of steps of each seed, if epochs have several steps.
    pub(super) fn steps(&self) -> Option<u32> {
        Some(self.steps.0).filter(|_| self.steps.1 > 1)
    }

    /// Returns the estimated remaining time in seconds. It is based on the mean time of a step with
    /// its evaluations, where `gone` is the time since this process started to train. Returns `None`
    /// after the last step. Also returns `None` before the second step, unless the progress within
    /// the first one is known.
    fn left(&self, gone: Duration) -> Option<f64> {
        let here = self.done - self.before;
        let left = self.all() as f64 - self.done;
        (here > 0.0 && here != 1.0 && left > 0.0).then(|| gone.as_secs_f64() / here * left)
    }

    /// Records that `step` of `seed` has finished.
    fn reach(&mut self, seed: u64, step: f64) {
        let index = self.seeds.iter().position(|of| *of == seed).unwrap_or(0);
        self.done = index as f64 * f64::from(self.steps.0) + step;
    }

    /// Records a report.
    pub(super) fn report(&mut self, report: &EpochReport) {
        self.reach(report.seed, report.step.into());
    }

    /// Records the progress within an epoch. Progress of an evaluation is ignored.
    pub(super) fn inside(&mut self, progress: &Progress) {
        if let Activity::Epoch(epoch) = progress.activity {
            let epochs = f64::from(epoch.saturating_sub(1)) + progress.share().clamp(0.0, 1.0);
            self.reach(progress.seed, epochs * f64::from(self.steps.1));
        }
    }

    /// Returns the number of finished steps, with the finished share of the step in progress.
    pub(super) fn done(&self) -> f64 {
        self.done
    }

    /// Restarts the estimate for a resumed run, of which earlier processes have finished `epochs`
    /// epochs.
    pub(super) fn go_on(&mut self, epochs: f64) {
        let done = epochs * f64::from(self.steps.1);
        (self.begun, self.before, self.done) = (Some(Instant::now()), done, done);
    }

    /// Returns true if all steps of the run are finished.
    pub(super) fn is_over(&self) -> bool {
        self.done >= self.all() as f64
    }

    /// Returns the remaining time as text, or `-` if it cannot be estimated yet.
    pub(super) fn text(&self) -> String {
        let gone = self.begun.map(|begun| begun.elapsed());
        gone.and_then(|gone| self.left(gone)).map_or_else(|| "-".to_owned(), rounded)
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
    fn the_time_left_follows_from_the_steps_of_this_process() {
        let seeds = vec![7, 8];
        let mut pace = Pace { seeds, steps: (50, 5), ..Pace::default() };
        assert_eq!((pace.all(), pace.steps(), pace.text()), (100, Some(50), "-".to_owned()));
        pace.go_on(10.0);
        assert_eq!(pace.left(Duration::from_secs(1)), None);
        pace.reach(8, 10.0);
        assert_eq!(pace.left(Duration::from_secs(5)), Some(20.0));
        let batches = (2, 5);
        let inside = Progress {
            seed: 8,
            activity: Activity::Epoch(3),
            batches,
            steps: (1, 2),
            steps_here: 1,
            seconds: 1.0,
        };
        pace.inside(&inside);
        assert_eq!((pace.left(Duration::from_secs(25)), pace.done()), (Some(75.0), 62.5));
        pace.inside(&Progress { activity: Activity::Evaluation, ..inside });
        assert_eq!((pace.done(), pace.is_over()), (62.5, false));
        pace.reach(8, 50.0);
        assert_eq!((pace.left(Duration::from_secs(25)), pace.is_over()), (None, true));
    }

    #[test]
    fn estimates_have_no_fractions_of_seconds() {
        assert_eq!([0.2, 19.5, 75.0, 7500.0].map(rounded), ["1 s", "20 s", "1 min 15 s", "2 h 05 min"]);
    }
}
