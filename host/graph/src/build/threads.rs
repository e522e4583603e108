//! Threads for one piece of work, joined before it returns.

use std::ops::Range;

use eciton_input::threads::spawn;

/// Entries of lists for which another thread is worth its start.
const ENTRIES_A_THREAD: u64 = 1 << 18;

/// How many threads work over `entries` entries is worth, at most one a processor.
pub(crate) fn threads_for(entries: u64) -> usize {
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    most.min((entries / ENTRIES_A_THREAD) as usize).max(1)
}

/// `rows` rows in as many shares as `threads`, in order.
pub(crate) fn shares(rows: usize, threads: usize) -> Vec<Range<usize>> {
    let share = rows.div_ceil(threads.max(1)).max(1);
    (0..rows).step_by(share).map(|from| from..(from + share).min(rows)).collect()
}

/// Runs each piece of work on a thread of its own, the first on the caller's; results in the same
/// order.
pub(crate) fn on_threads<W: Send, R: Send>(work: Vec<W>, run: impl Fn(W) -> R + Sync) -> Vec<R> {
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
