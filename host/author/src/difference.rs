//! Differences between a component and the contract, described for the kernel's author.

use std::fmt;

/// Direction of an item of a component: import or export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Items that the kernel imports from the host.
    Import,
    /// Items that the kernel exports to the host.
    Export,
}

/// Difference between a component and the contract `eciton:kernel`, the WIT package that kernels
/// implement.
///
/// Names of interfaces have no package and version (`linalg`). Functions of resources are named
/// `resource.function`, and types `interface.type`. For a changed item, both versions are given as
/// WIT text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// The file is not a WebAssembly component.
    NotAComponent {
        /// Description of the file's actual content.
        found: String,
    },
    /// The file exceeds the maximum size of a kernel.
    TooLarge {
        /// Size of the file, in bytes.
        bytes_len: u64,
        /// Maximum size, in bytes.
        allowed: u64,
    },
    /// The file is not valid WebAssembly, or uses a feature that kernels must not use.
    Invalid {
        /// Offset of the error in the file, in bytes.
        offset: u64,
        /// Error text of the validator.
        found: String,
    },
    /// The component is valid, but its imports and exports cannot be represented in WIT.
    NotWit {
        /// Error text of the decoder.
        found: String,
    },
    /// The component imports an item that is not part of the contract, so it would depend on its
    /// environment.
    Ambient {
        /// Full name of the import, for instance `wasi:clocks/wall-clock@0.2.3`.
        import: String,
    },
    /// An import or export belongs to a version of the contract that this host does not accept.
    Version {
        /// Direction of the item.
        side: Side,
        /// Full name of the item, for instance `eciton:kernel/vertex@0.2.0`.
        name: String,
    },
    /// The imports and exports belong to several versions of the contract.
    SeveralVersions {
        /// All versions of the contract that were found, for instance `0.1.0`.
        found: Vec<String>,
    },
    /// The component exports neither the interface of a vertex kernel nor that of an edge kernel.
    NoKernelInterface,
    /// The component exports both the interface of a vertex kernel and that of an edge kernel.
    SeveralKernelInterfaces,
    /// The component imports an `eciton:kernel` interface that the contract does not have.
    UnknownInterface {
        /// Name of the interface.
        interface: String,
        /// Version of the contract that the component was compared with.
        contract: &'static str,
    },
    /// The component exports an interface of the package `eciton:kernel` that kernels must not
    /// export.
    ExtraExport {
        /// Full name of the export, for instance `eciton:kernel/more@0.1.2`.
        name: String,
        /// Version of the contract that the component was compared with.
        contract: &'static str,
    },
    /// The component does not export a function that the contract requires.
    MissingFunction {
        /// Name of the interface that requires the function.
        interface: String,
        /// Name of the function, for instance `layer.signature`.
        function: String,
        /// Type of the function in the contract.
        expected: String,
    },
    /// The component does not export a resource that the contract requires.
    MissingResource {
        /// Name of the interface that requires the resource.
        interface: String,
        /// Name of the resource.
        resource: String,
    },
    /// The component does not export a type that the contract requires.
    MissingType {
        /// Name of the interface that requires the type.
        interface: String,
        /// Name of the type.
        name: String,
        /// Definition of the type in the contract.
        expected: String,
    },
    /// A function of the component has a different type in the contract.
    ChangedFunction {
        /// Direction of the interface with the function.
        side: Side,
        /// Name of the interface with the function.
        interface: String,
        /// Name of the function.
        function: String,
        /// Type of the function in the contract.
        expected: String,
        /// Type of the function in the component.
        found: String,
    },
    /// A type of the component has a different definition in the contract.
    ChangedType {
        /// Direction of the interface with the type.
        side: Side,
        /// Name of the interface with the type.
        interface: String,
        /// Name of the type.
        name: String,
        /// Definition of the type in the contract.
        expected: String,
        /// Definition of the type in the component.
        found: String,
    },
    /// The component uses a function that the contract does not have.
    UnknownFunction {
        /// Direction of the interface with the function.
        side: Side,
        /// Name of the interface with the function.
        interface: String,
        /// Name of the function.
        function: String,
        /// Version of the contract that the component was compared with.
        contract: &'static str,
        /// Type of the function in the component.
        found: String,
    },
    /// The component uses a type that the contract does not have.
    UnknownType {
        /// Direction of the interface with the type.
        side: Side,
        /// Name of the interface with the type.
        interface: String,
        /// Name of the type.
        name: String,
        /// Version of the contract that the component was compared with.
        contract: &'static str,
        /// Definition of the type in the component.
        found: String,
    },
    /// The component does not match the world, but none of the other differences describes why.
    Unfit {
        /// Name of the world, for instance `vertex-kernel`.
        world: &'static str,
        /// Error text of the comparison by wit-component.
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

/// Returns instructions for the author of a kernel that imports or exports the item `name` of a
/// version that is not accepted.
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

/// Returns instructions for the author of a kernel that has the ambient import `import`.
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
