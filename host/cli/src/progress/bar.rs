//! Progress bar on standard error, which covers all steps (weight updates) of all seeds. It shows as many fields as
//! fit into the width of the terminal.

use std::io::Write as _;
use std::time::{Duration, Instant};

use eciton_train::{
    Activity, Chosen, EpochReport, Metrics, Observer, PipelineTrial, Progress, Resumed, Started,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::pace::Pace;
use super::{coloured, columns, cut, inside, log, part, resolved_settings, resumed, stalled, tried, warning};
use crate::logging;
use crate::output::{Output, tell};
use crate::text::{counted, grouped, seconds, unit};

/// Assumed width if a terminal does not report its width, in characters.
const USUAL_COLUMNS: usize = 80;
/// Width of the bar with its brackets and the following space, in characters.
const BAR_COLUMNS: usize = 15;

/// Number of bar positions per step. It is above 1, so that the bar also moves during a step.
const UNITS: u64 = 1000;

/// An observer of a run that draws a progress bar over all steps of all seeds.
pub(crate) struct Bar<'a> {
    output: &'a mut Output,
    bar: ProgressBar,
    /// Metrics of the last evaluation. They are stored because not every epoch is evaluated.
    metrics: Option<Metrics>,
    seeds: usize,
    epochs: u32,
    pace: Pace,
    /// Report of the last finished epoch. `None` if the bar already shows it.
    undrawn: Option<EpochReport>,
    /// Last reported training loss. `None` before the first epoch has finished.
    loss: Option<f64>,
    drawn: Option<Instant>,
}

impl<'a> Bar<'a> {
    /// Minimum time between two updates of the bar after epochs.
    const EVERY: Duration = Duration::from_millis(50);

    /// Returns a progress bar that is not drawn until its first update.
    pub(crate) fn unstarted() -> ProgressBar {
        ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr())
    }

    pub(crate) fn new(output: &'a mut Output, bar: ProgressBar) -> Self {
        let pace = Pace::default();
        Self { output, bar, metrics: None, seeds: 1, epochs: 0, pace, undrawn: None, loss: None, drawn: None }
    }

    /// Returns the fields that the bar shows after an epoch, in display order, each with a rank. On
    /// a narrow terminal, fields with the largest rank are omitted first.
    fn fields(&self, report: &EpochReport) -> Vec<(u8, String)> {
        let part = |select: fn(&Metrics) -> Option<f64>| part(self.metrics.as_ref(), select);
        let unit = self.metrics.map_or("", |metrics| unit(metrics.metric));
        let mut fields = vec![
            (0, self.place(report)),
            (1, format!("loss {:.4}", report.loss)),
            (5, format!("train {}", part(|metrics| metrics.train))),
            (2, format!("val {}", part(|metrics| metrics.validation))),
            (3, format!("test {}{unit}", part(|metrics| metrics.test))),
            (6, self.speed(report)),
            (1, format!("{} left", self.pace.text())),
        ];
        if self.seeds > 1 {
            fields.insert(0, (4, format!("seed {}", report.seed)));
        }
        if self.pace.is_over() {
            fields.pop();
        }
        fields
    }

    /// Returns the last finished step and the number of steps. If epochs have one step, these are the
    /// epochs.
    fn place(&self, report: &EpochReport) -> String {
        match self.pace.steps() {
            Some(steps) => format!("step {}/{}", grouped(report.step.into()), grouped(steps.into())),
            None => format!("{}/{}", report.epoch, self.epochs),
        }
    }

    /// Returns the time of an epoch, or the number of rows per second if epochs have several steps.
    fn speed(&self, report: &EpochReport) -> String {
        match report.rows_per_second.filter(|_| self.pace.steps().is_some()) {
            Some(rows) => format!("{} rows/s", grouped(rows as u64)),
            None => seconds(report.seconds),
        }
    }

    /// Returns the fields that the bar shows during an epoch or evaluation, in display order, each
    /// with a rank. On a narrow terminal, fields with the largest rank are omitted first.
    fn fields_inside(&self, progress: &Progress) -> Vec<(u8, String)> {
        let mut fields = Vec::new();
        if self.seeds > 1 {
            fields.push((4, format!("seed {}", progress.seed)));
        }
        if let Activity::Epoch(epoch) = progress.activity {
            fields.push((0, format!("{epoch}/{}", self.epochs)));
        }
        fields.extend(inside::fields(progress));
        fields.extend(self.loss.map(|loss| (7, format!("loss {loss:.4}"))));
        fields.push((2, format!("{} left", self.pace.text())));
        fields
    }

    fn draw(&mut self) {
        let Some(report) = self.undrawn.take() else { return };
        self.show(self.fields(&report));
    }

    fn show(&mut self, fields: Vec<(u8, String)>) {
        let size = terminal_size::terminal_size_of(std::io::stderr());
        let columns = size.map_or(USUAL_COLUMNS, |(width, _)| usize::from(width.0));
        self.bar.set_message(fitted(fields, columns.saturating_sub(BAR_COLUMNS + 1)));
        self.bar.set_position((self.pace.done() * UNITS as f64) as u64);
        self.drawn = Some(Instant::now());
    }
}

