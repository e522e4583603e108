//! Errors of reading and building graphs and data sets.

use std::path::PathBuf;

use eciton_gather::error::Error as ListsError;
pub use eciton_gather::error::{Place, Position};

/// Failure to read or to build a graph or a data set. A retry fails in the same way unless the
/// input changes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read a file or folder.
    #[error("{path}: cannot be read: {source}; check that the path exists and that you may read it", path = path.display())]
    Read {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
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
    /// A pickle asks for a Python object that is not on the reader's list of harmless objects.
    #[error(
        "{place}: the pickle asks for {global}, which this reader refuses (it reads arrays, sparse \
         rows, lists and dictionaries, and executes no code); do not open this file with Python's pickle \
         unless you trust who made it"
    )]
    ForbiddenGlobal {
        /// Location in the pickle.
        place: Place,
        /// Module and name of the Python object.
        global: String,
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
    /// A feature of a vertex or edge is not a finite number.
    #[error("{place}: feature column {column} is {value}; replace or remove values that are not finite")]
    NotFinite {
        /// Location of the feature. Its row is the vertex or the edge.
        place: Place,
        /// Index of the column, from 0.
        column: u64,
        /// The value: NaN or an infinity.
        value: f32,
    },
    /// A label is outside the range of classes.
    #[error("{place}: label {label}, but classes are 0..{classes}; use -1 or an empty field for no label")]
    LabelRange {
        /// Location of the label. Its row is the vertex.
        place: Place,
        /// Label as found in the file.
        label: i64,
        /// Number of classes.
        classes: u64,
    },
    /// A split names a vertex that does not exist or has no label.
    #[error("{place}: the {part} split names vertex {vertex}, {problem}; correct the split")]
    SplitVertex {
        /// Location of the entry. Its row is the index in the split.
        place: Place,
        /// Split that names the vertex: `train`, `validation` or `test`.
        part: &'static str,
        /// Vertex id as written in the input.
        vertex: String,
        /// Reason why the split cannot name this vertex, as a clause of the message.
        problem: &'static str,
    },
    /// The requested split cannot be drawn from these labels.
    #[error("cannot draw the split: {reason}")]
    DrawnSplit {
        /// Reason, and advice to the user on what to change.
        reason: String,
    },
    /// A vertex is in two splits, or twice in one.
    #[error(
        "{place}: vertex {vertex} is in the {first} and in the {second} split; remove one of the two entries"
    )]
    SplitOverlap {
        /// Location of the second occurrence.
        place: Place,
        /// Vertex id that occurs twice.
        vertex: u32,
        /// Split of the first occurrence.
        first: &'static str,
        /// Split of the second occurrence.
        second: &'static str,
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
    /// No built-in data set has this name.
    #[error("unknown data set {name:?}{}; built-in data sets: {}; or give the path of a file or folder",
        nearest.as_ref().map_or(String::new(), |n| format!(" (did you mean {n:?}?)")), known.join(", "))]
    UnknownDataset {
        /// Name that was requested.
        name: String,
        /// Most similar known name, or `None` if no name is similar.
        nearest: Option<String>,
        /// Names of all built-in data sets.
        known: Vec<String>,
    },
    /// A folder contains several data sets, and no name or an unknown name was given.
    #[error("{path}: {}; choose one of these names: {}", match name {
        Some(name) => format!("no data set {name:?} in this folder{}",
            nearest.as_ref().map_or(String::new(), |n| format!(" (did you mean {n:?}?)"))),
        None => format!("this folder contains {} data sets", names.len()),
    }, eciton_input::text::listed(names), path = path.display())]
    ChooseName {
        /// Path of the folder.
        path: PathBuf,
        /// Name that was given, or `None`.
        name: Option<String>,
        /// Most similar name in the folder, or `None` if no name is similar.
        nearest: Option<String>,
        /// Names of the data sets in the folder.
        names: Vec<String>,
    },
    /// A name was given for a file or folder that contains only one data set.
    #[error("{path}: the name {name:?} is not needed, because this path contains a single data set; remove the name",
        path = path.display())]
    NameNotUsed {
        /// Path of the file or folder.
        path: PathBuf,
        /// Name that was given.
        name: String,
    },
    /// The file or folder does not have the layout of a known data set format.
    #[error("{path}: not a known data set layout: found {}, expected one of: {known}", if found.is_empty() {
        "nothing".to_owned() } else { eciton_input::text::listed(found) }, path = path.display())]
    UnknownLayout {
        /// Path of the file or folder.
        path: PathBuf,
        /// Names of at most 20 files in the folder.
        found: Vec<String>,
        /// Layouts that the readers recognise, for the message.
        known: &'static str,
    },
    /// The operating system refused to write a file or folder.
    #[error("{path}: cannot be written: {source}; check the free space and the folder's permissions",
        path = path.display())]
    Write {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A result cannot be written under a path, for instance because the path exists.
    #[error("{path}: {problem}", path = path.display())]
    Exists {
        /// Path of the result.
        path: PathBuf,
        /// Reason, and advice to the user on what to change.
        problem: &'static str,
    },
    /// The store has a version that this program does not read.
    #[error("{path}: this store has version {found}, but this program reads versions 1 to {known}; convert the \
        data again with this program, or open it with the one that wrote it", path = path.display())]
    StoreVersion {
        /// Path of the store's `store.json`.
        path: PathBuf,
        /// Version of the store.
        found: u64,
        /// Latest version that this program reads.
        known: u64,
    },
    /// The content of a store's file differs from what was written.
    #[error("{path}: the checksum is {found:08x}, but the store recorded {expected:08x}; the file was changed \
        or damaged: convert the data again", path = path.display())]
    Checksum {
        /// Path of the file.
        path: PathBuf,
        /// Checksum that the store recorded.
        expected: u32,
        /// Checksum of the bytes that were read.
        found: u32,
    },
    /// The memory for rows could not be allocated.
    #[error("{what}: {source}")]
    Memory {
        /// Name of the rows, for instance `features`.
        what: &'static str,
        /// Error of the memory buffer.
        source: eciton_tensor::Error,
    },
    /// A parameter is outside its allowed range.
    #[error("{name} is {found}, but must be {allowed}")]
    Parameter {
        /// Name of the parameter, as the message shows it.
        name: &'static str,
        /// Value that was given.
        found: String,
        /// Range or description of the allowed values.
        allowed: String,
    },
    /// Links were to be held out of a graph without links.
    #[error("{place}: no edge joins two different vertices, so there are no links to predict")]
    NoLinks {
        /// Location of the graph.
        place: Place,
    },
    /// Random draws found no pair of vertices without a link, because nearly all pairs are linked.
    #[error("{place}: {attempts} draws found {} {links} of {possible} possible links; {remedy}",
        match vertex {
            Some(vertex) => format!("no vertex without a link to vertex {vertex}, which has"),
            None => "no pair of vertices without a link in the graph, which has".to_owned(),
        })]
    NoPair {
        /// Location of the pair. Its row is the index of the pair.
        place: Place,
        /// Vertex that the pair was to contain, or `None` if any two vertices were allowed.
        vertex: Option<u32>,
        /// Number of pairs that were tried.
        attempts: u32,
        /// Number of links of `vertex`, or of the graph if there is no `vertex`.
        links: u64,
        /// Number of links that the vertex or the graph could have.
        possible: u64,
        /// Advice to the user on what to change.
        remedy: &'static str,
    },
    /// The caller stopped a long operation before its end.
    #[error("stopped before the end; nothing was written")]
    Stopped,
}

impl Error {
    /// Returns a function that converts a tensor error to [`Error::Memory`]. `what` names the rows.
    pub(crate) fn memory(what: &'static str) -> impl Fn(eciton_tensor::Error) -> Self {
        move |source| Self::Memory { what, source }
    }

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

impl From<ListsError> for Error {
    fn from(error: ListsError) -> Self {
        match error {
            ListsError::Limit { place, limit, unit, allowed, found, remedy } => {
                Self::Limit { place, limit, unit, allowed, found, remedy }
            }
            ListsError::Malformed { place, expected, found, remedy } => {
                Self::Malformed { place, expected, found, remedy }
            }
            ListsError::UnknownVertex { place, vertex, known } => {
                Self::UnknownVertex { place, vertex, known }
            }
            ListsError::EmptyGraph { place } => Self::EmptyGraph { place },
            ListsError::Mismatch { place, what, found, expected, other } => {
                Self::Mismatch { place, what, found, expected, other }
            }
        }
    }
}

/// Result with the error type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
