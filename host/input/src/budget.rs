//! Memory budget of reading, which all readers of the process share.
//!
//! A reader takes a [`Charge`] before it allocates memory whose size the input determines: bytes of
//! files, decompressed bytes, tables. The charge returns its bytes to the budget when it is
//! dropped. After [`Charge::keep`] the bytes remain charged until the enclosing [`Reading`] ends;
//! readers use this for parts of the result. The budget covers only allocations whose size depends
//! on the input, so the process uses somewhat more memory.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory;

/// Divisor of the memory that the process may use. The default budget is half of that memory.
const SHARE: u64 = 2;
/// Budget in bytes if the operating system does not report its memory.
const UNKNOWN: u64 = 4 << 30;

/// Budget in bytes. 0 means that no budget has been chosen yet.
static LIMIT: AtomicU64 = AtomicU64::new(0);
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Bytes that remain charged until the outermost [`Reading`] of this thread ends, and the
    /// number of readings of this thread that have not ended.
    static KEPT: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// Sets the memory budget of all readers to `bytes`, at least 1.
pub fn set_limit(bytes: u64) {
    LIMIT.store(bytes.max(1), Ordering::Relaxed);
}

/// Returns the memory budget in bytes: the value of [`set_limit`], else half of
/// [`memory::available`].
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

/// Error of a charge that does not fit into the memory budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// Bytes that are charged already plus the bytes requested.
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

/// Number of bytes charged to the memory budget. Dropping the charge returns them.
#[derive(Debug, Default)]
pub struct Charge(u64);

impl Charge {
    /// Charges `bytes` to the memory budget.
    ///
    /// # Errors
    /// Returns [`Exceeded`] if less than `bytes` of the budget is unused.
    pub fn take(bytes: u64) -> Result<Self, Exceeded> {
        let mut charge = Self(0);
        charge.grow_to(bytes)?;
        Ok(charge)
    }

    /// Grows the charge to `bytes`. A charge that is larger already does not change.
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

    /// Leaves the bytes charged until the outermost [`Reading`] of this thread ends. Without a
    /// `Reading`, the bytes return to the budget at once.
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

/// Guard for the time in which one thread reads one input. Bytes of [`Charge::keep`] return to the
/// budget when the outermost guard of the thread is dropped.
#[derive(Debug)]
pub struct Reading(std::marker::PhantomData<*const ()>);

impl Reading {
    /// Starts reading an input. Bytes of [`Charge::keep`] remain charged until the outermost
    /// `Reading` of this thread is dropped.
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
