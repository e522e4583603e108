//! Errors of atoms (the units of the fixed summation order) and of sums over them.

use crate::atoms::Node;

/// Result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reasons why rows cannot be divided or added up. The same input fails again, so no error is worth
/// a retry.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The graph cannot be divided into atoms.
    #[error("cannot divide the graph's rows: found {found}, expected {allowed}")]
    Rows {
        /// Number of rows, or the row offsets, that were found.
        found: String,
        /// Values that are allowed.
        allowed: String,
    },
    /// The graph cannot be divided into this number of intervals.
    #[error("cannot divide {rows} rows into {found} intervals: choose 1 to {most} intervals")]
    IntervalCount {
        /// Requested number of intervals.
        found: u32,
        /// Maximum number of intervals: one interval per atom.
        most: u32,
        /// Number of rows of the graph.
        rows: u32,
    },
    /// The partial sums do not make up the requested sum. This is a defect of the caller.
    #[error("partial sum {place} is of {found:?}, but the sum needs {wanted:?} at this index")]
    Cover {
        /// Tree node that the sum needs at this index. `None` if the sum needs no further node.
        wanted: Option<Node>,
        /// Tree node that the caller passed at this index. `None` if there is no further node.
        found: Option<Node>,
        /// Index in the list of partial sums.
        place: usize,
    },
    /// A slice has another length than the sum needs. This is a defect of the caller.
    #[error("{what} hold {found} values, but the sum needs {wanted}")]
    PartialLength {
        /// Name of the slice.
        what: &'static str,
        /// Number of values in the slice.
        found: usize,
        /// Number of values that the sum needs.
        wanted: usize,
    },
}
