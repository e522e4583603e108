//! Dictionary of the 64-bit ids in a file. It maps each id to its dense id, which is its rank among
//! all ids.
//!
//! Low ids are stored in a bitmap with a running count every 512 bits (1.06 bits per possible id).
//! All other ids are stored in a sorted list with 8 bytes each. The bitmap has at most 2 bytes per
//! byte of the file, and at most 512 MiB (ids below 2^32).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

/// Hash map from words to integer codes.
pub(crate) type Codes<W> = HashMap<W, u32, foldhash::fast::RandomState>;

/// Upper bound of the ids that are stored in the bitmap.
const MAX_BITS: u64 = 1 << 32;
const BLOCK_WORDS: usize = 8;

/// Builder of a [`Dictionary`], which several threads may share.
#[derive(Debug)]
pub(crate) struct Collector {
    /// Bound below which ids are stored in the bitmap.
    bits: u64,
    words: RwLock<Vec<AtomicU64>>,
    others: Mutex<Others>,
}

/// Ids that are too high for the bitmap.
#[derive(Debug)]
struct Others {
    ids: Vec<u64>,
    /// Length of `ids` at which duplicates are removed.
    room: usize,
}

impl Collector {
    /// Creates a collector for the ids of a text with `text_bytes` bytes.
    pub(crate) fn new(text_bytes: u64) -> Self {
        let bits = text_bytes.saturating_mul(16).clamp(64, MAX_BITS).next_multiple_of(64);
        let others = Others { ids: Vec::new(), room: 1 << 16 };
        Self { bits, words: RwLock::default(), others: Mutex::new(others) }
    }

    /// Adds ids, which may be in any order and may repeat.
    pub(crate) fn add(&mut self, ids: impl Iterator<Item = u64>) {
        let words = self.words.get_mut().unwrap_or_else(PoisonError::into_inner);
        let others = self.others.get_mut().unwrap_or_else(PoisonError::into_inner);
        others.add(words, self.bits, ids);
    }

    /// Adds ids like [`Collector::add`], but from any thread. Threads only wait for each other if
    /// an id is higher than all ids before.
    pub(crate) fn share(&self, ids: impl Iterator<Item = u64>) {
        let mut higher = Vec::new();
        {
            let words = self.words.read().unwrap_or_else(PoisonError::into_inner);
            for id in ids {
                match words.get((id / 64) as usize) {
                    // Most ids occur often. Reading first leaves the cache line shared between
                    // threads.
                    Some(word) if word.load(Relaxed) >> (id % 64) & 1 == 0 => {
                        word.fetch_or(1 << (id % 64), Relaxed);
                    }
                    Some(_) => {}
                    None => higher.push(id),
                }
            }
        }
        if !higher.is_empty() {
            let mut words = self.words.write().unwrap_or_else(PoisonError::into_inner);
            let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            others.add(&mut words, self.bits, higher.into_iter());
        }
    }

    /// Converts the collected ids to a dictionary.
    pub(crate) fn finish(self) -> Dictionary {
        let mut others = self.others.into_inner().unwrap_or_else(PoisonError::into_inner);
        others.compact();
        let words = self.words.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut words: Vec<u64> = words.into_iter().map(AtomicU64::into_inner).collect();
        while words.last() == Some(&0) {
            words.pop();
        }
        words.shrink_to_fit();
        others.ids.shrink_to_fit();
        let mut ranks = Vec::with_capacity(words.len() / BLOCK_WORDS + 1);
        let mut rank = 0;
        for block in words.chunks(BLOCK_WORDS) {
            ranks.push(rank);
            rank += block.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
        Dictionary { words, ranks, low: rank, others: others.ids }
    }
}

impl Others {
    /// Adds each id to the bitmap `words` if it is below `bits`, and to this list otherwise.
    fn add(&mut self, words: &mut Vec<AtomicU64>, bits: u64, ids: impl Iterator<Item = u64>) {
        for id in ids {
            if id < bits {
                let word = (id / 64) as usize;
                if word >= words.len() {
                    // Growth by half limits the memory beyond what is needed.
                    let most = (bits / 64) as usize;
                    words.resize_with((word + 1 + word / 2).min(most.max(word + 1)), AtomicU64::default);
                }
                if let Some(word) = words.get_mut(word) {
                    *word.get_mut() |= 1 << (id % 64);
                }
            } else {
                self.ids.push(id);
            }
        }
        if self.ids.len() > self.room {
            self.compact();
        }
    }

