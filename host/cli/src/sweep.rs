//! The command `eciton sweep`, which trains a recipe with many settings and tabulates the results.
//!
//! A choice is one combination of settings. A trial is one training with the settings of a choice
//! and with its own seed or fold.

mod trials;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use eciton_exec::bucket::{Address, Bucket};
use eciton_recipe::sweep::{Halving, Rung, Trial};
use eciton_recipe::{Config, Error, Part, Sweep};
use eciton_train::sweep::{
    Functions, Group, Halved, Jobs, Lot, Missing, Outcome, Row, Spent, choices, csv, groups, halve, picture,
    trial_folder, unranked,
};
use eciton_train::{Bill, Stop, TimeOrigin, web};
use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt;
use crate::output::{Output, tell};
use crate::recipe::{self, Request};
use crate::text::{counted, measured, seconds, unit};

/// Maximum number of choices in the printed table of results. The result files contain all choices.
const MAX_SHOWN: usize = 20;
/// Maximum number of bytes that are read from a sweep file. It is one more than [`Sweep::parse`]
/// accepts, so that a longer file is refused.
const MAX_BYTES: u64 = (1 << 20) + 1;

/// Arguments of `eciton sweep`.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Sweep file with the settings to try (see below)
    #[arg(value_name = "SWEEP.toml")]
    file: PathBuf,
    /// Folder of the sweep; an existing sweep is resumed [default: sweeps/NAME, for file NAME.toml]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Number of concurrent trials, with one thread each if more than one [default: number of
    /// cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: Option<u32>,
    /// Executor of the trials: local; lambda (AWS functions, one trial per call); emulated (the
    /// same functions, with an emulated AWS); jobs (trials are written to --store, and `eciton job`
    /// runs them in a batch system) [default: local]
    #[arg(long, value_name = "WHERE", help_heading = "Functions")]
    executor: Option<String>,
    /// Maximum number of concurrent functions; auto: one per trial [default: 16]
    #[arg(long, value_name = "N|auto", allow_negative_numbers = true, help_heading = "Functions")]
    functions: Option<String>,
    /// Memory of a function, in MiB [default: 1769, which has one processor]
    #[arg(long, value_name = "MIB", allow_negative_numbers = true, help_heading = "Functions")]
    memory: Option<String>,
    /// Name or file of a deployment by `eciton deploy` [default: eciton]
    #[arg(long, value_name = "NAME|FILE", help_heading = "Functions")]
    deployment: Option<String>,
    /// Maximum cost of the sweep in US dollars, over all starts of the sweep; further trials are
    /// not run [default: no limit]
    #[arg(long, value_name = "USD", value_parser = usd, help_heading = "Functions")]
    max_usd: Option<f64>,
    /// Maximum duration of the sweep in seconds, over all starts of the sweep; further trials are
    /// not run [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_0, help_heading = "Functions")]
    within: Option<f64>,
    /// Fetch the predictions of trials that functions train. Without it, compute them with `eciton
    /// predict`
    #[arg(long, help_heading = "Functions")]
    pub(crate) predictions: bool,
    /// Bucket of jobs and answers, and a prefix of the object keys (with --executor jobs)
    #[arg(long, value_name = "s3://BUCKET/PREFIX", help_heading = "Jobs")]
    store: Option<String>,
    /// Address of an S3-compatible service [default: AWS_ENDPOINT_URL_S3, else AWS]
    #[arg(long, value_name = "URL", requires = "store", help_heading = "Jobs")]
    endpoint: Option<String>,
    /// Region of the bucket [default: AWS_REGION, else the region of the AWS profile]
    #[arg(long, value_name = "REGION", requires = "store", help_heading = "Jobs")]
    region: Option<String>,
    /// Time to wait for answers, in seconds. If some are still missing, the exit code is 75
    /// [default: 0]
    #[arg(long, value_name = "SECONDS", requires = "store", help_heading = "Jobs")]
    wait: Option<u32>,
    /// Set a key of the recipe for all trials. Keys of [executor] and [emulator] apply to functions
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Print the trials and exit without training
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

