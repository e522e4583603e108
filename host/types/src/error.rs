//! Errors of dividing rows into atoms and of combining partial sums.

use crate::atoms::Node;

/// Result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why rows cannot be divided or partial sums cannot be combined. The errors are
/// deterministic, so retrying never helps.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rows of a graph cannot be divided into atoms (runs of consecutive rows).
    #[error("cannot divide the graph's rows: found {found}, expected {allowed}")]
    Rows {
        /// Description of the invalid input, for instance `0 rows`.
        found: String,
        /// Description of the inputs that are allowed.
        allowed: String,
    },
    /// The graph cannot be divided into this number of intervals.
    #[error("cannot divide {rows} rows into {found} intervals: choose 1 to {most} intervals")]
    IntervalCount {
        /// Requested number of intervals.
        found: u32,
        /// Maximum number of intervals, which is the number of atoms.
        most: u32,
        /// Number of rows of the graph.
        rows: u32,
    },
    /// The partial sums do not cover the target exactly. This is a bug in the caller.
    #[error("partial sum {place} is of {found:?}, but the sum needs {wanted:?} at this index")]
    Cover {
        /// Tree node that is needed at this index. `None` if the sum is already complete.
        wanted: Option<Node>,
        /// Tree node that the caller passed at this index. `None` if the list ended.
        found: Option<Node>,
        /// Index in the caller's list of partial sums.
        place: usize,
    },
    /// The length of a slice does not fit the sum. This is a bug in the caller.
    #[error("{what} hold {found} values, but the sum needs {wanted}")]
    PartialLength {
        /// Name of the slice, `partials` or `scratch`.
        what: &'static str,
        /// Number of values in the slice.
        found: usize,
        /// Number of values that the sum needs.
        wanted: usize,
    },
}
