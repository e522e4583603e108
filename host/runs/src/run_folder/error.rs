//! Errors of reading and writing run folders.

use std::path::{Path, PathBuf};

/// Result type of the run folder operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of writing or reading a run folder. A retry fails again unless the cause is removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path without a folder name: empty, `/`, or ending in `..`.
    #[error("{:?} is not the name of a folder; give a name, for instance runs/first",
            path.display().to_string())]
    Name {
        /// Path as given.
        path: PathBuf,
    },
    /// The folder exists and is not empty.
    #[error("{}: a run folder must be new or empty, but this is {found}; choose another folder, or remove \
             this one", path.display())]
    Occupied {
        /// Path as given.
        path: PathBuf,
        /// Description of the existing content.
        found: String,
    },
    /// The operating system refused to write.
    #[error("{}: cannot be written: {source}; check the permissions of its folder, the free space of the \
             disk, and the limit `ulimit -f`", path.display())]
    Write {
        /// File or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The run is completely written, but could not be moved to its final path.
    #[error("{}: the finished run cannot be moved here: {source}; its folder is {}, which is complete; \
             move it", path.display(), kept.display())]
    Publish {
        /// Final path of the run folder.
        path: PathBuf,
        /// Current path of the run folder.
        kept: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The caller finished a run before all of it was written. This is a bug of the caller.
    #[error("{}: the run cannot be finished without {file}; write it first", path.display())]
    Unfinished {
        /// Run folder.
        path: PathBuf,
        /// Name of the missing file.
        file: &'static str,
    },
    /// Values that do not match each other. This is a bug of the caller.
    #[error("{}: {what} must be {expected}, found {found}", path.display())]
    Values {
        /// File that was to be written.
        path: PathBuf,
        /// Description of the values.
        what: String,
        /// Expected values.
        expected: String,
        /// Values found.
        found: String,
    },
    /// The operating system refused to read.
    #[error("{}: cannot be read: {source}; check the path and its permissions", path.display())]
    Read {
        /// File or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The path is not a run folder.
    #[error("{}: not a run folder, because {found}; give the folder that `eciton train --out` wrote",
            path.display())]
    NotARun {
        /// Path as given.
        path: PathBuf,
        /// Description of what the path contains.
        found: String,
    },
    /// A file is missing from the run folder.
    #[error("{}: the file is missing from the run; restore it, or train again", path.display())]
    Missing {
        /// Missing file.
        path: PathBuf,
    },
    /// The run has no such seed.
    #[error("{}: the run has no seed {seed}; its seeds are {known}", path.display())]
    UnknownSeed {
        /// Run folder.
        path: PathBuf,
        /// Requested seed.
        seed: u64,
        /// Seeds of the run.
        known: String,
    },
    /// The content of a file is not valid.
    #[error("{}: expected {expected}, found {found}; the file is damaged or was not written by Eciton; \
             restore it, or train again", path.display())]
    Malformed {
        /// File.
        path: PathBuf,
        /// Expected content.
        expected: String,
        /// Content found.
        found: String,
    },
    /// A summary written by a later or unknown version.
    #[error("{}: format {found} (written by eciton {eciton}), but this is eciton {}, which reads format \
             {known}; use the version that wrote it, or train again",
            path.display(), super::layout::ECITON_VERSION)]
    Version {
        /// File.
        path: PathBuf,
        /// Format number of the file.
        found: u64,
        /// Version of eciton that wrote the file.
        eciton: String,
        /// Format number that this version reads.
        known: u64,
    },
    /// The weights differ from those that were written.
    #[error("{}: the content has the digest {found}, but {place} records {expected}; the file is damaged \
             or belongs to another run; restore it, or train again", path.display())]
    Digest {
        /// Model file.
        path: PathBuf,
        /// Name of the record that has the expected digest.
        place: &'static str,
        /// Digest in that record.
        expected: String,
        /// Digest of the weights in the file.
        found: String,
    },
    /// A size or number above a limit.
    #[error("{}: {what}: found {found} {unit}, but the maximum is {allowed}", path.display())]
    Limit {
        /// File.
        path: PathBuf,
        /// Description of the limited size or number.
        what: &'static str,
        /// Unit of both figures.
        unit: &'static str,
        /// Maximum.
        allowed: u64,
        /// Value found.
        found: u64,
    },
    /// The configuration cannot be written or read.
    #[error("{}: {source}", path.display())]
    Config {
        /// Path of `config.toml`.
        path: PathBuf,
        /// Error in the configuration.
        source: Box<eciton_recipe::Error>,
    },
}

/// Returns a function that adds the path of a file to a write error.
pub fn writing(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Write { path: path.to_owned(), source }
}

/// Returns a function that adds the path of a file to a read error.
pub fn reading(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Read { path: path.to_owned(), source }
}

/// Returns the error of a file whose content is not valid.
pub fn malformed(path: &Path, expected: &str, found: &str) -> Error {
    Error::Malformed { path: path.to_owned(), expected: expected.to_owned(), found: shown(found) }
}

/// Checks that a size or number is not above a limit.
///
/// # Errors
/// Returns [`Error::Limit`] if the number found is above the limit.
pub fn limit(path: &Path, what: &'static str, unit: &'static str, allowed: u64, found: u64) -> Result<()> {
    if found <= allowed {
        return Ok(());
    }
    Err(Error::Limit { path: path.to_owned(), what, unit, allowed, found })
}

/// Returns a value as an error shows it: at most 80 characters, control characters escaped.
pub(super) fn shown(text: &str) -> String {
    eciton_input::text::cut(text, 80)
}