impl Arguments {
    /// Returns the arguments of a sweep on this machine. `file` is the sweep file, and `set` has
    /// the arguments of `--set`.
    pub(crate) fn from_file(file: PathBuf, set: Vec<String>) -> Self {
        Self { file, set, ..Self::default() }
    }
}

/// Parses a cost limit in US dollars, for instance the value of `--max-usd`. It must be above 0.
pub(crate) fn usd(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(usd) if usd > 0.0 && usd.is_finite() => Ok(usd),
        _ => Err("expected a number of US dollars above 0, for instance 0.50".to_owned()),
    }
}

/// Parses a time limit in seconds, for instance the value of `--within`. It must be above 0.
pub(crate) fn seconds_above_0(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Ok(seconds),
        _ => Err("expected a number of seconds above 0, for instance 600".to_owned()),
    }
}

const AFTER_HELP: &str = "\
Example of a sweep file (all keys are optional):

  # Recipe (see `eciton recipes`), recipe file, or model name with `data`.
  # Without a recipe, settings are chosen to suit the data.
  recipe = \"cora/gcn\"
  # Data set that replaces that of the recipe.
  data = \"stores/mine\"
  # Number of seeds per choice of settings.
  seeds = 3
  # Cross-validation (data.split = folds:5/0 to 5/4); also: stratified = true.
  folds = 5
  # Number of random choices (see also draw_seed). Without it: the whole grid.
  random = 20
  # Metric that ranks the choices: validation (default) or test.
  rank_by = \"test\"
  [grid]
  \"model.hidden\" = [16, 64]
  # A range requires `random`.
  \"optimiser.lr\" = { low = 0.001, high = 0.1, log = true }
  # Train all choices to epoch 10, the best third to epoch 30, and so on up
  # to run.epochs.
  [halving]
  eta = 3
  epochs = 10

Repeat the command to resume a sweep that was stopped or killed. The folder of
the sweep contains results.csv, results.json, sweep.svg, report.html, and a run
folder per trial (trials/00000, ...), for instance for `eciton predict`.";

/// Result of a finished trial, which `eciton sweep --json` prints.
#[derive(Serialize)]
struct TrialLine<'a> {
    event: &'static str,
    done: usize,
    of: usize,
    #[serde(flatten)]
    row: &'a Row,
}

/// Results of a sweep. They are the content of `results.json`, and `eciton sweep --json` prints
/// them at the end.
#[derive(Serialize)]
struct Results<'a> {
    event: &'static str,
    trials: usize,
    done: usize,
    failed: usize,
    seconds: f64,
    /// Number of epochs that were trained, and number of epochs that training all trials to the end
    /// would need. `None` without successive halving.
    #[serde(skip_serializing_if = "Option::is_none")]
    epochs: Option<[u64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spent: Option<&'a Spent>,
    /// Jobs that have no answer yet. `None` unless the executor is `jobs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'a Missing>,
    /// Part of the data, for instance `validation`, whose metric ranks the choices. If `None`, the
    /// choices are in the order of the sweep file.
    ranked_by: Option<&'static str>,
    /// Reason why the choices are not ranked. `None` if they are ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    unranked: Option<String>,
    groups: &'a [Group],
    rows: &'a [Row],
}

