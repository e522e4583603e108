//! SHA-256 digests of components and of their sources.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result, io};
use crate::file;

/// Maximum number of source files of one kernel.
pub const MAX_SOURCE_FILES: u64 = 4096;
/// Maximum total size of the source files of one kernel, in bytes.
pub const MAX_SOURCE_BYTES: u64 = 64 << 20;

/// Returns the SHA-256 digest of a component, as `sha256:` and hexadecimal digits.
#[must_use]
pub fn component_digest(bytes: &[u8]) -> String {
    text(Sha256::digest(bytes).as_ref())
}

/// Returns the SHA-256 digest of all files under `folders`, as `sha256:` and hexadecimal digits.
/// The folders are relative to `root`.
///
/// The digest covers each file's path relative to `root` (with `/`) and its content, both with
/// their lengths, in sorted order. Folders named `target` or `tests`, files named `Cargo.lock`, and
/// names that start with a dot are excluded. As a result, the digest does not depend on build
/// output, the location of the checkout, or files that do not affect the component.
///
/// # Errors
/// Returns an error if a folder or file cannot be read, or is a link or another special file. Also
/// returns an error if there are more than [`MAX_SOURCE_FILES`] files or [`MAX_SOURCE_BYTES`]
/// bytes.
pub fn source_digest(root: &Path, folders: &[&str]) -> Result<String> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for folder in folders {
        collect(root, &root.join(folder), folder, &mut files)?;
    }
    files.sort();
    files.dedup();
    let mut hasher = Sha256::new();
    let mut left = MAX_SOURCE_BYTES;
    for (name, path) in &files {
        let content = file::read(path, MAX_SOURCE_BYTES)?;
        left = left.checked_sub(content.len() as u64).ok_or_else(|| Error::TooManySources {
            dir: root.to_owned(),
            found: MAX_SOURCE_BYTES - left + content.len() as u64,
            allowed: MAX_SOURCE_BYTES,
            unit: "bytes",
        })?;
        for part in [name.as_bytes(), &content] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    Ok(text(hasher.finalize().as_ref()))
}

fn collect(root: &Path, dir: &Path, relative: &str, files: &mut Vec<(String, PathBuf)>) -> Result<()> {
    for entry in std::fs::read_dir(dir).map_err(io("list", dir))? {
        let entry = entry.map_err(io("list", dir))?;
        let path = entry.path();
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            return Err(Error::OddSource { path, found: "a name that is not UTF-8" });
        };
        if name.starts_with('.') || matches!(name, "target" | "tests" | "Cargo.lock") {
            continue;
        }
        let relative = format!("{relative}/{name}");
        let kind = entry.file_type().map_err(io("look at", &path))?;
        if kind.is_dir() {
            collect(root, &path, &relative, files)?;
        } else if kind.is_file() {
            files.push((relative, path));
        } else {
            let found = if kind.is_symlink() { "a link" } else { "a special file" };
            return Err(Error::OddSource { path, found });
        }
        if files.len() as u64 > MAX_SOURCE_FILES {
            return Err(Error::TooManySources {
                dir: root.to_owned(),
                found: files.len() as u64,
                allowed: MAX_SOURCE_FILES,
                unit: "files",
            });
        }
    }
    Ok(())
}

fn text(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::from("sha256:");
    for byte in digest {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        dir
    }

    #[test]
    fn known_digest() {
        assert_eq!(
            component_digest(b"abc"),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn independent_of_place_and_builds() {
        let files = [("k/src/lib.rs", "a"), ("k/Cargo.toml", "b"), ("wit/k.wit", "c")];
        let one = tree(&files);
        let two = tree(&files);
        for (name, content) in [
            ("k/target/x", "1"),
            ("k/.swap", "2"),
            ("k/Cargo.lock", "3"),
            ("k/tests/t.rs", "4"),
            ("other/y", "5"),
        ] {
            let path = two.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let digest = source_digest(one.path(), &["k", "wit"]).unwrap();
        assert_eq!(digest, source_digest(two.path(), &["wit", "k"]).unwrap());
    }

    #[test]
    fn content_names_and_borders_matter() {
        let base = tree(&[("k/a", "xy"), ("k/b", "z")]);
        let digest = |files: &[(&str, &str)]| source_digest(tree(files).path(), &["k"]).unwrap();
        let expected = source_digest(base.path(), &["k"]).unwrap();
        assert_eq!(expected, digest(&[("k/b", "z"), ("k/a", "xy")]));
        assert_ne!(expected, digest(&[("k/a", "x"), ("k/b", "yz")]));
        assert_ne!(expected, digest(&[("k/a", "xy"), ("k/c", "z")]));
        assert_ne!(expected, digest(&[("k/a", "xy")]));
    }

    #[test]
    fn missing_folder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = source_digest(dir.path(), &["absent"]).unwrap_err().to_string();
        assert!(error.contains("absent"), "{error}");
    }
}
