//! Means and variances of columns over many rows, from blocks of rows (Chan, Golub and LeVeque 1979).
//!
//! If the blocks are fixed and are merged in their order, the results do not depend on the threads that
//! compute the blocks, or on how rows are cut into pieces. The statistics of a block may be stored in a
//! row of f32 values, where each f64 is the sum of two f32 with 48 significant bits.

/// Stores f64 values in `row`, each as two f32 of which the second is the rest of the first. Values that
/// do not fit into the row are left out.
fn store(values: impl Iterator<Item = f64>, row: &mut [f32]) {
    for (value, pair) in values.zip(row.chunks_exact_mut(2)) {
        pair[0] = value as f32;
        pair[1] = (value - f64::from(pair[0])) as f32;
    }
}

/// Returns the values that [`store`] has stored.
fn load(row: &[f32]) -> impl Iterator<Item = f64> + '_ {
    row.chunks_exact(2).map(|pair| f64::from(pair[0]) + f64::from(pair[1]))
}

/// Mean of each column over some rows, and the sum of squared distances from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    rows: u64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Statistics {
    /// Returns the statistics of no rows.
    #[must_use]
    pub fn empty(columns: usize) -> Self {
        Self { rows: 0, mean: vec![0.0; columns], squares: vec![0.0; columns] }
    }

    /// Computes the statistics of a block in two passes.
    pub fn from_rows<'a>(columns: usize, rows: impl Iterator<Item = &'a [f32]> + Clone) -> Self {
        let ColumnSums { rows: count, sums } = ColumnSums::from_rows(columns, rows.clone());
        let mean: Vec<f64> = sums.iter().map(|sum| sum / count.max(1) as f64).collect();
        let mut squares = vec![0.0; columns];
        for row in rows {
            for ((square, &x), mean) in squares.iter_mut().zip(row).zip(&mean) {
                let left = f64::from(x) - mean;
                *square += left * left;
            }
        }
        Self { rows: count, mean, squares }
    }

    /// Stores the statistics in a row of 4 * columns + 2 values.
    pub fn store(&self, row: &mut [f32]) {
        let values = self.mean.iter().chain(&self.squares);
        store(std::iter::once(self.rows as f64).chain(values.copied()), row);
    }

    /// Loads statistics of `columns` columns that [`Statistics::store`] has stored. If the row has fewer
    /// values, the missing ones are left out.
    #[must_use]
    pub fn load(columns: usize, row: &[f32]) -> Self {
        let mut values = load(row);
        let rows = values.next().unwrap_or(0.0) as u64;
        let mean = values.by_ref().take(columns).collect();
        Self { rows, mean, squares: values.take(columns).collect() }
    }

    /// Adds the rows of `more`.
    pub fn merge(&mut self, more: &Self) {
        let (before, added) = (self.rows as f64, more.rows as f64);
        self.rows += more.rows;
        if more.rows == 0 {
            return;
        }
        let share = added / (before + added);
        let own = self.mean.iter_mut().zip(&mut self.squares);
        for ((mean, square), (&other, &of_other)) in own.zip(more.mean.iter().zip(&more.squares)) {
            let distance = other - *mean;
            *mean += distance * share;
            *square += of_other + distance * distance * before * share;
        }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the mean of each column. Without rows it is 0.
    #[must_use]
    pub fn means(&self) -> &[f64] {
        &self.mean
    }

    /// Returns the biased variance of each column, which is the mean squared distance from the mean.
    /// Without rows it is 0.
    pub fn variances(&self) -> impl Iterator<Item = f64> + '_ {
        self.squares.iter().map(|square| square / self.rows.max(1) as f64)
    }

    /// Moves running means and variances towards these statistics, as PyTorch does: `running = (1 -
    /// momentum) running + momentum new`. The new variance is unbiased, with the divisor rows - 1.
    /// Statistics of one row have no unbiased variance, and leave the running one unchanged.
    pub fn advance(&self, momentum: f64, means: &mut [f32], variances: &mut [f32]) {
        let blend = |running: &mut f32, new: f64| {
            *running = ((1.0 - momentum) * f64::from(*running) + momentum * new) as f32;
        };
        if self.rows > 0 {
            means.iter_mut().zip(&self.mean).for_each(|(running, &new)| blend(running, new));
        }
        if self.rows > 1 {
            let unbiased = self.squares.iter().map(|square| square / (self.rows - 1) as f64);
            variances.iter_mut().zip(unbiased).for_each(|(running, new)| blend(running, new));
        }
    }
}

/// Sum of each column over some rows.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSums {
    rows: u64,
    sums: Vec<f64>,
}

