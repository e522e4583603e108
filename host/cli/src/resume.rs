//! The command `eciton resume`, which resumes a run that was killed or stopped.

use std::path::PathBuf;

use eciton_train::{Options, Recording, Shape};

use crate::failure::Failure;
use crate::output::{Output, tell};
use crate::{interrupt, train};

/// Arguments of `eciton resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Run folder of the interrupted run, as given to `eciton train --out`
    run: PathBuf,
    /// Resume even if data, kernels, settings or processor have changed since the run started
    #[arg(long)]
    force: bool,
    /// Number of lanes with which the run continues [default: that of the run]
    #[arg(long, value_name = "N")]
    lanes: Option<u32>,
    /// Number of workers with which the run continues, one for each lane; 0: lanes on this machine
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// Number of replicas of the pipeline with which the run continues
    #[arg(long, value_name = "N")]
    width: Option<u32>,
    /// Use a new kernel instance for every task; slower, with identical results
    #[arg(long)]
    fresh_instances: bool,
    /// Write a trace of every step to this file, to open in ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write TensorBoard event files of the remaining epochs to this folder
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
A run writes checkpoints to DIR.checkpoint: one a minute by default (section
[checkpoint] of a recipe), and one when Ctrl-C or SIGTERM stops the run. The
checkpoints are removed when the run is complete. `eciton resume` continues from
the newest intact checkpoint. The final model is bit-identical to that of an
uninterrupted run, also with another number of lanes, workers or replicas.";

/// Resumes the run from its last checkpoint, shows the progress of the remaining epochs, and prints
/// the summary.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if eciton_train::is_finished(&arguments.run) {
        let run = arguments.run.display();
        tell(format_args!("{run} is complete; nothing to resume"));
    }
    let shape = Shape { lanes: arguments.lanes, workers: arguments.workers, width: arguments.width };
    if shape != Shape::default() && !eciton_train::is_finished(&arguments.run) {
        eciton_train::reshape(&arguments.run, shape)?;
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
