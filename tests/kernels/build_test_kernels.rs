//! Builds the altered forms of `linear` into `tests/kernels/prebuilt`, all or those named.
//!
//! `cargo run -p eciton-tests --example build_test_kernels --release [NAME ...]`

use std::path::PathBuf;

use eciton_author::{Build, Error, Toolchain};

/// The features of `tests/kernels`.
const KERNELS: [&str; 37] = [
    "allocating",
    "derived",
    "doubled",
    "edge-aggregates",
    "edge-derived",
    "edge-keeping",
    "edge-looping",
    "edge-nan",
    "edge-plain",
    "edge-trapping",
    "edge-trapping-sources",
    "edge-unwritten",
    "edge-unwritten-sum",
    "edge-wrong-shape",
    "edge-wrong-signature",
    "error",
    "guest-elementwise",
    "guest-product",
    "handles",
    "impatient",
    "keeping",
    "keeping-open",
    "leaking",
    "logging",
    "looping",
    "looping-open",
    "nan",
    "recursing",
    "scratch",
    "slow",
    "trapping",
    "trapping-backward",
    "unwritten",
    "wrong-gradient",
    "wrong-shape",
    "wrong-signature",
    "wrong-weights",
];

fn main() -> Result<(), Error> {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let folder = eciton_tests::root().join("tests/kernels");
    let target: PathBuf = eciton_tests::root().join("target/test-kernels");
    let toolchain = Toolchain::find(&folder)?;
    for name in KERNELS {
        if !asked.is_empty() && !asked.iter().any(|a| a == name) {
            continue;
        }
        let out = eciton_tests::test_kernel(name);
        let build = Build::new(&toolchain, &folder).features(&[name]).locked(true);
        let built = build.compact(!name.starts_with("guest-")).target_dir(&target).run(&out)?;
        println!("{name}: {} bytes, {}", built.bytes_len, built.digest);
    }
    Ok(())
}