impl ColumnSums {
    /// Returns the sums of no rows.
    #[must_use]
    pub fn empty(columns: usize) -> Self {
        Self { rows: 0, sums: vec![0.0; columns] }
    }

    /// Computes the sums of a block.
    pub fn from_rows<'a>(columns: usize, rows: impl Iterator<Item = &'a [f32]>) -> Self {
        let mut sums = Self::empty(columns);
        for row in rows {
            sums.sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
            sums.rows += 1;
        }
        sums
    }

    /// Stores the sums in a row of 2 * columns + 2 values.
    pub fn store(&self, row: &mut [f32]) {
        store(std::iter::once(self.rows as f64).chain(self.sums.iter().copied()), row);
    }

    /// Loads sums of `columns` columns that [`ColumnSums::store`] has stored.
    #[must_use]
    pub fn load(columns: usize, row: &[f32]) -> Self {
        let mut values = load(row);
        let rows = values.next().unwrap_or(0.0) as u64;
        Self { rows, sums: values.take(columns).collect() }
    }

    /// Adds the rows of `more`.
    pub fn merge(&mut self, more: &Self) {
        self.rows += more.rows;
        self.sums.iter_mut().zip(&more.sums).for_each(|(sum, more)| *sum += more);
    }

    /// Returns the mean of each column. Without rows it is 0.
    pub fn means(&self) -> impl Iterator<Item = f64> + '_ {
        self.sums.iter().map(|sum| sum / self.rows.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_blocks_have_the_statistics_of_all_rows() {
        let values: Vec<f32> = (0..60).map(|at| 1000.0 + ((at * 37) % 23) as f32 * 0.5).collect();
        let all = Statistics::from_rows(3, values.chunks_exact(3));
        for cut in [1, 2, 7, 19] {
            let mut merged = Statistics::empty(3);
            for block in values.chunks(3 * cut) {
                merged.merge(&Statistics::from_rows(3, block.chunks_exact(3)));
            }
            assert_eq!(merged.rows(), all.rows());
            for (a, b) in merged.means().iter().zip(all.means()) {
                assert!((a - b).abs() < 1e-9, "{cut}: {a} {b}");
            }
            for (a, b) in merged.variances().zip(all.variances()) {
                assert!((a - b).abs() < 1e-9, "{cut}: {a} {b}");
            }
        }
        assert_eq!(Statistics::empty(2).variances().collect::<Vec<_>>(), [0.0; 2]);
    }

    #[test]
    fn stored_statistics_have_48_bits() {
        let values: Vec<f32> = (0..60).map(|at| 1000.0 + ((at * 37) % 23) as f32 * 0.7).collect();
        let all = Statistics::from_rows(3, values.chunks_exact(3));
        let mut row = [0.0; 14];
        all.store(&mut row);
        let loaded = Statistics::load(3, &row);
        assert_eq!(loaded.rows(), 20);
        let near = |a: f64, b: f64| (a - b).abs() <= a.abs() / (1u64 << 47) as f64;
        assert!(loaded.means().iter().zip(all.means()).all(|(a, b)| near(*a, *b)));
        assert!(loaded.variances().zip(all.variances()).all(|(a, b)| near(a, b)));
        let sums = ColumnSums::from_rows(3, values.chunks_exact(3));
        let mut row = [0.0; 8];
        sums.store(&mut row);
        assert!(ColumnSums::load(3, &row).means().zip(sums.means()).all(|(a, b)| near(a, b)));
    }

    /// The wanted values are those of PyTorch 2.15, `BatchNorm1d(2)` after two forward passes.
    #[test]
    fn running_moments_are_those_of_pytorch() {
        let (mut means, mut variances) = ([0.0; 2], [1.0; 2]);
        let batches: [&[f32]; 2] = [&[1.0, 10.0, 2.0, -4.0, 6.0, 3.0], &[0.5, 1.0, 1.5, 7.0]];
        for batch in batches {
            Statistics::from_rows(2, batch.chunks_exact(2)).advance(0.1, &mut means, &mut variances);
        }
        for (found, wanted) in means.iter().chain(&variances).zip([0.37f32, 0.67, 1.489_999_9, 7.020_000_5]) {
            assert!((found - wanted).abs() <= 1e-6 * wanted.abs(), "{found} {wanted}");
        }
        // One row has no unbiased variance.
        let before = variances;
        Statistics::from_rows(2, [&[5.0f32, 5.0][..]].into_iter()).advance(0.1, &mut means, &mut variances);
        assert_eq!(variances, before);
    }
}
