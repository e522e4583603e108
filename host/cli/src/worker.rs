//! `eciton worker`: this process is a worker of a run elsewhere.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use eciton_train::{CachePolicy, Leave, Served, Worker, work};

use crate::failure::Failure;
use crate::interrupt;
use crate::output::{Output, tell};
use crate::text::counted;

/// `eciton worker`
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The run, where it listens (`workers.listen`)
    #[arg(long, value_name = "HOST:PORT")]
    connect: String,
    /// The token that the run wrote for this worker (`workers.tokens`)
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Memory for cached weights and rows [default: half of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = crate::data::size)]
    cache: Option<u64>,
    /// Earlier name of --cache
    #[arg(long, value_name = "SIZE", value_parser = crate::data::size, hide = true, conflicts_with = "cache")]
    keep: Option<u64>,
    /// Seconds for which a run that does not listen yet is tried
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u32,
    /// Task number at which the worker exits in place of an answer, to test failures
    #[arg(long, value_name = "N")]
    fail_at: Option<u64>,
    /// Earlier name of --fail-at
    #[arg(long, value_name = "N", hide = true, conflicts_with = "fail_at")]
    vanish_at: Option<u64>,
    /// Say nothing but what goes wrong
    #[arg(long)]
    quiet: bool,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
The run's machine:    eciton train digits --layers 6 --batch 512 --micro 4 --lanes 2 --workers 2
                      --set workers.listen=0.0.0.0:7070 --set workers.tokens=tokens
Each worker's:        eciton worker --connect HOST:7070 --token-file worker-0.token

A token is for one place of one run: copy worker-0.token to one machine, worker-1.token to the next.
At SIGTERM a worker ends its task and goes; the run gives its layers to others.
docs/how-to/train-on-workers.md has more.";

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let leave = Arc::new(Leave::default());
    interrupt::watch_worker(leave.clone())?;
    let former = [(arguments.keep, "--keep", "--cache"), (arguments.vanish_at, "--vanish-at", "--fail-at")];
    for (_, former, present) in former.iter().filter(|(given, ..)| given.is_some()) {
        tell(format_args!(
            "warning: {former} is now {present}; the next version will refuse the earlier name"
        ));
    }
    let free = || eciton_input::memory::available().map_or(1 << 30, |bytes| bytes / 2);
    let worker = Worker {
        address: &arguments.connect,
        token: &arguments.token_file,
        patience: Duration::from_secs(arguments.wait.into()),
        cache_bytes: arguments.cache.or(arguments.keep).unwrap_or_else(free),
        fail_at: arguments.fail_at.or(arguments.vanish_at),
        cache: CachePolicy::User,
        leave: &leave,
    };
    let served = work(&worker, |run, place| {
        if !arguments.quiet {
            tell(format_args!("serving run {run} at place {place}"));
        }
    })?;
    let Served { run, tasks, kept_bytes, reason } = served;
    if arguments.json {
        output.json(&serde_json::json!({
            "run": run, "tasks": tasks, "kept_bytes": kept_bytes, "reason": reason,
        }));
    } else if !arguments.quiet {
        output.line(format_args!("{}; ended: {reason}", counted(tasks, "task")));
    }
    Ok(())
}
