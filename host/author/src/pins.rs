//! Lock file of users' components, `eciton-kernels.lock`. It lists the components that may run,
//! with their digests.
//!
//! A lock file applies to the components in its folder and in subfolders, up to [`Pins::LEVELS`]
//! levels below. If several lock files apply, the nearest one takes precedence ([`Pins::nearest`]).
//! A run then accepts only components that this file lists, with the listed digests
//! ([`Pins::check`]). If no lock file applies, a run accepts any component.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::contract::version;
use crate::digest::component_digest;
use crate::entries;
use crate::error::{Error, Result, io};

/// An entry of the lock file, which permits one component to run. The digest identifies its
/// content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Path of the component relative to the folder of the lock file, with `/`.
    pub path: String,
    /// SHA-256 digest of the component, as `sha256:` and hexadecimal digits.
    pub component: String,
    /// Size of the component, in bytes.
    pub bytes: u64,
    /// Version of the kernel contract that the component was built for.
    pub contract: String,
}

impl entries::Entry for Pin {
    const HEADING: &'static str = "# Made by `eciton kernel add FILE`; keep it with the model. Of components in this folder and below, these may run.
# path: from here. component: the digest of its bytes. contract: the version that it was checked against.
";
    const REMEDY: &'static str =
        "repair it, or remove it and add the components again with `eciton kernel add FILE`";

    fn key(&self) -> &str {
        &self.path
    }

    fn odd(&self) -> Option<String> {
        let digits = self.component.strip_prefix("sha256:").unwrap_or_default();
        let whole = digits.len() == 64 && digits.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        let plain = self.path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        match (plain, whole) {
            (false, _) => Some("not a path of a file below here, in full".to_owned()),
            (_, false) => Some(format!("{:?} is not `sha256:` and 64 hexadecimal digits", self.component)),
            _ => None,
        }
    }
}

/// Lock file `eciton-kernels.lock` with the components that may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    /// Path of the lock file. Its folder is absolute and without symbolic links.
    path: PathBuf,
    /// Entries of the lock file, sorted by path.
    pins: Vec<Pin>,
}

impl Pins {
    /// File name of the lock file.
    pub const NAME: &str = "eciton-kernels.lock";
    /// Maximum number of folders between a lock file and a component to which it applies.
    pub const LEVELS: usize = 3;

