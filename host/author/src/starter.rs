//! Templates for new kernels, which can be built, tested and used in a training without changes.
//!
//! ```text
//! NAME/Cargo.toml  src/lib.rs  tests/gradients.rs  model.toml  .gitignore
//! NAME/sdk/        SDK and contract of this program
//!
//! NAME/kernel.c    bindings/  model.toml  .gitignore    in C
//! ```
//!
//! The folder of a new kernel contains a copy of the SDK, because no registry has it. As a result,
//! the crate can be built in the same way after the program is updated.

use std::path::{Path, PathBuf};

use crate::c::write_bindings;
use crate::error::{Error, Result, io};
use crate::file;

/// Maximum length of a kernel's name, in characters.
pub const MAX_NAME: usize = 64;
/// Template for a new kernel crate in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// Vertex kernel with a backward pass, which can replace the built-in kernel `linear`.
    Rows,
    /// Vertex kernel with only a forward pass. The SDK derives its gradients.
    Derived,
    /// Edge kernel with its backward passes.
    Edges,
}

impl Starter {
    /// Returns the name of the example kernel in the template's sources, in snake case and as a
    /// type.
    const fn example(self) -> [&'static str; 2] {
        match self {
            Self::Rows => ["squash", "Squash"],
            Self::Derived => ["glu", "Glu"],
            Self::Edges => ["gated", "Gated"],
        }
    }

    const fn sources(self) -> &'static [Source; 2] {
        match self {
            Self::Rows => &ROWS,
            Self::Derived => &DERIVED,
            Self::Edges => &EDGES,
        }
    }

    /// Returns a model file whose model uses the kernel, with a placeholder for its name.
    const fn model(self) -> &'static str {
        match self {
            Self::Rows | Self::Derived => MODEL,
            Self::Edges => EDGE_MODEL,
        }
    }
}

/// File of a template, with its path in the new folder and its content.
struct Source {
    path: &'static str,
    text: &'static str,
}

macro_rules! sdk {
    ($($path:literal),* $(,)?) => {
        &[$(Source {
            path: concat!("sdk/src/", $path),
            text: include_str!(concat!("../../../guest-kernels/sdk/src/", $path)),
        }),*]
    };
}

/// Source files of the SDK, without its tests.
const SDK: &[Source] = sdk![
    "check.rs",
    "check/edge.rs",
    "check/graph.rs",
    "check/points.rs",
    "check/vertex.rs",
    "compose.rs",
    "dense.rs",
    "derive.rs",
    "derive/edge.rs",
    "edge.rs",
    "given.rs",
    "glue.rs",
    "glue/edge.rs",
    "handles.rs",
    "lib.rs",
    "linalg.rs",
    "math.rs",
    "native.rs",
    "op.rs",
    "reference.rs",
    "reference/dense.rs",
    "reference/linalg.rs",
    "reference/random.rs",
    "reference/segments.rs",
    "reference/store.rs",
    "signature.rs",
    "tape.rs",
    "tape/dense.rs",
    "tape/edges.rs",
    "tape/lazy.rs",
    "tape/rules.rs",
    "tape/terms.rs",
    "tape/walk.rs",
    "types.rs",
];
const WIT: Source =
    Source { path: "sdk/wit/kernel.wit", text: include_str!("../../../wit/kernel/kernel.wit") };
/// Paths of the contract in the sources of the SDK: in the repository, and in a new crate.
const WIT_PATHS: [&str; 2] = ["\"../../wit/kernel\"", "\"wit\""];
const ROWS: [Source; 2] = [
    Source { path: "src/lib.rs", text: include_str!("../starter/src/lib.rs") },
    Source { path: "tests/gradients.rs", text: include_str!("../starter/tests/gradients.rs") },
];
const DERIVED: [Source; 2] = [
    Source { path: "src/lib.rs", text: include_str!("../starter/derived/src/lib.rs") },
    Source { path: "tests/gradients.rs", text: include_str!("../starter/derived/tests/gradients.rs") },
];
const EDGES: [Source; 2] = [
    Source { path: "src/lib.rs", text: include_str!("../starter/edge/src/lib.rs") },
    Source { path: "tests/gradients.rs", text: include_str!("../starter/edge/tests/gradients.rs") },
];
const MODEL: &str = include_str!("../starter/model.toml");
const EDGE_MODEL: &str = include_str!("../starter/edge/model.toml");
/// Placeholder for the kernel's name in model files.
const KERNEL: &str = "KERNEL";
/// Source of the example vertex kernel in C, from the repository.
const C: &str = include_str!("../../../guest-kernels/other-languages/c/kernel.c");
const C_GITIGNORE: &str = "/bindings\n/*.wasm\n";
const GITIGNORE: Source = Source { path: ".gitignore", text: "/target\n/*.wasm\n" };
/// Cargo manifest of the SDK in the repository.
const SDK_MANIFEST: &str = include_str!("../../../guest-kernels/sdk/Cargo.toml");