/// Trains those trials of a sweep that have no results yet, writes the result files, and prints the
/// table of choices.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let begun = Instant::now();
    let Planned { sweep, base, place, trials, configs, rungs } = read(arguments)?;
    let address = address(arguments)?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let workers = arguments.workers.unwrap_or(cores).min(configs.len() as u32);
    let local = place.executor.kind.is_here();
    if local && arguments.max_usd.is_some() {
        return Err(Failure::Usage(
            "--max-usd limits the cost of functions; add --executor lambda".to_owned(),
        ));
    }
    if local && arguments.within.is_some() {
        let remedy = "add --executor emulated or --executor lambda";
        return Err(Failure::Usage(format!("--within limits the time on functions; {remedy}")));
    }
    let name = arguments.file.file_stem().unwrap_or_default();
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("sweeps").join(name));
    if !arguments.json {
        let count = counted(configs.len() as u64, "trial");
        let at_once = match (&address, local) {
            (Some(address), _) => format!("as jobs in {}", address.url),
            (None, true) => format!("{workers} concurrent"),
            (None, false) => format!("on functions ({})", place.executor.kind.name()),
        };
        output.line(format_args!(
            "{count} of {}, {at_once}, output in {}",
            sweep.subject(),
            folder.display()
        ));
        for (number, rung) in rungs.iter().enumerate().filter(|_| sweep.halving.is_some()) {
            let count = counted(rung.choices, "choice");
            output.line(format_args!("rung {}: {count} to epoch {}", number + 1, rung.epochs));
        }
    }
    if arguments.dry_run {
        for trial in trials.iter().take(if arguments.json { usize::MAX } else { MAX_SHOWN }) {
            match arguments.json {
                true => output.json(&serde_json::json!({"event": "trial", "trial": trial.number, "settings": trial.settings()})),
                false => output.line(format_args!("{:>5}  {}", trial.number, trial.settings())),
            }
        }
        if trials.len() > MAX_SHOWN && !arguments.json {
            output.line(format_args!("  ... {} more", trials.len() - MAX_SHOWN));
        }
        return Ok(());
    }
    let wait = Duration::from_secs(arguments.wait.unwrap_or(0).into());
    let mut jobs = match &address {
        Some(address) => Some(Jobs::new(Bucket::open(address)?, wait, arguments.predictions)),
        None => None,
    };
    claim(&folder, &base, &trials, (sweep.halving, sweep.rank_by))?;
    if !local {
        write(&folder.join(FUNCTIONS), place.to_toml()?.as_bytes())?;
    }
    let stop: std::sync::Arc<Stop> = std::sync::Arc::default();
    interrupt::watch_sweep(stop.clone())?;
    let mut rows: Vec<Option<Row>> = vec![None; trials.len()];
    let (mut ended, mut now) = (0, 0);
    let repeats = trials.len() as u64 / (choices(&trials).len() as u64).max(1);
    // Both closures, for trials and for lists of jobs, print to the same output.
    let shared = std::cell::RefCell::new(&mut *output);
    let mut record = |rung: usize, at: usize, outcome: Outcome| {
        let Some(trial) = trials.get(at) else { return };
        let mut output = shared.borrow_mut();
        let mut row = Row::from_outcome(trial, &outcome);
        row.rung = sweep.halving.map(|_| rung as u32 + 1);
        if rung != std::mem::replace(&mut now, rung) {
            ended = 0;
        }
        ended += 1;
        let all = rungs.get(rung).map_or(trials.len(), |rung| (rung.choices * repeats) as usize);
        if arguments.json {
            output.json(&TrialLine { event: "trial", done: ended, of: all, row: &row });
        } else if !matches!(outcome, Outcome::Left) {
            output.line(line(&row, &outcome, (ended, all), sweep.rank_by));
        }
        output.flush();
        if let Some(to) = rows.get_mut(at) {
            *to = Some(row);
        }
    };
    let mut functions = (!local).then(|| {
        let functions = Functions::new(&place, arguments.max_usd).within(arguments.within);
        functions.recorded(folder.join(RECORD)).with_predictions(arguments.predictions)
    });
    let folders = |at: usize| trial_folder(&folder, at);
    let mut train = |lot: Lot<'_>, record: &mut dyn FnMut(usize, Outcome)| match (&mut jobs, &mut functions) {
        (Some(jobs), _) => jobs.train(lot, &folders, record, &mut |missing| {
            let mut output = shared.borrow_mut();
            list(arguments, missing, &mut output);
            output.flush();
        }),
        (None, Some(functions)) => functions.train(lot, (&folders, 1), &stop, record),
        (None, None) => eciton_train::sweep::sweep(lot, &folder, workers, &stop, record),
    };
    match sweep.halving {
        Some(_) => {
            let halved = Halved { trials: &trials, configs: &configs, rungs: &rungs, by: sweep.rank_by };
            halve(halved, &folder, &mut train, &mut record).map_err(|error| Failure::attempt(&error))?;
        }
        None => {
            let numbers: Vec<usize> = (0..configs.len()).collect();
            let lot = Lot { configs: &configs, numbers: &numbers, pause_after: None };
            let trained = train(lot, &mut |at, outcome| record(0, at, outcome));
            trained.map_err(|error| Failure::attempt(&error))?;
        }
    }
    let spent = functions.as_ref().and_then(Functions::spent);
    let rows: Vec<Row> = rows.into_iter().flatten().collect();
    let groups = groups(&rows, sweep.rank_by);
    let unranked = unranked(&rows, sweep.rank_by);
    let count = |state: &str| rows.iter().filter(|row| row.state == state).count();
    let results = Results {
        event: "sweep",
        trials: rows.len(),
        done: count("done"),
        failed: count("failed"),
        seconds: begun.elapsed().as_secs_f64(),
        epochs: sweep.halving.map(|_| {
            let trained = rows.iter().filter_map(|row| row.epochs).map(u64::from).sum();
            [trained, u64::from(base.run.epochs) * rows.len() as u64]
        }),
        spent: spent.as_ref(),
        missing: jobs.as_ref().and_then(Jobs::missing),
        ranked_by: unranked.is_none().then(|| sweep.rank_by.name()),
        unranked,
        groups: &groups,
        rows: &rows,
    };
    let title = name.to_string_lossy();
    write(&folder.join("results.csv"), csv(&rows).as_bytes())?;
    write(&folder.join("results.json"), &serde_json::to_vec_pretty(&results)?)?;
    write(&folder.join("sweep.svg"), picture(&rows, &title, sweep.rank_by).as_bytes())?;
    write(&folder.join(PAGE), web::sweep(&rows, &title, sweep.rank_by).as_bytes())?;
    match arguments.json {
        true => output.json(&results),
        false => print(&results, (&folder, sweep.rank_by, sweep.open_data(), &arguments.set), output),
    }
    end(&results, &folder, arguments)
}

