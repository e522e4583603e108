//! Progress of a run, shown as a bar on a terminal, as lines every few seconds, or as JSON per
//! epoch.

mod bar;
mod inside;
mod lines;
mod pace;

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_recipe::{Mode, TaskType};
use eciton_train::{
    Ask, Batches, Chosen, EpochReport, Helpers, Metrics, Observer, PipelineTrial, Progress, ResolvedSetting,
    Resumed, SeedReport, StalenessTrial, Started, Stop,
};
use serde::Serialize;

pub(crate) use self::bar::Bar;
pub(crate) use self::lines::Lines;
use crate::output::{Output, tell};
use crate::text::{counted, grouped, measured, seconds};

/// Returns true if a progress bar can be drawn. This requires that standard output and standard
/// error are terminals, and that `TERM` is not `dumb`.
pub(crate) fn drawable(output: &Output) -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    output.terminal() && std::io::stderr().is_terminal() && !dumb
}

/// Returns true if the progress bar may use colours, because the variable `NO_COLOR` (no-color.org)
/// is not set.
fn coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints a message that no step has finished for `seconds`, with the events that the run is
/// waiting for.
fn stalled(seconds: u64, waits_for: &[String]) {
    tell(format_args!("no step has finished for {seconds} s; the run is waiting for:"));
    for what in waits_for {
        tell(format_args!("  {what}"));
    }
}

/// Prints a warning on standard error.
fn warning(text: &str) {
    tell(format_args!("warning: {text}"));
}

/// Prints a line that the kernel `kernel` has logged.
fn log(kernel: &str, line: &str) {
    tell(format_args!("kernel {kernel}: {line}"));
}

/// Prints the epoch after which a run resumes. Also prints the damaged checkpoints, and the changes
/// since the run stopped that `--force` ignores.
fn resumed(resumed: &Resumed) {
    for damaged in &resumed.damaged {
        tell(format_args!("damaged checkpoint not used: {damaged}"));
    }
    for difference in &resumed.differences {
        tell(format_args!("difference ignored (--force): {difference}"));
    }
    tell(format_args!("resuming after epoch {} of seed {}", resumed.epoch, resumed.seed));
}

/// Prints a message if an account limit has reduced the number of functions.
fn cut(started: &Started) {
    if let Some(cut) = started.functions.as_ref().and_then(|functions| functions.cut.as_ref()) {
        let _ = writeln!(std::io::stderr().lock(), "functions: {cut}");
    }
}

/// Returns one line for each setting whose value follows from the data set or the model.
fn resolved_settings(started: &Started) -> impl Iterator<Item = String> + '_ {
    started.settings.iter().map(setting)
}

/// Formats a resolved setting with its value and its origin. The recipe key is used if the setting
/// has no display name.
pub(crate) fn setting(resolved: &ResolvedSetting) -> String {
    match resolved.name == resolved.key {
        true => format!("{} = {}: {}", resolved.key, resolved.value, resolved.from),
        false => format!("{:<14} {} ({})", resolved.name, resolved.value, resolved.from),
    }
}

/// Formats a decision of the autotuner, which changes the number of functions or threads during a
/// run.
fn chosen(chosen: &Chosen) -> String {
    let what = match chosen.what {
        Helpers::Functions => "functions",
        Helpers::Threads => "additional threads",
    };
    let Chosen { from, to, why, .. } = chosen;
    let when = seconds(chosen.seconds);
    if from == to {
        format!("autotuner after {when}: keeps {to} {what}: {why}")
    } else {
        format!("autotuner after {when}: {from} to {to} {what}: {why}")
    }
}

/// Returns one line for each pipeline setting that was tried at the start of a run, followed by a
/// line about the choice.
fn tried(trial: &PipelineTrial) -> Vec<String> {
    let one = |tried: &StalenessTrial| {
        let name = match tried.mode {
            Mode::Async => format!("staleness {}", tried.staleness),
            mode => mode.name().to_owned(),
        };
        let loss = if tried.kept_up { "" } else { ", too far above the best loss" };
        let (each, epochs) = (seconds(tried.epoch_seconds), trial.epochs);
        format!("trial of {name}: {each} per epoch, loss {:.4} after {epochs} epochs{loss}", tried.loss)
    };
    let mut lines: Vec<String> = trial.tried.iter().map(one).collect();
    lines.push(format!("chosen: {}", trial.why));
    lines
}

