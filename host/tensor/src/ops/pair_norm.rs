//! PairNorm over rows that lie in several pieces (Zhao and Akoglu, "PairNorm: Tackling
//! Oversmoothing in GNNs", ICLR 2020).
//!
//! ```text
//! y  = (x - m) / r       m the mean of the n rows, by column;
//!                        r^2 = 1/n sum |x - m|^2 + 1e-5, one number
//! dx = (dy - mean(dy) - y mean(dy . y)) / r
//! ```
//!
//! Derivation: `r^2` changes by `2/n (x - m) dx`, since the rows' distances from m add up to 0. So
//! `r` changes by `y dx / n`. Both means divide sums over all rows by n.
//!
//! [`super::statistics`] computes m and r.

use super::statistics::{ColumnSums, Statistics};
use crate::view::{View, ViewMut};

/// Constant under the square root, which keeps r positive. So the results stay finite even if all
/// rows are equal.
const EPSILON: f64 = 1e-5;

/// Mean of each column over all rows, and the common scale of the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    mean: Vec<f32>,
    /// Inverse 1 / r of the root mean square distance of the rows from their mean.
    scale: f32,
}

impl Moments {
    /// Returns the moments of the rows with the given statistics.
    #[must_use]
    pub fn from_statistics(of: &Statistics) -> Self {
        let squares: f64 = of.variances().sum();
        let scale = (1.0 / (squares + EPSILON).sqrt()) as f32;
        Self { mean: of.means().iter().map(|&mean| mean as f32).collect(), scale }
    }

    /// Computes y = (x - m) / r. Both matrices have the shape `[n, k]`.
    pub fn normalise(&self, x: View<'_>, y: &mut ViewMut<'_>) {
        for i in 0..x.rows() {
            for ((y, &x), mean) in y.row_mut(i).iter_mut().zip(x.row(i)).zip(&self.mean) {
                *y = (x - mean) * self.scale;
            }
        }
    }
}

/// Computes turned = [dy | dy . y]. The backward pass needs the means of these rows over all
/// intervals. y and dy have the shape `[n, k]`, and turned has the shape `[n, k + 1]`.
pub fn turn(y: View<'_>, dy: View<'_>, turned: &mut ViewMut<'_>) {
    for i in 0..y.rows() {
        let (gradients, along) = turned.row_mut(i).split_at_mut(y.columns());
        gradients.copy_from_slice(dy.row(i));
        let products = dy.row(i).iter().zip(y.row(i)).map(|(&dy, &y)| f64::from(dy) * f64::from(y));
        along.fill(products.sum::<f64>() as f32);
    }
}

/// Means of dy (by column) and of dy . y over all rows, which the backward pass needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Means(Vec<f32>);

impl Means {
    /// Returns the means of the rows that [`turn`] has written, given their sums.
    #[must_use]
    pub fn from_sums(of: &ColumnSums) -> Self {
        Self(of.means().map(|mean| mean as f32).collect())
    }

    /// Computes dx, the gradient of the inputs, for the rows in `y`. `turned` has the rows that
    /// [`turn`] wrote for them.
    pub fn backward(&self, moments: &Moments, y: View<'_>, turned: View<'_>, dx: &mut ViewMut<'_>) {
        let (gradients, along) = self.0.split_at(y.columns());
        let along = along.first().copied().unwrap_or(0.0);
        for i in 0..y.rows() {
            let rows = y.row(i).iter().zip(turned.row(i)).zip(gradients);
            for (dx, ((&y, &dy), gradient)) in dx.row_mut(i).iter_mut().zip(rows) {
                *dx = (dy - (gradient + y * along)) * moments.scale;
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
        let mut y = vec![0.0; x.len()];
        moments.normalise(View::new(x, ROWS, COLUMNS), &mut ViewMut::new(&mut y, ROWS, COLUMNS));
        (moments, y)
    }

    /// Checks the claim of the paper: the sum of all squared distances between rows is constant.
    #[test]
    fn rows_have_mean_zero_and_a_mean_square_length_of_one() {
        let x: Vec<f32> = values(1, ROWS * COLUMNS).iter().map(|x| 100.0 + 3.0 * x).collect();
        let (_, y) = forward(&x);
        for column in 0..COLUMNS {
            let sum: f64 = y.iter().skip(column).step_by(COLUMNS).map(|&y| f64::from(y)).sum();
            assert!(sum.abs() < 1e-4, "column {column}: {sum}");
        }
        let squares = y.iter().map(|&y| f64::from(y).powi(2)).sum::<f64>() / ROWS as f64;
        assert!((squares - 1.0).abs() < 1e-4, "{squares}");
    }

    #[test]
    fn equal_rows_and_no_rows_at_all_are_finite() {
        let (_, y) = forward(&[5.0; ROWS * COLUMNS]);
        assert_eq!(y, [0.0; ROWS * COLUMNS]);
        let none = Moments::from_statistics(&Statistics::empty(2));
        assert!(none.mean == [0.0; 2] && none.scale.is_finite());
    }

    /// Compares the gradients of a weighted sum of y with finite differences.
    #[test]
    fn gradients_are_those_of_differences() {
        let (x, dy) = (values(2, ROWS * COLUMNS), values(3, ROWS * COLUMNS));
        let (moments, y) = forward(&x);
        let view = |of| View::new(of, ROWS, COLUMNS);
        let mut turned = vec![0.0; ROWS * (COLUMNS + 1)];
        turn(view(&y), view(&dy), &mut ViewMut::new(&mut turned, ROWS, COLUMNS + 1));
        let means = Means::from_sums(&ColumnSums::from_rows(COLUMNS + 1, turned.chunks_exact(COLUMNS + 1)));
        let mut dx = vec![0.0; x.len()];
        let of = View::new(&turned, ROWS, COLUMNS + 1);
        means.backward(&moments, view(&y), of, &mut ViewMut::new(&mut dx, ROWS, COLUMNS));
        let loss = |x: &[f32]| -> f64 {
            let (_, y) = forward(x);
            y.iter().zip(&dy).map(|(&y, &dy)| f64::from(y) * f64::from(dy)).sum()
        };
        for at in 0..x.len() {
            let moved = |by: f32| {
                let mut x = x.clone();
                x[at] += by;
                loss(&x)
            };
            let difference = (moved(1e-3) - moved(-1e-3)) / 2e-3;
            assert!((f64::from(dx[at]) - difference).abs() < 2e-3, "{at}: {} {difference}", dx[at]);
        }
    }
}
