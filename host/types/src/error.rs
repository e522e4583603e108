//! Errors of atoms and of the sums over them.

use crate::atoms::Node;

/// The result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reasons why rows cannot be cut or added up. None is worth a retry.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A graph that cannot be cut into atoms.
    #[error("cannot cut the graph's rows: found {found}, need {allowed}")]
    Rows {
        /// The number of rows or the offsets found.
        found: String,
        /// The values allowed.
        allowed: String,
    },
    /// An interval count that the graph does not have.
    #[error("{found} intervals asked for a graph of {rows} rows: choose 1 to {most}")]
    IntervalCount {
        /// The number of intervals requested.
        found: u32,
        /// The maximum: one interval per atom.
        most: u32,
        /// Number of rows of the graph.
        rows: u32,
    },
    /// Partial sums that do not make up the sum asked for (a defect of the caller).
    #[error("partial {place} is {found:?}, but the sum needs {wanted:?} there")]
    Cover {
        /// The node needed. `None` if no further node is.
        wanted: Option<Node>,
        /// The node given. `None` if no further node is.
        found: Option<Node>,
        /// Index in the list of partial sums.
        place: usize,
    },
    /// A slice of another length than the sum needs (a defect of the caller).
    #[error("{what} hold {found} values, but the sum needs {wanted}")]
    PartialLength {
        /// Name of the slice.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The length needed.
        wanted: usize,
    },
}
