//! Errors of building, checking and pinning kernels.

use std::path::PathBuf;

use crate::difference::Difference;

/// Result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of this crate. Its message names the file or tool, the problem, and what the user can do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No compiler on this machine can build kernels for `wasm32-unknown-unknown`.
    #[error("no compiler for wasm32-unknown-unknown was found\n{}\n{INSTALL}", tried_lines(tried))]
    NoToolchain {
        /// Compilers that were tried, each with the reason why it cannot build kernels.
        tried: Vec<String>,
    },
    /// `ECITON_WASM_RUSTC` names a compiler that cannot build kernels.
    #[error(
        "ECITON_WASM_RUSTC is set to {rustc}, which cannot build kernels: {found}; name another compiler or unset it"
    )]
    ChosenCompiler {
        /// Value of the environment variable.
        rustc: String,
        /// Reason why the compiler cannot build kernels.
        found: String,
    },
    /// No clang on this machine can build a kernel in C.
    #[error("no clang for wasm32 was found\n{}\n{INSTALL_C}", tried_lines(tried))]
    NoClang {
        /// Compilers that were tried, each with the reason why it cannot build kernels.
        tried: Vec<String>,
    },
    /// The `.c` files in the folder include the header of no kernel interface, or of both.
    #[error(
        "{}: its .c files include {found} of bindings/vertex_kernel.h and bindings/edge_kernel.h; a kernel includes one of them (`eciton kernel new NAME --c` makes one)",
        dir.display()
    )]
    NotAKernelInC {
        /// Folder with the sources.
        dir: PathBuf,
        /// `both` or `neither`, which says how many of the two headers the sources include.
        found: &'static str,
    },
    /// No `cargo` program can be run.
    #[error("cargo cannot be run ({found}); install Rust with cargo, or set CARGO to its path")]
    NoCargo {
        /// Programs that were tried, each with the reason why it cannot be run.
        found: String,
    },
    /// The folder contains neither a crate nor a kernel in C.
    #[error("{}: no Cargo.toml and no .c file here; give a kernel's folder (`eciton kernel new` makes one)", dir.display())]
    NoManifest {
        /// Folder that the user gave.
        dir: PathBuf,
    },
    /// The name is not valid for a kernel.
    #[error(
        "{name:?} is not a valid name for a kernel: {found}; use 1 to 64 lower-case letters, digits, - and _, starting with a letter"
    )]
    KernelName {
        /// Name that the user gave.
        name: String,
        /// Reason why the name is not valid.
        found: String,
    },
    /// The file or folder that should be created exists already.
    #[error("{}: the path exists already; choose another name or folder", path.display())]
    Exists {
        /// Path of the file or folder.
        path: PathBuf,
    },
    /// The crate is not a single Cargo package with a library.
    #[error("{}: {found}; a kernel is one package with a library (src/lib.rs)", manifest.display())]
    NotAKernelCrate {
        /// Path of the crate's Cargo.toml.
        manifest: PathBuf,
        /// Description of the package that was found.
        found: String,
    },
    /// A tool could not be run, or its output could not be parsed.
    #[error("`{command}`: {found}")]
    Tool {
        /// Name or shortened command line of the tool.
        command: String,
        /// Problem that was found.
        found: String,
    },
    /// Cargo or clang failed to build the kernel.
    #[error("{}: the build failed ({status})\n{output}", dir.display())]
    Cargo {
        /// Folder of the kernel.
        dir: PathBuf,
        /// Exit status of the tool.
        status: String,
        /// Last messages of the tool, at most 128 KiB.
        output: String,
    },
    /// The compiled core module cannot be wrapped into a component.
    #[error(
        "{}: the compiled module cannot be wrapped into a component: {found}; does it export a kernel (a crate by the SDK's macro, of one version of the SDK only)?",
        dir.display()
    )]
    Wrap {
        /// Folder of the kernel's crate.
        dir: PathBuf,
        /// Error text of wit-component.
        found: String,
    },
    /// The kernel was built, but it does not fulfil the contract.
    #[error(
        "{name}: does not implement kernel contract {}:\n{}",
        crate::VERSION,
        difference_lines(differences)
    )]
    Contract {
        /// Name of the kernel's package or file.
        name: String,
        /// All differences from the contract.
        differences: Vec<Difference>,
    },
    /// The binary is not valid WebAssembly.
    #[error("byte {offset}: {found}; the file is damaged, build it again")]
    Malformed {
        /// Offset in the file, in bytes.
        offset: usize,
        /// Description of the defect.
        found: String,
    },
    /// The contract that is embedded in this program cannot be parsed, which is a bug of the
    /// program.
    #[error("the built-in contract cannot be read: {found}; please report this")]
    Internal {
        /// Error text of the parser.
        found: String,
    },
    /// No built-in kernel has this name.
    #[error("there is no built-in kernel {name:?}; the built-in kernels are {known}")]
    UnknownBuiltin {
        /// Name of the kernel that the user gave.
        name: String,
        /// Names of all built-in kernels.
        known: String,
    },
    /// The sources in a folder exceed the limits for a kernel.
    #[error("{}: the sources have {found} {unit}, but at most {allowed} are allowed; check for a build folder among them", dir.display())]
    TooManySources {
        /// Folder of the sources.
        dir: PathBuf,
        /// Number of files or bytes that was reached when counting stopped.
        found: u64,
        /// Maximum number of files or bytes.
        allowed: u64,
        /// Unit of both numbers: `files` or `bytes`.
        unit: &'static str,
    },
    /// The sources contain an entry other than a regular file or folder, or with a name that is not
    /// UTF-8.
    #[error("{}: {found} cannot be a source of a kernel; only regular files and folders can", path.display())]
    OddSource {
        /// Path of the entry.
        path: PathBuf,
        /// Description of the entry, for instance `a link`.
        found: &'static str,
    },
    /// A lock file cannot be parsed.
    #[error("{}: {found}; {remedy}", path.display())]
    Lock {
        /// Path of the lock file.
        path: PathBuf,
        /// Description of the problem.
        found: String,
        /// Instruction for the user, which depends on the kind of lock file.
        remedy: &'static str,
    },
    /// A lock file applies to a component, but does not list it.
    #[error(
        "{file}: {found} is not in {lock}; if it is to run, `eciton kernel add {file} --lock {lock}`",
        file = file.display(), lock = lock.display()
    )]
    NotPinned {
        /// Path of the component.
        file: PathBuf,
        /// Path of the lock file.
        lock: PathBuf,
        /// Digest of the component.
        found: String,
    },
    /// The digest of a component differs from the one in the lock file.
    #[error(
        "{file}: it is {found}, and {lock} has {pinned}; put the pinned one back, or, if this one is to run, `eciton kernel add \
         {file} --lock {lock}`", file = file.display(), lock = lock.display()
    )]
    OtherPinned {
        /// Path of the component.
        file: PathBuf,
        /// Path of the lock file.
        lock: PathBuf,
        /// Digest in the lock file.
        pinned: String,
        /// Digest of the component.
        found: String,
    },
    /// A component cannot be pinned in a lock file, because the file would not apply to it.
    #[error("{}: the lock file {} would not apply to it: {found}", file.display(), lock.display())]
    OutOfReach {
        /// Path of the component.
        file: PathBuf,
        /// Path of the lock file.
        lock: PathBuf,
        /// Reason why the lock file would not apply, and what the user can do.
        found: String,
    },
    /// An operation of the file system failed.
    #[error("{}: cannot {operation}: {source}", path.display())]
    Io {
        /// Operation that failed, for instance `read`.
        operation: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

/// Instructions for users to install a toolchain for kernels in Rust.
pub(crate) const INSTALL: &str = "to install one:
  with rustup:     rustup target add wasm32-unknown-unknown
  Debian, Ubuntu:  apt-get install rustc-web cargo-web rust-web-src lld-19   (or the newest lld-NN there is)
  another rustc:   set ECITON_WASM_RUSTC to a compiler that has the target, or that has its own source
                   (lib/rustlib/src/rust/library under its sysroot) with wasm-ld or rust-lld beside it";

/// Instructions for users to install a toolchain for kernels in C.
const INSTALL_C: &str = "to install one:
  Debian, Ubuntu:  apt-get install clang lld wasi-libc
  another clang:   set ECITON_WASM_CLANG to one that has wasm-ld beside it and finds wasi-libc";

fn tried_lines(tried: &[String]) -> String {
    tried.iter().map(|line| format!("  - {line}")).collect::<Vec<_>>().join("\n")
}

fn difference_lines(differences: &[Difference]) -> String {
    differences.iter().map(|difference| format!("  - {difference}")).collect::<Vec<_>>().join("\n")
}

/// Returns a conversion of I/O errors to [`Error::Io`]. `operation` completes the phrase "cannot
/// ...", for instance `read`.
pub(crate) fn io(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |source| Error::Io { operation, path, source }
}
