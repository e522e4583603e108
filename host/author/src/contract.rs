//! Comparison of a component with the contract between kernels and host. A component is compared
//! with the version of the contract that it was built for. The current version is
//! `wit/kernel/kernel.wit`, and each released one has a folder in `wit/released`. All of them are
//! embedded in the program.
//!
//! Names of imports and exports are read from the binary directly. As a result, ambient imports are
//! reported even if a component is malformed in other ways. Types are compared as WIT text.

use std::sync::OnceLock;

use wasmparser::{Parser, Payload, Validator};
use wit_component::DecodedWasm;
use wit_parser::{InterfaceId, Resolve, TypeDefKind, WorldId, WorldItem};

use crate::difference::{Difference, Side};
use crate::error::{Error, Result};
use crate::{strip, text};

/// WIT text of the current version of the contract.
pub const CONTRACT: &str = include_str!("../../../wit/kernel/kernel.wit");

/// Current version of the contract, which is the newest that a kernel may use. A test compares it
/// with the WIT text.
pub const VERSION: &str = "0.1.2";

/// Oldest version of the contract that a kernel may use.
pub const OLDEST: &str = VERSIONS[0].0;

/// Versions of the contract that a kernel may use, in ascending order, each with its WIT text. The
/// last one is the current version, and the others are released.
const VERSIONS: [(&str, &str); 3] = [
    ("0.1.0", include_str!("../../../wit/released/0.1.0/kernel.wit")),
    ("0.1.1", include_str!("../../../wit/released/0.1.1/kernel.wit")),
    (VERSION, CONTRACT),
];

/// Maximum size of a kernel's component, in bytes.
pub const MAX_COMPONENT_BYTES: u64 = 64 << 20;

const PACKAGE: &str = "eciton:kernel/";

/// Kind of a kernel, given by the WIT world that it is compiled against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// The world `vertex-kernel`, for a kernel that computes rows from rows.
    Vertex,
    /// The world `edge-kernel`, for a kernel that computes a row from the edges of a vertex.
    Edge,
}

impl World {
    pub(crate) const ALL: [Self; 2] = [Self::Vertex, Self::Edge];

    /// Returns the name of the world in WIT, for instance `vertex-kernel`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vertex => "vertex-kernel",
            Self::Edge => "edge-kernel",
        }
    }

    /// Returns the name of the interface that a kernel of this world exports.
    fn interface(self) -> &'static str {
        match self {
            Self::Vertex => "vertex",
            Self::Edge => "edge",
        }
    }
}

/// A version of the contract, parsed from WIT, with one of its worlds.
pub(crate) struct Contract {
    pub(crate) resolve: Resolve,
    pub(crate) world: WorldId,
    version: &'static str,
    /// World that `world` identifies in the parsed contract.
    of: World,
}

impl Contract {
    /// Returns the current version of the contract, with the given world.
    pub(crate) fn current(of: World) -> Result<&'static Self> {
        Self::get(of, VERSION)
    }

    /// Returns a version of the contract, with the given world. An unknown version yields the
    /// current one.
    fn get(of: World, version: &str) -> Result<&'static Self> {
        static READ: [[OnceLock<Result<Contract, String>>; 2]; VERSIONS.len()] =
            [const { [const { OnceLock::new() }; 2] }; VERSIONS.len()];
        let at = VERSIONS.iter().position(|(known, _)| *known == version).unwrap_or(VERSIONS.len() - 1);
        let (version, text) = VERSIONS[at];
        let read = READ[at][of as usize].get_or_init(|| Self::parse(of, version, text));
        read.as_ref().map_err(|found| Error::Internal { found: found.clone() })
    }

    fn parse(of: World, version: &'static str, text: &str) -> Result<Self, String> {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("kernel.wit", text).map_err(|error| format!("{error:#}"))?;
        let world =
            resolve.select_world(&[package], Some(of.name())).map_err(|error| format!("{error:#}"))?;
        Ok(Self { resolve, world, version, of })
    }

    fn interface(&self, side: Side, name: &str) -> Option<InterfaceId> {
        interface(&self.resolve, self.world, side, &format!("{PACKAGE}{name}@{}", self.version))
    }
}

