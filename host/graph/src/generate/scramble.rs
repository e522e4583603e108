//! Bijection of `0..n` that scatters adjacent numbers. It maps ranks, which list hubs first, to
//! vertex ids and back.

use super::keyed::{Purpose, stream};

const ROUNDS: usize = 3;

/// Bijection of the numbers `0..n`, which a seed determines.
#[derive(Debug, Clone)]
pub(crate) struct Scramble {
    n: u64,
    mask: u64,
    fold: u32,
    start: u64,
    factors: [u64; ROUNDS],
    inverses: [u64; ROUNDS],
}

impl Scramble {
    /// Creates the bijection of `0..n` that `seed` determines. `n` must be at most 2^32.
    pub(crate) fn new(n: u64, seed: u64) -> Self {
        let bits = n.saturating_sub(1).checked_ilog2().map_or(0, |top| top + 1);
        let mask = (1u64 << bits) - 1;
        let mut random = stream(seed, Purpose::Scramble, 0);
        let factors = std::array::from_fn(|_| random.next_u64() | 1);
        Self {
            n,
            mask,
            fold: bits.div_ceil(2).max(1),
            start: random.next_u64(),
            factors,
            inverses: factors.map(inverse),
        }
    }

    /// Returns the id to which a rank below n is mapped.
    #[inline(always)]
    pub(crate) fn id(&self, rank: u32) -> u32 {
        let mut x = u64::from(rank);
        loop {
            x = x.wrapping_add(self.start) & self.mask;
            for factor in self.factors {
                x ^= x >> self.fold;
                x = x.wrapping_mul(factor) & self.mask;
            }
            x ^= x >> self.fold;
            // The loop ends, because it follows a cycle that started inside `0..n`.
            if x < self.n {
                return x as u32;
            }
        }
    }

    /// Returns the rank that is mapped to an id below n.
    #[inline]
    pub(crate) fn rank(&self, id: u32) -> u32 {
        let mut x = u64::from(id);
        loop {
            x ^= x >> self.fold;
            for inverse in self.inverses.iter().rev() {
                x = x.wrapping_mul(*inverse) & self.mask;
                x ^= x >> self.fold;
            }
            x = x.wrapping_sub(self.start) & self.mask;
            if x < self.n {
                return x as u32;
            }
        }
    }
}

/// Returns the inverse of an odd number modulo 2^64. Newton's iteration starts with 5 correct bits,
/// and each step doubles their number.
fn inverse(odd: u64) -> u64 {
    let mut guess = odd.wrapping_mul(3) ^ 2;
    for _ in 0..4 {
        guess = guess.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(guess)));
    }
    guess
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_one_rank() {
        for n in [1u32, 2, 3, 5, 64, 65, 1000, 4096, 100_003] {
            let scramble = Scramble::new(u64::from(n), 9);
            let mut seen = vec![false; n as usize];
            for rank in 0..n {
                let id = scramble.id(rank);
                assert!(!std::mem::replace(&mut seen[id as usize], true), "{n}: {id} twice");
                assert_eq!(scramble.rank(id), rank, "{n}");
            }
        }
        let large = Scramble::new(u64::from(u32::MAX - 1), 1);
        for rank in [0, 1, 77, u32::MAX - 2] {
            assert_eq!(large.rank(large.id(rank)), rank);
        }
    }

    #[test]
    fn low_ranks_are_scattered() {
        // Of the first 4,096 ranks of 2^20, each sixteenth of the ids gets 256, within six deviations.
        for seed in 0..20 {
            println!("seed {seed}");
            let scramble = Scramble::new(1 << 20, seed);
            let mut parts = [0i32; 16];
            let mut ends = [0i32; 16];
            for rank in 0..4096 {
                parts[(scramble.id(rank) >> 16) as usize] += 1;
                ends[(scramble.id(rank) & 15) as usize] += 1;
            }
            assert!(parts.iter().all(|&count| (count - 256).abs() < 96), "{parts:?}");
            assert!(ends.iter().all(|&count| (count - 256).abs() < 96), "{ends:?}");
        }
        assert_ne!(Scramble::new(1 << 20, 0).id(0), Scramble::new(1 << 20, 1).id(0));
    }
}
