//! Threads with a fallback. If the operating system cannot start another thread, the calling thread
//! does the work itself.
//!
//! In this situation `std::thread::Scope::spawn` panics, for instance under `ulimit -u` or in a
//! control group with a small process limit.

use std::ops::Range;
use std::sync::mpsc::{RecvError, channel};
use std::thread::{Builder, Result, Scope, ScopedJoinHandle};

/// Handle of the work that was passed to [`spawn`], like a join handle.
#[derive(Debug)]
pub enum Work<'scope, T> {
    /// The work runs on its own thread.
    Given(ScopedJoinHandle<'scope, std::result::Result<T, RecvError>>),
    /// No thread could be started, so the calling thread has already done the work. The value is
    /// the result.
    Done(T),
}

impl<T> Work<'_, T> {
    /// Waits for the work and returns its result.
    ///
    /// # Errors
    /// Returns the panic payload if the work panicked on its own thread.
    pub fn join(self) -> Result<T> {
        match self {
            Self::Given(thread) => thread.join()?.map_err(|error| Box::new(error) as _),
            Self::Done(result) => Ok(result),
        }
    }
}

/// Runs `work` on a new thread. If no thread can be started, the calling thread runs it before this
/// function returns.
///
/// Therefore `work` must not wait for anything that the caller does after this call.
pub fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Work<'scope, T> {
    spawn_by(Builder::new(), scope, work)
}

fn spawn_by<'scope, T: Send + 'scope, F: FnOnce() -> T + Send + 'scope>(
    builder: Builder,
    scope: &'scope Scope<'scope, '_>,
    work: F,
) -> Work<'scope, T> {
    // A closure passed to a thread that cannot start is lost. So the thread starts first, and the
    // closure is sent to it.
    let (give, take) = channel::<F>();
    match builder.spawn_scoped(scope, move || take.recv().map(|work| work())) {
        Ok(thread) => match give.send(work) {
            Ok(()) => Work::Given(thread),
            Err(returned) => Work::Done(returned.0()),
        },
        Err(_) => Work::Done(work()),
    }
}

/// Returns the number of processors that this process may use, or 1 if it is unknown.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Minimum number of list entries per thread. With fewer entries, starting a thread costs more time
/// than it saves.
const ENTRIES_A_THREAD: u64 = 1 << 18;

/// Returns the number of threads for processing `entries` list entries. It is between 1 and the
/// number of processors.
pub fn threads_for(entries: u64) -> usize {
    processors().min((entries / ENTRIES_A_THREAD) as usize).max(1)
}

/// Divides `0..rows` into at most `threads` consecutive ranges of equal length. The last range may
/// be shorter.
pub fn shares(rows: usize, threads: usize) -> Vec<Range<usize>> {
    let share = rows.div_ceil(threads.max(1)).max(1);
    (0..rows).step_by(share).map(|from| from..(from + share).min(rows)).collect()
}

/// Calls `run` with each element of `work` and returns the results in order. The first element runs
/// on the calling thread, and every other element on a thread of its own.
pub fn on_threads<W: Send, R: Send>(work: Vec<W>, run: impl Fn(W) -> R + Sync) -> Vec<R> {
    let run = &run;
    std::thread::scope(|scope| {
        let mut work = work.into_iter();
        let own = work.next();
        let others: Vec<_> = work.map(|w| spawn(scope, move || run(w))).collect();
        let mut done: Vec<R> = own.map(run).into_iter().collect();
        for other in others {
            match other.join() {
                Ok(result) => done.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn work_is_done_by_another_thread_or_by_this_one() {
        let here = std::thread::current().id();
        std::thread::scope(|scope| {
            let other = spawn(scope, || std::thread::current().id());
            assert!(matches!(other, Work::Given(_)));
            assert_ne!(other.join().unwrap(), here);
            // No address space holds this stack.
            let none = Builder::new().stack_size(usize::MAX >> 1);
            let own = spawn_by(none, scope, || std::thread::current().id());
            assert!(matches!(own, Work::Done(id) if id == here));
        });
    }

    #[test]
    fn a_panic_reaches_who_joins() {
        std::thread::scope(|scope| {
            let payload = spawn(scope, || panic!("seven")).join().unwrap_err();
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"seven"));
        });
    }
}
