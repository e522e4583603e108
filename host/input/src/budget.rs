//! The memory that reading may take: one budget for all readers of the process.
//!
//! A reader takes a [`Charge`] before it allocates what the input asks for: bytes of files,
//! unpacked bytes, tables. A charge is given back when it is dropped. [`Charge::keep`] leaves it
//! taken until the enclosing [`Reading`] ends, for parts of the result. The budget counts
//! allocations that an input chooses the size of, not every allocation: a process holds some more.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory;

/// The share of the memory that the process may hold.
const SHARE: u64 = 2;
/// The budget where the operating system does not tell the memory.
const UNKNOWN: u64 = 4 << 30;

/// 0: not chosen yet.
static LIMIT: AtomicU64 = AtomicU64::new(0);
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Bytes kept until the outermost [`Reading`] of this thread ends; how many readings are open.
    static KEPT: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// Sets the budget in bytes, at least 1.
pub fn set_limit(bytes: u64) {
    LIMIT.store(bytes.max(1), Ordering::Relaxed);
}

/// The budget in bytes: as set, else half of the memory that machine and control groups leave.
pub fn limit() -> u64 {
    match LIMIT.load(Ordering::Relaxed) {
        0 => {
            let found = memory::available().map_or(UNKNOWN, |bytes| bytes / SHARE).max(1);
            // A limit that somebody set meanwhile stays.
            match LIMIT.compare_exchange(0, found, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => found,
                Err(set) => set,
            }
        }
        set => set,
    }
}

/// More memory than the budget has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// Bytes in use together with those asked for.
    pub found: u64,
    /// The budget.
    pub allowed: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, allowed } = self;
        write!(f, "reading would take {found} bytes of memory, above the budget of {allowed} bytes")
    }
}

impl std::error::Error for Exceeded {}

/// Bytes taken from the budget, given back when dropped.
#[derive(Debug, Default)]
pub struct Charge(u64);

impl Charge {
    /// Takes `bytes`.
    ///
    /// # Errors
    /// [`Exceeded`] where the budget has not so many left.
    pub fn take(bytes: u64) -> Result<Self, Exceeded> {
        let mut charge = Self(0);
        charge.grow_to(bytes)?;
        Ok(charge)
    }

    /// Takes more, until the charge is of `bytes`; a charge of more stays.
    ///
    /// # Errors
    /// [`Exceeded`]; the charge is then as before.
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

    /// Leaves the bytes taken until the thread's outermost [`Reading`] ends; without one, gives
    /// them back.
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

/// The reading of one input, by one thread.
#[derive(Debug)]
pub struct Reading(std::marker::PhantomData<*const ()>);

impl Reading {
    /// Begins; what is kept meanwhile is given back when the outermost reading is dropped.
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

    /// One test: the budget is the process's.
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
