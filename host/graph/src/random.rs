//! Seeded generators for splits: SplitMix64, and NumPy's legacy generator so that the splits that
//! other tools make from a seed can be made here as well. (Training draws its numbers elsewhere, by
//! position; these two are sequential.)

/// SplitMix64 (Steele, Lea and Flood 2014): state += 0x9e3779b97f4a7c15, then a 64-bit mix of it.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The generator that `seed` names.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (0 for a bound of 0): the high half of a 128-bit product, whose bias is
    /// below bound / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Fisher and Yates' shuffle, from the last position down.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            values.swap(last, other);
        }
    }
}

const WORDS: usize = 624;
const SHIFT: usize = 397;

/// NumPy's `RandomState`: MT19937 (Matsumoto and Nishimura 1998) with its legacy way to shuffle.
#[derive(Debug, Clone)]
pub struct NumpyRandomState {
    words: Vec<u32>,
    next: usize,
}

impl NumpyRandomState {
    /// `numpy.random.RandomState(seed)`.
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

    /// A number from 0 to `most`, both included, by masking and rejecting.
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

    /// `RandomState.shuffle`, which `RandomState.permutation` applies to a copy.
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
    fn splitmix_gives_the_published_sequence() {
        // The first values for seed 1234567 of the generator's reference implementation.
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
        assert_eq!(random.below(0), 0);
        assert!((0..1000).all(|_| random.below(7) < 7));
    }

    #[test]
    fn numpy_permutation() {
        // numpy.random.RandomState(0).permutation(10), then .permutation(5) of the same generator
        let mut random = NumpyRandomState::new(0);
        let mut ten: Vec<u32> = (0..10).collect();
        random.shuffle(&mut ten);
        assert_eq!(ten, [2, 8, 4, 9, 1, 6, 7, 3, 0, 5]);
    }
}
