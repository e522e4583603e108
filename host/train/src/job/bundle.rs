//! Bundles. A bundle is a file or folder as one object of the store, in the form of a zip archive
//! whose entries are sorted by name.

use std::collections::BTreeSet;
use std::io::{Cursor, Read as _, Write as _};
use std::path::{Path, PathBuf};

use eciton_runs::run_folder::{MODEL, PREDICTIONS, SCHEMA};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use crate::error::{Error, Result};
use crate::initial_weights::schema_path;

/// Maximum number of files in a bundle.
const MAX_FILES: usize = 100_000;
/// Maximum depth of nested folders in a bundle.
const MAX_DEPTH: usize = 16;

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |source| Error::Read { path: path.to_owned(), source }
}

fn damaged(path: &Path) -> impl Fn(zip::result::ZipError) -> Error + '_ {
    move |error| Error::Read { path: path.to_owned(), source: std::io::Error::other(error) }
}

/// Packs a file or folder into a bundle, under `name`. If `name` is empty, the content of a folder
/// is at the top level. The same files always give the same bytes.
///
/// # Errors
/// Returns an error if a file cannot be read, if there are too many files, or if folders are nested
/// too deeply.
pub fn pack(path: &Path, name: &str) -> Result<Vec<u8>> {
    let mut files = BTreeSet::new();
    if path.is_dir() {
        let prefix = if name.is_empty() { String::new() } else { format!("{name}/") };
        walk(path, &prefix, 0, &mut files)?;
    } else {
        files.insert((name.to_owned(), path.to_owned()));
        if name == MODEL {
            // The schema of initial weights is needed to match the columns of the data to the
            // weights.
            files.extend(schema_path(path).map(|schema| (SCHEMA.to_owned(), schema)));
        }
    }
    archive(path, files, &|_| CompressionMethod::Stored)
}

/// Packs a run folder into a bundle of its predictions, if it has any, and a bundle of all other
/// files. The latter is returned first. Weights are not compressed, because they would hardly
/// become smaller.
///
/// # Errors
/// Returns the errors of [`pack`].
pub(super) fn pack_run(run: &Path) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
    let mut files = BTreeSet::new();
    walk(run, "", 0, &mut files)?;
    let named = |name: &str, last: &str| name.rsplit('/').next() == Some(last);
    let (predictions, rest): (BTreeSet<_>, BTreeSet<_>) =
        files.into_iter().partition(|(name, _)| named(name, PREDICTIONS));
    let method = |name: &str| match name.ends_with(".safetensors") {
        true => CompressionMethod::Stored,
        false => CompressionMethod::Deflated,
    };
    let predictions = (!predictions.is_empty()).then(|| archive(run, predictions, &method)).transpose()?;
    Ok((archive(run, rest, &method)?, predictions))
}

/// Packs files into a zip archive under the given names. `method` returns the compression of a file
/// by its name. `folder` is used in errors only.
fn archive(
    folder: &Path,
    files: BTreeSet<(String, PathBuf)>,
    method: &dyn Fn(&str) -> CompressionMethod,
) -> Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, path) in files {
        let mut from = eciton_input::file::open(&path).map_err(failed(&path))?;
        let options = SimpleFileOptions::default()
            .compression_method(method(&name))
            .last_modified_time(DateTime::default())
            .large_file(true);
        archive.start_file(name, options).map_err(damaged(&path))?;
        std::io::copy(&mut from, &mut archive).map_err(failed(&path))?;
    }
    let bytes = archive.finish().map_err(damaged(folder))?;
    Ok(bytes.into_inner())
}

/// Returns the path `FOLDER.ENDING`, at which a temporary folder is created that replaces `folder`
/// later.
pub(super) fn beside(folder: &Path, ending: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Adds all files of a folder and its subfolders to `files`, each with its name in the bundle.
fn walk(folder: &Path, prefix: &str, depth: usize, files: &mut BTreeSet<(String, PathBuf)>) -> Result<()> {
    let refuse = |found: &str| {
        let reason = format!("cannot send the folder to a function: {found}");
        failed(folder)(std::io::Error::other(reason))
    };
    if depth > MAX_DEPTH {
        return Err(refuse("its folders are nested too deeply"));
    }
    for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return Err(refuse("the name of a file is not UTF-8 text"));
        };
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            walk(&path, &format!("{name}/"), depth + 1, files)?;
        } else {
            files.insert((name, path));
        }
        if files.len() > MAX_FILES {
            return Err(refuse("it has too many files"));
        }
    }
    Ok(())
}

/// Unpacks a bundle into the folder `folder`, and replaces an existing one. The folder appears only
/// when it is complete.
///
/// # Errors
/// Returns an error if the bundle is damaged, has names outside the folder, or has more than
/// `limit` bytes. Also returns an error if the folder cannot be written.
pub fn unpack(bytes: &[u8], folder: &Path, limit: u64) -> Result<()> {
    let beside = beside(folder, "unpacked");
    remove(&beside)?;
    std::fs::create_dir_all(&beside).map_err(failed(&beside))?;
    extract(bytes, &beside, limit)?;
    remove(folder)?;
    std::fs::rename(&beside, folder).map_err(failed(folder))
}

