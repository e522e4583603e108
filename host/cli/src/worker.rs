//! The command `eciton worker`, which connects to a run on another machine and executes its tasks.

mod status;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use eciton_train::{CachePolicy, ConnectError, Contact, Error, Leave, Served, Status, Worker, work};

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
    /// Token file that the run wrote (recipe key `workers.tokens`), or a folder of token files, of
    /// which the worker takes one that no other worker uses
    #[arg(long, value_name = "FILE|FOLDER")]
    token_file: PathBuf,
    /// Memory limit for cached weights and activations, such as 4GiB [default: half of the free
    /// memory]
    #[arg(long, value_name = "SIZE", value_parser = crate::data::size)]
    cache: Option<u64>,
    /// Earlier name of --cache, which prints a warning
    #[arg(long, value_name = "SIZE", value_parser = crate::data::size, hide = true, conflicts_with = "cache")]
    keep: Option<u64>,
    /// Time to keep trying to connect to the run, in seconds. It also applies after the connection
    /// is lost
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u32,
    /// Exit when the first connection ends, instead of connecting again
    #[arg(long)]
    once: bool,
    /// Serve the status of the worker at this local address: /status (JSON), /metrics (Prometheus)
    /// and /ready
    #[arg(long, value_name = "HOST:PORT")]
    status: Option<String>,
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

/// Exit code of a worker that leaves because its machine will be interrupted. A service must not
/// start it again there.
const INTERRUPTED: u8 = 80;

const AFTER_HELP: &str = "\
Example:
  On the machine of the run:
    eciton train digits --layers 6 --batch 512 --micro 4 --lanes 2 \\
        --workers 2 --set workers.listen=0.0.0.0:7070 --set workers.tokens=tokens
  On the machine of the first worker:
    eciton worker --connect HOST:7070 --token-file worker-0.token

Copy worker-0.token to the first machine and worker-1.token to the second. A
token belongs to a machine and admits one worker at a time. A worker without a
free place waits, and replaces one that fails. A worker whose run is killed or
stopped waits for it to be resumed. After SIGTERM, or when EC2 announces that it
will interrupt the machine, a worker finishes its current task and exits. The
run assigns its layers to the other workers.

Exit codes: 0 the run has ended, or the worker left after a signal; 69 no run
answers, or the connection is lost with --once; 77 the run refuses the worker;
80 EC2 will interrupt the machine; 1 any other failure; 2 wrong arguments.
Guide: docs/how-to/train-on-workers.md";

/// Connects to the run, and executes its tasks until the run ends or a signal arrives. Then prints
/// the number of tasks.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let (leave, status) = (Arc::new(Leave::default()), Arc::new(Status::default()));
    interrupt::watch_worker(leave.clone())?;
    if let Some(address) = &arguments.status {
        let served = status::Served { status: status.clone(), leave: leave.clone() };
        let local = served.listen(address).map_err(|error| {
            Failure::Usage(format!(
                "--status: cannot listen at {address}: {error}; give a free port of this machine, such as \
                 127.0.0.1:9464, or port 0 for any"
            ))
        })?;
        if !arguments.quiet {
            tell(format_args!("status at http://{local}/status"));
        }
    }
    let (leaves, interrupted) = (leave.clone(), Arc::new(OnceLock::new()));
    let noticed = interrupted.clone();
    eciton_exec::on_interruption(move |notice| {
        // The exit code must be known before the worker leaves.
        let _ = noticed.set(notice.to_owned());
        if leaves.ask() {
            tell(format_args!("{notice}; exiting after this task"));
        }
    });
    let former = [(arguments.keep, "--keep", "--cache"), (arguments.vanish_at, "--vanish-at", "--fail-at")];
    for (_, former, present) in former.iter().filter(|(given, ..)| given.is_some()) {
        tell(format_args!(
            "warning: {former} has been renamed to {present}; the next version will not accept {former}"
        ));
    }
    let free = || eciton_input::memory::available().map_or(1 << 30, |bytes| bytes / 2);
    let worker = Worker {
        address: &arguments.connect,
        tokens: &arguments.token_file,
        patience: Duration::from_secs(arguments.wait.into()),
        cache_bytes: arguments.cache.or(arguments.keep).unwrap_or_else(free),
        once: arguments.once,
        fail_at: arguments.fail_at.or(arguments.vanish_at),
        cache: CachePolicy::User,
        leave: &leave,
        status: &status,
    };
    let served = work(&worker, |contact| {
        if arguments.quiet {
            return;
        }
        match contact {
            Contact::Waits => tell("all places of the run are taken; waiting for one"),
            Contact::Welcome(run, place) => {
                tell(format_args!("connected to run {run} as worker {place}"));
            }
            Contact::Lost(reason) => tell(format_args!("{reason}; connecting again")),
        }
    });
    let served = served.map_err(|error| match &error {
        Error::Connection(ConnectError::Refused { .. }) => Failure::Ended(Failure::text(&error), 77),
        Error::Connection(ConnectError::System { .. } | ConnectError::NoWelcome { .. }) => {
            Failure::Ended(Failure::text(&error), 69)
        }
        _ => error.into(),
    })?;
    let Served { run, tasks, peak_cache_bytes, reason, lost, .. } = served;
    if arguments.json {
        output.json(&serde_json::json!({
            "run": run, "tasks": tasks, "kept_bytes": peak_cache_bytes, "reason": &reason,
        }));
    } else if !arguments.quiet {
        output.line(format_args!("{} executed; {reason}", counted(tasks, "task")));
    }
    if let Some(notice) = interrupted.get() {
        return Err(Failure::Stopped { text: format!("the worker has left: {notice}"), code: INTERRUPTED });
    }
    // Without --once, the worker would have connected again.
    if lost && !leave.is_asked() { Err(Failure::Ended(reason, 69)) } else { Ok(()) }
}
