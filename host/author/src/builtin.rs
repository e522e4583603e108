//! Built-in kernels of Eciton. They are crates of the workspace, and their compiled components are
//! committed to the repository with a lock file.

use std::path::{Path, PathBuf};

use crate::compile::Build;
use crate::contract::MAX_COMPONENT_BYTES;
use crate::error::{Error, Result, io};
use crate::lock::{Entry, Lock};
use crate::toolchain::Toolchain;
use crate::{digest, file};

/// A built-in kernel. It is a crate of this workspace, and its component ships with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Name of the kernel. Its sources are in the folder `guest-kernels/NAME`.
    pub name: &'static str,
    /// Name of the kernel's Cargo package.
    pub package: &'static str,
    /// One-line description of the kernel, which `eciton kernel list` prints.
    pub does: &'static str,
}

/// All built-in kernels, in the order in which `eciton kernel list` prints them.
pub const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "activate",
        package: "eciton-activate",
        does: "an activation, with dropout and a bias, value by value",
    },
    Builtin {
        name: "attention",
        package: "eciton-attention",
        does: "the product and both ends' scores of graph attention (GAT)",
    },
    Builtin {
        name: "binary",
        package: "eciton-binary",
        does: "a product of the signs of rows and weights, with their scales",
    },
    Builtin { name: "concat", package: "eciton-concat", does: "the rows of all inputs side by side" },
    Builtin { name: "conv2d", package: "eciton-conv2d", does: "a convolution of images, channels last" },
    Builtin {
        name: "embedding",
        package: "eciton-embedding",
        does: "a row of a table for each number, and for each place in a sequence",
    },
    Builtin {
        name: "gatv2",
        package: "eciton-gatv2",
        does: "graph attention whose scores depend on both ends of an edge, on edges",
    },
    Builtin {
        name: "head",
        package: "eciton-head",
        does: "the last layer: scores, their loss and its gradients",
    },
    Builtin {
        name: "ipa",
        package: "eciton-ipa",
        does: "programs run by an instruction-pointer attention graph network",
    },
    Builtin {
        name: "linear",
        package: "eciton-linear",
        does: "y = activation(dropout(activation(x + c)) w + b), the layer of most models",
    },
    Builtin {
        name: "maximum",
        package: "eciton-maximum",
        does: "the largest value of all neighbours, column by column, on edges",
    },
    Builtin {
        name: "normalise",
        package: "eciton-normalise",
        does: "every row brought to one scale (layer, rms, l2), or shifted (batch)",
    },
    Builtin {
        name: "pool2d",
        package: "eciton-pool2d",
        does: "each window of an image reduced to its largest value or its mean",
    },
    Builtin { name: "product", package: "eciton-product", does: "two inputs multiplied, value by value" },
    Builtin {
        name: "self-attention",
        package: "eciton-self-attention",
        does: "each token of a sequence by all tokens that it may see",
    },
    Builtin { name: "slice", package: "eciton-slice", does: "some columns of a row" },
    Builtin {
        name: "spiking",
        package: "eciton-spiking",
        does: "two layers of leaky integrate-and-fire neurons, for T steps",
    },
    Builtin { name: "sum", package: "eciton-sum", does: "inputs added up, with given or trained factors" },
];

impl Builtin {
    /// Returns the folder of the kernel's sources in the repository at `root`.
    #[must_use]
    pub fn folder(&self, root: &Path) -> PathBuf {
        root.join("guest-kernels").join(self.name)
    }

    /// Returns the path of the kernel's committed component in the repository at `root`.
    #[must_use]
    pub fn component(&self, root: &Path) -> PathBuf {
        prebuilt(root).join(format!("{}.wasm", self.name))
    }

    /// Returns the digest of the kernel's sources in the repository at `root`, with those of the
    /// SDK and the contract. Dependencies from a registry are not included.
    ///
    /// # Errors
    /// Returns the errors of [`crate::source_digest`].
    pub fn source_digest(&self, root: &Path) -> Result<String> {
        let own = format!("guest-kernels/{}", self.name);
        digest::source_digest(root, &[&own, "guest-kernels/sdk", "wit/kernel"])
    }

