//! Least-recently-used cache between invocations, with a limit on the total cost of its entries.

use std::collections::HashMap;
use std::hash::Hash;

/// Map that removes the least recently used entries when the total cost would exceed its capacity.
/// The cost of an entry is its size in bytes, or 1 if entries are counted.
#[derive(Debug)]
pub struct Cache<K, V> {
    entries: HashMap<K, Entry<V>>,
    capacity: u64,
    cost: u64,
    /// Number of uses so far. Each use stores this number in its entry, so the smallest one marks
    /// the least recently used entry.
    clock: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    cost: u64,
    used: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// Creates an empty cache whose entries may have a total cost of `capacity`.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self { entries: HashMap::new(), capacity, cost: 0, clock: 0 }
    }

    /// Returns the total cost of all entries, which never exceeds the capacity.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if the cache has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the value for `key`, and marks its entry as most recently used.
    pub fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.clock += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.clock;
        Some(entry.value.clone())
    }

    /// Inserts an entry, and replaces the entry with the same key. Returns the values of all
    /// removed entries. An entry whose cost exceeds the capacity is not inserted, but an entry with
    /// the same key is still removed.
    pub fn insert(&mut self, key: K, value: V, cost: u64) -> Vec<V> {
        let mut gone = Vec::new();
        if let Some(old) = self.entries.remove(&key) {
            self.cost -= old.cost;
            gone.push(old.value);
        }
        if cost > self.capacity {
            return gone;
        }
        while self.cost > self.capacity - cost {
            // A linear search is fast enough. There are a few dozen entries, and one is removed
            // only when a large one is inserted.
            let oldest = self.entries.iter().min_by_key(|(_, e)| e.used).map(|(k, _)| k.clone());
            let Some(entry) = oldest.and_then(|k| self.entries.remove(&k)) else { break };
            self.cost -= entry.cost;
            gone.push(entry.value);
        }
        self.clock += 1;
        self.cost += cost;
        self.entries.insert(key, Entry { value, cost, used: self.clock });
        gone
    }

    /// Removes all entries from the cache.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.cost = 0;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_oldest_go_first_and_the_capacity_is_never_passed() {
        let mut cache = Cache::new(10);
        assert!(cache.is_empty() && cache.insert("a", 1, 4).is_empty());
        cache.insert("b", 2, 4);
        assert_eq!(cache.get("a"), Some(1), "now the newer of the two");
        assert_eq!(cache.insert("c", 3, 3), [2]);
        assert_eq!((cache.get("a"), cache.get("b"), cache.get("c")), (Some(1), None, Some(3)));
        assert_eq!(cache.cost(), 7);
        // Exactly full, then one too many.
        assert!(cache.insert("d", 4, 3).is_empty());
        assert_eq!((cache.cost(), cache.len()), (10, 3));
        assert_eq!(cache.insert("e", 5, 1), [1]);
        // An entry larger than the capacity: the others stay.
        assert!(cache.insert("f", 6, 11).is_empty());
        assert_eq!((cache.get("f"), cache.get("e")), (None, Some(5)));
        // An entry with the same key is counted once.
        assert_eq!(cache.insert("e", 7, 2), [5]);
        assert_eq!((cache.cost(), cache.get("e")), (8, Some(7)));
        assert_eq!(cache.insert("all", 8, 10).len(), 3);
        cache.clear();
        assert_eq!((cache.cost(), cache.len()), (0, 0));
    }

    #[test]
    fn random_use_keeps_the_sum_right() {
        let seed = 0x5eed_cac4e;
        eprintln!("seed {seed}");
        let mut state: u64 = seed;
        let mut random = |n: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % n
        };
        let mut cache = Cache::new(100);
        for _ in 0..20_000 {
            let key = random(40);
            if random(3) == 0 {
                let cost = random(120);
                cache.insert(key, cost, cost);
            } else if let Some(cost) = cache.get(&key) {
                assert!(cost <= 100);
            }
            let sum: u64 = cache.entries.values().map(|e| e.cost).sum();
            assert_eq!(sum, cache.cost());
            assert!(sum <= 100);
        }
    }
}
