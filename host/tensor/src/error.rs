//! Errors of matrix operations, which concern shapes, leases, frames, and rows that have not
//! arrived.

use std::ops::Range;

/// Result of an operation on matrices, leases or frames.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of an operation on matrices, leases or frames.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The shapes of operands do not match.
    #[error("{operation}: {operand} has extents {found:?}, expected {expected:?}")]
    Shape {
        /// Name of the operation.
        operation: &'static str,
        /// Name of the operand.
        operand: &'static str,
        /// Expected extents. The first one is the number of rows.
        expected: Vec<u32>,
        /// Extents that were found. The first one is the number of rows.
        found: Vec<u32>,
    },
    /// An argument has a value that the operation does not accept.
    #[error("{operation}: {reason}")]
    Argument {
        /// Name of the operation.
        operation: &'static str,
        /// Value that was found, and the values that are allowed.
        reason: String,
    },
    /// The operation does not support this combination of arguments.
    #[error("{operation}: {reason}")]
    Unsupported {
        /// Name of the operation.
        operation: &'static str,
        /// Unsupported combination, and what to do instead.
        reason: String,
    },
    /// Rows cannot be leased, because a conflicting lease exists.
    #[error("rows {rows:?} cannot be leased for {wanted}: rows {held:?} are held for {holder}")]
    Leased {
        /// Rows that the caller asked for.
        rows: Range<usize>,
        /// Requested access: `reading` or `writing`.
        wanted: &'static str,
        /// Rows of the conflicting lease.
        held: Range<usize>,
        /// Access of the conflicting lease: `reading` or `writing`.
        holder: &'static str,
    },
    /// The buffer lies in memory of another owner, such as a mapped file, and cannot be written.
    #[error("rows {rows:?} cannot be leased for writing: the memory is read-only")]
    ReadOnly {
        /// Rows that the caller asked for.
        rows: Range<usize>,
    },
    /// Rows beyond the end of a buffer.
    #[error("rows {rows:?} are out of range: the buffer has {available} rows")]
    OutOfRange {
        /// Rows that the caller asked for.
        rows: Range<usize>,
        /// Number of rows in the buffer.
        available: usize,
    },
    /// Streamed rows did not arrive before the deadline, or their sender failed.
    #[error("row {row} did not arrive: {reason}")]
    NotArrived {
        /// Index of the first missing row.
        row: usize,
        /// Deadline that passed, or error of the sender.
        reason: String,
        /// True if the deadline passed.
        timed_out: bool,
    },
    /// Bytes that are not a frame of this format, or tensors that do not fit into a frame.
    #[error("frame, {place}: {reason}")]
    Frame {
        /// Location in the frame: `prefix`, `table`, `part 3`, ...
        place: String,
        /// Value that was found, and the values that are allowed.
        reason: String,
    },
    /// A frame that was truncated or changed in transit. Another transfer of the same frame may
    /// succeed.
    #[error("frame, {place}: {reason}; fetch it again")]
    Damaged {
        /// Location in the frame: `prefix`, `table`, `part 3`, ...
        place: String,
        /// Expected value, and the value that was found.
        reason: String,
    },
}