/// Unpacks a bundle into an existing folder. Files that the bundle does not contain remain.
///
/// # Errors
/// Returns the errors of [`unpack`].
pub(super) fn extract(bytes: &[u8], folder: &Path, limit: u64) -> Result<()> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(damaged(folder))?;
    let mut left = limit;
    for at in 0..archive.len().min(MAX_FILES) {
        let mut entry = archive.by_index(at).map_err(damaged(folder))?;
        let name = entry.enclosed_name().ok_or_else(|| {
            Error::Job(format!("a bundle has the invalid file name `{}`", entry.name().unwrap_or_default()))
        })?;
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        let mut file = std::fs::File::create(&path).map_err(failed(&path))?;
        let written = std::io::copy(&mut (&mut entry).take(left.saturating_add(1)), &mut file)
            .map_err(failed(&path))?;
        if written > left {
            return Err(Error::Job(format!(
                "the unpacked files need more than {limit} bytes, which the memory of the function or \
                 container does not allow; raise executor.memory_mb, or the memory limit of the batch system"
            )));
        }
        left -= written;
        file.flush().map_err(failed(&path))?;
    }
    Ok(())
}

/// Removes a folder and its content. A missing folder is no error.
pub(super) fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(folder)(error)),
        _ => Ok(()),
    }
}

/// Returns the SHA-256 in the key of an object with files (`runs/files/{sha256}.zip`). Returns
/// `None` for any other key.
pub(super) fn name(key: &str) -> Option<&str> {
    let name = key.strip_prefix(super::FILES)?.strip_suffix(".zip")?;
    (name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(name)
}

/// Removes all folders in `kept` except those named in `wanted`, because the disk of a function is
/// small.
pub(super) fn keep_only<'a>(kept: &Path, wanted: impl Iterator<Item = &'a str>) -> Result<()> {
    std::fs::create_dir_all(kept).map_err(failed(kept))?;
    let wanted: BTreeSet<&str> = wanted.collect();
    for entry in std::fs::read_dir(kept).map_err(failed(kept))?.flatten() {
        if entry.file_name().to_str().is_none_or(|name| !wanted.contains(name)) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_folder_comes_back_and_the_same_files_give_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        std::fs::create_dir_all(from.join("deep/er")).unwrap();
        std::fs::write(from.join("b.txt"), "two").unwrap();
        std::fs::write(from.join("deep/er/a.txt"), "one").unwrap();
        let bytes = pack(&from, "").unwrap();
        assert_eq!(bytes, pack(&from, "").unwrap());
        let to = dir.path().join("to");
        unpack(&bytes, &to, 6).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("deep/er/a.txt")).unwrap(), "one");
        unpack(&bytes, &to, u64::MAX).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("b.txt")).unwrap(), "two", "without a limit");
        let said = unpack(&bytes, &dir.path().join("small"), 5).unwrap_err().to_string();
        assert!(said.contains("memory_mb") && !dir.path().join("small").exists(), "{said}");
        unpack(&pack(&from, "from").unwrap(), &to, 6).unwrap();
        assert!(to.join("from/b.txt").exists());
        unpack(&pack(&from.join("b.txt"), "c.txt").unwrap(), &to, 3).unwrap();
        assert!(to.join("c.txt").exists());
        assert_eq!(std::fs::read_dir(&to).unwrap().count(), 1, "what was there has gone");
    }

    #[test]
    fn predictions_of_all_seeds_are_a_bundle_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        std::fs::create_dir_all(run.join("seed-1")).unwrap();
        let scores = vec![7; 10_000];
        for (name, content) in [
            ("summary.json", &b"{}"[..]),
            ("predictions.npz", &scores),
            ("seed-1/predictions.npz", &scores),
            ("seed-1/model.safetensors", &scores),
        ] {
            std::fs::write(run.join(name), content).unwrap();
        }
        let (rest, predictions) = pack_run(&run).unwrap();
        let predictions = predictions.unwrap();
        assert!(rest.len() > 10_000, "weights are stored as they are");
        assert!(predictions.len() < 1000, "predictions are compressed: {} bytes", predictions.len());
        let to = dir.path().join("to");
        unpack(&rest, &to, 1 << 20).unwrap();
        assert!(to.join("summary.json").exists() && to.join("seed-1/model.safetensors").exists());
        assert!(!to.join("predictions.npz").exists() && !to.join("seed-1/predictions.npz").exists());
        extract(&predictions, &to, 1 << 20).unwrap();
        for name in ["predictions.npz", "seed-1/predictions.npz"] {
            assert_eq!(std::fs::read(to.join(name)).unwrap(), scores, "{name}");
        }
        std::fs::remove_file(run.join("predictions.npz")).unwrap();
        std::fs::remove_file(run.join("seed-1/predictions.npz")).unwrap();
        assert_eq!(pack_run(&run).unwrap().1, None);
    }

    #[test]
    fn what_is_no_bundle_or_leads_elsewhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("to");
        assert!(unpack(b"PK", &to, 9).is_err());
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        archive.start_file("../out.txt", SimpleFileOptions::default()).unwrap();
        let bytes = archive.finish().unwrap().into_inner();
        assert!(unpack(&bytes, &to, 9).unwrap_err().to_string().contains("../out.txt"));
        assert!(!dir.path().join("out.txt").exists() && !to.exists());
        for key in ["files/a.zip", "jobs/../a", &format!("files/{}.zip", "/".repeat(64))] {
            assert_eq!(name(key), None);
        }
        assert!(pack(&dir.path().join("none"), "none").is_err());
    }

    #[test]
    fn a_function_keeps_the_files_of_its_last_job() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        keep_only(dir.path(), ["b"].into_iter()).unwrap();
        assert!(!dir.path().join("a").exists() && dir.path().join("b").exists());
    }
}
