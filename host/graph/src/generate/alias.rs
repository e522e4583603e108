//! Alias tables, which draw from a discrete distribution in constant time (Walker 1977, built as by
//! Vose 1991).
//!
//! A distribution with n outcomes becomes n cells of equal probability, each with at most two
//! outcomes. A draw takes one random word. Its high bits choose the cell, and 32 further bits
//! choose the outcome.

/// Maximum number of bits of an outcome. A table of 2^12 cells takes 32 KiB, which fits into a
/// core's first-level cache.
pub(crate) const MAX_BITS: u32 = 12;

/// Cell of an alias table, with one or two outcomes. A draw gives the cell's own index if the
/// random bits are below the threshold, and the other index otherwise.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// Probability of the cell's own index, times 2^32. A cell with a single outcome has its own
    /// index as the other one.
    threshold: u32,
    other: u32,
}

/// Alias table of a distribution over the outcomes `0..2^bits`.
#[derive(Debug, Clone)]
pub(crate) struct Alias {
    cells: Vec<Cell>,
    bits: u32,
}

impl Alias {
    /// Creates the table for the given weights of the outcomes. They must be finite and not
    /// negative, and at least one must be above 0. They are padded with zeros to a power of two.
    /// Weights beyond 2^[`MAX_BITS`] are never drawn.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let weights = &weights[..weights.len().min(1 << MAX_BITS)];
        let count = weights.len().next_power_of_two();
        let total: f64 = weights.iter().sum();
        // The average mass of a cell is 1.
        let mut mass: Vec<f64> = weights.iter().map(|w| w / total * count as f64).collect();
        mass.resize(count, 0.0);
        let mut cells: Vec<Cell> =
            (0..count as u32).map(|own| Cell { threshold: u32::MAX, other: own }).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..count).partition(|&k| mass[k] < 1.0);
        while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
            let threshold = (mass[poor] * 4_294_967_296.0) as u32;
            cells[poor] = Cell { threshold, other: rich as u32 };
            mass[rich] -= 1.0 - mass[poor];
            if mass[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        // The remaining cells differ from 1 only by rounding. They become cells with one outcome,
        // unless their weight is 0.
        let heaviest = (0..weights.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap_or(0);
        for (cell, own) in cells.iter_mut().zip(0u32..) {
            let nothing = weights.get(own as usize).is_none_or(|&w| w == 0.0);
            if nothing && cell.other == own {
                *cell = Cell { threshold: 0, other: heaviest as u32 };
            }
        }
        Self { cells, bits: count.trailing_zeros() }
    }

    /// Draws an outcome from the high bits of `word`. At least the lowest 20 bits are not used.
    #[inline(always)]
    pub(crate) fn draw(&self, word: u64) -> u32 {
        // With 0 bits, a shift by 64 would overflow. The only cell is cell 0 in that case.
        let cell = (word >> 1 >> (63 - self.bits)) as usize;
        let choice = (word << self.bits >> 32) as u32;
        let Cell { threshold, other } = self.cells[cell];
        if choice < threshold { cell as u32 } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// Returns the chi-square statistic of draws from a distribution.
    fn chi_square(weights: &[f64], draws: usize, seed: u64) -> f64 {
        println!("seed {seed}");
        let alias = Alias::new(weights);
        let mut random = SplitMix64::new(seed);
        let mut found = vec![0u64; weights.len()];
        for _ in 0..draws {
            found[alias.draw(random.next_u64()) as usize] += 1;
        }
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        for (&found, weight) in found.iter().zip(weights) {
            let expected = weight / total * draws as f64;
            if expected == 0.0 {
                assert_eq!(found, 0, "an outcome of weight 0 was drawn");
            } else {
                sum += (found as f64 - expected).powi(2) / expected;
            }
        }
        sum
    }

    #[test]
    fn draws_follow_the_weights() {
        // The 99.9 % quantiles of chi-square with 1, 6 and 99 degrees of freedom are 10.8, 22.5, 149.
        assert!(chi_square(&[0.57, 0.43], 200_000, 1) < 10.8);
        assert!(chi_square(&[5.0, 0.0, 1.0, 1.0, 1.0, 0.5, 90.0, 2.0], 200_000, 2) < 22.5);
        let hundred: Vec<f64> = (1..=100).map(|k| 1.0 / f64::from(k)).collect();
        assert!(chi_square(&hundred, 1_000_000, 3) < 149.0);
        assert_eq!(chi_square(&[3.0], 1000, 4), 0.0);
    }

    #[test]
    fn the_largest_table_is_full() {
        let weights = vec![1.0; (1 << MAX_BITS) + 5];
        let alias = Alias::new(&weights);
        assert_eq!(alias.cells.len(), 1 << MAX_BITS);
        assert_eq!(alias.draw(u64::MAX), (1 << MAX_BITS) - 1);
        assert_eq!(alias.draw(0), 0);
    }
}
