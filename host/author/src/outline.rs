//! Outline of a component: the interfaces that it imports and exports, with their functions.

use crate::contract::{decode, interface, names, unfit_file};
use crate::difference::Side;
use crate::text;

/// An interface that a component imports or exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Direction of the interface: imported or exported by the component.
    pub side: Side,
    /// Name of the interface in the binary, for instance `eciton:kernel/linalg@0.1.0`.
    pub name: String,
    /// Pairs of a function's name, for instance `matrix.rows`, and its type as WIT text. The list
    /// is empty if the item is not an interface, or cannot be decoded.
    pub functions: Vec<(String, String)>,
}

/// Returns the interfaces that a component imports, followed by those that it exports. The bytes
/// may come from an untrusted source. If they are not a component, the list is empty, and
/// [`crate::check`] gives the reason.
#[must_use]
pub fn outline(component: &[u8]) -> Vec<Interface> {
    let named = match unfit_file(component) {
        None => names(component).unwrap_or_default(),
        Some(_) => Vec::new(),
    };
    let decoded = decode(component).ok();
    let functions = |side, name: &str| {
        let (resolve, world) = decoded.as_ref()?;
        let id = interface(resolve, *world, side, name)?;
        let all = resolve.interfaces[id].functions.values();
        Some(all.map(|f| (text::function_name(f), text::function(resolve, id, f))).collect())
    };
    let found = named.into_iter().map(|(side, name)| {
        let functions = functions(side, &name).unwrap_or_default();
        Interface { side, name, functions }
    });
    let (mut all, exports): (Vec<_>, Vec<_>) = found.partition(|interface| interface.side == Side::Import);
    all.extend(exports);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_interfaces_are_named_with_their_functions() {
        let linear = include_bytes!("../../../guest-kernels/prebuilt/linear.wasm");
        let all = outline(linear);
        let of = |side, name: &str| {
            let name = format!("eciton:kernel/{name}@{}", crate::VERSION);
            all.iter().find(|found| found.side == side && found.name == name)
        };
        let vertex = of(Side::Export, "vertex").map(|vertex| vertex.functions.clone()).unwrap_or_default();
        let names: Vec<&str> = vertex.iter().map(|(name, _)| &name[..]).collect();
        assert!(names.contains(&"attributes") && names.contains(&"layer.open"), "{names:?}");
        assert!(of(Side::Import, "linalg").is_some_and(|linalg| !linalg.functions.is_empty()), "{all:?}");
        assert_eq!(all.last().map(|last| last.side), Some(Side::Export));
        for other in [&b""[..], b"text", b"\0asm\x01\0\0\0", &linear[..linear.len() / 2]] {
            assert_eq!(outline(other), []);
        }
    }
}
