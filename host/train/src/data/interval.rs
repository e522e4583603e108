//! Intervals, which are contiguous ranges of rows that are scheduled as one unit.

use std::ops::Range;
use std::sync::Arc;

use eciton_kernel::{RowNumbers, Targets};
use eciton_tensor::Grid;
use eciton_types::Node;

/// A contiguous range of rows that is scheduled as one unit, with its summation grid and its loss
/// targets.
#[derive(Debug, Clone)]
pub(crate) struct Interval {
    pub rows: Range<usize>,
    /// Row numbers that are used in the keys of random numbers. They do not depend on the order of
    /// rows or on the division into intervals.
    pub numbers: RowNumbers,
    pub grid: Arc<Grid>,
    pub nodes: Vec<Node>,
    pub targets: Targets,
    /// Training rows, as indices within the interval.
    pub training: Arc<[u32]>,
    /// Loss weight of each row. `None` if all rows have the same weight.
    pub row_weights: Option<Arc<[f32]>>,
}

impl Interval {
    /// Creates an interval of atoms.
    pub(crate) fn of_atoms(atoms: Range<u32>) -> Self {
        Self::without_labels(atoms.start as usize..atoms.end as usize, RowNumbers::From(0))
    }

    /// Creates an interval without labels and sums. `numbers` are the values of the field with this name.
    pub(crate) fn without_labels(rows: Range<usize>, numbers: RowNumbers) -> Self {
        Self {
            numbers,
            grid: Arc::new(Grid::single(rows.len())),
            nodes: Vec::new(),
            targets: Targets::Classes(Arc::default()),
            training: Arc::default(),
            row_weights: None,
            rows,
        }
    }

    /// Returns the row ranges of the interval's atoms, as indices within the interval.
    pub(crate) fn atoms(&self) -> Vec<Range<usize>> {
        let atoms = self.grid.parts().iter().flat_map(|part| &part.atoms);
        atoms.map(|atom| atom.rows.start as usize..atom.rows.end as usize).collect()
    }
}
