//! Part of a data set that one host of several stores.

use std::ops::Range;
use std::sync::Arc;

use eciton_graph::adjacency::Graph;
use eciton_tensor::{Buffer, Matrix, SparseRows};

use super::cut::Cut;
use crate::edge_data::EdgeData;
use crate::error::{Result, at};

/// Part of a data set that one host of several stores, with sizes of the whole data set.
#[derive(Debug)]
pub(crate) struct HostPart {
    pub cut: Cut,
    pub me: u32,
    /// First row of each interval in the whole data set, followed by the number of rows.
    pub starts: Vec<u32>,
    /// Number of edges of the whole data set, and of those to labelled training vertices.
    pub edges: (u64, u64),
    /// True if the host has read only its own rows. Then `Inputs::features` has these rows until
    /// features of their neighbours have arrived.
    pub reads_own: bool,
    /// Row in the whole data set of each stored row. `None` if all rows are stored.
    pub rows: Option<Vec<u32>>,
    /// Vertex number in the data set of each stored row. `None` if all rows are stored.
    pub numbers: Option<Arc<[u32]>>,
    /// The whole data set, from which features are gathered before training. `None` afterwards.
    pub whole: Option<Whole>,
}

/// Lists and factors of the whole data set.
#[derive(Debug)]
pub(crate) struct Whole {
    pub graph: Graph,
    pub edges: Arc<EdgeData>,
    /// Factor of each row in symmetric normalisation.
    pub scale: Arc<Vec<f32>>,
}

impl HostPart {
    /// Returns the rows whose steps run at this host, as rows of the whole data set.
    pub(crate) fn own(&self) -> Range<usize> {
        let run = self.cut.of(self.me);
        let start = |interval: u32| self.starts.get(interval as usize).map_or(0, |&start| start as usize);
        start(run.start)..start(run.end)
    }

    /// Returns the stored rows among `rows`, which are rows of the whole data set.
    pub(crate) fn stored(&self, rows: &[u32]) -> Vec<u32> {
        match &self.rows {
            None => rows.to_vec(),
            Some(stored) => {
                let index = |row: &u32| stored.binary_search(row).ok().map(|index| index as u32);
                rows.iter().filter_map(index).collect()
            }
        }
    }
}

/// Copies a range of rows of the features.
pub(crate) fn copied(all: &Matrix, rows: Range<usize>) -> Result<Matrix> {
    match all {
        Matrix::Dense(dense) => {
            let held = dense.hold(None).map_err(at("features"))?;
            let (view, part) =
                (held.view(), Buffer::zeroed(rows.len(), all.columns()).map_err(at("features"))?);
            let mut lease = part.write(0..rows.len()).map_err(at("features"))?;
            let mut to = lease.view_mut();
            let count = rows.len();
            rows.enumerate().for_each(|(local, row)| to.row_mut(local).copy_from_slice(view.row(row)));
            drop(lease);
            Ok(Matrix::from(part.read(0..count).map_err(at("features"))?))
        }
        Matrix::Sparse(sparse) => {
            let (mut offsets, mut indices, mut values) = (vec![0u64], Vec::new(), Vec::new());
            for row in rows {
                let (columns, stored) = sparse.data.row(row);
                indices.extend_from_slice(columns);
                values.extend_from_slice(stored);
                offsets.push(indices.len() as u64);
            }
            let columns = sparse.data.columns() as u32;
            let part = SparseRows::new(columns, offsets, indices, values).map_err(at("features"))?;
            Ok(Matrix::from(Arc::new(part)))
        }
    }
}
