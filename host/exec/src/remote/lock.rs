//! Locks of tables that stay valid after a panic of their holder.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counters and options: whole whatever happened.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
