//! Tests with components that differ from the contract. Each kind of difference is made by a WIT
//! text that differs.
#![allow(clippy::unwrap_used, clippy::panic)]
use wit_parser::{LiftLowerAbi, ManglingAndAbi};

use super::*;

/// Function of the contract.
const ROW_IDS: &str = "row-ids: func(start: u32, count: u32) -> result<list<u64>, error>;";

/// Creates a component of a world, whose functions trap.
fn component_of(wit: &[&str], world: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let mut packages = Vec::new();
    for (at, text) in wit.iter().enumerate() {
        packages.push(resolve.push_str(format!("{at}.wit"), text).unwrap());
    }
    let package = *packages.last().unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mangling = ManglingAndAbi::Legacy(LiftLowerAbi::Sync);
    let mut module = wit_component::dummy_module(&resolve, world, mangling);
    let encoding = wit_component::StringEncoding::UTF8;
    wit_component::embed_component_metadata(&mut module, &resolve, world, encoding).unwrap();
    wit_component::ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

/// Returns the package declaration of a version.
fn package(version: &str) -> String {
    format!("package eciton:kernel@{version};")
}

/// Returns the current contract under another version number.
fn of_version(version: &str) -> String {
    assert!(CONTRACT.contains(&package(VERSION)));
    CONTRACT.replace(&package(VERSION), &package(version))
}

/// Returns the differences of a kernel that was built against the contract with `from` replaced by
/// `to`.
fn changed(from: &str, to: &str) -> Vec<Difference> {
    changed_in(World::Vertex, from, to)
}

/// Returns the differences like [`changed`], for a kernel of another world.
fn changed_in(of: World, from: &str, to: &str) -> Vec<Difference> {
    assert!(CONTRACT.contains(from), "the contract has no {from:?} any more");
    check(&component_of(&[&CONTRACT.replace(from, to)], of.name())).unwrap()
}

fn texts(differences: &[Difference]) -> Vec<String> {
    differences.iter().map(Difference::to_string).collect()
}

#[test]
fn every_version_has_its_text_and_the_worlds() {
    for (of, (known, _)) in World::ALL.into_iter().flat_map(|of| VERSIONS.map(|version| (of, version))) {
        let contract = Contract::get(of, known).unwrap();
        let package = contract.resolve.worlds[contract.world].package.unwrap();
        let version = contract.resolve.packages[package].name.version.clone();
        assert_eq!((version.unwrap().to_string(), contract.of), (known.to_owned(), of));
        assert_eq!(contract.version, known);
        for other in World::ALL {
            assert_eq!(contract.interface(Side::Export, other.interface()).is_some(), other == of);
        }
    }
    // The list contains exactly the released versions.
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/released");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut released: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    released.sort();
    let (current, listed) = VERSIONS.split_last().unwrap();
    assert_eq!(released, listed.iter().map(|(version, _)| *version).collect::<Vec<_>>());
    assert_eq!(*current, (VERSION, CONTRACT));
}

#[test]
fn every_version_itself_fits() {
    for (of, (known, text)) in World::ALL.into_iter().flat_map(|of| VERSIONS.map(|version| (of, version))) {
        let component = component_of(&[text], of.name());
        assert_eq!((version(&component), check(&component).unwrap()), (known, vec![]));
        let bare = strip::custom_sections(&component, &|_| false).unwrap();
        assert!(bare.len() < component.len());
        assert_eq!((version(&bare), check(&bare).unwrap()), (known, vec![]));
    }
}

/// Returns the differences between the current contract and a kernel of another text.
fn missed(released: &str, text: &str) -> Vec<Difference> {
    let text = text.replace(&package(released), &package(VERSION));
    let mut differences = Vec::new();
    for of in World::ALL {
        let then = Contract::parse(of, VERSION, &text).unwrap();
        let contract = Contract::current(of).unwrap();
        let world = &then.resolve.worlds[then.world];
        let sides = [(Side::Import, &world.imports), (Side::Export, &world.exports)];
        let names: Vec<(Side, String)> = sides
            .into_iter()
            .flat_map(|(side, items)| items.values().map(move |item| (side, item)))
            .map(|(side, item)| {
                let WorldItem::Interface { id, .. } = item else { panic!("{item:?}") };
                (side, then.resolve.id_of(*id).unwrap())
            })
            .collect();
        assert!(names.len() >= 4, "{names:?}");
        compare_names(contract, &names, &mut differences);
        let found = Found { contract, resolve: &then.resolve, world: then.world };
        for (side, name) in &names {
            found.compare_interface(*side, name, &mut differences);
        }
    }
    differences
}

#[test]
fn the_contract_offers_what_every_released_one_does() {
    for (released, text) in VERSIONS {
        assert_eq!(missed(released, text), [], "{released}");
    }
    // Items that have changed since then, or were removed, or that earlier kernels do not export.
    for (from, to) in [
        (ROW_IDS, "row-ids: func(start: u32) -> result<list<u64>, error>;"),
        (ROW_IDS, "row-ids: func(start: u32, count: u32) -> result<list<u64>, error>; more: func();"),
        ("enum level { debug, info, warning }", "enum level { debug, info, warning, error }"),
        ("interface log {", "interface log { record unused { line: u32 }"),
        ("signature: func() -> signature;", ""),
        ("    import log;\n", "    import log;\n    import old;\n"),
    ] {
        let (released, text) = VERSIONS[0];
        assert!(text.contains(from), "{from}");
        let text = format!("{}\ninterface old {{ f: func(); }}", text.replace(from, to));
        assert_ne!(missed(released, &text), [], "{from} -> {to}");
    }
    // A variant must not get new cases, because older hosts cannot read them.
    let (released, text) = VERSIONS[1];
    assert!(text.contains("        absolute,"));
    let grown = text.replace("        absolute,", "        absolute,\n        cube,");
    assert_ne!(missed(released, &grown), []);
}

#[test]
fn fewer_imports_fit() {
    let fewer = CONTRACT
        .replace("    import linalg;\n", "")
        .replace("    import log;\n", "")
        .replace("    import random;\n", "");
    assert!(fewer.len() < CONTRACT.len());
    for of in World::ALL {
        assert_eq!(check(&component_of(&[&fewer], of.name())).unwrap(), []);
    }
    assert_eq!(changed(ROW_IDS, ""), []);
}

#[test]
fn files_that_are_no_components() {
    let module = wat::parse_str("(module)").unwrap();
    for (bytes, word) in [
        (&module[..], "a core module"),
        (b"", "an empty file"),
        (b"\x7fELF\x02\x01\x01\x00", "no WebAssembly"),
        (b"\0asm", "unknown kind"),
        (b"\0asm\x63\0\0\0", "unknown kind"),
        (b"\xff\xfe", "no WebAssembly"),
    ] {
        let differences = check(bytes).unwrap();
        let [Difference::NotAComponent { found }] = &differences[..] else {
            panic!("{differences:?}");
        };
        assert!(found.contains(word), "{found}");
    }
    let component = component_of(&[CONTRACT], World::Vertex.name());
    let cut = check(&component[..component.len() - 9]).unwrap();
    assert!(matches!(cut[..], [Difference::Invalid { .. }]), "{cut:?}");
}

#[test]
fn the_largest_file_is_stated() {
    let mut bytes = vec![0; usize::try_from(MAX_COMPONENT_BYTES).unwrap()];
    assert!(matches!(check(&bytes).unwrap()[..], [Difference::NotAComponent { .. }]));
    bytes.push(0);
    let differences = check(&bytes).unwrap();
    assert!(matches!(differences[..], [Difference::TooLarge { .. }]), "{differences:?}");
}

#[test]
fn features_that_kernels_lack() {
    let relaxed = "(func (param v128) (result v128) local.get 0 local.get 0 i8x16.relaxed_swizzle)";
    for (text, feature) in [
        ("(memory 1 1 shared)", "threads"),
        ("(func $f return_call $f)", "tail calls"),
        (relaxed, "relaxed SIMD"),
    ] {
        let component = wat::parse_str(format!("(component (core module {text}))")).unwrap();
        let differences = check(&component).unwrap();
        let [Difference::Invalid { found, .. }] = &differences[..] else {
            panic!("{differences:?}");
        };
        assert!(found.contains(feature), "{found}");
    }
}

#[test]
fn a_wit_package_is_no_kernel() {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("kernel.wit", CONTRACT).unwrap();
    let bytes = wit_component::encode(&resolve, package).unwrap();
    let differences = check(&bytes).unwrap();
    assert!(differences.contains(&Difference::NoKernelInterface), "{differences:?}");
}

#[test]
fn an_empty_component_exports_no_kernel() {
    let differences = check(&wat::parse_str("(component)").unwrap()).unwrap();
    assert_eq!(differences, [Difference::NoKernelInterface]);
}

#[test]
fn every_ambient_import_is_named_with_a_remedy() {
    let wasi = |name: &str, interface: &str| {
        format!("package wasi:{name}@0.2.3;\ninterface {interface} {{ f: func() -> u32; }}")
    };
    let own = CONTRACT.replace(
        "    import log;\n",
        "    import log;\n    import wasi:clocks/wall-clock@0.2.3;\n    import wasi:random/random@0.2.3;\n    import wasi:cli/environment@0.2.3;\n    import wasi:filesystem/types@0.2.3;\n    import now: func() -> u64;\n",
    );
    let component = component_of(
        &[
            &wasi("clocks", "wall-clock"),
            &wasi("random", "random"),
            &wasi("cli", "environment"),
            &wasi("filesystem", "types"),
            &own,
        ],
        World::Vertex.name(),
    );
    let differences = check(&component).unwrap();
    let texts = texts(&differences);
    assert_eq!(texts.len(), 5, "{texts:#?}");
    for (name, remedy) in [
        ("wasi:clocks/wall-clock@0.2.3", "clock"),
        ("wasi:random/random@0.2.3", "interface random"),
        ("wasi:cli/environment@0.2.3", "attributes"),
        ("wasi:filesystem/types@0.2.3", "inputs"),
        ("now", "remove the dependency"),
    ] {
        assert!(
            texts.iter().any(|text| text.contains(&format!("imports {name},")) && text.contains(remedy)),
            "{name}: {texts:#?}"
        );
    }
}

#[test]
fn ambient_imports_of_a_core_module() {
    let text = r#"(module
        (import "eciton:kernel/linalg@0.1.0" "matmul" (func))
        (import "[export]eciton:kernel/vertex@0.1.0" "[resource-new]layer" (func))
        (import "wasi_snapshot_preview1" "fd_write" (func))
        (import "wasi_snapshot_preview1" "fd_write" (func))
        (import "env" "cblas_sgemm" (func))
        (import "__wbindgen_placeholder__" "__wbindgen_describe" (func)))"#;
    let differences = check_module(&wat::parse_str(text).unwrap()).unwrap();
    let texts = texts(&differences);
    assert_eq!(texts.len(), 3, "{texts:#?}");
    assert!(texts[0].contains("wasi_snapshot_preview1.fd_write") && texts[0].contains("WASI target"));
    assert!(texts[1].contains("env.cblas_sgemm"));
    assert!(texts[2].contains("browser"));
    assert!(check_module(b"\0asm\x01\0\0\0\x02").is_err());
}

