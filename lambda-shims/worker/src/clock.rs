//! Clock that enforces the time limits of kernels. It ticks only while a kernel runs. A worker
//! waits for its next invocation most of the time, and many workers may share a processor.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use eciton_kernel::{Limits, Runtime};

#[derive(Debug, Default)]
struct State {
    /// Number of kernels that are currently running.
    running: u32,
    closing: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state has two plain fields and is valid even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Clock that advances the time of a kernel runtime while a kernel runs.
#[derive(Debug)]
pub(crate) struct Clock {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Guard that keeps the clock ticking until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticking(Arc<Shared>);

impl Clock {
    /// Starts the thread of the clock for `runtime`. The thread sleeps until a kernel runs.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot start a thread.
    pub(crate) fn start(runtime: &Runtime) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (runtime, own) = (runtime.clone(), shared.clone());
        let life = move || {
            let mut state = own.lock();
            while !state.closing {
                if state.running == 0 {
                    state = own.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                state =
                    own.changed.wait_timeout(state, Limits::TICK).unwrap_or_else(PoisonError::into_inner).0;
                runtime.tick();
            }
        };
        // The thread calls no deeply nested functions.
        let thread = std::thread::Builder::new().name("eciton-clock".to_owned()).stack_size(64 << 10);
        Ok(Self { thread: Some(thread.spawn(life)?), shared })
    }

    /// Makes the clock tick until the returned guard is dropped.
    pub(crate) fn tick(&self) -> Ticking {
        let mut state = self.shared.lock();
        state.running += 1;
        if state.running == 1 {
            self.shared.changed.notify_all();
        }
        Ticking(self.shared.clone())
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic, and nothing could be done if it did.
            let _ = thread.join();
        }
    }
}
