//! Lock file of the built-in kernels. It records the digests of each kernel's sources and
//! component, and the tools that compiled it.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::builtin::{self, Builtin};
use crate::contract::MAX_COMPONENT_BYTES;
use crate::error::Result;
use crate::{digest, entries, file};

/// An entry of the lock file, which describes the last build of one built-in kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Name of the kernel, and of its folder.
    pub name: String,
    /// Digest of the sources, from [`Builtin::source_digest`].
    pub sources: String,
    /// SHA-256 digest of the component, as `sha256:` and hexadecimal digits.
    pub component: String,
    /// Size of the component, in bytes.
    pub bytes: u64,
    /// Versions of the compiler, of cargo and of the linker, from
    /// [`Toolchain::identity`](crate::Toolchain::identity).
    pub compiler: String,
}

impl entries::Entry for Entry {
    const HEADING: &'static str = "# Made by building the built-in kernels; not to be edited by hand.
# sources: digest of the kernel's folder, guest-kernels/sdk and wit/kernel (see eciton-author, digest.rs).
# component: digest of guest-kernels/prebuilt/NAME.wasm. compiler: what made these very bytes.
";
    const REMEDY: &'static str = "write it anew by building the built-in kernels";

    fn key(&self) -> &str {
        &self.name
    }
}

/// Content of the lock file `guest-kernels/kernels.lock`, which lists the built-in kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Entries of the built-in kernels, sorted by name.
    pub kernels: Vec<Entry>,
}

/// A built-in kernel whose sources, committed component and lock file entry do not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// Name of the stale kernel.
    pub name: String,
    /// Reason why the kernel needs to be built again.
    pub reason: Reason,
}

/// Reason why a built-in kernel needs to be built again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The lock file has no entry for the kernel.
    NotLocked,
    /// The lock file has an entry for a kernel that is not built-in.
    Unknown,
    /// The sources have changed since the committed component was built.
    Sources,
    /// The repository has no component of the kernel.
    NoComponent,
    /// The digest of the component differs from the one in the lock file.
    Component,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            Reason::NotLocked => "is not in guest-kernels/kernels.lock",
            Reason::Unknown => "is in guest-kernels/kernels.lock, but is no built-in kernel",
            Reason::Sources => "has sources (its own, the SDK's or the contract's) newer than its component",
            Reason::NoComponent => "has no component in guest-kernels/prebuilt",
            Reason::Component => "has a component that is not the locked one",
        };
        write!(f, "{}: {reason}; build the built-in kernels again", self.name)
    }
}

impl Lock {
    /// Returns the path of the lock file, `guest-kernels/kernels.lock` in the repository at `root`.
    #[must_use]
    pub fn path(root: &Path) -> PathBuf {
        root.join("guest-kernels/kernels.lock")
    }

    /// Reads the lock file of the repository at `root`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not TOML of this format, or lists a kernel
    /// twice.
    pub fn read(root: &Path) -> Result<Self> {
        entries::read(&Self::path(root)).map(|kernels| Self { kernels })
    }

