//! A turn to measure: one measurement at a time on a machine, and a wait for a quiet one.

use std::fs::{File, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crate::child::busy_s;

/// What other processes may take of the machine, cores, for it to count as quiet, and how long that is watched.
const QUIET_CORES: f64 = 0.2;
const QUIET_WINDOW: Duration = Duration::from_secs(1);

/// What a measurement holds; others go on when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _lock: Option<File>,
}

impl Turn {
    /// Waits for the lock as long as it takes, then for a quiet machine for `patience` at most.
    pub(crate) fn take(patience: Duration) -> Self {
        let turn = Self { _lock: lock() };
        wait_for_quiet(patience);
        turn
    }
}

/// Waits until other processes took under [`QUIET_CORES`] for a second, for `patience` at most.
fn wait_for_quiet(patience: Duration) {
    let begun = Instant::now();
    let mut said = false;
    while begun.elapsed() < patience {
        let (Some(before), since) = (busy_s(), Instant::now()) else { return };
        thread::sleep(QUIET_WINDOW);
        let Some(after) = busy_s() else { return };
        let cores = (after - before) / since.elapsed().as_secs_f64();
        if cores < QUIET_CORES {
            return;
        }
        if !said {
            eprintln!("waiting: other processes keep {cores:.1} cores busy");
            said = true;
        }
    }
}

/// The lock under which measurements on one machine take turns, `run_all.sh`'s among them; none where
/// it cannot be had.
fn lock() -> Option<File> {
    let path = std::env::temp_dir().join("measure.lock");
    let file = File::options().create(true).append(true).open(&path).ok()?;
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        eprintln!("waiting for another measurement ({})", path.display());
        file.lock().ok()?;
    }
    Some(file)
}
