//! Hosts of a run: which of them this process is, and the processes of the others.
//!
//! A launcher such as `mpirun` or `srun` starts all hosts, and tells each its index in environment
//! variables (`--hosts env`). With a number, this process is host 0. It starts the others on this
//! machine (`eciton host`), or they are started elsewhere and come to its rendezvous.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use eciton_recipe::{Config, MAX_HOSTS};
use eciton_train::{Error, Hosts, Stop, Summary, Watch};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::interrupt;
use crate::output::tell;

/// Variables with the index of a host, the number of hosts, and the folder of their addresses.
const OWN: [&str; 3] = ["ECITON_HOST", "ECITON_HOSTS", "ECITON_RENDEZVOUS"];

/// Variables in which launchers set the index of a process and the number of processes.
const LAUNCHERS: [[&str; 2]; 6] = [
    [OWN[0], OWN[1]],
    ["JOB_COMPLETION_INDEX", OWN[1]],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["SLURM_PROCID", "SLURM_NTASKS"],
    ["AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES"],
];

/// Time for which host 0 waits for the other processes to end after the run.
const FAREWELL: Duration = Duration::from_secs(5);

/// Value of `--hosts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Number of hosts on this machine.
    Count(u32),
    /// The launcher has started all hosts.
    Env,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "env" => Ok(Self::Env),
            Ok(count) if (1..=MAX_HOSTS).contains(&count) => Ok(Self::Count(count)),
            _ => Err(format!("expected a number from 1 to {MAX_HOSTS}, or `env`")),
        }
    }
}

/// Words of the command line of this process, with the name of the program.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Records the command line, which host 0 tells the other hosts.
pub(crate) fn remember(words: &[OsString]) {
    WORDS.get_or_init(|| words.to_vec());
}

/// Task of the hosts of a run, which host 0 tells the others.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Task {
    /// Words of the command line, without the name of the program.
    pub(crate) words: Vec<String>,
    /// Recipe of `eciton train`, in place of the words.
    pub(crate) recipe: Option<String>,
}

/// Words that start the program `eciton` from this process, and the task of the hosts.
#[derive(Debug)]
struct Call {
    /// Path of the executable file, followed by the words that precede those of `eciton`. In a
    /// Python program, these start the interpreter.
    program: Vec<OsString>,
    task: Task,
}

impl Call {
    /// Returns the call of this process, whose command line all hosts run.
    fn own() -> Result<Self, Failure> {
        let words = WORDS.get().map_or(&[][..], |words| words.get(1..).unwrap_or_default());
        let mut program: Vec<OsString> = std::env::args_os().collect();
        program.truncate(program.len().saturating_sub(words.len()));
        if let Some(first) = program.first_mut() {
            *first = std::env::current_exe()?.into_os_string();
        }
        let words = words.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { program, task: Task { words, recipe: None } })
    }
}

/// Processes of other hosts that this one has started.
#[derive(Debug, Default)]
struct Others {
    children: Vec<Child>,
    /// Folder of the rendezvous, if all hosts are on this machine.
    _folder: Option<tempfile::TempDir>,
}

impl Others {
    /// Starts `count` hosts on this machine, which connect to this process.
    fn start(count: u32, program: &[OsString], config: &mut Config) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("eciton-hosts-").tempdir()?;
        config.hosts.rendezvous = Some(folder.path().to_string_lossy().into_owned());
        config.hosts.listen.get_or_insert_with(|| "127.0.0.1:0".to_owned());
        // The folder, which only this user can read, has a secret of its own.
        config.hosts.secret = None;
        let mut others = Self { children: Vec::new(), _folder: None };
        let [first, more @ ..] = program else { return Ok(others) };
        for _ in 0..count {
            let mut command = Command::new(first);
            command.args(more).args(["host", "--child", "--connect"]).arg(folder.path());
            // Only host 0 handles Ctrl-C, and passes it on.
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            others.children.push(command.spawn()?);
        }
        others._folder = Some(folder);
        Ok(others)
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.children {
            // A process that has ended cannot be killed. Neither result matters.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Shows what this host waits for, unless `quiet`, and ends the wait if a process has ended.
struct Waiting<'a> {
    others: &'a mut Others,
    quiet: bool,
}

impl Watch for Waiting<'_> {
    fn tell(&mut self, line: &str) {
        if !self.quiet {
            tell(line);
        }
    }

