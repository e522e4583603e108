//! The command `eciton runs`, which lists the runs in a folder, shows one run, and compares
//! several.

mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use eciton_train::{Summary, run_folder};
use serde::Serialize;

use self::table::Column;
use crate::failure::Failure;
use crate::output::{Output, tell};
use crate::summary;
use crate::text::{bytes, counted, measured, seconds, unit};

/// Folder in which `eciton train` creates run folders by default.
const RUNS: &str = "runs";
/// Name of the file that marks a folder as a run folder.
const SUMMARY: &str = "summary.json";
/// Maximum number of entries that are read from a folder.
const MAX_FOLDERS: usize = 100_000;

/// Columns of the table of `eciton runs list`. On a narrow terminal, the time is omitted first and
/// the metric's name last.
const COLUMNS: [Column; 8] = [
    Column { name: "run", is_right: false, least: Some(16), rank: 0 },
    Column { name: "data", is_right: false, least: Some(10), rank: 2 },
    Column { name: "model", is_right: false, least: Some(12), rank: 5 },
    Column { name: "seeds", is_right: true, least: None, rank: 4 },
    Column { name: "test", is_right: true, least: None, rank: 0 },
    Column { name: "at best val", is_right: true, least: None, rank: 3 },
    Column { name: "metric", is_right: true, least: Some(10), rank: 1 },
    Column { name: "time", is_right: true, least: None, rank: 6 },
];

/// Subcommands of `eciton runs`. The comment of a variant is its help text.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List runs with data, model, seeds, metrics and time
    List(ListArguments),
    /// Show the summary, settings and files of a run
    Show(ShowArguments),
    /// Compare the metrics of runs, and the settings in which they differ
    Compare(CompareArguments),
}

/// Arguments of `eciton runs list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Folder that contains run folders
    #[arg(default_value = RUNS)]
    folder: PathBuf,
    /// Sort order: name, test (best first) or time (shortest first)
    #[arg(long, default_value = "name", value_parser = ["name", "test", "time"])]
    sort: String,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Arguments of `eciton runs show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArguments {
    /// Run folder, or its name in runs/
    run: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Arguments of `eciton runs compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArguments {
    /// Run folders, or their names in runs/
    #[arg(required = true, num_args = 2..=100)]
    runs: Vec<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Runs the selected subcommand of `eciton runs`.
pub(crate) fn run(command: &Command, output: &mut Output) -> Result<(), Failure> {
    match command {
        Command::List(arguments) => list(arguments, output),
        Command::Show(arguments) => show(arguments, output),
        Command::Compare(arguments) => compare(arguments, output),
    }
}

/// Description of a run, which `eciton runs list --json` and `eciton runs compare --json` print.
#[derive(Serialize)]
struct Row<'a> {
    event: &'static str,
    run: String,
    dataset: &'a str,
    model: &'a str,
    seeds: usize,
    epochs: u32,
    metric: &'static str,
    test_metric: Option<f64>,
    test_metric_std: Option<f64>,
    test_metric_at_best_validation: Option<f64>,
    epoch_seconds_median: f64,
    total_seconds: f64,
    peak_memory_bytes: u64,
    usd: Option<f64>,
    stopped: bool,
    model_digest: &'a str,
}

impl<'a> Row<'a> {
    fn from_summary(path: &Path, summary: &'a Summary) -> Self {
        Self {
            event: "run",
            run: path.display().to_string(),
            dataset: &summary.dataset,
            model: &summary.model,
            seeds: summary.seeds.len(),
            epochs: summary.seeds.iter().map(|seed| seed.epochs).max().unwrap_or(0),
            metric: summary.metric.name(),
            test_metric: summary.test_metric,
            test_metric_std: summary.test_metric_std.filter(|_| summary.seeds.len() > 1),
            test_metric_at_best_validation: summary.test_metric_at_best_validation,
            epoch_seconds_median: summary.epoch_seconds_median,
            total_seconds: summary.total_seconds,
            peak_memory_bytes: summary.peak_memory_bytes,
            usd: summary.cost.as_ref().map(|cost| cost.usd),
            stopped: summary.stopped,
            model_digest: &summary.model_digest,
        }
    }
}

