//! Batch normalisation (Ioffe and Szegedy 2015) without scale and shift, over rows that lie in
//! several pieces.
//!
//! ```text
//! h  = (x - m) / s       by column; m the mean and s^2 the variance of all rows, 1e-5 added
//! dx = (dh - mean(dh) - h mean(dh h)) / s
//! ```
//!
//! m and s are those of the rows of a batch, or running moments of the batches before, which PyTorch
//! takes in evaluations. [`super::statistics`] computes them.

use super::statistics::{ColumnSums, Statistics};
use crate::view::{View, ViewMut};

/// Constant that is added to the variance to avoid a division by zero, as in PyTorch.
const VARIANCE: f64 = 1e-5;

/// Mean and inverse standard deviation of each column. Without rows all means are 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    mean: Vec<f32>,
    /// Inverse standard deviation 1 / s of each column.
    scale: Vec<f32>,
}

impl Moments {
    /// Returns the moments of the rows with the given statistics.
    #[must_use]
    pub fn from_statistics(of: &Statistics) -> Self {
        let scale = of.variances().map(inverse);
        Self { scale: scale.collect(), mean: of.means().iter().map(|&mean| mean as f32).collect() }
    }

    /// Returns the moments with the given means and variances of columns.
    #[must_use]
    pub fn from_running(means: &[f32], variances: &[f32]) -> Self {
        let scale = variances.iter().map(|&variance| inverse(variance.into()));
        Self { scale: scale.collect(), mean: means.to_vec() }
    }

    /// Computes h = (x - m) / s. Both matrices have the shape `[n, k]`.
    pub fn normalise(&self, x: View<'_>, h: &mut ViewMut<'_>) {
        for i in 0..x.rows() {
            let columns = self.mean.iter().zip(&self.scale);
            for ((h, &x), (mean, scale)) in h.row_mut(i).iter_mut().zip(x.row(i)).zip(columns) {
                *h = (x - mean) * scale;
            }
        }
    }
}

/// Returns 1 / s for a variance.
fn inverse(variance: f64) -> f32 {
    (1.0 / (variance + VARIANCE).sqrt()) as f32
}

/// Computes turned = [dh | dh h]. The backward pass needs the means of these rows over all
/// intervals. h and dh have the shape `[n, k]`, and turned has the shape `[n, 2 k]`.
pub fn turn(h: View<'_>, dh: View<'_>, turned: &mut ViewMut<'_>) {
    for i in 0..h.rows() {
        let (gradients, along) = turned.row_mut(i).split_at_mut(h.columns());
        gradients.copy_from_slice(dh.row(i));
        for ((along, &dh), &h) in along.iter_mut().zip(dh.row(i)).zip(h.row(i)) {
            *along = dh * h;
        }
    }
}

/// Column means of dh and of dh h over all rows, which the backward pass needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Means(Vec<f32>);

impl Means {
    /// Returns the means of the rows that [`turn`] has written, given their sums.
    #[must_use]
    pub fn from_sums(of: &ColumnSums) -> Self {
        Self(of.means().map(|mean| mean as f32).collect())
    }

    /// Computes dx, the gradient of the inputs, for the rows in `h`. `turned` has the rows that
    /// [`turn`] wrote for them.
    pub fn backward(&self, moments: &Moments, h: View<'_>, turned: View<'_>, dx: &mut ViewMut<'_>) {
        let (gradients, along) = self.0.split_at(h.columns());
        for i in 0..h.rows() {
            let means = gradients.iter().zip(along).zip(&moments.scale);
            let rows = h.row(i).iter().zip(turned.row(i));
            for ((dx, (&h, &dh)), ((gradient, along), scale)) in dx.row_mut(i).iter_mut().zip(rows).zip(means)
            {
                *dx = (dh - (gradient + h * along)) * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: usize = 7;
    const COLUMNS: usize = 3;

    fn values(seed: u64, count: usize) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32 * 2.0 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn forward(x: &[f32]) -> (Moments, Vec<f32>) {
        let moments = Moments::from_statistics(&Statistics::from_rows(COLUMNS, x.chunks_exact(COLUMNS)));
        let mut h = vec![0.0; x.len()];
        moments.normalise(View::new(x, ROWS, COLUMNS), &mut ViewMut::new(&mut h, ROWS, COLUMNS));
        (moments, h)
    }

    #[test]
    fn columns_have_mean_zero_and_variance_one() {
        let x: Vec<f32> = values(1, ROWS * COLUMNS).iter().map(|x| 1000.0 + 3.0 * x).collect();
        let (_, h) = forward(&x);
        for column in 0..COLUMNS {
            let of = || h.iter().skip(column).step_by(COLUMNS).map(|&h| f64::from(h));
            let (mean, square) =
                (of().sum::<f64>() / ROWS as f64, of().map(|h| h * h).sum::<f64>() / ROWS as f64);
            assert!(mean.abs() < 1e-4 && (square - 1.0).abs() < 1e-3, "column {column}: {mean}, {square}");
        }
    }

    #[test]
    fn a_constant_column_and_no_rows_at_all_are_finite() {
        let (_, h) = forward(&[5.0; ROWS * COLUMNS]);
        assert_eq!(h, [0.0; ROWS * COLUMNS]);
        let none = Moments::from_statistics(&Statistics::empty(2));
        assert!(none.mean == [0.0; 2] && none.scale.iter().all(|scale| scale.is_finite()));
    }

    /// Compares the gradients of a weighted sum of h with finite differences.
    #[test]
    fn gradients_are_those_of_differences() {
        let (x, dh) = (values(2, ROWS * COLUMNS), values(3, ROWS * COLUMNS));
        let (moments, h) = forward(&x);
        let view = |of| View::new(of, ROWS, COLUMNS);
        let mut turned = vec![0.0; 2 * x.len()];
        turn(view(&h), view(&dh), &mut ViewMut::new(&mut turned, ROWS, 2 * COLUMNS));
        let means = Means::from_sums(&ColumnSums::from_rows(2 * COLUMNS, turned.chunks_exact(2 * COLUMNS)));
        let mut dx = vec![0.0; x.len()];
        let of = View::new(&turned, ROWS, 2 * COLUMNS);
        means.backward(&moments, view(&h), of, &mut ViewMut::new(&mut dx, ROWS, COLUMNS));
        let loss = |x: &[f32]| -> f64 {
            let (_, h) = forward(x);
            h.iter().zip(&dh).map(|(&h, &dh)| f64::from(h) * f64::from(dh)).sum()
        };
        for at in 0..x.len() {
            let moved = |by: f32| {
                let mut x = x.clone();
                x[at] += by;
                loss(&x)
            };
            let difference = (moved(1e-3) - moved(-1e-3)) / 2e-3;
            assert!((f64::from(dx[at]) - difference).abs() < 5e-3, "{at}: {} {difference}", dx[at]);
        }
    }
}
