//! Scaling of features before a training run, and the mean and standard deviation of their columns.
//! All computations are in f64.

use std::sync::Arc;

use eciton_tensor::Buffer;

use crate::corrections::{Correction, Corrections, Number};
use crate::error::{Error, Result};
use crate::features::{DenseRows, Features};

/// Scaling that has been applied to the features of a data set.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Scaling {
    /// No scaling. The features have the values of the input.
    #[default]
    None,
    /// Each row was divided by the sum of its values.
    Rows,
    /// The mean of each column was subtracted, and the result was divided by the column's standard
    /// deviation.
    Columns(Arc<Moments>),
}

/// Whole number in the features that f32 cannot represent exactly, for messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rounded {
    /// Row of the number.
    pub row: u32,
    /// Column of the number.
    pub column: u32,
    /// The exact number, as it was read.
    pub exact: i128,
    /// The nearest f32, which is stored.
    pub stored: f32,
}

/// Mean and standard deviation of each feature column, by which columns are scaled.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// Mean of each column.
    pub mean: Vec<f64>,
    /// Standard deviation of each column, as a population (divided by n). It is 1 for a constant
    /// column.
    pub deviation: Vec<f64>,
}

/// Reader of feature rows as exact values in f64, which include their corrections.
struct Exact<'a> {
    features: &'a Features,
    corrections: &'a Corrections,
    rounded: Vec<f32>,
    values: Vec<f64>,
}

impl<'a> Exact<'a> {
    fn new(features: &'a Features) -> Self {
        let columns = features.columns() as usize;
        let corrections = features.corrections();
        Self { features, corrections, rounded: vec![0.0; columns], values: vec![0.0; columns] }
    }

    /// Returns the values of a row minus `origin`. `origin` is subtracted before corrections are
    /// added, so that whole 64-bit numbers lose no precision.
    fn row(&mut self, row: u32, origin: &[f64]) -> &[f64] {
        self.features.copy_row(row as usize, &mut self.rounded);
        less(&self.rounded, origin, self.corrections.of_row(row), &mut self.values);
        &self.values
    }
}

fn less(rounded: &[f32], origin: &[f64], corrections: &[Correction], into: &mut [f64]) {
    for ((to, &value), origin) in into.iter_mut().zip(rounded).zip(origin) {
        *to = f64::from(value) - origin;
    }
    for correction in corrections {
        if let Some(to) = into.get_mut(correction.column as usize) {
            *to += correction.residual;
        }
    }
}

impl Moments {
    /// Computes the mean and the standard deviation of each column over the rows `rows`, in f64.
    /// The means are computed first, then the squared differences. Sums are in the order of `rows`,
    /// relative to the first row's values.
    #[must_use]
    pub fn from_rows(features: &Features, rows: &[u32]) -> Self {
        let columns = features.columns() as usize;
        let mut exact = Exact::new(features);
        let count = rows.len().max(1) as f64;
        let mut origin = vec![0.0f64; columns];
        if let Some(&first) = rows.first() {
            features.copy_row(first as usize, &mut exact.rounded);
            origin.iter_mut().zip(&exact.rounded).for_each(|(to, &value)| *to = f64::from(value));
        }
        let (mut mean, mut varies) = (vec![0.0f64; columns], vec![false; columns]);
        let first = rows.first().map(|&row| exact.row(row, &origin).to_vec()).unwrap_or_default();
        for &row in rows {
            let values = exact.row(row, &origin);
            mean.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            let pairs = varies.iter_mut().zip(values.iter().zip(&first));
            pairs.for_each(|(varies, (value, first))| *varies |= value != first);
        }
        mean.iter_mut().zip(&origin).for_each(|(sum, origin)| *sum = origin + *sum / count);
        let mut squares = vec![0.0f64; columns];
        for &row in rows {
            let differences = exact.row(row, &mean);
            squares.iter_mut().zip(differences).for_each(|(sum, value)| *sum += value * value);
        }
        let deviation = |(square, varies): (f64, bool)| {
            let found = (square / count).sqrt();
            if varies && found > 0.0 && (found as f32).recip().is_finite() { found } else { 1.0 }
        };
        let deviation = squares.into_iter().zip(varies).map(deviation).collect();
        Self { mean, deviation }
    }

    /// Scales a row of features in place. `corrections` are the row's corrections, and `exact` is
    /// scratch memory.
    fn apply(&self, row: &mut [f32], corrections: &[Correction], exact: &mut [f64]) {
        less(row, &self.mean, corrections, exact);
        for ((to, exact), deviation) in row.iter_mut().zip(exact).zip(&self.deviation) {
            *to = (*exact / deviation) as f32;
        }
    }
}