    /// Returns the kernels with the given names, or all kernels if `names` is empty.
    fn chosen(names: &[&str]) -> Result<Vec<Self>> {
        if names.is_empty() {
            return Ok(BUILTIN.to_vec());
        }
        names
            .iter()
            .map(|name| {
                let found = BUILTIN.iter().find(|kernel| kernel.name == *name);
                found.copied().ok_or_else(|| Error::UnknownBuiltin {
                    name: (*name).to_owned(),
                    known: BUILTIN.iter().map(|kernel| kernel.name).collect::<Vec<_>>().join(", "),
                })
            })
            .collect()
    }
}

fn prebuilt(root: &Path) -> PathBuf {
    root.join("guest-kernels/prebuilt")
}

/// Comparison of a newly built kernel with its committed component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Lock file entry that describes the new build.
    pub built: Entry,
    /// Entry of the committed lock file. `None` if the lock file does not list the kernel.
    pub locked: Option<Entry>,
    /// True if the newly built component has the same bytes as the committed one.
    pub same_bytes: bool,
    /// True if the committed component was built from the current sources.
    pub same_sources: bool,
    /// True if the committed component was built with the same tool versions. Other versions
    /// produce other bytes, so `same_bytes` is then not conclusive.
    pub same_compiler: bool,
}

impl Comparison {
    /// Returns true if the committed component is up to date. With other tool versions, only the
    /// sources are compared.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.same_sources && (self.same_bytes || !self.same_compiler)
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.built.name;
        let locked = self.locked.as_ref().map_or("nothing", |entry| &entry.compiler);
        match (self.same_sources, self.same_bytes, self.same_compiler) {
            (true, true, _) => write!(f, "{name}: the committed component is what its sources make"),
            (true, false, false) => write!(
                f,
                "{name}: the sources are the locked ones; bytes cannot be compared, built by {} here and by {locked} there",
                self.built.compiler
            ),
            (true, false, true) => write!(
                f,
                "{name}: the same sources and tools made another component ({} here): were dependencies updated? build it again and commit it",
                self.built.component
            ),
            (false, ..) => write!(
                f,
                "{name}: its sources, the SDK's or the contract's changed since it was built: build it again and commit it"
            ),
        }
    }
}

/// Builds built-in kernels of the repository at `root` to `out_dir/NAME.wasm`, and returns their
/// lock file entries. If `names` is empty, all kernels are built. No other files change.
///
/// The callback `watch` receives each line that cargo and the compiler print.
///
/// # Errors
/// Returns an error if a name is unknown, if no toolchain is found, or if a build fails. Also
/// returns an error if a kernel does not fulfil the contract.
pub fn build_builtin(
    root: &Path,
    names: &[&str],
    out_dir: &Path,
    watch: &mut dyn FnMut(&str),
) -> Result<Vec<Entry>> {
    build_all(root, names, out_dir, false, watch)
}

/// Builds built-in kernels, replaces their components in `guest-kernels/prebuilt`, and updates
/// `guest-kernels/kernels.lock`. If `names` is empty, all kernels are built. Files change only
/// after all builds have succeeded.
///
/// # Errors
/// Returns the errors of [`build_builtin`], or an error if the lock file cannot be read.
pub fn update_builtin(root: &Path, names: &[&str], watch: &mut dyn FnMut(&str)) -> Result<Vec<Entry>> {
    let mut lock = if Lock::path(root).is_file() { Lock::read(root)? } else { Lock::default() };
    let staging = staging()?;
    let entries = build_all(root, names, staging.path(), false, watch)?;
    for kernel in Builtin::chosen(names)? {
        let built = staging.path().join(format!("{}.wasm", kernel.name));
        let component = file::read(&built, MAX_COMPONENT_BYTES)?;
        file::write(&kernel.component(root), &component)?;
    }
    for entry in &entries {
        lock.put(entry.clone());
    }
    lock.kernels.retain(|entry| BUILTIN.iter().any(|kernel| kernel.name == entry.name));
    lock.write(root)?;
    Ok(entries)
}