    fn compact(&mut self) {
        self.ids.sort_unstable();
        self.ids.dedup();
        self.room = (2 * self.ids.len()).max(1 << 16);
    }
}

/// Distinct ids of a file in ascending order. The dense id of an id is the number of smaller ids.
#[derive(Debug)]
pub(crate) struct Dictionary {
    words: Vec<u64>,
    ranks: Vec<u64>,
    /// Number of ids in the bitmap.
    low: u64,
    others: Vec<u64>,
}

impl Dictionary {
    /// Returns the number of distinct ids.
    pub(crate) fn len(&self) -> u64 {
        self.low + self.others.len() as u64
    }

    /// Returns whether the ids are exactly 0 to V - 1, where V is their number.
    pub(crate) fn dense(&self) -> bool {
        let last = self.words.last().map_or(0, |word| 64 - u64::from(word.leading_zeros()));
        self.others.is_empty() && (self.words.len() as u64 * 64 + last).saturating_sub(64) == self.low
    }

    /// Returns the dense id of `id`. Returns `None` if `id` is unknown, or if its dense id exceeds
    /// 32 bits.
    pub(crate) fn find(&self, id: u64) -> Option<u32> {
        let at = (id / 64) as usize;
        let rank = match self.words.get(at) {
            Some(word) => {
                let bit = 1u64 << (id % 64);
                if word & bit == 0 {
                    return None;
                }
                let block = at / BLOCK_WORDS;
                let before = self.words.get(block * BLOCK_WORDS..at).unwrap_or_default();
                let within = before.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
                self.ranks.get(block)? + within + u64::from((word & (bit - 1)).count_ones())
            }
            None => self.low + self.others.binary_search(&id).ok()? as u64,
        };
        u32::try_from(rank).ok()
    }

    /// Returns all ids in ascending order.
    pub(crate) fn ids(&self) -> Vec<u64> {
        let mut ids = Vec::with_capacity(self.len() as usize);
        for (at, &word) in (0u64..).zip(&self.words) {
            let mut rest = word;
            while rest != 0 {
                ids.push(at * 64 + u64::from(rest.trailing_zeros()));
                rest &= rest - 1;
            }
        }
        ids.extend(&self.others);
        ids
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use eciton_graph::random::SplitMix64;

    use super::*;

    #[test]
    fn equals_a_sorted_set() {
        let seed = 5;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for round in 0..60 {
            // From few bits to the whole range, some runs without gaps.
            let most = [3, 64, 65, 700, 5000, 1 << 33, u64::MAX][round % 7];
            let ids: Vec<u64> = (0..random.below(3000)).map(|_| random.below(most)).collect();
            let mut collector = Collector::new(random.below(100));
            for (at, part) in ids.chunks(97).enumerate() {
                match at % 2 {
                    0 => collector.add(part.iter().copied()),
                    _ => collector.share(part.iter().copied()),
                }
            }
            let (found, set) = (collector.finish(), ids.iter().copied().collect::<BTreeSet<u64>>());
            let expected: Vec<u64> = set.iter().copied().collect();
            assert_eq!(found.ids(), expected);
            assert_eq!(found.len(), expected.len() as u64);
            assert_eq!(found.dense(), expected.iter().copied().eq(0..expected.len() as u64), "{expected:?}");
            for (rank, &id) in (0..).zip(&expected) {
                assert_eq!(found.find(id), Some(rank));
            }
            for _ in 0..100 {
                let id = random.below(most);
                assert_eq!(found.find(id).is_some(), set.contains(&id));
            }
        }
    }
}
