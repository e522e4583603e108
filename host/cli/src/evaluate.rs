//! The command `eciton eval`, which evaluates the model of a run folder on the data of the run or
//! on other data.

use std::path::PathBuf;

use eciton_recipe::{Config, Data};
use eciton_train::sweep::evaluate_on_function;
use eciton_train::{Evaluation, Metrics, Options, Quality};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Output, tell};
use crate::quality;
use crate::recipe;
use crate::sweep::spent_text;
use crate::text::{measured, unit};

/// Arguments of `eciton eval`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run folder
    run: PathBuf,
    #[command(flatten)]
    data: OtherData,
    #[command(flatten)]
    task: AsTask,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Arguments that name other data than the training data of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct OtherData {
    /// Name or path of another data set [default: the data set of the run]
    #[arg(value_name = "DATA")]
    data: Option<String>,
    /// Name of the data set within a folder that holds several
    #[arg(long, value_name = "NAME", requires = "data")]
    name: Option<String>,
}

impl OtherData {
    /// Returns the given data set as settings, or `None` to use the data set of the run.
    pub(crate) fn chosen(&self) -> Option<Data> {
        let source = self.data.clone()?;
        Some(Data { source, name: self.name.clone(), ..Data::default() })
    }
}

/// Arguments that run the work on a function (AWS Lambda or its emulation).
#[derive(Debug, clap::Args)]
pub(crate) struct AsTask {
    /// Run the work in one function invocation: emulated or lambda [default: on this machine]
    #[arg(long, value_name = "WHERE")]
    as_task: Option<String>,
    /// Set a key of [executor] or [emulator] for --as-task
    #[arg(long, value_name = "SECTION.KEY=VALUE", requires = "as_task")]
    set: Vec<String>,
}

impl AsTask {
    /// Returns the configuration of the function that executes the work, or `None` without
    /// `--as-task`.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] if the given executor has no functions, or if a setting is
    /// invalid.
    pub(crate) fn place(&self) -> Result<Option<Config>, Failure> {
        let Some(executor) = &self.as_task else { return Ok(None) };
        let kind = format!("executor.kind={executor}");
        let all = std::iter::once(kind).chain(self.set.iter().cloned());
        let place = recipe::settle(Config::default(), all, "--as-task")?;
        if place.executor.kind.is_here() {
            return Err(Failure::Usage(format!("--as-task {executor}: expected emulated or lambda")));
        }
        Ok(Some(place))
    }
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    dataset: &'a str,
    model: &'a str,
    metric: &'static str,
    train_metric: Option<f64>,
    val_metric: Option<f64>,
    test_metric: Option<f64>,
    recorded_test_metric: Option<f64>,
    /// True if all metrics equal those that the run recorded. `None` if the run has no metrics for
    /// this data.
    reproduced: Option<bool>,
    model_digest: &'a str,
    numeric_class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    quality: Option<&'a Quality>,
}

/// Evaluates the model of a run, and prints the metrics.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let data = arguments.data.chosen();
    let found = match arguments.task.place()? {
        Some(place) => {
            let run = std::path::absolute(&arguments.run).unwrap_or_else(|_| arguments.run.clone());
            let (found, spent) = evaluate_on_function(&run, data.as_ref(), (&place, None))?;
            tell(spent_text(&spent));
            found
        }
        None => eciton_train::evaluate(&arguments.run, data.as_ref(), &Options::default())?,
    };
    if arguments.json {
        output.json(&Line {
            event: "evaluation",
            dataset: &found.dataset,
            model: &found.model,
            metric: found.metrics.metric.name(),
            train_metric: found.metrics.train,
            val_metric: found.metrics.validation,
            test_metric: found.metrics.test,
            recorded_test_metric: found.recorded.and_then(|metrics| metrics.test),
            reproduced: found.recorded.map(|recorded| same(recorded, found.metrics)),
            model_digest: &found.model_digest,
            numeric_class: eciton_tensor::numeric_class(),
            quality: found.quality.as_ref(),
        });
    } else {
        print(&found, output);
    }
    Ok(())
}

/// Returns true if two evaluations have equal metrics. Differences below 1e-12 are ignored, because
/// fractions lose digits when they are written as text.
fn same(one: Metrics, other: Metrics) -> bool {
    let near = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() < 1e-12,
        (one, other) => one.is_none() && other.is_none(),
    };
    one.metric == other.metric
        && near(one.train, other.train)
        && near(one.validation, other.validation)
        && near(one.test, other.test)
}

/// Prints the evaluation as text, and compares its metrics with those that the run recorded.
fn print(found: &Evaluation, output: &mut Output) {
    let mut row = |name: &str, text: &str| output.line(format_args!("{name:<14} {text}"));
    row("data and model", &format!("{}, {}", found.dataset, found.model));
    let Metrics { metric, train, validation, test } = found.metrics;
    let shown = |found| format!("{}{}", measured(metric, found), unit(metric));
    row("metric", metric.name());
    row("train", &shown(train));
    row("validation", &shown(validation));
    row("test", &shown(test));
    match found.recorded {
        Some(recorded) if same(recorded, found.metrics) => row("recorded", "identical"),
        Some(Metrics { metric: then, .. }) if then != metric => {
            row("recorded", &format!("{} (another metric)", then.name()));
        }
        Some(Metrics { train, validation, test, .. }) => row(
            "recorded",
            &format!(
                "train {}, validation {}, test {}: DIFFERENT; the numeric class, the version of Eciton or the data has changed",
                shown(train),
                shown(validation),
                shown(test)
            ),
        ),
        None => row("recorded", "no metrics for this data"),
    }
    if let Some(quality) = &found.quality {
        quality::rows(&[quality], false).iter().for_each(|(name, text)| row(name, text));
        quality::table(quality).iter().for_each(|line| output.line(line));
    }
}
