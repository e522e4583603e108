//! What can go wrong with a kernel, and whose fault it is.

use std::path::PathBuf;

/// The result of working with a kernel.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A typed error that a kernel returned, or that a host call gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestError {
    /// `shape`, `argument`, `limit`, `deadline`, `unsupported` or `kernel`.
    pub kind: &'static str,
    /// What it says.
    pub text: String,
}

impl std::fmt::Display for GuestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} error: {}", self.kind, self.text)
    }
}

/// An error of the kernel host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The component does not keep the contract.
    #[error("kernel `{kernel}` does not fit the contract {contract}:\n{differences}", contract = crate::CONTRACT)]
    Contract {
        /// The kernel.
        kernel: String,
        /// One a line.
        differences: String,
    },
    /// The component cannot be compiled.
    #[error("kernel `{kernel}` cannot be compiled: {reason}")]
    Compile {
        /// The kernel.
        kernel: String,
        /// Why.
        reason: String,
    },
    /// The component is larger than what is compiled.
    #[error(
        "kernel `{kernel}` is not compiled: limit {limit}: {found} {unit} found, {allowed} allowed; build it with less in it: \
         optimised, without debug information and code that it does not use"
    )]
    TooLarge {
        /// The kernel.
        kernel: String,
        /// The limit's name, for instance `functions`.
        limit: &'static str,
        /// The unit of both figures.
        unit: &'static str,
        /// How much there is at least: what follows is not counted.
        found: u64,
        /// The most that is compiled.
        allowed: u64,
    },
    /// The kernel, or a host call it made, answered with a typed error. Trying again gives the
    /// same.
    #[error("kernel `{kernel}`, {place}: {error}")]
    Guest {
        /// The kernel.
        kernel: String,
        /// Where: `open`, `forward`, ...
        place: String,
        /// What.
        error: GuestError,
    },
    /// The kernel trapped: a bug in it, or a limit. Its instance is gone.
    #[error("kernel `{kernel}` trapped in {place}: {reason}")]
    Trap {
        /// The kernel.
        kernel: String,
        /// Where.
        place: String,
        /// The panic's text and line, or the limit with both figures.
        reason: String,
    },
    /// The kernel broke a promise of its signature.
    #[error("kernel `{kernel}`, {place}: {reason}")]
    Promise {
        /// The kernel.
        kernel: String,
        /// Where.
        place: String,
        /// What was promised and what was found.
        reason: String,
    },
    /// A place in the cache cannot be used.
    #[error("kernel cache {path}: {source}", path = path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Compiled code from elsewhere is not loaded.
    #[error("compiled code of kernel `{kernel}`: {source}")]
    Artefact {
        /// The kernel.
        kernel: String,
        /// Why.
        source: crate::artefact::Refusal,
    },
    /// No level of processors has this name.
    #[error("no processor level is called `{found}`; there are x86-64-v3 and neoverse-n1")]
    Baseline {
        /// The name.
        found: String,
    },
    /// The file of the signing key cannot be used.
    #[error("signing key {path}: {source}", path = path.display())]
    SigningKey {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is no public key.
    #[error("`{found}` is no public key: {reason}")]
    PublicKey {
        /// The text, at most 80 characters.
        found: String,
        /// Why.
        reason: &'static str,
    },
    /// A request or an answer that is none, or does not fit what it belongs to.
    #[error("{place}: {reason}")]
    Wire {
        /// Where in it.
        place: String,
        /// What was found, and what is allowed.
        reason: String,
    },
    /// A worker died, did not answer in time or could not be reached: not the kernel's doing.
    #[error("{place}: {reason}")]
    Host {
        /// What was being done.
        place: String,
        /// What happened.
        reason: String,
    },
    /// wasmtime itself failed.
    #[error("the WebAssembly engine failed while {doing}: {reason}")]
    Engine {
        /// What it was doing.
        doing: &'static str,
        /// Why.
        reason: String,
    },
    /// Matrices of the host.
    #[error("{place}: {source}")]
    Tensor {
        /// Where.
        place: String,
        /// Why.
        source: eciton_tensor::Error,
    },
}

impl Error {
    /// Returns whether a limit ended it ([`Limits`](crate::Limits)).
    pub fn is_limit(&self) -> bool {
        match self {
            Self::TooLarge { .. } => true,
            Self::Guest { error, .. } => error.kind == "limit",
            Self::Trap { reason, .. } => reason.starts_with("limit "),
            _ => false,
        }
    }

    /// Returns whether the same task may succeed if it is tried again: only faults of the host.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Engine { .. } | Self::Cache { .. } | Self::Host { .. })
    }
}