impl Features {
    /// Scales the columns by subtracting their mean and dividing by their standard deviation. The
    /// computation is in f64 and includes corrections. The result is rounded to f32 and has no
    /// corrections. It is dense, because zeros become other values.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if the rows do not fit in memory, and [`Error::Mismatch`] if
    /// `moments` has another number of columns.
    pub fn standardise(self, moments: &Moments) -> Result<Self> {
        let columns = self.columns();
        if moments.mean.len() != columns as usize || moments.deviation.len() != columns as usize {
            return Err(Error::Mismatch {
                place: crate::error::Place::whole("features"),
                what: "columns",
                found: u64::from(columns),
                expected: moments.mean.len() as u64,
                other: "moments of columns".to_owned(),
            });
        }
        let failed = Error::memory("features");
        let corrections = self.corrections().clone();
        let mut exact = vec![0.0f64; columns as usize];
        let mut scale = |row: usize, values: &mut [f32]| {
            moments.apply(values, corrections.of_row(row as u32), &mut exact);
        };
        let dense = match self {
            Self::Dense(rows) => rows.changed(scale)?,
            Self::Sparse(_) => {
                let rows = self.rows();
                let buffer = Buffer::zeroed(rows, columns as usize).map_err(&failed)?;
                let mut lease = buffer.write(0..rows).map_err(&failed)?;
                let mut view = lease.view_mut();
                for row in 0..rows {
                    self.copy_row(row, view.row_mut(row));
                    scale(row, view.row_mut(row));
                }
                drop(lease);
                DenseRows::new(&buffer)?
            }
        };
        Ok(Self::Dense(dense))
    }

    /// Returns one example for each column that contains whole numbers that f32 cannot represent
    /// exactly.
    #[must_use]
    pub fn rounded_whole_numbers(&self) -> Vec<Rounded> {
        let mut found: Vec<Rounded> = Vec::new();
        if self.corrections().is_empty() {
            return found;
        }
        let mut seen = std::collections::BTreeSet::new();
        let mut row_values = vec![0.0f32; self.columns() as usize];
        let mut copied = None;
        for &Correction { row, column, residual } in self.corrections().entries() {
            if seen.contains(&column) {
                continue;
            }
            if copied != Some(row) {
                self.copy_row(row as usize, &mut row_values);
                copied = Some(row);
            }
            let rounded = row_values.get(column as usize).copied().unwrap_or_default();
            if (Number { rounded, residual }).is_rounded_whole() {
                seen.insert(column);
                found.push(Rounded {
                    row,
                    column,
                    exact: rounded as i128 + residual as i128,
                    stored: rounded,
                });
            }
        }
        found
    }

