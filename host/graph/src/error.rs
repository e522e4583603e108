//! What can go wrong when a graph or a data set is read or built.

use std::path::PathBuf;

use eciton_gather::error::Error as ListsError;
pub use eciton_gather::error::{Place, Position};

/// A failure to read or to build a graph or a data set. None of them is worth a retry: the input has
/// to change first.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{path}: cannot be read: {source}; check the path and its permissions", path = path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
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
    /// A pickle asks for a Python object that is not on the list of harmless ones.
    #[error(
        "{place}: the pickle asks for {global}, which this reader refuses (it knows arrays, sparse \
         rows, lists and dictionaries, and runs no code); do not open this file with Python's pickle \
         unless you trust who made it"
    )]
    ForbiddenGlobal {
        /// Where.
        place: Place,
        /// Module and name.
        global: String,
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
    /// A feature of a vertex or edge that is not a finite number.
    #[error("{place}: feature column {column} is {value}; replace or remove values that are not finite")]
    NotFinite {
        /// The row is the vertex or the edge.
        place: Place,
        /// From 0.
        column: u64,
        /// NaN or an infinity.
        value: f32,
    },
    /// A label that is no class.
    #[error("{place}: label {label}, but classes are 0..{classes}; use -1 or an empty field for no label")]
    LabelRange {
        /// The row is the vertex.
        place: Place,
        /// As found.
        label: i64,
        /// The number of classes.
        classes: u64,
    },
    /// A split names a vertex that does not exist or has no label.
    #[error("{place}: the {part} split names vertex {vertex}, {problem}; correct the split")]
    SplitVertex {
        /// Where; the row is the position in the split.
        place: Place,
        /// `train`, `validation` or `test`.
        part: &'static str,
        /// The vertex as written.
        vertex: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A split that cannot be drawn from these labels.
    #[error("the split cannot be drawn: {reason}")]
    DrawnSplit {
        /// Why not, and what to do.
        reason: String,
    },
    /// A vertex in two splits, or twice in one.
    #[error("{place}: vertex {vertex} is in the {first} and in the {second} split; keep one")]
    SplitOverlap {
        /// Where.
        place: Place,
        /// The vertex.
        vertex: u32,
        /// One split.
        first: &'static str,
        /// The other.
        second: &'static str,
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
    /// No built-in data set has this name.
    #[error("no built-in data set is called {name:?}{}; known: {}; a path to a file or folder works too",
        nearest.as_ref().map_or(String::new(), |n| format!(" (did you mean {n:?}?)")), known.join(", "))]
    UnknownDataset {
        /// As asked.
        name: String,
        /// The most similar known one, if any is similar.
        nearest: Option<String>,
        /// All known ones.
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
        /// The most similar one here, if any is similar.
        nearest: Option<String>,
        /// The names there are.
        names: Vec<String>,
    },
    /// A name was given where there is one data set.
    #[error("{path}: there is one data set here, and the name {name:?} chooses nothing; leave it out",
        path = path.display())]
    NameNotUsed {
        /// The file or folder.
        path: PathBuf,
        /// The name that was given.
        name: String,
    },
    /// Nothing here looks like a data set.
    #[error("{path}: found {}, which is no layout known here; known: {known}", if found.is_empty() {
        "nothing".to_owned() } else { eciton_input::text::listed(found) }, path = path.display())]
    UnknownLayout {
        /// The file or folder.
        path: PathBuf,
        /// What is in it (at most 20 names).
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
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Something lies where a result would go.
    #[error("{path}: {problem}", path = path.display())]
    Exists {
        /// The file or folder.
        path: PathBuf,
        /// What is in the way, and what to do.
        problem: &'static str,
    },
    /// A store of another version.
    #[error("{path}: a store of version {found}, but this program reads versions 1 to {known}; convert the \
        data again with this program, or open it with the one that wrote it", path = path.display())]
    StoreVersion {
        /// `store.json`.
        path: PathBuf,
        /// The version that the store has.
        found: u64,
        /// The latest version that is known here.
        known: u64,
    },
    /// A file of a store is not the one that was written.
    #[error("{path}: the checksum is {found:08x}, but {expected:08x} was written; the file was changed \
        or damaged, convert the data again", path = path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// What the store says.
        expected: u32,
        /// What the bytes say.
        found: u32,
    },
    /// Rows cannot be held in memory.
    #[error("{what}: {source}")]
    Memory {
        /// Which rows.
        what: &'static str,
        /// What is in the way.
        source: eciton_tensor::Error,
    },
    /// A parameter of a generator is outside its limits.
    #[error("{name} is {found}, but must be {allowed}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// As given.
        found: String,
        /// What it may be.
        allowed: String,
    },
    /// A graph without links is to be split by links.
    #[error("{place}: no edge joins two different vertices; there are no links to predict")]
    NoLinks {
        /// Where.
        place: Place,
    },
    /// No pair of vertices without a link was found: nearly all are linked, or all of them.
    #[error("{place}: {attempts} draws found {} {links} of {possible} possible links; {remedy}",
        match vertex {
            Some(vertex) => format!("no vertex without a link to vertex {vertex}, which has"),
            None => "no pair of vertices without a link in the graph, which has".to_owned(),
        })]
    NoPair {
        /// Where; the row is the pair's position.
        place: Place,
        /// The end of a held-out link that the pair was to have, if it was to have one.
        vertex: Option<u32>,
        /// How many pairs were tried.
        attempts: u32,
        /// How many links the vertex has, or the graph.
        links: u64,
        /// How many it could have.
        possible: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// A long operation ended because its caller asked for it.
    #[error("stopped before the end; nothing was kept")]
    Stopped,
}

impl Error {
    /// Names what rows an error of tensors is about.
    pub(crate) fn memory(what: &'static str) -> impl Fn(eciton_tensor::Error) -> Self {
        move |source| Self::Memory { what, source }
    }

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

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;
