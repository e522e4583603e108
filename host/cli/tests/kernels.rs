//! `eciton kernel inspect`: what a component says of itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

fn inspect(folder: &Path, line: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
    command.args(["kernel", "inspect"]).args(line).current_dir(folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The built-in kernels, each in its file.
fn kernels() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for kernel in eciton_train::kernels::builtin() {
        std::fs::write(folder.path().join(format!("{}.wasm", kernel.name)), kernel.component).unwrap();
    }
    folder
}

fn object(folder: &Path, line: &[&str]) -> Value {
    let (code, out, err) = inspect(folder, &[line, &["--json"]].concat());
    assert_eq!((code, &*err), (Some(0), ""), "{line:?}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn a_kernel_says_what_it_is() {
    let folder = kernels();
    let found = object(folder.path(), &["linear.wasm"]);
    let component = std::fs::read(folder.path().join("linear.wasm")).unwrap();
    assert_eq!(found["bytes"], component.len());
    assert_eq!(found["digest"], eciton_author::component_digest(&component));
    assert_eq!((&found["contract"], &found["signature"]), (&json!("0.1.0"), &Value::Null));
    let interface = |side: &str, name: &str| {
        let all = found[side].as_array().unwrap();
        let name = format!("eciton:kernel/{name}@0.1.0");
        all.iter().find(|i| i["interface"] == name).unwrap_or_else(|| panic!("{name}: {all:?}"))["functions"]
            .clone()
    };
    assert!(!interface("imports", "linalg").as_array().unwrap().is_empty());
    let exported = interface("exports", "vertex");
    for function in ["attributes", "layer.open", "layer.signature", "layer.forward", "layer.backward"] {
        assert!(exported.as_array().unwrap().contains(&json!(function)), "{exported}");
    }
    let attributes = found["attributes"].as_array().unwrap();
    let out = attributes.iter().find(|a| a["name"] == "out-features").unwrap();
    assert_eq!(out["default"], Value::Null);
    assert!(attributes.iter().all(|a| a["meaning"].as_str().unwrap().len() > 5), "{attributes:?}");
    let (code, text, _) = inspect(folder.path(), &["linear.wasm"]);
    assert_eq!(code, Some(0));
    for word in ["eciton:kernel@0.1.0", "linalg: ", "layer.open", "out-features", "to be given", "--inputs"] {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
}

#[test]
fn a_layer_says_what_it_reads_writes_and_learns() {
    let folder = kernels();
    let line = ["linear.wasm", "--inputs", "16", "--set", "out-features=8"];
    let signature = object(folder.path(), &line)["signature"].clone();
    assert_eq!(signature["inputs"][0]["extents"], json!([16]));
    assert_eq!(signature["outputs"][0]["extents"], json!([8]));
    assert_eq!(signature["parameters"][0]["name"], "weight");
    assert_eq!(signature["parameters"][0]["shape"], json!([16, 8]));
    let (_, text, _) = inspect(folder.path(), &line);
    for word in ["weight [16, 8] (Glorot's uniform)", "[8] a row", "reads inputs, too"] {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
    let two = object(folder.path(), &["sum.wasm", "--inputs", "4,4"])["signature"].clone();
    assert_eq!(two["inputs"].as_array().unwrap().len(), 2);
    let loss = object(folder.path(), &["head.wasm", "--inputs", "7"])["signature"].clone();
    assert_eq!(loss["loss"], "classes");
}

#[test]
fn what_cannot_be_inspected_is_said() {
    let folder = kernels();
    std::fs::write(folder.path().join("not.wasm"), "text").unwrap();
    let cases: [(&[&str], i32, &str); 7] = [
        (&["absent.wasm"], 1, "absent.wasm: cannot be read"),
        (&["not.wasm"], 1, "not.wasm: not a kernel of contract 0.1.0, 1 difference"),
        (&["linear.wasm", "--set", "out-features=8"], 2, "--inputs"),
        (&["linear.wasm", "--inputs", "16"], 1, "attribute `out-features` must be given"),
        (
            &["linear.wasm", "--inputs", "16", "--set", "outfeatures=8"],
            1,
            "it has no attribute `outfeatures`",
        ),
        (&["linear.wasm", "--inputs", "16", "--set", "dropout=much"], 2, "`dropout` takes a number"),
        (&["linear.wasm", "--inputs", "16,b"], 2, "write extents as 16, or as 4x8"),
    ];
    for (line, code, words) in cases {
        let (found, out, err) = inspect(folder.path(), line);
        assert_eq!((found, &*out), (Some(code), ""), "{line:?}: {err}");
        assert!(err.contains(words), "{line:?}: {err}");
    }
}