#[test]
fn another_version_is_named_and_the_spoken_one_too() {
    let differences = changed(&package(VERSION), &package("0.2.0"));
    let exported = Difference::Version { side: Side::Export, name: "eciton:kernel/vertex@0.2.0".to_owned() };
    assert!(differences.contains(&exported), "{differences:?}");
    assert!(
        differences.iter().all(|difference| matches!(difference, Difference::Version { .. })),
        "{differences:?}"
    );
    let text = exported.to_string();
    for word in ["vertex@0.2.0", &format!("{OLDEST} to {VERSION}: "), "build the kernel again"] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
    let newer = texts(&check(&component_of(&[&of_version("0.1.999")], World::Edge.name())).unwrap());
    assert!(newer.iter().all(|text| text.ends_with(": the kernel needs a newer eciton")), "{newer:?}");

    let none = changed(&package(VERSION), "package eciton:kernel;");
    assert!(matches!(none[0], Difference::Version { .. }), "{none:?}");
}

/// Checks a component with two versions of the contract's package.
#[test]
fn a_component_speaks_one_version() {
    let both = |other: &str| {
        let import = format!("    import log;\n    import eciton:kernel/random@{other};\n");
        let text = CONTRACT.replace("    import random;\n", "").replace("    import log;\n", &import);
        check(&component_of(&[&of_version(other), &text], World::Vertex.name())).unwrap()
    };
    let differences = both(OLDEST);
    let [Difference::SeveralVersions { found }] = &differences[..] else { panic!("{differences:?}") };
    assert!(found.len() == 2 && found.iter().all(|found| [OLDEST, VERSION].contains(&&**found)), "{found:?}");
    assert!(differences[0].to_string().contains("a component speaks one"), "{differences:?}");
    assert!(matches!(both("0.2.0")[..], [Difference::Version { .. }, ..]));
}

