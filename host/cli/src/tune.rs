//! `eciton tune`: a search for good settings of a data set. It writes the file of a sweep and
//! trains that sweep.

use std::path::{Path, PathBuf};

use eciton_recipe::Config;
use eciton_train::defaults;

use crate::failure::Failure;
use crate::output::Output;
use crate::recipe::{self, Request};
use crate::sweep::{self, write};

const AFTER_HELP: &str = "\
The search is a sweep with successive halving over settings that suit the kind of the data: a table, images, a text or a
graph. Its file is FOLDER/tune.toml; edit a copy and give it to `eciton sweep` for another space. The same command goes
on with a search that was stopped.

Example:  eciton tune people.csv --trials 27";

/// `eciton tune`
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The data set: a path, as `eciton train` takes it
    #[arg(value_name = "DATA")]
    data: String,
    /// Number of choices that are drawn
    #[arg(long, value_name = "N", default_value_t = 27, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trials: u32,
    /// Trainings of each choice
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// The search's folder; one that is there goes on [default: sweeps/tune-NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Trainings at once, with one thread each where there are several [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Set a key of a recipe for all trials
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Print what would be trained, and train nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Writes the sweep's file, and trains it.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let request = Request::with(Some(arguments.data.clone()), None, arguments.set.iter().cloned())?;
    let config: Config = recipe::configure(&request)?;
    if !config.choices.open {
        let reason = "is a recipe; write a sweep's file for it, and give that to `eciton sweep`";
        return Err(Failure::Usage(format!("{} {reason}", arguments.data)));
    }
    let statistics = defaults::statistics(&config)?;
    let settled = match defaults::is_open(&config) {
        true => defaults::settle_by(&config, &statistics)?,
        false => config,
    };
    let source = &settled.data.source;
    let sizes = (arguments.trials, arguments.seeds, settled.run.epochs);
    let text = defaults::space(&statistics, source, sizes);
    let name =
        Path::new(source).file_stem().map_or_else(|| source.clone(), |name| name.to_string_lossy().into());
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("sweeps").join(format!("tune-{name}")));
    let file = folder.join("tune.toml");
    let found = eciton_input::file::read(&file, 1 << 20).ok();
    if found.as_ref().is_some_and(|found| found != text.as_bytes()) {
        return Err(Failure::Failed(format!(
            "{}: another search is there; `eciton sweep {} --out {}` goes on with it, or name another folder with --out",
            folder.display(),
            file.display(),
            folder.display()
        )));
    }
    if found.is_none() {
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::Failed(format!("{}: cannot be made: {error}", folder.display())))?;
        write(&file, text.as_bytes())?;
    }
    let mut sweep = sweep::Arguments::of_file(file, arguments.set.clone());
    (sweep.out, sweep.workers) = (Some(folder), arguments.workers);
    (sweep.dry_run, sweep.json) = (arguments.dry_run, arguments.json);
    sweep::run(&sweep, output)
}
