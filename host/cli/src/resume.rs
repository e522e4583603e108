//! `eciton resume`: resumes a run that was killed or stopped.

use std::path::PathBuf;

use eciton_train::{Options, Recording};

use crate::failure::Failure;
use crate::output::{Output, tell};
use crate::{interrupt, train};

/// `eciton resume`
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The run folder that was to be, as `eciton train --out` was given it
    run: PathBuf,
    /// Go on even if data, kernels, settings or processor are not what the run began with
    #[arg(long)]
    force: bool,
    /// A new kernel instance for every task; slower, changes no result
    #[arg(long)]
    fresh_instances: bool,
    /// Write a trace of every step, which ui.perfetto.dev opens
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write event files for TensorBoard, from here on
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
A run writes checkpoints to DIR.checkpoint, by default once a minute ([checkpoint] in a recipe), and one
when Ctrl-C or SIGTERM stops it. What it has written stays until the whole run takes its place. This goes on from the newest that is whole; the model in the end is bit for bit that of a run that
was never killed.";

/// Resumes the run, and shows its progress.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if eciton_train::is_finished(&arguments.run) {
        let run = arguments.run.display();
        tell(format_args!("{run} has finished; there is nothing to go on with"));
    }
    let bar = train::bar(arguments.json, output);
    let options = Options {
        out: Some(arguments.run.clone()),
        fresh_instances: arguments.fresh_instances,
        recording: Recording {
            trace: arguments.trace.clone(),
            tensorboard: arguments.tensorboard.clone(),
            ..Recording::default()
        },
        ..Options::default()
    };
    interrupt::watch(options.stop.clone(), bar.clone(), options.out.as_deref())?;
    let mut observer = train::observer(arguments.json, bar, output, &options);
    let summary = eciton_train::resume(&arguments.run, arguments.force, &options, &mut *observer);
    drop(observer);
    train::finish(summary, arguments.json, &options, output)
}
