//! `eciton train`: trains a model.

use std::path::{Path, PathBuf};

use eciton_recipe::{Config, pipeline_schedule};
use eciton_train::sweep::{Functions, Lot, Outcome};
use eciton_train::{Error, Observer, Options, Recording, Summary, checkpoint};
use indicatif::ProgressBar;

use crate::failure::Failure;
use crate::key_flags::KeyFlags;
use crate::output::Output;
use crate::progress::{self, Bar, JsonLines, Lines};
use crate::recipe::{Request, Setting};
use crate::run_name::RunName;
use crate::sweep::{FUNCTIONS, RECORD, told_spent};
use crate::{interrupt, recipe, summary, text};

/// Arguments of `eciton train`. Values of recipe keys stay text, which the plan parses.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// A data set's name, a path to one, or a recipe (.toml) [default: cora]
    #[arg(value_name = "DATASET|PATH|RECIPE.toml")]
    pub(crate) what: Option<String>,
    /// Name of the data set, if a folder holds several
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// The settings that are usual for a model on this data set: gcn, gat, ... (`eciton recipes` lists them)
    #[arg(long, value_name = "MODEL", conflicts_with = "model")]
    pub(crate) recipe: Option<String>,
    /// Flags that set keys of the recipe.
    #[command(flatten)]
    pub(crate) keys: KeyFlags,

    /// The model: gcn, sage, gin, sgc, appnp, gat, gatv2, mlp, or a model file (.toml) [default: gcn]
    #[arg(long, help_heading = "Model")]
    pub(crate) model: Option<String>,
    /// A component in place of a built-in kernel; as --set kernels.NAME=PATH
    #[arg(long, value_name = "NAME=PATH", help_heading = "Model")]
    pub(crate) kernel: Vec<String>,

    /// Train so often, with SEED, SEED + 1, ...
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Training")]
    pub(crate) seeds: u32,

    /// Pipeline schedule: gpipe, 1f1b, 2bw, naive, interleaved [default: 1f1b]
    #[arg(long, value_name = "NAME", help_heading = "Pipeline")]
    pub(crate) schedule: Option<String>,

    /// A new kernel instance for every task; slower, changes no result
    #[arg(long, help_heading = "Execution")]
    pub(crate) fresh_instances: bool,

    /// Train as one task: one invocation of a function does the whole run (with --executor emulated or lambda)
    #[arg(
        long,
        help_heading = "Functions",
        conflicts_with_all = ["no_out", "embeddings", "scores", "trace", "tensorboard", "record_events", "replay_events", "profile", "dry_run", "fresh_instances", "worker"]
    )]
    pub(crate) as_task: bool,
    /// US dollars that the task may cost
    #[arg(long, value_name = "USD", value_parser = crate::sweep::usd, requires = "as_task", help_heading = "Functions")]
    pub(crate) max_usd: Option<f64>,

    /// The run folder [default: runs/DATASET-MODEL-DATE-TIME]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,
    /// Write no run folder
    #[arg(long, conflicts_with = "out", help_heading = "Output")]
    pub(crate) no_out: bool,
    /// Also keep the last hidden layer, in predictions.npz; not with link prediction, whose embeddings are there
    #[arg(long, conflicts_with = "no_out", help_heading = "Output")]
    pub(crate) embeddings: bool,
    /// Also keep the scores of tokens, in predictions.npz: tokens x vocabulary x 4 bytes; those of other rows
    /// are there
    #[arg(long, conflicts_with = "no_out", help_heading = "Output")]
    pub(crate) scores: bool,
    /// Write a trace of every step, which ui.perfetto.dev opens
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) trace: Option<PathBuf>,
    /// Write the order of events, to repeat an asynchronous run bit for bit
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) record_events: Option<PathBuf>,
    /// Take events in the order of such a file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) replay_events: Option<PathBuf>,
    /// Write event files for TensorBoard, while the run goes on; of several seeds in a folder each
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) tensorboard: Option<PathBuf>,
    /// Write a task profile: what each stage took, for `eciton simulate --profile`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) profile: Option<PathBuf>,
    /// Say what the run would do and hold, as `eciton plan`, and do nothing
    #[arg(long, help_heading = "Output")]
    pub(crate) dry_run: bool,
    /// Print one JSON object a line
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Set a key of a recipe, after all else
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl Arguments {
    /// Returns the training that the arguments ask for.
    pub(crate) fn request(&self) -> Result<Request, Failure> {
        let mut settings: Vec<Setting> = self.keys.settings().collect();
        if let Some(name) = &self.schedule {
            let schedule = pipeline_schedule::assignments(name).map_err(|known| {
                Failure::Usage(format!("--schedule {name}: no schedule is called that; known: {known}"))
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

/// Parses NAME=PATH, the argument of `--kernel`.
fn kernel(argument: &str) -> Result<(String, String), Failure> {
    match argument.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.to_owned())),
        _ => Err(Failure::Usage(format!(
            "--kernel {argument}: write NAME=PATH, for instance linear=./linear.wasm"
        ))),
    }
}

const AFTER_HELP: &str = "\
Defaults are overridden by a recipe, the recipe by flags, flags by --set.
The first Ctrl-C stops after the epoch (with functions: cancels what is under way) and writes everything; SIGTERM
stops there as well, and writes a checkpoint alone; the second signal quits at once. `eciton resume DIR` goes on with
a run that was stopped or killed, from its last checkpoint: one a minute, and one when it is stopped.";

/// Trains, and shows the progress.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let config = recipe::configure(&arguments.request()?)?;
    // This value reserves the name until the run ends.
    let chosen = match &arguments.out {
        None if !arguments.no_out => Some(RunName::choose(&config)),
        _ => None,
    };
    let out = match &chosen {
        Some(name) => Some(name.path().to_owned()),
        None => arguments.out.clone().filter(|_| !arguments.no_out),
    };
    if let (true, Some(out)) = (arguments.as_task, &out) {
        // The function gets the settings that the data decide.
        let config = eciton_train::defaults::settle(&config)?;
        return as_task(arguments, &config, out, output);
    }
    let bar = bar(arguments.json, output);
    let options = Options {
        seeds: arguments.seeds,
        out,
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
    let mut observer = observer(arguments.json, bar, output, &options);
    let summary = eciton_train::train(&config, &options, &mut *observer);
    drop(observer);
    finish(summary, arguments.json, &options, output)
}

/// Trains on a function. A training that needs longer than the function's time limit takes several
/// calls.
fn as_task(arguments: &Arguments, config: &Config, out: &Path, output: &mut Output) -> Result<(), Failure> {
    if config.executor.kind.is_here() {
        let remedy = "add --executor emulated or --executor lambda";
        return Err(Failure::Usage(format!("--as-task: this machine's threads are no functions; {remedy}")));
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
                "stopped between two calls; the same command continues the training on functions, `eciton resume {}` \
                 continues it on this machine",
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
                        "function: {:.2} s, of them {:.2} s for {} of files; peak {}{paused}",
                        job.seconds,
                        job.files_seconds,
                        text::bytes(job.files_bytes),
                        text::bytes(job.peak_memory_bytes)
                    ));
                }
                output.line(told_spent(&spent));
            }
        }
    }
    Ok(())
}

