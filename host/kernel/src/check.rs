//! What is wrong with a component, before it is instantiated: every difference by name.
//!
//! (`eciton kernel check` compares whole types; this is the part that a run needs, on wasmtime's own
//! view of the component.)

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::error::{Error, Result};

/// The package that this host speaks.
const PACKAGE: &str = "eciton:kernel/";
const VERSION: &str = "@0.1.0";
const IMPORTS: [&str; 5] = ["types", "tensors", "random", "linalg", "log"];

/// Refuses a component that does not keep the contract.
pub(crate) fn contract(name: &str, engine: &Engine, component: &Component) -> Result<()> {
    let differences = differences(engine, component);
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::Contract { kernel: name.to_owned(), differences: differences.join("\n") })
}

/// One line a difference.
fn differences(engine: &Engine, component: &Component) -> Vec<String> {
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
    let mut vertex = false;
    for (name, item) in ty.exports(engine) {
        if name == format!("{PACKAGE}vertex{VERSION}") {
            vertex = matches!(item.ty, ComponentItem::ComponentInstance(_));
        } else if name.starts_with(&format!("{PACKAGE}vertex@")) {
            found.push(format!(
                "exports {name}, of another version of the contract; this host speaks {VERSION}: rebuild the kernel"
            ));
        }
    }
    if !vertex && found.is_empty() {
        found.push(format!("does not export {PACKAGE}vertex{VERSION}"));
    }
    found
}