/// Returns the address of the bucket for `--executor jobs`, or `None` for all other executors.
///
/// # Errors
/// Returns [`Failure::Usage`] if only one of `--executor jobs` and `--store` is given, or if the
/// address of the bucket is malformed.
fn address(arguments: &Arguments) -> Result<Option<Address>, Failure> {
    let is_jobs = arguments.executor.as_deref() == Some(JOBS);
    match (&arguments.store, is_jobs) {
        (None, false) => Ok(None),
        (Some(_), false) => Err(Failure::Usage("--store requires --executor jobs".to_owned())),
        (None, true) => {
            let text =
                "--executor jobs requires a bucket for jobs and answers; add --store s3://BUCKET/PREFIX";
            Err(Failure::Usage(text.to_owned()))
        }
        (Some(url), true) => {
            let (endpoint, region) = (arguments.endpoint.clone(), arguments.region.clone());
            let address = Address { url: url.clone(), endpoint, region };
            address.parts().map_err(|error| Failure::usage(&error))?;
            Ok(Some(address))
        }
    }
}

/// Value of `--executor` that writes the trials as jobs, which a batch system then runs.
const JOBS: &str = "jobs";

/// Jobs that have no answer yet, with the command line that runs them, which `eciton sweep --json`
/// prints.
#[derive(Serialize)]
struct ListLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    missing: &'a Missing,
    command: &'a [&'a str],
}

