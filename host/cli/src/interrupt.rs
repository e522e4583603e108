//! Ctrl-C and SIGTERM: what trains is asked to end after its epoch; all else ends at once, as what trains
//! does at the second signal.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use eciton_train::{Ask, Stop};
use indicatif::ProgressBar;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::output::tell;

/// The first signal that a run was asked to end by.
static HEARD: AtomicI32 = AtomicI32::new(0);

/// The exit code of what a signal ended: 130 or 143. `None`: no run was asked to end.
pub(crate) fn code() -> Option<u8> {
    match HEARD.load(Ordering::Acquire) {
        0 => None,
        signal => Some(exit_code(signal)),
    }
}

fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}

/// Lets a write beyond `ulimit -f` fail with words, where its signal would kill the process without any.
pub(crate) fn ignore_file_limit() -> Result<(), Failure> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// Asks a run to end at the first signal: with its results at SIGINT, with a checkpoint alone at SIGTERM.
/// At the second, and before it trains, removes what the run has written for its folder `out` and exits.
/// `bar` is what may be drawn on standard error meanwhile. To be called before the run begins.
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

/// Asks the trainings of a sweep to end after their epochs, with checkpoints. At the second signal, and
/// before any of them trains, the process exits: what it leaves is cleared by the sweep that goes on.
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

/// Asks a proof to end at the first signal: its stack is removed then. The third signal ends the process and leaves
/// the stack.
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

/// Asks a worker to end its task and go at the first signal; at the second the process exits.
pub(crate) fn watch_worker(leave: Arc<eciton_train::Leave>) -> Result<(), Failure> {
    listen(ProgressBar::hidden(), None, move |_| {
        leave.ask().then_some("going after this task (again: at once)")
    })
}

/// Exits at the first signal.
pub(crate) fn exit_at_once() -> Result<(), Failure> {
    listen(ProgressBar::hidden(), None, |_| None)
}

/// Removes at a signal what was written of a folder to be, and exits.
pub(crate) fn remove_at_once(bar: ProgressBar, out: &Path) -> Result<(), Failure> {
    listen(bar, Some(out), |_| None)
}

/// Hands signals to `obey`, which says what is done about one; where it says nothing the process exits
/// with 128 plus the signal's number.
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

/// A run folder to be, and the unfinished ones that other runs left or write under its name.
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

/// What lies beside `out` and is to become it: `.NAME.partial-...`.
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
