//! How many different pairs a number of independent draws is expected to bring.
//!
//! One draw brings the unordered pair {u, v} with chance r(u, v), so m draws bring it at least once
//! with chance 1 - exp(-m r), very nearly. The expected number of different pairs is the sum of that
//! over all pairs, which is m times the mean of (1 - exp(-m r)) / (m r) over drawn pairs: each of these
//! has r in closed form. So a sample of draws tells it for any m, whatever the size of the graph, with
//! a deviation of at most m / (2 sqrt(sample)), and next to none where few pairs repeat.

/// Blocks of pairs that are looked at: 65,536 pairs.
pub(super) const SAMPLE_BLOCKS: u64 = 16;

/// The chances of a sample of drawn pairs.
#[derive(Debug, Clone)]
pub(super) struct Repeats {
    /// r(u, v) of each; 0 for a vertex with itself, which is no edge.
    chances: Vec<f64>,
    /// All there can be, both directions.
    most: f64,
}

impl Repeats {
    pub(super) fn new(chances: Vec<f64>, vertices: f64) -> Self {
        Self { chances, most: vertices * (vertices - 1.0) }
    }

    /// Expected distinct directed edges after `pairs` draws, and how many one draw more brings.
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