    /// Returns true if the features are counts, such as bags of words. They are if they are sparse
    /// rows of whole numbers that are not negative.
    #[must_use]
    pub fn are_counts(&self) -> bool {
        match self {
            Self::Dense(_) => false,
            Self::Sparse(rows) => rows.values.iter().all(|value| *value >= 0.0 && value.fract() == 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::corrections::Collector;
    use crate::features::SparseBuilder;
    use crate::random::SplitMix64;

    #[test]
    fn columns_have_the_moments_of_the_rows_asked_for() {
        let features = Features::dense(3, &[1.0, 5.0, -2.0, 3.0, 5.0, 2.0, 100.0, 7.0, 0.0]).unwrap();
        let moments = Moments::from_rows(&features, &[0, 1]);
        assert_eq!((&moments.mean[..], &moments.deviation[..]), (&[2.0, 5.0, 0.0][..], &[1.0, 1.0, 2.0][..]));
        let scaled = features.clone().standardise(&moments).unwrap();
        let mut row = [0.0; 3];
        for (at, wanted) in [[-1.0, 0.0, -1.0], [1.0, 0.0, 1.0], [98.0, 2.0, 0.0]].into_iter().enumerate() {
            scaled.copy_row(at, &mut row);
            assert_eq!(row, wanted);
        }
        let other = Moments { mean: vec![0.0], deviation: vec![1.0] };
        assert!(features.standardise(&other).unwrap_err().to_string().contains("columns"));
    }

    /// Reads columns as a reader does, and scales them over all rows.
    fn scaled(columns: &[Vec<Number>], sparse: bool) -> (Moments, Vec<Vec<f32>>) {
        let (width, rows) = (columns.len() as u32, columns[0].len());
        let mut collector = Collector::dense("x");
        let mut values = vec![0.0; columns.len() * rows];
        for row in 0..rows {
            for (column, numbers) in columns.iter().enumerate() {
                values[row * columns.len() + column] =
                    collector.push(row as u32, column as u32, numbers[row]);
            }
        }
        let features = match sparse {
            false => Features::dense(width, &values).unwrap(),
            true => {
                let mut sparse = SparseBuilder::new(width);
                for row in values.chunks_exact(columns.len()) {
                    sparse.push_row(&mut (0..).zip(row.iter().copied()).collect::<Vec<_>>());
                }
                Features::Sparse(sparse.finish())
            }
        };
        let features = features.with_corrections(collector.finish());
        let moments = Moments::from_rows(&features, &(0..rows as u32).collect::<Vec<_>>());
        let scaled = features.standardise(&moments).unwrap();
        assert!(scaled.corrections().is_empty());
        let mut row_values = vec![0.0; columns.len()];
        let rows = (0..rows).map(|row| {
            scaled.copy_row(row, &mut row_values);
            row_values.clone()
        });
        (moments, rows.collect())
    }

    #[test]
    fn columns_far_from_zero_are_scaled_as_in_f64() {
        let seed = 1_700_000_029;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let mut unit = || random.next_u64() as f64 / u64::MAX as f64;
        for exponent in 0..=12 {
            for outlier in [false, true] {
                let offset = 10f64.powi(exponent);
                let column: Vec<f64> = (0..500)
                    .map(|row| if outlier && row % 50 == 7 { 0.0 } else { offset + 60.0 * unit() })
                    .collect();
                let whole: Vec<f64> = column.iter().map(|value| value.floor()).collect();
                let numbers =
                    [&column, &whole].map(|of| of.iter().map(|&v| v.into()).collect::<Vec<Number>>());
                for sparse in [false, true] {
                    let (moments, rows) = scaled(&numbers, sparse);
                    for (at, of) in [&column, &whole].into_iter().enumerate() {
                        // As NumPy computes it: mean and deviation in f64.
                        let mean = of.iter().sum::<f64>() / 500.0;
                        let square = |v: &f64| (v - mean) * (v - mean);
                        let deviation = (of.iter().map(square).sum::<f64>() / 500.0).sqrt();
                        let close = 1e-6 * deviation + 1e-12 * mean.abs();
                        assert!((moments.mean[at] - mean).abs() <= close, "10^{exponent}");
                        assert!((moments.deviation[at] - deviation).abs() <= close, "10^{exponent}");
                        for (row, value) in rows.iter().zip(of) {
                            let expected = ((value - mean) / deviation) as f32;
                            // Corrections below 2^-20 of a deviation are left out.
                            let allowed = 1e-6 * f64::from(expected.abs().max(1.0)) + close / deviation;
                            assert!(
                                f64::from((row[at] - expected).abs()) <= allowed,
                                "10^{exponent}, outlier {outlier}, column {at}: {} for {expected}",
                                row[at]
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn nanoseconds_of_64_bits_are_scaled_exactly() {
        let column: Vec<Number> =
            (0..60).map(|second| (1_700_000_000_000_000_001i64 + second * 1000).into()).collect();
        let (moments, rows) = scaled(&[column], false);
        assert!((moments.deviation[0] - 17_318.0).abs() < 1.0, "{moments:?}");
        let step = rows[1][0] - rows[0][0];
        assert!(rows.windows(2).all(|pair| (pair[1][0] - pair[0][0] - step).abs() < 1e-6));
        assert!(rows[0][0] < -1.6 && rows[59][0] > 1.6);
    }

    #[test]
    fn whole_numbers_that_were_rounded_are_named_once_a_column() {
        let mut collector = Collector::dense("x");
        let rows = [[1.0, 16_777_217.0], [0.1, 16_777_219.0], [3.0, 5.0]];
        let values: Vec<f32> = (0u32..)
            .zip(rows)
            .flat_map(|(row, of)| [(row, 0, of[0]), (row, 1, of[1])])
            .map(|(row, column, value)| collector.push(row, column, value.into()))
            .collect();
        let features = Features::dense(2, &values).unwrap().with_corrections(collector.finish());
        let found = features.rounded_whole_numbers();
        let expected = Rounded { row: 0, column: 1, exact: 16_777_217, stored: 16_777_216.0 };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn sparse_rows_become_the_same_dense_ones() {
        let mut sparse = SparseBuilder::new(2);
        sparse.push_row(&mut [(1, 4.0)]);
        sparse.push_row(&mut []);
        let sparse = Features::Sparse(sparse.finish());
        let dense = Features::dense(2, &[0.0, 4.0, 0.0, 0.0]).unwrap();
        let moments = Moments::from_rows(&sparse, &[0, 1]);
        assert_eq!(moments, Moments::from_rows(&dense, &[0, 1]));
        assert_eq!(sparse.standardise(&moments).unwrap(), dense.standardise(&moments).unwrap());
    }

    #[test]
    fn counts_are_sparse_whole_and_not_negative() {
        let row = |values: &[(u32, f32)]| {
            let mut sparse = SparseBuilder::new(80);
            sparse.push_row(&mut values.to_vec());
            Features::Sparse(sparse.finish())
        };
        assert!(row(&[(0, 1.0), (3, 12.0)]).are_counts() && row(&[]).are_counts());
        assert!(!row(&[(0, 0.25)]).are_counts() && !row(&[(0, -1.0)]).are_counts());
        assert!(!Features::dense(1, &[1.0, 2.0]).unwrap().are_counts());
    }
}