/// Prints the runs in a folder. Damaged runs are reported on standard error and skipped.
fn list(arguments: &ListArguments, output: &mut Output) -> Result<(), Failure> {
    let mut found = Vec::new();
    for path in folders(&arguments.folder)? {
        match run_folder::summary(&path) {
            Ok(summary) => found.push((path, summary)),
            // A damaged run does not hide others.
            Err(error) => tell(format_args!("skipped: {error}")),
        }
    }
    let goodness =
        |summary: &Summary| summary.test_metric.map_or(f64::NEG_INFINITY, |v| summary.metric.goodness(v));
    match &arguments.sort[..] {
        "test" => found.sort_by(|(_, a), (_, b)| goodness(b).total_cmp(&goodness(a))),
        "time" => found.sort_by(|(_, a), (_, b)| a.total_seconds.total_cmp(&b.total_seconds)),
        _ => {}
    }
    if arguments.json {
        found.iter().for_each(|(path, summary)| output.json(&Row::from_summary(path, summary)));
        return Ok(());
    }
    if found.is_empty() {
        output.line(format_args!(
            "{}: no runs found; `eciton train` writes run folders to {RUNS}/, or to the folder of --out",
            arguments.folder.display()
        ));
        return Ok(());
    }
    let rows = found.iter().map(|(path, summary)| {
        let name = path
            .file_name()
            .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
        [
            name,
            summary.dataset.clone(),
            summary.model.clone(),
            summary.seeds.len().to_string(),
            with_spread(summary),
            figure(summary, summary.test_metric_at_best_validation),
            summary.metric.name().to_owned(),
            format!("{}{}", seconds(summary.total_seconds), if summary.stopped { " (stopped)" } else { "" }),
        ]
    });
    table::print(&COLUMNS, &rows.collect::<Vec<_>>(), output);
    Ok(())
}

/// Formats a value of the run's metric with its unit.
fn figure(summary: &Summary, value: Option<f64>) -> String {
    format!("{}{}", measured(summary.metric, value), unit(summary.metric))
}

/// Formats the test metric of a run with its unit. For several seeds, it is the mean and the
/// standard deviation.
fn with_spread(summary: &Summary) -> String {
    match (summary.seeds.len(), summary.test_metric_std) {
        (2.., Some(deviation)) => format!(
            "{} \u{b1} {}{}",
            measured(summary.metric, summary.test_metric),
            measured(summary.metric, Some(deviation)),
            unit(summary.metric)
        ),
        _ => figure(summary, summary.test_metric),
    }
}

/// Returns the paths of the run folders in `folder`, sorted by name. If `folder` is itself a run
/// folder, it is the only result. Names that start with a dot are skipped.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if folder.join(SUMMARY).is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let refuse = |error: std::io::Error| {
        Failure::Failed(format!("{}: {error}; expected a folder that contains run folders", folder.display()))
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(refuse)?.take(MAX_FOLDERS) {
        let path = entry.map_err(refuse)?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !hidden && path.join(SUMMARY).is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the path of the run folder that the user typed. If only `runs/TYPED` exists, that path
/// is returned.
fn located(typed: &Path) -> PathBuf {
    let among = Path::new(RUNS).join(typed);
    if !typed.exists() && among.join(SUMMARY).is_file() { among } else { typed.to_owned() }
}

/// Checks the files of a run, and prints its summary, files, data and settings.
fn show(arguments: &ShowArguments, output: &mut Output) -> Result<(), Failure> {
    let path = located(&arguments.run);
    // Weights, records, metrics and predictions are checked against their digests.
    let run = run_folder::Run::open(&path)?;
    run_folder::check_results(&path)?;
    if arguments.json {
        output.json(&summary::Line::from_summary(&run.summary));
        return Ok(());
    }
    summary::print(&run.summary, output);
    let mut files: Vec<(String, u64)> = Vec::new();
    for entry in std::fs::read_dir(&path)?.take(MAX_FOLDERS) {
        let entry = entry?;
        if let Ok(len) = entry.metadata().as_ref().map(std::fs::Metadata::len) {
            files.push((entry.file_name().to_string_lossy().into_owned(), len));
        }
    }
    files.sort();
    let files: Vec<String> = files.iter().map(|(name, len)| format!("{name} ({})", bytes(*len))).collect();
    output.line(format_args!("{:<14} {}", "version", format_args!("eciton {}", run.versions.eciton)));
    output.line(format_args!("{:<14} {}", "files", files.join(", ")));
    if let Some(provenance) = &run.summary.provenance {
        let (data, machine) = (&provenance.data, &provenance.machine);
        output.line(format_args!("{:<14} {} ({})", "data", provenance.source, data.all));
        let parts = [
            ("graph", &data.graph),
            ("features", &data.features),
            ("edge features", &data.edge_features),
            ("labels", &data.labels),
            ("split", &data.split),
            ("names", &data.names),
        ];
        for (name, digest) in parts.into_iter().filter(|(_, digest)| !digest.is_empty()) {
            output.line(format_args!("{:<14} {name} {digest}", ""));
        }
        let memory = bytes(machine.memory_bytes);
        let cores = counted(machine.cores.into(), "core");
        output
            .line(format_args!("{:<14} {}, {cores}, {memory}, {}", "machine", machine.processor, machine.os));
    }
    let kernels: Vec<&str> = run.versions.kernels.keys().map(String::as_str).collect();
    output.line(format_args!("{:<14} {}", "kernels", kernels.join(", ")));
    output.line("");
    output.text(run_folder::recipe(&path)?.trim_end());
    output.line("");
    Ok(())
}

/// Prints the metrics of several runs next to each other, and the settings in which they differ.
fn compare(arguments: &CompareArguments, output: &mut Output) -> Result<(), Failure> {
    let mut all = Vec::new();
    for typed in &arguments.runs {
        let path = located(typed);
        let (summary, recipe) = (run_folder::summary(&path)?, run_folder::recipe(&path)?);
        run_folder::check_results(&path)?;
        let settings = settings(&path, &recipe)?;
        all.push((path, summary, settings));
    }
    if arguments.json {
        for (path, summary, settings) in &all {
            output.json(&Compared {
                row: Row::from_summary(path, summary),
                settings: differing(settings, &all),
            });
        }
        return Ok(());
    }
    for (number, (path, ..)) in (1..).zip(&all) {
        output.line(format_args!("[{number}] {}", path.display()));
    }
    output.line("");
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    let mut row = |name: &str, text: &dyn Fn(&Summary) -> String| {
        rows.push((name.to_owned(), all.iter().map(|(_, summary, _)| text(summary)).collect()));
    };
    row("test", &with_spread);
    row("at best val", &|summary| figure(summary, summary.test_metric_at_best_validation));
    row("metric", &|summary| summary.metric.name().to_owned());
    row("epochs", &|summary| summary.seeds.iter().map(|seed| seed.epochs).max().unwrap_or(0).to_string());
    row("epoch time", &|summary| seconds(summary.epoch_seconds_median));
    row("total time", &|summary| seconds(summary.total_seconds));
    row("peak memory", &|summary| bytes(summary.peak_memory_bytes));
    if all.iter().any(|(_, summary, _)| summary.cost.is_some()) {
        row("USD", &|summary| {
            summary.cost.as_ref().map_or_else(|| "-".to_owned(), |cost| format!("{:.6}", cost.usd))
        });
    }
    row("weights", &|summary| summary.model_digest.chars().take(12).collect());
    let mut keys: Vec<&String> = all.iter().flat_map(|(_, _, settings)| settings.keys()).collect();
    keys.sort();
    keys.dedup();
    let mut same = 0;
    for key in keys {
        let values: Vec<&str> =
            all.iter().map(|(_, _, settings)| settings.get(key).map_or("-", String::as_str)).collect();
        if values.windows(2).all(|pair| pair.first() == pair.last()) {
            same += 1;
        } else {
            rows.push((key.clone(), values.into_iter().map(str::to_owned).collect()));
        }
    }
    let names = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|(_, cells)| cells.get(at)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..all.len()).map(width).collect();
    let mut line = |name: &str, cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, &width)| format!("  {cell:>width$}"));
        output.line(format_args!("{name:<names$}{}", cells.collect::<String>()));
    };
    let numbers: Vec<String> = (1..=all.len()).map(|number| format!("[{number}]")).collect();
    line("", &numbers);
    rows.iter().for_each(|(name, cells)| line(name, cells));
    output.line(format_args!("{same} settings are equal in all runs"));
    Ok(())
}

