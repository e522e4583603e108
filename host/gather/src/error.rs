//! Errors of lists of neighbours and of rows to gather, and the places that they name.

use std::fmt;

/// Where in which file (or entry of an archive) something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file's name, with the archive's entry after a `!` if there is one; for values that never
    /// were in a file, what they are (for instance `edges`).
    pub file: String,
    /// The position within it.
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
        /// Where.
        place: Place,
        /// The limit's name.
        limit: &'static str,
        /// The unit of both figures.
        unit: &'static str,
        /// The most that is allowed.
        allowed: u64,
        /// What was asked for.
        found: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// The bytes are not what the format says they should be.
    #[error("{place}: expected {expected}, found {found}; {remedy}")]
    Malformed {
        /// Where.
        place: Place,
        /// What the format asks for.
        expected: String,
        /// What is there.
        found: String,
        /// What to do.
        remedy: &'static str,
    },
    /// An edge to or from a vertex that does not exist.
    #[error("{place}: an edge names vertex {vertex}, but {known}; remove the edge or add the vertex")]
    UnknownVertex {
        /// Where; for edges from memory, the row is the edge's position.
        place: Place,
        /// The vertex as written.
        vertex: String,
        /// Which vertices there are.
        known: String,
    },
    /// A graph without vertices.
    #[error("{place}: the graph has no vertices; there is nothing to train on")]
    EmptyGraph {
        /// Where.
        place: Place,
    },
    /// Two parts of a data set have different numbers of rows or columns.
    #[error("{place}: {found} {what}, but {other} says {expected}; the files do not belong together")]
    Mismatch {
        /// Where.
        place: Place,
        /// What is counted.
        what: &'static str,
        /// How many there are here.
        found: u64,
        /// How many there should be.
        expected: u64,
        /// Who says so.
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
