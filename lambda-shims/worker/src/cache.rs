//! What stays between invocations: least recently used entries, bounded by a sum of costs.

use std::collections::HashMap;
use std::hash::Hash;

/// A map that forgets what was used longest ago as soon as its entries together cost more than a
/// capacity. Costs are bytes, or 1 each where entries are counted.
#[derive(Debug)]
pub struct Cache<K, V> {
    entries: HashMap<K, Entry<V>>,
    capacity: u64,
    cost: u64,
    /// Counts uses, so that the smallest mark is the oldest use.
    clock: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    cost: u64,
    used: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// An empty cache that keeps entries of `capacity` together.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self { entries: HashMap::new(), capacity, cost: 0, clock: 0 }
    }

    /// What the entries cost together; never more than the capacity.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// An entry, which is now the one used last.
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

    /// Keeps an entry in place of one of the same key; returns what had to go for it. An entry that
    /// costs more than the whole capacity is not kept, and nothing goes for it.
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
            // A scan: there are tens of entries, and one goes only when a large one comes.
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

    /// Forgets everything.
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
        // Exactly full, and one over.
        assert!(cache.insert("d", 4, 3).is_empty());
        assert_eq!((cache.cost(), cache.len()), (10, 3));
        assert_eq!(cache.insert("e", 5, 1), [1]);
        // Too large for the whole: others stay.
        assert!(cache.insert("f", 6, 11).is_empty());
        assert_eq!((cache.get("f"), cache.get("e")), (None, Some(5)));
        // The same key again counts once.
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