/// Compares a component with the contract, and returns all differences. The list is empty if the
/// component is a valid kernel.
///
/// The component is compared with the version that it was built for, see [`version`]. A kernel may
/// import fewer interfaces and functions than the contract offers. It must export the complete
/// interface `vertex` or `edge`, which determines its world. Exports of other packages are ignored.
/// The bytes may come from an untrusted source.
///
/// # Errors
/// Returns [`Error::Internal`] if the embedded contract cannot be parsed. Defects of `component`
/// are not errors but a [`Difference`] each.
pub fn check(component: &[u8]) -> Result<Vec<Difference>> {
    if let Some(difference) = unfit_file(component) {
        return Ok(vec![difference]);
    }
    let mut differences = Vec::new();
    let names = match names(component) {
        Ok(names) => names,
        Err(difference) => return Ok(vec![difference]),
    };
    let spoken = spoken(&names);
    // If one of several versions is not accepted, that is the reason to report.
    if spoken.len() > 1 && spoken.iter().all(|version| accepted(version).is_some()) {
        let found = spoken.into_iter().map(str::to_owned).collect();
        return Ok(vec![Difference::SeveralVersions { found }]);
    }
    let speaks = compared_with(&spoken);
    let contract = match exported(&names)[..] {
        [of] => Contract::get(of, speaks)?,
        [] => {
            differences.push(Difference::NoKernelInterface);
            Contract::get(World::Vertex, speaks)?
        }
        _ => return Ok(vec![Difference::SeveralKernelInterfaces]),
    };
    compare_names(contract, &names, &mut differences);
    match decode(component) {
        Ok((resolve, world)) => {
            let found = Found { contract, resolve: &resolve, world };
            for (side, name) in &names {
                found.compare_interface(*side, name, &mut differences);
            }
        }
        // If an import is already refused, that is the reason to report. Exports of other packages
        // are ignored here, because the whole component is compared with the world below.
        Err(found) if differences.is_empty() && !several_packages(&names) => {
            differences.push(Difference::NotWit { found });
        }
        Err(_) => {}
    }
    if differences.is_empty() {
        let fits = wit_component::targets(&contract.resolve, contract.world, component);
        if let Err(error) = fits {
            let world = contract.of.name();
            differences.push(Difference::Unfit { world, found: format!("{error:#}") });
        }
    }
    Ok(differences)
}

/// Returns the version of the contract that a component was built for, from the names of its
/// imports and exports. Returns [`VERSION`] if these have no accepted version, or several. The
/// bytes may come from an untrusted source.
#[must_use]
pub fn version(component: &[u8]) -> &'static str {
    let names = match unfit_file(component) {
        None => names(component).unwrap_or_default(),
        Some(_) => Vec::new(),
    };
    compared_with(&spoken(&names))
}

/// Lists the ambient imports of a core module, each once. These are imports that do not belong to
/// the contract.
///
/// # Errors
/// Returns [`Error::Malformed`] if `module` is not a core module.
pub fn check_module(module: &[u8]) -> Result<Vec<Difference>> {
    let mut differences = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        let malformed = |error: wasmparser::BinaryReaderError| Error::Malformed {
            offset: error.offset(),
            found: error.message().to_owned(),
        };
        let Payload::ImportSection(section) = payload.map_err(malformed)? else {
            continue;
        };
        for import in section.into_imports() {
            let import = import.map_err(malformed)?;
            // `[export]eciton:kernel/vertex@0.1.0` contains the intrinsics of exported resources.
            let module = import.module.strip_prefix("[export]").unwrap_or(import.module);
            if module.starts_with(PACKAGE) {
                continue;
            }
            let difference = Difference::Ambient { import: format!("{}.{}", import.module, import.name) };
            if !differences.contains(&difference) {
                differences.push(difference);
            }
        }
    }
    Ok(differences)
}

/// Returns the reason why a file cannot be a kernel, or `None` if it is a valid component. Only its
/// size and its bytes are checked, not the contract.
pub(crate) fn unfit_file(bytes: &[u8]) -> Option<Difference> {
    let len = bytes.len() as u64;
    if len > MAX_COMPONENT_BYTES {
        return Some(Difference::TooLarge { bytes_len: len, allowed: MAX_COMPONENT_BYTES });
    }
    let header = bytes.get(..8).unwrap_or(bytes);
    let found = if header == strip::COMPONENT {
        let features = wasmparser::WasmFeatures::WASM2
            | wasmparser::WasmFeatures::EXTENDED_CONST
            | wasmparser::WasmFeatures::COMPONENT_MODEL;
        let error = Validator::new_with_features(features).validate_all(bytes).err()?;
        return Some(Difference::Invalid {
            offset: error.offset() as u64,
            found: error.message().to_owned(),
        });
    } else if header == strip::MODULE {
        "a core module".to_owned()
    } else if bytes.is_empty() {
        "an empty file".to_owned()
    } else if header.starts_with(b"\0asm") {
        format!("WebAssembly of an unknown kind (bytes {:02x?})", &header[4..])
    } else {
        format!("a file that is no WebAssembly (it begins with {:?})", String::from_utf8_lossy(header))
    };
    Some(Difference::NotAComponent { found })
}

