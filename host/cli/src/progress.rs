//! How a run is shown while it goes on: a bar on a terminal, else a line an epoch, or JSON.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_plan::{Mode, TaskType};
use eciton_train::{
    Ask, Chosen, EpochReport, Helpers, Metrics, Observer, PipelineTrial, Resumed, SeedReport, Started, Stop,
    Tried,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::output::{Output, tell};
use crate::text::{counted, grouped, measured, seconds, unit};

/// Whether a bar can be drawn: both streams are a terminal that knows how.
pub(crate) fn drawable(output: &Output) -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    output.terminal() && std::io::stderr().is_terminal() && !dumb
}

/// Whether colours are wanted: `NO_COLOR` (no-color.org) is not set.
fn coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Says what a run waits for that does not get on.
fn stalled(seconds: u64, waits_for: &[String]) {
    tell(format_args!("nothing has ended for {seconds} s; the run waits for"));
    for what in waits_for {
        tell(format_args!("  {what}"));
    }
}

fn warning(text: &str) {
    tell(format_args!("warning: {text}"));
}

fn log(kernel: &str, line: &str) {
    tell(format_args!("kernel {kernel}: {line}"));
}

/// Where a run goes on, and what is not as it was.
fn resumed(resumed: &Resumed) {
    for damaged in &resumed.damaged {
        tell(format_args!("not used: {damaged}"));
    }
    for difference in &resumed.differences {
        tell(format_args!("goes on all the same: {difference}"));
    }
    tell(format_args!("going on after epoch {} of seed {}", resumed.epoch, resumed.seed));
}

/// Tells the limit by which the number of functions was cut.
fn cut(started: &Started) {
    if let Some(cut) = started.functions.as_ref().and_then(|functions| functions.cut.as_ref()) {
        let _ = writeln!(std::io::stderr().lock(), "functions: {cut}");
    }
}

/// What the autotuner decided.
fn chosen(chosen: &Chosen) -> String {
    let what = match chosen.what {
        Helpers::Functions => "functions",
        Helpers::Threads => "further threads",
    };
    let Chosen { from, to, why, .. } = chosen;
    let when = seconds(chosen.seconds);
    if from == to {
        format!("autotuner, {when}: {to} {what}, as before: {why}")
    } else {
        format!("autotuner, {when}: {from} to {to} {what}: {why}")
    }
}

/// Trials of the pipeline, one line each, and what they came to.
fn tried(trial: &PipelineTrial) -> Vec<String> {
    let one = |tried: &Tried| {
        let name = match tried.mode {
            Mode::Async => format!("staleness {}", tried.staleness),
            mode => mode.name().to_owned(),
        };
        let loss = if tried.kept_up { "" } else { ", which has fallen behind" };
        let (each, epochs) = (seconds(tried.epoch_seconds), trial.epochs);
        format!("trial of {name}: {each} an epoch, loss {:.4} after {epochs} epochs{loss}", tried.loss)
    };
    let mut lines: Vec<String> = trial.tried.iter().map(one).collect();
    lines.push(format!("chosen: {}", trial.why));
    lines
}

/// Trials, as `--json` prints them.
#[derive(Serialize)]
struct TriedLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    trial: &'a PipelineTrial,
}

/// A decision, as `--json` prints it.
#[derive(Serialize)]
struct ChosenLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    chosen: &'a Chosen,
}

/// A run that goes on, as `--json` prints it.
#[derive(Serialize)]
struct ResumedLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    resumed: &'a Resumed,
}

/// Asks the run to stop once nobody reads it.
fn stop_if_closed(output: &Output, stop: &Stop) {
    if output.closed() {
        stop.ask(Ask::Finish);
    }
}

/// An epoch as `--json` prints it: a row of `metrics.jsonl` with the event's name.
#[derive(Serialize)]
struct EpochLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    report: &'a EpochReport,
}

/// One JSON object an epoch.
pub(crate) struct JsonLines<'a> {
    output: &'a mut Output,
    stop: Arc<Stop>,
}

impl<'a> JsonLines<'a> {
    pub(crate) fn new(output: &'a mut Output, stop: Arc<Stop>) -> Self {
        Self { output, stop }
    }
}

impl Observer for JsonLines<'_> {
    fn started(&mut self, started: &Started) {
        cut(started);
    }

    fn resumed(&mut self, resumed: &Resumed) {
        self.output.json(&ResumedLine { event: "resumed", resumed });
    }

    fn epoch(&mut self, report: &EpochReport) {
        self.output.json(&EpochLine { event: "epoch", report });
        stop_if_closed(self.output, &self.stop);
    }

    fn seed(&mut self, _: &SeedReport) {
        self.output.flush();
    }

    fn tried(&mut self, trial: &PipelineTrial) {
        self.output.json(&TriedLine { event: "trial", trial });
    }

    fn chosen(&mut self, chosen: &Chosen) {
        self.output.json(&ChosenLine { event: "autotuner", chosen });
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

/// One line an epoch, in columns. Shares are in per cent.
pub(crate) struct Lines<'a> {
    output: &'a mut Output,
    stop: Arc<Stop>,
    several: bool,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(output: &'a mut Output, stop: Arc<Stop>) -> Self {
        Self { output, stop, several: false }
    }
}