/// Prints the command line with which a batch system can run the jobs that have no answer yet.
fn list(arguments: &Arguments, missing: &Missing, output: &mut Output) {
    let mut command = vec!["eciton", "job"];
    let flags =
        [("--store", &arguments.store), ("--endpoint", &arguments.endpoint), ("--region", &arguments.region)];
    for (flag, value) in flags {
        command.extend(value.iter().flat_map(|value| [flag, value]));
    }
    command.push(&missing.list);
    if arguments.json {
        output.json(&ListLine { event: "jobs", missing, command: &command });
        return;
    }
    output.line(format_args!(
        "{} without an answer. To run them, start a job array of size {} (indices from 0) in a batch system:",
        counted(missing.size as u64, "job"),
        missing.size
    ));
    output.line(format_args!("  {}", command.join(" ")));
    output.line("To collect the answers, repeat the `eciton sweep` command.");
}

/// A sweep with all its trials, which results from the sweep file and the command line.
pub(crate) struct Planned {
    sweep: Sweep,
    /// Configuration that all trials are based on. It uses no functions.
    base: Config,
    /// Configuration of the functions that train the trials.
    pub(crate) place: Config,
    trials: Vec<Trial>,
    /// Configuration of each trial, in the order of `trials`.
    pub(crate) configs: Vec<Config>,
    rungs: Vec<Rung>,
}

impl Planned {
    /// Returns the last epoch and the number of trials of each rung, which is a round of successive
    /// halving.
    pub(crate) fn rungs(&self) -> Vec<(u32, usize)> {
        let repeats = self.trials.len() / choices(&self.trials).len().max(1);
        self.rungs.iter().map(|rung| (rung.epochs, rung.choices as usize * repeats)).collect()
    }
}

/// Reads the sweep file, applies the command line, and returns all trials with their
/// configurations.
pub(crate) fn read(arguments: &Arguments) -> Result<Planned, Failure> {
    let shown = arguments.file.display();
    let text = eciton_input::file::read(&arguments.file, MAX_BYTES)
        .map_err(|error| Failure::Failed(format!("{shown}: cannot be read: {error}")))?;
    let text = String::from_utf8(text).map_err(|_| Failure::Failed(format!("{shown}: not UTF-8 text")))?;
    let named = |error: Error| Failure::Usage(format!("{shown}: {}", Failure::text(&error)));
    let sweep = Sweep::parse(&text).map_err(named)?;
    let (base, place) = base(&sweep, arguments)?;
    let trials = sweep.trials(base.run.seed).map_err(named)?;
    let (trials, configs) = trials::settle(&base, trials, &shown.to_string())?;
    // All trials have the length of the recipe, or of the first trial if the data decide it.
    let base = match configs.first() {
        Some(first) if base.choices.open => Config { run: first.run.clone(), ..base },
        _ => base,
    };
    let rungs = rungs(&sweep, &base, &trials).map_err(named)?;
    Ok(Planned { sweep, base, place, trials, configs, rungs })
}