/// Creates a kernel crate in Rust in `folder/name` from a template, and returns the path of the new
/// folder. The folder is created atomically.
///
/// # Errors
/// Returns [`Error::KernelName`] if the name is not valid for a Rust package, [`Error::Exists`] if
/// the path exists, and [`Error::Io`] if a file cannot be written.
pub fn create(name: &str, folder: &Path, starter: Starter) -> Result<PathBuf> {
    make(name, folder, |made| {
        let write = |path: &str, text: &str| file::write(&made.join(path), text.as_bytes());
        write("Cargo.toml", &manifest(name))?;
        for source in starter.sources().iter().chain([&GITIGNORE]) {
            write(source.path, &named(source.text, starter.example(), name))?;
        }
        write("model.toml", &starter.model().replace(KERNEL, name))?;
        write("sdk/Cargo.toml", &sdk_manifest())?;
        write(WIT.path, WIT.text)?;
        for source in SDK {
            write(source.path, &source.text.replace(WIT_PATHS[0], WIT_PATHS[1]))?;
        }
        Ok(())
    })
}

/// Creates a vertex kernel in C in `folder/name`, and returns the path of the new folder. The
/// folder is created atomically.
///
/// # Errors
/// Returns the errors of [`create`], and an error if the contract cannot be converted to C.
pub fn create_c(name: &str, folder: &Path) -> Result<PathBuf> {
    make(name, folder, |made| {
        file::write(&made.join("kernel.c"), C.as_bytes())?;
        file::write(&made.join("model.toml"), MODEL.replace(KERNEL, name).as_bytes())?;
        file::write(&made.join(".gitignore"), C_GITIGNORE.as_bytes())?;
        write_bindings(made)
    })
}

/// Creates the folder `folder/name` atomically, with the files that `fill` writes to a temporary
/// folder.
fn make(name: &str, folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    check(name)?;
    let whole = folder.join(name);
    if whole.symlink_metadata().is_ok() {
        return Err(Error::Exists { path: whole });
    }
    std::fs::create_dir_all(folder).map_err(io("create", folder))?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".eciton-new-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(std::fs::Permissions::from_mode(0o777));
    }
    let made = builder.tempdir_in(folder).map_err(io("write in", folder))?;
    fill(made.path())?;
    // This fails if another process has created the path in the meantime, unless it is an empty
    // folder.
    std::fs::rename(made.path(), &whole).map_err(io("create", &whole))?;
    // The temporary folder was renamed, so it must not be deleted.
    let _ = made.keep();
    Ok(whole)
}

fn check(name: &str) -> Result<()> {
    let refuse = |found: &str| Err(Error::KernelName { name: name.to_owned(), found: found.to_owned() });
    if name.is_empty() || name.len() > MAX_NAME {
        return refuse("its length");
    }
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        return refuse("its first character");
    }
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if let Some(other) = name.chars().find(|&c| !fits(c)) {
        return refuse(&format!("the character {other:?}"));
    }
    // Words that neither a crate nor a type may be called, and names that would conflict with the
    // template.
    const TAKEN: [&str; 48] = [
        "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do",
        "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "if", "impl", "in", "let", "loop",
        "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
        "struct", "super", "trait", "true", "try", "type", "unsafe", "use", "where", "while", "yield",
        "kernel",
    ];
    const PACKAGES: [&str; 9] =
        ["sdk", "src", "std", "core", "alloc", "test", "tests", "eciton-sdk", "eciton_sdk"];
    if TAKEN.contains(&name) || PACKAGES.contains(&name) {
        return refuse("a word that has another meaning");
    }
    Ok(())
}

/// Replaces the names of the example kernel in a text by the name of the new kernel.
fn named(text: &str, [snake, pascal]: [&str; 2], name: &str) -> String {
    text.replace(snake, &name.replace('-', "_")).replace(pascal, &camel(name))
}