/// Returns the names of the component's imports and exports, in the order of the binary. Names in
/// nested components are not included.
pub(crate) fn names(component: &[u8]) -> Result<Vec<(Side, String)>, Difference> {
    let invalid = |error: wasmparser::BinaryReaderError| Difference::Invalid {
        offset: error.offset() as u64,
        found: error.message().to_owned(),
    };
    let mut names = Vec::new();
    let mut depth = 0u32;
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(invalid)? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    let import = import.map_err(invalid)?;
                    names.push((Side::Import, import.name.name.to_owned()));
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    let export = export.map_err(invalid)?;
                    names.push((Side::Export, export.name.name.to_owned()));
                }
            }
            _ => {}
        }
    }
    Ok(names)
}

/// Returns the worlds whose interface a component exports, in any version of the contract. As a
/// result, a kernel for another version is not reported as one without a kernel interface.
fn exported(names: &[(Side, String)]) -> Vec<World> {
    let exports = |of: &World| {
        names.iter().any(|(side, name)| {
            let interface = kernel_interface(name).map(|(interface, _)| interface);
            *side == Side::Export && interface == Some(of.interface())
        })
    };
    World::ALL.into_iter().filter(exports).collect()
}

/// Returns the versions of the contract in the names of imports and exports, each once, in order of
/// their first occurrence.
fn spoken(names: &[(Side, String)]) -> Vec<&str> {
    let mut versions = Vec::new();
    for (_, version) in names.iter().filter_map(|(_, name)| kernel_interface(name)) {
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions
}

/// Returns the version as a static text if a kernel may use it, or `None` otherwise.
fn accepted(version: &str) -> Option<&'static str> {
    VERSIONS.iter().map(|(known, _)| *known).find(|known| *known == version)
}

fn compared_with(spoken: &[&str]) -> &'static str {
    match spoken {
        [one] => accepted(one).unwrap_or(VERSION),
        _ => VERSION,
    }
}

fn compare_names(contract: &Contract, names: &[(Side, String)], differences: &mut Vec<Difference>) {
    for (side, name) in names {
        let Some((interface, version)) = kernel_interface(name) else {
            // Additional exports, as componentize-py creates them, are never called.
            if *side == Side::Import {
                differences.push(Difference::Ambient { import: name.clone() });
            }
            continue;
        };
        if accepted(version).is_none() {
            differences.push(Difference::Version { side: *side, name: name.clone() });
        } else if contract.interface(*side, interface).is_none() {
            differences.push(match side {
                Side::Import => Difference::UnknownInterface {
                    interface: interface.to_owned(),
                    contract: contract.version,
                },
                Side::Export => Difference::ExtraExport { name: name.clone(), contract: contract.version },
            });
        }
    }
}

/// Splits the name of an interface of the contract. For instance, `eciton:kernel/vertex@0.1.0`
/// yields `vertex` and `0.1.0`. The version is empty if the name has none, and other packages yield
/// `None`.
fn kernel_interface(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_prefix(PACKAGE)?;
    Some(name.split_once('@').unwrap_or((name, "")))
}

/// Returns true if imports and exports belong to several packages, or to several versions of a
/// package.
fn several_packages(names: &[(Side, String)]) -> bool {
    let package = |name: &str| -> Option<(String, String)> {
        let (package, interface) = name.split_once('/')?;
        Some((package.to_owned(), interface.split_once('@').unwrap_or((interface, "")).1.to_owned()))
    };
    let mut all = names.iter().filter_map(|(_, name)| package(name));
    let first = all.next();
    all.any(|other| Some(other) != first)
}

/// Decodes the types of a component as WIT. Returns an error text if they belong to several
/// packages, because the decoder would recurse endlessly for packages that use each other.
pub(crate) fn decode(component: &[u8]) -> Result<(Resolve, WorldId), String> {
    if several_packages(&names(component).unwrap_or_default()) {
        return Err("its imports and exports are of several packages".to_owned());
    }
    // The decoder has assertions that a valid but unusual component may violate.
    let decoded = std::panic::catch_unwind(|| wit_component::decode(component));
    match decoded {
        Ok(Ok(DecodedWasm::Component(resolve, world))) => Ok((resolve, world)),
        Ok(Ok(DecodedWasm::WitPackage(..))) => Err("a WIT package, without code".to_owned()),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(_) => Err("the decoder gave up".to_owned()),
    }
}

