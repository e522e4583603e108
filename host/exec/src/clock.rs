//! The clock that enforces the time limits of kernels. Without it, a kernel in an endless loop
//! would never stop.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use eciton_kernel::{Limits, Runtime};

/// Clock for the time limits of kernels: a thread that ticks every [`Limits::TICK`] until the clock
/// is dropped. It must be running whenever code of a kernel runs, also while kernels are loaded.
#[derive(Debug)]
pub struct Clock {
    thread: Option<JoinHandle<()>>,
    stop: Arc<(Mutex<bool>, Condvar)>,
}

impl Clock {
    /// Starts a thread that advances the time of `runtime`.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot start the thread.
    pub fn start(runtime: &Runtime) -> std::io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (runtime, stopped) = (runtime.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("eciton-clock".to_owned()).spawn(move || {
            let (stopped, changed) = &*stopped;
            let mut guard = stopped.lock().unwrap_or_else(PoisonError::into_inner);
            let mut last = Instant::now();
            while !*guard {
                guard = changed.wait_timeout(guard, Limits::TICK).unwrap_or_else(PoisonError::into_inner).0;
                let now = Instant::now();
                for _ in 0..due(now.duration_since(last)) {
                    runtime.tick();
                }
                last = now;
            }
        })?;
        Ok(Self { thread: Some(thread), stop })
    }
}

/// Maximum number of ticks to catch up on after one wake-up. Without this cap, kernels would time
/// out after the process was suspended.
const MOST_DUE: u32 = 10;

/// Returns the number of ticks to make up for after `since`, the time since the last wake-up. A
/// busy machine may wake the clock late.
fn due(since: Duration) -> u32 {
    let ticks = since.as_nanos() / Limits::TICK.as_nanos();
    u32::try_from(ticks).unwrap_or(MOST_DUE).clamp(1, MOST_DUE)
}

impl Drop for Clock {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic, and a panic would not matter here.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_wakes_late_ticks_for_the_time_that_passed() {
        for (ms, ticks) in [(0, 1), (9, 1), (10, 1), (25, 2), (100, 10), (60_000, MOST_DUE)] {
            assert_eq!(due(Duration::from_millis(ms)), ticks, "{ms} ms");
        }
    }
}