    fn hopeless(&mut self) -> Option<String> {
        let ended = self.others.children.iter_mut().find_map(|child| child.try_wait().ok().flatten())?;
        Some(format!("a host on this machine has ended before the run began ({ended})"))
    }
}

/// A host of a run, with the processes of other hosts that it has started.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) hosts: Hosts,
    others: Others,
}

impl Joined {
    /// Connects this process to the other hosts of its run. Returns `None` for a run on one host.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] if no launcher has set the variables, and [`Failure::Failed`] if
    /// the hosts cannot connect.
    pub(crate) fn join(wanted: Option<Wanted>, config: &Config) -> Result<Option<Self>, Failure> {
        match wanted {
            None | Some(Wanted::Count(1)) => Ok(None),
            Some(wanted) => Self::call(wanted, config, &Call::own()?),
        }
    }

    fn call(wanted: Wanted, config: &Config, call: &Call) -> Result<Option<Self>, Failure> {
        let mut config = config.clone();
        let mut others = Others::default();
        let (me, count) = match wanted {
            Wanted::Count(count) => {
                if config.hosts.rendezvous.is_none() {
                    others = Others::start(count - 1, &call.program, &mut config)?;
                }
                (0, count)
            }
            Wanted::Env => launched(&mut config)?,
        };
        if count == 1 {
            return Ok(None);
        }
        let here = others.children.len() as u32 + 1;
        let wanted = eciton_train::Wanted { me: Some(me), count: Some(count), here };
        let task = serde_json::to_vec(&call.task)?;
        let mut waiting = Waiting { others: &mut others, quiet: me != 0 };
        match Hosts::connect(&config, wanted, task, &mut waiting) {
            Ok((hosts, _)) => Ok(Some(Self { hosts, others })),
            Err(error) => Err(silenced(error, me != 0)),
        }
    }

    /// Connects this process to a run whose other hosts it does not know. Host 0 assigns its index.
    /// Also returns the task of the run. `is_child` is true if host 0 has started this process.
    ///
    /// # Errors
    /// Returns [`Failure::Failed`] if host 0 cannot be reached or has ended the run.
    pub(crate) fn join_as_guest(config: &Config, is_child: bool) -> Result<(Self, Task), Failure> {
        let mut others = Others::default();
        let wanted = eciton_train::Wanted { me: None, count: None, here: 1 };
        let mut waiting = Waiting { others: &mut others, quiet: is_child };
        let connected = Hosts::connect(config, wanted, Vec::new(), &mut waiting);
        let (mut hosts, task) = connected.map_err(|error| silenced(error, is_child))?;
        hosts.here = if is_child { hosts.count } else { 1 };
        Ok((Self { hosts, others }, serde_json::from_slice(&task)?))
    }

    /// Ends the connections of `joined`, if the run has several hosts. Returns the result that this
    /// process reports, or `None` if another host reports it. `stop` has the request with which a
    /// host has ended the run.
    ///
    /// # Errors
    /// Returns [`Failure::Silent`] if host 0 reports the end of the run.
    pub(crate) fn result(
        joined: Option<Self>,
        result: eciton_train::Result<Summary>,
        stop: &Stop,
    ) -> Result<Option<eciton_train::Result<Summary>>, Failure> {
        let Some(mut joined) = joined else { return Ok(Some(result)) };
        joined.end(&result);
        interrupt::heard_elsewhere(stop);
        if joined.hosts.me == 0 {
            return Ok(Some(result));
        }
        match (result, interrupt::code()) {
            // Host 0 has ended without a word.
            (result @ Err(Error::HostFailed { host: 0, is_told: false, .. }), _) => Ok(Some(result)),
            (Ok(summary), Some(code)) if summary.stopped => Err(Failure::Silent(code)),
            (Ok(_), _) => Ok(None),
            (Err(Error::Left { .. } | Error::Stopped), Some(code)) => Err(Failure::Silent(code)),
            (Err(_), _) => Err(Failure::Silent(1)),
        }
    }
}

