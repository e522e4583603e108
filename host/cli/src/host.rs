//! The command `eciton host`, which joins a run that several hosts share.

use std::path::PathBuf;

use clap::Parser as _;
use eciton_recipe::Config;

use crate::arguments::{self, Command};
use crate::failure::Failure;
use crate::hosts::{Joined, Task};
use crate::output::{Output, tell};
use crate::{resume, train};

/// Arguments of `eciton host`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Rendezvous of the run: the address of host 0, s3://BUCKET/PREFIX, or a folder that all hosts
    /// share
    #[arg(long, value_name = "HOST:PORT|PLACE")]
    connect: String,
    /// File with the secret of the run [default: the environment variable ECITON_SECRET, or the
    /// secret at the rendezvous]
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Data set at this host, if it has another path than at host 0
    #[arg(long, value_name = "DATASET|PATH")]
    data: Option<String>,
    /// Address at which this host listens for other hosts [default: a free port]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Time to wait for host 0, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wait: u32,
    /// True if host 0 has started this process, and reports its failures.
    #[arg(long, hide = true)]
    child: bool,
}

const AFTER_HELP: &str = "\
Example:
  On every machine:       the file `secret`, with the output of `openssl rand -hex 32`
  On the first machine:
    eciton train store --hosts 3 --rendezvous tcp://10.0.0.5:7070 --set hosts.secret=secret
  On two other machines:
    eciton host --connect 10.0.0.5:7070 --secret secret

Host 0 sends the command of the run, and assigns an index to each host. The paths
in that command must exist on every machine. Only host 0 writes results.

Exit codes: those of host 0, or 1 if this host fails.
Guide: docs/how-to/train-on-several-machines.md";

/// Joins the run, and trains until it ends.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let mut config = Config::default();
    let place = &arguments.connect;
    // An address of the form HOST:PORT has no slash.
    let is_address = place.contains(':') && !place.contains('/');
    config.hosts.rendezvous = Some(if is_address { format!("tcp://{place}") } else { place.clone() });
    config.hosts.secret = arguments.secret.as_ref().map(|path| path.to_string_lossy().into_owned());
    config.hosts.listen.clone_from(&arguments.listen);
    config.hosts.wait_s = arguments.wait;
    let (joined, Task { mut words, recipe }) = Joined::join_as_guest(&config, arguments.child)?;
    if !arguments.child {
        let (me, count) = (joined.hosts.me, joined.hosts.count);
        tell(format_args!("this is host {me} of {count}, which train together until host 0 ends the run"));
    }
    let folder = tempfile::tempdir()?;
    if let Some(recipe) = recipe {
        let path = folder.path().join("run.toml");
        std::fs::write(&path, recipe)?;
        words = vec!["train".to_owned(), path.to_string_lossy().into_owned()];
    }
    let words = std::iter::once("eciton".to_owned()).chain(words);
    let told = arguments::Arguments::try_parse_from(words);
    let told = told.map_err(|error| Failure::Failed(format!("the command of host 0: {error}")))?;
    match told.command {
        Command::Train(mut command) => {
            let own = arguments.data.iter().map(|path| format!("data.source={path:?}"));
            command.set.extend(own);
            train::run(&command, Some(joined), output)
        }
        Command::Resume(command) => resume::run(&command, Some(joined), output),
        _ => Err(Failure::Failed("host 0 runs a command that hosts cannot share".to_owned())),
    }
}
