//! The tensors that a worker caches between tasks, up to a limit in bytes.
//!
//! A cached tensor is an object (a copy of a tensor of the host) or rows that a worker computed. If
//! a task reads a tensor that was removed, the worker reports it as missing. The host then sends
//! the object again, or has the rows computed again.

use std::collections::{BTreeSet, HashMap, VecDeque};

use eciton_kernel::Error;
use eciton_kernel::wire::Decoded;
use eciton_types::TensorKey;

/// Cache of a worker: tensors by key, up to a limit in bytes. For each slot (row buffer) and
/// interval (range of vertices), it contains the rows of only one round.
#[derive(Debug, Default)]
pub(super) struct Room {
    most: u64,
    bytes: u64,
    /// Size of the parameters that the worker owns, in bytes, which counts towards the limit
    /// `most`.
    beside: u64,
    peak: u64,
    /// Cached tensors, by their key without the round.
    kept: HashMap<TensorKey, Kept>,
    /// Keys without the round, from the oldest insertion to the newest.
    order: VecDeque<TensorKey>,
}

/// A cached tensor, which may consist of several parts.
#[derive(Debug)]
struct Kept {
    key: TensorKey,
    parts: Vec<Decoded>,
    bytes: u64,
}

impl Kept {
    /// Returns true if the tensor consists of rows that a worker computed. It is false for an
    /// object, a copy of a tensor of the host.
    fn is_rows(&self) -> bool {
        self.key.is_made_by_workers()
    }
}

impl Room {
    /// Creates an empty cache with a limit of `most` bytes.
    pub(super) fn new(most: u64) -> Self {
        Self { most, ..Self::default() }
    }

