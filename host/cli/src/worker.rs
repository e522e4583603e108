//! The command `eciton worker`, which connects to a run on another machine and executes its tasks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use eciton_train::{CachePolicy, Leave, Served, Worker, work};

use crate::failure::Failure;
use crate::interrupt;
use crate::output::{Output, tell};
use crate::text::counted;

/// Arguments of `eciton worker`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Address at which the run listens (recipe key `workers.listen`)
    #[arg(long, value_name = "HOST:PORT")]
    connect: String,
    /// Token file that the run wrote for this worker (recipe key `workers.tokens`)
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Memory limit for cached weights and activations, such as 4GiB [default: half of the free
    /// memory]
    #[arg(long, value_name = "SIZE", value_parser = crate::data::size)]
    cache: Option<u64>,
    /// Earlier name of --cache, which prints a warning
    #[arg(long, value_name = "SIZE", value_parser = crate::data::size, hide = true, conflicts_with = "cache")]
    keep: Option<u64>,
    /// Time to keep trying to connect to the run, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u32,
    /// Exit instead of answering task N, to test worker failures [default: never]
    #[arg(long, value_name = "N")]
    fail_at: Option<u64>,
    /// Earlier name of --fail-at, which prints a warning
    #[arg(long, value_name = "N", hide = true, conflicts_with = "fail_at")]
    vanish_at: Option<u64>,
    /// Print only warnings and errors
    #[arg(long)]
    quiet: bool,
    /// Print one JSON object when the worker exits
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Example:
  On the machine of the run:
    eciton train digits --layers 6 --batch 512 --micro 4 --lanes 2 \\
        --workers 2 --set workers.listen=0.0.0.0:7070 --set workers.tokens=tokens
  On the machine of the first worker:
    eciton worker --connect HOST:7070 --token-file worker-0.token

Each token admits one worker to one run: copy worker-0.token to the first
machine, worker-1.token to the second. After SIGTERM a worker finishes its
current task and exits; the run assigns its layers to the other workers.
Guide: docs/how-to/train-on-workers.md";

/// Connects to the run, and executes its tasks until the run ends or a signal arrives. Then prints
/// the number of tasks.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let leave = Arc::new(Leave::default());
    interrupt::watch_worker(leave.clone())?;
    let former = [(arguments.keep, "--keep", "--cache"), (arguments.vanish_at, "--vanish-at", "--fail-at")];
    for (_, former, present) in former.iter().filter(|(given, ..)| given.is_some()) {
        tell(format_args!(
            "warning: {former} has been renamed to {present}; the next version will not accept {former}"
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
            tell(format_args!("connected to run {run} as worker {place}"));
        }
    })?;
    let Served { run, tasks, peak_cache_bytes, reason } = served;
    if arguments.json {
        output.json(&serde_json::json!({
            "run": run, "tasks": tasks, "kept_bytes": peak_cache_bytes, "reason": reason,
        }));
    } else if !arguments.quiet {
        output.line(format_args!("{} executed; {reason}", counted(tasks, "task")));
    }
    Ok(())
}