/// Returns two configurations. All trials are based on the first one, which uses no functions, and
/// the second one describes the functions that train them.
fn base(sweep: &Sweep, arguments: &Arguments) -> Result<(Config, Config), Failure> {
    let next_to_file =
        |recipe: &str| arguments.file.parent().unwrap_or(Path::new("")).join(recipe).display().to_string();
    let data = || sweep.data.clone();
    let (what, recipe, data) = match sweep.recipe.as_deref() {
        None => (data(), None, None),
        Some(recipe) if recipe.to_ascii_lowercase().ends_with(".toml") => {
            (Some(next_to_file(recipe)), None, data())
        }
        Some(recipe) => match (recipe.split_once('/'), &sweep.data) {
            (Some((set, model)), _) => (Some(set.to_owned()), Some(model.to_owned()), data()),
            (None, Some(_)) => (data(), Some(recipe.to_owned()), None),
            (None, None) => {
                let reason = "expected DATASET/MODEL (see `eciton recipes`), a recipe file (.toml), or a model name \
                              with `data`";
                return Err(Failure::Usage(format!("recipe = \"{recipe}\": {reason}")));
            }
        },
    };
    let data = data.iter().map(|data| format!("data.source={data}"));
    let is_of_functions = |set: &&String| set.starts_with("executor.") || set.starts_with("emulator.");
    let set = data.chain(arguments.set.iter().filter(|set| !is_of_functions(set)).cloned());
    let mut config = recipe::configure(&Request::with(what, recipe, set)?)?;
    let mut place = Config::default();
    (place.executor, place.emulator) = (config.executor.clone(), config.emulator.clone());
    config.run_here();
    // A job trains on the machine that runs it.
    let executor = arguments.executor.clone().filter(|name| name != JOBS);
    let flags = [
        ("executor.kind", &executor),
        ("executor.functions", &arguments.functions),
        ("executor.memory_mb", &arguments.memory),
        ("executor.deployment", &arguments.deployment),
    ];
    let flags =
        flags.into_iter().filter_map(|(key, value)| value.as_ref().map(|value| format!("{key}={value}")));
    let set = arguments.set.iter().filter(is_of_functions).cloned();
    let place = recipe::settle(place, flags.chain(set), &arguments.file.display().to_string())?;
    Ok((config, place))
}

/// Returns the rungs, which are the rounds of successive halving. Without halving, there is a
/// single rung with all choices.
fn rungs(sweep: &Sweep, base: &Config, trials: &[Trial]) -> Result<Vec<Rung>, Error> {
    let (choices, epochs) = (choices(trials).len() as u64, base.run.epochs);
    let Some(halving) = sweep.halving else { return Ok(vec![Rung { epochs, choices }]) };
    if !base.checkpoint.is_on() {
        let reason = "[halving] requires checkpoints, because trials are resumed; set checkpoint.every or checkpoint.seconds above 0";
        return Err(Error::Content { what: "a sweep", reason: reason.to_owned() });
    }
    halving.rungs(choices, epochs)
}

/// Creates the folder of the sweep. If it already exists, checks that it belongs to a sweep with
/// the same trials.
///
/// # Errors
/// Returns [`Failure::Failed`] if the folder contains another sweep, or if it cannot be written.
fn claim(
    folder: &Path,
    base: &Config,
    trials: &[Trial],
    (halving, rank_by): (Option<Halving>, Part),
) -> Result<(), Failure> {
    let mut text = base.to_toml()?;
    if let Some(Halving { eta, epochs }) = halving {
        let by = if rank_by == Part::Test { ", ranked by test" } else { "" };
        let _ = writeln!(text, "# halving: eta {eta}, epochs {epochs}{by}");
    }
    for trial in trials {
        let _ = writeln!(text, "# trial {:05}: {}", trial.number, trial.settings());
    }
    let path = folder.join("trials.toml");
    match std::fs::metadata(&path) {
        Ok(_) => {
            let found = eciton_input::file::read(&path, text.len() as u64 + 1)
                .map_err(|error| Failure::Failed(format!("{}: cannot be read: {error}", path.display())))?;
            if found == text.as_bytes() {
                return Ok(());
            }
            Err(Failure::Failed(format!(
                "{} contains a sweep with other trials; choose another folder with --out, or remove this one",
                folder.display()
            )))
        }
        Err(_) => {
            let trials = folder.join("trials");
            std::fs::create_dir_all(&trials).map_err(|error| {
                Failure::Failed(format!("{}: cannot be created: {error}", trials.display()))
            })?;
            write(&path, text.as_bytes())
        }
    }
}

