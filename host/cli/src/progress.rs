//! Progress of a run: a bar on a terminal, otherwise a line every few seconds, or JSON per epoch.

mod bar;
mod inside;
mod lines;
mod pace;

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use eciton_recipe::{Mode, TaskType};
use eciton_train::{
    Ask, Chosen, EpochReport, Helpers, Metrics, Observer, PipelineTrial, Progress, Resumed, Said, SeedReport,
    Started, Stop, Tried,
};
use serde::Serialize;

pub(crate) use self::bar::Bar;
pub(crate) use self::lines::Lines;
use crate::output::{Output, tell};
use crate::text::{counted, grouped, measured, seconds};

/// Returns true if a bar can be drawn: both streams are a terminal, and `TERM` is not `dumb`.
pub(crate) fn drawable(output: &Output) -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    output.terminal() && std::io::stderr().is_terminal() && !dumb
}

/// Returns true if colours are wanted: `NO_COLOR` (no-color.org) is not set.
fn coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints the events that a stalled run waits for.
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

/// Prints the epoch after which a run resumes, its unusable checkpoints, and changes since it
/// stopped.
fn resumed(resumed: &Resumed) {
    for damaged in &resumed.damaged {
        tell(format_args!("not used: {damaged}"));
    }
    for difference in &resumed.differences {
        tell(format_args!("goes on all the same: {difference}"));
    }
    tell(format_args!("going on after epoch {} of seed {}", resumed.epoch, resumed.seed));
}

/// Prints the limit that reduced the number of functions.
fn cut(started: &Started) {
    if let Some(cut) = started.functions.as_ref().and_then(|functions| functions.cut.as_ref()) {
        let _ = writeln!(std::io::stderr().lock(), "functions: {cut}");
    }
}

/// Returns the settings that follow from data and model, one line each.
fn said(started: &Started) -> impl Iterator<Item = String> + '_ {
    started.settings.iter().map(setting)
}

/// Returns a setting with its origin. A setting that follows from the data alone is shown with its
/// key.
pub(crate) fn setting(said: &Said) -> String {
    match said.name == said.key {
        true => format!("{} = {}: {}", said.key, said.value, said.from),
        false => format!("{:<14} {} ({})", said.name, said.value, said.from),
    }
}

/// Returns a line about a decision of the autotuner.
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

/// Returns a line for each trial of the pipeline, and a line about the choice.
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

/// Trials of the pipeline, as `--json` prints them.
#[derive(Serialize)]
struct TriedLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    trial: &'a PipelineTrial,
}

/// Decision of the autotuner, as `--json` prints it.
#[derive(Serialize)]
struct ChosenLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    chosen: &'a Chosen,
}

/// Resumed run, as `--json` prints it.
#[derive(Serialize)]
struct ResumedLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    resumed: &'a Resumed,
}

/// Asks the run to stop after the reader of standard output has gone.
fn stop_if_closed(output: &Output, stop: &Stop) {
    if output.closed() {
        stop.ask(Ask::Finish);
    }
}

/// Epoch as `--json` prints it: a row of `metrics.jsonl`, and the name of the event.
#[derive(Serialize)]
struct EpochLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    report: &'a EpochReport,
}

/// Printer of one JSON object per epoch.
pub(crate) struct JsonLines<'a> {
    output: &'a mut Output,
    stop: Arc<Stop>,
    progress_lines: inside::ProgressLines,
}

impl<'a> JsonLines<'a> {
    pub(crate) fn new(output: &'a mut Output, stop: Arc<Stop>) -> Self {
        Self { output, stop, progress_lines: inside::ProgressLines::new() }
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
        self.progress_lines.epoch();
        stop_if_closed(self.output, &self.stop);
    }

    fn progress(&mut self, progress: &Progress) {
        self.output.flush();
        self.progress_lines.progress(progress);
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

/// Returns a metric of one split as text, or `-` if nothing was evaluated.
fn part(metrics: Option<&Metrics>, of: fn(&Metrics) -> Option<f64>) -> String {
    metrics.map_or_else(|| "-".to_owned(), |metrics| measured(metrics.metric, of(metrics)))
}

/// Returns the meaning of the scores' columns, such as `7 classes`. For many graphs it is `188
/// graphs of 2 classes`.
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
