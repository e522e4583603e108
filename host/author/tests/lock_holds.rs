//! Test that the committed components were built from the committed sources.

use std::path::Path;

use eciton_author::Lock;

#[test]
fn sources_and_lock_file_agree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let stale = Lock::verify(&root).unwrap();
    let reasons: Vec<String> = stale.iter().map(|s| format!("{}: {:?}", s.name, s.reason)).collect();
    assert!(
        reasons.is_empty(),
        "{}\n`cargo run --release -- kernel build --builtin` makes them anew",
        reasons.join("\n")
    );
}

#[test]
fn committed_components_keep_the_contract() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for kernel in eciton_author::BUILTIN {
        let path = root.join(format!("guest-kernels/prebuilt/{}.wasm", kernel.name));
        let differences = eciton_author::check(&std::fs::read(&path).unwrap()).unwrap();
        assert!(differences.is_empty(), "{}: {differences:?}", kernel.name);
    }
}