/// Checks that new items of a contract are available only to kernels of that version.
#[test]
fn a_component_is_compared_with_the_version_that_it_speaks() {
    let (oldest, text) = VERSIONS[0];
    let newer = text.replace(ROW_IDS, &format!("{ROW_IDS} more: func();"));
    let differences = check(&component_of(&[&newer], World::Vertex.name())).unwrap();
    let texts = texts(&differences);
    let words = format!("random: function more is imported, contract {oldest} has none of that name: func()");
    assert_eq!(texts, [words]);
}

#[test]
fn a_component_is_a_kernel_of_vertices_or_of_edges() {
    for of in World::ALL {
        let none = changed_in(of, &format!("    export {};\n", of.interface()), "");
        assert_eq!(none, [Difference::NoKernelInterface]);
        let text = none[0].to_string();
        assert!(text.contains("kernel/vertex@") && text.contains("kernel/edge@"), "{text}");
        let export = format!("    export {};\n", of.interface());
        let both = changed_in(of, &export, "    export vertex;\n    export edge;\n");
        assert_eq!(both, [Difference::SeveralKernelInterfaces]);
    }
}

#[test]
fn an_edge_kernel_is_compared_with_its_own_world() {
    let differences = changed_in(World::Edge, "owners: ids,", "owners: list<u32>,");
    let [Difference::ChangedType { side: Side::Export, interface, name, expected, .. }] = &differences[..]
    else {
        panic!("{differences:?}");
    };
    assert_eq!((interface.as_str(), name.as_str()), ("edge", "lists"));
    assert!(expected.contains("owners: tensors.ids"), "{expected}");
    let differences = changed_in(World::Edge, "backward-sources: func(", "backward: func(");
    let texts = texts(&differences);
    assert_eq!(texts.len(), 2, "{texts:#?}");
    assert!(texts[0].starts_with("edge: function layer.backward is exported, "), "{texts:#?}");
    assert!(texts[1].starts_with("edge: function layer.backward-sources is missing: "), "{texts:#?}");
    let differences = changed_in(World::Edge, &package(VERSION), &package("0.2.0"));
    assert!(differences.iter().all(|found| matches!(found, Difference::Version { .. })), "{differences:?}");
}

