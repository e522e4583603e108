//! Ctrl-C and SIGTERM. At the first signal, commands that train end after the epoch, others end at
//! once. At the second signal, trainings end at once too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use eciton_train::{Ask, Stop};
use indicatif::ProgressBar;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::output::tell;

/// First signal that a run was asked to end by, or 0.
static HEARD: AtomicI32 = AtomicI32::new(0);

/// Returns the exit code of a run that a signal ended: 130 or 143. `None` if no run was asked to
/// end.
pub(crate) fn code() -> Option<u8> {
    match HEARD.load(Ordering::Acquire) {
        0 => None,
        signal => Some(exit_code(signal)),
    }
}

fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}

/// Makes a write beyond `ulimit -f` fail with an error. Otherwise its signal would kill the process
/// without a message.
pub(crate) fn ignore_file_limit() -> Result<(), Failure> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// Asks a run to end at the first signal: with its results at SIGINT, with a checkpoint alone at
/// SIGTERM. At the second signal, and before the run trains, it removes the unfinished files of the
/// run's folder `out` and exits. `bar` may be drawn on standard error in the meantime. It must be
/// called before the run begins.
pub(crate) fn watch(stop: Arc<Stop>, bar: ProgressBar, out: Option<&Path>) -> Result<(), Failure> {
    listen(bar, out, move |signal| {
        if stop.is_asked() || !stop.is_training() {
            return None;
        }
        HEARD.store(signal, Ordering::Release);
        stop.ask(if signal == SIGTERM { Ask::Leave } else { Ask::Finish });
        Some("stopping after this epoch (again: at once)")
    })
}

/// Asks the trainings of a sweep to end after their epochs, with checkpoints. At the second signal,
/// and before any of them trains, the process exits. A resumed sweep removes the remains.
pub(crate) fn watch_sweep(stop: Arc<Stop>) -> Result<(), Failure> {
    listen(ProgressBar::hidden(), None, move |signal| {
        if stop.is_asked() || !stop.is_training() {
            return None;
        }
        HEARD.store(signal, Ordering::Release);
        stop.ask(Ask::Leave);
        Some("stopping the trials under way after their epochs (again: at once)")
    })
}

/// Asks a proof to end at the first signal, after which its stack is removed. The third signal ends
/// the process and leaves the stack.
pub(crate) fn watch_proof(stop: Arc<Stop>) -> Result<(), Failure> {
    let heard = std::sync::atomic::AtomicU32::new(0);
    listen(ProgressBar::hidden(), None, move |signal| match heard.fetch_add(1, Ordering::AcqRel) {
        0 => {
            HEARD.store(signal, Ordering::Release);
            stop.ask(Ask::Leave);
            Some("stopping: the stack is removed before this program ends, which takes a minute or two")
        }
        1 => Some(
            "the stack is not removed yet; a third signal ends this program and leaves the stack in the account",
        ),
        _ => None,
    })
}

/// Asks a worker to leave after its task at the first signal. At the second signal the process
/// exits.
pub(crate) fn watch_worker(leave: Arc<eciton_train::Leave>) -> Result<(), Failure> {
    listen(ProgressBar::hidden(), None, move |_| {
        leave.ask().then_some("going after this task (again: at once)")
    })
}

/// Exits at the first signal.
pub(crate) fn exit_at_once() -> Result<(), Failure> {
    listen(ProgressBar::hidden(), None, |_| None)
}

/// Removes the unfinished folder of `out` at the first signal, and exits.
pub(crate) fn remove_at_once(bar: ProgressBar, out: &Path) -> Result<(), Failure> {
    listen(bar, Some(out), |_| None)
}

/// Passes signals to `obey`, which returns the text to print. If it returns `None`, the process
/// exits with 128 plus the signal's number.
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
            "the thread that waits for signals cannot start: {error}; `eciton doctor` lists the limits of this process"
        ))),
    }
}

/// Run folder that is being written, and the unfinished folders of other runs under its name.
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

/// Returns the unfinished folders of `out`, which lie next to it: `.NAME.partial-...`.
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
