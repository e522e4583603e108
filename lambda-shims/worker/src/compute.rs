//! Thread that runs kernels. The main thread can fetch data in the meantime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use crate::caught::text;
use crate::error::{Error, Result};

/// Maximum number of jobs that wait for the thread. A function handles only one invocation at a
/// time, so the limit concerns workers inside other processes.
pub const QUEUE: usize = 64;

/// Size of the thread's stack, in bytes. The stack of a kernel takes up to 1 MiB of it.
const STACK_BYTES: usize = 4 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// Handle of the thread that runs kernels. When the handle is dropped, the thread ends after the
/// last queued job.
#[derive(Debug)]
pub(crate) struct Compute {
    jobs: SyncSender<Job>,
}

impl Compute {
    /// Starts the thread that runs kernels.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot start a thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (jobs, waiting) = sync_channel::<Job>(QUEUE);
        let life = move || {
            for job in waiting {
                job();
            }
        };
        let thread = std::thread::Builder::new().name("eciton-compute".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(life)?;
        Ok(Self { jobs })
    }

    fn enqueue(&self, job: Job) -> Result<()> {
        self.jobs.try_send(job).map_err(|e| match e {
            TrySendError::Full(_) => Error::Busy { limit: QUEUE },
            TrySendError::Disconnected(_) => gone("waiting for the thread"),
        })
    }

    /// Queues `job` for the thread and returns immediately. A panic in the job is caught.
    pub(crate) fn send(&self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        self.enqueue(Box::new(move || {
            // The panic hook has written the message to the log.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }))
    }

    /// Runs `job` on the thread, and waits for its result. A panic in the job becomes an
    /// [`Error::Panic`] that contains `doing`, and the thread continues.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        doing: &'static str,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, done) = tokio::sync::oneshot::channel();
        let whole = move || {
            let result = catch_unwind(AssertUnwindSafe(job));
            let result = result.unwrap_or_else(|panic| Err(Error::Panic { doing, text: text(&*panic) }));
            // If the caller no longer waits, the result is dropped.
            let _ = answer.send(result);
        };
        self.enqueue(Box::new(whole))?;
        done.await.unwrap_or_else(|_| Err(gone(doing)))
    }
}

fn gone(doing: &'static str) -> Error {
    Error::Panic { doing, text: "the compute thread ended".to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::sync::mpsc::channel;

    fn block<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_panic_is_an_error_and_the_thread_goes_on() {
        let compute = Compute::start().unwrap();
        let panics = compute.run("testing", || -> Result<()> { panic!("planted {}", 7) });
        let Err(Error::Panic { doing: "testing", text }) = block(panics) else { panic!("no error") };
        assert_eq!(text, "planted 7");
        assert_eq!(block(compute.run("testing", || Ok(5))).unwrap(), 5);
    }

    #[test]
    fn jobs_that_wait_are_bounded() {
        let compute = Compute::start().unwrap();
        let (started, has_started) = channel();
        let (release, released) = channel::<()>();
        block(async {
            let blocker = compute.run("testing", move || {
                started.send(()).unwrap();
                let _ = released.recv();
                Ok(())
            });
            let mut futures: Vec<std::pin::Pin<Box<dyn Future<Output = Result<()>>>>> =
                vec![Box::pin(blocker)];
            let poll = |f: &mut std::pin::Pin<Box<dyn Future<Output = Result<()>>>>| {
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                f.as_mut().poll(&mut context)
            };
            assert!(poll(&mut futures[0]).is_pending());
            has_started.recv().unwrap();
            for _ in 0..QUEUE {
                let mut waiting: std::pin::Pin<Box<dyn Future<Output = Result<()>>>> =
                    Box::pin(compute.run("testing", || Ok(())));
                assert!(poll(&mut waiting).is_pending());
                futures.push(waiting);
            }
            let over = compute.run("testing", || Ok(())).await;
            assert!(matches!(over, Err(Error::Busy { limit: QUEUE })), "{over:?}");
            release.send(()).unwrap();
            for future in futures {
                future.await.unwrap();
            }
        });
    }
}