#[test]
fn changed_functions_show_both_types() {
    let differences =
        changed(ROW_IDS, "row-ids: func(start: u64, more: option<list<f32>>) -> result<list<u64>, error>;");
    assert_eq!(
        differences,
        [Difference::ChangedFunction {
            side: Side::Import,
            interface: "random".to_owned(),
            function: "row-ids".to_owned(),
            expected: "func(start: u32, count: u32) -> result<list<u64>, types.error>".to_owned(),
            found: "func(start: u64, more: option<list<f32>>) -> result<list<u64>, types.error>".to_owned(),
        }]
    );
    let differences = changed(
        "signature: func() -> signature;",
        "signature: static func(this: borrow<layer>) -> result<signature, error>;",
    );
    assert_eq!(
        differences,
        [Difference::ChangedFunction {
            side: Side::Export,
            interface: "vertex".to_owned(),
            function: "layer.signature".to_owned(),
            expected: "func() -> signature".to_owned(),
            found: "static func(this: borrow<layer>) -> result<signature, types.error>".to_owned(),
        }]
    );
}

#[test]
fn missing_and_unknown_functions() {
    let differences = changed("signature: func() -> signature;", "describe: func() -> signature;");
    assert_eq!(
        texts(&differences),
        [
            "vertex: function layer.describe is exported, contract 0.1.2 has none of that name: func() -> signature",
            "vertex: function layer.signature is missing: func() -> signature",
        ]
    );
    let differences = changed("row-ids: func(", "entropy: func(");
    assert_eq!(
        texts(&differences),
        [
            "random: function entropy is imported, contract 0.1.2 has none of that name: func(start: u32, count: u32) -> result<list<u64>, types.error>"
        ]
    );
}

