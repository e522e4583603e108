//! What the shipped binary is built from: no way round the sandbox.
use std::process::Command;

/// The kernels' Rust code.
const NEVER: [&str; 19] = [
    "eciton-sdk",
    "eciton-linear",
    "eciton-head",
    "eciton-activate",
    "eciton-attention",
    "eciton-normalise",
    "eciton-sum",
    "eciton-embedding",
    "eciton-self-attention",
    "eciton-conv2d",
    "eciton-pool2d",
    "eciton-gatv2",
    "eciton-maximum",
    "eciton-concat",
    "eciton-slice",
    "eciton-product",
    "eciton-ipa",
    "eciton-spiking",
    "eciton-binary",
];

#[test]
fn the_binary_has_no_kernels_as_native_code() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--package", "eciton", "--edges", "normal,features"])
        // Of this machine alone: crates of other systems are not there where only a build has fetched any.
        .args(["--prefix", "none"])
        .current_dir(eciton_tests::root())
        .output()
        .unwrap();
    let text = String::from_utf8(tree.stdout).unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    assert!(text.contains("eciton-kernel"), "{text}");
    for name in NEVER {
        let found: Vec<&str> = text.lines().filter(|l| l.contains(name)).collect();
        assert!(found.is_empty(), "the default build of eciton contains {name}: {found:?}");
    }
}