    /// Writes the lock file of the repository at `root`. The file is replaced atomically.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, root: &Path) -> Result<()> {
        entries::write(&Self::path(root), &self.kernels)
    }

    /// Returns the entry of the kernel `name`, or `None` if the lock file does not list it.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.kernels.iter().find(|entry| entry.name == name)
    }

    /// Inserts an entry, which replaces an earlier entry of the same kernel.
    pub fn put(&mut self, entry: Entry) {
        entries::put(&mut self.kernels, entry);
    }

    /// Returns the built-in kernels of the repository at `root` whose sources, component and lock
    /// file entry do not match. No compiler is needed, because only digests are compared.
    ///
    /// # Errors
    /// Returns an error if the lock file, a source or a component cannot be read.
    pub fn verify(root: &Path) -> Result<Vec<Stale>> {
        Self::read(root)?.verify_against(root, builtin::BUILTIN)
    }

    fn verify_against(&self, root: &Path, builtin: &[Builtin]) -> Result<Vec<Stale>> {
        let mut stale = Vec::new();
        let mut add = |name: &str, reason| {
            stale.push(Stale { name: name.to_owned(), reason });
        };
        for kernel in builtin {
            let Some(entry) = self.entry(kernel.name) else {
                add(kernel.name, Reason::NotLocked);
                continue;
            };
            if kernel.source_digest(root)? != entry.sources {
                add(kernel.name, Reason::Sources);
            }
            let path = kernel.component(root);
            if !path.is_file() {
                add(kernel.name, Reason::NoComponent);
                continue;
            }
            let component = file::read(&path, MAX_COMPONENT_BYTES)?;
            let same_size = component.len() as u64 == entry.bytes;
            if !same_size || digest::component_digest(&component) != entry.component {
                add(kernel.name, Reason::Component);
            }
        }
        for entry in &self.kernels {
            if !builtin.iter().any(|kernel| kernel.name == entry.name) {
                add(&entry.name, Reason::Unknown);
            }
        }
        Ok(stale)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const KERNELS: &[Builtin] = &[Builtin { name: "one", package: "eciton-one", does: "" }];

    fn repository() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in [
            ("guest-kernels/one/src/lib.rs", "kernel"),
            ("guest-kernels/sdk/src/lib.rs", "sdk"),
            ("wit/kernel/kernel.wit", "contract"),
            ("guest-kernels/prebuilt/one.wasm", "component"),
        ] {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let mut lock = Lock::default();
        lock.put(Entry {
            name: "one".to_owned(),
            sources: KERNELS[0].source_digest(root.path()).unwrap(),
            component: digest::component_digest(b"component"),
            bytes: 9,
            compiler: "rustc 1.96.0".to_owned(),
        });
        lock.write(root.path()).unwrap();
        root
    }

    fn reasons(root: &Path) -> Vec<Reason> {
        let stale = Lock::read(root).unwrap().verify_against(root, KERNELS).unwrap();
        stale.into_iter().map(|stale| stale.reason).collect()
    }

    #[test]
    fn a_fresh_lock_holds() {
        let root = repository();
        assert_eq!(reasons(root.path()), []);
        let text = std::fs::read_to_string(Lock::path(root.path())).unwrap();
        assert!(text.starts_with("# Made by") && text.contains("[[kernel]]"), "{text}");
    }

    #[test]
    fn every_change_is_noticed() {
        for source in ["guest-kernels/one/x.rs", "guest-kernels/sdk/src/lib.rs", "wit/kernel/kernel.wit"] {
            let root = repository();
            std::fs::write(root.path().join(source), "other").unwrap();
            assert_eq!(reasons(root.path()), [Reason::Sources], "{source}");
        }
        let root = repository();
        let component = root.path().join("guest-kernels/prebuilt/one.wasm");
        std::fs::write(&component, "componenT").unwrap();
        assert_eq!(reasons(root.path()), [Reason::Component]);
        std::fs::remove_file(&component).unwrap();
        assert_eq!(reasons(root.path()), [Reason::NoComponent]);

        let root = repository();
        let mut lock = Lock::read(root.path()).unwrap();
        let mut entry = lock.kernels.remove(0);
        entry.name = "two".to_owned();
        lock.put(entry);
        lock.write(root.path()).unwrap();
        assert_eq!(reasons(root.path()), [Reason::NotLocked, Reason::Unknown]);
    }

    #[test]
    fn odd_lock_files_are_refused() {
        for (text, word) in [
            ("format = 2\n", "format 2"),
            ("format = 1\nother = 3\n", "other"),
            ("format = 1\nkernel = 3\n", "line 2"),
            ("version = 3\n", "no line `format = 1`"),
            ("\u{0}", "kernels.lock"),
        ] {
            let root = repository();
            std::fs::write(Lock::path(root.path()), text).unwrap();
            let error = Lock::read(root.path()).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("kernels.lock"), "{error}");
        }
        let root = repository();
        let path = Lock::path(root.path());
        let text = std::fs::read_to_string(&path).unwrap();
        let entry = text.split_once("[[kernel]]").unwrap().1;
        std::fs::write(&path, format!("{text}\n[[kernel]]{entry}")).unwrap();
        let error = Lock::read(root.path()).unwrap_err().to_string();
        assert!(error.contains("listed twice"), "{error}");
    }
}
