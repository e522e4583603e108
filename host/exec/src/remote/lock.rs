//! Locks that stay usable after a thread panicked while it held them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, even if a thread panicked while it held the lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The tables contain counters and options, which are valid after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
