//! The clock that interrupts guests. It ticks while a kernel runs and sleeps otherwise: a worker
//! waits for its next invocation most of its life, and many share a processor.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use eciton_kernel::{Limits, Runtime};

#[derive(Debug, Default)]
struct State {
    /// Kernels that run now.
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
        // Two plain fields; whole whatever happened.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ticks a runtime while it is wanted.
#[derive(Debug)]
pub(crate) struct Clock {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The clock ticks while one of these lives.
#[derive(Debug)]
pub(crate) struct Ticking(Arc<Shared>);

impl Clock {
    /// A clock for `runtime`, still asleep.
    ///
    /// # Errors
    /// If the system refuses a thread.
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
        // It calls nothing that is deep.
        let thread = std::thread::Builder::new().name("eciton-clock".to_owned()).stack_size(64 << 10);
        Ok(Self { thread: Some(thread.spawn(life)?), shared })
    }

    /// Ticks from now until the answer is dropped.
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
            // It cannot panic, and there is nothing to do if it did.
            let _ = thread.join();
        }
    }
}
