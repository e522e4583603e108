//! One way in which a component is not what the contract asks for, worded for its author.

use std::fmt;

/// Side of a component that an item is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Items that the kernel imports from the host.
    Import,
    /// Items that the kernel exports to the host.
    Export,
}

/// A difference between a component and the contract `eciton:kernel`.
///
/// Interfaces are named without package and version (`linalg`), functions of resources as
/// `resource.function`, types as `interface.type`; both sides of a change are WIT text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// Not a WebAssembly component at all.
    NotAComponent {
        /// The item found instead.
        found: String,
    },
    /// Larger than a kernel may be.
    TooLarge {
        /// Its size in bytes.
        bytes_len: u64,
        /// The limit in bytes.
        allowed: u64,
    },
    /// Not valid WebAssembly, or with a feature that kernels cannot use.
    Invalid {
        /// Byte position in the file.
        offset: u64,
        /// The validator's words.
        found: String,
    },
    /// Valid, but of a shape that WIT has no words for.
    NotWit {
        /// The decoder's words.
        found: String,
    },
    /// An import of something outside the contract: the kernel would depend on its surroundings.
    Ambient {
        /// The full name, for instance `wasi:clocks/wall-clock@0.2.3`.
        import: String,
    },
    /// Built for a version of the contract that this host does not accept.
    Version {
        /// Imported or exported.
        side: Side,
        /// The full name, for instance `eciton:kernel/vertex@0.2.0`.
        name: String,
    },
    /// Built for more than one version of the contract.
    SeveralVersions {
        /// All of them, for instance `0.1.0`.
        found: Vec<String>,
    },
    /// The component exports no kernel, neither of vertices nor of edges.
    NoKernelInterface,
    /// The component exports a kernel of vertices and one of edges.
    SeveralKernelInterfaces,
    /// An import of an `eciton:kernel` interface that the contract does not have.
    UnknownInterface {
        /// The interface.
        interface: String,
        /// The version of the contract.
        contract: &'static str,
    },
    /// An export of package `eciton:kernel` that no kernel has.
    ExtraExport {
        /// The full name.
        name: String,
        /// The version of the contract.
        contract: &'static str,
    },
    /// A function that the contract asks for.
    MissingFunction {
        /// The interface.
        interface: String,
        /// The function.
        function: String,
        /// The contract's type of it.
        expected: String,
    },
    /// A resource that the contract asks for.
    MissingResource {
        /// The interface.
        interface: String,
        /// The resource.
        resource: String,
    },
    /// A type that the contract asks for.
    MissingType {
        /// The interface.
        interface: String,
        /// The type.
        name: String,
        /// The contract's definition.
        expected: String,
    },
    /// A function with another type.
    ChangedFunction {
        /// Imported or exported.
        side: Side,
        /// The interface.
        interface: String,
        /// The function.
        function: String,
        /// The contract's type.
        expected: String,
        /// The component's type.
        found: String,
    },
    /// A type with another definition.
    ChangedType {
        /// Imported or exported.
        side: Side,
        /// The interface.
        interface: String,
        /// The type.
        name: String,
        /// The contract's definition.
        expected: String,
        /// The component's definition.
        found: String,
    },
    /// A function that the contract does not have.
    UnknownFunction {
        /// Imported or exported.
        side: Side,
        /// The interface.
        interface: String,
        /// The function.
        function: String,
        /// The version of the contract.
        contract: &'static str,
        /// The component's type of it.
        found: String,
    },
    /// A type that the contract does not have.
    UnknownType {
        /// Imported or exported.
        side: Side,
        /// The interface.
        interface: String,
        /// The type.
        name: String,
        /// The version of the contract.
        contract: &'static str,
        /// The component's definition.
        found: String,
    },
    /// No difference above, and yet the validator says that the component does not fit the world.
    Unfit {
        /// The world, for instance `vertex-kernel`.
        world: &'static str,
        /// The validator's words.
        found: String,
    },
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Import => "imported",
            Self::Export => "exported",
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (oldest, version) = (crate::OLDEST, crate::VERSION);
        match self {
            Self::NotAComponent { found } => {
                write!(f, "not a WebAssembly component but {found}; `eciton kernel build` makes components")
            }
            Self::TooLarge { bytes_len, allowed } => {
                write!(f, "{bytes_len} bytes, a kernel has at most {allowed}; keep data out of the component")
            }
            Self::Invalid { offset, found } => {
                write!(
                    f,
                    "not WebAssembly that a kernel can be: byte {offset}: {found}; build it again, with `eciton kernel build` if you can"
                )
            }
            Self::NotWit { found } => write!(
                f,
                "imports or exports that no WIT world can have: {found}; build it against wit/kernel"
            ),
            Self::Ambient { import } => {
                write!(f, "imports {import}, which no kernel is given: {}", remedy(import))
            }
            Self::Version { side, name } => write!(
                f,
                "{name} is {side}, this host accepts contracts {oldest} to {version}: {}",
                of_version(name)
            ),
            Self::SeveralVersions { found } => write!(
                f,
                "contracts {} are imported and exported, a component speaks one: build all of it with one SDK",
                found.join(" and ")
            ),
            Self::NoKernelInterface => write!(
                f,
                "neither eciton:kernel/vertex@{version} nor eciton:kernel/edge@{version} is exported; export a kernel with one of the SDK's macros, export_kernel and export_edge_kernel"
            ),
            Self::SeveralKernelInterfaces => write!(
                f,
                "both eciton:kernel/vertex@{version} and eciton:kernel/edge@{version} are exported, a component is one kernel: make two of it"
            ),
            Self::UnknownInterface { interface, contract } => {
                write!(f, "interface {interface} is imported, contract {contract} has none of that name")
            }
            Self::ExtraExport { name, contract } => {
                write!(f, "{name} is exported, contract {contract} asks for no such thing: remove it")
            }
            Self::MissingFunction { interface, function, expected } => {
                write!(f, "{interface}: function {function} is missing: {expected}")
            }
            Self::MissingResource { interface, resource } => {
                write!(f, "{interface}: resource {resource} is missing")
            }
            Self::MissingType { interface, name, expected } => {
                write!(f, "{interface}: type {name} is missing: {expected}")
            }
            Self::ChangedFunction { side, interface, function, expected, found } => write!(
                f,
                "{interface}: {side} function {function} has another type\n      contract: {expected}\n      found:    {found}"
            ),
            Self::ChangedType { side, interface, name, expected, found } => write!(
                f,
                "{interface}: {side} type {name} has another definition\n      contract: {expected}\n      found:    {found}"
            ),
            Self::UnknownFunction { side, interface, function, contract, found } => write!(
                f,
                "{interface}: function {function} is {side}, contract {contract} has none of that name: {found}"
            ),
            Self::UnknownType { side, interface, name, contract, found } => write!(
                f,
                "{interface}: type {name} is {side}, contract {contract} has none of that name: {found}"
            ),
            Self::Unfit { world, found } => write!(f, "does not fit world {world}: {found}"),
        }
    }
}