fn camel(name: &str) -> String {
    let words = name.split(['-', '_']).filter(|word| !word.is_empty());
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

fn manifest(name: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n\
         # `cdylib` makes the component, `rlib` lets tests use the same source natively.\n\
         [lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n\n\
         [dependencies]\neciton-sdk = {{ path = \"sdk\" }}\n\n\
         # A workspace of its own, wherever it lies.\n[workspace]\n"
    )
}

/// Returns a Cargo manifest for the SDK's copy in a new crate. It does not inherit settings from
/// the repository's workspace.
fn sdk_manifest() -> String {
    let wit_bindgen = SDK_MANIFEST.lines().find(|line| line.starts_with("wit-bindgen")).unwrap_or_default();
    format!(
        "[package]\nname = \"eciton-sdk\"\ndescription = \"What a kernel author depends on: the contract as plain Rust\"\n\
         version = \"{}\"\nedition = \"2024\"\nrust-version = \"1.85\"\nlicense = \"{}\"\npublish = false\n\n\
         [target.'cfg(target_arch = \"wasm32\")'.dependencies]\n{wit_bindgen}\n",
        env!("CARGO_PKG_VERSION"),
        env!("CARGO_PKG_LICENSE"),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn read(path: PathBuf) -> String {
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn repository() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn a_crate_has_the_sdk_as_it_is_and_its_own_name() {
        let dir = tempfile::tempdir().unwrap();
        let whole = create("soft-step_2", &dir.path().join("deep"), Starter::Rows).unwrap();
        assert_eq!(whole, dir.path().join("deep/soft-step_2"));
        let own = read(whole.join("src/lib.rs"));
        assert!(own.contains("pub struct SoftStep2 {") && own.contains("export_kernel!(SoftStep2)"), "{own}");
        assert!(read(whole.join("tests/gradients.rs")).contains("use soft_step_2::SoftStep2;"));
        assert!(read(whole.join("Cargo.toml")).contains("name = \"soft-step_2\""));
        assert!(read(whole.join("model.toml")).contains("kernel = \"./soft-step_2.wasm\""));
        assert!(!own.to_lowercase().contains("squash"));
        assert!(read(whole.join("sdk/Cargo.toml")).contains("\nwit-bindgen = {"));
        assert_eq!(read(whole.join("sdk/wit/kernel.wit")), WIT.text);
        let found = read(whole.join("sdk/src/lib.rs"));
        let lib = SDK.iter().find(|source| source.path == "sdk/src/lib.rs").unwrap();
        assert_eq!(found, lib.text.replace(WIT_PATHS[0], WIT_PATHS[1]));
        assert_ne!(found, lib.text, "the SDK names the contract's folder in another way now");
    }

    #[test]
    fn an_edge_kernel_has_its_own_sources() {
        let dir = tempfile::tempdir().unwrap();
        let whole = create("near-by", dir.path(), Starter::Edges).unwrap();
        let own = read(whole.join("src/lib.rs"));
        assert!(own.contains("impl EdgeKernel for NearBy {"), "{own}");
        assert!(own.contains("export_edge_kernel!(NearBy)") && !own.contains("Gated"), "{own}");
        assert!(read(whole.join("tests/gradients.rs")).contains("use near_by::NearBy;"));
        assert!(whole.join("sdk/src/glue/edge.rs").is_file() && whole.join(".gitignore").is_file());
    }

    #[test]
    fn a_derived_kernel_has_a_forward_pass_alone() {
        let dir = tempfile::tempdir().unwrap();
        let whole = create("mine", dir.path(), Starter::Derived).unwrap();
        let own = read(whole.join("src/lib.rs"));
        assert!(own.contains("impl ForwardKernel for Mine {") && !own.contains("fn backward"), "{own}");
        assert!(own.contains("export_kernel!(Derived<Mine>)"), "{own}");
        assert!(read(whole.join("tests/gradients.rs")).contains("use mine::Mine;"));
    }

    #[test]
    fn a_kernel_in_c_has_its_bindings() {
        let dir = tempfile::tempdir().unwrap();
        let whole = create_c("plain", dir.path()).unwrap();
        assert_eq!(read(whole.join("kernel.c")), C);
        for file in ["bindings/vertex_kernel.h", "bindings/edge_kernel.h", ".gitignore", "model.toml"] {
            assert!(whole.join(file).is_file(), "{file}");
        }
        assert!(crate::is_c(&whole));
        assert!(matches!(create_c("plain", dir.path()), Err(Error::Exists { .. })));
        assert!(!crate::is_c(&create("squash", dir.path(), Starter::Rows).unwrap()));
    }

    #[test]
    fn every_source_of_the_sdk_is_taken_along() {
        let root = repository().join("guest-kernels/sdk/src");
        let mut folders = vec![root.clone()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push(format!("sdk/src/{}", path.strip_prefix(&root).unwrap().display())),
                }
            }
        }
        found.retain(|path| !path.ends_with("/tests.rs"));
        found.sort();
        let mut taken: Vec<&str> = SDK.iter().map(|source| source.path).collect();
        taken.sort_unstable();
        assert_eq!(found, taken);
    }

    #[test]
    fn the_guide_shows_what_is_made() {
        let guide = read(repository().join("docs/how-to/write-a-kernel.md"));
        for source in ROWS.iter().chain(&DERIVED) {
            assert!(guide.contains(source.text), "the guide does not show {} as it is", source.path);
        }
    }

    #[test]
    fn names_that_cannot_be_are_refused_and_nothing_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let long = "a".repeat(MAX_NAME + 1);
        for name in ["", "A", "9", "a b", "a/b", "../a", "é", "fn", "sdk", "std", &long] {
            let error = create(name, dir.path(), Starter::Rows).unwrap_err();
            assert!(matches!(error, Error::KernelName { .. }), "{name}: {error}");
        }
        assert!(create(&"a".repeat(MAX_NAME), dir.path(), Starter::Edges).is_ok());
        let taken = dir.path().join("taken");
        std::fs::write(&taken, "mine").unwrap();
        assert!(matches!(create("taken", dir.path(), Starter::Rows), Err(Error::Exists { .. })));
        assert_eq!(read(taken), "mine");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