#[test]
fn changed_types_are_listed_by_name() {
    let differences = changed("record task {\n", "record task {\n        device: u8,\n");
    let [Difference::ChangedType { side: Side::Export, interface, name, expected, found }] = &differences[..]
    else {
        panic!("{differences:?}");
    };
    assert_eq!((interface.as_str(), name.as_str()), ("vertex", "task"));
    assert!(expected.starts_with("record { training: bool, "), "{expected}");
    assert!(found.starts_with("record { device: u8, training: bool, "), "{found}");

    for (from, to) in [
        ("leaky-relu(f32)", "leaky-relu(f64)"),
        ("enum reduction { sum, mean, max }", "enum reduction { sum, max, mean }"),
        ("flags needs {", "flags needs { weights,"),
        ("resource ids {", "resource ids { constructor();"),
    ] {
        let differences = changed(from, to);
        assert_eq!(differences.len(), 1, "{from}: {differences:?}");
    }
}

#[test]
fn missing_resource_and_types() {
    let contract = CONTRACT.replace("resource layer {", "resource module {");
    let contract = contract.replace("-> result<layer, error>", "-> result<module, error>");
    let texts = texts(&check(&component_of(&[&contract], World::Vertex.name())).unwrap());
    assert!(texts.contains(&"vertex: resource layer is missing".to_owned()), "{texts:#?}");
    assert!(
        texts
            .iter()
            .any(|text| text.starts_with("vertex: function layer.forward is missing: func(task: task, "))
    );
    assert!(texts.iter().any(|text| text.starts_with("vertex: type module is exported, ")));
}

#[test]
fn unknown_interface_and_extra_export() {
    let own = CONTRACT.replace(
        "world vertex-kernel {",
        "interface more { f: func(); }\nworld vertex-kernel {\n import more;\n export more;\n",
    );
    let texts = texts(&check(&component_of(&[&own], World::Vertex.name())).unwrap());
    assert_eq!(texts.len(), 2, "{texts:#?}");
    assert!(texts[0].starts_with("interface more is imported, contract 0.1.2 has none"));
    assert!(
        texts[1].starts_with("eciton:kernel/more@0.1.2 is exported, contract 0.1.2 asks for no such thing")
    );
}

/// Checks an additional interface `exports`, as componentize-py creates it.
#[test]
fn what_is_exported_besides_is_nobodys_concern() {
    let own = CONTRACT.replace(
        "world vertex-kernel {",
        "world vertex-kernel {\n export extra: func();\n export exports: interface { init: func(app: string); }\n",
    );
    assert_eq!(check(&component_of(&[&own], World::Vertex.name())).unwrap(), []);
}

/// Checks types of packages that use each other in a cycle, which can result from a damaged import
/// name.
#[test]
fn packages_that_use_each_other_are_refused() {
    let component = component_of(&[CONTRACT], World::Vertex.name());
    let (name, other) = (format!("kernel/tensors@{VERSION}"), format!("kernal/tensors@{VERSION}"));
    let (name, other) = (name.as_bytes(), other.as_bytes());
    let mut damaged = component.clone();
    for at in 0..damaged.len() - name.len() {
        if &damaged[at..at + name.len()] == name {
            damaged[at..at + name.len()].copy_from_slice(other);
        }
    }
    assert_ne!(damaged, component);
    assert!(!check(&damaged).unwrap().is_empty());
    assert!(!crate::outline(&damaged).is_empty());
}

/// Checks that exported interfaces of other packages are ignored.
#[test]
fn interfaces_of_other_packages_may_be_exported() {
    let own = CONTRACT.replace("world vertex-kernel {", "world vertex-kernel {\n export other:more/extra;\n");
    let other = "package other:more;\ninterface extra { f: func(); }";
    assert_eq!(check(&component_of(&[other, &own], World::Vertex.name())).unwrap(), []);
}

/// Checks that damaged components are refused or reported as different, without a panic or an
/// endless loop.
#[test]
fn damaged_bytes_never_panic() {
    let component = component_of(&[CONTRACT], World::Vertex.name());
    let component = strip::custom_sections(&component, &|_| false).unwrap();
    let mut state = 0x5eed_u64;
    println!("seed {state:#x}");
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap()
    };
    for _ in 0..2000 {
        let mut damaged = component.clone();
        for _ in 0..=next() % 3 {
            let at = next() % damaged.len();
            damaged[at] = u8::try_from(next() & 0xff).unwrap();
        }
        check(&damaged).unwrap();
    }
}
