//! Table of epochs, which is printed if standard output is not a terminal.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_train::{
    Chosen, EpochReport, Metrics, Observer, PipelineTrial, Progress, Resumed, SeedReport, Started, Stop,
};

use super::inside::ProgressLines;
use super::pace::Pace;
use super::{cut, log, part, resolved_settings, resumed, stalled, stop_if_closed, tried, warning};
use crate::output::{Output, tell};
use crate::text::unit;

/// An observer of a run that prints a table of epochs. The table has the first epoch, the last
/// epoch, and one epoch every 3 seconds. Metrics that are shares are printed in per cent.
pub(crate) struct Lines<'a> {
    output: &'a mut Output,
    stop: Arc<Stop>,
    several: bool,
    pace: Pace,
    /// Time at which the last line was written.
    written: Option<Instant>,
    /// Report of the last finished epoch. `None` if its line was already written.
    unwritten: Option<EpochReport>,
    progress_lines: ProgressLines,
}

impl<'a> Lines<'a> {
    /// Minimum time between two lines of the table.
    const EVERY: Duration = Duration::from_secs(3);

    pub(crate) fn new(output: &'a mut Output, stop: Arc<Stop>) -> Self {
        Self {
            output,
            stop,
            several: false,
            pace: Pace::default(),
            written: None,
            unwritten: None,
            progress_lines: ProgressLines::new(),
        }
    }

    /// Formats the column of the step. It is empty if epochs have one step.
    fn step(&self, text: &dyn Display) -> String {
        self.pace.steps().map_or_else(String::new, |_| format!("  {text:>8}"))
    }

    fn write(&mut self) {
        let Some(report) = self.unwritten.take() else { return };
        let seed = if self.several { format!("{:>6}", report.seed) } else { String::new() };
        let part = |select: fn(&Metrics) -> Option<f64>| part(report.metrics.as_ref(), select);
        self.output.line(format_args!(
            "{seed:<6}{:>6}{}  {:>10.6}  {:>7}  {:>7}  {:>7}  {:>9.3}  {:>11}",
            report.epoch,
            self.step(&report.step),
            report.loss,
            part(|metrics| metrics.train),
            part(|metrics| metrics.validation),
            part(|metrics| metrics.test),
            report.seconds * 1e3,
            self.pace.text(),
        ));
        self.output.flush();
        self.written = Some(Instant::now());
    }
}

impl Observer for Lines<'_> {
    fn started(&mut self, started: &Started) {
        cut(started);
        if let Some(batches) = &started.batches {
            self.output.line(format_args!("{}", super::batches(batches)));
        }
        resolved_settings(started).for_each(|line| self.output.line(line));
        self.output.line("");
        self.several = started.seeds.len() > 1;
        self.pace = Pace::new(started);
        let seed = if self.several { "  seed" } else { "" };
        let column = |split: &str| format!("{split}{}", unit(started.metric));
        self.output.line(format_args!(
            "{seed:<6}{:>6}{}  {:>10}  {:>7}  {:>7}  {:>7}  {:>9}  {:>11}",
            "epoch",
            self.step(&"step"),
            "loss",
            column("train"),
            column("val"),
            column("test"),
            "ms",
            "time left"
        ));
    }

    fn resumed(&mut self, run: &Resumed) {
        self.pace.go_on(run.epochs_done);
        resumed(run);
    }

    fn epoch(&mut self, report: &EpochReport) {
        self.pace.report(report);
        self.progress_lines.epoch();
        self.unwritten = Some(report.clone());
        if self.written.is_none_or(|at| at.elapsed() >= Self::EVERY) {
            self.write();
        }
        stop_if_closed(self.output, &self.stop);
    }

    fn progress(&mut self, progress: &Progress) {
        self.pace.inside(progress);
        if self.progress_lines.is_due() {
            // The line of the previous epoch is written before the lines of this epoch.
            self.write();
            self.progress_lines.progress(progress);
        }
    }

    fn tried(&mut self, trial: &PipelineTrial) {
        tried(trial).iter().for_each(|line| self.output.line(line));
    }

    fn chosen(&mut self, chosen: &Chosen) {
        self.output.line(format_args!("{}", super::chosen(chosen)));
    }

    fn seed(&mut self, _: &SeedReport) {
        self.write();
    }

    fn stalled(&mut self, seconds: u64, waits_for: &[String]) {
        stalled(seconds, waits_for);
    }

    fn waiting(&mut self, text: &str) {
        tell(text);
    }

    fn warning(&mut self, text: &str) {
        warning(text);
    }

    fn log(&mut self, kernel: &str, line: &str) {
        log(kernel, line);
    }
}

impl Drop for Lines<'_> {
    /// Writes the line of the last epoch if it was not written yet, for instance after a failure.
    fn drop(&mut self) {
        self.write();
    }
}