    /// Opens the lock file in `folder`. If the file does not exist, the result has no entries.
    ///
    /// # Errors
    /// Returns an error if the folder or the file cannot be read, or if the file is not a lock file
    /// of components.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.canonicalize().map_err(io("open the folder", folder))?.join(Self::NAME);
        let pins = if is_there(&path) { entries::read(&path)? } else { Vec::new() };
        Ok(Self { path, pins })
    }

    /// Returns the path of the lock file that applies to a component, or `None`. It is in the
    /// component's folder, or in the nearest of the [`Pins::LEVELS`] folders above. `component` is
    /// the canonical path of the component.
    #[must_use]
    pub fn nearest(component: &Path) -> Option<PathBuf> {
        let folders = component.ancestors().skip(1).take(1 + Self::LEVELS);
        folders.map(|folder| folder.join(Self::NAME)).find(|path| is_there(path))
    }

    /// Checks that a run may use the component at the path `file`. `component` contains the bytes
    /// of that file.
    ///
    /// # Errors
    /// Returns [`Error::NotPinned`] if the lock file that applies does not list the component, and
    /// [`Error::OtherPinned`] if it lists another digest. Also returns an error if the lock file
    /// cannot be read.
    pub fn check(file: &Path, component: &[u8]) -> Result<()> {
        let whole = file.canonicalize().map_err(io("read", file))?;
        let Some(lock) = Self::nearest(&whole) else { return Ok(()) };
        let pins: Vec<Pin> = entries::read(&lock)?;
        let name = lock.parent().and_then(|folder| relative(folder, &whole));
        let pinned = pins.into_iter().find(|pin| Some(&pin.path) == name.as_ref());
        let (file, found) = (file.to_owned(), component_digest(component));
        match pinned {
            None => Err(Error::NotPinned { file, lock, found }),
            Some(pin) if pin.component != found => {
                Err(Error::OtherPinned { file, lock, pinned: pin.component, found })
            }
            Some(_) => Ok(()),
        }
    }

    /// Adds the component at the path `file` to the entries, where `component` contains the bytes
    /// of that file. Returns the new entry, and the earlier entry for the same path if there was
    /// one. The file changes only when [`Pins::write`] is called.
    ///
    /// # Errors
    /// Returns [`Error::OutOfReach`] if this lock file would not apply to the component, and
    /// [`Error::Io`] if the path cannot be resolved.
    pub fn pin(&mut self, file: &Path, component: &[u8]) -> Result<(Pin, Option<Pin>)> {
        let refuse = |found| Error::OutOfReach { file: file.to_owned(), lock: self.path.clone(), found };
        let whole = file.canonicalize().map_err(io("read", file))?;
        let own = whole.parent().unwrap_or(Path::new("/")).display();
        let path = relative(self.folder(), &whole).ok_or_else(|| {
            let levels = Self::LEVELS;
            refuse(format!(
                "a lock file applies to its own folder and {levels} levels below, but the component is in {own}; give --lock {own}"
            ))
        })?;
        if let Some(nearer) = Self::nearest(&whole).filter(|nearest| nearest.starts_with(self.folder()))
            && nearer != self.path
        {
            let nearer = nearer.display();
            return Err(refuse(format!("{nearer} is nearer; give --lock {nearer}, or remove that file")));
        }
        let contract = version(component).to_owned();
        let (component, bytes) = (component_digest(component), component.len() as u64);
        let pin = Pin { path, component, bytes, contract };
        let former = entries::put(&mut self.pins, pin.clone());
        Ok((pin, former))
    }

    /// Writes the lock file. An existing file is replaced atomically.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self) -> Result<()> {
        entries::write(&self.path, &self.pins)
    }

    /// Returns the path of the lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

/// Returns true if a path exists. A path that cannot be examined counts as existing, so that
/// reading it reports the reason.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().err().is_none_or(|error| error.kind() != std::io::ErrorKind::NotFound)
}

