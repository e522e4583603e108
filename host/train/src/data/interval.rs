//! An interval of rows.

use std::ops::Range;
use std::sync::Arc;

use eciton_kernel::{RowNumbers, Targets};
use eciton_tensor::Grid;
use eciton_types::Node;

/// One interval: its rows, the grid of its sums, and the targets of the loss.
#[derive(Debug, Clone)]
pub(crate) struct Interval {
    pub rows: Range<usize>,
    /// Numbers by which the rows' random numbers are addressed.
    pub numbers: RowNumbers,
    pub grid: Arc<Grid>,
    pub nodes: Vec<Node>,
    pub targets: Targets,
    /// Local rows of training vertices.
    pub training: Arc<[u32]>,
    /// Weight of each row in the loss. If `None`, all weights are equal.
    pub row_weights: Option<Arc<[f32]>>,
}
