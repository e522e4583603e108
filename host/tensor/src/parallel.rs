//! Division of an operation into pieces, which threads without a task help to compute.
//!
//! This crate starts no threads. An executor lets its threads [`join`] a group of [`Helpers`]. An
//! operation on one of these threads then offers its pieces to the others with [`for_each`]. On
//! other threads, `for_each` is a loop. The pieces of an operation write to different values, so
//! the result is the same for any number of threads.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Minimum work of an operation whose pieces are offered, in multiply-adds. Less work is done
/// before another thread has noticed the offer.
const MIN_WORK: usize = 1 << 21;

/// A group of threads which help each other.
pub trait Helpers: Send + Sync {
    /// Returns the number of threads in the group that may work at present, at least 1.
    fn threads(&self) -> usize;

    /// Offers the pieces of an operation to the threads that have no task. They call
    /// [`Pieces::help`].
    fn offer(&self, pieces: &Arc<Pieces>);

    /// Ends an offer. Threads may still compute pieces that they have taken.
    fn withdraw(&self, pieces: &Arc<Pieces>);
}

thread_local! {
    /// Group of this thread, or `None` if it has not joined one.
    static GROUP: RefCell<Option<Arc<dyn Helpers>>> = const { RefCell::new(None) };
}

/// Makes the calling thread a member of a group, in place of the group that it joined before.
pub fn join(group: Arc<dyn Helpers>) {
    GROUP.set(Some(group));
}

/// Ends the membership of the calling thread in a group.
pub fn leave() {
    GROUP.set(None);
}

/// Returns the number of threads that may compute pieces of an operation of the calling thread, at
/// least 1.
pub fn threads() -> usize {
    GROUP.with_borrow(|group| group.as_ref().map_or(1, |group| group.threads().max(1)))
}

/// Pieces of one operation.
pub struct Pieces {
    /// Computes the piece with an index. Its lifetime is not `'static`: it may only be called for a
    /// piece that has not ended.
    run: *const (dyn Fn(usize) + Sync),
    count: usize,
    /// Index of the next piece that no thread has taken. It can be larger than the count.
    next: AtomicUsize,
    ended: AtomicUsize,
    /// Payload of the first panic of a piece.
    panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
}

// SAFETY: the closure may be called by several threads at once, because it is `Sync`. It exists
// until all pieces have ended, see `for_each`.
unsafe impl Send for Pieces {}
// SAFETY: as above.
unsafe impl Sync for Pieces {}

impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pieces({} of {} ended)", self.ended.load(Ordering::Relaxed), self.count)
    }
}

impl Pieces {
    /// Returns true if there are pieces that no thread has taken.
    pub fn are_left(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.count
    }

    /// Computes pieces until none is left. A panic in a piece is stored for the thread of the
    /// operation.
    pub fn help(&self) {
        loop {
            let piece = self.next.fetch_add(1, Ordering::Relaxed);
            if piece >= self.count {
                return;
            }
            // SAFETY: this piece has not ended, so `for_each` has not returned, and the closure
            // exists.
            let run = unsafe { &*self.run };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(piece))) {
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
            }
            self.ended.fetch_add(1, Ordering::Release);
        }
    }
}

/// Calls `run` with each index below `count`, in any order. If the operation has enough `work` (in
/// multiply-adds), other threads of the group can help.
///
/// # Panics
/// Panics with the payload of the first call that panicked, after all other calls have ended.
pub fn for_each(count: usize, work: usize, run: &(dyn Fn(usize) + Sync)) {
    let group = if count > 1 && work >= MIN_WORK { GROUP.with_borrow(Clone::clone) } else { None };
    let Some(group) = group.filter(|group| group.threads() > 1) else {
        return (0..count).for_each(run);
    };
    // SAFETY: only the lifetime changes. The closure is called for pieces that have not ended, and
    // this function returns after all of them have ended.
    let run: *const (dyn Fn(usize) + Sync + 'static) = unsafe { std::mem::transmute(run) };
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let pieces = Arc::new(Pieces { run, count, next, ended, panic: Mutex::default() });
    group.offer(&pieces);
    pieces.help();
    group.withdraw(&pieces);
    let mut polls = 0_u32;
    while pieces.ended.load(Ordering::Acquire) < count {
        polls += 1;
        // A thread that computes a piece may have lost its processor.
        if polls.is_multiple_of(1 << 10) { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
    let panic = pieces.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    /// A group whose only other thread helps as soon as pieces are offered.
    struct Other;

    impl Helpers for Other {
        fn threads(&self) -> usize {
            2
        }

        fn offer(&self, pieces: &Arc<Pieces>) {
            let pieces = pieces.clone();
            std::thread::spawn(move || pieces.help());
        }

        fn withdraw(&self, pieces: &Arc<Pieces>) {
            assert!(!pieces.are_left());
        }
    }

    #[test]
    fn each_piece_is_computed_once() {
        for (group, work) in [(false, MIN_WORK), (true, MIN_WORK - 1), (true, MIN_WORK)] {
            if group {
                join(Arc::new(Other))
            } else {
                leave()
            }
            assert_eq!(threads(), 1 + usize::from(group));
            for count in [0, 1, 2, 1000] {
                let calls: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                for_each(count, work, &|piece| {
                    calls[piece].fetch_add(1, Ordering::Relaxed);
                });
                assert!(calls.iter().all(|calls| calls.load(Ordering::Relaxed) == 1));
            }
        }
        leave();
    }

    #[test]
    fn a_panic_in_a_piece_reaches_the_caller_after_all_pieces() {
        join(Arc::new(Other));
        let calls = AtomicUsize::new(0);
        let run = |piece| {
            calls.fetch_add(1, Ordering::Relaxed);
            assert!(piece != 3, "planted");
        };
        let caught = catch_unwind(AssertUnwindSafe(|| for_each(100, MIN_WORK, &run)));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "planted");
        assert_eq!(calls.load(Ordering::Relaxed), 100);
        leave();
    }
}