/// Calls `say`, which prints above the bar, and hides the bar during this call. A bar that was not
/// drawn yet is not hidden, because [`ProgressBar::suspend`] would draw it.
fn above(bar: &ProgressBar, drawn: Option<Instant>, say: impl FnOnce()) {
    match drawn {
        Some(_) => bar.suspend(say),
        None => say(),
    }
}

/// Joins those fields of the bar's text that fit into `columns` characters. Fields with the largest
/// rank are omitted first.
fn fitted(mut fields: Vec<(u8, String)>, columns: usize) -> String {
    let width = |fields: &[(u8, String)]| {
        fields.iter().map(|(_, text)| text.chars().count() + 2).sum::<usize>().saturating_sub(2)
    };
    while fields.len() > 1 && width(&fields) > columns {
        let least = fields.iter().map(|(rank, _)| *rank).max();
        // Of fields of one rank, the last one is removed first: the remaining time before the loss.
        match fields.iter().rposition(|(rank, _)| Some(*rank) == least) {
            Some(at) => drop(fields.remove(at)),
            None => break,
        }
    }
    fields.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("  ")
}

impl Observer for Bar<'_> {
    fn started(&mut self, started: &Started) {
        cut(started);
        (self.seeds, self.epochs) = (started.seeds.len(), started.epochs);
        self.output.line(format_args!(
            "{}: {}, {}, {}, {}",
            started.dataset,
            counted(started.vertices, "vertex").replace("vertexs", "vertices"),
            counted(started.edges, "edge"),
            counted(started.features, "feature"),
            columns(started),
        ));
        self.output.line(format_args!(
            "{}: {}; {} on {}; ready after {}",
            started.model,
            counted(started.parameters, "parameter"),
            counted(u64::from(started.intervals), "interval"),
            counted(u64::from(started.threads), "thread"),
            seconds(started.setup_seconds)
        ));
        if let Some(batches) = &started.batches {
            self.output.line(format_args!("{}", super::batches(batches)));
        }
        resolved_settings(started).for_each(|line| self.output.line(line));
        self.pace = Pace::new(started);
        self.bar.set_length(self.pace.all().saturating_mul(UNITS));
        let bar = if coloured() { "{bar:12.green/black.bright}" } else { "{bar:12}" };
        // The template is valid. Without it the bar would have the default style.
        if let Ok(style) = ProgressStyle::with_template(&format!("[{bar}] {{wide_msg}}")) {
            self.bar.set_style(style.progress_chars("=> "));
        }
        logging::set_bar(&self.bar);
    }

    fn resumed(&mut self, run: &Resumed) {
        self.pace.go_on(run.epochs_done);
        above(&self.bar, self.drawn, || resumed(run));
    }

    fn epoch(&mut self, report: &EpochReport) {
        self.pace.report(report);
        self.loss = Some(report.loss);
        self.metrics = report.metrics.or(self.metrics);
        self.undrawn = Some(report.clone());
        if self.drawn.is_none_or(|at| at.elapsed() >= Self::EVERY) {
            self.draw();
        }
    }

    fn progress(&mut self, progress: &Progress) {
        self.pace.inside(progress);
        self.undrawn = None;
        self.show(self.fields_inside(progress));
    }

    fn tried(&mut self, trial: &PipelineTrial) {
        above(&self.bar, self.drawn, || tried(trial).iter().for_each(|line| self.output.line(line)));
    }

    fn chosen(&mut self, chosen: &Chosen) {
        let text = super::chosen(chosen);
        above(&self.bar, self.drawn, || self.output.line(format_args!("{text}")));
    }

    fn stalled(&mut self, seconds: u64, waits_for: &[String]) {
        above(&self.bar, self.drawn, || stalled(seconds, waits_for));
    }

    fn waiting(&mut self, text: &str) {
        above(&self.bar, self.drawn, || tell(text));
    }

    fn warning(&mut self, text: &str) {
        above(&self.bar, self.drawn, || warning(text));
    }

    fn log(&mut self, kernel: &str, line: &str) {
        above(&self.bar, self.drawn, || log(kernel, line));
    }
}

impl Drop for Bar<'_> {
    /// Draws the bar in its last state, and leaves it on the screen.
    fn drop(&mut self) {
        self.draw();
        if self.drawn.is_some() {
            self.bar.abandon();
            let _ = writeln!(std::io::stderr().lock());
        } else {
            self.bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_do_not_fit_are_omitted_by_rank() {
        let fields = || {
            [
                (0, "57/200"),
                (1, "loss 0.3743"),
                (5, "train 99.29"),
                (2, "val 78.60"),
                (6, "0.491 ms"),
                (1, "3 s left"),
            ]
            .map(|(rank, text)| (rank, text.to_owned()))
            .to_vec()
        };
        assert_eq!(fitted(fields(), 90), "57/200  loss 0.3743  train 99.29  val 78.60  0.491 ms  3 s left");
        assert_eq!(fitted(fields(), 54), "57/200  loss 0.3743  train 99.29  val 78.60  3 s left");
        assert_eq!(fitted(fields(), 41), "57/200  loss 0.3743  val 78.60  3 s left");
        assert_eq!(fitted(fields(), 20), "57/200  loss 0.3743");
        assert_eq!(fitted(fields(), 0), "57/200");
    }
}