pub(crate) fn interface(resolve: &Resolve, world: WorldId, side: Side, name: &str) -> Option<InterfaceId> {
    let world = &resolve.worlds[world];
    let items = match side {
        Side::Import => &world.imports,
        Side::Export => &world.exports,
    };
    items.values().find_map(|item| match item {
        WorldItem::Interface { id, .. } => {
            let interface = &resolve.interfaces[*id];
            let named = interface.package.is_some() && resolve.id_of(*id).as_deref() == Some(name);
            named.then_some(*id)
        }
        _ => None,
    })
}

/// A decoded component, with the version of the contract that it is compared with.
struct Found<'a> {
    contract: &'a Contract,
    resolve: &'a Resolve,
    world: WorldId,
}

impl Found<'_> {
    /// Compares an interface of the component with the interface of the same name in the contract.
    /// Does nothing if the contract does not have it.
    fn compare_interface(&self, side: Side, name: &str, differences: &mut Vec<Difference>) {
        let Some((short, _)) = kernel_interface(name) else {
            return;
        };
        let (Some(ours), Some(theirs)) = (
            interface(&self.contract.resolve, self.contract.world, side, name),
            interface(self.resolve, self.world, side, name),
        ) else {
            return;
        };
        self.compare_types(side, short, ours, theirs, differences);
        self.compare_functions(side, short, ours, theirs, differences);
    }

    fn compare_types(
        &self,
        side: Side,
        interface: &str,
        ours: InterfaceId,
        theirs: InterfaceId,
        differences: &mut Vec<Difference>,
    ) {
        let expected = &self.contract.resolve.interfaces[ours].types;
        let found = &self.resolve.interfaces[theirs].types;
        for (name, &id) in found {
            let definition = text::definition(self.resolve, theirs, id);
            let Some(&contract) = expected.get(name) else {
                differences.push(Difference::UnknownType {
                    side,
                    interface: interface.to_owned(),
                    name: name.clone(),
                    contract: self.contract.version,
                    found: definition,
                });
                continue;
            };
            let contract = text::definition(&self.contract.resolve, ours, contract);
            if contract != definition {
                differences.push(Difference::ChangedType {
                    side,
                    interface: interface.to_owned(),
                    name: name.clone(),
                    expected: contract,
                    found: definition,
                });
            }
        }
        if side == Side::Import {
            return;
        }
        for (name, &id) in expected {
            if found.contains_key(name) {
                continue;
            }
            differences.push(match self.contract.resolve.types[id].kind {
                TypeDefKind::Resource => {
                    Difference::MissingResource { interface: interface.to_owned(), resource: name.clone() }
                }
                // A type name that is only used from another interface is optional.
                TypeDefKind::Type(_) => continue,
                _ => Difference::MissingType {
                    interface: interface.to_owned(),
                    name: name.clone(),
                    expected: text::definition(&self.contract.resolve, ours, id),
                },
            });
        }
    }

    fn compare_functions(
        &self,
        side: Side,
        interface: &str,
        ours: InterfaceId,
        theirs: InterfaceId,
        differences: &mut Vec<Difference>,
    ) {
        let expected = &self.contract.resolve.interfaces[ours].functions;
        let found = &self.resolve.interfaces[theirs].functions;
        for (name, function) in found {
            let words = text::function(self.resolve, theirs, function);
            // A method and a static function may have the same name, but differ in kind.
            let twin = expected.get(name).or_else(|| {
                let short = text::function_name(function);
                expected.values().find(|function| text::function_name(function) == short)
            });
            let Some(contract) = twin else {
                differences.push(Difference::UnknownFunction {
                    side,
                    interface: interface.to_owned(),
                    function: text::function_name(function),
                    contract: self.contract.version,
                    found: words,
                });
                continue;
            };
            let contract = text::function(&self.contract.resolve, ours, contract);
            if contract != words {
                differences.push(Difference::ChangedFunction {
                    side,
                    interface: interface.to_owned(),
                    function: text::function_name(function),
                    expected: contract,
                    found: words,
                });
            }
        }
        if side == Side::Import {
            return;
        }
        for function in expected.values() {
            let short = text::function_name(function);
            if !found.values().any(|found| text::function_name(found) == short) {
                differences.push(Difference::MissingFunction {
                    interface: interface.to_owned(),
                    function: short,
                    expected: text::function(&self.contract.resolve, ours, function),
                });
            }
        }
    }
}

#[cfg(test)]
#[path = "contract_tests.rs"]
mod tests;
