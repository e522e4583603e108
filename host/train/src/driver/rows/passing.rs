//! Rows that are stored only until they are taken. Each interval has its own buffer.
//!
//! There are as many buffers as intervals whose rows are written and not taken yet, which is one
//! for each step in flight.

use std::cell::RefCell;
use std::collections::BTreeMap;

use eciton_tensor::{Buffer, WriteRows};
use eciton_types::{IntervalId, SlotId};

use crate::error::{Error, Result, at};

/// Buffers of one slot. Those in `used` have the rows of an interval, and those in `free` are
/// unused.
#[derive(Debug)]
pub(super) struct Passing {
    pub(super) slot: SlotId,
    width: usize,
    /// Number of rows per buffer, which is that of the longest interval.
    longest: usize,
    used: RefCell<BTreeMap<IntervalId, Buffer>>,
    free: RefCell<Vec<Buffer>>,
}

impl Passing {
    /// Creates a store without buffers. `longest` is the number of rows of the longest interval.
    pub(super) fn new(slot: SlotId, width: u32, longest: usize) -> Self {
        let (used, free) = Default::default();
        Self { slot, width: width as usize, longest, used, free }
    }

    /// Leases for writing the first `rows` rows of an interval's buffer. An interval without a
    /// buffer gets a free or new one.
    pub(super) fn write(&self, interval: IntervalId, rows: usize) -> Result<WriteRows> {
        let mut used = self.used.borrow_mut();
        let place = match used.remove(&interval).or_else(|| self.free.borrow_mut().pop()) {
            Some(place) => place,
            None => Buffer::zeroed(self.longest, self.width).map_err(at("row buffers"))?,
        };
        let lease = place.write(0..rows).map_err(at("rows to write"));
        used.insert(interval, place);
        lease
    }

    /// Removes and returns the buffer of an interval. Fails if the interval has no buffer.
    pub(super) fn take(&self, interval: IntervalId) -> Result<Buffer> {
        let place = self.used.borrow_mut().remove(&interval);
        place.ok_or_else(|| {
            Error::Internal(format!("the rows of interval {interval} were already taken, or never written"))
        })
    }

    /// Returns a buffer that was taken, so that other intervals can use it.
    pub(super) fn give_back(&self, place: Buffer) {
        self.free.borrow_mut().push(place);
    }

    /// Frees the buffers of all intervals at the start of a pass. A buffer that is still leased is
    /// dropped.
    pub(super) fn forget(&self) {
        let places = std::mem::take(&mut *self.used.borrow_mut()).into_values();
        let idle = places.filter(|place| place.write(0..self.longest).is_ok());
        self.free.borrow_mut().extend(idle);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn there_are_as_many_places_as_steps_under_way() {
        let passing = Passing::new(SlotId(3), 5, 8);
        let mut leases: Vec<WriteRows> = Vec::new();
        for round in 0..30u32 {
            leases.push(passing.write(IntervalId(round), 8 - round as usize % 3).unwrap());
            if round >= 2 {
                leases.remove(0);
                let place = passing.take(IntervalId(round - 2)).unwrap();
                assert!(passing.take(IntervalId(round - 2)).is_err(), "taken");
                passing.give_back(place);
            }
        }
        assert_eq!((passing.used.borrow().len(), passing.free.borrow().len()), (2, 1));
        // Another attempt at a step writes where the first one did, once that is over.
        assert!(passing.write(IntervalId(29), 8).is_err());
        leases.pop();
        drop(passing.write(IntervalId(29), 8).unwrap());
        // The buffer of interval 28 is still being written.
        passing.forget();
        assert_eq!((passing.used.borrow().len(), passing.free.borrow().len()), (0, 2));
    }
}
