//! Threads for pieces of work, which the caller does itself where the system gives no more threads.
//!
//! `std::thread::Scope::spawn` panics there, as under `ulimit -u` or in a control group of few
//! processes.

use std::ops::Range;
use std::sync::mpsc::{RecvError, channel};
use std::thread::{Builder, Result, Scope, ScopedJoinHandle};

/// A piece of work that was given to [`spawn`].
#[derive(Debug)]
pub enum Work<'scope, T> {
    /// Another thread does it.
    Given(ScopedJoinHandle<'scope, std::result::Result<T, RecvError>>),
    /// The caller has done it.
    Done(T),
}

impl<T> Work<'_, T> {
    /// The result; waits for it.
    ///
    /// # Errors
    /// The payload of the panic that ended the thread.
    pub fn join(self) -> Result<T> {
        match self {
            Self::Given(thread) => thread.join()?.map_err(|error| Box::new(error) as _),
            Self::Done(result) => Ok(result),
        }
    }
}

/// Does `work` on a new thread, or on this one before it returns.
///
/// So `work` must not wait for anything that the caller does afterwards.
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
    // A closure is lost with the thread that cannot start, so the work follows once there is one.
    let (give, take) = channel::<F>();
    match builder.spawn_scoped(scope, move || take.recv().map(|work| work())) {
        Ok(thread) => match give.send(work) {
            Ok(()) => Work::Given(thread),
            Err(returned) => Work::Done(returned.0()),
        },
        Err(_) => Work::Done(work()),
    }
}

/// Returns the number of processors that this process may use, at least 1.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Entries of lists for which another thread is worth its start.
const ENTRIES_A_THREAD: u64 = 1 << 18;

/// Returns the number of threads that work over `entries` entries is worth, at most one a
/// processor.
pub fn threads_for(entries: u64) -> usize {
    processors().min((entries / ENTRIES_A_THREAD) as usize).max(1)
}

/// Returns `rows` rows in as many shares as `threads`, in order.
pub fn shares(rows: usize, threads: usize) -> Vec<Range<usize>> {
    let share = rows.div_ceil(threads.max(1)).max(1);
    (0..rows).step_by(share).map(|from| from..(from + share).min(rows)).collect()
}

/// Runs each piece of work on a thread of its own, the first on the caller's. Returns the results
/// in the same order.
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