/// Writes a file atomically, by renaming a temporary file with the extension `partial` to `path`.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, bytes)
        .and_then(|()| std::fs::rename(&partial, path))
        .map_err(|error| Failure::Failed(format!("{}: cannot be written: {error}", path.display())))
}

/// Returns the line that is printed when a trial ends. It has the settings, the metric and the time
/// of the trial.
fn line(row: &Row, outcome: &Outcome, (ended, all): (usize, usize), by: Part) -> String {
    let repeat: Vec<String> = row.repeat.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let settings = format!("{} {}", row.label(), repeat.join(" "));
    let result = match (outcome, row.metric) {
        (Outcome::Failed(text), _) => format!("failed: {text}"),
        (_, Some(metric)) => {
            let found = measured(metric, row.metric_on(by));
            let took = match outcome {
                Outcome::Found(_) => "already trained".to_owned(),
                _ => seconds(row.seconds.unwrap_or_default()),
            };
            format!("{} {found}{}, {took}", by.name(), unit(metric))
        }
        _ => String::new(),
    };
    let rung = row.rung.map_or_else(String::new, |rung| format!("rung {rung}, "));
    format!("{rung}{ended:>5} of {all}  trial {:>5}  {}: {result}", row.trial, settings.trim())
}

/// Prints the table of choices, the cost of the sweep, and the command that trains the best choice
/// again.
fn print(
    results: &Results<'_>,
    (folder, by, data, set): (&Path, Part, Option<&str>, &[String]),
    output: &mut Output,
) {
    let widest =
        results.groups.iter().take(MAX_SHOWN).map(|group| group.label.len()).max().unwrap_or(0).max(7);
    output.line("");
    let halved = results.epochs.is_some();
    let head = if halved { format!("{:>4}  {:>6}  ", "rung", "epochs") } else { String::new() };
    output.line(format_args!(
        "{:<widest$}  {:>6}  {head}{:>16}  {:>16}",
        "choice", "trials", "validation", "test"
    ));
    for group in results.groups.iter().take(MAX_SHOWN) {
        let metric = group.metric.unwrap_or_default();
        let spread = |found: Option<(f64, f64)>| match found {
            None => "-".to_owned(),
            Some((mean, _)) if group.trials < 2 => measured(metric, Some(mean)),
            Some((mean, deviation)) => {
                format!("{} ± {}", measured(metric, Some(mean)), measured(metric, Some(deviation)))
            }
        };
        let label = if group.label.is_empty() { "recipe" } else { &group.label };
        let (validation, test) = (spread(group.validation), spread(group.test));
        let [rung, epochs] = [group.rung, group.epochs].map(|n| n.map_or("-".to_owned(), |n| n.to_string()));
        let progress = if halved { format!("{rung:>4}  {epochs:>6}  ") } else { String::new() };
        output.line(format_args!(
            "{label:<widest$}  {:>6}  {progress}{validation:>16}  {test:>16}",
            group.trials
        ));
    }
    if results.groups.len() > MAX_SHOWN {
        output.line(format_args!("... {} more in results.csv", results.groups.len() - MAX_SHOWN));
    }
    let (done, failed) = (results.done, results.failed);
    let left = results.trials - done - failed;
    output.line("");
    let metric = results.groups.iter().find_map(|group| group.metric).unwrap_or_default();
    let remedy = match by {
        Part::Validation if results.unranked.is_some() => {
            "; rank_by = \"test\" in the sweep's file ranks them by the test metric"
        }
        _ => "",
    };
    if results.done > 0 {
        output.line(format_args!("{}{remedy}", web::ranking(results.rows, metric, by)));
    }
    output
        .line(format_args!("{done} trained, {failed} failed, {left} not run, {}", seconds(results.seconds)));
    if let Some([trained, all]) = results.epochs {
        output.line(format_args!("{trained} of {all} epochs trained"));
    }
    if let Some(spent) = results.spent {
        output.line(spent_text(spent));
    }
    output
        .line(format_args!("wrote results.csv, results.json, sweep.svg and {PAGE} to {}", folder.display()));
    let best = results.groups.first().filter(|group| results.unranked.is_none() && !group.label.is_empty());
    if let (Some(best), Some(data)) = (best, data) {
        let settings = set.iter().map(String::as_str).chain(best.label.split(' '));
        let set: Vec<String> = settings.map(|setting| format!("--set {setting}")).collect();
        output.line(format_args!("train the best choice again: eciton train {data} {}", set.join(" ")));
    }
}

