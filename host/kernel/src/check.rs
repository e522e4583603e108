//! Comparison of a component with the kernel contract, before the component is instantiated.
//!
//! These are the checks that a run needs, on wasmtime's view of the component. (`eciton kernel
//! check` compares complete types.)

use eciton_types::On;
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::error::{Error, Result};

/// Newest version of the kernel contract that this host supports. A test compares this constant
/// with the contract's text.
///
/// The host runs kernels of every contract version from 0.1.0 to this one. A later version of a
/// series offers everything that an earlier one offers. By this rule wasmtime resolves an import of
/// `linalg@0.1.0` to `linalg@0.1.2`.
pub const CONTRACT: &str = "eciton:kernel@0.1.2";

const PACKAGE: &str = "eciton:kernel/";
const SERIES: &str = "0.1.";
const PATCH: u64 = 2;
const IMPORTS: [&str; 7] = ["types", "tensors", "random", "linalg", "dense", GIVEN, "log"];

/// Interface through which a kernel reads the loss weights of rows. The contract has it since
/// version 0.1.2.
const GIVEN: &str = "given";

/// Properties of a component that fulfils the kernel contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Domain of the kernel, which is vertex rows or edges.
    pub(crate) on: On,
    /// True if the component imports the interface `given`, through which it reads loss weights.
    pub(crate) asks: bool,
}

/// Checks that a component fulfils the kernel contract, and returns its properties.
pub(crate) fn contract(name: &str, engine: &Engine, component: &Component) -> Result<Kept> {
    let (differences, on) = differences(engine, component);
    if differences.is_empty() {
        let ty = component.component_type();
        let given = |name: &str| of_contract(name).is_some_and(|(interface, _)| interface == GIVEN);
        return Ok(Kept { on, asks: ty.imports(engine).any(|(name, _)| given(name)) });
    }
    Err(Error::Contract { kernel: name.to_owned(), differences: differences.join("\n") })
}

/// Splits the name of a contract interface into interface and version. For instance,
/// `eciton:kernel/vertex@0.1.0` gives `vertex` and `0.1.0`. The version is empty if the name has
/// none. Returns `None` for names of other packages.
fn of_contract(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_prefix(PACKAGE)?;
    Some(name.split_once('@').unwrap_or((name, "")))
}

fn range() -> String {
    format!("{SERIES}0 to {SERIES}{PATCH}")
}

/// Returns the reason why the host refuses a contract version, or `None` if it supports the
/// version.
fn refusal(version: &str) -> Option<String> {
    let patch = version.strip_prefix(SERIES).and_then(|patch| patch.parse::<u64>().ok());
    let remedy = match patch {
        Some(patch) if patch <= PATCH => return None,
        Some(_) => "the kernel needs a newer eciton",
        None => "rebuild the kernel with the SDK of this release",
    };
    Some(format!(", which is another version of the contract; this host accepts {}: {remedy}", range()))
}

/// Returns the differences between a component and the kernel contract, one per line, and the
/// domain of the kernel.
fn differences(engine: &Engine, component: &Component) -> (Vec<String>, On) {
    let mut found = Vec::new();
    let ty = component.component_type();
    let mut versions = Vec::new();
    for (name, _) in ty.imports(engine) {
        match of_contract(name) {
            Some((interface, version)) => match refusal(version) {
                Some(refusal) => found.push(format!("imports {name}{refusal}")),
                None => {
                    versions.push(version);
                    if !IMPORTS.contains(&interface) {
                        found.push(format!("imports the unknown interface {name}"));
                    }
                }
            },
            None if name.starts_with("wasi:") => found.push(format!(
                "imports {name}: a kernel has no ambient access; build it for wasm32-unknown-unknown and avoid files, clocks, environment and randomness"
            )),
            None => found.push(format!("imports {name}, which this host does not offer")),
        }
    }
    let mut kinds = Vec::new();
    for (name, item) in ty.exports(engine) {
        let (kind, version) = match of_contract(name) {
            Some(("vertex", version)) => (On::Rows, version),
            Some(("edge", version)) => (On::Edges, version),
            _ => continue,
        };
        if let Some(refusal) = refusal(version) {
            found.push(format!("exports {name}{refusal}"));
        } else if matches!(item.ty, ComponentItem::ComponentInstance(_)) {
            kinds.push(kind);
            versions.push(version);
        }
    }
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        found.push(format!(
            "imports and exports the contract versions {}, but a component can use one version only: build all of it with one SDK",
            versions.join(" and ")
        ));
    }
    match kinds[..] {
        [kind] => (found, kind),
        _ if !found.is_empty() => (found, On::Rows),
        _ => {
            let either = format!("{PACKAGE}vertex or {PACKAGE}edge, version {}", range());
            let exports = if kinds.is_empty() { "neither" } else { "both" };
            found.push(format!("must export one of {either}, but exports {exports}"));
            (found, On::Rows)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_contract_is_the_one_of_the_text() {
        let text = include_str!("../../../wit/kernel/kernel.wit");
        assert!(text.contains(&format!("\npackage {CONTRACT};\n")), "set CONTRACT to the text's version");
        assert_eq!(CONTRACT, format!("eciton:kernel@{SERIES}{PATCH}"));
    }

    #[test]
    fn versions_that_are_refused_have_a_remedy() {
        for patch in 0..=PATCH {
            assert_eq!(refusal(&format!("{SERIES}{patch}")), None);
        }
        for (version, remedy) in [
            (format!("{SERIES}{}", PATCH + 1), "newer eciton"),
            ("0.2.0".to_owned(), "rebuild"),
            ("1.1.0".to_owned(), "rebuild"),
            ("0.1.0-rc.1".to_owned(), "rebuild"),
            ("0.1".to_owned(), "rebuild"),
            (String::new(), "rebuild"),
        ] {
            let refusal = refusal(&version).unwrap();
            assert!(refusal.contains(remedy) && refusal.contains(&range()), "{version}: {refusal}");
        }
    }
}
