//! The target that the variable `ECITON_FUZZ_TARGET` names, on the bytes that libFuzzer finds.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

// Not by way of `eciton-tests`, which would have wasmtime's compiler and AWS's clients instrumented.
#[path = "../../src/fuzz.rs"]
mod fuzz;
use fuzz::{Target, target};

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("ECITON_FUZZ_TARGET").expect("ECITON_FUZZ_TARGET names a target");
    target(&name).unwrap_or_else(|| panic!("there is no target `{name}`"))
});
static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap());

fuzz_target!(|bytes: &[u8]| {
    (TARGET.run)(bytes, FOLDER.path());
});
