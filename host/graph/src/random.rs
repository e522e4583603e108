//! Sequential random generators for drawing splits, which are SplitMix64 and NumPy's legacy
//! generator. The latter reproduces splits that other tools have drawn from a seed. Training uses
//! random numbers that are addressed by position instead.

pub use eciton_gather::random::SplitMix64;

const WORDS: usize = 624;
const SHIFT: usize = 397;

/// NumPy's `RandomState`, which is MT19937 (Matsumoto and Nishimura 1998) with NumPy's legacy
/// shuffle.
#[derive(Debug, Clone)]
pub struct NumpyRandomState {
    words: Vec<u32>,
    next: usize,
}

impl NumpyRandomState {
    /// Creates the generator that `numpy.random.RandomState(seed)` creates.
    pub fn new(seed: u32) -> Self {
        let mut words = Vec::with_capacity(WORDS);
        let mut word = seed;
        for position in 1..=WORDS as u32 {
            words.push(word);
            word = 1_812_433_253u32.wrapping_mul(word ^ (word >> 30)).wrapping_add(position);
        }
        Self { words, next: WORDS }
    }

    fn next_u32(&mut self) -> u32 {
        if self.next == WORDS {
            for at in 0..WORDS {
                let y = (self.words[at] & 0x8000_0000) | (self.words[(at + 1) % WORDS] & 0x7fff_ffff);
                let twist = if y & 1 == 0 { 0 } else { 0x9908_b0df };
                self.words[at] = self.words[(at + SHIFT) % WORDS] ^ (y >> 1) ^ twist;
            }
            self.next = 0;
        }
        let mut y = self.words[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// Returns a random number from 0 to `most` (inclusive), by masking and rejection.
    fn up_to(&mut self, most: u32) -> u32 {
        if most == 0 {
            return 0;
        }
        let mask = u32::MAX >> most.leading_zeros();
        loop {
            let drawn = self.next_u32() & mask;
            if drawn <= most {
                return drawn;
            }
        }
    }

    /// Shuffles `values` like `RandomState.shuffle`. `RandomState.permutation` applies the same
    /// shuffle to a copy.
    pub fn shuffle(&mut self, values: &mut [u32]) {
        for last in (1..values.len()).rev() {
            let other = self.up_to(last as u32) as usize;
            values.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numpy_permutation() {
        // numpy.random.RandomState(0).permutation(10), then .permutation(5) of the same generator
        let mut random = NumpyRandomState::new(0);
        let mut ten: Vec<u32> = (0..10).collect();
        random.shuffle(&mut ten);
        assert_eq!(ten, [2, 8, 4, 9, 1, 6, 7, 3, 0, 5]);
    }
}