impl Observer for Lines<'_> {
    fn started(&mut self, started: &Started) {
        cut(started);
        self.several = started.seeds.len() > 1;
        let seed = if self.several { "  seed" } else { "" };
        let column = |split: &str| format!("{split}{}", unit(started.metric));
        self.output.line(format_args!(
            "{seed:<6}{:>6}  {:>10}  {:>7}  {:>7}  {:>7}  {:>9}",
            "epoch",
            "loss",
            column("train"),
            column("val"),
            column("test"),
            "ms"
        ));
    }

    fn resumed(&mut self, run: &Resumed) {
        resumed(run);
    }

    fn epoch(&mut self, report: &EpochReport) {
        let seed = if self.several { format!("{:>6}", report.seed) } else { String::new() };
        let part = |of: fn(&Metrics) -> Option<f64>| part(report.metrics.as_ref(), of);
        self.output.line(format_args!(
            "{seed:<6}{:>6}  {:>10.6}  {:>7}  {:>7}  {:>7}  {:>9.3}",
            report.epoch,
            report.loss,
            part(|metrics| metrics.train),
            part(|metrics| metrics.validation),
            part(|metrics| metrics.test),
            report.seconds * 1e3
        ));
        stop_if_closed(self.output, &self.stop);
    }

    fn tried(&mut self, trial: &PipelineTrial) {
        tried(trial).iter().for_each(|line| self.output.line(line));
    }

    fn chosen(&mut self, chosen: &Chosen) {
        self.output.line(format_args!("{}", self::chosen(chosen)));
    }

    fn seed(&mut self, _: &SeedReport) {
        self.output.flush();
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

/// A metric of one split; none where nothing was evaluated.
fn part(metrics: Option<&Metrics>, of: fn(&Metrics) -> Option<f64>) -> String {
    metrics.map_or_else(|| "-".to_owned(), |metrics| measured(metrics.metric, of(metrics)))
}

/// What scores are of: `7 classes`, of many graphs `188 graphs of 2 classes`.
fn columns(started: &Started) -> String {
    let columns = match started.task {
        TaskType::Classification => counted(started.classes, "class").replace("classs", "classes"),
        TaskType::MultiLabel => counted(started.classes, "label"),
        TaskType::Regression => format!("{} a vertex to be predicted", counted(started.classes, "number")),
        TaskType::LinkPrediction => {
            let [trained, validation, test] = started.links.unwrap_or_default().map(grouped);
            format!("{trained} links to train with, {validation} validation, {test} test")
        }
    };
    match started.graphs {
        Some(graphs) => format!("{} of {columns}", counted(u64::from(graphs), "graph")),
        None => columns,
    }
}

/// A bar over all epochs of all seeds, on standard error.
pub(crate) struct Bar<'a> {
    output: &'a mut Output,
    bar: ProgressBar,
    /// The metrics last measured; not every epoch is evaluated.
    metrics: Option<Metrics>,
    seeds: usize,
    epochs: u32,
    done: u64,
    /// The epoch that is over, until it is drawn.
    undrawn: Option<EpochReport>,
    drawn: Option<Instant>,
}

impl<'a> Bar<'a> {
    /// Texts are made at most so often.
    const EVERY: Duration = Duration::from_millis(50);

    /// A bar that shows nothing yet.
    pub(crate) fn unstarted() -> ProgressBar {
        ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr())
    }

    pub(crate) fn new(output: &'a mut Output, bar: ProgressBar) -> Self {
        Self { output, bar, metrics: None, seeds: 1, epochs: 0, done: 0, undrawn: None, drawn: None }
    }

    fn draw(&mut self) {
        let Some(report) = self.undrawn.take() else { return };
        let seed = if self.seeds > 1 { format!("seed {}  ", report.seed) } else { String::new() };
        let part = |of: fn(&Metrics) -> Option<f64>| part(self.metrics.as_ref(), of);
        let unit = self.metrics.map_or("", |metrics| unit(metrics.metric));
        self.bar.set_message(format!(
            "{seed}epoch {}/{}  loss {:.4}  train {}  val {}  test {}{unit}  {}",
            report.epoch,
            self.epochs,
            report.loss,
            part(|metrics| metrics.train),
            part(|metrics| metrics.validation),
            part(|metrics| metrics.test),
            seconds(report.seconds)
        ));
        self.bar.set_position(self.done);
        self.drawn = Some(Instant::now());
    }
}

impl Observer for Bar<'_> {
    fn started(&mut self, started: &Started) {
        self.bar.suspend(|| cut(started));
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
        self.bar.set_length(u64::from(started.epochs) * started.seeds.len() as u64);
        let bar = if coloured() { "{bar:24.green/black.bright}" } else { "{bar:24}" };
        // The template is fixed; a bar without it would be shown all the same.
        if let Ok(style) = ProgressStyle::with_template(&format!("[{bar}] {{wide_msg}}")) {
            self.bar.set_style(style.progress_chars("=> "));
        }
    }

    fn resumed(&mut self, run: &Resumed) {
        self.done = run.epochs_done;
        self.bar.suspend(|| resumed(run));
    }

    fn epoch(&mut self, report: &EpochReport) {
        self.done += 1;
        self.metrics = report.metrics.or(self.metrics);
        self.undrawn = Some(report.clone());
        if self.drawn.is_none_or(|at| at.elapsed() >= Self::EVERY) {
            self.draw();
        }
    }

    fn tried(&mut self, trial: &PipelineTrial) {
        self.bar.suspend(|| tried(trial).iter().for_each(|line| self.output.line(line)));
    }

    fn chosen(&mut self, chosen: &Chosen) {
        let text = self::chosen(chosen);
        self.bar.suspend(|| self.output.line(format_args!("{text}")));
    }

    fn stalled(&mut self, seconds: u64, waits_for: &[String]) {
        self.bar.suspend(|| stalled(seconds, waits_for));
    }

    fn waiting(&mut self, text: &str) {
        self.bar.suspend(|| tell(text));
    }

    fn warning(&mut self, text: &str) {
        self.bar.suspend(|| warning(text));
    }

    fn log(&mut self, kernel: &str, line: &str) {
        self.bar.suspend(|| log(kernel, line));
    }
}

impl Drop for Bar<'_> {
    /// What was drawn last stays on the screen.
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
