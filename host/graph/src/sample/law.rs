//! Discrete distribution over many rows, from which an alias table draws in constant time (Walker
//! 1977, built as by Vose 1991).

/// One of n cells of equal probability. The outcome is the cell's own row if the random bits are
/// below the threshold, and the other row otherwise.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// Probability of the cell's own row, times 2^32. A cell with a single outcome has its own row
    /// as the other row.
    threshold: u32,
    other: u32,
}

/// Distribution over the rows `0..n`, which takes 8 bytes per row.
#[derive(Debug)]
pub(super) struct Law {
    cells: Vec<Cell>,
}

impl Law {
    /// Creates the distribution for the given weights of the rows, which must be finite and above
    /// 0.
    pub(super) fn new(mut weights: Vec<f64>) -> Self {
        let total: f64 = weights.iter().sum();
        let scale = weights.len() as f64 / total;
        // The average mass of a cell is 1.
        weights.iter_mut().for_each(|weight| *weight *= scale);
        let whole = |own| Cell { threshold: u32::MAX, other: own };
        let mut cells: Vec<Cell> = (0..weights.len() as u32).map(whole).collect();
        let (mut poor, mut rich): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|&row| weights[row as usize] < 1.0);
        while let (Some(low), Some(&high)) = (poor.pop(), rich.last()) {
            let mass = weights[low as usize];
            cells[low as usize] = Cell { threshold: (mass * 4_294_967_296.0) as u32, other: high };
            weights[high as usize] -= 1.0 - mass;
            if weights[high as usize] < 1.0 {
                rich.pop();
                poor.push(high);
            }
        }
        // The remaining cells differ from 1 only by rounding, and have only one outcome.
        Self { cells }
    }

    /// Draws a row from a random word. The high half of a product chooses the cell, and the low
    /// half chooses between the cell's two outcomes.
    #[inline(always)]
    pub(super) fn draw(&self, word: u64) -> u32 {
        let product = u128::from(word) * self.cells.len() as u128;
        let (cell, choice) = ((product >> 64) as u32, (product >> 32) as u32);
        let Cell { threshold, other } = self.cells[cell as usize];
        if choice < threshold { cell } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn draws_follow_the_weights() {
        // The 99.9 % quantiles of chi-square with 1, 6 and 99 degrees of freedom.
        let hundred: Vec<f64> = (1..=100).map(|k| 1.0 / f64::from(k)).collect();
        let laws =
            [(vec![0.57, 0.43], 10.8), (vec![5.0, 1e-9, 1.0, 1.0, 0.5, 90.0, 2.0], 22.5), (hundred, 149.0)];
        for (seed, (weights, limit)) in (1..).zip(laws) {
            println!("seed {seed}");
            let (law, mut random) = (Law::new(weights.clone()), SplitMix64::new(seed));
            let draws = 400_000;
            let mut found = vec![0u32; weights.len()];
            (0..draws).for_each(|_| found[law.draw(random.next_u64()) as usize] += 1);
            let total: f64 = weights.iter().sum();
            let expected = |weight: f64| weight / total * f64::from(draws);
            // A row that is expected once in many tests is not drawn at all.
            assert!(found.iter().zip(&weights).all(|(&n, &w)| expected(w) > 1.0 || n == 0));
            let square = |(&n, &w): (&u32, &f64)| (f64::from(n) - expected(w)).powi(2) / expected(w);
            let chi: f64 = found.iter().zip(&weights).map(square).sum();
            assert!(chi < limit, "chi-square {chi}");
        }
        assert_eq!(Law::new(vec![3.0]).draw(u64::MAX), 0);
    }
}
