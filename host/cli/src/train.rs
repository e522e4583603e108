//! The command `eciton train`, which trains a model in this process, on workers or on functions.

use std::path::{Path, PathBuf};

use eciton_recipe::{Config, pipeline_schedule};
use eciton_train::sweep::{Functions, Lot, Outcome};
use eciton_train::{Error, Hosts, Observer, Options, Recording, Silent, Summary, checkpoint};
use indicatif::ProgressBar;

use crate::failure::Failure;
use crate::hosts::{self, Joined};
use crate::key_flags::KeyFlags;
use crate::output::Output;
use crate::progress::{self, Bar, JsonLines, Lines};
use crate::recipe::{Request, Setting};
use crate::run_name::RunName;
use crate::sweep::{FUNCTIONS, RECORD, spent_text};
use crate::{interrupt, recipe, summary, text};

/// Arguments of `eciton train`. Values of recipe keys stay unparsed text here; the recipe parses
/// them.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Name or path of a data set, or a recipe (.toml) [default: cora]
    #[arg(value_name = "DATASET|PATH|RECIPE.toml")]
    pub(crate) what: Option<String>,
    /// Name of the data set within a folder that holds several
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Recommended settings of a model for this data set: gcn, gat, ... (see `eciton recipes`)
    #[arg(long, value_name = "MODEL", conflicts_with = "model")]
    pub(crate) recipe: Option<String>,
    /// Flags that set keys of the recipe, generated from the declarations of the keys.
    #[command(flatten)]
    pub(crate) keys: KeyFlags,

    /// Model: gcn, sage, gin, sgc, appnp, gat, gatv2, mlp, or a model file (.toml) [default: gcn]
    #[arg(long, help_heading = "Model")]
    pub(crate) model: Option<String>,
    /// Replace a built-in kernel by a component; the same as --set kernels.NAME=PATH
    #[arg(long, value_name = "NAME=PATH", help_heading = "Model")]
    pub(crate) kernel: Vec<String>,

    /// Number of times to train, with random seeds SEED, SEED + 1, ...
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Training")]
    pub(crate) seeds: u32,

    /// Pipeline schedule: gpipe, 1f1b, 2bw, naive, interleaved [default: 1f1b]
    #[arg(long, value_name = "NAME", help_heading = "Pipeline")]
    pub(crate) schedule: Option<String>,

    /// Use a new kernel instance for every task; slower, with identical results
    #[arg(long, help_heading = "Execution")]
    pub(crate) fresh_instances: bool,

    /// Number of hosts that share the training, or `env` if a launcher such as mpirun or srun has
    /// started all of them. Without --rendezvous, all hosts are on this machine
    #[arg(long, value_name = "N|env", help_heading = "Execution", conflicts_with_all = ["as_task", "trace", "tensorboard", "record_events", "replay_events", "profile"])]
    pub(crate) hosts: Option<hosts::Wanted>,

    /// Run the whole training in one function invocation (with --executor emulated or lambda)
    #[arg(
        long,
        help_heading = "Functions",
        conflicts_with_all = ["no_out", "embeddings", "scores", "trace", "tensorboard", "record_events", "replay_events", "profile", "dry_run", "fresh_instances", "worker"]
    )]
    pub(crate) as_task: bool,
    /// Maximum cost of the task, in US dollars [default: no limit]
    #[arg(long, value_name = "USD", value_parser = crate::sweep::usd, requires = "as_task", help_heading = "Functions")]
    pub(crate) max_usd: Option<f64>,

    /// Run folder to write [default: runs/DATASET-MODEL-DATE-TIME]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,
    /// Do not write a run folder
    #[arg(long, conflicts_with = "out", help_heading = "Output")]
    pub(crate) no_out: bool,
    /// Also write the last hidden layer to predictions.npz. Link prediction always writes its
    /// embeddings there
    #[arg(long, conflicts_with = "no_out", help_heading = "Output")]
    pub(crate) embeddings: bool,
    /// Also write the scores of tokens to predictions.npz: tokens x vocabulary x 4 bytes. Scores of
    /// vertices and other rows are always written
    #[arg(long, conflicts_with = "no_out", help_heading = "Output")]
    pub(crate) scores: bool,
    /// Write a trace of every step to this file, to open in ui.perfetto.dev
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) trace: Option<PathBuf>,
    /// Record the order of events to this file, to repeat an asynchronous run bit for bit
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) record_events: Option<PathBuf>,
    /// Process events in the order that --record-events wrote to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) replay_events: Option<PathBuf>,
    /// Write TensorBoard event files to this folder during the run, with a subfolder per seed
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) tensorboard: Option<PathBuf>,
    /// Write a task profile to this file: the time of each stage, for `eciton simulate --profile`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) profile: Option<PathBuf>,
    /// Print the work and memory of the run, like `eciton plan`, and exit without training
    #[arg(long, help_heading = "Output")]
    pub(crate) dry_run: bool,
    /// Print one JSON object per line
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Set a key of the recipe; takes precedence over all flags
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl Arguments {
    /// Returns the request for a run, which has the data, recipe, model and settings that the
    /// arguments name.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] if `--schedule` names an unknown schedule, or if an argument of
    /// `--kernel` or `--set` is malformed.
    pub(crate) fn request(&self) -> Result<Request, Failure> {
        let mut settings: Vec<Setting> = self.keys.settings().collect();
        if let Some(name) = &self.schedule {
            let schedule = pipeline_schedule::assignments(name).map_err(|known| {
                Failure::Usage(format!("--schedule {name}: unknown schedule; expected one of {known}"))
            })?;
            let shown = format!("--schedule {name}");
            settings.extend(schedule.into_iter().map(|(key, value)| Setting {
                key: key.to_owned(),
                value: value.to_owned(),
                shown: shown.clone(),
            }));
        }
        for argument in &self.set {
            settings.push(Setting::parse(argument)?);
        }
        Ok(Request {
            data: self.what.clone(),
            name: self.name.clone(),
            recipe: self.recipe.clone(),
            model: self.model.clone(),
            kernels: self.kernel.iter().map(|argument| kernel(argument)).collect::<Result<_, _>>()?,
            runs_on_workers: self.keys.has("workers.count"),
            settings,
            embeddings: self.embeddings,
        })
    }
}

