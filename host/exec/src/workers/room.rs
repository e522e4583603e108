//! The room of a worker: tensors that it keeps between tasks, by name, within so many bytes.
//!
//! Objects are copies of the host's, rows are results of earlier tasks. What is let go of is missing to the
//! task that names it: the host sends an object once more, and has rows computed again.

use std::collections::{BTreeSet, HashMap, VecDeque};

use eciton_kernel::Error;
use eciton_kernel::wire::Decoded;

use super::{KEPT, PASSED};

/// Tensors by name.
#[derive(Debug, Default)]
pub(super) struct Room {
    most: u64,
    bytes: u64,
    /// Bytes of what the worker owns, which go from the room.
    beside: u64,
    peak: u64,
    kept: HashMap<String, Kept>,
    /// Names, the oldest first.
    order: VecDeque<String>,
}

#[derive(Debug)]
struct Kept {
    parts: Vec<Decoded>,
    bytes: u64,
    /// Rows: the round that they are of.
    round: Option<u32>,
}

impl Room {
    /// An empty room of so many bytes.
    pub(super) fn new(most: u64) -> Self {
        Self { most, ..Self::default() }
    }

    /// The most bytes that were kept and owned at once.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// Has so many bytes less, for what the worker owns.
    pub(super) fn beside(&mut self, bytes: u64) {
        self.beside = bytes;
        self.make(0, |_, kept| kept.round.is_some());
        self.make(0, |_, _| true);
        self.peak = self.peak.max(self.bytes.saturating_add(bytes));
    }

    /// Keeps an object, in the place of rows and, where these do not suffice, of older objects. One that is
    /// larger than the room is missing to its task.
    pub(super) fn put(&mut self, name: String, parts: Vec<Decoded>) {
        let bytes = parts.iter().map(Decoded::bytes).sum();
        self.free(&name);
        self.make(bytes, |_, kept| kept.round.is_some());
        self.make(bytes, |_, _| true);
        if self.fits(bytes) {
            self.insert(name, Kept { parts, bytes, round: None });
        }
    }

    /// Keeps rows of a round, in the place of older rows and, where these do not suffice, of objects; never of
    /// what is the task's `own`.
    ///
    /// # Errors
    /// [`Error::Wire`], which ends the run, where the room does not hold the task's own.
    pub(super) fn keep(
        &mut self,
        name: String,
        (round, rows): (u32, Decoded),
        own: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let bytes = rows.bytes();
        self.free(&name);
        self.make(bytes, |known, kept| kept.round.is_some() && !own.contains(known));
        self.make(bytes, |known, _| !own.contains(known));
        if !self.fits(bytes) {
            let reason = format!(
                "this worker keeps {} bytes, which do not suffice for the weights and the rows of one task; have \
                 more lanes (--lanes), more parts (--micro), or workers that keep more (--keep, workers.keep_bytes)",
                self.most
            );
            return Err(Error::Wire { place: "rows to keep".to_owned(), reason });
        }
        self.insert(name, Kept { parts: vec![rows], bytes, round: Some(round) });
        Ok(())
    }

    /// Lets go of something, if it is there.
    pub(super) fn free(&mut self, name: &str) {
        if let Some(kept) = self.kept.remove(name) {
            self.bytes -= kept.bytes;
            self.order.retain(|known| known != name);
        }
    }

    /// Whether something is there; rows only if they are of the round.
    pub(super) fn has(&self, name: &str, round: u32) -> bool {
        let kept = self.kept.get(name);
        kept.is_some_and(|kept| {
            kept.round.is_none_or(|of| of == round) && kept.round.is_some() == is_rows(name)
        })
    }

    /// One of its parts.
    pub(super) fn part(&self, name: &str, part: u32) -> Option<Decoded> {
        self.kept.get(name)?.parts.get(part as usize).cloned()
    }

    fn fits(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(self.beside).saturating_add(bytes) <= self.most
    }