/// Returns the path of a component relative to `folder`, with `/`. Returns `None` if the component
/// is outside the folder or too many levels below it, or if the path is not UTF-8.
fn relative(folder: &Path, component: &Path) -> Option<String> {
    let parts = component.strip_prefix(folder).ok()?.iter().map(|part| part.to_str());
    let parts: Vec<&str> = parts.collect::<Option<_>>()?;
    (1..=1 + Pins::LEVELS).contains(&parts.len()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn put(path: &Path, content: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Pins a component and writes the lock file.
    fn pin(folder: &Path, file: &Path, component: &[u8]) -> Result<(Pin, Option<Pin>)> {
        let mut pins = Pins::open(folder)?;
        let done = pins.pin(file, component)?;
        pins.write()?;
        Ok(done)
    }

    #[test]
    fn what_is_pinned_runs_and_nothing_else() {
        let (_dir, root) = folder();
        let (one, two) = (root.join("a/b/c/one.wasm"), root.join("two.wasm"));
        put(&one, "1");
        put(&two, "2");
        Pins::check(&one, b"1").unwrap();
        let (first, former) = pin(&root, &one, b"1").unwrap();
        assert_eq!((&*first.path, first.bytes, former), ("a/b/c/one.wasm", 1, None));
        Pins::check(&one, b"1").unwrap();
        let error = Pins::check(&one, b"x").unwrap_err().to_string();
        for word in [&first.component, &component_digest(b"x"), "one.wasm", "eciton-kernels.lock"] {
            assert!(error.contains(word), "{error}");
        }
        assert!(error.contains(&format!("eciton kernel add {}", one.display())), "{error}");
        let error = Pins::check(&two, b"2").unwrap_err().to_string();
        assert!(error.contains("two.wasm: sha256:") && error.contains("is not in"), "{error}");
        assert_eq!(pin(&root, &one, b"x").unwrap().1, Some(first));
        Pins::check(&one, b"x").unwrap();
        pin(&root, &two, b"2").unwrap();
        let text = std::fs::read_to_string(root.join(Pins::NAME)).unwrap();
        assert!(text.find("a/b/c/one.wasm") < text.find("\"two.wasm\""), "sorted:\n{text}");
        assert_eq!(Pins::open(&root).unwrap().pins.len(), 2);
    }

    #[test]
    fn the_nearest_lock_counts() {
        let (_dir, root) = folder();
        let file = root.join("k/one.wasm");
        put(&file, "1");
        pin(&root, &file, b"1").unwrap();
        pin(&root.join("k"), &file, b"2").unwrap();
        assert!(Pins::check(&file, b"1").is_err());
        Pins::check(&file, b"2").unwrap();
        let error = pin(&root, &file, b"1").unwrap_err().to_string();
        assert!(error.contains("k/eciton-kernels.lock is nearer"), "{error}");
    }

    #[test]
    fn a_pin_that_no_run_would_see_is_refused() {
        let (_dir, root) = folder();
        let (deep, other) = (root.join("p/1/2/3/4/k.wasm"), root.join("k.wasm"));
        put(&deep, "1");
        put(&other, "1");
        for file in [&deep, &other] {
            let error = pin(&root.join("p"), file, b"1").unwrap_err().to_string();
            let own = format!("--lock {}", file.parent().unwrap().display());
            assert!(error.contains("would not apply to it") && error.contains(&own), "{error}");
        }
        assert!(!root.join("p").join(Pins::NAME).exists());
        #[cfg(unix)]
        {
            // The location of the component counts, not that of a link to it.
            let link = root.join("p/link.wasm");
            std::os::unix::fs::symlink(&other, &link).unwrap();
            assert!(pin(&root.join("p"), &link, b"1").is_err());
            pin(&root, &link, b"1").unwrap();
            assert!(Pins::check(&link, b"2").is_err());
        }
    }

    #[test]
    fn odd_lock_files_are_refused() {
        let (_dir, root) = folder();
        let file = root.join("k.wasm");
        put(&file, "1");
        pin(&root, &file, b"1").unwrap();
        let lock = root.join(Pins::NAME);
        let good = std::fs::read_to_string(&lock).unwrap();
        let digest = component_digest(b"1");
        for (text, words) in [
            (good.replace("format = 1", "format = 7"), "format 7, this program knows 1"),
            (good.replace("bytes = 1", "bytes = one"), "line "),
            (good.replace("bytes = 1", "octets = 1"), "octets"),
            (good.replace("k.wasm", "../k.wasm"), "not a path of a file below here"),
            (good.replace(&digest, &digest[..40]), "64 hexadecimal digits"),
            (good.replace("contract", "path"), "duplicate key"),
            (format!("{good}{}", &good[good.find("[[").unwrap()..]), "listed twice"),
            ("version = 3\n".to_owned(), "no line `format = 1`"),
            (String::new(), "no line `format = 1`"),
        ] {
            put(&lock, &text);
            for error in [Pins::check(&file, b"1").unwrap_err(), Pins::open(&root).unwrap_err()] {
                let error = error.to_string();
                assert!(error.contains(words) && error.contains("eciton-kernels.lock"), "{text}:\n{error}");
                assert!(error.contains("eciton kernel add FILE"), "{error}");
            }
        }
        std::fs::remove_file(&lock).unwrap();
        std::fs::create_dir(&lock).unwrap();
        assert!(Pins::check(&file, b"1").is_err(), "a folder in its place");
    }
}
