//! The clock that interrupts guests: without it a kernel that loops is never ended.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use eciton_kernel::{Limits, Runtime};

/// Ticks while it lives. It must live before any code of a kernel runs, loading included.
#[derive(Debug)]
pub struct Clock {
    thread: Option<JoinHandle<()>>,
    stop: Arc<(Mutex<bool>, Condvar)>,
}

impl Clock {
    /// Starts ticking for `runtime`.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start(runtime: &Runtime) -> std::io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (runtime, stopped) = (runtime.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("eciton-clock".to_owned()).spawn(move || {
            let (stopped, changed) = &*stopped;
            let mut guard = stopped.lock().unwrap_or_else(PoisonError::into_inner);
            while !*guard {
                guard = changed.wait_timeout(guard, Limits::TICK).unwrap_or_else(PoisonError::into_inner).0;
                runtime.tick();
            }
        })?;
        Ok(Self { thread: Some(thread), stop })
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and there is nothing to do if it did.
            let _ = thread.join();
        }
    }
}
