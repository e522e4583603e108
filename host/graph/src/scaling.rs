//! The scale of features: what was done to them before a run, and the moments of their columns.

use std::sync::Arc;

use eciton_tensor::Buffer;

use crate::error::{Error, Result};
use crate::features::{DenseRows, Features};

/// The scaling that was applied to a data set's features.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Scaling {
    /// Nothing: they are as published.
    #[default]
    None,
    /// Each row was divided by its sum.
    Rows,
    /// Each column had its mean taken away and was divided by its deviation.
    Columns(Arc<Moments>),
}

/// Means and deviations of columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// The mean of each column.
    pub mean: Vec<f32>,
    /// The standard deviation (of n, not n - 1) of each column; 1 of a column that is constant.
    pub deviation: Vec<f32>,
}

impl Moments {
    /// Moments over some rows, summed in their order in f64: mean first, then the squares of what is left.
    #[must_use]
    pub fn of(features: &Features, rows: &[u32]) -> Self {
        let columns = features.columns() as usize;
        let mut row_values = vec![0.0f32; columns];
        let count = rows.len().max(1) as f64;
        let mut mean = vec![0.0f64; columns];
        for &row in rows {
            features.copy_row(row as usize, &mut row_values);
            mean.iter_mut().zip(&row_values).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        mean.iter_mut().for_each(|sum| *sum /= count);
        let mut squares = vec![0.0f64; columns];
        for &row in rows {
            features.copy_row(row as usize, &mut row_values);
            for ((square, mean), &value) in squares.iter_mut().zip(&mean).zip(&row_values) {
                *square += (f64::from(value) - mean).powi(2);
            }
        }
        let deviation = |square: f64| {
            let found = (square / count).sqrt() as f32;
            if found > 0.0 && found.recip().is_finite() { found } else { 1.0 }
        };
        Self {
            mean: mean.into_iter().map(|mean| mean as f32).collect(),
            deviation: squares.into_iter().map(deviation).collect(),
        }
    }

    fn apply(&self, row: &mut [f32]) {
        for ((value, mean), deviation) in row.iter_mut().zip(&self.mean).zip(&self.deviation) {
            *value = (*value - mean) / deviation;
        }
    }
}

impl Features {
    /// Columns less their means, over their deviations. Rows are dense afterwards: zeros move.
    ///
    /// # Errors
    /// [`Error::Memory`] where the rows do not fit; [`Error::Mismatch`] for moments of other columns.
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
        let dense = match self {
            Self::Dense(rows) => rows.changed(|row| moments.apply(row))?,
            Self::Sparse(_) => {
                let rows = self.rows();
                let buffer = Buffer::zeroed(rows, columns as usize).map_err(&failed)?;
                let mut lease = buffer.write(0..rows).map_err(&failed)?;
                let mut view = lease.view_mut();
                for row in 0..rows {
                    self.copy_row(row, view.row_mut(row));
                    moments.apply(view.row_mut(row));
                }
                drop(lease);
                DenseRows::new(&buffer)?
            }
        };
        Ok(Self::Dense(dense))
    }

    /// Whether these are counts, as bags of words are: kept as sparse rows, of whole numbers that are not negative.
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
    use crate::features::SparseBuilder;

    #[test]
    fn columns_have_the_moments_of_the_rows_asked_for() {
        let features = Features::dense(3, &[1.0, 5.0, -2.0, 3.0, 5.0, 2.0, 100.0, 7.0, 0.0]).unwrap();
        let moments = Moments::of(&features, &[0, 1]);
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

    #[test]
    fn sparse_rows_become_the_same_dense_ones() {
        let mut sparse = SparseBuilder::new(2);
        sparse.push_row(&mut [(1, 4.0)]);
        sparse.push_row(&mut []);
        let sparse = Features::Sparse(sparse.finish());
        let dense = Features::dense(2, &[0.0, 4.0, 0.0, 0.0]).unwrap();
        let moments = Moments::of(&sparse, &[0, 1]);
        assert_eq!(moments, Moments::of(&dense, &[0, 1]));
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
