//! Hosts of a run: which of them this process is, and the processes of the others.
//!
//! A launcher such as `mpirun` or `srun` starts all hosts, and tells each its index in environment
//! variables (`--hosts env`). With a number, this process is host 0 and starts the others on this
//! machine.

use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use eciton_recipe::{Config, MAX_HOSTS};
use eciton_train::{Error, Hosts};

use crate::failure::Failure;
use crate::output::tell;

/// Variables with the index of a host, the number of hosts, and the folder of their addresses.
const OWN: [&str; 3] = ["ECITON_HOST", "ECITON_HOSTS", "ECITON_RENDEZVOUS"];

/// Variables in which launchers set the index of a process and the number of processes.
const LAUNCHERS: [[&str; 2]; 5] = [
    [OWN[0], OWN[1]],
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

/// A host of a run, with the processes of other hosts that it has started.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) hosts: Hosts,
    others: Vec<Child>,
    /// Folder of the addresses, if all hosts are on this machine.
    _folder: Option<tempfile::TempDir>,
}

impl Joined {
    /// Connects this process to the other hosts of its run. Returns `None` for a run on one host.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] if no launcher has set the variables, and [`Failure::Failed`] if
    /// the hosts cannot connect.
    pub(crate) fn join(wanted: Option<Wanted>, config: &Config) -> Result<Option<Self>, Failure> {
        let mut config = config.clone();
        let Some(wanted) = wanted else { return Ok(None) };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let started = OWN.iter().all(|name| variable(name).is_some());
        let (mut others, mut folder): (Vec<Child>, _) = (Vec::new(), None);
        let (me, count) = match wanted {
            Wanted::Count(1) => return Ok(None),
            Wanted::Count(count) if !started => {
                let made = tempfile::Builder::new().prefix("eciton-hosts-").tempdir()?;
                config.hosts.rendezvous = Some(made.path().to_string_lossy().into_owned());
                config.hosts.listen.get_or_insert_with(|| "127.0.0.1:0".to_owned());
                for host in 1..count {
                    let values = [host.to_string(), count.to_string()].map(std::ffi::OsString::from);
                    let mut command = Command::new(std::env::current_exe()?);
                    command.args(std::env::args_os().skip(1)).env(OWN[2], made.path());
                    command.envs(OWN.into_iter().zip(values));
                    // Only host 0 handles Ctrl-C, and passes it on.
                    std::os::unix::process::CommandExt::process_group(&mut command, 0);
                    command.stdin(Stdio::null()).stdout(Stdio::null());
                    others.push(command.spawn()?);
                }
                folder = Some(made);
                (0, count)
            }
            Wanted::Count(_) | Wanted::Env => {
                if let (Some(folder), true) = (variable(OWN[2]), started) {
                    config.hosts.listen.get_or_insert_with(|| "127.0.0.1:0".to_owned());
                    config.hosts.rendezvous = Some(folder);
                }
                let number = |name| variable(name)?.parse::<u32>().ok();
                let found = LAUNCHERS.iter().find_map(|[me, count]| Some((number(me)?, number(count)?)));
                let names: Vec<&str> = LAUNCHERS.iter().map(|[me, _]| *me).collect();
                found.filter(|(me, count)| me < count && *count <= MAX_HOSTS).ok_or_else(|| {
                    Failure::Usage(format!(
                        "--hosts env: no launcher has set the index of this host and a number of hosts up to \
                         {MAX_HOSTS}; start all hosts with mpirun or srun, or set ECITON_HOST and ECITON_HOSTS \
                         (looked for {})",
                        names.join(", ")
                    ))
                })?
            }
        };
        if count == 1 {
            return Ok(None);
        }
        let tell_first = &mut |text: &str| {
            if me == 0 {
                tell(text);
            }
        };
        match Hosts::connect(&config, (me, count), tell_first) {
            Ok(hosts) => Ok(Some(Self { hosts, others, _folder: folder })),
            Err(error) => {
                others.iter_mut().for_each(end);
                Err(error.into())
            }
        }
    }

    /// Ends the connections of `joined`, if the run has several hosts. Returns the result that this
    /// process reports, or `None` if another host reports it.
    ///
    /// # Errors
    /// Returns the error of [`Joined::end`].
    pub(crate) fn result<T>(
        joined: Option<Self>,
        result: eciton_train::Result<T>,
    ) -> Result<Option<eciton_train::Result<T>>, Failure> {
        match joined {
            None => Ok(Some(result)),
            Some(joined) => joined.end(result),
        }
    }

    /// Ends the connections, and waits for the processes that this one has started. Returns the
    /// result of host 0. Returns `None` for the success of another host, which has nothing to
    /// report.
    ///
    /// # Errors
    /// Returns [`Failure::Silent`] if this host has failed and host 0 reports it.
    fn end<T>(mut self, result: eciton_train::Result<T>) -> Result<Option<eciton_train::Result<T>>, Failure> {
        self.hosts.end(&result);
        let until = Instant::now() + FAREWELL;
        let mut ended = false;
        while !ended && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
            ended = self.others.iter_mut().all(|child| matches!(child.try_wait(), Ok(Some(_))));
        }
        self.others.iter_mut().for_each(end);
        match result {
            result if self.hosts.me == 0 => Ok(Some(result)),
            Ok(_) => Ok(None),
            // Host 0 has ended without a word.
            Err(Error::HostFailed { host: 0, is_told: false, .. }) => Ok(Some(result)),
            Err(_) => Err(Failure::Silent(1)),
        }
    }
}

/// Ends a process that this process has started.
fn end(child: &mut Child) {
    // A process that has ended cannot be killed. Neither result matters.
    drop(child.kill());
    drop(child.wait());
}