/// Returns a bar. It is hidden if it cannot be drawn or is not wanted.
pub(crate) fn bar(json: bool, output: &Output) -> ProgressBar {
    if json || !progress::drawable(output) { ProgressBar::hidden() } else { Bar::unstarted() }
}

/// Returns the observer that shows the progress of a run: JSON lines, text lines or a bar.
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

/// Prints the result of a run. For a failed run, it prints the command that resumes it.
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
        match options.out.as_deref().filter(|out| begun && checkpoint::is_resumable(out)) {
            Some(out) => Failure::Failed(format!(
                "{text}\nits checkpoints are kept: `eciton resume {}` goes on from the newest",
                out.display()
            )),
            None => Failure::Failed(text),
        }
    })?;
    if json {
        output.json(&summary::Line::of(&summary));
    } else {
        summary::print(&summary, output);
    }
    match code.filter(|_| summary.stopped) {
        None => Ok(()),
        Some(code) => {
            let resumable = options.out.as_deref().filter(|out| checkpoint::is_resumable(out));
            let next = match resumable {
                Some(out) => format!("`eciton resume {}` goes on with it", out.display()),
                None => "it has no checkpoint to go on from".to_owned(),
            };
            Err(Failure::Stopped { text: format!("the run was stopped; {next}"), code })
        }
    }
}
