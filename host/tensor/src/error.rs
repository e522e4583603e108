//! Errors of matrices: shapes, leases, and rows that have not arrived.

use std::ops::Range;

/// The result of an operation on matrices.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Operands do not fit together.
    #[error("{operation}: {operand} has extents {found:?}, expected {expected:?}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// Name of the operand.
        operand: &'static str,
        /// Extents wanted, rows first.
        expected: Vec<u32>,
        /// Extents given, rows first.
        found: Vec<u32>,
    },
    /// A value that the operation cannot take.
    #[error("{operation}: {reason}")]
    Argument {
        /// The operation.
        operation: &'static str,
        /// The value found, and the values allowed.
        reason: String,
    },
    /// The combination is not offered.
    #[error("{operation}: {reason}")]
    Unsupported {
        /// The operation.
        operation: &'static str,
        /// Why, and what to do instead.
        reason: String,
    },
    /// Rows are leased to somebody else.
    #[error("rows {rows:?} cannot be leased for {wanted}: rows {held:?} are held for {holder}")]
    Leased {
        /// The rows asked for.
        rows: Range<usize>,
        /// `reading` or `writing`.
        wanted: &'static str,
        /// The rows in the way.
        held: Range<usize>,
        /// `reading` or `writing`.
        holder: &'static str,
    },
    /// Rows of a buffer that lies in somebody's memory cannot be written.
    #[error("rows {rows:?} cannot be leased for writing: they lie in memory that is only lent for reading")]
    ReadOnly {
        /// The rows asked for.
        rows: Range<usize>,
    },
    /// Rows outside a buffer.
    #[error("rows {rows:?} of a buffer of {available} rows")]
    OutOfRange {
        /// The rows asked for.
        rows: Range<usize>,
        /// Number of rows that exist.
        available: usize,
    },
    /// Streamed rows did not come in time, or their sender failed.
    #[error("waiting for row {row}: {reason}")]
    NotArrived {
        /// The first missing row.
        row: usize,
        /// Deadline or the sender's failure.
        reason: String,
        /// True if the deadline passed.
        timed_out: bool,
    },
    /// Bytes that are no frame of this format, or tensors that no frame can hold.
    #[error("frame, {place}: {reason}")]
    Frame {
        /// `prefix`, `table`, `part 3`, ...
        place: String,
        /// The value found, and the values allowed.
        reason: String,
    },
    /// A frame that was cut or changed on its way; the same bytes sent again may be whole.
    #[error("frame, {place}: {reason}; fetch it again")]
    Damaged {
        /// `prefix`, `table`, `part 3`, ...
        place: String,
        /// The value expected, and the value found.
        reason: String,
    },
}
