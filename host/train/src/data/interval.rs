//! An interval: a run of rows that is scheduled as one unit.

use std::ops::Range;
use std::sync::Arc;

use eciton_kernel::{RowNumbers, Targets};
use eciton_tensor::Grid;
use eciton_types::Node;

/// Interval: a run of rows that is scheduled as one unit, with its summation grid and the targets
/// of the loss.
#[derive(Debug, Clone)]
pub(crate) struct Interval {
    pub rows: Range<usize>,
    /// Numbers of the rows in the keys of random numbers. They do not depend on the order of rows
    /// or on the cut into intervals.
    pub numbers: RowNumbers,
    pub grid: Arc<Grid>,
    pub nodes: Vec<Node>,
    pub targets: Targets,
    /// Indices of the training rows within the interval.
    pub training: Arc<[u32]>,
    /// Weight of each row in the loss. If `None`, all weights are equal.
    pub row_weights: Option<Arc<[f32]>>,
}
