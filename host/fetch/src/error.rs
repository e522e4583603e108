//! Errors of looking up, downloading or copying a data set.

use std::path::PathBuf;

/// Result of looking up, downloading or copying a data set.
pub type Result<T> = std::result::Result<T, Error>;

/// Reason why a data set could not be looked up, downloaded or copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The catalogue has no data set with the requested name.
    #[error("unknown data set `{name}`{}; known data sets: {known}",
        nearest.as_ref().map(|n| format!(" (did you mean `{n}`?)")).unwrap_or_default())]
    UnknownSet {
        /// Requested name.
        name: String,
        /// Most similar name in the catalogue, or `None` if no name is similar.
        nearest: Option<String>,
        /// Names of all data sets in the catalogue, separated by commas.
        known: String,
    },
    /// No cache folder is known. `ECITON_DATA` is not set, and neither `XDG_CACHE_HOME` nor `HOME`
    /// is an absolute path.
    #[error(
        "no folder for data sets: ECITON_DATA is not set, and neither XDG_CACHE_HOME nor HOME is an absolute path; set ECITON_DATA to a folder"
    )]
    NoCache,
    /// Every attempt failed to connect, or its transfer was interrupted.
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
        /// Number of attempts, including the first.
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
        /// Number of attempts, including the first.
        attempts: u32,
    },
    /// The length of a file differs from the length in the catalogue.
    #[error(
        "{origin}: found {found} bytes, but {file} has {expected} bytes; this is another file, and it was not stored"
    )]
    Length {
        /// Address or path from which the file was read.
        origin: String,
        /// File name in the catalogue.
        file: &'static str,
        /// Length in the catalogue, in bytes.
        expected: u64,
        /// Length that was found, in bytes. It is `expected + 1` for all longer files, because
        /// reading stops there.
        found: u64,
    },
    /// The SHA-256 of a file differs from the catalogue, although the length is correct.
    #[error(
        "{origin}: SHA-256 {found}, but {file} has {expected}; the file is damaged or was changed, and it was not stored"
    )]
    Checksum {
        /// Address or path from which the file was read.
        origin: String,
        /// File name in the catalogue.
        file: &'static str,
        /// SHA-256 in the catalogue, in hexadecimal digits.
        expected: &'static str,
        /// SHA-256 of the bytes that were read, in hexadecimal digits.
        found: String,
    },
    /// A cached file was changed or damaged after it was fetched.
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
    /// The user's folder lacks a file of the data set.
    #[error("{folder} contains neither {file} nor {within}/{file}; download {file} from {url}", folder = folder.display())]
    Missing {
        /// Folder that was searched.
        folder: PathBuf,
        /// Name of the file that is missing.
        file: &'static str,
        /// Subfolder that was searched as well. It has the name of the file's subfolder in a cache.
        within: &'static str,
        /// Address from which the file can be downloaded.
        url: String,
    },
    /// The URL of a mirror is not a valid HTTP address.
    #[error("`{url}` is not a web address; give http://HOST/PATH or https://HOST/PATH")]
    Address {
        /// URL as given by the user.
        url: String,
    },
    /// The operating system provides no root certificates, so servers cannot be authenticated.
    #[error(
        "no root certificates were found ({problem}); install the package ca-certificates or set SSL_CERT_FILE"
    )]
    NoCertificates {
        /// Reason that the operating system reported.
        problem: String,
    },
    /// Reading or writing a file or folder failed.
    #[error("{path}: {action}: {source}", path = path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Failed action as the end of a sentence, for instance `cannot be read`.
        action: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns whether another attempt may succeed. This is true for connection failures and for
    /// the status codes 408, 429 and 5xx.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
            _ => false,
        }
    }
}
