//! Handling of SIGINT (Ctrl-C) and SIGTERM. At the first signal, commands that train stop after the
//! current epoch, and most other commands exit at once. At the second signal, nearly all commands
//! exit at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use eciton_train::{Ask, Stop};
use indicatif::ProgressBar;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::output::tell;

/// Number of the first signal that asked the command to stop, or 0 if no signal has arrived.
static HEARD: AtomicI32 = AtomicI32::new(0);

/// Returns the exit code of a command that a signal stopped, which is 130 for SIGINT and 143 for
/// SIGTERM. Returns `None` if no signal has arrived.
pub(crate) fn code() -> Option<u8> {
    match HEARD.load(Ordering::Acquire) {
        0 => None,
        signal => Some(exit_code(signal)),
    }
}

/// Records the stop request of another host like a signal of this process, if `stop` has one.
pub(crate) fn heard_elsewhere(stop: &Stop) {
    if stop.is_asked() && code().is_none() {
        HEARD.store(if stop.leaves() { SIGTERM } else { SIGINT }, Ordering::Release);
    }
}

/// Returns the exit code for a signal, which is 128 plus the signal number.
fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}

/// Ensures that a write beyond the file size limit (`ulimit -f`) fails with an error. Without a
/// handler, the signal SIGXFSZ would kill the process without a message.
pub(crate) fn ignore_file_limit() -> Result<(), Failure> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// Installs the signal handler of a run. The first SIGINT asks the run to stop after its epoch and
/// write its results. The first SIGTERM asks it to stop with only a checkpoint. A second signal, or
/// one before training starts, removes the unfinished files of the run folder `out` and exits.
/// `bar` is hidden while a message is printed. The function must be called before the run starts.
pub(crate) fn watch(stop: Arc<Stop>, bar: ProgressBar, out: Option<&Path>) -> Result<(), Failure> {
    listen(bar, out, move |signal| {
        if stop.is_asked() || !stop.is_training() {
            return None;
        }
        HEARD.store(signal, Ordering::Release);
        stop.ask(if signal == SIGTERM { Ask::Leave } else { Ask::Finish });
        Some("stopping after this epoch; a second signal quits at once")
    })
}

/// Installs the signal handler of a sweep. The first signal asks all trials in progress to stop
/// after their current epoch with a checkpoint. A second signal, or one before any trial trains,
/// exits at once. The next start of the sweep removes unfinished files.
pub(crate) fn watch_sweep(stop: Arc<Stop>) -> Result<(), Failure> {
    listen(ProgressBar::hidden(), None, move |signal| {
        if stop.is_asked() || !stop.is_training() {
            return None;
        }
        HEARD.store(signal, Ordering::Release);
        stop.ask(Ask::Leave);
        Some("stopping each running trial after its epoch; a second signal quits at once")
    })
}

/// Installs the signal handler of `eciton prove`. The first signal asks the command to stop and
/// remove its stack, and the second only repeats the message. The third signal exits, and leaves
/// the stack in the account.
pub(crate) fn watch_proof(stop: Arc<Stop>) -> Result<(), Failure> {
    let heard = std::sync::atomic::AtomicU32::new(0);
    listen(ProgressBar::hidden(), None, move |signal| match heard.fetch_add(1, Ordering::AcqRel) {
        0 => {
            HEARD.store(signal, Ordering::Release);
            stop.ask(Ask::Leave);
            Some("stopping; removing the stack takes one or two minutes")
        }
        1 => Some("still removing the stack; a third signal quits and leaves the stack in the account"),
        _ => None,
    })
}

/// Installs the signal handler of a worker. The first signal asks the worker to exit after its
/// current task, and the second signal exits at once.
pub(crate) fn watch_worker(leave: Arc<eciton_train::Leave>) -> Result<(), Failure> {
    listen(ProgressBar::hidden(), None, move |_| {
        leave.ask().then_some("exiting after this task; a second signal quits at once")
    })
}

/// Installs a signal handler that exits at the first signal.
pub(crate) fn exit_at_once() -> Result<(), Failure> {
    listen(ProgressBar::hidden(), None, |_| None)
}

/// Installs a signal handler that removes the unfinished output folder of `out` at the first
/// signal, and exits.
pub(crate) fn remove_at_once(bar: ProgressBar, out: &Path) -> Result<(), Failure> {
    listen(bar, Some(out), |_| None)
}

/// Starts a thread that passes each signal to `obey` and prints the returned message. If `obey`
/// returns `None`, the process removes the unfinished folders of `out` and exits with 128 plus the
/// signal number.
fn listen(
    bar: ProgressBar,
    out: Option<&Path>,
    obey: impl Fn(i32) -> Option<&'static str> + Send + 'static,
) -> Result<(), Failure> {
    let before = out.map(|out| Unfinished { out: out.to_owned(), others: unfinished(out) });
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let wait = move || {
        for signal in signals.forever() {
            let Some(text) = obey(signal) else {
                bar.abandon();
                let _held = before.as_ref().map(|_| eciton_train::run_folder::hold_folders());
                if let Some(before) = &before {
                    before.remove();
                }
                std::process::exit(exit_code(signal).into());
            };
            bar.suspend(|| {
                tell(text);
            });
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).stack_size(128 << 10);
    match thread.spawn(wait) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::Failed(format!(
            "cannot start the signal thread: {error}; `eciton doctor` lists the limits of this process"
        ))),
    }
}

/// Path of the output folder, and the unfinished folders of the same name that existed before this
/// command. Only newer ones are removed.
struct Unfinished {
    out: PathBuf,
    others: Vec<PathBuf>,
}

impl Unfinished {
    fn remove(&self) {
        for folder in unfinished(&self.out).iter().filter(|folder| !self.others.contains(folder)) {
            let _ = std::fs::remove_dir_all(folder);
        }
        eciton_train::checkpoint::discard_empty(&self.out);
    }
}

/// Returns the unfinished folders of the output folder `out`. They are named `.NAME.partial-ID` and
/// have the same parent folder.
pub(crate) fn unfinished(out: &Path) -> Vec<PathBuf> {
    let Some(name) = out.file_name() else { return Vec::new() };
    let prefix = format!(".{}.partial-", name.to_string_lossy());
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_this_runs_remains_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("r");
        let make = |name: &str| std::fs::create_dir(dir.path().join(name)).unwrap();
        make(".r.partial-old");
        make("r2");
        let before = Unfinished { out: out.clone(), others: unfinished(&out) };
        make(".r.partial-new");
        make(".r2.partial-x");
        before.remove();
        let names =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        assert_eq!(names, [".r.partial-old", ".r2.partial-x", "r2"]);
    }
}
