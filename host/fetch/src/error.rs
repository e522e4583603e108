//! Errors of finding and downloading data sets.

use std::path::PathBuf;

/// The result of fetching.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure to find or to fetch a data set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No set has this name.
    #[error("no published data set is called `{name}`{}; known: {known}",
        nearest.as_ref().map(|n| format!(" (did you mean `{n}`?)")).unwrap_or_default())]
    UnknownSet {
        /// The name requested.
        name: String,
        /// The most similar name, if any is similar.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
    /// Nowhere to keep files.
    #[error(
        "there is no folder for data: set ECITON_DATA to one (neither HOME nor XDG_CACHE_HOME is an absolute path)"
    )]
    NoCache,
    /// The address could not be reached, or the transfer broke off.
    #[error(
        "{url}: {problem} ({attempts} attempt(s)); where there is no network, bring the file here in \
         another way and run `eciton data fetch {set} --from FOLDER`, or name a mirror with --mirror URL"
    )]
    Unreachable {
        /// The address.
        url: String,
        /// The set.
        set: &'static str,
        /// The problem.
        problem: String,
        /// Number of attempts.
        attempts: u32,
    },
    /// The server has no such file, or does not give it.
    #[error(
        "{url}: the server answered {status} ({attempts} attempt(s)); the file may have moved: bring it here \
         in another way and run `eciton data fetch {set} --from FOLDER`, or name a mirror with --mirror URL"
    )]
    Status {
        /// The address.
        url: String,
        /// The set.
        set: &'static str,
        /// The HTTP status.
        status: u16,
        /// Number of attempts.
        attempts: u32,
    },
    /// A file of another length.
    #[error("{origin}: {found} bytes, but {file} has {expected}; this is another file, and was not kept")]
    Length {
        /// The address or path.
        origin: String,
        /// The file's name.
        file: &'static str,
        /// The published size.
        expected: u64,
        /// The size found. If the file is longer than published, this is the published size plus 1.
        found: u64,
    },
    /// A file of the right length and other content.
    #[error(
        "{origin}: SHA-256 {found}, but {file} has {expected}; the file is damaged or was changed, and was not kept"
    )]
    Checksum {
        /// The address or path.
        origin: String,
        /// The file's name.
        file: &'static str,
        /// The published checksum, in hexadecimal digits.
        expected: &'static str,
        /// The checksum found.
        found: String,
    },
    /// A file of the cache that changed after it was fetched.
    #[error(
        "{path}: the file is damaged or was changed since it was fetched: its SHA-256 is not {expected}; \
         `eciton data fetch {set}` fetches it again", path = path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Name of the set.
        set: &'static str,
        /// SHA-256 of the catalogue, hexadecimal.
        expected: &'static str,
    },
    /// A folder lacks a file.
    #[error("{folder} has neither {file} nor {within}/{file}; it is published at {url}", folder = folder.display())]
    Missing {
        /// The folder.
        folder: PathBuf,
        /// The file's name.
        file: &'static str,
        /// The folder that it has in a cache.
        within: &'static str,
        /// Address of the publication.
        url: String,
    },
    /// An address that is none.
    #[error("`{url}` is no address; give http://HOST/PATH or https://HOST/PATH")]
    Address {
        /// The address given.
        url: String,
    },
    /// No certificates to check servers with.
    #[error(
        "no root certificates were found ({problem}); install the package ca-certificates or set SSL_CERT_FILE"
    )]
    NoCertificates {
        /// The problem.
        problem: String,
    },
    /// The operating system refused.
    #[error("{path}: {action}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The action that failed.
        action: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns whether another attempt may succeed, which is so for failures of the network and the
    /// server.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
            _ => false,
        }
    }
}
