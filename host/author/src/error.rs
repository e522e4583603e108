//! Errors of building, checking and recording kernels.

use std::path::PathBuf;

use crate::difference::Difference;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, with the file or tool concerned, what was found and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No compiler on this machine can build for `wasm32-unknown-unknown`.
    #[error("no compiler for wasm32-unknown-unknown was found\n{}\n{INSTALL}", tried_lines(tried))]
    NoToolchain {
        /// The candidates and the reasons why they do not serve, one sentence each.
        tried: Vec<String>,
    },
    /// `ECITON_WASM_RUSTC` names a compiler that cannot build kernels.
    #[error(
        "ECITON_WASM_RUSTC is set to {rustc}, which cannot build kernels: {found}; name another compiler or unset it"
    )]
    ChosenCompiler {
        /// The value of the variable.
        rustc: String,
        /// Why it does not serve.
        found: String,
    },
    /// No clang on this machine can build a kernel in C.
    #[error("no clang for wasm32 was found\n{}\n{INSTALL_C}", tried_lines(tried))]
    NoClang {
        /// The candidates and the reasons why they do not serve, one sentence each.
        tried: Vec<String>,
    },
    /// The folder has C sources, and not of one kernel.
    #[error(
        "{}: its .c files include {found} of bindings/vertex_kernel.h and bindings/edge_kernel.h; a kernel includes one of them (`eciton kernel new NAME --c` makes one)",
        dir.display()
    )]
    NotAKernelInC {
        /// The folder.
        dir: PathBuf,
        /// `both` or `neither`.
        found: &'static str,
    },
    /// No `cargo` can be run.
    #[error("cargo cannot be run ({found}); install Rust with cargo, or set CARGO to its path")]
    NoCargo {
        /// The candidates that were tried.
        found: String,
    },
    /// The folder holds no crate.
    #[error("{}: no Cargo.toml and no .c file here; give a kernel's folder (`eciton kernel new` makes one)", dir.display())]
    NoManifest {
        /// The folder that was given.
        dir: PathBuf,
    },
    /// A kernel cannot have this name.
    #[error(
        "a kernel cannot be called {name:?} for {found}; take 1 to 64 lower-case letters, digits, - and _, a letter first"
    )]
    KernelName {
        /// The name.
        name: String,
        /// The fault.
        found: String,
    },
    /// Something is where a crate was to be made.
    #[error("{}: there already; choose another name or folder", path.display())]
    Exists {
        /// The file or folder.
        path: PathBuf,
    },
    /// The crate is not one package with a library.
    #[error("{}: {found}; a kernel is one package with a library (src/lib.rs)", manifest.display())]
    NotAKernelCrate {
        /// Its Cargo.toml.
        manifest: PathBuf,
        /// The item found instead.
        found: String,
    },
    /// A tool did not start, or its answer made no sense.
    #[error("`{command}`: {found}")]
    Tool {
        /// The command, shortened.
        command: String,
        /// The answer.
        found: String,
    },
    /// Cargo or clang refused, or the compiler found errors; their own words follow.
    #[error("{}: the build failed ({status})\n{output}", dir.display())]
    Cargo {
        /// The kernel's folder.
        dir: PathBuf,
        /// The exit status.
        status: String,
        /// The end of the messages, at most 64 KiB.
        output: String,
    },
    /// The core module could not be made a component.
    #[error(
        "{}: the compiled module cannot be wrapped into a component: {found}; does it export a kernel (a crate by the SDK's macro, of one version of the SDK only)?",
        dir.display()
    )]
    Wrap {
        /// The crate's folder.
        dir: PathBuf,
        /// wit-component's words.
        found: String,
    },
    /// The kernel was built but does not fit the contract.
    #[error("{name}: not a kernel of contract {}:\n{}", crate::VERSION, difference_lines(differences))]
    Contract {
        /// The crate or file.
        name: String,
        /// Every difference.
        differences: Vec<Difference>,
    },
    /// The binary's sections do not fit together.
    #[error("byte {offset}: {found}; the file is damaged, build it again")]
    Malformed {
        /// Offset in the file, in bytes.
        offset: usize,
        /// The value found.
        found: String,
    },
    /// The contract inside this program cannot be read: a fault of the program.
    #[error("the built-in contract cannot be read: {found}; please report this")]
    Internal {
        /// The parser's words.
        found: String,
    },
    /// No built-in kernel has this name.
    #[error("no built-in kernel is called {name:?}; there are: {known}")]
    UnknownBuiltin {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A folder of sources is larger than a kernel's sources may be.
    #[error("{}: {found} {unit} of sources, at most {allowed} are taken; is a build folder among them?", dir.display())]
    TooManySources {
        /// The folder.
        dir: PathBuf,
        /// The number found when counting stopped.
        found: u64,
        /// The limit.
        allowed: u64,
        /// `files` or `bytes`.
        unit: &'static str,
    },
    /// A file among the sources is of a kind that cannot be digested.
    #[error("{}: {found} among a kernel's sources; only plain files and folders can be", path.display())]
    OddSource {
        /// The file.
        path: PathBuf,
        /// Its kind.
        found: &'static str,
    },
    /// A lock file that cannot be understood.
    #[error("{}: {found}; {remedy}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The value found.
        found: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// A component that a lock file which holds for it does not list.
    #[error(
        "{file}: {found} is not in {lock}; if it is to run, `eciton kernel add {file} --lock {lock}`",
        file = file.display(), lock = lock.display()
    )]
    NotPinned {
        /// The component.
        file: PathBuf,
        /// The lock file.
        lock: PathBuf,
        /// The component's digest.
        found: String,
    },
    /// A component that is not the one which was pinned.
    #[error(
        "{file}: it is {found}, and {lock} has {pinned}; put the pinned one back, or, if this one is to run, `eciton kernel add \
         {file} --lock {lock}`", file = file.display(), lock = lock.display()
    )]
    OtherPinned {
        /// The component.
        file: PathBuf,
        /// The lock file.
        lock: PathBuf,
        /// The digest that was pinned.
        pinned: String,
        /// The component's digest.
        found: String,
    },
    /// A component for which runs would not go by this lock file.
    #[error("{}: {} would not hold for it: {found}", file.display(), lock.display())]
    OutOfReach {
        /// The component.
        file: PathBuf,
        /// The lock file.
        lock: PathBuf,
        /// Why, and what to do.
        found: String,
    },
    /// The file system refused.
    #[error("{}: cannot {operation}: {source}", path.display())]
    Io {
        /// The operation, for instance `read`.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// Commands that install a toolchain, for both kinds of Rust installation.
pub(crate) const INSTALL: &str = "to install one:
  with rustup:     rustup target add wasm32-unknown-unknown
  Debian, Ubuntu:  apt-get install rustc-web cargo-web rust-web-src lld-19   (or the newest lld-NN there is)
  another rustc:   set ECITON_WASM_RUSTC to a compiler that has the target, or that has its own source
                   (lib/rustlib/src/rust/library under its sysroot) with wasm-ld or rust-lld beside it";

/// Commands that install a toolchain for kernels in C.
const INSTALL_C: &str = "to install one:
  Debian, Ubuntu:  apt-get install clang lld wasi-libc
  another clang:   set ECITON_WASM_CLANG to one that has wasm-ld beside it and finds wasi-libc";

fn tried_lines(tried: &[String]) -> String {
    tried.iter().map(|line| format!("  - {line}")).collect::<Vec<_>>().join("\n")
}

fn difference_lines(differences: &[Difference]) -> String {
    differences.iter().map(|difference| format!("  - {difference}")).collect::<Vec<_>>().join("\n")
}

/// Attaches a path and an operation to an I/O error.
pub(crate) fn io(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |source| Error::Io { operation, path, source }
}
