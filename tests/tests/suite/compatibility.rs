//! Components that were built for a released version of the contract, `tests/compatibility/VERSION/`: they fit
//! it, and train in this host as the built-in kernels do.
//!
//! (That the contract of now offers what each released one does is a test of `eciton-author`.)
use std::path::{Path, PathBuf};

use eciton_author::{OLDEST, check, component_digest, version};
use eciton_recipe::{Config, ModelSettings};
use eciton_tests::{cora, options, root, train};

/// Digests of `wit/released/VERSION/kernel.wit`: a released text never changes. A release adds a line.
const RELEASED: [(&str, &str); 2] = [
    ("0.1.0", "sha256:e0c170c7cc03f2cce0f01d67c78832be9861393064fa479130d5d95fd6668aee"),
    ("0.1.1", "sha256:3cd93b9417ae7b0cb22bd47238b4e5b90b3343246cd638be4f044a057362df37"),
];

/// The names in a folder of the repository.
fn names(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Every component with the version that it was built for.
fn components() -> Vec<(String, String, PathBuf)> {
    let folder = "tests/compatibility";
    let of = |version: String| {
        let within = format!("{folder}/{version}");
        names(&within).into_iter().map(move |file| {
            let path = root().join(&within).join(&file);
            (version.clone(), file.strip_suffix(".wasm").unwrap().to_owned(), path)
        })
    };
    // `runs` has run folders of earlier versions.
    let versions = names(folder).into_iter().filter(|name| !name.ends_with(".md") && name != "runs");
    versions.flat_map(of).collect()
}

#[test]
fn released_texts_are_as_they_were_released() {
    let released: Vec<&str> = RELEASED.iter().map(|(version, _)| *version).collect();
    assert_eq!(names("wit/released"), released);
    assert_eq!(OLDEST, released[0]);
    for (version, digest) in RELEASED {
        let text = std::fs::read(root().join(format!("wit/released/{version}/kernel.wit"))).unwrap();
        assert_eq!(component_digest(&text), digest, "{version} is released: change wit/kernel instead");
    }
}

#[test]
fn components_fit_the_contract_that_they_were_built_for() {
    let components = components();
    for (released, _) in RELEASED {
        let count = components.iter().filter(|(of, ..)| of == released).count();
        assert!(count >= 3, "{released}: {count} components");
    }
    for (of, name, path) in components {
        let component = std::fs::read(&path).unwrap();
        assert_eq!((version(&component), check(&component).unwrap()), (&*of, vec![]), "{name}");
    }
}

/// Six epochs of a model: its losses, and the digest of its weights.
fn trained(config: &Config) -> (Vec<f64>, String) {
    let (summary, losses) = train(config, &options()).unwrap();
    assert!(losses.iter().all(|loss| loss.is_finite()) && losses[5] < losses[0], "{losses:?}");
    (losses, summary.model_digest)
}

fn model(text: &str) -> Config {
    Config { model: ModelSettings::parse(text, "model").unwrap(), ..cora(6) }
}

/// A model with the built-in kernel of a name in it, and the same with this component in its place.
fn models(name: &str, component: &Path) -> [Config; 2] {
    let builtin = match name {
        "linear" | "head" => model("kind = \"gcn\""),
        "gatv2" => model("kind = \"gatv2\"\nheads = 2"),
        // y = x w + b in C is no built-in kernel, but what `linear` computes.
        "plain" => {
            let linear = root().join("guest-kernels/prebuilt/linear.wasm");
            return [(linear.as_path(), ", bias = true"), (component, "")].map(|(path, attributes)| {
                model(&format!(
                    "hidden = 8\n[[layers]]\nkernel = \"gcn\"\n[[layers]]\nkernel = {path:?}\n\
                     attributes = {{ out-features = 7{attributes} }}\n"
                ))
            });
        }
        // What 0.1.1 added, the elementwise functions, over edges; the suites have the same source.
        "edge-aggregates" => {
            let now = root().join("tests/kernels/prebuilt/edge-aggregates.wasm");
            return [now.as_path(), component].map(|path| {
                model(&format!(
                    "hidden = 8\n[[layers]]\nkernel = \"gcn\"\n[[layers]]\nkernel = {path:?}\n\
                     on = \"edges\"\nwidth = 8\n[[layers]]\nkernel = \"gcn\"\n"
                ))
            });
        }
        other => panic!("{other}: say here which model it is trained in"),
    };
    let mut replaced = builtin.clone();
    replaced.kernels.insert(name.to_owned(), component.display().to_string());
    [builtin, replaced]
}

#[test]
fn components_train_as_built_in_kernels_do() {
    for (of, name, path) in components() {
        let [builtin, replaced] = models(&name, &path).map(|config| trained(&config));
        eprintln!("{name} of {of}: losses {:?}, weights {}", replaced.0, replaced.1);
        if name == "gatv2" {
            // What it composes of the contract's operations, and so how it rounds, is the kernel's own and may change.
            let close = |(now, then): (&f64, &f64)| (now - then).abs() <= 1e-3 * now.abs();
            assert!(
                builtin.0.iter().zip(&replaced.0).all(close),
                "{name} of {of}: {builtin:?}, {replaced:?}"
            );
        } else {
            assert_eq!(builtin, replaced, "{name} of {of}");
        }
    }
}

/// `EARLIER` in `eciton-train` names these: a run that began with one goes on with the built-in component.
#[test]
fn components_of_earlier_builds_compute_the_bits_of_the_built_in_ones() {
    let earlier = root().join("tests/kernels/earlier/activate.wasm");
    for text in [
        "kind = \"sage\"\nactivation = \"gelu\"\nnorm = \"layer\"",
        "kind = \"sage\"\nactivation = \"silu\"",
        "kind = \"gatv2\"\nheads = 2",
    ] {
        let builtin = model(text);
        let mut replaced = builtin.clone();
        replaced.kernels.insert("activate".to_owned(), earlier.display().to_string());
        assert_eq!(trained(&builtin), trained(&replaced), "{text}");
    }
    // It has no slope, and so refuses another one than its own.
    let mut config = model("kind = \"sage\"\nactivation = \"leaky-relu\"");
    config.kernels.insert("activate".to_owned(), earlier.display().to_string());
    let error = train(&config, &options()).unwrap_err().to_string();
    assert!(error.contains("slope"), "{error}");
}
