//! Files that are no kernels: another contract, ambient imports, no component at all.

use std::path::PathBuf;

use eciton_tests::root;
use wit_parser::{LiftLowerAbi, ManglingAndAbi, Resolve};

use super::{assert_says, config, refused};

fn contract() -> String {
    std::fs::read_to_string(root().join("wit/kernel/kernel.wit")).unwrap()
}

/// A component of a world, made of functions that trap.
fn component_of(wit: &[&str], world: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let mut packages = Vec::new();
    for (at, text) in wit.iter().enumerate() {
        packages.push(resolve.push_str(format!("{at}.wit"), text).unwrap());
    }
    let package = *packages.last().unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mut module = wit_component::dummy_module(&resolve, world, ManglingAndAbi::Legacy(LiftLowerAbi::Sync));
    let encoding = wit_component::StringEncoding::UTF8;
    wit_component::embed_component_metadata(&mut module, &resolve, world, encoding).unwrap();
    wit_component::ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

fn fails(bytes: &[u8], words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("kernel.wasm");
    std::fs::write(&path, bytes).unwrap();
    let text = refused(config(&path));
    eprintln!("{text}\n");
    assert_says(&text, &["`linear`"]);
    assert_says(&text, words);
}

#[test]
fn the_kernels_of_this_suite_fit_the_contract() {
    let folder = root().join("tests/kernels/prebuilt");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let differences = eciton_author::check(&std::fs::read(&path).unwrap()).unwrap();
        assert!(differences.is_empty(), "{}, build it again: {differences:?}", path.display());
        count += 1;
    }
    assert!(count >= 16, "{count} components");
}

#[test]
fn ambient_imports_are_refused_by_name() {
    let wasi = "package wasi:random@0.2.3; interface random { get-random-u64: func() -> u64; }";
    let importing =
        contract().replace("    import log;\n", "    import log;\n    import wasi:random/random@0.2.3;\n");
    let bytes = component_of(&[wasi, &importing], "vertex-kernel");
    fails(&bytes, &["imports wasi:random/random@0.2.3", "no kernel is given"]);
}

#[test]
fn another_version_of_the_contract_is_refused() {
    let of = |version: &str| {
        let package = format!("eciton:kernel@{version}");
        component_of(&[&contract().replace(eciton_kernel::CONTRACT, &package)], "vertex-kernel")
    };
    let accepted =
        format!("this host accepts contracts {} to {}: ", eciton_author::OLDEST, eciton_author::VERSION);
    fails(&of("0.2.0"), &["vertex@0.2.0", &accepted, "build the kernel again with the SDK"]);
    fails(&of("0.1.999"), &["vertex@0.1.999", &accepted, "needs a newer eciton"]);
}

#[test]
fn two_versions_of_the_contract_are_refused() {
    let oldest = format!("eciton:kernel@{}", eciton_author::OLDEST);
    let both = contract().replace("    import random;\n", "");
    let both = both.replace(
        "    import log;\n",
        &format!("    import log;\n    import {};\n", oldest.replace('@', "/random@")),
    );
    let old = contract().replace(eciton_kernel::CONTRACT, &oldest);
    fails(
        &component_of(&[&old, &both], "vertex-kernel"),
        &["contracts 0.1.2 and 0.1.0", "a component speaks one"],
    );
}

#[test]
fn another_type_is_refused() {
    let other =
        contract().replace("attributes: func() -> list<attribute-spec>;", "attributes: func() -> u32;");
    assert_ne!(other, contract());
    fails(
        &component_of(&[&other], "vertex-kernel"),
        &[eciton_kernel::CONTRACT, "function attributes has another type", "list<types.attribute-spec>"],
    );
    let other = contract().replace("key: func(%stream: u32) -> u64;", "key: func(%stream: u32) -> u32;");
    assert_ne!(other, contract());
    fails(
        &component_of(&[&other], "vertex-kernel"),
        &[eciton_kernel::CONTRACT, "function key has another type", "u64"],
    );
}

#[test]
fn a_component_that_exports_nothing_is_refused() {
    let words = ["neither eciton:kernel/vertex@0.1.2 nor eciton:kernel/edge@0.1.2 is exported"];
    fails(&wat::parse_str("(component)").unwrap(), &words);
}

#[test]
fn files_that_are_no_components_are_refused() {
    fails(&wat::parse_str("(module)").unwrap(), &["core module"]);
    fails(b"", &["not WebAssembly"]);
    fails(b"this is no WebAssembly\n", &["not WebAssembly"]);
    fails(&[0xff; 4096], &["not WebAssembly"]);
}

#[test]
fn damaged_components_are_refused() {
    // Cut short, and with bytes changed: an answer, whatever it is, and no panic.
    let bytes = std::fs::read(root().join("guest-kernels/prebuilt/linear.wasm")).unwrap();
    for parts in [1, 2, 3] {
        fails(&bytes[..bytes.len() * parts / 4], &[]);
    }
    let runtime = eciton_kernel::Runtime::new(eciton_kernel::Settings::default()).unwrap();
    for seed in 0..20usize {
        let mut bytes = bytes.clone();
        let at = (seed * 2_654_435_761) % bytes.len();
        bytes[at] ^= 1 << (seed % 8);
        // It may still be a kernel, where the byte was a constant.
        if let Err(error) = runtime.load("linear", &bytes) {
            assert!(error.to_string().contains("`linear`"), "seed {seed}: {error}");
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    let text = refused(config(std::path::Path::new("no/such/kernel.wasm")));
    assert_says(&text, &["no/such/kernel.wasm"]);
}
