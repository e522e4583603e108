//! Progress within an epoch or evaluation, formatted as a line or as fields of the progress bar.

use std::time::{Duration, Instant};

use eciton_train::{Activity, Progress};

use super::pace::rounded;
use crate::output::tell;
use crate::text::grouped;

/// Minimum time between two progress lines on standard error.
const EVERY: Duration = Duration::from_secs(5);

/// Returns the number of finished steps (weight updates), the total number, and the word `step`. If
/// an epoch has only one step, its tasks are counted instead.
fn units(progress: &Progress) -> (u64, u64, &'static str) {
    match progress.batches {
        (done, all) if all > 1 => (done.into(), all.into(), "step"),
        _ => (progress.steps.0, progress.steps.1, "task"),
    }
}

/// Formats the speed in steps or tasks per second. A speed below 1 per second is formatted as
/// seconds per step or task.
fn rate(progress: &Progress) -> String {
    let (_, all, name) = units(progress);
    let share = progress.steps_here as f64 / progress.steps.1.max(1) as f64;
    let rate = share * all as f64 / progress.seconds.max(1e-9);
    match rate {
        100.0.. => format!("{} {name}s/s", grouped(rate as u64)),
        1.0.. => format!("{rate:.1} {name}s/s"),
        _ => format!("{:.1} s/{name}", 1.0 / rate.max(1e-9)),
    }
}

/// Returns the fields that the progress bar shows during an epoch or evaluation, each with a rank.
/// On a narrow terminal, fields with the largest rank are omitted first.
pub(super) fn fields(progress: &Progress) -> Vec<(u8, String)> {
    let (done, all, name) = units(progress);
    let name = match progress.activity {
        Activity::Epoch(_) => name.to_owned(),
        Activity::Evaluation => format!("evaluation, {name}"),
    };
    let mut fields = vec![(1, format!("{name} {}/{}", grouped(done), grouped(all))), (6, rate(progress))];
    fields.extend(progress.seconds_left().map(|left| (5, format!("{} to end", rounded(left)))));
    fields
}

/// Formats the progress within an epoch or evaluation as a line of text.
fn line(progress: &Progress) -> String {
    let (done, all, name) = units(progress);
    let (activity, end) = match progress.activity {
        Activity::Epoch(epoch) => (format!("epoch {epoch}"), "the epoch"),
        Activity::Evaluation => ("evaluation".to_owned(), "the evaluation"),
    };
    let left =
        progress.seconds_left().map_or_else(String::new, |left| format!(", {} left in {end}", rounded(left)));
    format!("{activity}: {name} {} of {}, {}{left}", grouped(done), grouped(all), rate(progress))
}

/// Printer of progress lines on standard error. It prints at most one line per [`EVERY`].
#[derive(Debug)]
pub(super) struct ProgressLines {
    last: Instant,
}

impl ProgressLines {
    pub(super) fn new() -> Self {
        Self { last: Instant::now() }
    }

    /// Records that an epoch has finished. The line about the epoch shows progress too, so the next
    /// progress line waits for the full time.
    pub(super) fn epoch(&mut self) {
        self.last = Instant::now();
    }

    /// Returns true if at least [`EVERY`] has passed since the last line.
    pub(super) fn is_due(&self) -> bool {
        self.last.elapsed() >= EVERY
    }

    /// Prints a progress line if enough time has passed since the last line.
    pub(super) fn progress(&mut self, progress: &Progress) {
        if self.is_due() {
            self.last = Instant::now();
            tell(line(progress));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(activity: Activity, batches: (u32, u32), steps: (u64, u64), seconds: f64) -> Progress {
        Progress { seed: 0, activity, batches, steps, steps_here: steps.0, seconds }
    }

    #[test]
    fn several_steps_are_counted() {
        let found = progress(Activity::Epoch(3), (370, 5000), (3700, 50_000), 20.0);
        assert_eq!(line(&found), "epoch 3: step 370 of 5,000, 18.5 steps/s, 4 min 10 s left in the epoch");
        let texts: Vec<String> = fields(&found).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["step 370/5,000", "18.5 steps/s", "4 min 10 s to end"]);
        let slow = progress(Activity::Epoch(1), (1, 8), (5, 40), 20.0);
        assert_eq!(line(&slow), "epoch 1: step 1 of 8, 20.0 s/step, 2 min 20 s left in the epoch");
    }

    #[test]
    fn an_epoch_of_one_step_and_an_evaluation_are_counted_by_tasks() {
        let found = progress(Activity::Epoch(1), (0, 1), (120, 400), 4.0);
        assert_eq!(line(&found), "epoch 1: task 120 of 400, 30.0 tasks/s, 10 s left in the epoch");
        let found = progress(Activity::Evaluation, (0, 1), (3000, 4000), 2.0);
        assert_eq!(
            line(&found),
            "evaluation: task 3,000 of 4,000, 1,500 tasks/s, 1 s left in the evaluation"
        );
    }
}