/// Builds built-in kernels in a temporary folder and compares them with the committed components.
/// If `names` is empty, all kernels are built. No file of the repository changes, so a build that
/// would change `Cargo.lock` fails.
///
/// # Errors
/// Returns the errors of [`build_builtin`], or an error if the lock file cannot be read.
pub fn check_builtin(root: &Path, names: &[&str], watch: &mut dyn FnMut(&str)) -> Result<Vec<Comparison>> {
    let lock = Lock::read(root)?;
    let staging = staging()?;
    let entries = build_all(root, names, staging.path(), true, watch)?;
    let mut comparisons = Vec::new();
    for (kernel, built) in Builtin::chosen(names)?.iter().zip(entries) {
        let path = kernel.component(root);
        let committed = match path.is_file() {
            true => digest::component_digest(&file::read(&path, MAX_COMPONENT_BYTES)?),
            false => String::new(),
        };
        let locked = lock.entry(kernel.name).cloned();
        let same = |test: &dyn Fn(&Entry) -> bool| locked.as_ref().is_some_and(test);
        comparisons.push(Comparison {
            same_bytes: committed == built.component,
            same_sources: same(&|entry| entry.sources == built.sources),
            same_compiler: same(&|entry| entry.compiler == built.compiler),
            locked,
            built,
        });
    }
    Ok(comparisons)
}

fn staging() -> Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(io("create a folder in", std::env::temp_dir()))
}

fn build_all(
    root: &Path,
    names: &[&str],
    out_dir: &Path,
    locked: bool,
    watch: &mut dyn FnMut(&str),
) -> Result<Vec<Entry>> {
    let kernels = Builtin::chosen(names)?;
    let toolchain = Toolchain::find(root)?;
    let mut entries = Vec::new();
    for kernel in kernels {
        // The digest is computed before the build. If a source changes during the build, the entry
        // is recognised as stale.
        let sources = kernel.source_digest(root)?;
        let built = Build::new(&toolchain, &kernel.folder(root))
            .locked(locked)
            .compact(true)
            .on_line(&mut *watch)
            .run(&out_dir.join(format!("{}.wasm", kernel.name)))?;
        if built.package != kernel.package {
            return Err(Error::NotAKernelCrate {
                manifest: kernel.folder(root).join("Cargo.toml"),
                found: format!("package {}, expected {}", built.package, kernel.package),
            });
        }
        entries.push(Entry {
            name: kernel.name.to_owned(),
            sources,
            component: built.digest,
            bytes: built.bytes_len,
            compiler: built.compiler,
        });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_checked() {
        let error = Builtin::chosen(&["linear", "liner"]).unwrap_err().to_string();
        assert!(error.contains("liner") && error.contains("gatv2, head"), "{error}");
        assert_eq!(Builtin::chosen(&[]).unwrap(), BUILTIN);
    }

    #[test]
    fn comparisons_say_what_to_do() {
        let entry = |component: &str, compiler: &str| Entry {
            name: "linear".to_owned(),
            sources: "s".to_owned(),
            component: component.to_owned(),
            bytes: 1,
            compiler: compiler.to_owned(),
        };
        let mut comparison = Comparison {
            built: entry("a", "rustc 1"),
            locked: Some(entry("b", "rustc 2")),
            same_bytes: false,
            same_sources: true,
            same_compiler: false,
        };
        assert!(comparison.holds());
        let text = comparison.to_string();
        assert!(text.contains("rustc 1") && text.contains("rustc 2"), "{text}");
        comparison.same_compiler = true;
        assert!(!comparison.holds());
        assert!(comparison.to_string().contains("dependencies"));
        comparison.same_sources = false;
        assert!(comparison.to_string().contains("commit"));
    }
}