/// The trials of pipeline settings (`pipeline.staleness = "auto"`), which `eciton train --json`
/// prints.
#[derive(Serialize)]
struct TriedLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    trial: &'a PipelineTrial,
}

/// Decision of the autotuner, which `eciton train --json` prints.
#[derive(Serialize)]
struct ChosenLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    chosen: &'a Chosen,
}

/// Description of the checkpoint from which a run resumes, which `eciton resume --json` prints.
#[derive(Serialize)]
struct ResumedLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    resumed: &'a Resumed,
}

/// Asks the run to stop if the reader of standard output has closed it.
fn stop_if_closed(output: &Output, stop: &Stop) {
    if output.closed() {
        stop.ask(Ask::Finish);
    }
}

/// Report of a finished epoch, which `eciton train --json` prints. It is a row of `metrics.jsonl`
/// with the name of the event.
#[derive(Serialize)]
struct EpochLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    report: &'a EpochReport,
}

/// An observer of a run that prints one JSON object per epoch, for the option `--json`.
pub(crate) struct JsonLines<'a> {
    output: &'a mut Output,
    stop: Arc<Stop>,
    progress_lines: inside::ProgressLines,
    flushed: Instant,
}

impl<'a> JsonLines<'a> {
    /// Minimum time between two lines that a reader receives at once.
    const EVERY: Duration = Duration::from_millis(100);

    pub(crate) fn new(output: &'a mut Output, stop: Arc<Stop>) -> Self {
        Self { output, stop, progress_lines: inside::ProgressLines::new(), flushed: Instant::now() }
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
        if self.flushed.elapsed() >= Self::EVERY {
            self.output.flush();
            self.flushed = Instant::now();
        }
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

/// Formats the metric that `select` returns, for instance that of the test split. Returns `-` if
/// the epoch was not evaluated.
fn part(metrics: Option<&Metrics>, select: fn(&Metrics) -> Option<f64>) -> String {
    metrics.map_or_else(|| "-".to_owned(), |metrics| measured(metrics.metric, select(metrics)))
}

/// Formats the facts about mini-batches, for instance `neighbours: 118 updates per epoch, of 1
/// micro-batch with at most 5,632 rows over 2 hops`.
pub(crate) fn batches(of: &Batches) -> String {
    let sampler = if of.sampler == "none" { "batches" } else { &of.sampler };
    let (updates, micro) = (counted(of.updates.into(), "update"), counted(of.micro.into(), "micro-batch"));
    let micro = micro.replace("batchs", "batches");
    let rows = counted(of.rows.into(), "row");
    let hops = if of.hops > 0 { format!(" over {}", counted(of.hops.into(), "hop")) } else { String::new() };
    let counted = of.counted.map_or_else(String::new, |of| {
        let samples = counted(of.samples.into(), "sample");
        format!("; {samples} counted before training, in {}", seconds(of.seconds))
    });
    format!("{sampler}: {updates} per epoch, of {micro} with at most {rows}{hops}{counted}")
}

/// Formats the targets of the task, for instance `7 classes`. For a data set of many graphs, an
/// example is `188 graphs of 2 classes`, and for labels of edges `5,278 labelled edges of 2 classes`.
fn columns(started: &Started) -> String {
    let columns = match started.task {
        TaskType::Classification => counted(started.classes, "class").replace("classs", "classes"),
        TaskType::MultiLabel => counted(started.classes, "label"),
        TaskType::Regression => counted(started.classes, "target value"),
        TaskType::LinkPrediction => {
            let [trained, validation, test] = started.links.unwrap_or_default().map(grouped);
            format!("{trained} training, {validation} validation, {test} test links")
        }
    };
    match (started.graphs, started.labelled_edges) {
        (Some(graphs), _) => format!("{} of {columns}", counted(u64::from(graphs), "graph")),
        (None, Some(edges)) => format!("{} of {columns}", counted(u64::from(edges), "labelled edge")),
        (None, None) => columns,
    }
}
