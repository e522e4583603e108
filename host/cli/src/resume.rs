//! The command `eciton resume`, which resumes a run that was killed or stopped.

use std::path::PathBuf;

use eciton_train::{Hosts, Options, Recording, Shape, Silent};
use indicatif::ProgressBar;

use crate::failure::Failure;
use crate::hosts::{self, Joined};
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
    /// Number of hosts that share the training, or `env` if a launcher such as mpirun or srun has
    /// started all of them. Without --rendezvous, all hosts are on this machine [default: one host]
    #[arg(long, value_name = "N|env", conflicts_with_all = ["lanes", "workers", "width", "trace", "tensorboard"])]
    hosts: Option<hosts::Wanted>,
    /// Place at which the hosts learn the address of host 0: a folder that all share,
    /// s3://BUCKET/PREFIX, or tcp://HOST:PORT
    #[arg(long, value_name = "PLACE", requires = "hosts")]
    rendezvous: Option<String>,
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
uninterrupted run, also with another number of hosts, lanes, workers or replicas.";

/// Resumes the run from its last checkpoint, shows the progress of the remaining epochs, and prints
/// the summary. `joined` is given if this process is a host that has joined a run.
pub(crate) fn run(arguments: &Arguments, joined: Option<Joined>, output: &mut Output) -> Result<(), Failure> {
    if eciton_train::is_finished(&arguments.run) {
        let run = arguments.run.display();
        tell(format_args!("{run} is complete; nothing to resume"));
    }
    let shape = Shape { lanes: arguments.lanes, workers: arguments.workers, width: arguments.width };
    if shape != Shape::default() && !eciton_train::is_finished(&arguments.run) {
        eciton_train::reshape(&arguments.run, shape)?;
    }
    let joined = match arguments.hosts {
        _ if joined.is_some() => joined,
        Some(wanted) if !eciton_train::is_finished(&arguments.run) => {
            let mut config = eciton_train::interrupted(&arguments.run)?;
            config.hosts.rendezvous = arguments.rendezvous.clone().or(config.hosts.rendezvous);
            Joined::join(Some(wanted), &config)?
        }
        _ => None,
    };
    let hosts = joined.as_ref().map(|joined| Hosts { saves: true, ..joined.hosts.clone() });
    // Only host 0 of several reports and writes results.
    let is_first = hosts.as_ref().is_none_or(|hosts| hosts.me == 0);
    let bar = if is_first { train::bar(arguments.json, output) } else { ProgressBar::hidden() };
    let options = Options {
        out: Some(arguments.run.clone()),
        hosts,
        fresh_instances: arguments.fresh_instances,
        recording: Recording {
            trace: arguments.trace.clone(),
            tensorboard: arguments.tensorboard.clone(),
            ..Recording::default()
        },
        ..Options::default()
    };
    interrupt::watch(options.stop.clone(), bar.clone(), options.out.as_deref())?;
    let mut observer = match is_first {
        true => train::observer(arguments.json, bar, output, &options),
        false => Box::new(Silent),
    };
    let summary = eciton_train::resume(&arguments.run, arguments.force, &options, &mut *observer);
    drop(observer);
    let Some(summary) = Joined::result(joined, summary, &options.stop)? else { return Ok(()) };
    train::finish(summary, arguments.json, &options, output)
}