impl Joined {
    /// Ends the connections, and waits for the processes that this one has started.
    fn end(&mut self, result: &eciton_train::Result<Summary>) {
        self.hosts.end(result);
        let until = Instant::now() + FAREWELL;
        let mut ended = false;
        while !ended && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
            ended = self.others.children.iter_mut().all(|child| matches!(child.try_wait(), Ok(Some(_))));
        }
    }
}

/// A run of a library user that several hosts share. The calling process is host 0.
#[derive(Debug)]
pub struct SharedRun(Joined);

impl SharedRun {
    /// Connects this process to `count` - 1 other hosts, which train with the settled configuration
    /// `config`. Without `hosts.rendezvous`, starts them on this machine with `program`, which is the
    /// words of a command line that runs `eciton`.
    ///
    /// # Errors
    /// Returns a message for the user if the hosts cannot connect.
    pub fn start(config: &Config, count: u32, program: Vec<OsString>) -> Result<Self, String> {
        if !(2..=MAX_HOSTS).contains(&count) {
            return Err(format!("hosts: found {count}, expected a number from 2 to {MAX_HOSTS}"));
        }
        let recipe = config.to_toml().map_err(|error| error.to_string())?;
        let call = Call { program, task: Task { words: Vec::new(), recipe: Some(recipe) } };
        match Joined::call(Wanted::Count(count), config, &call) {
            Ok(Some(joined)) => Ok(Self(joined)),
            Ok(None) => Err("hosts: the run has one host".to_owned()),
            Err(failure) => Err(failure.into_text()),
        }
    }

    /// Returns the hosts, for the options of the run.
    pub fn hosts(&self, config: &Config) -> Hosts {
        Hosts { saves: config.checkpoint.is_on(), ..self.0.hosts.clone() }
    }

    /// Ends the connections after the run of this host.
    pub fn end(mut self, result: &eciton_train::Result<Summary>) {
        self.0.end(result);
    }
}

/// Returns the index of this host and the number of hosts that a launcher has set.
fn launched(config: &mut Config) -> Result<(u32, u32), Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(place) = variable(OWN[2]) {
        config.hosts.rendezvous.get_or_insert(place);
    }
    let number = |name| variable(name)?.parse::<u32>().ok();
    let found = LAUNCHERS.iter().find_map(|[me, count]| Some((number(me)?, number(count)?)));
    let names: Vec<&str> = LAUNCHERS.iter().map(|[me, _]| *me).collect();
    found.filter(|(me, count)| me < count && *count <= MAX_HOSTS).ok_or_else(|| {
        Failure::Usage(format!(
            "--hosts env: no launcher has set the index of this host and a number of hosts up to {MAX_HOSTS}; \
             start all hosts with mpirun or srun, or set ECITON_HOST and ECITON_HOSTS (looked for {})",
            names.join(", ")
        ))
    })
}

/// Returns the failure of a host that could not connect. It is silent if another host reports it.
fn silenced(error: Error, is_known: bool) -> Failure {
    match error {
        Error::HostFailed { host: 0, is_told: true, .. } if is_known => Failure::Silent(1),
        error => error.into(),
    }
}

/// Returns a word of the command line as text.
fn text(word: &OsString) -> Result<String, Failure> {
    let word = word.to_str().map(str::to_owned);
    word.ok_or_else(|| Failure::Usage("--hosts: the command line is not valid UTF-8".to_owned()))
}
