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
