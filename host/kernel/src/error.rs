//! Errors of kernels, by the party at fault: the kernel, the caller or the host.

use std::path::PathBuf;

use crate::artefact::Baseline;

/// Result of an operation with a kernel.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Typed error that a kernel returned, or that a host call returned to it.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestError {
    /// `shape`, `argument`, `limit`, `deadline`, `unsupported` or `kernel`.
    pub kind: &'static str,
    /// Message of the error.
    pub text: String,
}

impl std::fmt::Display for GuestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} error: {}", self.kind, self.text)
    }
}

/// Error of the kernel host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The component does not fulfil the contract.
    #[error("kernel `{kernel}` does not fit the contract {contract}:\n{differences}", contract = crate::CONTRACT)]
    Contract {
        /// Name of the kernel.
        kernel: String,
        /// Differences, one per line.
        differences: String,
    },
    /// The component cannot be compiled.
    #[error("kernel `{kernel}` cannot be compiled: {reason}")]
    Compile {
        /// Name of the kernel.
        kernel: String,
        /// Error text of the compiler.
        reason: String,
    },
    /// The component is larger than the limits of compilation.
    #[error(
        "kernel `{kernel}` is not compiled: limit {limit}: {found} {unit} found, {allowed} allowed; build it with less in it: \
         optimised, without debug information and code that it does not use"
    )]
    TooLarge {
        /// Name of the kernel.
        kernel: String,
        /// Name of the limit, for instance `functions`.
        limit: &'static str,
        /// Unit of both figures.
        unit: &'static str,
        /// Lower bound of the figure that was found. The rest of the component is not counted.
        found: u64,
        /// Maximum that is compiled.
        allowed: u64,
    },
    /// The kernel, or a host call that it made, returned a typed error. A retry gives the same
    /// error.
    #[error("kernel `{kernel}`, {place}: {error}")]
    Guest {
        /// Name of the kernel.
        kernel: String,
        /// Function that failed: `open`, `forward`, ...
        place: String,
        /// Error that was returned.
        error: GuestError,
    },
    /// The kernel trapped, because of a bug or a limit. Its instance is dropped.
    #[error("kernel `{kernel}` trapped in {place}: {reason}")]
    Trap {
        /// Name of the kernel.
        kernel: String,
        /// Function that trapped, or `instantiation`.
        place: String,
        /// Text and line of the panic, or the limit with both figures.
        reason: String,
    },
    /// The kernel broke a promise of its signature.
    #[error("kernel `{kernel}`, {place}: {reason}")]
    Promise {
        /// Name of the kernel.
        kernel: String,
        /// Function that broke the promise.
        place: String,
        /// The promise, and the difference that was found.
        reason: String,
    },
    /// A file or folder of the cache cannot be used.
    #[error("kernel cache {path}: {source}", path = path.display())]
    Cache {
        /// Path of the file or folder.
        path: PathBuf,
        /// Reason.
        source: std::io::Error,
    },
    /// Signed code, compiled elsewhere, is refused.
    #[error("compiled code of kernel `{kernel}`: {source}")]
    Artefact {
        /// Name of the kernel.
        kernel: String,
        /// Reason.
        source: Refusal,
    },
    /// No processor level has this name.
    #[error("no processor level is called `{found}`; there are x86-64-v3 and neoverse-n1")]
    Baseline {
        /// Name that was given.
        found: String,
    },
    /// The file of the signing key cannot be used.
    #[error("signing key {path}: {source}", path = path.display())]
    SigningKey {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        source: std::io::Error,
    },
    /// The text is no public key.
    #[error("`{found}` is no public key: {reason}")]
    PublicKey {
        /// Text that was given, cut to 80 characters.
        found: String,
        /// Reason.
        reason: &'static str,
    },
    /// A request or an answer is malformed, or does not fit the other one.
    #[error("{place}: {reason}")]
    Wire {
        /// Call, task or field where the error was found.
        place: String,
        /// Value that was found, and the allowed values.
        reason: String,
    },
    /// A worker failed, did not answer in time or could not be reached. The kernel is not the
    /// cause.
    #[error("{place}: {reason}")]
    Host {
        /// Task or request that failed.
        place: String,
        /// Description of the failure.
        reason: String,
    },
    /// wasmtime itself failed.
    #[error("the WebAssembly engine failed while {doing}: {reason}")]
    Engine {
        /// Operation that failed.
        doing: &'static str,
        /// Reason.
        reason: String,
    },
    /// An operation on matrices of the host failed.
    #[error("{place}: {source}")]
    Tensor {
        /// Kernel and function, or call, of the operation.
        place: String,
        /// Reason.
        source: eciton_tensor::Error,
    },
}

impl Error {
    /// Returns true if a limit caused the error ([`Limits`](crate::Limits)).
    pub fn is_limit(&self) -> bool {
        match self {
            Self::TooLarge { .. } => true,
            Self::Guest { error, .. } => error.kind == "limit",
            Self::Trap { reason, .. } => reason.starts_with("limit "),
            _ => false,
        }
    }

    /// Returns true if the same task may succeed when it is tried again. Only faults of the host
    /// qualify.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Engine { .. } | Self::Cache { .. } | Self::Host { .. })
    }
}

/// Reason why an artefact is not loaded. A retry gives the same result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The artefact is larger than [`crate::artefact::MAX_BYTES`].
    #[error("it has {found} bytes, {allowed} are allowed")]
    TooLarge {
        /// Size that was found, bytes.
        found: usize,
        /// Maximum size, bytes.
        allowed: usize,
    },
    /// The bytes are no artefact, or a truncated one.
    #[error("it is no artefact of this version: {reason}")]
    Malformed {
        /// First defect that was found.
        reason: String,
    },
    /// The signature was not made by the trusted key.
    #[error("it is not signed by the key {trusted}, or was changed; deploy again with the key's owner")]
    Unsigned {
        /// Trusted public key, hex.
        trusted: String,
    },
    /// The code was compiled from another component.
    #[error("it was compiled from component {found}, not from {expected}")]
    Component {
        /// SHA-256 of the component that was compiled, hex.
        found: String,
        /// SHA-256 of the expected component, hex.
        expected: String,
    },
    /// This machine cannot run the code.
    #[error("it is for {found}, and this machine lacks {missing}")]
    Baseline {
        /// Processor level of the code.
        found: Baseline,
        /// Instructions, or the architecture, that this machine lacks.
        missing: String,
    },
    /// The code was compiled by another version, or under other settings.
    #[error(
        "it was compiled for engine {found}, and this one is {expected}; deploy kernels and worker together"
    )]
    Engine {
        /// Start of the engine id of the code, hex.
        found: String,
        /// Start of the engine id of this runtime, hex.
        expected: String,
    },
    /// The engine refuses the code, although the signature is right.
    #[error("the engine does not take its code: {reason}")]
    Code {
        /// Error text of the engine.
        reason: String,
    },
}
