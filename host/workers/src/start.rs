//! Start of the worker pool of a run, and of its worker processes.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use eciton_cloud::error::{Error, Result, system};
use eciton_connect::token_path;
use eciton_exec::framed::Framing;
use eciton_exec::functions::{Wanted, run_name};
use eciton_recipe::Workers;
use eciton_types::Location;

use super::pool::WorkerPool;
use super::settings::Settings;

/// Starts the worker pool of a run. If the setting `workers.listen` is absent, this also starts the
/// workers as processes on this machine. If the run has lanes (shares of the pipeline), `lanes`
/// contains the bytes of weights and of rows that each lane's worker stores.
///
/// # Errors
/// Returns an [`Error`] if the pool cannot listen or write tokens, or if a worker process cannot be
/// started.
pub fn start(wanted: Wanted, workers: &Workers, lanes: Option<Vec<(u64, u64)>>) -> Result<WorkerPool> {
    let rows = wanted.rows();
    let settings = Settings {
        run: run_name(),
        framing: Framing { rows, limits: wanted.limits.clone() },
        count: workers.count,
        spares: workers.spares,
        listen: workers.listen.clone().unwrap_or_else(|| "127.0.0.1:0".to_owned()),
        tokens: workers.tokens.as_ref().map(PathBuf::from),
        silence: Duration::from_millis(workers.silence_ms),
        answer: Duration::from_secs(workers.answer_s.into()),
        patience: Duration::from_secs(workers.wait_s.into()),
        numeric_class: eciton_tensor::numeric_class().to_owned(),
        lanes: lanes.is_some(),
        peers: workers.own(),
        weight_versions: wanted.weight_versions,
        needs: lanes.unwrap_or_default(),
        audit: wanted.executor.audit,
    };
    let mut pool = WorkerPool::new(wanted.local, &wanted.kernels, settings)?;
    if workers.listen.is_none() {
        let program = program()?;
        let place = pool.rendezvous().clone();
        let one = |number: u32| {
            let mut command = Command::new(&program);
            command.args(["worker", "--connect", &place.address, "--token-file"]);
            command.arg(token_path(&place.tokens, number));
            command.args(["--quiet", "--once", "--cache", &workers.cache_bytes.to_string()]);
            if let Some(at) = workers.fail_at.get(number as usize).filter(|at| **at > 0) {
                command.args(["--fail-at", &at.to_string()]);
            }
            // Only the run handles Ctrl-C, so a worker is in a process group of its own.
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().map_err(Error::file(program.clone(), "started"))
        };
        for number in 0..workers.count.saturating_add(workers.spares) {
            pool.adopt(Location::worker(number), one(number)?);
        }
    }
    Ok(pool)
}

/// Returns the path of the program that starts a worker with its command `worker`. The path is the
/// value of `ECITON_PROGRAM`, or this program, or `eciton` in the same folder.
fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("ECITON_PROGRAM").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let own = std::env::current_exe().map_err(system("find the path of this program"))?;
    if own.file_stem().is_some_and(|name| name == "eciton") {
        return Ok(own);
    }
    let beside = own.with_file_name("eciton");
    match beside.is_file() {
        true => Ok(beside),
        false => Err(Error::Choice(format!(
            "cannot start workers: there is no program `eciton` in the folder of {}; set ECITON_PROGRAM to its path, \
             or set workers.listen and start the workers with `eciton worker`",
            own.display()
        ))),
    }
}
