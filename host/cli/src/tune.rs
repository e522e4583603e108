//! The command `eciton tune`, which searches for good settings for a data set. It writes a sweep
//! file and trains the sweep.

use std::path::{Path, PathBuf};

use eciton_recipe::Config;
use eciton_train::defaults;

use crate::failure::Failure;
use crate::output::Output;
use crate::recipe::{self, Request};
use crate::sweep::{self, write};

const AFTER_HELP: &str = "\
The search is a sweep with successive halving. The search space depends on the
kind of data: table, images, text or graph. It is written to FOLDER/tune.toml;
to search another space, edit a copy and run `eciton sweep` with it. Repeat the
command to resume a search that was stopped.

Example:
  eciton tune people.csv --trials 27";

/// Arguments of `eciton tune`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Name or path of the data set
    #[arg(value_name = "DATA")]
    data: String,
    /// Number of random settings to try
    #[arg(long, value_name = "N", default_value_t = 27, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trials: u32,
    /// Number of times to train each setting, with different random seeds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Folder of the search; an existing search is resumed [default: sweeps/tune-NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Number of concurrent trials, with one thread each if more than one [default: number of
    /// cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Set a key of the recipe for all trials
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Print the trials and exit without training
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Writes a sweep file with the search space for the data set, and trains the sweep.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let request = Request::with(Some(arguments.data.clone()), None, arguments.set.iter().cloned())?;
    let config: Config = recipe::configure(&request)?;
    if !config.choices.open {
        let reason = "is a recipe, expected a data set; to search settings of a recipe, write a sweep file for `eciton sweep`";
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
            "{} contains another search; resume it with `eciton sweep {} --out {}`, or choose another folder with --out",
            folder.display(),
            file.display(),
            folder.display()
        )));
    }
    if found.is_none() {
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::Failed(format!("{}: cannot be created: {error}", folder.display())))?;
        write(&file, text.as_bytes())?;
    }
    let mut sweep = sweep::Arguments::from_file(file, arguments.set.clone());
    (sweep.out, sweep.workers) = (Some(folder), arguments.workers);
    (sweep.dry_run, sweep.json) = (arguments.dry_run, arguments.json);
    sweep::run(&sweep, output)
}
