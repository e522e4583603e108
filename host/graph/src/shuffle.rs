//! Keyed permutation of the numbers below a count, which is computed from a key without a stored
//! list.

use eciton_tensor::random::{Key, bits32};

const ROUNDS: u64 = 10;

/// Pseudorandom order of the numbers below a count, which a key determines.
///
/// ```
/// use eciton_graph::shuffle::Shuffle;
/// use eciton_tensor::random::{Key, Purpose};
/// let shuffle = Shuffle::new(10, Key::new(7, Purpose::Sampling, 0, 0, 0));
/// let mut all: Vec<u32> = (0..10).map(|place| shuffle.at(place)).collect();
/// all.sort_unstable();
/// assert_eq!(all, (0..10).collect::<Vec<u32>>());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Shuffle {
    count: u32,
    /// Number of bits in each half of the Feistel network.
    half: u32,
    key: Key,
}

impl Shuffle {
    /// Creates the order of the numbers below `count` that `key` determines.
    #[must_use]
    pub fn new(count: u32, key: Key) -> Self {
        let bits = u64::BITS - u64::from(count.saturating_sub(1)).leading_zeros();
        Self { count, half: bits.div_ceil(2).max(4), key }
    }

    /// Returns the number at the position `place` of the order. A position that is not below the
    /// count is returned unchanged.
    #[must_use]
    pub fn at(&self, place: u32) -> u32 {
        if place >= self.count {
            return place;
        }
        let mut at = u64::from(place);
        loop {
            at = self.pass(at);
            // The value is at most 2^32 - 1.
            if at < u64::from(self.count) {
                return at as u32;
            }
        }
    }

    fn pass(&self, at: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (at >> self.half, at & mask);
        for round in 0..ROUNDS {
            // Halves have at most 16 bits.
            let mixed = u64::from(bits32(self.key.row(round), right as u32));
            (left, right) = (right, left ^ (mixed & mask));
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eciton_tensor::random::Purpose;

    fn key(seed: u64) -> Key {
        Key::new(seed, Purpose::Sampling, 3, 0, 0)
    }

    #[test]
    fn every_number_comes_once() {
        for count in [0, 1, 2, 3, 5, 16, 17, 255, 256, 257, 1000, 65_537] {
            let shuffle = Shuffle::new(count, key(u64::from(count)));
            let mut seen = vec![false; count as usize];
            for place in 0..count {
                let at = shuffle.at(place) as usize;
                assert!(!std::mem::replace(&mut seen[at], true), "{at} comes twice of {count}");
            }
        }
        assert!(Shuffle::new(u32::MAX, key(1)).at(u32::MAX - 1) < u32::MAX);
        assert_eq!(Shuffle::new(4, key(1)).at(9), 9);
    }

    #[test]
    fn every_number_is_as_likely_at_every_place() {
        let (count, keys) = (11u32, 22_000u64);
        println!("keys 0..{keys}");
        let mut found = vec![0f64; (count * count) as usize];
        for seed in 0..keys {
            let shuffle = Shuffle::new(count, key(seed));
            (0..count).for_each(|place| found[(place * count + shuffle.at(place)) as usize] += 1.0);
        }
        let expected = keys as f64 / f64::from(count);
        let chi: f64 = found.iter().map(|n| (n - expected).powi(2) / expected).sum();
        // 100 degrees of freedom: above 161 once in ten thousand.
        assert!(chi < 161.0, "chi-square {chi}");
    }
}
