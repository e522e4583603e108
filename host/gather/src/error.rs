//! Errors of lists of neighbours and of rows to gather, and the places that they name.

use std::fmt;

/// Location of an error: a file or an entry of an archive, and the position in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the file. The entry of an archive follows after `!`. For values that were not in a
    /// file it is their name, for instance `edges`.
    pub file: String,
    /// Position in the file.
    pub position: Position,
}

/// A position within a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The file as a whole.
    Whole,
    /// A byte, from 0.
    Byte(u64),
    /// A line of text, from 1.
    Line(u64),
    /// A row of an array, from 0.
    Row(u64),
}

impl Place {
    /// The file as a whole.
    pub fn whole(file: impl Into<String>) -> Self {
        Self { file: file.into(), position: Position::Whole }
    }

    /// A byte of the file, from 0.
    pub fn byte(file: impl Into<String>, byte: u64) -> Self {
        Self { file: file.into(), position: Position::Byte(byte) }
    }

    /// A line of the file, from 1.
    pub fn line(file: impl Into<String>, line: u64) -> Self {
        Self { file: file.into(), position: Position::Line(line) }
    }

    /// A row of the array in the file, from 0.
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

/// Reasons why lists of neighbours or rows are refused. None is worth a retry.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A stated limit was passed.
    #[error("{place}: {found} {unit}, above the limit {limit} of {allowed} {unit}; {remedy}")]
    Limit {
        /// The location.
        place: Place,
        /// The limit's name.
        limit: &'static str,
        /// The unit of both figures.
        unit: &'static str,
        /// The maximum.
        allowed: u64,
        /// The number requested.
        found: u64,
        /// The remedy.
        remedy: &'static str,
    },
    /// The bytes are not what the format says they should be.
    #[error("{place}: expected {expected}, found {found}; {remedy}")]
    Malformed {
        /// The location.
        place: Place,
        /// The content that the format requires.
        expected: String,
        /// The content found.
        found: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// An edge to or from a vertex that does not exist.
    #[error("{place}: an edge names vertex {vertex}, but {known}; remove the edge or add the vertex")]
    UnknownVertex {
        /// The location. For edges in memory its row is the index of the edge.
        place: Place,
        /// The vertex as written.
        vertex: String,
        /// The vertices that exist.
        known: String,
    },
    /// A graph without vertices.
    #[error("{place}: the graph has no vertices; there is nothing to train on")]
    EmptyGraph {
        /// The location.
        place: Place,
    },
    /// Two parts of a data set have different numbers of rows or columns.
    #[error("{place}: {found} {what}, but {other} says {expected}; the files do not belong together")]
    Mismatch {
        /// The location.
        place: Place,
        /// Name of the rows or columns that are counted.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The number expected.
        expected: u64,
        /// The source of the expected number.
        other: String,
    },
}

impl Error {
    /// A [`Error::Malformed`] whose remedy is to fetch the file again.
    pub fn malformed(place: Place, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Malformed {
            place,
            expected: expected.into(),
            found: found.into(),
            remedy: "the file is damaged or of another kind; fetch or write it again",
        }
    }
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;
