//! Expected number of distinct pairs among independent draws.
//!
//! One draw yields the unordered pair {u, v} with probability r(u, v). Therefore m draws yield it
//! at least once with probability 1 - exp(-m r), very nearly. The expected number of distinct pairs
//! is the sum of that over all pairs. It equals m times the mean of (1 - exp(-m r)) / (m r) over
//! drawn pairs, each of which has r in closed form. A sample of draws thus estimates it for any m
//! and any size of the graph. Its deviation is at most m / (2 sqrt(sample)), and almost zero if few
//! pairs repeat.

/// Number of blocks of pairs in the sample, which has 65,536 pairs.
pub(super) const SAMPLE_BLOCKS: u64 = 16;

/// Probabilities of a sample of drawn pairs, from which the number of repeats is estimated.
#[derive(Debug, Clone)]
pub(super) struct Repeats {
    /// Probability r(u, v) of each sampled pair. It is 0 for a self-loop, which does not become an
    /// edge.
    chances: Vec<f64>,
    /// Maximum number of distinct directed edges between the vertices.
    most: f64,
}

impl Repeats {
    pub(super) fn new(chances: Vec<f64>, vertices: f64) -> Self {
        Self { chances, most: vertices * (vertices - 1.0) }
    }

    /// Returns the expected number of distinct directed edges after `pairs` draws, and the expected
    /// increase of this number by one more draw.
    pub(super) fn distinct(&self, pairs: f64) -> (f64, f64) {
        let (mut distinct, mut slope) = (0.0, 0.0);
        for &chance in self.chances.iter().filter(|&&chance| chance > 0.0) {
            let missed = (-pairs * chance).exp_m1();
            distinct -= missed / chance;
            slope += 1.0 + missed;
        }
        let both = 2.0 / self.chances.len().max(1) as f64;
        ((distinct * both).min(self.most), slope * both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pair_of_vertices_saturates() {
        // Two vertices; half of the draws are of one with itself.
        let repeats = Repeats::new(vec![0.5, 0.0], 2.0);
        let expected = |pairs: f64| 2.0 * (1.0 - (-pairs / 2.0).exp());
        for pairs in [0.0, 1.0, 7.0] {
            assert!((repeats.distinct(pairs).0 - expected(pairs)).abs() < 1e-12);
        }
        assert_eq!(repeats.distinct(0.0).1, 1.0);
        assert!(repeats.distinct(1e9).0 <= 2.0);
        let rare = Repeats::new(vec![1e-20], 1e12);
        assert!((rare.distinct(1e6).0 - 2e6).abs() < 1e-3);
        assert_eq!(Repeats::new(Vec::new(), 1.0).distinct(5.0), (0.0, 0.0));
    }
}
