//! Selection of feature columns in the order that a trained model expects.

use eciton_tensor::Buffer;

use crate::edge_features::EdgeFeatures;
use crate::error::{Error, Place, Result};
use crate::features::{DenseRows, Features, SparseBuilder};

/// Checks that all column indices are below `count`. `what` names the columns in the error message.
fn check(columns: &[u32], count: u32, what: &str) -> Result<()> {
    match columns.iter().find(|&&column| column >= count) {
        None => Ok(()),
        Some(column) => {
            let expected = format!("columns below {count}");
            Err(Error::malformed(Place::whole(what), expected, column.to_string()))
        }
    }
}

impl Features {
    /// Returns the features with only the given columns, in this order.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] for an index that is too large, and [`Error::Memory`] if the
    /// rows do not fit in memory.
    pub fn select_columns(&self, columns: &[u32]) -> Result<Self> {
        check(columns, self.columns(), "features")?;
        let width = u32::try_from(columns.len()).unwrap_or(u32::MAX);
        let corrections = self.corrections().selected(columns);
        let selected = match self {
            Self::Dense(rows) => {
                let failed = Error::memory("features");
                let view = rows.view();
                let buffer = Buffer::zeroed(view.rows(), columns.len()).map_err(&failed)?;
                let mut lease = buffer.write(0..view.rows()).map_err(&failed)?;
                let mut selected = lease.view_mut();
                for row in 0..view.rows() {
                    let from = view.row(row);
                    for (to, &column) in selected.row_mut(row).iter_mut().zip(columns) {
                        *to = from[column as usize];
                    }
                }
                drop(lease);
                Self::Dense(DenseRows::new(&buffer)?)
            }
            Self::Sparse(rows) => {
                let mut position = vec![None; rows.columns as usize];
                for (to, &column) in (0..).zip(columns) {
                    position[column as usize] = Some(to);
                }
                let mut selected = SparseBuilder::new(width);
                let mut entries: Vec<(u32, f32)> = Vec::new();
                for row in 0..rows.rows() {
                    let (indices, values) = rows.row(row);
                    entries.clear();
                    let stored = indices.iter().zip(values);
                    entries.extend(stored.filter_map(|(&column, &value)| {
                        Some((position.get(column as usize).copied().flatten()?, value))
                    }));
                    selected.push_row(&mut entries);
                }
                Self::Sparse(selected.finish())
            }
        };
        Ok(selected.with_corrections(corrections))
    }
}

impl EdgeFeatures {
    /// Returns the edge features with only the given columns, in this order.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] for an index that is too large.
    pub fn select_columns(&self, columns: &[u32]) -> Result<Self> {
        check(columns, self.columns(), "edge features")?;
        let width = u32::try_from(columns.len()).unwrap_or(u32::MAX);
        let rows = self.values().chunks_exact(self.columns() as usize);
        let selected: Vec<f32> =
            rows.flat_map(|row| columns.iter().map(|&column| row[column as usize])).collect();
        Self::new(width, selected)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn columns_are_selected_from_dense_and_sparse_rows() {
        let dense = Features::dense(3, &[1.0, 0.0, 3.0, 4.0, 5.0, 0.0]).unwrap();
        let mut sparse = SparseBuilder::new(3);
        sparse.push_row(&mut [(0, 1.0), (2, 3.0)]);
        sparse.push_row(&mut [(0, 4.0), (1, 5.0)]);
        for features in [dense, Features::Sparse(sparse.finish())] {
            let selected = features.select_columns(&[2, 0]).unwrap();
            let mut row = [0.0; 2];
            for (at, wanted) in [[3.0, 1.0], [0.0, 4.0]].into_iter().enumerate() {
                selected.copy_row(at, &mut row);
                assert_eq!(row, wanted);
            }
            assert!(features.select_columns(&[3]).is_err());
        }
        let edges = EdgeFeatures::new(2, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(edges.select_columns(&[1]).unwrap().values(), [2.0, 4.0]);
    }
}
