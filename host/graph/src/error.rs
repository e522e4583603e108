//! Errors of reading and building graphs and data sets.

use std::path::PathBuf;

use eciton_gather::error::Error as ListsError;
pub use eciton_gather::error::{Place, Position};

/// A failure to read or to build a graph or a data set. A retry does not help: the input has to
/// change first.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read a file or folder.
    #[error("{path}: cannot be read: {source}; check the path and its permissions", path = path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
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
        /// The maximum that is allowed.
        allowed: u64,
        /// The number that was requested or found.
        found: u64,
        /// Advice to the user on what to change.
        remedy: &'static str,
    },
    /// The content does not follow its format.
    #[error("{place}: expected {expected}, found {found}; {remedy}")]
    Malformed {
        /// Location of the wrong content.
        place: Place,
        /// The content that the format requires.
        expected: String,
        /// The content that was found.
        found: String,
        /// Advice to the user on what to change.
        remedy: &'static str,
    },
    /// A pickle asks for a Python object that is not on the list of harmless ones.
    #[error(
        "{place}: the pickle asks for {global}, which this reader refuses (it knows arrays, sparse \
         rows, lists and dictionaries, and runs no code); do not open this file with Python's pickle \
         unless you trust who made it"
    )]
    ForbiddenGlobal {
        /// Location in the pickle.
        place: Place,
        /// Module and name of the Python object.
        global: String,
    },
    /// An edge to or from a vertex that does not exist.
    #[error("{place}: an edge names vertex {vertex}, but {known}; remove the edge or add the vertex")]
    UnknownVertex {
        /// Location of the edge. For edges from memory, the row is the edge's index.
        place: Place,
        /// The vertex as written.
        vertex: String,
        /// Valid vertices, as a clause of the message.
        known: String,
    },
    /// A graph without vertices.
    #[error("{place}: the graph has no vertices; there is nothing to train on")]
    EmptyGraph {
        /// Location of the graph.
        place: Place,
    },
    /// A feature of a vertex or edge that is not a finite number.
    #[error("{place}: feature column {column} is {value}; replace or remove values that are not finite")]
    NotFinite {
        /// Location of the feature. Its row is the vertex or the edge.
        place: Place,
        /// Index of the column, from 0.
        column: u64,
        /// The value: NaN or an infinity.
        value: f32,
    },
    /// A label outside the range of classes.
    #[error("{place}: label {label}, but classes are 0..{classes}; use -1 or an empty field for no label")]
    LabelRange {
        /// Location of the label. Its row is the vertex.
        place: Place,
        /// The label as found in the file.
        label: i64,
        /// The number of classes.
        classes: u64,
    },
    /// A split names a vertex that does not exist or has no label.
    #[error("{place}: the {part} split names vertex {vertex}, {problem}; correct the split")]
    SplitVertex {
        /// Location of the entry. Its row is the index in the split.
        place: Place,
        /// `train`, `validation` or `test`.
        part: &'static str,
        /// The vertex as written.
        vertex: String,
        /// The reason why the split cannot name this vertex, as a clause of the message.
        problem: &'static str,
    },
    /// A split that cannot be drawn from these labels.
    #[error("the split cannot be drawn: {reason}")]
    DrawnSplit {
        /// The reason and advice to the user.
        reason: String,
    },
    /// A vertex in two splits, or twice in one.
    #[error("{place}: vertex {vertex} is in the {first} and in the {second} split; keep one")]
    SplitOverlap {
        /// Location of the second occurrence.
        place: Place,
        /// The vertex.
        vertex: u32,
        /// The split of the first occurrence.
        first: &'static str,
        /// The split of the second occurrence.
        second: &'static str,
    },
    /// Two parts of a data set have different numbers of rows or columns.
    #[error("{place}: {found} {what}, but {other} says {expected}; the files do not belong together")]
    Mismatch {
        /// Location of the part that differs.
        place: Place,
        /// Name of the items that are counted.
        what: &'static str,
        /// The number of items at `place`.
        found: u64,
        /// The number of items that `other` has.
        expected: u64,
        /// The part of the data set that `place` was compared with.
        other: String,
    },
    /// No built-in data set has this name.
    #[error("no built-in data set is called {name:?}{}; known: {}; a path to a file or folder works too",
        nearest.as_ref().map_or(String::new(), |n| format!(" (did you mean {n:?}?)")), known.join(", "))]
    UnknownDataset {
        /// The name that was requested.
        name: String,
        /// The most similar known name, if any is similar.
        nearest: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// A folder holds several data sets, or not the one that was named.
    #[error("{path}: {}; give one of these names: {}", match name {
        Some(name) => format!("there is no data set {name:?} here{}",
            nearest.as_ref().map_or(String::new(), |n| format!(" (did you mean {n:?}?)"))),
        None => format!("there are {} data sets here", names.len()),
    }, eciton_input::text::listed(names), path = path.display())]
    ChooseName {
        /// The folder.
        path: PathBuf,
        /// The name that was given.
        name: Option<String>,
        /// The most similar name in the folder, if any is similar.
        nearest: Option<String>,
        /// The names of the data sets in the folder.
        names: Vec<String>,
    },
    /// A name was given for a file or folder that holds only one data set.
    #[error("{path}: there is one data set here, and the name {name:?} chooses nothing; leave it out",
        path = path.display())]
    NameNotUsed {
        /// The file or folder.
        path: PathBuf,
        /// The name that was given.
        name: String,
    },
    /// The file or folder has no known layout of a data set.
    #[error("{path}: found {}, which is no layout known here; known: {known}", if found.is_empty() {
        "nothing".to_owned() } else { eciton_input::text::listed(found) }, path = path.display())]
    UnknownLayout {
        /// The file or folder.
        path: PathBuf,
        /// Names of at most 20 files in it.
        found: Vec<String>,
        /// The layouts that would be recognised.
        known: &'static str,
    },
    /// The operating system refused to write.
    #[error("{path}: cannot be written: {source}; check the free space and the folder's permissions",
        path = path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A result cannot be placed at a path, for instance because something exists there.
    #[error("{path}: {problem}", path = path.display())]
    Exists {
        /// The file or folder.
        path: PathBuf,
        /// The reason and advice to the user.
        problem: &'static str,
    },
    /// A store of a version that this program does not read.
    #[error("{path}: a store of version {found}, but this program reads versions 1 to {known}; convert the \
        data again with this program, or open it with the one that wrote it", path = path.display())]
    StoreVersion {
        /// `store.json`.
        path: PathBuf,
        /// The version that the store has.
        found: u64,
        /// The latest version that this program reads.
        known: u64,
    },
    /// The content of a file of a store differs from what was written.
    #[error("{path}: the checksum is {found:08x}, but {expected:08x} was written; the file was changed \
        or damaged, convert the data again", path = path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// The checksum that the store recorded.
        expected: u32,
        /// The checksum of the bytes that were read.
        found: u32,
    },
    /// Rows cannot be held in memory.
    #[error("{what}: {source}")]
    Memory {
        /// Name of the rows, for instance `features`.
        what: &'static str,
        /// The error of the memory buffer.
        source: eciton_tensor::Error,
    },
    /// A parameter of a generator is outside its limits.
    #[error("{name} is {found}, but must be {allowed}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// The value that was given.
        found: String,
        /// Range or description of the allowed values.
        allowed: String,
    },
    /// A split by links was requested for a graph without links.
    #[error("{place}: no edge joins two different vertices; there are no links to predict")]
    NoLinks {
        /// Location of the graph.
        place: Place,
    },
    /// The draws found no pair of vertices without a link, because nearly all or all pairs are
    /// linked.
    #[error("{place}: {attempts} draws found {} {links} of {possible} possible links; {remedy}",
        match vertex {
            Some(vertex) => format!("no vertex without a link to vertex {vertex}, which has"),
            None => "no pair of vertices without a link in the graph, which has".to_owned(),
        })]
    NoPair {
        /// Location of the pair. Its row is the index of the pair.
        place: Place,
        /// The end of a held-out link that the pair was to have, if it was to have one.
        vertex: Option<u32>,
        /// The number of pairs that were tried.
        attempts: u32,
        /// The number of links of the vertex, or of the graph if there is no `vertex`.
        links: u64,
        /// The number of links that the vertex or the graph could have.
        possible: u64,
        /// Advice to the user on what to change.
        remedy: &'static str,
    },
    /// A long operation ended because its caller requested it.
    #[error("stopped before the end; nothing was kept")]
    Stopped,
}

impl Error {
    /// Returns a function that turns a tensor error into [`Error::Memory`] for the rows `what`.
    pub(crate) fn memory(what: &'static str) -> impl Fn(eciton_tensor::Error) -> Self {
        move |source| Self::Memory { what, source }
    }

    /// Returns an [`Error::Malformed`] whose remedy is to fetch the file again.
    pub fn malformed(place: Place, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Malformed {
            place,
            expected: expected.into(),
            found: found.into(),
            remedy: "the file is damaged or of another kind; fetch or write it again",
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
