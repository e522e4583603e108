//! Edge features, which are one row of numbers per edge. One column can be the edge's weight.

use eciton_tensor::Slab;

use crate::error::{Error, Place, Result};
use eciton_input::threads::{on_threads, shares, threads_for};

/// Maximum number of feature columns per edge.
pub const MAX_COLUMNS: u32 = 1 << 20;

/// Features of the edges as f32, with one row per directed edge. Rows are in the order of
/// [`Graph::incoming`](crate::adjacency::Graph::incoming), which is by target, then by source. All
/// values are finite. Clones share the memory.
///
/// ```
/// use eciton_graph::adjacency::{Graph, Options};
/// use eciton_graph::edge_features::EdgeFeatures;
/// let (edges, weights) = ([(0, 1), (2, 1)], [0.5, 4.0]);
/// let graph = Graph::from_edges(3, edges.into_iter(), Options::default())?;
/// let placed = EdgeFeatures::placed(&graph, &edges, 1, &weights, Options::default())?;
/// // Into 0 from 1, into 1 from 0 and 2, into 2 from 1.
/// assert_eq!(placed.values(), [0.5, 0.5, 4.0, 4.0]);
/// # Ok::<(), eciton_graph::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeFeatures {
    columns: u32,
    values: Slab<f32>,
}

impl EdgeFeatures {
    /// Creates edge features with `columns` values per row (1 to [`MAX_COLUMNS`]), given row by
    /// row. [`Dataset::validate`](crate::dataset::Dataset::validate) checks that the values are
    /// finite and that the rows fit a graph.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the number of columns is invalid or the last row is
    /// incomplete.
    pub fn new(columns: u32, values: impl Into<Slab<f32>>) -> Result<Self> {
        let values = values.into();
        check_columns(u64::from(columns), || Place::whole("edge features"))?;
        if !values.len().is_multiple_of(columns as usize) {
            let expected = format!("rows of {columns} values");
            let found = format!("{} values", values.len());
            return Err(Error::malformed(Place::whole("edge features"), expected, found));
        }
        Ok(Self { columns, values })
    }

    /// Returns the rows of the edges for which `keep` is true. `keep` has one value per edge.
    ///
    /// # Errors
    /// Returns the errors of [`EdgeFeatures::new`].
    pub fn retained(&self, keep: &[bool]) -> Result<Self> {
        let rows = self.values.chunks_exact(self.columns as usize).zip(keep);
        let kept: Vec<f32> =
            rows.filter(|(_, keep)| **keep).flat_map(|(row, _)| row.iter().copied()).collect();
        Self::new(self.columns, kept)
    }

    /// Returns the memory slab with the values of all edges.
    pub(crate) fn slab(&self) -> &Slab<f32> {
        &self.values
    }

    /// Returns the number of feature columns.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Returns the number of rows, which is the number of directed edges.
    pub fn rows(&self) -> usize {
        self.values.len() / self.columns as usize
    }

    /// Returns the values of all rows, row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns the values of the column `at` for all edges, for instance the edges' weights.
    /// Returns `None` if the column does not exist.
    pub fn column(&self, at: u32) -> Option<Vec<f32>> {
        let every = self.columns as usize;
        (at < self.columns).then(|| self.values.iter().skip(at as usize).step_by(every).copied().collect())
    }

    /// Checks that there is one row for each of `edges` edges and that every value is finite. Error
    /// messages contain the name `file`.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] for another number of rows, and [`Error::NotFinite`] for an
    /// infinite value or NaN.
    pub fn validate(&self, edges: u64, file: &str) -> Result<()> {
        let found = self.rows() as u64;
        if found != edges {
            let (place, other) = (Place::whole(file), "the graph".to_owned());
            return Err(Error::Mismatch { place, what: "edges", found, expected: edges, other });
        }
        check_finite(&self.values, self.columns as usize, file)
    }
}

/// Checks that a number of edge feature columns is between 1 and [`MAX_COLUMNS`].
///
/// # Errors
/// Returns [`Error::Malformed`] if the number of columns is invalid.
pub fn check_columns(columns: u64, place: impl Fn() -> Place) -> Result<()> {
    if (1..=u64::from(MAX_COLUMNS)).contains(&columns) {
        return Ok(());
    }
    Err(Error::Malformed {
        place: place(),
        expected: format!("1 to {MAX_COLUMNS} columns of edge features"),
        found: columns.to_string(),
        remedy: "remove columns that are not needed, or leave edge features out",
    })
}

/// Checks that all values are finite. They belong to rows of `columns` values, and error messages
/// contain the name `file`.
///
/// # Errors
/// Returns [`Error::NotFinite`] with the row and column of the first infinite value or NaN.
pub fn check_finite(values: &[f32], columns: usize, file: &str) -> Result<()> {
    let fault = |&at: &usize| !values[at].is_finite();
    let work = shares(values.len(), threads_for(values.len() as u64));
    let first = on_threads(work, |mut own| own.find(fault)).into_iter().flatten().next();
    first.map_or(Ok(()), |at| {
        let (row, column) = ((at / columns) as u64, (at % columns) as u64);
        Err(Error::NotFinite { place: Place::row(file, row), column, value: values[at] })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::adjacency::{Graph, Options};

    #[test]
    fn edges_that_do_not_belong_are_refused() {
        let graph = Graph::from_edges(4, [(0, 1), (2, 1)].into_iter(), Options::default()).unwrap();
        let text = |edges: &[(u32, u32)], columns: u32, rows: &[f32]| {
            let placed = EdgeFeatures::placed(&graph, edges, columns, rows, Options::default());
            placed.unwrap_err().to_string()
        };
        let other = text(&[(0, 1), (0, 2), (2, 1)], 1, &[0.0; 3]);
        assert!(other.contains("edges, row 1: expected an edge of the graph, found 0 -> 2"), "{other}");
        let beyond = text(&[(9, 9), (9, 1)], 1, &[0.0; 2]);
        assert!(beyond.contains("edges, row 1") && beyond.contains("9 -> 1"), "{beyond}");
        let missing = text(&[(1, 0)], 1, &[0.0]);
        assert!(missing.contains("none for the edge 2 -> 1"), "{missing}");
        let short = text(&[(0, 1), (2, 1)], 2, &[0.0; 3]);
        assert!(short.contains("3 values") && short.contains("2 edges of 2 columns"), "{short}");
        assert!(text(&[], 0, &[]).contains("1 to 1048576 columns"));
    }

    #[test]
    fn new_and_validate_check() {
        assert!(EdgeFeatures::new(0, vec![]).is_err());
        assert!(EdgeFeatures::new(MAX_COLUMNS + 1, vec![]).is_err());
        assert!(EdgeFeatures::new(2, vec![0.0; 3]).is_err());
        let rows = EdgeFeatures::new(2, vec![0.0, 1.0, 2.0, f32::INFINITY]).unwrap();
        let text = |edges| rows.validate(edges, "x").unwrap_err().to_string();
        assert!(text(3).contains("x: 2 edges, but the graph has 3"));
        assert!(text(2).contains("x, row 1: feature column 1 is inf"));
        assert!(EdgeFeatures::new(MAX_COLUMNS, vec![]).unwrap().validate(0, "x").is_ok());
    }
}