/// Parses the argument of `--kernel`, which has the form `NAME=PATH`. Returns the name of the
/// kernel and the path of the component.
fn kernel(argument: &str) -> Result<(String, String), Failure> {
    match argument.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.to_owned())),
        _ => Err(Failure::Usage(format!(
            "--kernel {argument}: expected NAME=PATH, for instance linear=./linear.wasm"
        ))),
    }
}

const AFTER_HELP: &str = "\
Precedence: --set overrides flags, flags override the recipe, and the recipe
overrides the defaults.

Signals: The first Ctrl-C stops the run after the current epoch and writes all
results; tasks on functions are cancelled. SIGTERM stops the run at the same
point and writes only a checkpoint. A second signal quits at once.

Checkpoints: A run writes a checkpoint once a minute, and one when it is
stopped. `eciton resume DIR` resumes it from the last checkpoint.";

/// Trains the model, shows the progress of the run, and prints its summary. `joined` is given if
/// this process is a host that has joined a run.
pub(crate) fn run(arguments: &Arguments, joined: Option<Joined>, output: &mut Output) -> Result<(), Failure> {
    let config = recipe::configure(&arguments.request()?)?;
    let joined = match joined {
        None => Joined::join(arguments.hosts, &config)?,
        joined => joined,
    };
    let saves = !arguments.no_out && config.checkpoint.is_on();
    let hosts = joined.as_ref().map(|joined| Hosts { saves, ..joined.hosts.clone() });
    // Only host 0 of several reports and writes results.
    let is_first = hosts.as_ref().is_none_or(|hosts| hosts.me == 0);
    let writes = is_first && !arguments.no_out;
    // This value reserves the name until the run ends.
    let chosen = match &arguments.out {
        None if writes => Some(RunName::choose(&config)),
        _ => None,
    };
    let out = match &chosen {
        Some(name) => Some(name.path().to_owned()),
        None => arguments.out.clone().filter(|_| writes),
    };
    if let (true, Some(out)) = (arguments.as_task, &out) {
        // The function receives resolved settings, including those that follow from the data set.
        let config = eciton_train::defaults::settle(&config)?;
        return as_task(arguments, &config, out, output);
    }
    let bar = if is_first { bar(arguments.json, output) } else { ProgressBar::hidden() };
    let options = Options {
        seeds: arguments.seeds,
        out,
        hosts,
        fresh_instances: arguments.fresh_instances,
        embeddings: arguments.embeddings,
        scores: arguments.scores,
        recording: Recording {
            events: arguments.record_events.clone(),
            replay: arguments.replay_events.clone(),
            trace: arguments.trace.clone(),
            tensorboard: arguments.tensorboard.clone(),
            profile: arguments.profile.clone(),
        },
        ..Options::default()
    };
    interrupt::watch(options.stop.clone(), bar.clone(), options.out.as_deref())?;
    let mut observer = match is_first {
        true => observer(arguments.json, bar, output, &options),
        false => Box::new(Silent),
    };
    let summary = eciton_train::train(&config, &options, &mut *observer);
    drop(observer);
    let Some(summary) = Joined::result(joined, summary, &options.stop)? else { return Ok(()) };
    finish(summary, arguments.json, &options, output)
}

