//! What can go wrong with a run folder.

use std::path::{Path, PathBuf};

/// The result of working with run folders.
pub type Result<T> = std::result::Result<T, Error>;

/// A run folder that cannot be written or read. None is worth a retry before something has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path that names no folder: empty, `/`, or ending in `..`.
    #[error("{:?} names no folder that could be made; give one a name, for instance runs/first", path.display().to_string())]
    Name {
        /// As given.
        path: PathBuf,
    },
    /// Something is there already.
    #[error("{}: a run folder must be new or empty, but here is {found}; choose another folder, or remove this one", path.display())]
    Occupied {
        /// As given.
        path: PathBuf,
        /// What is there.
        found: String,
    },
    /// The operating system refused to write.
    #[error("{}: cannot be written: {source}; check that its folder can be written to and that the disk (and `ulimit -f`) has room", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// All is written, but could not be put in its place.
    #[error("{}: the finished run cannot be put here: {source}; it is whole in {}: move it", path.display(), kept.display())]
    Publish {
        /// Where it should be.
        path: PathBuf,
        /// Where it is.
        kept: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A run was to be finished before all was written; a bug of the caller.
    #[error("{}: the run cannot be finished without {file}; write it first", path.display())]
    Unfinished {
        /// The run folder.
        path: PathBuf,
        /// What is missing.
        file: &'static str,
    },
    /// Values that do not fit together; a bug of the caller.
    #[error("{}: {what} must be {expected}, found {found}", path.display())]
    Values {
        /// The file that was to be written.
        path: PathBuf,
        /// Which values.
        what: String,
        /// What they must be.
        expected: String,
        /// What they are.
        found: String,
    },
    /// The operating system refused to read.
    #[error("{}: cannot be read: {source}; check the path and its permissions", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// No run folder.
    #[error("{}: not a run folder: {found}; give the folder that `eciton train --out` wrote", path.display())]
    NotARun {
        /// As given.
        path: PathBuf,
        /// What is there.
        found: String,
    },
    /// A run without one of its files.
    #[error("{}: the file is missing from the run; restore it, or train again", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A run that has no such seed.
    #[error("{}: the run has no seed {seed}; it has {known}", path.display())]
    UnknownSeed {
        /// The run folder.
        path: PathBuf,
        /// What was asked for.
        seed: u64,
        /// Its seeds.
        known: String,
    },
    /// A file that is not what it should be.
    #[error("{}: expected {expected}, found {found}; the file is damaged or not Eciton's: restore it, or train again", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A summary that a later or an odd version wrote.
    #[error(
        "{}: format {found} (written by eciton {eciton}), but this is eciton {}, which reads format {known}; \
         use the version that wrote it, or train again", path.display(), super::ECITON_VERSION
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The version that wrote it.
        eciton: String,
        /// The format that is read here.
        known: u64,
    },
    /// Weights that are not the ones that were written.
    #[error("{}: the content has digest {found}, but {place} says {expected}; the file is damaged or from another run: restore it, or train again", path.display())]
    Digest {
        /// The model file.
        path: PathBuf,
        /// Who says so.
        place: &'static str,
        /// What is said.
        expected: String,
        /// Of the weights as they are.
        found: String,
    },
    /// More of something than is written or read.
    #[error("{}: {what}: {found} {unit}, above the limit of {allowed}", path.display())]
    Limit {
        /// The file.
        path: PathBuf,
        /// Of what.
        what: &'static str,
        /// The unit of both figures.
        unit: &'static str,
        /// The most that is allowed.
        allowed: u64,
        /// What there is.
        found: u64,
    },
    /// The configuration cannot be written or read.
    #[error("{}: {source}", path.display())]
    Config {
        /// `config.toml`.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<eciton_plan::Error>,
    },
}

/// Names what could not be written.
pub(crate) fn writing(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Write { path: path.to_owned(), source }
}

/// Names what could not be read.
pub(crate) fn reading(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Read { path: path.to_owned(), source }
}

/// A value as an error shows it: at most 80 characters, control characters escaped.
pub(super) fn shown(text: &str) -> String {
    eciton_input::text::cut(text, 80)
}
