//! Memory budget for reading input, shared by all readers of the process.
//!
//! A reader takes a [`Charge`] before it allocates memory in proportion to its input, such as file
//! contents, decompressed bytes or tables. Dropping the charge returns its bytes to the budget.
//! [`Charge::keep`] leaves the bytes charged until the enclosing [`Reading`] ends, for memory that
//! is part of the result. Small allocations are not charged, so the process uses somewhat more
//! memory than the budget.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory;

/// Divisor that yields the default budget, which is half of the memory that the process may use.
const SHARE: u64 = 2;
/// Default budget in bytes (4 GiB) if the operating system does not report the available memory.
const UNKNOWN: u64 = 4 << 30;

/// Budget in bytes. 0 means that the budget has not been determined yet.
static LIMIT: AtomicU64 = AtomicU64::new(0);
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Bytes that remain charged until this thread's outermost [`Reading`] ends, and the number of
    /// `Reading` guards that the thread holds.
    static KEPT: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// Sets the memory budget of all readers to `bytes`. A budget of 0 counts as 1.
pub fn set_limit(bytes: u64) {
    LIMIT.store(bytes.max(1), Ordering::Relaxed);
}

/// Returns the memory budget in bytes. It is the value passed to [`set_limit`], or by default half
/// of [`memory::available`].
pub fn limit() -> u64 {
    match LIMIT.load(Ordering::Relaxed) {
        0 => {
            let found = memory::available().map_or(UNKNOWN, |bytes| bytes / SHARE).max(1);
            // A limit that another thread has set in the meantime has precedence.
            match LIMIT.compare_exchange(0, found, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => found,
                Err(set) => set,
            }
        }
        set => set,
    }
}

/// Error that a charge would exceed the memory budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// Bytes that would be charged in total if the request were granted.
    pub found: u64,
    /// Memory budget in bytes.
    pub allowed: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, allowed } = self;
        write!(f, "reading needs {found} bytes of memory, above the memory budget of {allowed} bytes")
    }
}

impl std::error::Error for Exceeded {}

/// Number of bytes charged to the memory budget. Dropping the value returns the bytes.
#[derive(Debug, Default)]
pub struct Charge(u64);

impl Charge {
    /// Charges `bytes` to the memory budget.
    ///
    /// # Errors
    /// Returns [`Exceeded`] if less than `bytes` of the budget is free.
    pub fn take(bytes: u64) -> Result<Self, Exceeded> {
        let mut charge = Self(0);
        charge.grow_to(bytes)?;
        Ok(charge)
    }

    /// Grows the charge to `bytes` in total. A charge that is already larger does not change.
    ///
    /// # Errors
    /// Returns [`Exceeded`] if the budget is too small. The charge does not change in this case.
    pub fn grow_to(&mut self, bytes: u64) -> Result<(), Exceeded> {
        let more = bytes.saturating_sub(self.0);
        let allowed = limit();
        if more > 0 {
            let within = |taken: u64| taken.checked_add(more).filter(|&found| found <= allowed);
            let taken = TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
            taken.map_err(|taken| Exceeded { found: taken.saturating_add(more), allowed })?;
        }
        self.0 += more;
        Ok(())
    }

    /// Leaves the bytes charged until this thread's outermost [`Reading`] ends. If the thread has
    /// no `Reading`, the bytes return to the budget at once.
    pub fn keep(mut self) {
        KEPT.with(|kept| {
            let (bytes, open) = kept.get();
            if open > 0 {
                kept.set((bytes + self.0, open));
                self.0 = 0;
            }
        });
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Guard that marks the time during which a thread reads one input. When a thread drops its
/// outermost guard, all bytes passed to [`Charge::keep`] return to the budget.
#[derive(Debug)]
pub struct Reading(std::marker::PhantomData<*const ()>);

impl Reading {
    /// Marks the start of reading an input. Bytes passed to [`Charge::keep`] remain charged until
    /// this thread's outermost `Reading` is dropped.
    #[must_use]
    pub fn begin() -> Self {
        KEPT.with(|kept| kept.set((kept.get().0, kept.get().1 + 1)));
        Self(std::marker::PhantomData)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        KEPT.with(|kept| match kept.get() {
            (bytes, 0 | 1) => {
                TAKEN.fetch_sub(bytes, Ordering::Relaxed);
                kept.set((0, 0));
            }
            (bytes, open) => kept.set((bytes, open - 1)),
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A single test, because the budget belongs to the process.
    #[test]
    fn charges_come_back_and_the_limit_holds() {
        set_limit(1000);
        let mut one = Charge::take(600).unwrap();
        assert_eq!(Charge::take(401).unwrap_err(), Exceeded { found: 1001, allowed: 1000 });
        one.grow_to(1000).unwrap();
        one.grow_to(10).unwrap();
        assert!(one.grow_to(1001).is_err() && Charge::take(1).is_err() && Charge::take(0).is_ok());
        drop(one);
        {
            let _outer = Reading::begin();
            {
                let _inner = Reading::begin();
                Charge::take(700).unwrap().keep();
            }
            assert_eq!(Charge::take(301).unwrap_err().found, 1001);
        }
        // Without a reading nothing stays.
        Charge::take(1000).unwrap().keep();
        assert!(Charge::take(1000).is_ok());
        assert!(Charge::take(u64::MAX).is_err() && Charge::take(1000).is_ok());
    }
}