/// Name of the file with the web page of a sweep, in the sweep's folder.
const PAGE: &str = "report.html";
/// Name of the file that records the costs of function calls. The next start of the command reads
/// it, because limits such as `--max-usd` cover all starts.
pub(crate) const RECORD: &str = "spent.jsonl";
/// Name of the file with the configuration of the functions that a sweep or run used last.
pub(crate) const FUNCTIONS: &str = "functions.toml";

/// Returns a text of two or three lines on the calls of functions, their billed time and their
/// cost.
pub(crate) fn spent_text(spent: &Spent) -> String {
    let Bill { invocations, cold_starts, failed, throttled, unreported, gb_seconds, init_ms, .. } =
        spent.bill;
    let unreported = match unreported {
        0 => String::new(),
        count => format!(", {count} without a report (not in the total)"),
    };
    let (times, took) = match spent.cost.times {
        TimeOrigin::Modelled => ("modelled", format!("; {} of modelled time", seconds(spent.seconds))),
        TimeOrigin::Measured => ("measured on this machine", String::new()),
        TimeOrigin::Charged => ("as reported", String::new()),
    };
    let mut text = format!(
        "functions: {}, {} ({} of initialisation), {failed} failed, {throttled} \
         throttled{unreported}{took}\nbill: {gb_seconds:.1} GB-s ({times}); USD {:.4} (prices of {})",
        counted(invocations, "call"),
        counted(cold_starts, "cold start"),
        seconds(init_ms / 1e3),
        spent.cost.usd,
        spent.cost.prices
    );
    if let Some(cut) = &spent.cut {
        let _ = write!(text, "\nfunctions: {cut}");
    }
    text
}

/// Returns a failure if trials of the sweep have failed or were not run. The message names the next
/// step for the user.
fn end(results: &Results<'_>, folder: &Path, arguments: &Arguments) -> Result<(), Failure> {
    let left = results.trials - results.done - results.failed;
    if let (Some(code), true) = (interrupt::code(), left > 0) {
        let text = "the sweep was stopped; repeat the command to resume it".to_owned();
        return Err(Failure::Stopped { text, code });
    }
    if let (Some(missing), Some(wait)) = (results.missing, arguments.wait) {
        return Err(Failure::Temporary(format!(
            "{} of {} without an answer after {wait} s; repeat the command to wait for them",
            counted(missing.size as u64, "job"),
            missing.list
        )));
    }
    if left > 0 && results.failed == 0 && results.missing.is_none() {
        let limits = match (arguments.max_usd, arguments.within) {
            (_, None) => "--max-usd",
            (None, Some(_)) => "--within",
            (Some(_), Some(_)) => "--max-usd or --within",
        };
        let text = format!(
            "{left} of {} trials were not run, because {limits} is exhausted; repeat the command with a higher limit",
            results.trials
        );
        return Err(Failure::Failed(text));
    }
    if results.failed > 0 {
        let first = results.rows.iter().find_map(|row| row.error.as_ref().map(|error| (row.trial, error)));
        if let Some((trial, error)) = first {
            tell(format_args!("trial {trial}, {}: {error}", trial_folder(folder, trial as usize).display()));
        }
        let failed = counted(results.failed as u64, "trial");
        return Err(Failure::Failed(format!(
            "{failed} of {} failed; the results of all other trials were written",
            results.trials
        )));
    }
    Ok(())
}