    fn insert(&mut self, name: String, kept: Kept) {
        self.bytes += kept.bytes;
        self.peak = self.peak.max(self.bytes.saturating_add(self.beside));
        self.order.push_back(name.clone());
        self.kept.insert(name, kept);
    }

    /// Lets go of the oldest that may go, until so many bytes more fit.
    fn make(&mut self, bytes: u64, may_go: impl Fn(&str, &Kept) -> bool) {
        if bytes > self.most {
            return;
        }
        while !self.fits(bytes) {
            let goes = |name: &&String| self.kept.get(*name).is_some_and(|kept| may_go(name, kept));
            let Some(oldest) = self.order.iter().find(goes).cloned() else { return };
            self.free(&oldest);
        }
    }
}

/// Whether a name is one of rows.
pub(super) fn is_rows(name: &str) -> bool {
    name.starts_with(KEPT) || name.starts_with(PASSED)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rows(value: f32) -> Decoded {
        let buffer = eciton_tensor::Buffer::from_rows(16, 16, &[value; 256]).unwrap();
        Decoded::Matrix(buffer.read(0..16).unwrap().into())
    }

    #[test]
    fn what_is_kept_never_exceeds_the_room() {
        let one = rows(1.0).bytes();
        let mut room = Room::new(3 * one);
        let own = BTreeSet::from(["weights/1".to_owned()]);
        room.put("weights/1".to_owned(), vec![rows(0.0)]);
        room.keep("kept/a".to_owned(), (1, rows(1.0)), &own).unwrap();
        room.keep("kept/b".to_owned(), (1, rows(2.0)), &own).unwrap();
        assert!(room.has("kept/a", 1) && !room.has("kept/a", 2), "of another round");
        room.keep("kept/c".to_owned(), (1, rows(3.0)), &own).unwrap();
        assert!(!room.has("kept/a", 1), "the oldest");
        room.keep("kept/b".to_owned(), (2, rows(4.0)), &own).unwrap();
        assert!(room.has("kept/b", 2) && !room.has("kept/b", 1) && room.has("kept/c", 1));
        // Rows go before objects, the oldest object before others.
        room.put("weights/2".to_owned(), vec![rows(0.0)]);
        assert!(room.has("weights/1", 9) && room.has("weights/2", 9) && !room.has("kept/c", 1));
        room.put("weights/3".to_owned(), vec![rows(0.0), rows(0.0)]);
        assert!(!room.has("weights/1", 9) && room.has("weights/2", 9) && room.has("weights/3", 9));
        // Another task's objects go for rows, the task's own do not.
        room.keep("kept/d".to_owned(), (3, rows(1.0)), &BTreeSet::from(["weights/3".to_owned()])).unwrap();
        assert!(!room.has("weights/2", 9) && room.has("kept/d", 3));
        let all = BTreeSet::from(["weights/3", "weights/4"].map(str::to_owned));
        room.put("weights/4".to_owned(), vec![rows(0.0)]);
        let error = room.keep("kept/e".to_owned(), (3, rows(1.0)), &all).unwrap_err();
        assert!(!error.is_retryable() && error.to_string().contains("--keep"), "{error}");
        room.put("weights/5".to_owned(), vec![rows(0.0), rows(0.0), rows(0.0), rows(0.0)]);
        assert!(!room.has("weights/5", 9), "larger than the room");
        assert_eq!((room.peak(), room.bytes, room.order.len()), (3 * one, 3 * one, 2));
        // What the worker owns goes first.
        room.beside(2 * one);
        assert!(!room.has("weights/3", 9) || !room.has("weights/4", 9));
        assert_eq!((room.bytes + room.beside <= 3 * one, room.peak()), (true, 3 * one));
        room.beside(0);
        room.free("weights/3");
        room.free("weights/4");
        assert_eq!((room.bytes, room.kept.len(), room.order.len()), (0, 0, 0));
    }
}