    /// Returns the maximum total size of cached and owned tensors so far, in bytes.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns the total size of cached and owned tensors, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.saturating_add(self.beside)
    }

    /// Records the size of the parameters that the worker owns, in bytes. Removes the cached
    /// tensors that no longer fit within the limit.
    pub(super) fn beside(&mut self, bytes: u64) {
        self.beside = bytes;
        self.make(0, Kept::is_rows);
        self.make(0, |_| true);
        self.peak = self.peak.max(self.bytes.saturating_add(bytes));
    }

    /// Caches an object. To make space, this removes rows first and then older objects. An object
    /// larger than the limit is not cached, so its task reports it as missing.
    pub(super) fn put(&mut self, key: TensorKey, parts: Vec<Decoded>) {
        let bytes = parts.iter().map(Decoded::bytes).sum();
        self.free(&key);
        self.make(bytes, Kept::is_rows);
        self.make(bytes, |_| true);
        if self.fits(bytes) {
            self.insert(Kept { key, parts, bytes });
        }
    }

    /// Caches rows. To make space, this removes older rows first and then objects. It does not
    /// remove the tensors in `own`, which the current task reads or computes.
    ///
    /// Returns [`Error::Wire`], which ends the run, if the tensors of the current task exceed the
    /// limit.
    pub(super) fn keep(
        &mut self,
        key: TensorKey,
        rows: Decoded,
        own: &BTreeSet<TensorKey>,
    ) -> Result<(), Error> {
        let bytes = rows.bytes();
        self.free(&key);
        self.make(bytes, |kept| kept.is_rows() && !own.contains(&kept.key));
        self.make(bytes, |kept| !own.contains(&kept.key));
        if !self.fits(bytes) {
            let reason = format!(
                "the weights and rows of one task exceed the cache of this worker, which has {} bytes; use more lanes \
                 (--lanes), more micro-batches (--micro), or a larger cache (--cache, workers.cache_bytes)",
                self.most
            );
            return Err(Error::Wire { place: "rows to cache".to_owned(), reason });
        }
        self.insert(Kept { key, parts: vec![rows], bytes });
        Ok(())
    }

    /// Removes the tensor `key` if it is cached. Rows are removed for every round of their slot
    /// (row buffer) and interval (range of vertices).
    pub(super) fn free(&mut self, key: &TensorKey) {
        let key = key.cache_key();
        if let Some(kept) = self.kept.remove(&key) {
            self.bytes -= kept.bytes;
            self.order.retain(|known| *known != key);
        }
    }

    /// Returns true if the tensor `key` is cached.
    pub(super) fn has(&self, key: &TensorKey) -> bool {
        self.kept.get(&key.cache_key()).is_some_and(|kept| kept.key == *key)
    }

    /// Returns the part with index `part` of a cached tensor, or `None` if it is not cached.
    pub(super) fn part(&self, key: &TensorKey, part: u32) -> Option<Decoded> {
        let kept = self.kept.get(&key.cache_key()).filter(|kept| kept.key == *key);
        kept?.parts.get(part as usize).cloned()
    }

    /// Returns true if `bytes` more bytes are within the limit.
    fn fits(&self, bytes: u64) -> bool {
        self.bytes().saturating_add(bytes) <= self.most
    }

    /// Inserts a tensor that fits within the limit, and updates the byte counts.
    fn insert(&mut self, kept: Kept) {
        self.bytes += kept.bytes;
        self.peak = self.peak.max(self.bytes());
        self.order.push_back(kept.key.cache_key());
        self.kept.insert(kept.key.cache_key(), kept);
    }

    /// Removes tensors, the oldest first, until `bytes` more bytes fit. It removes only tensors for
    /// which `may_go` returns true.
    fn make(&mut self, bytes: u64, may_go: impl Fn(&Kept) -> bool) {
        if bytes > self.most {
            return;
        }
        while !self.fits(bytes) {
            let goes = |place: &&TensorKey| self.kept.get(*place).is_some_and(&may_go);
            let Some(oldest) = self.order.iter().find(goes).copied() else { return };
            self.free(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_types::{IntervalId, ParameterId, Round, SlotId, Version, Via};

    fn rows(value: f32) -> Decoded {
        let buffer = eciton_tensor::Buffer::from_rows(16, 16, &[value; 256]).unwrap();
        Decoded::Matrix(buffer.read(0..16).unwrap().into())
    }

    fn weight(parameter: u16) -> TensorKey {
        TensorKey::Weight { parameter: ParameterId(parameter), version: Version(1) }
    }

    fn slot(slot: u16, round: u32) -> TensorKey {
        let (slot, round, interval) = (SlotId(slot), Round(round), IntervalId(0));
        TensorKey::Rows { pass: 0, slot, round, interval, via: Via::Stay }
    }

    #[test]
    fn what_is_kept_never_exceeds_the_room() {
        let one = rows(1.0).bytes();
        let mut room = Room::new(3 * one);
        let own = BTreeSet::from([weight(1)]);
        room.put(weight(1), vec![rows(0.0)]);
        room.keep(slot(0, 1), rows(1.0), &own).unwrap();
        room.keep(slot(1, 1), rows(2.0), &own).unwrap();
        assert!(room.has(&slot(0, 1)) && !room.has(&slot(0, 2)), "of another round");
        assert!(room.part(&slot(0, 1), 0).is_some() && room.part(&slot(0, 2), 0).is_none());
        room.keep(slot(2, 1), rows(3.0), &own).unwrap();
        assert!(!room.has(&slot(0, 1)), "the oldest");
        room.keep(slot(1, 2), rows(4.0), &own).unwrap();
        assert!(room.has(&slot(1, 2)) && !room.has(&slot(1, 1)) && room.has(&slot(2, 1)));
        // Rows are removed before objects, and older objects before newer ones.
        room.put(weight(2), vec![rows(0.0)]);
        assert!(room.has(&weight(1)) && room.has(&weight(2)) && !room.has(&slot(2, 1)));
        room.put(weight(3), vec![rows(0.0), rows(0.0)]);
        assert!(!room.has(&weight(1)) && room.has(&weight(2)) && room.has(&weight(3)));
        // Objects of other tasks are removed for rows, but no objects of the present task.
        room.keep(slot(3, 3), rows(1.0), &BTreeSet::from([weight(3)])).unwrap();
        assert!(!room.has(&weight(2)) && room.has(&slot(3, 3)));
        let all = BTreeSet::from([weight(3), weight(4)]);
        room.put(weight(4), vec![rows(0.0)]);
        let error = room.keep(slot(4, 3), rows(1.0), &all).unwrap_err();
        assert!(!error.is_retryable() && error.to_string().contains("--cache"), "{error}");
        room.put(weight(5), vec![rows(0.0), rows(0.0), rows(0.0), rows(0.0)]);
        assert!(!room.has(&weight(5)), "larger than the room");
        assert_eq!((room.peak(), room.bytes, room.order.len()), (3 * one, 3 * one, 2));
        // Cached tensors are removed for the parameters that the worker owns.
        room.beside(2 * one);
        assert!(!room.has(&weight(3)) || !room.has(&weight(4)));
        assert_eq!((room.bytes + room.beside <= 3 * one, room.peak()), (true, 3 * one));
        room.beside(0);
        room.free(&weight(3));
        room.free(&weight(4));
        assert_eq!((room.bytes, room.kept.len(), room.order.len()), (0, 0, 0));
    }
}