/// Trains the model in function calls, for the option `--as-task`. If the training takes longer
/// than the time limit of a function, further calls continue it.
fn as_task(arguments: &Arguments, config: &Config, out: &Path, output: &mut Output) -> Result<(), Failure> {
    if config.executor.kind.is_here() {
        let remedy = "add --executor emulated or --executor lambda";
        return Err(Failure::Usage(format!("--as-task requires an executor with functions; {remedy}")));
    }
    // A chain of calls whose host was killed leaves its newest checkpoint next to the run folder.
    if !eciton_train::sweep::can_continue(config, out)? {
        eciton_train::job::check_vacant(out)?;
    }
    let options = Options { seeds: arguments.seeds, out: Some(out.to_owned()), ..Options::default() };
    let stop = options.stop.clone();
    interrupt::watch_sweep(stop.clone())?;
    let mut ended = None;
    let lot = Lot { configs: std::slice::from_ref(config), numbers: &[0], pause_after: None };
    // The record is next to the run folder until that exists.
    let record = PathBuf::from(format!("{}.{RECORD}", out.display()));
    let functions = Functions::new(config, arguments.max_usd).with_predictions(true);
    let mut functions = functions.recorded(record.clone());
    let folder = |_| out.to_owned();
    functions.train(lot, (&folder, arguments.seeds), &stop, &mut |_, outcome| ended = Some(outcome))?;
    let spent = functions.spent();
    if out.is_dir() && record.exists() {
        let to = out.join(RECORD);
        std::fs::rename(&record, &to)
            .map_err(|error| Failure::Failed(format!("{}: cannot be written: {error}", to.display())))?;
        let mut place = Config::default();
        (place.executor, place.emulator) = (config.executor.clone(), config.emulator.clone());
        crate::sweep::write(&out.join(FUNCTIONS), place.to_toml()?.as_bytes())?;
    }
    let summary = match ended {
        Some(Outcome::Trained(summary) | Outcome::Found(summary)) => Ok(*summary),
        Some(Outcome::Failed(text)) => return Err(Failure::Failed(text)),
        Some(Outcome::Left) | None if checkpoint::is_resumable(out) => {
            let text = format!(
                "stopped between two function calls; repeat the command to continue on functions, or run \
                 `eciton resume {}` to continue on this machine",
                out.display()
            );
            return Err(match interrupt::code() {
                Some(code) => Failure::Stopped { text, code },
                None => Failure::Failed(text),
            });
        }
        Some(Outcome::Left) | None => Err(Error::Stopped),
    };
    finish(summary, arguments.json, &options, output)?;
    if let Some(spent) = spent {
        match arguments.json {
            true => output.json(&spent),
            false => {
                for job in &spent.jobs {
                    let paused = job.paused.map_or_else(String::new, |paused| {
                        format!("; paused after epoch {} of seed {}", paused.epoch, paused.seed)
                    });
                    output.line(format_args!(
                        "function: {:.2} s, including {:.2} s to transfer {} of files; peak memory {}{paused}",
                        job.seconds,
                        job.files_seconds,
                        text::bytes(job.files_bytes),
                        text::bytes(job.peak_memory_bytes)
                    ));
                }
                output.line(spent_text(&spent));
            }
        }
    }
    Ok(())
}