/// Returns the remedy for a version that is not accepted.
fn of_version(name: &str) -> &'static str {
    let patch = |version: &str| {
        let (series, patch) = version.rsplit_once('.')?;
        Some((series.to_owned(), patch.parse::<u64>().ok()?))
    };
    let found = name.split_once('@').and_then(|(_, version)| patch(version));
    match (found, patch(crate::VERSION)) {
        (Some((found, of)), Some((series, newest))) if found == series && of > newest => {
            "the kernel needs a newer eciton"
        }
        _ => "build the kernel again with the SDK of this release",
    }
}

/// Returns the remedy for an ambient import.
fn remedy(import: &str) -> &'static str {
    const REMEDIES: [(&str, &str); 9] = [
        (
            "wasi:random/",
            "draw numbers from the contract's interface random, which every host computes alike",
        ),
        ("wasi:clocks/", "a task has no clock: pass what it needs as an attribute"),
        ("wasi:filesystem/", "a task has no files: pass data as inputs, parameters or attributes"),
        ("wasi:sockets/", "a task has no network: pass data as inputs"),
        ("wasi:http/", "a task has no network: pass data as inputs"),
        (
            "wasi:cli/",
            "a task has no arguments, environment or standard streams: use attributes and interface log, and build for wasm32-unknown-unknown",
        ),
        (
            "wasi:",
            "build for wasm32-unknown-unknown (`eciton kernel build` does), or stub WASI out (componentize-py: --stub-wasi)",
        ),
        (
            "wasi_",
            "in C, do without what asks the system (printf, fopen, time); in Rust, build for wasm32-unknown-unknown (`eciton kernel build` does) instead of a WASI target",
        ),
        ("__wbindgen", "a dependency expects a browser: turn off its `js` or `wasm-bindgen` feature"),
    ];
    REMEDIES.iter().find(|(prefix, _)| import.starts_with(prefix)).map_or(
        "remove the dependency that asks for it, or define the symbol in the kernel",
        |(_, remedy)| remedy,
    )
}
