//! Random streams that are addressed by seed, purpose and position. So any part of a generated data
//! set can be generated separately.

use crate::random::SplitMix64;

/// Purpose for which a random stream is used. Streams of different purposes are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Vertices of the pairs in a block.
    Pairs = 1,
    /// Bijection from ranks to vertex ids.
    Scramble = 2,
    /// Rotation of the classes within a block of ranks.
    Turn = 3,
    /// Mean features of a class.
    Mean = 4,
    /// Noise in the features of a vertex.
    Noise = 5,
    /// Choice of the labels that are drawn again, and their new values.
    Flip = 6,
    /// Split into training, validation and test sets.
    Split = 7,
    /// Sample of vertices or graphs on which the accuracy without the graph is measured.
    Sample = 8,
    /// Sample of pairs from which the number of repeats is estimated.
    Repeats = 9,
    /// Flags or numbers of the classes.
    Target = 10,
    /// Noise in the flags or numbers of a vertex.
    TargetNoise = 11,
    /// Number of vertices of one of many graphs.
    Size = 12,
    /// Links of one of many graphs.
    Links = 13,
    /// Kinds of the vertices of one of many graphs.
    Kinds = 14,
    /// Statements and length of a program.
    Programs = 15,
    /// Outlines, strokes and proposals of an image.
    Lines = 16,
}

/// Returns the random stream for a seed, a purpose and a position. The position is for instance the
/// index of a vertex.
#[inline]
pub(crate) fn stream(seed: u64, purpose: Purpose, position: u64) -> SplitMix64 {
    let own = SplitMix64::new(seed ^ (purpose as u64) << 56).next_u64();
    SplitMix64::new(SplitMix64::new(own ^ position).next_u64())
}

/// Maps 32 random bits to a number below `bound`. The bias is below bound / 2^32.
#[inline(always)]
pub(crate) fn below(bits: u32, bound: u32) -> u32 {
    ((u64::from(bits) * u64::from(bound)) >> 32) as u32
}

/// Maps a random word to a uniformly distributed number in [0, 1). 53 of its bits are used.
#[inline(always)]
pub(crate) fn unit(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// Fills a row with numbers whose distribution is very nearly standard normal. Each is the number
/// of ones among 64 random bits (binomial, variance 16) plus the difference of two uniform numbers
/// in [0, 1) (variance 1/6). The result is scaled to variance 1, and its fourth moment is 2.97
/// instead of 3. No logarithm is used, so that every machine computes the same bits.
pub(crate) fn fill_normal(mut random: SplitMix64, row: &mut [f32]) {
    const SCALE: f64 = 0.248_718_441_5; // 1 / sqrt(16 + 1/6)
    const FINE: f32 = (SCALE / 65_536.0) as f32;
    for pair in row.chunks_mut(2) {
        let fine = random.next_u64();
        for (value, fine) in pair.iter_mut().zip([fine as u32, (fine >> 32) as u32]) {
            let ones = random.next_u64().count_ones() as i32 - 32;
            let between = (fine & 0xffff) as i32 - (fine >> 16) as i32;
            *value = ((ones << 16) + between) as f32 * FINE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_each_part_and_repeat() {
        let first = |seed, purpose, position| stream(seed, purpose, position).next_u64();
        let base = first(1, Purpose::Pairs, 2);
        assert_eq!(base, first(1, Purpose::Pairs, 2));
        assert_ne!(base, first(2, Purpose::Pairs, 2));
        assert_ne!(base, first(1, Purpose::Noise, 2));
        assert_ne!(base, first(1, Purpose::Pairs, 3));
        assert!((0..1000).all(|k| below(stream(3, Purpose::Pairs, k).next_u64() as u32, 7) < 7));
        assert_eq!((below(u32::MAX, 1), below(u32::MAX, 0), unit(u64::MAX) < 1.0), (0, 0, true));
    }

    #[test]
    fn noise_is_normal() {
        let mut values = vec![0.0f32; 400_001];
        fill_normal(stream(11, Purpose::Noise, 5), &mut values);
        let moment =
            |power: i32| values.iter().map(|&v| f64::from(v).powi(power)).sum::<f64>() / values.len() as f64;
        // Six standard deviations of each moment's estimate.
        assert!(moment(1).abs() < 0.01, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.014, "{}", moment(2));
        assert!(moment(3).abs() < 0.037, "{}", moment(3));
        assert!((moment(4) - 2.97).abs() < 0.093, "{}", moment(4));
        // The share beyond 1, 2 and 3 of a normal law, and no step in it at a binomial's cell.
        for (bound, expected) in [(0.1, 0.92034), (1.0, 0.31731), (2.0, 0.04550), (3.0, 0.00270)] {
            let share = values.iter().filter(|v| v.abs() > bound).count() as f64 / values.len() as f64;
            assert!((share - expected).abs() < 0.004, "{bound}: {share} for {expected}");
        }
    }
}