/// Returns the progress bar of a run. It is hidden with `--json`, or if the output is not a
/// terminal.
pub(crate) fn bar(json: bool, output: &Output) -> ProgressBar {
    if json || !progress::drawable(output) { ProgressBar::hidden() } else { Bar::unstarted() }
}

/// Returns the observer that shows the progress of a run, as JSON lines, text lines or a progress
/// bar.
pub(crate) fn observer<'a>(
    json: bool,
    bar: ProgressBar,
    output: &'a mut Output,
    options: &Options,
) -> Box<dyn Observer + 'a> {
    if json {
        Box::new(JsonLines::new(output, options.stop.clone()))
    } else if bar.is_hidden() {
        Box::new(Lines::new(output, options.stop.clone()))
    } else {
        Box::new(Bar::new(output, bar))
    }
}

/// Prints the summary of a run. If the run has failed, the returned failure names the command that
/// resumes it.
pub(crate) fn finish(
    summary: eciton_train::Result<Summary>,
    json: bool,
    options: &Options,
    output: &mut Output,
) -> Result<(), Failure> {
    let code = interrupt::code();
    let summary = summary.map_err(|error| {
        let text = Failure::text(&error);
        if let (Error::Left { .. } | Error::Stopped, Some(code)) = (&error, code) {
            return Failure::Stopped { text, code };
        }
        // A run that could not begin has an error that names the next step.
        let begun = !error.is_damage()
            && !matches!(
                error,
                Error::Busy { .. }
                    | Error::Unfinished { .. }
                    | Error::NoCheckpoint { .. }
                    | Error::Changed { .. }
                    | Error::Foreign { .. }
                    | Error::Kept { finished: true, .. }
                    | Error::Plan(_)
            );
        let text = match options.out.as_deref().filter(|out| begun && checkpoint::is_resumable(out)) {
            Some(out) => format!(
                "{text}\nthe run can be resumed from its newest checkpoint with `eciton resume {}`",
                out.display()
            ),
            None => text,
        };
        match error {
            Error::Deserted(_) => Failure::Temporary(text),
            _ => Failure::Failed(text),
        }
    })?;
    if json {
        output.json(&summary::Line::from_summary(&summary));
    } else {
        summary::print(&summary, output);
    }
    match code.filter(|_| summary.stopped) {
        None => Ok(()),
        Some(code) => {
            let resumable = options.out.as_deref().filter(|out| checkpoint::is_resumable(out));
            let next = match resumable {
                Some(out) => format!("`eciton resume {}` resumes it", out.display()),
                None => "it cannot be resumed, because it has no checkpoint".to_owned(),
            };
            Err(Failure::Stopped { text: format!("the run was stopped; {next}"), code })
        }
    }
}
