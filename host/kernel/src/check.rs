//! What is wrong with a component, before it is instantiated: every difference by name.
//!
//! (`eciton kernel check` compares whole types; this is the part that a run needs, on wasmtime's own
//! view of the component.)

use eciton_plan::On;
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::error::{Error, Result};

/// The package that this host speaks.
const PACKAGE: &str = "eciton:kernel/";
const VERSION: &str = "@0.1.0";
const IMPORTS: [&str; 5] = ["types", "tensors", "random", "linalg", "log"];

/// Refuses a component that does not keep the contract.
pub(crate) fn contract(name: &str, engine: &Engine, component: &Component) -> Result<On> {
    let (differences, kind) = differences(engine, component);
    if differences.is_empty() {
        return Ok(kind);
    }
    Err(Error::Contract { kernel: name.to_owned(), differences: differences.join("\n") })
}

/// One line a difference, and what kind of a kernel it is.
fn differences(engine: &Engine, component: &Component) -> (Vec<String>, On) {
    let mut found = Vec::new();
    let ty = component.component_type();
    for (name, _) in ty.imports(engine) {
        match name.strip_prefix(PACKAGE) {
            Some(rest) => match rest.strip_suffix(VERSION) {
                Some(interface) if IMPORTS.contains(&interface) => {}
                Some(interface) => found.push(format!("imports the unknown interface {PACKAGE}{interface}{VERSION}")),
                None => found.push(format!(
                    "imports {name}, of another version of the contract; this host speaks {VERSION}: rebuild the kernel"
                )),
            },
            None if name.starts_with("wasi:") => found.push(format!(
                "imports {name}: a kernel has no ambient access; build it for wasm32-unknown-unknown and avoid files, clocks, environment and randomness"
            )),
            None => found.push(format!("imports {name}, which this host does not offer")),
        }
    }
    let mut kinds = Vec::new();
    for (name, item) in ty.exports(engine) {
        for (interface, kind) in [("vertex", On::Rows), ("edge", On::Edges)] {
            if name == format!("{PACKAGE}{interface}{VERSION}") {
                kinds.extend(matches!(item.ty, ComponentItem::ComponentInstance(_)).then_some(kind));
            } else if name.starts_with(&format!("{PACKAGE}{interface}@")) {
                found.push(format!(
                    "exports {name}, of another version of the contract; this host speaks {VERSION}: rebuild the kernel"
                ));
            }
        }
    }
    match kinds[..] {
        [kind] => (found, kind),
        _ if !found.is_empty() => (found, On::Rows),
        _ => {
            let either = format!("{PACKAGE}vertex{VERSION} or {PACKAGE}edge{VERSION}");
            let exports = if kinds.is_empty() { "neither" } else { "both" };
            found.push(format!("must export one of {either}, and exports {exports}"));
            (found, On::Rows)
        }
    }
}
