//! Errors of the kernel host. Each variant names the party at fault, which is the kernel, the
//! caller or the host.

use std::path::PathBuf;

use crate::artefact::Baseline;

/// Result of an operation of the kernel host.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Typed error of the kernel contract. A kernel returned it to the host, or a host function
/// returned it to the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestError {
    /// Kind of the error in the contract: `shape`, `argument`, `limit`, `deadline`, `unsupported`
    /// or `kernel`.
    pub kind: &'static str,
    /// Message of the error, in English.
    pub text: String,
}

impl std::fmt::Display for GuestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} error: {}", self.kind, self.text)
    }
}

/// Error of the kernel host: of loading, checking or running a kernel, or of encoding a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The component does not fulfil the kernel contract.
    #[error("kernel `{kernel}` does not fit the contract {contract}:\n{differences}", contract = crate::CONTRACT)]
    Contract {
        /// Name of the kernel.
        kernel: String,
        /// Differences from the contract, one per line.
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
    /// The component exceeds a limit of compilation.
    #[error(
        "kernel `{kernel}` is too large to compile: limit {limit}: {found} {unit} found, {allowed} allowed; \
         build it in release mode, without debug information and unused code"
    )]
    TooLarge {
        /// Name of the kernel.
        kernel: String,
        /// Name of the limit that was exceeded, for instance `functions`.
        limit: &'static str,
        /// Unit of `found` and `allowed`.
        unit: &'static str,
        /// Amount that was counted when the check stopped, a lower bound. The rest of the component
        /// is not counted.
        found: u64,
        /// Maximum amount that the compiler accepts.
        allowed: u64,
    },
    /// The kernel, or a host function that it called, returned a typed error. A retry gives the
    /// same error.
    #[error("kernel `{kernel}`, {place}: {error}")]
    Guest {
        /// Name of the kernel.
        kernel: String,
        /// Function that failed: `open`, `forward`, ...
        place: String,
        /// Typed error that was returned.
        error: GuestError,
    },
    /// The kernel trapped, because of a bug or a limit. Its instance is dropped.
    #[error("kernel `{kernel}` trapped in {place}: {reason}")]
    Trap {
        /// Name of the kernel.
        kernel: String,
        /// Exported function that trapped, or `instantiation`.
        place: String,
        /// Message and source line of the panic, or the limit with the amounts that were found and
        /// allowed.
        reason: String,
    },
    /// The kernel broke a promise of its signature, for instance because it did not write all rows.
    #[error("kernel `{kernel}`, {place}: {reason}")]
    Promise {
        /// Name of the kernel.
        kernel: String,
        /// Function that broke the promise.
        place: String,
        /// Promise that was broken, and the difference that was found.
        reason: String,
    },
    /// A file or folder of the code cache cannot be used.
    #[error("kernel cache {path}: {source}", path = path.display())]
    Cache {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Signed code that another machine compiled is refused.
    #[error("compiled code of kernel `{kernel}`: {source}")]
    Artefact {
        /// Name of the kernel.
        kernel: String,
        /// Reason for the refusal.
        source: Refusal,
    },
    /// No processor level has this name.
    #[error("unknown processor level `{found}`; the levels are x86-64-v3 and neoverse-n1")]
    Baseline {
        /// Name that the user gave.
        found: String,
    },
    /// The file of the deployer's signing key cannot be used.
    #[error("signing key {path}: {source}", path = path.display())]
    SigningKey {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The text is not a public key.
    #[error("`{found}` is not a public key: {reason}")]
    PublicKey {
        /// Text that the user gave, cut to 80 characters.
        found: String,
        /// Reason why the text is not a key.
        reason: &'static str,
    },
    /// The bytes of a request or an answer are malformed, or an answer does not match its request.
    #[error("{place}: {reason}")]
    Wire {
        /// Call, task or field in which the error was found.
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
        /// Operation that failed, which completes the phrase "while ...".
        doing: &'static str,
        /// Error text of wasmtime.
        reason: String,
    },
    /// An operation on matrices of the host failed.
    #[error("{place}: {source}")]
    Tensor {
        /// Kernel and function, or call, of the operation.
        place: String,
        /// Error of the matrix operation.
        source: eciton_tensor::Error,
    },
}

impl Error {
    /// Returns true if a resource limit caused the error (see [`Limits`](crate::Limits)).
    pub fn is_limit(&self) -> bool {
        match self {
            Self::TooLarge { .. } => true,
            Self::Guest { error, .. } => error.kind == "limit",
            Self::Trap { reason, .. } => reason.starts_with("limit "),
            _ => false,
        }
    }

    /// Returns true if the same task may succeed when it is tried again. Only faults of the host
    /// can be retried.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Engine { .. } | Self::Cache { .. } | Self::Host { .. })
    }
}

/// Reason why a runtime refuses an artefact, which is signed compiled code. A retry gives the same
/// result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The artefact is larger than [`crate::artefact::MAX_BYTES`].
    #[error("it has {found} bytes, but the maximum is {allowed}")]
    TooLarge {
        /// Size of the artefact, in bytes.
        found: usize,
        /// Maximum size, in bytes.
        allowed: usize,
    },
    /// The bytes are not an artefact, or only the beginning of one.
    #[error("it is not compiled code of this version: {reason}")]
    Malformed {
        /// First defect that was found.
        reason: String,
    },
    /// The signature is missing, wrong, or made by a key other than the trusted one.
    #[error(
        "it is not signed with the key {trusted}, or was changed after signing; deploy it again with that key"
    )]
    Unsigned {
        /// Trusted public key, as hex digits.
        trusted: String,
    },
    /// The code was compiled from a different component.
    #[error("it was compiled from component {found}, not from {expected}")]
    Component {
        /// SHA-256 digest of the component that was compiled, as hex digits.
        found: String,
        /// SHA-256 digest of the expected component, as hex digits.
        expected: String,
    },
    /// This machine's processor cannot run the code.
    #[error("it is compiled for {found}, but this machine lacks {missing}")]
    Baseline {
        /// Processor level of the code.
        found: Baseline,
        /// Instructions that this machine lacks, or the architecture.
        missing: String,
    },
    /// The code was compiled by another version of wasmtime, or under other settings.
    #[error(
        "it was compiled for engine {found}, but this engine is {expected}; deploy the kernels and the worker together"
    )]
    Engine {
        /// First digits of the code's engine id, in hex.
        found: String,
        /// First digits of this runtime's engine id, in hex.
        expected: String,
    },
    /// wasmtime refuses the code, although the signature is valid.
    #[error("the WebAssembly engine refuses the code: {reason}")]
    Code {
        /// Error text of wasmtime.
        reason: String,
    },
}
