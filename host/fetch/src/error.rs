//! Errors that occur when a data set is looked up, downloaded or copied.

use std::path::PathBuf;

/// Result of looking up or fetching a data set.
pub type Result<T> = std::result::Result<T, Error>;

/// Failure to look up, download or copy a data set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No data set of the catalogue has the requested name.
    #[error("unknown data set `{name}`{}; known data sets: {known}",
        nearest.as_ref().map(|n| format!(" (did you mean `{n}`?)")).unwrap_or_default())]
    UnknownSet {
        /// Requested name.
        name: String,
        /// Most similar name of the catalogue, or `None` if no name is similar.
        nearest: Option<String>,
        /// Names of all data sets, separated by commas.
        known: String,
    },
    /// The environment names no folder for downloaded data: `ECITON_DATA` is not set, and neither
    /// `XDG_CACHE_HOME` nor `HOME` is an absolute path.
    #[error(
        "no folder for data sets: ECITON_DATA is not set, and neither XDG_CACHE_HOME nor HOME is an absolute path; set ECITON_DATA to a folder"
    )]
    NoCache,
    /// The connection failed, or the transfer broke off, at every attempt.
    #[error(
        "{url}: {problem} ({attempts} attempt(s)); without a network, copy the file here in \
         another way and run `eciton data fetch {set} --from FOLDER`, or name a mirror with --mirror URL"
    )]
    Unreachable {
        /// Requested address.
        url: String,
        /// Name of the data set.
        set: &'static str,
        /// Reason that the network library or the operating system reported.
        problem: String,
        /// Number of attempts that were made.
        attempts: u32,
    },
    /// The server answered with an HTTP error status.
    #[error(
        "{url}: the server answered {status} ({attempts} attempt(s)); the file may have moved: copy it here \
         in another way and run `eciton data fetch {set} --from FOLDER`, or name a mirror with --mirror URL"
    )]
    Status {
        /// Requested address.
        url: String,
        /// Name of the data set.
        set: &'static str,
        /// HTTP status code.
        status: u16,
        /// Number of attempts that were made.
        attempts: u32,
    },
    /// The length of a file differs from the catalogue.
    #[error(
        "{origin}: found {found} bytes, but {file} has {expected} bytes; this is another file, and it was not stored"
    )]
    Length {
        /// Address or path that the file was read from.
        origin: String,
        /// File name in the catalogue.
        file: &'static str,
        /// Length in the catalogue, in bytes.
        expected: u64,
        /// Length found, in bytes. Reading stops at one byte more than `expected`, so a longer file
        /// has `expected + 1` here.
        found: u64,
    },
    /// The SHA-256 of a file differs from the catalogue, although its length is right.
    #[error(
        "{origin}: SHA-256 {found}, but {file} has {expected}; the file is damaged or was changed, and it was not stored"
    )]
    Checksum {
        /// Address or path that the file was read from.
        origin: String,
        /// File name in the catalogue.
        file: &'static str,
        /// SHA-256 in the catalogue, in hexadecimal digits.
        expected: &'static str,
        /// SHA-256 of the bytes that were read, in hexadecimal digits.
        found: String,
    },
    /// A file of the cache was changed or damaged after it was fetched.
    #[error(
        "{path}: the file is damaged or was changed since it was fetched: its SHA-256 is not {expected}; \
         `eciton data fetch {set}` fetches it again", path = path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Name of the data set.
        set: &'static str,
        /// SHA-256 in the catalogue, in hexadecimal digits.
        expected: &'static str,
    },
    /// A folder that the user gave lacks a file of the data set.
    #[error("{folder} contains neither {file} nor {within}/{file}; download {file} from {url}", folder = folder.display())]
    Missing {
        /// Folder that was searched.
        folder: PathBuf,
        /// Name of the absent file.
        file: &'static str,
        /// Subfolder that was searched too: the one in which a cache stores the file.
        within: &'static str,
        /// Address from which the file can be downloaded.
        url: String,
    },
    /// The URL of a mirror is not a valid HTTP address.
    #[error("`{url}` is not a web address; give http://HOST/PATH or https://HOST/PATH")]
    Address {
        /// URL as the user gave it.
        url: String,
    },
    /// The operating system has no root certificates, so the identity of servers cannot be checked.
    #[error(
        "no root certificates were found ({problem}); install the package ca-certificates or set SSL_CERT_FILE"
    )]
    NoCertificates {
        /// Reason that the operating system reported.
        problem: String,
    },
    /// The operating system refused to read or write a file or folder.
    #[error("{path}: {action}: {source}", path = path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Action that failed, as part of a sentence: `cannot be read`, for instance.
        action: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns whether another attempt may succeed. This is true for failed connections and for
    /// statuses 408, 429 and 5xx.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
            _ => false,
        }
    }
}
