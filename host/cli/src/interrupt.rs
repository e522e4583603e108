//! Ctrl-C and SIGTERM: the first asks a run to stop after its epoch, the second quits at once.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// Sets `stop` at the first signal. At the second removes `unfinished`, a folder, and exits with 128
/// plus the signal's number. `bar` is what may be drawn on standard error meanwhile.
pub(crate) fn watch(
    stop: Arc<AtomicBool>,
    bar: ProgressBar,
    unfinished: Option<PathBuf>,
) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let wait = move || {
        let mut asked = false;
        for signal in signals.forever() {
            if asked {
                bar.abandon();
                if let Some(folder) = &unfinished {
                    let _ = std::fs::remove_dir_all(folder);
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
