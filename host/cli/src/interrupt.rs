//! Ctrl-C and SIGTERM: the first asks a run to stop after its epoch, the second quits at once.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// Sets `stop` at the first signal. At the second removes what the run has written for its folder
/// `out` and exits with 128 plus the signal's number. `bar` is what may be drawn on standard error
/// meanwhile. To be called before the run begins.
pub(crate) fn watch(stop: Arc<AtomicBool>, bar: ProgressBar, out: Option<&Path>) -> Result<(), Failure> {
    let before = out.map(|out| Unfinished { out: out.to_owned(), others: unfinished(out) });
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let wait = move || {
        let mut asked = false;
        for signal in signals.forever() {
            if asked {
                bar.abandon();
                if let Some(before) = &before {
                    before.remove();
                }
                std::process::exit(128 + signal);
            }
            asked = true;
            stop.store(true, Ordering::Relaxed);
            bar.suspend(|| {
                let _ = writeln!(std::io::stderr().lock(), "stopping after this epoch (again: at once)");
            });
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).stack_size(128 << 10).spawn(wait)?;
    Ok(())
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