/// Description of a compared run, which `eciton runs compare --json` prints.
#[derive(Serialize)]
struct Compared<'a> {
    #[serde(flatten)]
    row: Row<'a>,
    /// Settings of this run, by recipe key, that do not have the same value in all compared runs.
    settings: BTreeMap<String, String>,
}

/// Returns those `settings` of one run that do not have the same value in all runs.
fn differing(
    settings: &BTreeMap<String, String>,
    all: &[(PathBuf, Summary, BTreeMap<String, String>)],
) -> BTreeMap<String, String> {
    let differs = |key: &str| all.iter().any(|(_, _, other)| other.get(key) != settings.get(key));
    settings.iter().filter(|(key, _)| differs(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns the settings in the recipe of a run as a map. The keys have the form `section.key`, and
/// the values are TOML text.
fn settings(path: &Path, recipe: &str) -> Result<BTreeMap<String, String>, Failure> {
    let table: toml::Table = recipe.parse().map_err(|error| {
        Failure::Failed(format!("{}: the recipe of this run is not valid TOML: {error}", path.display()))
    })?;
    let mut found = BTreeMap::new();
    for (section, value) in &table {
        match value {
            toml::Value::Table(keys) => {
                let keys = keys.iter().map(|(key, value)| (format!("{section}.{key}"), value.to_string()));
                found.extend(keys);
            }
            value => drop(found.insert(section.clone(), value.to_string())),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_have_their_sections() {
        let text = "top = 1\n[data]\nsource = \"cora\"\n[model]\nlayers = [\n  { width = 16 },\n  {},\n]\n";
        let found = settings(Path::new("r"), text).unwrap();
        let pairs: Vec<(&str, &str)> = found.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        assert_eq!(
            pairs,
            [("data.source", "\"cora\""), ("model.layers", "[{ width = 16 }, {}]"), ("top", "1")]
        );
        assert!(
            settings(Path::new("r"), "a = ")
                .unwrap_err()
                .into_text()
                .starts_with("r: the recipe of this run is not valid TOML")
        );
    }
}
