//! Errors of adjacency lists and of rows to gather, with the locations that messages contain.

use std::fmt;

/// Location of an error, which consists of a file and a position in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the file. For an entry of an archive, the entry's name follows after `!`. Values
    /// that do not come from a file have a descriptive name, for instance `edges`.
    pub file: String,
    /// Position of the error in the file.
    pub position: Position,
}

/// Position of an error within a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The error concerns the file as a whole.
    Whole,
    /// Byte offset, from 0.
    Byte(u64),
    /// Line of a text file, from 1.
    Line(u64),
    /// Row of an array, from 0.
    Row(u64),
}

impl Place {
    /// Returns the location of a file as a whole.
    pub fn whole(file: impl Into<String>) -> Self {
        Self { file: file.into(), position: Position::Whole }
    }

    /// Returns the location of a byte in a file, counted from 0.
    pub fn byte(file: impl Into<String>, byte: u64) -> Self {
        Self { file: file.into(), position: Position::Byte(byte) }
    }

    /// Returns the location of a line in a file, counted from 1.
    pub fn line(file: impl Into<String>, line: u64) -> Self {
        Self { file: file.into(), position: Position::Line(line) }
    }

    /// Returns the location of an array row in a file, counted from 0.
    pub fn row(file: impl Into<String>, row: u64) -> Self {
        Self { file: file.into(), position: Position::Row(row) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Position::Whole => write!(f, "{}", self.file),
            Position::Byte(byte) => write!(f, "{}, byte {byte}", self.file),
            Position::Line(line) => write!(f, "{}, line {line}", self.file),
            Position::Row(row) => write!(f, "{}, row {row}", self.file),
        }
    }
}

/// Reason why adjacency lists or rows are refused. A retry fails in the same way unless the input
/// changes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value exceeds a stated limit.
    #[error("{place}: {found} {unit}, above the limit {limit} of {allowed} {unit}; {remedy}")]
    Limit {
        /// Location of the value.
        place: Place,
        /// Name of the limit.
        limit: &'static str,
        /// Unit of `allowed` and `found`.
        unit: &'static str,
        /// Maximum that is allowed.
        allowed: u64,
        /// Number that was requested or found.
        found: u64,
        /// Advice to the user on what to change.
        remedy: &'static str,
    },
    /// The content does not follow its format.
    #[error("{place}: expected {expected}, found {found}; {remedy}")]
    Malformed {
        /// Location of the wrong content.
        place: Place,
        /// Content that the format requires, as a phrase of the message.
        expected: String,
        /// Content that was found instead, as a phrase of the message.
        found: String,
        /// Advice to the user on what to change.
        remedy: &'static str,
    },
    /// An edge starts or ends at a vertex that does not exist.
    #[error("{place}: an edge names vertex {vertex}, but {known}; remove the edge or add the vertex")]
    UnknownVertex {
        /// Location of the edge. For edges in memory, the row is the index of the edge.
        place: Place,
        /// Vertex id as written in the input.
        vertex: String,
        /// Valid vertices, as a clause of the message.
        known: String,
    },
    /// The graph has no vertices.
    #[error(
        "{place}: the graph has no vertices, so there is nothing to train on; check that this is the intended file"
    )]
    EmptyGraph {
        /// Location of the graph.
        place: Place,
    },
    /// Two parts of a data set have different numbers of rows or columns.
    #[error("{place}: {found} {what}, but {other} has {expected}; the files do not belong together")]
    Mismatch {
        /// Location of the part that differs.
        place: Place,
        /// Name of the items that are counted, for instance `edges`.
        what: &'static str,
        /// Number of items at `place`.
        found: u64,
        /// Number of items that `other` has.
        expected: u64,
        /// Part of the data set that `place` was compared with.
        other: String,
    },
}

impl Error {
    /// Creates an [`Error::Malformed`] whose remedy is to download or write the file again.
    pub fn malformed(place: Place, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Malformed {
            place,
            expected: expected.into(),
            found: found.into(),
            remedy: "the file is damaged or has another format; download or write it again",
        }
    }
}

/// Result with the error type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
